//! A TLS server with the real binary: every binding, allowed addresses, certificate renewal, an
//! attached terminal.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{ChildStderr, Command};

use serde_json::{Value, json};

use crate::authority::{Authority, outer_address};
use crate::bindings::{Grpc, V1};
use crate::driver::Machine;
use crate::oauth;
use crate::screen::Screen;
use crate::served::{Served, text_message};

const SIZE: (u16, u16) = (110, 40);
const READY: &str = "what shall I do?";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The interfaces of a card, as `binding version url`.
fn interfaces(card: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let listed = card["supportedInterfaces"].as_array().unwrap();
    listed
        .iter()
        .map(|one| format!("{} {}", text(&one["protocolBinding"]), text(&one["url"])))
        .collect()
}

/// A registered client gets its token and uses every binding over TLS.
#[tokio::test(flavor = "multi_thread")]
async fn every_binding_is_spoken_over_tls() {
    let machine = Machine::new();
    let authority = Authority::new(&machine);
    let client = oauth::register(&machine, "ann", &["--scope", "read,prompt,approve"]);
    let arguments = ["serve", "--port", "0", "--require-token"];
    let served = Served::encrypted(&machine, &authority, &arguments);
    let port = served.port;

    let card = served.get("/.well-known/agent-card.json").await;
    let named = interfaces(&card);
    assert!(named.contains(&format!("JSONRPC https://localhost:{port}")), "{named:?}");
    assert!(named.contains(&format!("GRPC localhost:{port}")), "{named:?}");
    let socket = format!(" wss://localhost:{port}/ws");
    assert!(named.iter().any(|one| one.ends_with(&socket)), "{named:?}");
    let text = card.to_string();
    assert!(text.contains(&format!("https://localhost:{port}/oauth/token")), "{text}");
    assert!(!text.contains("http://localhost") && !text.contains("ws://localhost"), "{text}");

    let token = client.token(&served).await;
    let list = served.call_as(&token, "/", "ListTasks", json!({})).await;
    assert_eq!(list["result"]["tasks"], json!([]), "{list}");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": { "message": text_message("say hi") } });
    let frames = served.stream(served.post(&body).bearer_auth(&token), usize::MAX).await;
    let last = &frames.last().unwrap().response["result"];
    assert_eq!(last["status"]["state"], "completed", "{last}");
    let task = last["taskId"].clone();

    let mut socket = served.socket_with("", Some(&token)).await;
    socket.send(1, "tasks/get", json!({ "id": task })).await;
    let got = socket.until(|value| value["id"] == 1).await;
    assert_eq!(got["result"]["id"], task, "{got}");

    let mut grpc = Grpc::connect_encrypted(port, &authority).await;
    let bearer = format!("Bearer {token}");
    let bearer = [("authorization", bearer.as_str())];
    let got = grpc.call_with(V1, "GetTask", json!({ "id": task }), &bearer).await;
    assert_eq!((got.code, &got.messages[0]["id"]), (0, &task));
    let health = grpc.call_with("grpc.health.v1.Health", "Check", json!({}), &[]).await;
    assert_eq!(health.code, 16, "nobody without a token");

    // A local client still needs a token over TLS.
    assert_eq!(oauth::status(&served, "wrong-token-0123456789").await, 401);
    let plain = reqwest::get(format!("http://127.0.0.1:{port}/")).await.unwrap();
    assert_eq!(plain.status(), 400);
    assert!(plain.text().await.unwrap().contains("This port speaks TLS: use https://"));
}

/// On loopback without tokens, the local user is identified over TLS as without it.
#[tokio::test]
async fn a_local_client_needs_no_token_over_tls() {
    let machine = Machine::new();
    let authority = Authority::new(&machine);
    let served = Served::encrypted(&machine, &authority, &["--a2a-port", "0"]);
    let list = served.call("ListTasks", json!({})).await;
    assert_eq!(list["result"]["tasks"], json!([]), "{list}");
}

