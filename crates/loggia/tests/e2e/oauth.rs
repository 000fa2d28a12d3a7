//! Clients, secrets and tokens: the command line and `POST /oauth/token`. Attacks are in
//! `oauth_attacks.rs`, isolation between clients in `isolation.rs`.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use futures::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::driver::Machine;
use crate::served::{Served, asked, text_message};

pub const FORM: &str = "application/x-www-form-urlencoded";
/// The example of the public guide.
pub const SAMPLE: &str = "grant_type=client_credentials&client_id=a2a-claude-client-123&client_secret=verysecretclientkey";

/// A client with its secret.
pub struct Registered {
    pub id: String,
    pub secret: String,
}

pub fn register(machine: &Machine, name: &str, more: &[&str]) -> Registered {
    shown(machine, &[&["clients", "add", name, "--json"], more].concat())
}

fn shown(machine: &Machine, arguments: &[&str]) -> Registered {
    let ran = machine.run(arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let shown: Value = serde_json::from_str(&ran.out).expect(&ran.out);
    let text = |name: &str| shown[name].as_str().unwrap().to_owned();
    Registered { id: text("client_id"), secret: text("client_secret") }
}

impl Registered {
    pub fn form(&self) -> String {
        let Self { id, secret } = self;
        format!("grant_type=client_credentials&client_id={id}&client_secret={secret}")
    }

    pub async fn token(&self, served: &Served) -> String {
        let (status, body) = ask(served, &self.form()).await;
        assert_eq!(status, 200, "{body}");
        body["access_token"].as_str().unwrap().to_owned()
    }
}

/// A token request: status and body.
pub async fn ask(served: &Served, form: &str) -> (u16, Value) {
    let request = served.request("POST", "/oauth/token").header("Content-Type", FORM);
    let answer = request.body(form.to_owned()).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// The status of a plain request with this token.
pub async fn status(served: &Served, token: &str) -> u16 {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    served.post(&list).bearer_auth(token).send().await.unwrap().status().as_u16()
}

/// Waits until the token has another status; returns the time.
async fn until_status(served: &Served, token: &str, wanted: u16) -> Duration {
    let begun = Instant::now();
    while status(served, token).await != wanted {
        assert!(begun.elapsed() < Duration::from_secs(10), "{wanted} does not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

/// The requests of the public guide, with its programs and values.
#[tokio::test]
async fn a_token_is_given_as_the_guide_writes_it() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--dev-credentials"]);
    let base = format!("http://127.0.0.1:{}", served.port);
    let guide = format!(
        "curl -s -X POST -H \"Content-Type: {FORM}\" \\\n -d \"{SAMPLE}\" \\\n {base}/oauth/token"
    );
    let ran = std::process::Command::new("sh").args(["-c", &guide]).output().unwrap();
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(members, ["access_token", "expires_in", "token_type"]);
    assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("Bearer"), &json!(3600)));
    let token = answer["access_token"].as_str().unwrap();
    assert_eq!(status(&served, token).await, 200);
    // The guide's routes always need a token.
    for path in ["/rpc", "/tasks/send", "/a2a/tasks/send"] {
        let none = served.request("POST", path).json(&json!({})).send().await.unwrap();
        assert_eq!(none.status(), 401, "{path}");
        assert_eq!(none.headers()["www-authenticate"], "Bearer realm=\"loggia\"", "{path}");
        let body: Value = none.json().await.unwrap();
        assert_eq!(body["error"]["data"]["reason"], "token-needed", "{path}: {body}");
        let given = served.request("POST", path).json(&json!({})).bearer_auth(token);
        assert_ne!(given.send().await.unwrap().status(), 401, "{path}");
    }
}

/// RFC 6749: status, error code and headers of every response.
#[tokio::test]
async fn token_requests_are_judged_by_the_standard() {
    let machine = Machine::new();
    let client = register(&machine, "ann", &["--scope", "read,prompt"]);
    let served = Served::shared(&machine, &[]);
    let good = client.form();
    let only = "grant_type=client_credentials";
    let (id, secret) = (client.id.as_str(), client.secret.as_str());
    let basic = Some((id, secret));
    let with = |more: &str| format!("{good}&{more}");
    let both_named = format!("{only}&client_id={id}");
    let long = with(&format!("x={}", "y".repeat(9_000)));
    type Row<'a> = (&'a str, Option<(&'a str, &'a str)>, &'a str, u16, &'a str);
    let (narrow, doubled) = (with("scope=read"), with("grant_type=client_credentials"));
    let (encoded, empty) = (with("scope=prompt%20read"), with("scope="));
    let (wide, unknown) = (with("scope=read+admin"), with("scope=write"));
    let (twice, bad) = (with("client_id=ann"), with("x=%zz"));
    let unknown_more = with("audience=somewhere");
    let rows: &[Row<'_>] = &[
        (FORM, None, &good, 200, ""),
        ("application/x-www-form-urlencoded; charset=UTF-8", None, &good, 200, ""),
        (FORM, basic, only, 200, ""),
        (FORM, basic, &both_named, 200, ""),
        (FORM, None, &narrow, 200, ""),
        (FORM, None, &encoded, 200, ""),
        (FORM, None, &empty, 200, ""),
        (FORM, None, &unknown_more, 200, ""),
        (FORM, None, &wide, 400, "invalid_scope"),
        (FORM, None, &unknown, 400, "invalid_scope"),
        (FORM, None, "", 400, "invalid_request"),
        (FORM, None, "grant_type=", 400, "invalid_request"),
        (FORM, None, "client_id=ann&client_secret=x", 400, "invalid_request"),
        (FORM, None, &doubled, 400, "invalid_request"),
        (FORM, None, &twice, 400, "invalid_request"),
        (FORM, None, &bad, 400, "invalid_request"),
        (FORM, basic, &good, 400, "invalid_request"),
        (FORM, Some(("bob", "x")), &both_named, 400, "invalid_request"),
        (FORM, None, "grant_type=password&username=a&password=b", 400, "unsupported_grant_type"),
        (FORM, basic, "grant_type=authorization_code", 400, "unsupported_grant_type"),
        (FORM, None, only, 401, "invalid_client"),
        (FORM, None, &both_named, 401, "invalid_client"),
        (FORM, Some((id, "wrong")), only, 401, "invalid_client"),
        (FORM, None, SAMPLE, 401, "invalid_client"),
        (FORM, None, &long, 413, "invalid_request"),
        (
            "application/json",
            None,
            "{\"grant_type\":\"client_credentials\"}",
            400,
            "invalid_request",
        ),
        ("text/plain", None, &good, 400, "invalid_request"),
        ("multipart/form-data; boundary=x", None, &good, 400, "invalid_request"),
    ];
    for (kind, basic, form, wanted, error) in rows {
        let request = served.request("POST", "/oauth/token").header("Content-Type", *kind);
        let request = match basic {
            Some((id, secret)) => request.basic_auth(id, Some(secret)),
            None => request,
        };
        let answer = request.body((*form).to_owned()).send().await.unwrap();
        let what = format!("{kind} {basic:?} {form}").replace(secret, "SECRET");
        assert_eq!(answer.status(), *wanted, "{what}");
        assert_eq!(answer.headers()["cache-control"], "no-store", "{what}");
        let challenged = answer.headers().contains_key("www-authenticate");
        assert_eq!(challenged, *wanted == 401 && basic.is_some(), "{what}");
        let body: Value = answer.json().await.unwrap();
        match *wanted {
            200 => assert_eq!(status(&served, body["access_token"].as_str().unwrap()).await, 200),
            _ => assert_eq!(body["error"], *error, "{what}: {body}"),
        }
        if form.contains("scope=") && *wanted == 200 && !form.ends_with("scope=") {
            assert!(["read", "read prompt"].contains(&body["scope"].as_str().unwrap()), "{body}");
        }
        assert!(!body.to_string().contains(secret));
    }
    // Never in the URL, which is logged.
    let query = format!("/oauth/token?{good}");
    for (path, form) in [(query.as_str(), ""), ("/oauth/token?x=y", good.as_str())] {
        let request = served.request("POST", path).header("Content-Type", FORM);
        let answer = request.body(form.to_owned()).send().await.unwrap();
        assert_eq!(answer.status(), 400);
    }
    let get = served.request("GET", &query).send().await.unwrap();
    assert_eq!(get.status(), 405);
}

/// A running server sees changes to its clients, and their open connections end.
#[tokio::test]
async fn clients_are_added_rotated_and_revoked_while_a_server_runs() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let card = served.get("/.well-known/agent-card.json").await;
    assert!(card["securitySchemes"].is_null(), "there is nobody to give a token to: {card}");
    let ann = register(&machine, "ann", &["--scope", "read,prompt,approve"]);
    let bob = register(&machine, "bob", &[]);
    let (old, other) = (ann.token(&served).await, bob.token(&served).await);
    let again = machine.run(&["clients", "add", "ann"]);
    assert!(again.code == 2 && again.err.contains("clients rotate ann"), "{}", again.err);

    let mut socket = served.socket_with("", Some(&old)).await;
    let headers = [
        ("Authorization", format!("Bearer {old}")),
        ("Sec-WebSocket-Protocol", "loggia".to_owned()),
    ];
    let mut terminal = served.upgrade("", headers).await.unwrap();
    terminal.until(|value| value["type"] == "welcome").await;
    let mut theirs = served.socket_with("", Some(&other)).await;
    let wait = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream",
                       "params": { "message": text_message("say hi\nwait 60s") } });
    let stream = served.stream(served.post(&wait).bearer_auth(&old), usize::MAX);
    let hold = json!({ "message": text_message("say hi\nwait 60s"), "configuration": { "blocking": true } });
    let held = served.call_as(&old, "/", "message/send", hold);
    let rotate = async {
        // One runs first, and the other is queued.
        for _ in 0..2 {
            socket.until(|value| value["params"]["event"]["kind"] == "task").await;
        }
        let new = shown(&machine, &["clients", "rotate", "ann", "--json"]);
        assert_eq!(status(&served, &old).await, 401, "at once");
        let begun = Instant::now();
        assert_eq!(socket.end().await, Some(CloseCode::Policy));
        assert_eq!(terminal.end().await, Some(CloseCode::Policy));
        (new, begun)
    };
    let ((new, begun), events, held) = tokio::join!(rotate, stream, held);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "streams ended after {took:?}");
    let last = &events.last().unwrap().response;
    assert_eq!(last["error"]["data"]["reason"], "unauthenticated", "{last}");
    assert_eq!(held["error"]["data"]["reason"], "unauthenticated", "{held}");
    theirs.send(1, "tasks/get", json!({ "id": "x" })).await;
    theirs.until(|value| value["id"] == 1).await; // nobody else was cut off

    assert_eq!(ask(&served, &ann.form()).await.0, 401, "the old secret");
    let token = new.token(&served).await;
    assert_eq!(status(&served, &token).await, 200);
    let listed = machine.run(&["clients", "list"]);
    assert!(listed.out.contains("ann  read prompt approve  allow none"), "{}", listed.out);
    assert!(!listed.out.contains(&new.secret));
    let revoked = machine.run(&["clients", "revoke", "ann"]);
    assert_eq!(revoked.code, 0, "{}", revoked.err);
    assert_eq!(status(&served, &token).await, 401, "at once");
    assert_eq!(ask(&served, &new.form()).await.0, 401);
    assert_eq!(status(&served, &other).await, 200, "bob is not concerned");
    let gone = machine.run(&["clients", "revoke", "ann"]);
    assert!(gone.code == 2 && gone.err.contains("clients list"), "{}", gone.err);
    // Registering the same name again does not revive old tokens.
    register(&machine, "ann", &["--scope", "read,prompt,approve"]);
    assert_eq!(status(&served, &token).await, 401);
}

