//! S1, appendix A, line by line: the messages of the client and of the server, in order.

use loggia_core::{Command, Question, TaskChoice};
use loggia_wire::{
    Answer, Delivery, Dialect, End, Extension, Frame, Intent, Prompt, View, decode, jsonrpc,
};
use serde_json::{Value, json};

use super::script::{Script, client, written};
use super::transcript::project;

const URI: &str = loggia_wire::devtool::URI;

fn prompted(body: &Value) -> Box<Prompt> {
    match asked(body) {
        Intent::Prompt(prompt) => prompt,
        other => panic!("not a prompt: {other:?}"),
    }
}

fn answered(body: &Value) -> Box<Answer> {
    match asked(body) {
        Intent::Answer(answer) => answer,
        other => panic!("not an answer: {other:?}"),
    }
}

fn asked(body: &Value) -> Intent {
    let jsonrpc::Body::One(call) = jsonrpc::parse(body.to_string().as_bytes(), None).unwrap()
    else {
        panic!("a batch");
    };
    let asked = decode(&call, None, Extension::Off).unwrap();
    assert_eq!(
        asked.view,
        View { dialect: Dialect::A2a03, extension: Extension::On, guest: false }
    );
    asked.intent
}

fn kind(frame: &Frame) -> &Value {
    &frame.body["metadata"][URI]["kind"]
}

fn tool_call(frame: &Frame) -> &Value {
    assert_eq!(frame.body["kind"], "status-update");
    assert_eq!(kind(frame), "TOOL_CALL_UPDATE");
    assert_eq!(frame.body["metadata"]["coderAgent"]["kind"], "tool-call-update");
    assert_eq!(frame.body["status"]["message"]["parts"][0]["kind"], "data");
    &frame.body["status"]["message"]["parts"][0]["data"]
}

fn state_change(frame: &Frame, state: &str, ends: Option<End>) {
    assert_eq!(frame.body["kind"], "status-update");
    assert_eq!(kind(frame), "STATE_CHANGE");
    assert_eq!(frame.body["status"]["state"], state);
    assert_eq!(frame.body["final"], ends.is_some());
    assert_eq!(frame.ends, ends);
}

