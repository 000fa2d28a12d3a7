//! Attacks on the real server by other users, other principals and clients that lie: A01, A05, A07,
//! A12, A13, A15, A17, A18. What a web page or malformed bytes can do is in `refused.rs` and
//! `floods.rs`.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use loggia_core::Event;
use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::{EXTENSION, Served, asked, confirmation, text_message};

const NOBODY: u32 = 65_534;
const ANN: &str = "ann-0123456789abcdef0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef0123456789abcdef";

/// What another user of this machine gets, and with which status.
fn as_nobody(arguments: &[&str]) -> (String, u16) {
    let mut command = Command::new("curl");
    command.args(["-s", "-m", "10", "-w", "\n%{http_code}"]).args(arguments);
    let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (body.to_owned(), status.parse().unwrap())
}

/// Every path that the server has a route for, by its own source.
fn routes() -> Vec<String> {
    let source = include_str!("../../../loggia-server/src/http.rs");
    let routes = source.split(".route(\"").skip(1);
    let routes: Vec<String> =
        routes.map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    assert!(routes.len() >= 9, "{routes:?}");
    routes
}

/// A01 and A07: another user gets the card and the health check, and nothing of what is in them.
#[tokio::test]
async fn another_user_gets_nothing_but_the_card() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let session = machine.sessions().remove(0);
    let work = machine.work().to_str().unwrap().to_owned();
    let unknown = ["/none", "/metrics", "/ws/x"];
    let by_pattern = ["/tasks/x", "/v1/tasks/x", "/extendedAgentCard", "/v1/card", "/acme/tasks"];
    let more = unknown.into_iter().chain(by_pattern).map(str::to_owned);
    for path in routes().into_iter().chain(more) {
        let url = format!("http://127.0.0.1:{}{path}", served.port);
        let (body, status) = as_nobody(&[&url]);
        let send = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": text_message("say x") } });
        let json = ["-H", "Content-Type: application/json", "-d", &send.to_string()];
        let (posted, post_status) = as_nobody(&[&json[..], &[&url]].concat());
        assert!(posted.contains("other-user") && post_status == 403, "POST {path}: {posted}");
        if path.ends_with("agent-card.json") || path == "/healthz" {
            assert_eq!(status, 200, "{path}: {body}");
            assert!(!body.contains(&session) && !body.contains(&work), "{path}: {body}");
        } else {
            assert!(body.contains("other-user") && status == 403, "GET {path}: {body}");
        }
    }
    let grpc =
        ["--http2-prior-knowledge", "-D", "-", "-H", "Content-Type: application/grpc", "-d", ""];
    let asked = ["lf.a2a.v1.A2AService/ListTasks", "a2a.v1.A2AService/GetAgentCard"];
    let about = ["grpc.health.v1.Health/Check", "grpc.reflection.v1.ServerReflection/Info"];
    for path in asked.into_iter().chain(about) {
        let url = format!("http://127.0.0.1:{}/{path}", served.port);
        let (answer, _) = as_nobody(&[&grpc[..], &[&url]].concat());
        assert!(answer.contains("grpc-status: 7"), "{path}: {answer}");
    }
    let log = machine.log(&session);
    assert_eq!(log.len(), 1, "nothing but its opening is in the log");
}

/// A07: what the server keeps is for its user alone.
#[tokio::test]
async fn what_is_on_disk_is_private() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--approve", "all"]);
    let sent = served.call("message/send", json!({ "message": text_message("run true") })).await;
    assert!(sent["result"]["id"].is_string(), "{sent}");
    let mut directories = vec![machine.data()];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", directory.display());
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                directories.push(entry.path());
                continue;
            }
            let mode = metadata.permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
            seen += 1;
        }
    }
    assert!(seen >= 2, "{seen} files");
}

/// A05: by default the kernel shows loopback addresses and nothing else; a wider one is refused
/// before it is bound.
#[tokio::test]
async fn only_loopback_is_listened_on() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let port = format!(":{:04X}", served.port);
    let mut listening = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let ours = rows.filter(|row| row.get(3) == Some(&"0A") && row[1].ends_with(&port));
        listening.extend(ours.map(|row| row[1].to_owned()));
    }
    let loopback = ["0100007F", "00000000000000000000000001000000"];
    assert!(!listening.is_empty());
    for address in &listening {
        assert!(loopback.iter().any(|loopback| address.starts_with(loopback)), "{listening:?}");
    }
    drop(served);
    let (other, free) = (Machine::new(), std::net::TcpListener::bind("0.0.0.0:0").unwrap());
    let wide = free.local_addr().unwrap().port().to_string();
    drop(free);
    let ran = other.run(&["serve", "--listen", "0.0.0.0", "--port", &wide]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("TLS") && !other.data().exists(), "{}", ran.err);
}

