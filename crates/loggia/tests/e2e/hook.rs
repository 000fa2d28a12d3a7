//! The prompt hook: real scripts in front of a real server, on every route.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use futures::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::driver::Machine;
use crate::served::{EXTENSION, Served, text_message};

/// Saves its input and follows the instruction in the text.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
cat > "$here/seen.json"
pwd > "$here/pwd"
env > "$here/env"
case $(cat "$here/seen.json") in
*"please pass"*) echo '{"decision":"pass"}' ;;
*"please rewrite"*) echo '{"decision":"rewrite","text":"say rewritten words"}' ;;
*"please reject"*) echo '{"decision":"reject","reason":"not on a Sunday"}' ;;
*"please answer"*) echo '{"decision":"answer","text":"forty-two"}' ;;
*"please hang"*) sleep 300 & echo $! > "$here/child"; mv "$here/child" "$here/pid"; wait ;;
*"please daemon"*) sleep 300 & echo $! > "$here/pid"; echo '{"decision":"pass"}' ;;
*"please fail"*) echo '{"decision":"pass"}'; exit 3 ;;
*"please flood"*) yes '{"decision":"pass"}' ;;
*"please babble"*) echo 'well, canary-secret' ;;
*"please twice"*) echo '{"decision":"pass"}{"decision":"pass"}' ;;
*"please invent"*) echo '{"decision":"shout"}' ;;
*"please more"*) echo '{"decision":"pass","text":"x"}' ;;
*"please mumble"*) echo '{"decision":"answer","text":" "}' ;;
*) : ;;
esac
"#;

/// A machine with [`SCRIPT`] as its hook and a timeout of `seconds`.
fn machine(seconds: u64) -> Machine {
    let machine = Machine::new();
    let script = beside(&machine, "hook.sh");
    std::fs::write(&script, SCRIPT).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    configure(&machine, &format!("[hooks]\nprompt_submit = [{script:?}]\nseconds = {seconds}\n"));
    machine
}

fn beside(machine: &Machine, name: &str) -> std::path::PathBuf {
    machine.home().with_file_name(name)
}

fn configure(machine: &Machine, text: &str) {
    let directory = machine.home().join("config");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), text).unwrap();
}

