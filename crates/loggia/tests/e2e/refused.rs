//! Requests that the server refuses or accepts.

use std::io::{Read, Write};

use futures::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::driver::Machine;
use crate::served::{Served, text_message};

/// No wildcard, and no origin that a browser never sends.
#[test]
fn an_allowed_origin_is_one_origin() {
    let machine = Machine::new();
    for origin in ["*", "https://*.example", "null", "https://console.example/", "console.example"]
    {
        let ran = machine.run(&["serve", "--port", "0", "--allowed-origin", origin]);
        assert_eq!(ran.code, 2, "{origin}: {}", ran.err);
        assert!(ran.err.contains(&format!("`{origin}` is not a valid origin")), "{}", ran.err);
    }
}

/// R24: an error with exit code 2, and no files left behind.
#[tokio::test]
async fn ports_that_cannot_be_had() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let other = Machine::new();
    let port = served.port.to_string();
    let ran = other.run(&["--a2a-port", &port]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains(&format!("in use by process {}", served.child.id())), "{}", ran.err);
    assert!(!other.data().exists(), "no trace");
    for port in ["70000", "x", "-1", "", "1.5"] {
        for arguments in [&["--a2a-port", port][..], &["serve", "--port", port]] {
            let ran = other.run(arguments);
            assert_eq!(ran.code, 2, "{}", ran.err);
            let says = ran.err.contains("a number from 0 to 65535");
            assert!(says && ran.err.contains(port), "{port}: {}", ran.err);
        }
    }
    for address in ["http://x.example:443", "x.example", ""] {
        let ran = other.run(&["serve", "--port", "0", "--grpc-url", address]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("such as box.example:443"), "{address}: {}", ran.err);
    }
    assert_eq!(other.run(&["--a2a-port", "0", "run", "say x"]).code, 2);
    let ran = other.run(&["serve", "--listen", "0.0.0.0", "--port", "0"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("TLS"), "{}", ran.err);
}

/// The name of a proxy, with and without the default port of its scheme.
#[tokio::test]
async fn a_public_address_is_answered_however_clients_write_its_port() {
    let machine = Machine::new();
    let table: &[(&str, &[&str], &[&str])] = &[
        ("https://x.example:443", &["x.example", "x.example:443"], &["x.example:80", "y.example"]),
        ("https://x.example", &["x.example", "x.example:443"], &["x.example:80"]),
        ("https://x.example/below", &["x.example:443"], &["x.example:8443"]),
        ("http://x.example:80", &["x.example", "x.example:80"], &["x.example:443"]),
        ("http://x.example", &["x.example", "x.example:80"], &["x.example:443"]),
        ("https://x.example:8443", &["x.example:8443"], &["x.example", "x.example:443"]),
        ("https://[2001:db8::1]", &["[2001:db8::1]", "[2001:db8::1]:443"], &["[2001:db8::2]:443"]),
    ];
    for (public, ours, others) in table {
        let served = Served::start(&machine, &["serve", "--port", "0", "--public-url", public]);
        for (hosts, status) in [(ours, 200), (others, 421)] {
            for host in *hosts {
                let card = served.request("GET", "/.well-known/agent-card.json");
                let card = card.header("Host", *host).send().await.unwrap();
                assert_eq!(card.status(), status, "{public}: {host}");
            }
        }
    }
}

