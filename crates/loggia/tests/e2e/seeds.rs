//! Promises of the documents S0–S4 (docs/contributing/promises.md) that no other module tests: the
//! extension belongs to a session, its metadata to its name, and states only move forward.

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::{EXTENSION, Event, Served, text_message};

const ANN: &str = "ann-0123456789abcdef";

fn serve(machine: &Machine, more: &[&str]) -> Served {
    Served::start(machine, &[&["serve", "--port", "0"], more].concat())
}

/// A request of either version with only this message.
fn call(newer: bool, method: &str, message: &Value) -> Value {
    let mut message = message.clone();
    if newer {
        message["role"] = "ROLE_USER".into();
        for part in message["parts"].as_array_mut().unwrap() {
            part.as_object_mut().unwrap().remove("kind");
        }
        message.as_object_mut().unwrap().remove("kind");
    }
    let params = json!({ "message": message, "configuration": { "blocking": true } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

async fn frames(served: &Served, body: &Value) -> Vec<Value> {
    let events = served.stream(served.post(body), usize::MAX).await;
    events.into_iter().map(|event| event.response["result"].clone()).collect()
}

/// Whether a stream or task has the extension's metadata.
fn is_extended(frames: &[Value]) -> bool {
    Value::from(frames.to_vec()).to_string().contains(&format!("{EXTENSION}\":{{\"kind\":\""))
        || Value::from(frames.to_vec()).to_string().contains("TOOL_CALL_UPDATE")
}

/// S1 §3.2: the first message of a session selects the extension.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_the_extension() {
    for newer in [false, true] {
        let machine = Machine::new();
        let served = serve(&machine, &[]);
        let (stream, get, follow) = match newer {
            true => ("SendStreamingMessage", "GetTask", "SubscribeToTask"),
            false => ("message/stream", "tasks/get", "tasks/resubscribe"),
        };
        let mut first = text_message("say one");
        first["contextId"] = "talk".into();
        first["metadata"] =
            json!({ EXTENSION: { "workspace_path": machine.work().canonicalize().unwrap() } });
        assert!(is_extended(&frames(&served, &call(newer, stream, &first)).await));
        // Only the context is named: a new task of the same session.
        let mut next = text_message("run touch A");
        next["contextId"] = "talk".into();
        let asked = frames(&served, &call(newer, stream, &next)).await;
        assert!(is_extended(&asked), "{asked:#?}");
        let text = Value::from(asked.clone()).to_string();
        assert!(text.contains("confirmation_request"), "{asked:#?}");
        let task = match newer {
            true => asked[0]["task"]["id"].clone(),
            false => asked[0]["id"].clone(),
        };
        let got = served.call(get, json!({ "id": task })).await["result"].clone();
        assert!(got["status"].to_string().contains("confirmation_request"), "{got}");
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": follow, "params": { "id": task } });
        let events: Vec<Event> = served.stream(served.post(&body), 1).await;
        let event = events[0].response["result"].to_string();
        assert!(event.contains("confirmation_request"), "{event}");
        // Another session, started without it, stays without.
        let mut plain = text_message("say two");
        plain["contextId"] = "other".into();
        for _ in 0..2 {
            assert!(!is_extended(&frames(&served, &call(newer, stream, &plain)).await));
        }
    }
}

/// S1 requires settings in the first message. Without them, or with empty ones, the session uses
/// the server's directory.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_settings_works_in_the_servers_directory() {
    let machine = Machine::new();
    let served = serve(&machine, &["--approve", "edits"]);
    let metadata =
        [Value::Null, json!({ EXTENSION: {} }), json!({ EXTENSION: { "workspace_path": "" } })];
    for (number, metadata) in metadata.into_iter().enumerate() {
        let mut message = text_message(&format!("write {number}.txt: hi"));
        message["metadata"] = metadata;
        let events = served.stream(served.tool_stream(message), usize::MAX).await;
        let last = &events.last().unwrap().response;
        assert_eq!(last["result"]["status"]["state"], "completed", "{last}");
        assert_eq!(machine.read(&format!("{number}.txt")).as_deref(), Some("hi\n"));
    }
    // An invalid path is not a missing one.
    let mut message = text_message("say hi");
    message["metadata"] = json!({ EXTENSION: { "workspace_path": "here" } });
    let refused = served.call("message/send", json!({ "message": message })).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

/// S1 §3.2: custom metadata is keyed by the extension. A copy for older clients is identical, and
/// an answer may name its question in either place.
#[tokio::test(flavor = "multi_thread")]
async fn custom_metadata_stands_under_the_extensions_name() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    for (number, keyed) in [true, false].into_iter().enumerate() {
        let message = text_message(&format!("run touch {number}"));
        let asked = served.stream(served.tool_stream(message), usize::MAX).await;
        let (task, call) = crate::served::asked(&asked);
        let question = asked.iter().map(|event| &event.response["result"]["metadata"]);
        let question = question.clone().find(|it| it["correlationId"].is_string()).unwrap();
        for name in ["correlationId", "detailsDigest"] {
            assert!(question[name].is_string(), "{question}");
            assert_eq!(question[EXTENSION][name], question[name], "{question}");
        }
        let named = |digest: &Value| {
            let named =
                json!({ "correlationId": question["correlationId"], "detailsDigest": digest });
            let mut answer = crate::served::confirmation(&task, &call, "proceed_once");
            answer["metadata"] = if keyed { json!({ EXTENSION: named }) } else { named };
            served.tool_stream(answer)
        };
        let wrong = served.stream(named(&json!("0")), usize::MAX).await;
        let wrong = &wrong[0].response;
        assert_eq!(wrong["error"]["data"]["reason"], "details-changed", "{wrong}");
        let done = served.stream(named(&question["detailsDigest"]), usize::MAX).await;
        let answer = done.iter().map(|event| &event.response["result"]["metadata"]);
        let answer = answer.clone().find(|it| it["answer"].is_object()).unwrap();
        assert_eq!(answer[EXTENSION]["answer"], answer["answer"], "{answer}");
    }
}

/// The states of a 0.3 stream in order.
fn states(frames: &[Value]) -> Vec<&str> {
    let mut states: Vec<&str> =
        frames.iter().filter_map(|frame| frame["status"]["state"].as_str()).collect();
    states.dedup();
    states
}

/// A task that asks and is cancelled does not return to working, and a failure is one message.
#[tokio::test(flavor = "multi_thread")]
async fn states_go_forward_and_a_failure_is_one_message() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    for extended in [false, true] {
        let mut message = text_message("run touch A");
        message["metadata"] = if extended { json!({ EXTENSION: {} }) } else { Value::Null };
        let asked = frames(&served, &call(false, "message/stream", &message)).await;
        let task = asked[0]["id"].clone();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
        let watching = served.post(&body);
        let mut watching = watching.send().await.unwrap();
        let mut text = String::new();
        while !text.contains("\n\n") {
            text.push_str(std::str::from_utf8(&watching.chunk().await.unwrap().unwrap()).unwrap());
        }
        served.call("tasks/cancel", json!({ "id": task })).await;
        while let Some(chunk) = watching.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        let seen = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let seen: Vec<Value> = seen
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["result"].clone())
            .collect();
        assert_eq!(states(&seen), ["input-required", "canceled"], "{seen:#?}");

        let mut message = text_message("fail out of luck");
        message["metadata"] = if extended { json!({ EXTENSION: {} }) } else { Value::Null };
        let failed = frames(&served, &call(false, "message/stream", &message)).await;
        let told = &failed.last().unwrap()["status"]["message"];
        let got =
            served.call("tasks/get", json!({ "id": failed[0]["id"] })).await["result"].clone();
        assert_eq!(got["status"]["message"]["messageId"], told["messageId"], "{got} {told}");
        assert!(told["parts"][0]["text"].as_str().unwrap().contains("out of luck"), "{told}");
    }
}