fn with_settings(text: &str, settings: Value) -> Value {
    let mut message = text_message(text);
    message["metadata"] = json!({ EXTENSION: settings });
    message
}

/// A12: settings are a request. A workspace elsewhere is refused, and to ask for no questions does
/// not help, and that is said.
#[tokio::test]
async fn nobody_declares_their_own_privileges() {
    let machine = Machine::new();
    machine.write("sub/kept.txt", "x");
    std::os::unix::fs::symlink("/etc", machine.file("out")).unwrap();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let work = machine.work().canonicalize().unwrap();
    let elsewhere = ["/etc", "/", "/none", &format!("{}/out", work.display())];
    for path in elsewhere {
        let settings = json!({ "workspace_path": path, "autoExecute": true });
        let request = served.tool_stream(with_settings("run touch x", settings));
        let refused = served.stream(request, usize::MAX).await;
        let error = &refused[0].response["error"];
        assert_eq!(error["data"]["reason"], "workspace-refused", "{path}: {refused:?}");
    }
    assert!(machine.sessions().is_empty(), "no session was opened");
    let settings = json!({ "workspace_path": work.join("sub"), "autoExecute": true });
    let message = with_settings("run touch x", settings);
    let events = served.stream(served.tool_stream(message), usize::MAX).await;
    let (task, _) = asked(&events);
    assert!(!machine.file("sub/x").exists(), "it asks all the same");
    let log = machine.log(&machine.sessions()[0]);
    let said = log.iter().any(|envelope| match &envelope.event {
        Event::NoticeRaised { text, .. } => text.contains("autoExecute"),
        _ => false,
    });
    assert!(said, "and it is said: {log:?}");
    // A living session does not move.
    let mut moved = with_settings("say x", json!({ "workspace_path": "/etc" }));
    moved["contextId"] = events[0].response["result"]["contextId"].clone();
    let refused = served.stream(served.tool_stream(moved), usize::MAX).await;
    let error = &refused[0].response["error"];
    assert_eq!(error["data"]["reason"], "workspace-differs", "{task}: {refused:?}");
}