#[test]
fn the_example_interaction() {
    let mut script = Script::new();

    // 1. Client → server: the prompt and the settings.
    let first = prompted(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "message/stream",
        "params": { "message": {
            "kind": "message", "role": "user", "messageId": "message-1",
            "parts": [{ "kind": "text", "text": "Write hello.txt" }],
            "metadata": { URI: { "workspace_path": "/work/demo" } },
        } },
    }));
    assert_eq!(first.delivery, Delivery::Stream);
    assert_eq!(first.task, TaskChoice::New);
    let settings = first.settings.clone().unwrap();
    assert_eq!(settings.workspace_path.as_deref(), Some("/work/demo"));
    let prompt = Command::Prompt {
        prompt: "prompt-1".into(),
        task: first.task.clone(),
        content: first.content.clone(),
    };
    script.submit(client("ann"), prompt).unwrap();

    // 3. The agent decides to call `write_file`, which requires confirmation.
    let call = script.write("hello.txt", "hello\n");

    // 2 and 4. The stream of the first request.
    let view = View { dialect: Dialect::A2a03, extension: Extension::On, guest: false };
    let frames = project(&script.log, view);
    let [submitted, working, pending, waiting] = frames.as_slice() else {
        panic!("four events, not {}", frames.len());
    };
    assert_eq!(submitted.body["kind"], "task");
    assert_eq!(submitted.body["status"]["state"], "submitted");
    let task = submitted.body["id"].as_str().unwrap().to_owned();
    assert_eq!(submitted.body["contextId"], "session-1");
    state_change(working, "working", None);
    assert_eq!(working.body["taskId"], task);
    let shown = tool_call(pending);
    assert_eq!(pending.body["final"], false);
    assert_eq!(shown["status"], "PENDING");
    assert_eq!(shown["tool_name"], "write_file");
    let request = &shown["confirmation_request"];
    let options: Vec<&Value> =
        request["options"].as_array().unwrap().iter().map(|option| &option["id"]).collect();
    assert!(options.contains(&&json!("proceed_once")) && options.contains(&&json!("cancel")));
    assert_eq!(request["file_edit_details"]["file_name"], "hello.txt");
    assert_eq!(request["file_edit_details"]["file_path"], "/work/demo/hello.txt");
    assert_eq!(request["file_edit_details"]["new_content"], "hello\n");
    assert_eq!(pending.body["metadata"]["correlationId"], script.open_approval().as_str());
    state_change(waiting, "input-required", Some(End::InputRequired));
    // S1 §3.2: the message of that event contains the request too.
    let again = &waiting.body["status"]["message"]["parts"][0]["data"];
    assert_eq!(again, shown);

    // 5 and 6. The user approves; the client sends a new request for the same task.
    let answer = answered(&json!({
        "jsonrpc": "2.0", "id": 2, "method": "message/stream",
        "params": { "message": {
            "kind": "message", "role": "user", "messageId": "message-2",
            "contextId": "session-1", "taskId": task, "extensions": [URI],
            "parts": [{ "kind": "data", "data": {
                "tool_call_id": shown["tool_call_id"], "selected_option_id": "proceed_once",
            } }],
        } },
    }));
    assert_eq!(answer.to, Question::Call(call.clone()));
    assert_eq!(answer.task.clone().unwrap().as_str(), task);
    let Answer { to, choice, edit, digest, .. } = *answer;
    script
        .submit(client("ann"), Command::Answer { to, choice, edit, digest, message: None })
        .unwrap();

    // 8. The tool runs, the agent answers.
    script.succeed(&call, written("hello.txt", "hello\n"));
    script.next_reply().say("I wrote hello.txt.").finish();

    // 7 and 9. The stream of the second request: everything after the end of the first.
    let frames = project(&script.log, view);
    let [executing, succeeded, text, completed] = &frames[4..] else {
        panic!("four more events, not {}", frames.len() - 4);
    };
    assert_eq!(tool_call(executing)["status"], "EXECUTING");
    assert_eq!(tool_call(succeeded)["status"], "SUCCEEDED");
    assert_eq!(tool_call(succeeded)["output"]["diff"]["new_content"], "hello\n");
    assert_eq!(kind(text), "TEXT_CONTENT");
    assert_eq!(
        text.body["status"]["message"]["parts"],
        json!([{ "kind": "text", "text": "I wrote hello.txt." }])
    );
    state_change(completed, "completed", Some(End::Terminal));

    // 10. The task can be continued by sending another message with the same `taskId`.
    let next = prompted(&json!({
        "jsonrpc": "2.0", "id": 3, "method": "message/stream",
        "params": { "message": {
            "kind": "message", "role": "user", "messageId": "message-3", "taskId": task,
            "extensions": [URI], "parts": [{ "kind": "text", "text": "Now say goodbye" }],
        } },
    }));
    assert_eq!(next.task, TaskChoice::Reopen(task.as_str().into()));
    let Prompt { task, content, .. } = *next;
    script
        .submit(client("ann"), Command::Prompt { prompt: "prompt-2".into(), task, content })
        .unwrap();
    let frames = project(&script.log, view);
    assert_eq!(frames[8].body["kind"], "task");
    assert_eq!(frames[8].body["status"]["state"], "submitted");
    state_change(&frames[9], "working", None);
}

#[test]
fn every_update_carries_the_whole_call() {
    for frame in project(
        &super::logs::two_files(),
        View { dialect: Dialect::A2a03, extension: Extension::On, guest: false },
    ) {
        if kind(&frame) == "TOOL_CALL_UPDATE" {
            let call = tool_call(&frame);
            for member in ["tool_call_id", "status", "tool_name", "description", "input_parameters"]
            {
                assert!(call.get(member).is_some(), "{member} is missing in {call}");
            }
        }
    }
}
