//! TLS: which clients are admitted from where, plain HTTP, slow clients, and renewal of the certificate.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::stage::{Server, Setup, curl};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// An authority, and files that a server reads.
struct Authority {
    directory: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the test's authority");
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        let authority =
            Self { directory, issuer: Issuer::new(params, key), root: root.der().clone() };
        authority.write("authority.pem", &root.pem());
        authority.write("tokens", &format!("ann:{TOKEN}\n"));
        authority.issue();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }

    /// A new certificate for the same names, in place of the old one.
    fn issue(&self) -> CertificateDer<'static> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        names.extend(outer_address().map(|address| address.to_string()));
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write("cert.pem", &certificate.pem());
        self.write("key.pem", &key.serialize_pem());
        certificate.der().clone()
    }

    fn setup(&self) -> Setup {
        let tls = Some((self.text("cert.pem"), self.text("key.pem")));
        Setup { tls, ..Setup::default() }
    }

    /// For other machines.
    fn open_setup(&self) -> Setup {
        let tokens = Some(self.text("tokens"));
        Setup { listen: "0.0.0.0".to_owned(), require_token: true, tokens, ..self.setup() }
    }

    fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }

    fn connect(&self, server: &Server) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(self.client(), name).unwrap();
        StreamOwned::new(client, server.connect())
    }

    /// A request on a connection of its own: its answer, and the certificate that came with it.
    fn get(&self, server: &Server, path: &str) -> (String, CertificateDer<'static>) {
        let mut stream = self.connect(server);
        let host = format!("Host: localhost:{}\r\nConnection: close", server.port);
        write!(stream, "GET {path} HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let certificate = stream.conn.peer_certificates().unwrap()[0].clone().into_owned();
        (answer, certificate)
    }

    fn curl(&self, uid: u32, more: &[&str]) -> String {
        // Another user may read the authority only.
        let authority = self.text("authority.pem");
        std::fs::set_permissions(&authority, PermissionsExt::from_mode(0o644)).unwrap();
        let open = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.directory.path(), open).unwrap();
        curl(&[&["--cacert", &authority], more].concat(), uid)
    }
}

/// An address of this machine that is not loopback, if it has one. Nothing is sent.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    Some(socket.local_addr().unwrap().ip())
}

fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut rest);
    rest
}

#[test]
fn loopback_clients_are_identified_with_tls_too() {
    let authority = Authority::new();
    let server = Server::with(authority.setup());
    let url = format!("https://localhost:{}/whoami", server.port);
    for protocol in ["--http1.1", "--http2"] {
        let output = authority.curl(0, &[protocol, "-w", " %{http_version} %{http_code}", &url]);
        assert!(output.contains("local:0"), "{output}");
        let version = if protocol == "--http2" { " 2 200" } else { " 1.1 200" };
        assert!(output.ends_with(version), "{output}");
    }
    for version in ["1.2", "1.3"] {
        let output = authority.curl(0, &["--tlsv1.2", "--tls-max", version, &url]);
        assert!(output.contains("local:0"), "TLS {version}: {output}");
    }
    let output = authority.curl(65_534, &[&url]);
    assert!(output.contains("other-user") && output.ends_with(" 403"), "{output}");
}

#[test]
fn from_elsewhere_only_a_token_opens() {
    let authority = Authority::new();
    let said = Server::try_with(Setup { require_token: false, ..authority.open_setup() });
    let said = said.err().unwrap();
    assert!(said.contains("needs authentication (--require-token); or listen"), "{said}");
    let server = Server::with(authority.open_setup());
    let here = format!("https://localhost:{}/whoami", server.port);
    let output = authority.curl(0, &[&here]);
    assert!(output.contains("token-needed") && output.ends_with(" 401"), "{output}");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert!(authority.curl(0, &["-H", &bearer, &here]).contains("token:ann"));
    let Some(address) = outer_address() else { return };
    // By the outer address even the same user needs a token.
    let there = format!("https://{}/whoami", SocketAddr::new(address, server.port));
    for uid in [0, 65_534] {
        let output = authority.curl(uid, &[&there]);
        assert!(output.contains("token-needed") && output.ends_with(" 401"), "{uid}: {output}");
        assert!(authority.curl(uid, &["-H", &bearer, &there]).contains("token:ann"), "{uid}");
    }
    let output = authority.curl(0, &["-H", "Host: evil.example", "-H", &bearer, &there]);
    assert!(output.ends_with(" 421"), "{output}");
    let wrong = "Authorization: Bearer 0000000000000000";
    assert!(authority.curl(0, &["-H", wrong, &there]).ends_with(" 401"));
}