/// A13: what is somebody else's is not found, on every operation, in the very words that a task
/// gets which there has never been.
#[tokio::test]
async fn another_principals_task_is_not_found() {
    let machine = Machine::new();
    let tokens = machine.tokens(&format!("ann:{ANN}\nbob:{BOB}\n"));
    let served = Served::start(&machine, &["serve", "--port", "0", "--token-file", &tokens]);
    let say = async |method: &str, params: Value, token: &str| -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = served.post(&body).bearer_auth(token).send().await.unwrap();
        let text = answer.text().await.unwrap();
        // A 0.3 stream says it as an event.
        serde_json::from_str(text.trim().trim_start_matches("data: ")).expect(&text)
    };
    let first = json!({ "message": text_message("run touch x") });
    let task = say("message/send", first, ANN).await;
    let (id, context) = (task["result"]["id"].clone(), task["result"]["contextId"].clone());
    let (id, context) = (id.as_str().unwrap(), context.as_str().unwrap());
    let none = "0199d3a0-0000-7000-8000-000000000000";
    let push = json!({ "url": "https://example.com/hook" });
    let calls = |id: &str| {
        let named = json!({ "id": id });
        let mut more = text_message("yes");
        more["taskId"] = json!(id);
        let message_1 = json!({ "role": "ROLE_USER", "messageId": "1", "taskId": id, "parts": [{ "text": "yes" }] });
        let answer = confirmation(&json!(id), &json!("call-1"), "proceed_once");
        vec![
            ("GetTask", named.clone()),
            ("tasks/get", named.clone()),
            ("CancelTask", named.clone()),
            ("tasks/cancel", named.clone()),
            ("SubscribeToTask", named.clone()),
            ("tasks/resubscribe", named.clone()),
            ("SendMessage", json!({ "message": message_1 })),
            ("message/send", json!({ "message": more })),
            ("message/stream", json!({ "message": more })),
            ("message/send", json!({ "message": answer })),
            ("CreateTaskPushNotificationConfig", json!({ "taskId": id, "url": push["url"] })),
            ("GetTaskPushNotificationConfig", json!({ "taskId": id, "id": "1" })),
            ("ListTaskPushNotificationConfigs", json!({ "taskId": id })),
            ("DeleteTaskPushNotificationConfig", json!({ "taskId": id, "id": "1" })),
            (
                "tasks/pushNotificationConfig/set",
                json!({ "taskId": id, "pushNotificationConfig": push }),
            ),
            ("tasks/pushNotificationConfig/get", named.clone()),
            ("tasks/pushNotificationConfig/list", named.clone()),
            (
                "tasks/pushNotificationConfig/delete",
                json!({ "id": id, "pushNotificationConfigId": "1" }),
            ),
        ]
    };
    for ((method, hers), (_, nobodys)) in calls(id).into_iter().zip(calls(none)) {
        let foreign = say(method, hers, BOB).await;
        let missing = say(method, nobodys, BOB).await;
        assert!(foreign["error"].is_object(), "{method}: {foreign}");
        assert_eq!(foreign.to_string().replace(id, none), missing.to_string(), "{method}");
        if !method.to_lowercase().contains("push") {
            assert_eq!(foreign["error"]["code"], -32001, "{method}: {foreign}");
        }
    }
    let listed = say("ListTasks", json!({}), BOB).await;
    assert_eq!(listed["result"]["totalSize"], 0, "{listed}");
    let listed = say("ListTasks", json!({ "contextId": context }), BOB).await;
    assert_eq!(listed["result"]["totalSize"], 0, "{listed}");
    let mut intruding = text_message("say x");
    intruding["contextId"] = json!(context);
    let refused = say("message/send", json!({ "message": intruding }), BOB).await;
    assert_eq!(refused["error"]["data"]["reason"], "unknown-context", "{refused}");

    let mut bob = served.socket_with(&format!("?session={context}&after=0"), Some(BOB)).await;
    let refused = bob.until(|value| value["error"].is_object()).await;
    assert_eq!(refused["error"]["data"]["reason"], "unknown-context", "{refused}");
    for (number, context) in [(1, context), (2, none)] {
        bob.send(number, "session/follow", json!({ "contextId": context, "after": 0 })).await;
        let refused = bob.until(|value| value["id"] == number).await;
        assert_eq!(refused["error"]["data"]["reason"], "unknown-context", "{refused}");
    }
    assert!(bob.followed().is_empty());
    // A local client without a token is somebody else, too; she herself finds it all.
    let local = served.call("GetTask", json!({ "id": id })).await;
    assert_eq!(local["error"]["code"], -32001, "{local}");
    let listed = say("ListTasks", json!({}), ANN).await;
    assert_eq!(listed["result"]["totalSize"], 1, "{listed}");
    let log = machine.log(context);
    let answered = |event: &Event| matches!(event, Event::ApprovalAnswered { .. });
    assert!(!log.iter().any(|envelope| answered(&envelope.event)), "nobody has answered");
}