/// Which flags allow which listen addresses, and the errors.
#[test]
fn a_server_listens_for_others_with_both_or_not_at_all() {
    let machine = Machine::new();
    let authority = Authority::new(&machine);
    let [cert_flag, cert, key_flag, key] = authority.flags();
    let tls = [cert_flag.as_str(), &cert, &key_flag, &key];
    let (empty, tokens) = (authority.path("authority.pem"), machine.tokens(TOKEN));
    let require = ["--require-token", "--token-file", tokens.as_str()];
    let wide = ["--listen", "0.0.0.0"];
    let none = authority.path("none.pem");
    let table: &[(&[&[&str]], &str)] = &[
        (&[&wide], "needs TLS (--tls-cert and --tls-key) and authentication (--require-token)"),
        (&[&wide, &require], "needs TLS (--tls-cert and --tls-key)"),
        (&[&wide, &tls], "needs authentication (--require-token)"),
        (&[&["--listen", "::"], &tls], "needs authentication (--require-token)"),
        (&[&wide, &tls, &["--token-file", &tokens]], "needs authentication (--require-token)"),
        (
            &[&wide, &tls, &require, &["--dev-credentials"]],
            "--dev-credentials accepts a published secret",
        ),
        (&[&["--tls-cert", &cert]], "--tls-cert needs the certificate's key: --tls-key FILE"),
        (&[&["--tls-key", &key]], "--tls-key needs the key's certificate: --tls-cert FILE"),
        (&[&["--tls-cert", &none, "--tls-key", &key]], "none.pem cannot be read: No such file"),
        (&[&["--tls-cert", &key, "--tls-key", &cert]], "are --tls-cert and --tls-key swapped?"),
        (&[&["--tls-cert", &empty, "--tls-key", &key]], "does not belong to the first certificate"),
    ];
    for (flags, expected) in table {
        for command in [&["serve", "--port", "0"][..], &["--a2a-port", "0"]] {
            let ran = machine.run(&[command, &flags.concat()].concat());
            assert_eq!(ran.code, 2, "{flags:?}: {}", ran.err);
            assert!(ran.err.contains(expected), "{flags:?}: {}\nexpected {expected}", ran.err);
            assert!(!ran.out.contains("://"), "{}", ran.out);
        }
    }
}

/// A client at a non-loopback address needs a token.
#[tokio::test]
async fn another_machine_is_served_with_a_token() {
    let machine = Machine::new();
    let authority = Authority::new(&machine);
    let Some(address) = outer_address() else { return };
    let tokens = machine.tokens(&format!("laptop:{TOKEN}"));
    let arguments = ["serve", "--port", "0", "--require-token", "--token-file", &tokens];
    for listen in [address.to_string(), "0.0.0.0".to_owned()] {
        let arguments = [&arguments[..], &["--listen", &listen]].concat();
        let served = Served::encrypted(&machine, &authority, &arguments);
        let base = format!("https://{}", SocketAddr::new(address, served.port));
        let get =
            async |path: &str| served.client.get(format!("{base}{path}")).send().await.unwrap();
        let card: Value = get("/.well-known/agent-card.json").await.json().await.unwrap();
        let own = if listen == "0.0.0.0" {
            format!("localhost:{}", served.port)
        } else {
            base[8..].to_owned()
        };
        assert!(interfaces(&card).contains(&format!("JSONRPC https://{own}")), "{card}");
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
        let post = || served.client.post(format!("{base}/")).json(&list);
        assert_eq!(post().send().await.unwrap().status(), 401, "the same user, but not loopback");
        let answer = post().bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let misled = post().bearer_auth(TOKEN).header("host", "evil.example");
        assert_eq!(misled.send().await.unwrap().status(), 421);
    }
}

/// The next line that contains this.
fn hears(lines: &mut std::io::Lines<BufReader<ChildStderr>>, part: &str) -> String {
    lines.map(Result::unwrap).find(|line| line.contains(part)).expect(part)
}

