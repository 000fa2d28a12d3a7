//! Identification of local peers: A01, A07 and A15, with real users, forks and namespaces.

use std::io::{BufRead, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::stage::{Reply, Server, Setup, connect, curl, curl_with};

const NOBODY: u32 = 65_534;
const ROUTES: &[&str] = &["/whoami", "/echo", "/rpc", "/events", "/ws", "/run", "/none", "/"];
const PUBLIC: &[&str] = &["/healthz", "/.well-known/agent-card.json"];

fn url(server: &Server, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", server.port)
}

#[test]
fn another_user_gets_only_public_paths() {
    let server = Server::start();
    for route in ROUTES {
        let answer = curl(&[&url(&server, route)], NOBODY);
        assert!(answer.contains("\"other-user\"") && answer.ends_with(" 403"), "{route}: {answer}");
        let json = ["-H", "Content-Type: application/json", "-d", "{}"];
        let answer = curl(&[&json[..], &[&url(&server, route)]].concat(), NOBODY);
        assert!(answer.contains("\"other-user\"") && answer.ends_with(" 403"), "{route}: {answer}");
    }
    for route in PUBLIC {
        assert!(curl(&[&url(&server, route)], NOBODY).ends_with(" 200"), "{route}");
    }
    let six = format!("http://[::1]:{}/whoami", server.port);
    assert!(curl(&["-g", &six], NOBODY).ends_with(" 403"));
    assert!(curl(&["--http2-prior-knowledge", &url(&server, "/whoami")], NOBODY).ends_with(" 403"));
}

#[test]
fn the_same_user_needs_no_token() {
    let server = Server::start();
    let whoami = url(&server, "/whoami");
    let ours = server.get("/whoami");
    assert_eq!(ours.body, r#"{"name":"local:0","scopes":[true,true,true,false]}"#);
    let six = format!("http://[::1]:{}/whoami", server.port);
    let mapped = format!("http://[::ffff:127.0.0.1]:{}/whoami", server.port);
    let host = format!("Host: 127.0.0.1:{}", server.port);
    for arguments in [&["-g", &six][..], &["-g", &mapped, "-H", &host], &[&whoami]] {
        let answer = curl(arguments, 0);
        assert!(answer.contains("local:0") && answer.ends_with(" 200"), "{answer}");
    }
}

#[test]
fn a_server_of_an_ordinary_user_knows_its_own() {
    let server = Server::with(Setup { uid: NOBODY, ..Setup::default() });
    let whoami = url(&server, "/whoami");
    let same = curl(&[&whoami], NOBODY);
    assert!(same.contains("local:65534") && same.ends_with(" 200"), "{same}");
    assert!(curl(&[&whoami], 65_533).contains("\"other-user\""));
    // The descriptors of root's processes cannot be read, so root needs a token.
    assert_eq!(server.get("/whoami").reason(), "token-needed");
}

#[test]
fn without_a_subreaper_local_clients_need_a_token() {
    let server = Server::with(Setup { subreaper: false, ..Setup::default() });
    let reply = server.get("/whoami");
    assert_eq!((reply.status, reply.reason()), (401, "token-needed".to_owned()));
}

#[test]
fn the_server_does_not_answer_itself() {
    assert_eq!(Server::start().get("/self").body, "403 own-process");
}

/// Ways in which a call may connect.
const CALLS: &[(&str, &str)] = &[
    ("a child", r#"curl -sS http://127.0.0.1:$PORT/whoami"#),
    ("over version 6", r#"curl -sS -g "http://[::1]:$PORT/whoami""#),
    (
        "over both",
        r#"curl -sS -g -H "Host: 127.0.0.1:$PORT" "http://[::ffff:127.0.0.1]:$PORT/whoami""#,
    ),
    ("HTTP/2", r#"curl -sS --http2-prior-knowledge http://127.0.0.1:$PORT/whoami"#),
    (
        "an orphan in a session of its own",
        r#"orphan() {
            me=$BASHPID
            until [ "$(awk '{ print $4 }' /proc/$me/stat)" = "$SERVER" ]; do :; done
            exec curl -sS http://127.0.0.1:$PORT/whoami
        }
        export -f orphan
        setsid bash -c 'orphan & exit 0' & exit 0"#,
    ),
    (
        "a connection that outlives the process that opened it",
        r#"exec 3<>/dev/tcp/127.0.0.1/$PORT
        {
            me=$BASHPID
            until [ "$(awk '{ print $4 }' /proc/$me/stat)" = "$SERVER" ]; do :; done
            printf 'GET /whoami HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\n\r\n' $PORT >&3
            cat <&3
        } & exit 0"#,
    ),
    ("a PID namespace", r#"unshare -pf --mount-proc curl -sS http://127.0.0.1:$PORT/whoami"#),
    ("a user namespace", r#"unshare -Ur curl -sS http://127.0.0.1:$PORT/whoami"#),
    ("both, twice", r#"unshare -Urpf unshare -Urpf curl -sS http://127.0.0.1:$PORT/whoami"#),
];

#[test]
fn a_descendant_of_a_call_gets_nothing() {
    for uid in [0, NOBODY] {
        let server = Server::with(Setup { uid, ..Setup::default() });
        let run = |script: &str| match uid {
            0 => server.run(script),
            // An ordinary user's server does not admit root without a token.
            _ => {
                let body = serde_json::json!({ "script": script }).to_string();
                let json = ["-H", "Content-Type: application/json", "-d", &body];
                curl(&[&json[..], &["-w", "", &url(&server, "/run")]].concat(), uid)
            }
        };
        for (way, script) in CALLS {
            if uid == NOBODY && script.contains("mount-proc") {
                continue;
            }
            let said = run(script);
            assert!(said.contains(r#""reason":"tool-descendant""#), "{way} as {uid}: {said}");
            assert!(said.contains(r#""code":403"#), "{way} as {uid}: {said}");
        }
        let public = run("curl -sS http://127.0.0.1:$PORT/healthz");
        assert_eq!(public, "ok", "what is public is public");
    }
}

#[test]
fn a_call_of_another_loggia_gets_nothing_either() {
    let (one, other) = (Server::start(), Server::start());
    let script = format!("curl -sS -w ' %{{http_code}}' {}", url(&one, "/whoami"));
    let said = other.run(&script);
    assert!(said.contains("tool-descendant") && said.ends_with(" 403"), "{said}");
}

const TOKEN: &str = "0123456789abcdef-hidden";

/// A server of this user with a token, and the directory that holds it.
fn with_token(uid: u32) -> (tempfile::TempDir, Server) {
    with_token_and(Setup { uid, ..Setup::default() })
}

fn with_token_and(setup: Setup) -> (tempfile::TempDir, Server) {
    let uid = setup.uid;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("tokens");
    std::fs::write(&path, format!("editor:{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&path, Some(uid), Some(uid)).unwrap();
    let tokens = Some(path.to_str().unwrap().to_owned());
    (directory, Server::with(Setup { tokens, ..setup }))
}

/// The output of a call of the server, started by a process of this user.
fn run_as(server: &Server, uid: u32, script: &str) -> String {
    let body = serde_json::json!({ "script": script }).to_string();
    let json = ["-H", "Content-Type: application/json", "-d", &body, "-w", ""];
    curl(&[&json[..], &[&url(server, "/run")]].concat(), uid)
}

/// A copy of curl that is executable and not readable: its process hides its descriptors, as with
/// `prctl(PR_SET_DUMPABLE)`.
fn hidden_curl(directory: &tempfile::TempDir) -> String {
    let hidden = directory.path().join("curl");
    std::fs::copy("/usr/bin/curl", &hidden).unwrap();
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o711)).unwrap();
    hidden.to_str().unwrap().to_owned()
}

#[test]
fn a_call_that_hides_gets_nothing_with_a_token_either() {
    let (directory, server) = with_token(NOBODY);
    let (hidden, whoami) = (hidden_curl(&directory), url(&server, "/whoami"));
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for header in ["X-None: 1", &bearer] {
        let script = format!("{hidden} -sS -w ' %{{http_code}}' -H '{header}' {whoami}");
        let said = run_as(&server, NOBODY, &script);
        assert!(said.contains("hidden-process") && said.ends_with(" 403"), "{header}: {said}");
    }
    let seen = curl(&["-H", &bearer, &whoami], NOBODY);
    assert!(seen.contains("token:editor") && seen.ends_with(" 200"), "{seen}");
}

/// A user that no other test uses, so that no call of theirs runs.
fn own_uid(offset: u32) -> u32 {
    200_000 + 2 * std::process::id() + offset
}

/// A hidden process may be a call, so it is refused with a token too, also while no call runs.
#[test]
fn a_hidden_process_gets_nothing() {
    let uid = own_uid(0);
    let (directory, server) = with_token(uid);
    let (hidden, whoami) = (hidden_curl(&directory), url(&server, "/whoami"));
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for header in ["X-None: 1", &bearer] {
        let said = curl_with(&hidden, &["-H", header, &whoami], uid);
        assert!(said.contains("hidden-process") && said.ends_with(" 403"), "{header}: {said}");
        assert!(said.contains("--allow-hidden-peers"), "it says what to do: {said}");
    }
}

/// With `allow_hidden_peers` a hidden process needs a token, and is refused while a call of the same
/// user runs. Calls of other users do not matter.
#[test]
fn hidden_processes_can_be_allowed_with_a_token() {
    let (uid, other) = (own_uid(0), own_uid(1));
    let allow = Setup { uid, allow_hidden_peers: true, ..Setup::default() };
    let (directory, server) = with_token_and(allow);
    let (hidden, whoami) = (hidden_curl(&directory), url(&server, "/whoami"));
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let ask = || curl_with(&hidden, &["-H", &bearer, &whoami], uid);
    // A process that is exiting while it is read counts as a running call.
    let ask_until_admitted = || {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut said = ask();
        while said.contains("is running") && said.ends_with(" 403") && Instant::now() < deadline {
            said = ask();
        }
        said
    };
    let foreign = Server::with(Setup { uid: other, ..Setup::default() });
    let without = curl_with(&hidden, &[&whoami], uid);
    assert!(without.contains("token-needed") && without.ends_with(" 401"), "{without}");
    let wait = |path: &std::path::Path| {
        format!("touch {0}.begun; until [ -e {0}.end ]; do sleep 0.01; done", path.display())
    };
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let during = |server: &Server, uid: u32, name: &str, ask: &dyn Fn() -> String| {
        let path = directory.path().join(name);
        std::thread::scope(|scope| {
            scope.spawn(|| run_as(server, uid, &wait(&path)));
            while !path.with_extension("begun").exists() {
                std::thread::yield_now();
            }
            let said = ask();
            std::fs::write(path.with_extension("end"), "").unwrap();
            said
        })
    };
    let said = during(&foreign, other, "foreign", &ask_until_admitted);
    assert!(said.contains("token:editor") && said.ends_with(" 200"), "{said}");
    let said = during(&server, uid, "own", &ask);
    assert!(said.contains("hidden-process") && said.ends_with(" 403"), "{said}");
    assert!(said.contains("is running"), "{said}");
    let said = ask_until_admitted();
    assert!(said.contains("token:editor") && said.ends_with(" 200"), "{said}");
}

/// A thread's own table of descriptors is not visible to root either.
#[test]
fn a_thread_of_a_call_that_hides_gets_nothing() {
    for uid in [0, NOBODY] {
        let (_directory, server) = with_token(uid);
        let program = std::env::current_exe().unwrap();
        let script = format!(
            "echo {} {TOKEN} | {} child_hider --exact --nocapture --quiet",
            server.port,
            program.display()
        );
        let said = run_as(&server, uid, &script);
        assert!(said.contains("hidden-process") && !said.contains("token:editor"), "{uid}: {said}");
    }
}

/// Sends a request from a thread with its own table of descriptors, and prints the answer.
pub fn hide_and_ask() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let Some((port, token)) = line.trim().split_once(' ') else { return };
    let port: u16 = port.parse().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES).unwrap();
            let mut stream = connect(port);
            let host = format!("Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}");
            write!(stream, "GET /whoami HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n").unwrap();
            println!("{}", Reply::read(&mut stream).body);
        });
    });
}

/// Other users are refused, and cannot lock out this one by holding connections.
#[test]
fn another_user_cannot_use_up_the_connections() {
    // None of them is closed for being silent while the test runs.
    let silent = Setup { header_millis: 120_000, idle_millis: 120_000, ..Setup::default() };
    let server = Server::with(Setup { connections: 256, ..silent });
    let script = "for i in $(seq 300); do exec {fd}<>/dev/tcp/127.0.0.1/$PORT; done; echo all; cat";
    let mut holder = std::process::Command::new("bash");
    holder.args(["-c", script]).env("PORT", server.port.to_string());
    holder.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    std::os::unix::process::CommandExt::uid(&mut holder, NOBODY);
    let mut holder = holder.spawn().unwrap();
    let mut said = std::io::BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "all\n");
    let mut ours: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    for stream in &mut ours {
        let host = format!("Host: 127.0.0.1:{}", server.port);
        write!(stream, "GET /whoami HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
        assert_eq!(Reply::read(stream).status, 200);
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_socket_that_a_call_shares_stays_the_calls() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("meet");
    let meeting = UnixListener::bind(&path).unwrap();
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "echo {} {} | {} child_sharer --exact --nocapture --quiet",
        server.port,
        path.display(),
        program.display()
    );
    std::thread::scope(|scope| {
        let call = scope.spawn(|| server.run(&script));
        let (caller, _) = meeting.accept().unwrap();
        let mut shared = receive(&caller);
        let host = format!("Host: 127.0.0.1:{}", server.port);
        write!(shared, "GET /whoami HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
        let reply = Reply::read(&mut shared);
        assert_eq!((reply.status, reply.reason()), (403, "tool-descendant".to_owned()));
        drop(caller);
        call.join().unwrap();
        write!(shared, "GET /whoami HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
        assert_eq!(Reply::read(&mut shared).status, 403, "judged once");
    });
}

/// Connects, passes the connection to the listener, and waits until that hangs up.
pub fn share_connection() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let Some((port, path)) = line.trim().split_once(' ') else { return };
    let connection = connect(port.parse().unwrap());
    let mut meeting = UnixStream::connect(path).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let shared = [connection.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&shared)));
    sendmsg(&meeting, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty()).unwrap();
    meeting.read_to_end(&mut Vec::new()).unwrap();
}

fn receive(meeting: &UnixStream) -> TcpStream {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(meeting, &mut bytes, &mut ancillary, RecvFlags::empty()).unwrap();
    let rights = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    TcpStream::from(rights.expect("a descriptor"))
}

#[test]
fn identifying_peers_is_cheap_and_shared() {
    let server = Server::start();
    let mut first = Vec::new();
    let mut later = Vec::new();
    let request = format!("GET /whoami HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port);
    for _ in 0..50 {
        let mut stream = server.connect();
        for times in [&mut first, &mut later] {
            let started = Instant::now();
            stream.write_all(request.as_bytes()).unwrap();
            assert_eq!(Reply::read(&mut stream).status, 200);
            times.push(started.elapsed());
        }
    }
    first.sort_unstable();
    later.sort_unstable();
    let processes = std::fs::read_dir("/proc").unwrap().count();
    println!(
        "first request {:?}, later {:?} (median of 50, {processes} entries in /proc)",
        first[25], later[25]
    );
    let started = Instant::now();
    let mut streams: Vec<TcpStream> = (0..500).map(|_| server.connect()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(request.as_bytes()).unwrap());
    for stream in &mut streams {
        assert_eq!(Reply::read(stream).status, 200);
    }
    println!("500 connections at once known after {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