/// A client with a token may be remote: questions and errors contain no server path.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_from_elsewhere_reads_no_path_of_the_server() {
    let machine = Machine::new();
    machine.write("sub/a.txt", "");
    let tokens = machine.tokens(&format!("ann:{ANN}\n"));
    let served = serve(&machine, &["--token-file", &tokens]);
    let work = machine.work().canonicalize().unwrap().display().to_string();
    for text in ["run touch A", "read ../secret", "read /etc/passwd", "list ..", "/about"] {
        let params =
            json!({ "message": text_message(text), "configuration": { "blocking": true } });
        let answer = served.call_as(ANN, "/", "message/send", params).await;
        assert!(answer["result"]["status"]["state"].is_string(), "{answer}");
        assert!(!answer.to_string().contains(&work), "{text}: {answer}");
    }
    // A local user sees the path.
    let params =
        json!({ "message": text_message("run touch A"), "configuration": { "blocking": true } });
    let answer = served.call("message/send", params).await;
    assert!(answer.to_string().contains(&work), "{answer}");
}

/// 1.0 uses the JSON form of protocol buffers, where a number may be a string.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_1_0_may_be_texts() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let page = served.call("ListTasks", json!({ "pageSize": "5", "historyLength": "1" })).await;
    assert_eq!(page["result"]["pageSize"], 5, "{page}");
    let wrong = served.call("ListTasks", json!({ "page_size": "five" })).await;
    assert!(wrong["error"].to_string().contains("page_size"), "{wrong}");
}