#[test]
fn a_public_address_that_is_none_is_refused() {
    let machine = Machine::new();
    for (url, says) in [
        ("https://x.example/?q", "must not contain `?`"),
        ("https://x.example?q", "must not contain `?`"),
        ("https://x.example/#f", "or `#`"),
        ("https://u:secret@x.example/", "must not contain a user or password"),
        ("https://x.example:port", "such as"),
        ("https://", "such as"),
        ("https:///x", "such as"),
        ("https://x y", "such as"),
        ("ftp://x.example", "such as"),
        ("x.example", "such as"),
    ] {
        let ran = machine.run(&["serve", "--port", "0", "--public-url", url]);
        assert_eq!(ran.code, 2, "{url}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("--public-url") && ran.err.contains(says), "{url}: {}", ran.err);
        assert!(!ran.err.contains("secret"), "{}", ran.err);
    }
}

/// A2A has no notifications: a request without an id is executed and answered with a null id, as
/// the official servers do, on every JSON-RPC route.
#[tokio::test]
async fn a_request_without_an_id_is_answered_under_null() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let calls = [
        ("/", json!({ "jsonrpc": "2.0", "method": "tasks/get", "params": { "id": "x" } })),
        ("/", json!({ "jsonrpc": "2.0", "method": "GetTask", "params": { "id": "x" } })),
        (
            "/a2a",
            json!({ "jsonrpc": "2.0", "id": null, "method": "tasks/get",
                         "params": { "id": "x" } }),
        ),
        // The task service.
        (
            "/",
            json!({ "jsonrpc": "2.0", "method": "tasks/pushNotification/get",
                      "params": { "id": "x" } }),
        ),
    ];
    for (path, call) in &calls {
        let response = served.request("POST", path).json(call).send().await.unwrap();
        assert_eq!(response.status(), 200, "{call}");
        let answer: Value = response.json().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32001)));
        assert!(answer.as_object().unwrap().contains_key("id"), "{answer}");
    }
    let batch = json!([calls[0].1, calls[1].1]);
    let answers: Value = served.post(&batch).send().await.unwrap().json().await.unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 2, "{answers}");
    let mut socket = served.socket("").await;
    socket.stream.send(Message::text(calls[0].1.to_string())).await.unwrap();
    let answer = socket.until(|value| value["error"]["code"] == -32001).await;
    assert_eq!(answer.get("id"), Some(&Value::Null), "{answer}");
}

/// A02–A04 on the real server: a web page cannot use it.
#[tokio::test]
async fn foreign_hosts_origins_and_forms_are_refused() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": text_message("say x") } });
    let status = |request: reqwest::RequestBuilder| async {
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status(served.post(&body).header("Host", "evil.example")).await, 421);
    assert_eq!(status(served.post(&body).header("Origin", "https://evil.example")).await, 403);
    assert_eq!(status(served.post(&body).header("Content-Type", "text/plain")).await, 415);
    let form = served.post(&body).header("Content-Type", "text/plain").send().await.unwrap();
    assert_eq!(form.json::<Value>().await.unwrap()["error"]["code"], -32005);
    assert_eq!(status(served.post(&body).header("Sec-Fetch-Site", "cross-site")).await, 403);
    let socket = format!("ws://127.0.0.1:{}/ws", served.port);
    let mut request =
        tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(socket)
            .unwrap();
    request.headers_mut().insert("Origin", "https://evil.example".parse().unwrap());
    assert!(tokio_tungstenite::connect_async(request).await.is_err());
    let session = machine.sessions().remove(0);
    assert_eq!(machine.log(&session).len(), 1, "nothing but its opening is in the log");
}

/// A wrong HTTP method gets an Allow header, on every binding.
#[tokio::test]
async fn another_method_is_told_which_ones_there_are() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let table: &[(&str, &str, &[&str])] = &[
        ("GET", "/", &["POST"]),
        ("PUT", "/a2a/1.0", &["POST"]),
        ("POST", "/ws", &["GET", "HEAD"]),
        ("GET", "/oauth/token", &["POST"]),
        ("POST", "/.well-known/agent-card.json", &["GET", "HEAD"]),
        ("DELETE", "/tasks", &["GET", "HEAD", "POST"]),
        ("POST", "/tasks/metadata", &["GET", "HEAD"]),
        ("GET", "/executeCommand", &["POST"]),
        ("GET", "/message/stream", &["POST"]),
        ("POST", "/healthz", &["GET", "HEAD"]),
        ("GET", "/message:send", &["POST"]),
        ("DELETE", "/tasks/t", &["GET"]),
        ("GET", "/tasks/t:cancel", &["POST"]),
        ("PUT", "/tasks/t:subscribe", &["GET", "POST"]),
        ("PUT", "/acme/tasks/t/pushNotificationConfigs", &["GET", "POST"]),
        ("POST", "/v1/tasks/t/pushNotificationConfigs/c", &["GET", "DELETE"]),
        ("POST", "/v1/card", &["GET"]),
        ("POST", "/extendedAgentCard", &["GET"]),
        ("GET", "/lf.a2a.v1.A2AService/GetTask", &["POST"]),
    ];
    for (method, path, allowed) in table {
        let request = served.request(method, path).json(&json!({}));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 405, "{method} {path}");
        let told = answer.headers().get("allow").map(|value| value.to_str().unwrap().to_owned());
        let told = told.unwrap_or_else(|| panic!("{method} {path} has no Allow"));
        let mut told: Vec<&str> = told.split(',').map(str::trim).collect();
        let mut allowed = allowed.to_vec();
        told.sort();
        allowed.sort();
        assert_eq!(told, allowed, "{method} {path}");
    }
}

