//! Where the server listens and where it does not: A05, R24.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::Instant;

use crate::stage::{Server, Setup};

/// Local addresses in LISTEN on a port, as the kernel writes them.
fn listeners(port: u16) -> BTreeSet<String> {
    listeners_of("self", port)
}

/// In the network that a process sees.
fn listeners_of(process: &str, port: u16) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap();
        for line in table.lines() {
            let columns: Vec<&str> = line.split_ascii_whitespace().collect();
            if columns[3] == "0A" && columns[1].ends_with(&format!(":{port:04X}")) {
                found.insert(columns[1].split(':').next().unwrap().to_owned());
            }
        }
    }
    found
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn refusal(setup: Setup) -> String {
    match Server::try_with(setup) {
        Ok(server) => panic!("it listens on {}", server.port),
        Err(refusal) => refusal,
    }
}

#[test]
fn by_default_only_loopback_is_listened_on() {
    let server = Server::start();
    let loopback = ["0100007F".to_owned(), "00000000000000000000000001000000".to_owned()];
    assert_eq!(listeners(server.port), BTreeSet::from(loopback));
}

#[test]
fn addresses_that_others_reach_are_refused_before_they_are_bound() {
    for listen in ["0.0.0.0", "::", "[::]", "192.0.2.1", "10.0.0.1", "::ffff:0.0.0.0", "fe80::1"] {
        let port = free_port();
        let started = Instant::now();
        let setup = Setup { listen: listen.to_owned(), port, ..Setup::default() };
        let said = refusal(setup.clone());
        println!("{said} ({:?})", started.elapsed());
        let both = "needs TLS (--tls-cert and --tls-key) and authentication (--require-token)";
        assert!(said.contains(both), "{said}");
        assert!(listeners(port).is_empty());
        let said = refusal(Setup { require_token: true, ..setup });
        assert!(said.contains("needs TLS (--tls-cert and --tls-key); or"), "{said}");
    }
    for listen in ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"] {
        let setup = Setup { listen: listen.to_owned(), ..Setup::default() };
        assert_eq!(listeners(Server::with(setup).port).len(), 1, "{listen}");
    }
}

#[test]
fn a_port_in_use_is_named_with_its_holder() {
    let holder = Server::start();
    let taken = Setup { port: holder.port, ..Setup::default() };
    let said = refusal(taken.clone());
    let wanted = format!("port {} is in use by process {} (", holder.port, holder.child.id());
    assert!(said.starts_with(&wanted), "{said}");
    println!("{said}");
    let said = refusal(Setup { uid: 65_534, ..taken });
    let wanted = format!("port {} is in use: choose another", holder.port);
    assert!(said.starts_with(&wanted), "not visible to others: {said}");
}

#[test]
fn the_other_family_counts_as_well() {
    let six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let port = six.local_addr().unwrap().port();
    let said = refusal(Setup { port, ..Setup::default() });
    assert!(said.contains(&format!("in use by process {}", std::process::id())), "{said}");
    assert_eq!(listeners(port).len(), 1, "nothing half bound is left");
}

#[test]
fn a_machine_without_version_6_has_the_other() {
    let server = Server::with(Setup { only_version_4: true, ..Setup::default() });
    let pid = server.child.id().to_string();
    assert_eq!(listeners_of(&pid, server.port), BTreeSet::from(["0100007F".to_owned()]));
    let mut nsenter = std::process::Command::new("nsenter");
    let url = format!("http://localhost:{}/whoami", server.port);
    let output = nsenter.args(["-t", &pid, "-n", "curl", "-sS", &url]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("local:0"), "{output:?}");
}

#[test]
fn privileged_ports_are_explained() {
    let said = refusal(Setup { port: 80, uid: 65_534, ..Setup::default() });
    assert_eq!(said, "port 80 is privileged: choose one from 1024 up, or 0 for any");
}