/// A15: what a command started gets nothing, not even with a token that it found.
#[tokio::test]
async fn a_token_does_not_help_a_command() {
    let machine = Machine::new();
    let tokens = machine.tokens(&format!("ann:{ANN}\n"));
    let arguments = ["--approve", "all", "--token-file", &tokens, "--require-token"];
    let served = Served::shared(&machine, &arguments);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let look = format!(
        "curl -s -m 5 -w ' %{{http_code}}' {} -H 'Content-Type: application/json' \
         -H 'Authorization: Bearer {ANN}' -d '{list}'",
        served.url()
    );
    // The script says nothing but the command, so what is printed is what was answered.
    machine.write(
        "look.sh",
        &format!("{look}\n({look}) | cat\nsetsid -w sh -c \"{}\"\n", look.replace('"', "\\\"")),
    );
    let message =
        json!({ "message": text_message("run sh look.sh"), "configuration": { "blocking": true } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": message });
    let done = served.post(&body).bearer_auth(ANN).send().await.unwrap();
    let done: Value = done.json().await.unwrap();
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    let session = machine.sessions().remove(0);
    let log = machine.log(&session);
    let ended = log.iter().find(|envelope| matches!(envelope.event, Event::CallEnded { .. }));
    let ended = serde_json::to_string(ended.unwrap()).unwrap();
    assert_eq!(ended.matches("tool-descendant").count(), 3, "{ended}");
    assert!(ended.contains(" 403") && !ended.contains("totalSize"), "{ended}");
    // The same token in the hands of a process that no call started.
    let right = served.post(&list).bearer_auth(ANN).send().await.unwrap();
    assert_eq!(right.status(), 200);
}

/// A17 over the wire: what changed between the question and the answer is not written.
#[tokio::test]
async fn what_changed_since_the_question_is_not_written() {
    let machine = Machine::new();
    machine.write("a.txt", "one\n");
    let secret = machine.home().with_file_name("bashrc");
    std::fs::write(&secret, "one\n").unwrap();
    let served = Served::shared(&machine, &[]);
    let link = || {
        std::fs::remove_file(machine.file("a.txt")).unwrap();
        std::os::unix::fs::symlink(&secret, machine.file("a.txt")).unwrap();
    };
    let meddling: [&dyn Fn(); 2] = [&|| drop(machine.write("a.txt", "somebody else's\n")), &link];
    for meddle in meddling {
        machine.write("a.txt", "one\n");
        let edit = served.tool_stream(text_message("edit a.txt: one => two"));
        let (task, call) = asked(&served.stream(edit, usize::MAX).await);
        meddle();
        let answer = served.tool_stream(confirmation(&task, &call, "proceed_once"));
        let events = served.stream(answer, usize::MAX).await;
        let mut said = events.iter().map(|event| event.response.to_string());
        let failed = said.rfind(|text| text.contains("FAILED")).unwrap();
        assert!(failed.contains("changed_since_approval"), "{failed}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "one\n");
}

/// A18: an answer that is none changes nothing, a repeated one is the same answer, a late one is told.
#[tokio::test]
async fn bad_repeated_and_late_answers_change_nothing() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut ann = served.socket("?name=ann").await;
    let mut bob = served.socket("?name=bob").await;
    ann.send(1, "message/stream", json!({ "message": text_message("write a.txt: x\nwait 60s") }))
        .await;
    let question = |value: &Value| value["params"]["event"]["status"]["state"] == "input-required";
    let frame = ann.until(question).await["params"]["event"].clone();
    let call = frame["status"]["message"]["parts"][0]["data"]["tool_call_id"].clone();
    let task = frame["taskId"].clone();
    let long = "x".repeat(1 << 20);
    let choices =
        [json!("yes"), json!(""), json!(["proceed_once"]), json!(long), json!(null), json!(7)];
    let mut number = 10;
    let mut wrong: Vec<Value> = choices
        .into_iter()
        .map(|choice| {
            let mut message = confirmation(&task, &call, "");
            message["parts"][0]["data"]["selected_option_id"] = choice;
            message
        })
        .collect();
    wrong.push(confirmation(&task, &json!("call-of-another"), "proceed_once"));
    wrong.push(confirmation(&task, &json!(long), "proceed_once"));
    wrong.push(confirmation(&task, &json!([call]), "proceed_once"));
    for message in wrong {
        number += 1;
        let shown: String = message.to_string().chars().take(300).collect();
        bob.send(number, "message/send", json!({ "message": message })).await;
        let told = bob.until(|value| value["id"] == number).await;
        assert_eq!(told["error"]["code"], -32602, "{shown}: {told}");
        assert!(told.to_string().len() < 4096, "it is not echoed");
    }
    assert_eq!(machine.read("a.txt"), None, "the question is still open");
    let answer = json!({ "message": confirmation(&task, &call, "proceed_once") });
    for number in [100, 101] {
        bob.send(number, "message/send", answer.clone()).await;
        let told = bob.until(|value| value["id"] == number).await;
        assert_eq!(told["result"]["id"], task, "the same answer is the same answer: {told}");
    }
    let other = json!({ "message": confirmation(&task, &call, "cancel") });
    for (by_bob, message) in [(true, &other), (false, &answer), (false, &other)] {
        let client = if by_bob { &mut bob } else { &mut ann };
        number += 1;
        client.send(number, "message/send", message.clone()).await;
        let told = client.until(|value| value["id"] == number).await;
        let why = &told["error"]["data"];
        assert_eq!(told["error"]["code"], -32602, "{told}");
        assert_eq!(
            (&why["reason"], &why["choice"]),
            (&json!("already-answered"), &json!("proceed_once"))
        );
        assert!(why["by"].as_str().unwrap().contains("bob") && why["at"].is_string(), "{told}");
    }
    let log = machine.log(&machine.sessions()[0]);
    let answers = log.iter().filter(|e| matches!(e.event, Event::ApprovalAnswered { .. }));
    assert_eq!(answers.count(), 1);
}