/// A38: every malformed request gets the right error, and the server keeps working.
#[tokio::test]
async fn malformed_requests_get_the_right_error() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let table: &[(&str, i64)] = &[
        ("{", -32700),
        ("", -32700),
        ("\"text\"", -32600),
        ("[]", -32600),
        (&deep, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":{},"method":"tasks/get"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"tasks/get"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":7}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":5}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"none"}}"#, -32001),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"none"}}"#, -32001),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","messageId":"1","parts":[]}}}"#,
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":1e999}"#, -32602),
    ];
    let client = reqwest::Client::new();
    for (body, code) in table {
        let request = client.post(served.url()).header("Content-Type", "application/json");
        let answer: Value =
            request.body((*body).to_owned()).send().await.unwrap().json().await.unwrap();
        let shown: String = body.chars().take(60).collect();
        assert_eq!(answer["error"]["code"], *code, "{shown}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(!message.contains('/') && !message.contains(".rs"), "{message}");
    }
    let wrong = served
        .post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": "x" } }));
    let answer: Value =
        wrong.header("A2A-Version", "9.0").send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["error"]["code"], -32009, "{answer}");
    let large = client
        .post(served.url())
        .header("Content-Type", "application/json")
        .body("x".repeat(11 << 20));
    assert_eq!(large.send().await.map_or(413, |response| response.status().as_u16()), 413);
    let push = json!({ "url": "https://169.254.169.254/hook" });
    let configuration = json!({ "pushNotificationConfig": push });
    let params = json!({ "message": text_message("say x"), "configuration": configuration });
    let push = served.call("message/send", params).await;
    assert_eq!(push["error"]["code"], -32602, "a callback is refused, not forgotten: {push}");
    let alive = served.call("message/send", json!({ "message": text_message("say x") })).await;
    assert!(alive["result"]["id"].is_string(), "{alive}");
}

/// A15: a tool cannot answer for a person, even from its own session.
#[tokio::test]
async fn a_tool_cannot_answer_its_own_question() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--approve", "edits"]);
    let url = served.url();
    let look = format!(
        "curl -s -m 5 {url} -H 'Content-Type: application/json' -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ListTasks\",\"params\":{{}}}}'"
    );
    let mut watch = served.socket("?after=0").await;
    watch
        .send(
            1,
            "message/stream",
            json!({ "message": text_message(&format!("run {look}; (setsid {look} &); sleep 1")) }),
        )
        .await;
    let asked =
        watch.until(|value| value["params"]["event"]["status"]["state"] == "input-required").await;
    let part = &asked["params"]["event"]["status"]["message"]["parts"][0]["data"];
    let answer = crate::served::confirmation(
        &asked["params"]["event"]["taskId"],
        &part["tool_call_id"],
        "proceed_once",
    );
    watch.send(2, "message/send", json!({ "message": answer })).await;
    let done = watch.until(|value| {
        value["params"]["event"]["status"]["message"]["parts"][0]["data"]["status"] == "SUCCEEDED"
    });
    let done = done.await.to_string();
    assert!(done.contains("tool-descendant") && !done.contains("totalSize"), "{done}");
}