/// S1: a client with the extension continues a finished task under its id; for a plain 1.0 client the task is over. In
/// the follow-up the states go forward.
#[tokio::test(flavor = "multi_thread")]
async fn a_finished_task_is_continued_by_clients_with_the_extension_only() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let mut message = text_message("say one");
    message["metadata"] = json!({ EXTENSION: {} });
    let first = frames(&served, &call(false, "message/stream", &message)).await;
    let task = first[0]["id"].clone();
    let mut more = text_message("say two");
    more["messageId"] = json!("m2");
    more["taskId"] = task.clone();
    more["metadata"] = json!({ EXTENSION: {} });
    let second = frames(&served, &call(false, "message/stream", &more)).await;
    let of = |frame: &Value| frame["id"] == task || frame["taskId"] == task;
    assert!(second.iter().all(of), "{second:#?}");
    let mut seen = states(&second);
    // The task may start as submitted, and does not return there.
    seen.retain(|state| *state != "submitted" || second[0]["status"]["state"] != "submitted");
    assert_eq!(seen, ["working", "completed"], "{second:#?}");

    let plain = frames(&served, &call(true, "SendStreamingMessage", &text_message("say x"))).await;
    let over = plain[0]["task"]["id"].clone();
    let mut late = text_message("say y");
    late["messageId"] = json!("m3");
    late["taskId"] = over;
    let refused: Value =
        served.post(&call(true, "SendMessage", &late)).send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["error"]["code"], -32004, "UnsupportedOperation: {refused}");
}

/// A write that changes nothing asks nothing.
#[test]
fn a_write_that_changes_nothing_asks_no_question() {
    let machine = Machine::new();
    machine.write("a.txt", "x\n");
    let ran = machine.run(&["run", "write a.txt: x"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ran = machine.run(&["run", "write a.txt: y"]);
    assert_eq!(ran.code, 3, "it asks: {}{}", ran.out, ran.err);
}

/// Files that other programs execute from are asked about although edits are allowed.
#[test]
fn protected_files_ask_although_edits_are_allowed() {
    for name in [
        ".factory/hooks/x.sh",
        ".opencode/command/x.md",
        ".mvn/extensions.xml",
        ".yarn/plugins/x.cjs",
        ".config/zed/tasks.json",
        ".git-credentials",
        "sub/.gdbinit",
    ] {
        let machine = Machine::new();
        let ran = machine.run(&["run", "--approve", "edits", &format!("write {name}: x")]);
        assert_eq!(ran.code, 3, "{name}: {}{}", ran.out, ran.err);
        assert_eq!(machine.read(name), None, "{name}");
    }
}