fn seen(machine: &Machine) -> Value {
    let text = std::fs::read_to_string(beside(machine, "seen.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn send1(text: &str) -> Value {
    json!({ "message": { "role": "ROLE_USER", "messageId": "m-1", "parts": [{ "text": text }] } })
}

fn reason(answer: &Value) -> &str {
    answer["error"]["data"]["reason"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn a_message_that_passes_is_seen_whole() {
    let machine = machine(30);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let mut message = text_message("say please pass");
    message["metadata"] = json!({ "mood": { "n": 1.5 } });
    message["parts"].as_array_mut().unwrap().push(json!({ "kind": "data", "data": { "k": 1 } }));
    let params = json!({ "message": message, "configuration": { "blocking": true } });
    let task = served.call("message/send", params).await["result"].clone();
    assert_eq!(task["status"]["state"], "completed", "{task}");
    let first = seen(&machine);
    assert_eq!(first["event"], "prompt_submit");
    assert_eq!(first["id"], "m");
    assert_eq!(first["text"], "say please pass");
    assert_eq!(first["parts"][1], json!({ "type": "data", "data": { "k": 1 } }));
    assert_eq!(first["metadata"], json!({ "mood": { "n": 1.5 } }));
    assert_eq!((&first["session"], &first["task"]), (&Value::Null, &Value::Null));
    assert_eq!(first["origin"]["surface"], "a2a");
    assert!(first["origin"]["principal"].as_str().unwrap().starts_with("local:"), "{first}");
    assert_eq!((&first["version"], &first["extension"]), (&json!("0.3"), &json!(false)));
    // The next message names its task, in the other version, with the extension.
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {
        "message": { "role": "ROLE_USER", "messageId": "m-2", "taskId": task["id"],
                     "contextId": task["contextId"], "parts": [{ "text": "say please pass" }] },
    } });
    let request =
        served.post(&body).header("A2A-Version", "1.0").header("A2A-Extensions", EXTENSION);
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["result"]["task"]["id"], task["id"], "{answer}");
    let second = seen(&machine);
    assert_eq!((&second["session"], &second["task"]), (&task["contextId"], &task["id"]));
    assert_eq!((&second["version"], &second["extension"]), (&json!("1.0"), &json!(true)));
    // The workspace does not affect the hook, and it gets no environment of ours.
    let pwd = std::fs::read_to_string(beside(&machine, "pwd")).unwrap();
    assert_eq!(pwd, "/\n");
    let env = std::fs::read_to_string(beside(&machine, "env")).unwrap();
    assert!(env.contains("LOGGIA=1") && !env.contains("LOGGIA_HOME"), "{env}");
}

#[tokio::test]
async fn a_rewritten_message_is_what_the_agent_gets() {
    let machine = machine(30);
    let served = Served::shared(&machine, &[]);
    let answer = served.call("SendMessage", send1("say please rewrite")).await;
    let task = &answer["result"]["task"];
    assert_eq!(task["history"][0]["parts"][0]["text"], "say rewritten words", "{answer}");
    assert!(task.to_string().contains("rewritten words"));
    let session = task["contextId"].as_str().unwrap().to_owned();
    drop(served);
    let log = serde_json::to_string(&machine.log(&session)).unwrap();
    assert!(log.contains("say rewritten words") && !log.contains("please rewrite"), "{log}");
}

#[tokio::test]
async fn a_rejected_message_is_a_rejected_task_without_its_words() {
    let machine = machine(30);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let task = served.call("SendMessage", send1("please reject")).await["result"]["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_REJECTED", "{task}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "not on a Sunday");
    assert_eq!(task["history"][0]["messageId"], "m-1");
    // It is found and listed as rejected.
    let got = served.call("GetTask", json!({ "id": task["id"] })).await["result"].clone();
    assert_eq!(got, task);
    let filter = json!({ "status": "TASK_STATE_REJECTED" });
    let listed = served.call("ListTasks", filter).await["result"]["tasks"].clone();
    assert_eq!(listed[0]["id"], task["id"], "{listed}");
    // As a stream: one event, then the end; on the socket too.
    let events = served.stream(served.tool_stream(text_message("please reject")), usize::MAX).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].response["result"]["status"]["state"], "rejected");
    let mut socket = served.socket("").await;
    socket.send(4, "message/stream", json!({ "message": text_message("please reject") })).await;
    let frame = socket.until(|value| value["id"] == 4).await;
    assert_eq!(frame["result"]["status"]["state"], "rejected", "{frame}");
    socket.until(|value| value["method"] == "stream/end" && value["params"]["id"] == 4).await;
    // On every other route too, and its id stays valid.
    let old = events[0].response["result"].clone();
    let got = served.call("tasks/get", json!({ "id": old["id"] })).await["result"].clone();
    assert_eq!((&got["id"], &got["status"]), (&old["id"], &old["status"]), "{got}");
    let gone = served.call("tasks/cancel", json!({ "id": old["id"] })).await;
    assert_eq!(gone["error"]["code"], -32002, "{gone}");
    // Its text is stored nowhere, but the reason is.
    let log = machine.log(task["contextId"].as_str().unwrap());
    let log = serde_json::to_string(&log).unwrap();
    assert!(log.contains("not on a Sunday") && !log.contains("please reject"), "{log}");
    // A message to an existing task: the message is rejected, not the task.
    let task = served.call("SendMessage", send1("say please pass")).await["result"]["task"].clone();
    let mut more = send1("please reject");
    more["message"]["taskId"] = task["id"].clone();
    let refused = served.call("SendMessage", more).await;
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().ends_with("not on a Sunday"));
}