/// Local clients need no token unless required; a wrong token is never ignored.
#[tokio::test]
async fn tokens_are_checked_and_never_ignored() {
    let machine = Machine::new();
    let file = machine.home().with_file_name("tokens");
    std::fs::write(&file, "ann:0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = file.to_str().unwrap();
    let served = Served::shared(&machine, &["--token-file", file, "--require-token"]);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    assert_eq!(served.post(&body).send().await.unwrap().status(), 401);
    let wrong = served.post(&body).bearer_auth("wrong-wrong-wrong-wrong");
    assert_eq!(wrong.send().await.unwrap().status(), 401);
    let right = served.post(&body).bearer_auth("0123456789abcdef0123456789abcdef");
    let answer: Value = right.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["result"]["totalSize"], 0, "{answer}");
}

/// A socket keeps its version, and an unsupported one is refused. A request id is in use until its
/// request ends: a second request with it is refused and does not affect the first.
#[tokio::test]
async fn an_id_in_use_is_refused_and_its_request_goes_on() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut socket = served.socket("").await;
    socket.send(1, "message/stream", json!({ "message": text_message("ask Which one?") })).await;
    socket.send(1, "message/stream", json!({ "message": text_message("say second") })).await;
    let told = socket.until(|value| value["error"].is_object()).await;
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!(1), &json!(-32600)), "{told}");
    let over = |value: &Value| value["method"] == "stream/end" && value["params"]["id"] == 1;
    socket.until(over).await;
    let asked = |value: &Value| value["result"]["status"]["state"] == "input-required";
    assert!(socket.seen.iter().any(asked), "{:#?}", socket.seen);
    // Then the id is free.
    for _ in 0..20 {
        socket.send(1, "tasks/get", json!({ "id": "none" })).await;
        let told = socket.until(|value| value["id"] == 1).await;
        assert_eq!(told["error"]["code"], -32001, "{told}");
    }
}

#[tokio::test]
async fn a_place_that_is_none_is_refused() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    for query in
        ["?after=xyz", "?after=", "?after", "?name=ann&after", "?after=+1", "?after=%2B1.0"]
    {
        let (status, body) = served.upgrade(query, []).await.err().expect(query);
        assert_eq!((status, &body["error"]["code"]), (400, &json!(-32602)), "{query}: {body}");
    }
    let mut beyond = served.socket("?after=999999").await;
    let told = beyond.until(|value| value["error"].is_object()).await;
    assert!(told["error"]["message"].as_str().unwrap().contains("after the end"), "{told}");
    let mut named = served.socket("?name=Ann%20B%C3%BC&after=0%2E0").await;
    named.send(1, "message/send", json!({ "message": text_message("say hi") })).await;
    named.until(|value| value["id"] == 1).await;
    let log = machine.log(&machine.sessions()[0]);
    assert!(log.iter().any(|event| event.origin.client.as_str().starts_with("Ann Bü@")), "{log:?}");
}

/// An unknown method is unknown in every version; an unsupported version is reported in the newest
/// form, unless the method belongs to an older one.
#[tokio::test]
async fn a_version_is_judged_by_itself_where_the_method_is_unknown() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let call = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": "none" } });
    for (version, method, code, typed) in [
        ("1.0", "Nope", -32601, None),
        ("1.0.1", "Nope", -32601, None),
        ("0.3", "Nope", -32601, None),
        ("99.0", "Nope", -32009, Some(true)),
        ("99.0", "GetTask", -32009, Some(true)),
        ("0.3", "GetTask", -32009, Some(true)),
        ("99.0", "tasks/get", -32603, Some(false)),
        ("1.0", "tasks/get", -32603, Some(false)),
    ] {
        let request = served.post(&call(method)).header("A2A-Version", version);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        let error = &answer["error"];
        assert_eq!(error["code"], code, "{version} {method}: {answer}");
        let info = error["data"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo";
        assert_eq!(error.get("data").map(|_| info), typed, "{version} {method}: {answer}");
        let other = error["message"].as_str().unwrap().contains("but its A2A-Version says");
        let differs = [("0.3", "GetTask"), ("1.0", "tasks/get")].contains(&(version, method));
        assert_eq!(other, differs, "{version} {method}: {answer}");
    }
}