/// A configured certificate is renewed while the server runs, and the operator sees the result.
#[tokio::test]
async fn a_certificate_is_renewed_without_a_restart() {
    let machine = Machine::new();
    let authority = Authority::new(&machine);
    let (cert, key) = (authority.path("cert.pem"), authority.path("key.pem"));
    machine.configure(&format!("[server]\ntls_cert = \"{cert}\"\ntls_key = \"{key}\"\n"));
    let shown = machine.run(&["config"]);
    assert!(shown.out.contains("server.tls_cert") && shown.out.contains(&cert), "{}", shown.out);
    let mut served = Served::shared(&machine, &[]).believing(&authority);
    let mut lines = BufReader::new(served.child.stderr.take().unwrap()).lines();
    served.get("/.well-known/agent-card.json").await;
    std::fs::write(&cert, "nonsense").unwrap();
    let said = hears(&mut lines, "the certificate");
    let expected = format!("loggia: the certificate {cert} holds no certificate");
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.ends_with("; keeping the current certificate"), "{said}");
    served.client = authority.web_client();
    served.get("/.well-known/agent-card.json").await;
    let fresh = authority.issue();
    hears(&mut lines, "was read again; it is valid until");
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(authority.client());
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.peer_certificates().unwrap()[0], fresh);
}

/// The commands of docs/serving.md: a certificate from openssl, a server, and a terminal attached
/// with that certificate only.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_attaches_with_a_self_signed_certificate() {
    let machine = Machine::new();
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serving.md"));
    let page = page.unwrap();
    let from = page.find("openssl req").expect("the command");
    let written = page[from..].split("\n```").next().unwrap().replace("box.example", "localhost");
    let mut shell = Command::new("sh");
    shell.args(["-c", &written]);
    let made = machine.prepare(shell).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let tokens = machine.tokens(&format!("laptop:{TOKEN}"));
    let (cert, key) = (machine.file("server.pem"), machine.file("server.key"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let listen = ["--listen", "0.0.0.0", "--require-token", "--token-file", &tokens];
    let arguments = [&["--a2a-port", "0", "--tls-cert", cert, "--tls-key", key], &listen[..]];
    let served = Served::start(&machine, &arguments.concat());
    let url = format!("https://localhost:{}", served.port);
    let attach = ["attach", &url, "--token-file", &tokens, "--ca-file", cert];
    let mut away = Screen::sized(&machine, &attach, &[], SIZE);
    away.sees(READY);
    away.types("write a.txt: hi\r").sees("Allow Loggia to write a.txt?").sees("e change it first");
    away.types("y");
    away.sees("wrote a.txt");
    away.types("\x04").sees("code 0").is_restored();
    // An unknown authority, and a file without certificates.
    let mut unknown = Screen::sized(&machine, &attach[..4], &[], SIZE);
    unknown.sees("--ca-file FILE").sees("code 1");
    let mut nobody =
        Screen::sized(&machine, &[&attach[..5], &[tokens.as_str()]].concat(), &[], SIZE);
    nobody.sees("holds no certificate").sees("code 1");
}

/// A token is not sent unencrypted to another machine without --insecure.
#[test]
fn a_token_is_not_sent_in_the_clear() {
    let machine = Machine::new();
    let tokens = machine.tokens(&format!("laptop:{TOKEN}"));
    let Some(address) = outer_address() else { return };
    let listener = std::net::TcpListener::bind((address, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let attach = ["attach", &url, "--token-file", &tokens];
    let mut refused = Screen::sized(&machine, &attach, &[], SIZE);
    refused.sees("in the clear").sees("--insecure").sees("code 2");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody was connected to");
    listener.set_nonblocking(false).unwrap();
    let mut sent = Screen::sized(&machine, &[&attach[..], &["--insecure"]].concat(), &[], SIZE);
    let (stream, _) = listener.accept().unwrap();
    let head =
        BufReader::new(stream).lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let head: Vec<String> = head.collect();
    assert!(head.iter().any(|line| line.contains(TOKEN)), "{head:?}");
    sent.sees("code 1");
}