/// A command becomes a prompt, so the hook sees it on every route, whether built-in or from a file.
#[tokio::test]
async fn a_command_passes_the_hook_as_well() {
    let machine = machine(30);
    machine.write(".loggia/commands/greet.md", "say hello $1\n");
    assert_eq!(machine.run(&["trust"]).code, 0);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let execute = async |path: Value, args: &str| {
        let params = json!({ "command_path": path, "args": args });
        served.call("command/execute", params).await
    };
    for path in [json!(["greet"]), json!(["memory", "add"])] {
        let rejected = execute(path.clone(), "please reject").await;
        assert_eq!(rejected["result"]["status"], "FAILED_TO_START", "{rejected}");
        let why = rejected["result"]["message"].as_str().unwrap();
        assert!(why.ends_with("not on a Sunday"), "{rejected}");
        let answered = execute(path.clone(), "please answer").await["result"].clone();
        assert_eq!(
            (&answered["status"], &answered["message"]),
            (&json!("STARTED"), &json!("forty-two"))
        );
        let task = served.call("tasks/get", json!({ "id": answered["execution_id"] })).await;
        assert_eq!(task["result"]["status"]["state"], "completed", "{task}");
        let failed = execute(path, "please fail").await;
        assert_eq!(reason(&failed), "hook-failed", "{failed}");
    }
    // A command that the hook fails on is refused like a message.
    assert_eq!(reason(&execute(json!(["about"]), "").await), "hook-failed");
    let passed = execute(json!(["greet"]), "'please pass'").await["result"].clone();
    assert_eq!(passed["status"], "STARTED", "{passed}");
    assert_eq!(
        (&seen(&machine)["text"], &seen(&machine)["extension"]),
        (&json!("/greet 'please pass'"), &json!(true))
    );
    let rewritten = execute(json!(["greet"]), "please rewrite").await["result"].clone();
    let task = served.call("tasks/get", json!({ "id": rewritten["execution_id"] })).await;
    assert_eq!(task["result"]["history"][0]["parts"][0]["text"], "say rewritten words", "{task}");
    // The SDLC server's own route.
    let rest = async |args: &str| -> (u16, Value) {
        let body = json!({ "command": "greet", "args": [args] });
        let sent = served.request("POST", "/executeCommand").json(&body).send().await.unwrap();
        (sent.status().as_u16(), sent.json().await.unwrap())
    };
    let (status, rejected) = rest("please reject").await;
    assert_eq!((status, &rejected["reason"]), (400, &json!("rejected")), "{rejected}");
    let (status, answered) = rest("please answer").await;
    assert_eq!((status, &answered["data"]), (200, &json!("forty-two")), "{answered}");
    assert_eq!(answered["taskState"], "completed", "{answered}");
    let (_, rewritten) = rest("please rewrite").await;
    assert_eq!(rewritten["data"], "rewritten words", "{rewritten}");
}

#[tokio::test]
async fn an_answered_message_is_a_message_and_no_task() {
    let machine = machine(30);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let answer = served.call("SendMessage", send1("please answer")).await;
    let message = &answer["result"]["message"];
    assert_eq!(message["parts"][0]["text"], "forty-two", "{answer}");
    assert_eq!(message["role"], "ROLE_AGENT");
    assert!(message["contextId"].is_string() && message["taskId"].is_null(), "{answer}");
    let params = json!({ "message": text_message("please answer") });
    let old = served.call("message/send", params).await["result"].clone();
    assert_eq!((&old["kind"], &old["parts"][0]["text"]), (&json!("message"), &json!("forty-two")));
    let events = served.stream(served.tool_stream(text_message("please answer")), usize::MAX).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].response["result"]["parts"][0]["text"], "forty-two");
    assert!(machine.sessions().is_empty());
    // The conversation can continue in the context of the answer.
    let mut next = send1("say please pass");
    next["message"]["contextId"] = message["contextId"].clone();
    let task = served.call("SendMessage", next).await["result"]["task"].clone();
    assert_eq!(task["contextId"], message["contextId"], "{task}");
}