/// A call that has found the token is recognized by the outer address, too.
#[test]
fn a_tool_gains_nothing_by_the_outer_address() {
    let authority = Authority::new();
    let Some(address) = outer_address() else { return };
    let server = Server::with(authority.open_setup());
    let there = SocketAddr::new(address, server.port);
    let (bearer, root) =
        (format!("Authorization: Bearer {TOKEN}"), authority.text("authority.pem"));
    let curl = format!("curl -sS -w ' %{{http_code}}' --cacert {root} -H '{bearer}'");
    let body = serde_json::json!({ "script": format!("{curl} https://{there}/whoami") });
    let body = body.to_string();
    let run = format!("https://localhost:{}/run", server.port);
    let json = "Content-Type: application/json";
    let output = authority.curl(0, &["-H", &bearer, "-H", json, "-d", &body, &run]);
    assert!(output.contains("tool-descendant") && output.contains(" 403 200"), "{output}");
}

#[test]
fn plain_http_on_a_tls_port_gets_a_hint() {
    let authority = Authority::new();
    let server = Server::with(authority.setup());
    for request in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /rpc HTTP/1.1\r\n", "GE"] {
        let reply = server.send(request);
        assert_eq!((reply.status, reply.reason()), (400, "tls-needed".to_owned()), "{request}");
    }
    let mut preface = server.connect();
    preface.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let output = rest(&mut preface);
    assert!(output.ends_with(b"This port speaks TLS: use https."), "{output:?}");
    let gone = std::process::Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", &format!("http://127.0.0.1:{}/", server.port)])
        .output()
        .unwrap();
    assert!(!gone.status.success(), "a real client understands it as an end");
    for noise in [&b"\x00\x01\x02\x03"[..], b"\x80\x2e\x01\x00\x02", b"\xff\xff\xff\xff"] {
        let mut stream = server.connect();
        stream.write_all(noise).unwrap();
        assert_eq!(rest(&mut stream), b"", "no response to other protocols");
    }
    // An invalid greeting ends in an alert.
    let mut broken = server.connect();
    broken.write_all(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00").unwrap();
    assert_eq!(rest(&mut broken).first(), Some(&21));
    assert!(authority.get(&server, "/healthz").0.contains(" 200 "));
}