/// Refusals can be read by clients of either version.
#[tokio::test]
async fn refusals_have_the_form_of_the_named_version() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let request =
        |path: &str| served.request("POST", path).header("Host", "evil.example").json(&json!({}));
    for path in ["/", "/a2a/1.0", "/a2a/1.0/"] {
        let older: Value = request(path).send().await.unwrap().json().await.unwrap();
        assert!(older["error"]["data"]["reason"].is_string(), "{older}");
        let newer = request(path).header("A2A-Version", "1.0").send().await.unwrap();
        let newer: Value = newer.json().await.unwrap();
        let info = &newer["error"]["data"][0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo", "{newer}");
        assert_eq!(info["metadata"]["cause"], older["error"]["data"]["reason"], "{newer}");
        assert_eq!(newer["error"]["code"], older["error"]["code"]);
    }
}

#[tokio::test]
async fn a_socket_speaks_the_version_it_was_opened_for() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let header = |version: &str| [("A2A-Version", version.to_owned())];
    for wrong in ["9.0", "0.2", "x", "1"] {
        let (status, body) = served.upgrade("", header(wrong)).await.err().expect(wrong);
        assert_eq!((status, &body["error"]["code"]), (400, &json!(-32009)), "{wrong}: {body}");
    }
    let (status, _) = served.upgrade("?A2A-Version=2.0", []).await.err().expect("refused");
    assert_eq!(status, 400);
    let missing = json!({ "id": "none" });
    for (opened, method, code) in [
        (Some("0.3"), "tasks/get", -32001),
        (Some("0.3"), "GetTask", -32009),
        (Some("1.0"), "GetTask", -32001),
        // 0.3 has no specific code.
        (Some("1.0"), "tasks/get", -32603),
        (None, "GetTask", -32001),
        (None, "tasks/get", -32001),
        (Some("1.0"), "no/such", -32601),
        (Some("0.3"), "no/such", -32601),
        (None, "no/such", -32601),
    ] {
        let mut socket =
            served.upgrade("", opened.map(header).into_iter().flatten()).await.unwrap();
        socket.send(1, method, missing.clone()).await;
        let told = socket.until(|value| value["id"] == 1).await;
        assert_eq!(told["error"]["code"], code, "{opened:?} {method}: {told}");
        // The session is followed in any case.
        socket.send(2, "session/unfollow", json!({})).await;
        assert!(socket.until(|value| value["id"] == 2).await["result"].is_object());
    }
}

/// A refused request leaves its connection usable, or says that it does not.
#[test]
fn a_refusal_on_a_kept_connection_does_not_break_the_next_request() {
    let machine = Machine::new();
    let served = Served::shared(
        &machine,
        &[
            "--require-token",
            "--token-file",
            &machine.tokens("bob:0123456789abcdef0123456789abcdef\n"),
        ],
    );
    let host = format!("127.0.0.1:{}", served.port);
    let json = "Content-Type: application/json\r\n";
    let small = "{}".to_owned();
    let large = "x".repeat(200_000);
    for (host_header, more, body, status, closes) in [
        ("evil.example", json, &small, 421, false),
        (
            &host,
            "Content-Type: application/json\r\nOrigin: https://evil.example\r\n",
            &small,
            403,
            false,
        ),
        (&host, "Content-Type: text/plain\r\n", &small, 415, false),
        (&host, json, &small, 401, false),
        ("evil.example", json, &large, 421, true),
        (&host, json, &large, 401, true),
    ] {
        let mut stream = served.connect();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {host_header}\r\n{more}Content-Length: {}\r\n\r\n",
            body.len()
        );
        // The body comes later than the head, as many clients send it.
        stream.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let _ = stream.write_all(body.as_bytes());
        let refused = one_response(&mut stream);
        assert!(refused.starts_with(&format!("HTTP/1.1 {status} ")), "{refused}");
        let said = refused.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
        assert_eq!(said, closes, "{status} {}: {refused}", body.len());
        if !closes {
            let next = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(next.as_bytes()).unwrap();
            let next = one_response(&mut stream);
            assert!(next.starts_with("HTTP/1.1 200 "), "{status}: {next}");
        }
    }
}

/// The head of one response; its body is read and dropped.
fn one_response(stream: &mut std::net::TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a response");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")
            .map(|length| length.parse().unwrap())
    });
    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).unwrap();
    head
}