/// After `revoke` returns, messages on an open socket have no effect, and it is closed.
#[tokio::test]
async fn a_revoked_client_is_ignored() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &["--scope", "read,prompt,approve"]);
    let served = Served::shared(&machine, &[]);
    let token = ann.token(&served).await;
    let mut socket = served.socket_with("", Some(&token)).await;
    let headers = [
        ("Authorization", format!("Bearer {token}")),
        ("Sec-WebSocket-Protocol", "loggia".to_owned()),
    ];
    let mut terminal = served.upgrade("", headers).await.unwrap();
    terminal.until(|value| value["type"] == "welcome").await;
    socket.send(1, "tasks/get", json!({ "id": "x" })).await;
    socket.until(|value| value["id"] == 1).await;
    let revoked = machine.run(&["clients", "revoke", "ann"]);
    assert_eq!(revoked.code, 0, "{}", revoked.err);
    let late = json!({ "jsonrpc": "2.0", "id": 2, "method": "message/send",
                       "params": { "message": text_message("say too late") } });
    let typed = json!({ "id": 1, "type": "prompt", "prompt": "p1",
                        "content": { "parts": [{ "type": "text", "text": "say too late" }] } });
    // It may be closed already.
    let _ = socket.stream.send(Message::text(late.to_string())).await;
    let _ = terminal.stream.send(Message::text(typed.to_string())).await;
    assert_eq!(socket.end().await, Some(CloseCode::Policy));
    assert_eq!(terminal.end().await, Some(CloseCode::Policy));
    let tasks = served.call("ListTasks", json!({})).await;
    assert_eq!(tasks["result"]["totalSize"], 0, "{tasks}");
}