/// Fail closed: whatever fails, the message is refused, and its text appears nowhere.
#[tokio::test]
async fn a_hook_that_fails_refuses_the_message() {
    let machine = machine(30);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let failures = ["fail", "flood", "babble", "twice", "invent", "more", "mumble", "nothing"];
    for failure in failures {
        let message = text_message(&format!("please {failure}"));
        let answer = served.call("message/send", json!({ "message": message })).await;
        assert_eq!(answer["error"]["code"], -32603, "{failure}: {answer}");
        assert_eq!(reason(&answer), "hook-failed", "{failure}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    assert!(machine.sessions().is_empty());
    drop(served);
    // A missing program.
    configure(&machine, "[hooks]\nprompt_submit = ['/nowhere/hook']\n");
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let answer = served.call("message/send", json!({ "message": text_message("say x") })).await;
    assert_eq!(reason(&answer), "hook-failed");
}

/// After the timeout the message is refused, and all processes of the hook are killed.
#[tokio::test]
async fn a_hook_that_hangs_is_killed_with_its_group() {
    let machine = machine(1);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let begun = Instant::now();
    let params = json!({ "message": text_message("please hang") });
    let answer = served.call("message/send", params).await;
    assert_eq!(reason(&answer), "hook-failed");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    gone(&machine).await;
    // Processes left by a finished hook are killed too.
    let answer = served.call("SendMessage", send1("say please daemon")).await;
    assert_eq!(answer["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    gone(&machine).await;
}

/// A disconnected client's hook is killed.
#[tokio::test]
async fn the_hook_of_a_disconnected_client_is_killed() {
    let machine = machine(300);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send",
                       "params": { "message": text_message("please hang") } });
    let request = tokio::spawn(served.post(&body).send());
    let pid = beside(&machine, "pid");
    while !pid.exists() {
        tokio::task::yield_now().await;
    }
    request.abort();
    gone(&machine).await;
}

/// Waits until the process started by the hook is gone.
async fn gone(machine: &Machine) {
    let path = beside(machine, "pid");
    let pid = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        // A zombie may wait for its new parent.
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while alive() {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        tokio::task::yield_now().await;
    }
}

/// The hook sees no message of an unauthorized client, and a project cannot set a hook.
#[tokio::test]
async fn a_project_cannot_set_the_hook_and_it_sees_authorized_messages_only() {
    let machine = machine(30);
    machine.write(".loggia/config.toml", "[hooks]\nprompt_submit = ['/bin/false']\n");
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let task = served.call("SendMessage", send1("say please pass")).await["result"]["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    std::fs::remove_file(beside(&machine, "seen.json")).unwrap();
    let mut unknown = send1("please answer");
    unknown["message"]["taskId"] = json!("no-such-task");
    let answer = served.call("SendMessage", unknown).await;
    assert_eq!(answer["error"]["code"], -32001, "{answer}");
    assert!(!beside(&machine, "seen.json").exists());
}

/// The task service stores the client's message as changed by the hook.
#[tokio::test]
async fn tasks_that_clients_name_pass_the_hook_too() {
    let machine = machine(30);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let send = |id: &str, text: &str| {
        let message = json!({ "role": "user", "parts": [{ "text": text }] });
        served.call("tasks/send", json!({ "id": id, "message": message }))
    };
    let task = send("a", "say please rewrite").await["result"].clone();
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "rewritten words", "{task}");
    assert_eq!(task["input"]["message"]["parts"][0]["text"], "say rewritten words");
    let log = serde_json::to_string(&machine.log(task["sessionId"].as_str().unwrap())).unwrap();
    assert!(!log.contains("please rewrite"), "{log}");
    let seen = seen(&machine);
    assert_eq!((&seen["origin"]["surface"], &seen["version"]), (&json!("legacy"), &json!("0.1")));
    let again = send("a", "say please rewrite").await;
    assert_eq!(again["result"]["createdAt"], task["createdAt"], "{again}");
    let rejected = send("b", "please reject").await["result"].clone();
    assert_eq!((&rejected["id"], &rejected["state"]), (&json!("b"), &json!("failed")));
    assert_eq!(rejected["message"]["parts"][0]["text"], "not on a Sunday");
    let answered = send("c", "please answer").await["result"].clone();
    assert_eq!((&answered["id"], &answered["state"]), (&json!("c"), &json!("completed")));
    assert_eq!(answered["artifacts"][0]["parts"][0]["text"], "forty-two");
    // Both are ordinary tasks: found by name, and recognized when resent.
    let again = [("b", "please reject", &rejected), ("c", "please answer", &answered)];
    for (id, text, task) in again {
        let got = served.call("tasks/get", json!({ "id": id })).await["result"].clone();
        assert_eq!((&got["state"], &got["artifacts"]), (&task["state"], &task["artifacts"]));
        let repeated = send(id, text).await["result"].clone();
        assert_eq!(repeated["createdAt"], task["createdAt"], "{repeated}");
        let other = send(id, "say please pass").await;
        assert_eq!((&other["error"]["code"], reason(&other)), (&json!(-32602), "invalid-params"));
        assert_eq!(other["error"]["data"]["field"], "message", "{other}");
    }
    let failed = send("d", "please fail").await;
    assert_eq!(reason(&failed), "hook-failed");
}

/// Input of an attached terminal passes the hook: messages and shell commands after `!`. Answers
/// are not messages.
#[tokio::test]
async fn input_of_an_attached_terminal_passes_the_hook() {
    let machine = machine(30);
    let served = Served::shared(&machine, &[]);
    let protocol = [("Sec-WebSocket-Protocol", "loggia".to_owned())];
    let mut terminal = served.upgrade("?name=laptop", protocol).await.unwrap();
    let welcome = terminal.until(|value| value["type"] == "welcome").await;
    let mut number = 0;
    let mut wish = async |kind: &str, text: &str| {
        number += 1;
        let mut wanted = json!({ "id": number, "type": kind, "prompt": format!("p{number}") });
        match kind {
            "shell" => wanted["line"] = json!(text),
            _ => wanted["content"] = json!({ "parts": [{ "type": "text", "text": text }] }),
        }
        terminal.stream.send(Message::text(wanted.to_string())).await.unwrap();
        terminal.until(|value| value["id"] == number).await
    };
    let passed = wish("prompt", "say please pass").await;
    assert_eq!(passed["type"], "done", "{passed}");
    let shown = seen(&machine);
    assert_eq!((&shown["text"], &shown["version"]), (&json!("say please pass"), &json!("loggia")));
    assert_eq!((&shown["session"], &shown["task"]), (&welcome["session"], &Value::Null));
    assert_eq!(shown["origin"]["surface"], "tui", "{shown}");
    assert!(shown["origin"]["client"].as_str().unwrap().starts_with("laptop@"), "{shown}");
    let table = [
        ("prompt", "please reject", "the prompt hook rejects it: not on a Sunday"),
        ("prompt", "please answer", "the prompt hook answers: forty-two"),
        ("prompt", "please fail", "could not be checked"),
        ("shell", "touch please-x; : please reject", "the prompt hook rejects it: not on a Sunday"),
    ];
    for (kind, text, expected) in table {
        let refused = wish(kind, text).await;
        assert_eq!(refused["type"], "failed", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    }
    assert_eq!(seen(&machine)["text"], "!touch please-x; : please reject");
    assert_eq!(wish("prompt", "please rewrite").await["type"], "done");
    assert_eq!(wish("shell", ": please pass; touch y").await["type"], "done");
    terminal.until(|value| value["envelope"]["event"]["type"] == "call_ended").await;
    assert_eq!(machine.read("please-x"), None);
    assert_eq!(machine.read("y").as_deref(), Some(""));
    let log = machine.log(welcome["session"].as_str().unwrap());
    let log = serde_json::to_string(&log).unwrap();
    assert!(log.contains("say rewritten words") && !log.contains("please rewrite"), "{log}");
    assert!(!log.contains("Sunday") && !log.contains("please answer"), "{log}");
}