#[test]
fn silent_and_slow_handshakes_end_by_the_clock() {
    let authority = Authority::new();
    let setup = Setup { handshake_millis: 2_500, connections: 64, ..authority.setup() };
    let server = Server::with(setup);
    assert!(authority.get(&server, "/healthz").0.contains(" 200 "));
    let before = server.resident_kilobytes();
    let begun = Instant::now();
    let mut silent: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    let mut slow: Vec<TcpStream> = (0..8).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"\x16\x03\x01\x02").unwrap();
    }
    // Other clients do not wait.
    assert!(authority.get(&server, "/healthz").0.contains(" 200 "));
    assert!(server.resident_kilobytes() < before + 4_096, "next to nothing is held for them");
    for stream in silent.iter_mut().chain(&mut slow) {
        assert_eq!(rest(stream), b"");
    }
    assert!(begun.elapsed() >= Duration::from_millis(2_500));
    // After the handshake the limit for a head applies.
    let mut late = authority.connect(&server);
    late.conn.complete_io(&mut late.sock).unwrap();
    let mut witness = server.connect();
    assert_eq!(rest(&mut witness), b"");
    write!(late, "GET /healthz HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.port).unwrap();
    let mut first = [0; 12];
    late.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

#[test]
fn a_client_that_reads_nothing_is_dropped_behind_tls_as_well() {
    let authority = Authority::new();
    let server = Server::with(Setup { stall_millis: 500, ..authority.setup() });
    let mut stalled = authority.connect(&server);
    write!(stalled, "GET /flood HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.port).unwrap();
    stalled.flush().unwrap();
    let started = Instant::now();
    // A write to a connection that the server has closed is answered with a reset.
    while stalled.sock.write_all(b"x").is_ok() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
}

#[test]
fn slow_headers_over_tls_get_408() {
    let authority = Authority::new();
    let server = Server::with(Setup { header_millis: 1_500, ..authority.setup() });
    let mut stream = authority.connect(&server);
    stream.write_all(b"GET /healthz HT").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("headers-too-slow"), "{answer}");
}

/// Renewal under load: no client is refused, and a bad pair changes nothing.
#[test]
fn the_certificate_is_exchanged_under_load() {
    let authority = Authority::new();
    let mut server = Server::with(Setup { header_millis: 600_000, ..authority.setup() });
    let (answer, first) = authority.get(&server, "/healthz");
    assert!(answer.contains(" 200 "));
    let mut held = authority.connect(&server);
    held.conn.complete_io(&mut held.sock).unwrap();
    let (done, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let port = server.port;
    let (second, third) = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let name = ServerName::try_from("localhost").unwrap();
                while !done.load(Ordering::Relaxed) {
                    let client = ClientConnection::new(authority.client(), name.clone()).unwrap();
                    let mut stream = StreamOwned::new(client, crate::stage::connect(port));
                    let host = format!("Host: localhost:{port}\r\nConnection: close");
                    write!(stream, "GET /healthz HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).unwrap();
                    assert!(answer.contains(" 200 "), "{answer}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Half a file, and then an invalid one: the certificate in use stays.
        authority.write("key.pem", &KeyPair::generate().unwrap().serialize_pem());
        let said = server.read_line();
        assert!(said.starts_with("kept the key ") && said.contains("does not belong"), "{said}");
        assert_eq!(authority.get(&server, "/healthz").1, first);
        authority.write("cert.pem", "nonsense");
        let said = server.read_line();
        assert!(said.starts_with("kept the certificate "), "{said}");
        let second = authority.issue();
        let said = server.read_line();
        assert!(said.starts_with("exchanged ") && said.contains("was read again"), "{said}");
        let third = authority.get(&server, "/healthz").1;
        done.store(true, Ordering::Relaxed);
        (second, third)
    });
    assert_ne!(first, second);
    assert_eq!(third, second);
    println!("{} connections while it was exchanged", served.load(Ordering::Relaxed));
    assert!(served.load(Ordering::Relaxed) > 0);
    // Existing connections continue.
    write!(held, "GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    held.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// One other machine cannot take every connection: here it is this one, by its outer address.
#[test]
fn one_machine_gets_no_more_than_its_share() {
    let authority = Authority::new();
    let Some(address) = outer_address() else { return };
    let server = Server::with(Setup { connections: 64, ..authority.open_setup() });
    let there = SocketAddr::new(address, server.port);
    let held: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(there).unwrap()).collect();
    let mut further = TcpStream::connect(there).unwrap();
    further.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(rest(&mut further), b"", "closed at once");
    assert!(authority.get(&server, "/healthz").0.contains(" 200 "), "loopback is not counted");
    drop(held);
}

#[test]
fn an_address_that_is_not_there_is_named() {
    let authority = Authority::new();
    let setup = Setup { listen: "198.51.100.7".to_owned(), ..authority.open_setup() };
    let said = Server::try_with(setup).err().unwrap();
    assert!(said.starts_with("cannot listen on 198.51.100.7:0: "), "{said}");
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = Server::try_with(Setup { port, ..authority.open_setup() }).err().unwrap();
    assert!(said.contains(&format!("port {port} is in use")), "{said}");
}