#[tokio::test]
async fn tokens_survive_a_restart_and_a_change_of_keys() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &[]);
    let first = Served::shared(&machine, &[]);
    let token = ann.token(&first).await;
    drop(first);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let beside = Served::start(&machine, &["serve", "--port", "0"]);
    for served in [&served, &beside] {
        assert_eq!(status(served, &token).await, 200, "one store, one set of keys");
    }
    let rotated = machine.run(&["clients", "rotate-keys"]);
    assert_eq!(rotated.code, 0, "{}", rotated.err);
    let newer = ann.token(&served).await;
    let key = |token: &str| token.split('.').nth(1).unwrap().to_owned();
    assert_ne!(key(&token), key(&newer), "the new key signs");
    for (served, token) in [(&served, &token), (&served, &newer), (&beside, &newer)] {
        assert_eq!(status(served, token).await, 200, "nobody is logged out");
    }
    let ended = machine.run(&["clients", "rotate-keys", "--at-once"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    for (served, token) in [(&served, &token), (&beside, &newer)] {
        let took = until_status(served, token, 401).await;
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
    assert_eq!(status(&served, &ann.token(&served).await).await, 200);
    // The keys of another store are not accepted.
    let other = Machine::new();
    let theirs = register(&other, "ann", &[]);
    let elsewhere = Served::start(&other, &["serve", "--port", "0"]);
    let foreign = theirs.token(&elsewhere).await;
    assert_eq!(status(&served, &foreign).await, 401);
}

/// Every scope alone, on every kind of intent.
#[tokio::test]
async fn a_scope_opens_its_intents_and_no_other() {
    let machine = Machine::new();
    let names = ["read", "prompt", "approve", "read,prompt", "read,approve"];
    let clients: Vec<Registered> = names
        .iter()
        .map(|scope| register(&machine, &scope.replace(',', "-"), &["--scope", scope]))
        .collect();
    let served = Served::shared(&machine, &[]);
    let request = served.tool_stream(text_message("run touch x"));
    let (task, call) = asked(&served.stream(request, usize::MAX).await);
    let mut words = text_message("yes");
    words["taskId"] = task.clone();
    let answer = crate::served::confirmation(&task, &json!("no such call"), "proceed_once");
    let slash = json!({ "commandPath": ["help"] });
    let message = |message: &Value| json!({ "message": message });
    // The scopes that each call needs.
    let rows: Vec<(&str, Value, &[&str])> = vec![
        ("tasks/get", json!({ "id": task }), &["read"]),
        ("ListTasks", json!({}), &["read"]),
        ("commands/get", json!({}), &["read"]),
        ("GetExtendedAgentCard", json!({}), &["read"]),
        ("tasks/pushNotificationConfig/list", json!({ "id": task }), &["read"]),
        ("tasks/cancel", json!({ "id": "none" }), &["prompt"]),
        (
            "tasks/pushNotificationConfig/delete",
            json!({ "id": task, "pushNotificationConfigId": "x" }),
            &["prompt"],
        ),
        ("command/execute", slash, &["prompt"]),
        ("message/send", message(&words), &["prompt", "approve"]),
        ("message/send", message(&answer), &["approve"]),
        ("message/stream", message(&answer), &["approve", "read"]),
        ("tasks/resubscribe", json!({ "id": "none" }), &["read"]),
    ];
    for (client, scope) in clients.iter().zip(names) {
        let token = client.token(&served).await;
        for (method, params, needed) in &rows {
            let held: Vec<&str> = scope.split(',').collect();
            let allowed = needed.iter().all(|needed| held.contains(needed));
            let told = served.call_as(&token, "/", method, params.clone()).await;
            // Each version has its own error form.
            let error = &told["error"]["data"];
            let refused = error["reason"] == "scope" || error[0]["reason"] == "SCOPE";
            assert_eq!(refused, !allowed, "{scope}: {method} {params}: {told}");
        }
        let mut socket = served.socket_with("?after=0", Some(&token)).await;
        let first = socket.until(|_| true).await;
        let readable = scope.contains("read");
        assert_eq!(first["method"] == "session/event", readable, "{scope}: {first}");
        if !readable {
            assert_eq!(first["error"]["data"]["reason"], "scope", "{first}");
            let context = machine.sessions().remove(0);
            socket.send(5, "session/follow", json!({ "contextId": context, "after": 0 })).await;
            let told = socket.until(|value| value["id"] == 5).await;
            assert_eq!(told["error"]["data"]["reason"], "scope", "{told}");
        }
        let headers = [
            ("Authorization", format!("Bearer {token}")),
            ("Sec-WebSocket-Protocol", "loggia".to_owned()),
        ];
        let mut terminal = served.upgrade("", headers).await.unwrap();
        let first = terminal.until(|_| true).await;
        assert_eq!(first["type"] == "welcome", readable, "{scope}: {first}");
    }
    assert!(!machine.file("x").exists(), "nobody has answered {call}");
    // A token may have fewer scopes than its client.
    let both = &clients[3];
    let (_, narrow) = ask(&served, &format!("{}&scope=read", both.form())).await;
    let token = narrow["access_token"].as_str().unwrap();
    let told = served.call_as(token, "/", "command/execute", json!({ "commandPath": ["help"] }));
    assert_eq!(told.await["error"]["data"]["reason"], "scope");
}

#[tokio::test]
async fn cards_say_where_tokens_are_given() {
    let machine = Machine::new();
    register(&machine, "ann", &[]);
    let open = Served::shared(&machine, &[]);
    let card = open.get("/a2a/0.3/.well-known/agent-card.json").await;
    assert_eq!(card["security"], json!([{}, { "oauth2": ["read", "prompt"] }]));
    let scheme = &card["securitySchemes"]["oauth2"];
    assert_eq!(scheme["type"], "oauth2");
    let flow = &scheme["flows"]["clientCredentials"];
    assert_eq!(flow["tokenUrl"], format!("http://localhost:{}/oauth/token", open.port));
    let scopes: Vec<&String> = flow["scopes"].as_object().unwrap().keys().collect();
    assert_eq!(scopes, ["admin", "approve", "prompt", "read"]);
    let closed = Served::start(
        &machine,
        &["serve", "--port", "0", "--require-token", "--public-url", "https://loggia.example/x"],
    );
    let card = closed.get("/a2a/1.0/.well-known/agent-card.json").await;
    let either = json!([
        { "schemes": { "bearer": { "list": [] } } },
        { "schemes": { "oauth2": { "list": ["read", "prompt"] } } },
    ]);
    assert_eq!(card["securityRequirements"], either);
    let flow = &card["securitySchemes"]["oauth2"]["oauth2SecurityScheme"]["flows"];
    assert_eq!(flow["clientCredentials"]["tokenUrl"], "https://loggia.example/x/oauth/token");
    let nobody = Machine::new();
    let mut lonely = Served::start(&nobody, &["serve", "--port", "0", "--require-token"]);
    let mut said = BufReader::new(lonely.child.stderr.take().unwrap()).lines();
    let said = said.next().unwrap().unwrap();
    assert!(said.contains("no client has a token yet") && said.contains("loggia pair"), "{said}");
}
