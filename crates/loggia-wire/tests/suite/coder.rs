//! The SDLC agent server as shipped: which messages are in its dialect, its answers, and the exchange for an
//! approved file, event by event.

use loggia_core::{Access, ChoiceId, Details, Edit, Question, Report, TaskChoice, Usage};
use loggia_wire::jsonrpc::Call;
use loggia_wire::{
    DecodedRequest, Delivery, Dialect, End, Extension, Frame, Id, Intent, Projector, Subject,
    TaskDetail, View, WireError, coder, decode,
};
use serde_json::{Value, json};

use super::script::{Script, written};
use super::transcript::project;

fn asked(method: &str, params: Value, extension: Extension) -> Result<DecodedRequest, WireError> {
    decode(&Call { id: Id::NULL, method: method.into(), params }, None, extension)
}

fn message(more: Value) -> Value {
    let mut message = json!({
        "kind": "message", "role": "user", "messageId": "m",
        "parts": [{ "kind": "text", "text": "go" }],
    });
    for (name, value) in more.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({ "message": message })
}

#[test]
fn activation() {
    let settings = json!({ "coderAgent": { "kind": "agent-settings", "workspacePath": "/w" } });
    let shipped = message(json!({ "metadata": settings }));
    let said = asked("message/stream", shipped.clone(), Extension::Off).unwrap();
    assert_eq!(said.view, View::CODER);
    let Intent::Prompt(prompt) = said.intent else { panic!() };
    assert_eq!(prompt.content.profile.as_deref(), Some(coder::PROFILE));
    assert_eq!(prompt.settings.unwrap().workspace_path.as_deref(), Some("/w"));
    // A client that names the extension is answered in the extension.
    let view = asked("message/stream", shipped, Extension::On).unwrap().view;
    assert_eq!(view, View { dialect: Dialect::A2a03, extension: Extension::On, guest: false });
    let both = message(json!({ "metadata": settings, "extensions": [loggia_wire::devtool::URI] }));
    let view = asked("message/stream", both, Extension::Off).unwrap().view;
    assert_eq!(view, View { dialect: Dialect::A2a03, extension: Extension::On, guest: false });
    // That server speaks 0.3 only.
    let newer = json!({ "message": {
        "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": "go" }], "metadata": settings,
    } });
    let view = asked("SendMessage", newer, Extension::Off).unwrap().view;
    assert_eq!(view, View { dialect: Dialect::A2a1, extension: Extension::On, guest: false });
}

/// A plain request about a task that was begun in this dialect.
#[test]
fn a_plain_request_follows_its_task() {
    for (method, params) in [
        ("tasks/get", json!({ "id": "t" })),
        ("tasks/cancel", json!({ "id": "t" })),
        ("tasks/resubscribe", json!({ "id": "t" })),
        ("message/send", message(json!({ "taskId": "t" }))),
    ] {
        let plain = asked(method, params.clone(), Extension::Off).unwrap();
        assert_eq!(plain.profile_subject(), Some(Subject::Task(&"t".into())), "{method}");
        let followed = plain.in_profile(Some(coder::PROFILE));
        assert_eq!(followed.view, View::CODER);
        if let Intent::Prompt(prompt) = &followed.intent {
            assert_eq!(prompt.task, TaskChoice::Reopen("t".into()));
            assert_eq!(prompt.delivery, Delivery::Unsaid);
        }
        let named = asked(method, params, Extension::On).unwrap();
        assert_eq!(named.profile_subject(), None, "{method}");
    }
}

#[test]
fn every_outcome_is_a_choice() {
    let file = |content: &str| Some(Edit::File { content: content.into() });
    let answer = |data: Value| {
        let parts = json!([{ "kind": "data", "data": data }]);
        let given = message(json!({ "taskId": "t", "parts": parts }));
        asked("message/stream", given, Extension::Off)
    };
    for (data, choice, edit) in [
        (json!({ "outcome": "proceed_once" }), "proceed_once", None),
        (json!({ "outcome": "cancel" }), "cancel", None),
        (json!({ "outcome": "cancel", "newContent": "x" }), "cancel", None),
        (json!({ "outcome": "proceed_always" }), "proceed_always", None),
        (json!({ "outcome": "proceed_always_server" }), "proceed_always", None),
        (json!({ "outcome": "proceed_always_tool" }), "proceed_always", None),
        (json!({ "outcome": "proceed_always_and_save" }), "proceed_always_project", None),
        (json!({ "outcome": "proceed_once", "newContent": "x" }), "proceed_once", file("x")),
        (json!({ "outcome": "modify_with_editor", "newContent": "x" }), "proceed_once", file("x")),
        (
            json!({ "outcome": "proceed_once", "answers": { "0": "both" } }),
            "answer",
            Some(Edit::Text { text: "both".into() }),
        ),
        // Passed on, and refused by the session, which knows the offered choices.
        (json!({ "outcome": "approve" }), "approve", None),
    ] {
        let mut data = data;
        data["callId"] = "call-1".into();
        let said = answer(data.clone()).unwrap();
        assert_eq!(said.view, View::CODER);
        let Intent::Answer(given) = said.intent else { panic!("{data}") };
        assert_eq!(given.to, Question::Call("call-1".into()));
        assert_eq!(given.choice, ChoiceId::from(choice), "{data}");
        assert_eq!(given.edit, edit, "{data}");
    }
    for bad in [
        json!({ "callId": "c", "outcome": 7 }),
        json!({ "callId": 7, "outcome": "cancel" }),
        json!({ "callId": "c", "outcome": "modify_with_editor" }),
        json!({ "callId": "c", "outcome": "proceed_once", "path": "/etc/passwd" }),
        json!({ "callId": "c", "outcome": "proceed_once", "answers": {} }),
    ] {
        assert!(matches!(answer(bad.clone()), Err(WireError::Invalid(_))), "{bad}");
    }
}

fn line(frame: &Frame) -> String {
    let body = &frame.body;
    if body["kind"] == "task" {
        return format!("task {}", body["status"]["state"].as_str().unwrap());
    }
    if body["kind"] == "artifact-update" {
        let text = body["artifact"]["parts"][0]["text"].as_str().unwrap();
        return format!("artifact append={} {text:?}", body["append"]);
    }
    let kind = body["metadata"]["coderAgent"]["kind"].as_str().unwrap();
    let part = &body["status"]["message"]["parts"][0];
    let about = match kind {
        "tool-call-update" | "tool-call-confirmation" => {
            let outcome = part["data"]["outcome"].as_str().unwrap_or("-");
            format!("{} outcome {outcome}", part["data"]["status"].as_str().unwrap())
        }
        "text-content" => part["text"].as_str().unwrap().to_owned(),
        "thought" => part["data"]["subject"].as_str().unwrap().to_owned(),
        _ => body["status"]["state"].as_str().unwrap().to_owned(),
    };
    let last = match (body["final"].as_bool().unwrap(), frame.ends) {
        (false, None) => "",
        (true, Some(End::InputRequired)) => ", final: an answer is needed",
        (true, Some(End::Terminal)) => ", final: the turn is over",
        other => panic!("{other:?}"),
    };
    format!("{kind} {about}{last}")
}

#[test]
fn an_approved_file_event_by_event() {
    let mut script = Script::new();
    let task = script.prompt("Write it");
    script.think("Writing a file", "I will write hello.txt.").say("I'll create hello.txt. ");
    let call = script.write("hello.txt", "hello\n");
    script.answer("bob", &call, ChoiceId::PROCEED_ONCE, None).unwrap();
    script.succeed(&call, written("hello.txt", "hello\n"));
    let usage =
        Usage { input_tokens: 120, output_tokens: 12, thought_tokens: 4, ..Usage::default() };
    script
        .report(Report::Usage { model: loggia_core::ModelName("m".into()), usage, window: None })
        .unwrap();
    script.next_reply().say("All done.").finish();
    let frames = project(&script.log, View::CODER);
    let lines: Vec<String> = frames.iter().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    task submitted
    state-change working
    thought Writing a file
    text-content I'll create hello.txt. 
    tool-call-update scheduled outcome -
    tool-call-confirmation awaiting_approval outcome -
    state-change input-required, final: an answer is needed
    tool-call-confirmation awaiting_approval outcome proceed_once
    tool-call-update scheduled outcome proceed_once
    tool-call-update executing outcome proceed_once
    tool-call-update success outcome proceed_once
    state-change working
    text-content All done.
    state-change input-required, final: the turn is over
    ");
    let last = &frames.last().unwrap().body["metadata"]["usageMetadata"];
    assert_eq!(last["totalTokenCount"], 132);
    let asked = &frames[5].body["status"]["message"]["parts"][0]["data"]["confirmationDetails"];
    assert_eq!(asked["type"], "edit");
    assert_eq!(asked["originalContent"], "");
    assert_eq!(asked["newContent"], "hello\n");
    // A poll: the text is in the history, and the state is that server's.
    let mut projector = Projector::new("session-1".into(), View::CODER);
    script.log.iter().for_each(|envelope| projector.fold(envelope));
    let shown = projector.snapshot(&task, TaskDetail::default()).unwrap();
    assert_eq!(shown["status"]["state"], "input-required");
    assert_eq!(shown["history"][1]["parts"][0]["text"], "I'll create hello.txt. ");
}

/// A command's record names its programs, output replaces earlier output, and a poll has the question.
#[test]
fn a_command_asks_and_prints() {
    let mut script = Script::new();
    let task = script.prompt("Build");
    let call = script.shell("cargo build && cargo test");
    let mut projector = Projector::new("session-1".into(), View::CODER);
    script.log.iter().for_each(|envelope| projector.fold(envelope));
    let shown = projector.snapshot(&task, TaskDetail::default()).unwrap();
    let record = &shown["status"]["message"]["parts"][0]["data"];
    assert_eq!(record["status"], "awaiting_approval");
    assert_eq!(record["confirmationDetails"]["type"], "exec");
    assert_eq!(record["confirmationDetails"]["rootCommands"], json!(["cargo"]));
    script.answer("ann", &call, ChoiceId::PROCEED_ONCE, None).unwrap();
    script.wait(200).output(&call, "one\n").wait(200).output(&call, "two\n");
    script.fail(&call, "exit_status", "exit status 2", 2);
    script.finish();
    let lines: Vec<String> = project(&script.log, View::CODER).iter().skip(5).map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    tool-call-confirmation awaiting_approval outcome proceed_once
    tool-call-update scheduled outcome proceed_once
    tool-call-update executing outcome proceed_once
    artifact append=false "one\n"
    artifact append=false "one\ntwo\n"
    tool-call-update error outcome proceed_once
    state-change working
    state-change input-required, final: the turn is over
    "#);
}

/// Questions about a tool of an MCP server, and about other calls.
#[test]
fn other_calls_ask_in_their_own_forms() {
    let mut script = Script::new();
    script.prompt("Do both");
    let input = json!({ "query": "a" });
    let mcp = Details::Mcp { server: "tickets".into(), tool: "find".into() };
    script.propose("tickets__find", Access::Other, input.clone(), mcp);
    let generic = Details::Generic { text: "Opens the door.".into() };
    script.propose("open_door", Access::Other, json!([1]), generic);
    let frames = project(&script.log, View::CODER);
    let asked: Vec<&Value> = frames
        .iter()
        .map(|frame| &frame.body["status"]["message"]["parts"][0]["data"]["confirmationDetails"])
        .filter(|details| details.is_object())
        .collect();
    assert_eq!(asked[0]["type"], "mcp");
    assert_eq!(asked[0]["serverName"], "tickets");
    assert_eq!(asked[0]["toolName"], "find");
    assert_eq!(asked[0]["toolArgs"], input);
    assert_eq!(asked[1]["type"], "info");
    assert_eq!(asked[1]["prompt"], "Opens the door.");
    assert_eq!(asked[1]["urls"], json!([]));
}

/// This dialect does not show the offered choices: a wider choice is narrowed to an offered one.
#[test]
fn a_wider_choice_is_narrowed_to_an_offered_one() {
    let offered = |ids: &[&str]| ids.iter().map(|id| ChoiceId::from(*id)).collect::<Vec<_>>();
    let all = offered(&["proceed_once", "proceed_always", "proceed_always_project", "cancel"]);
    let some = offered(&["proceed_once", "proceed_always", "cancel"]);
    let once = offered(&["proceed_once", "cancel"]);
    for (given, offered, taken) in [
        ("proceed_always_project", &all, "proceed_always_project"),
        ("proceed_always_project", &some, "proceed_always"),
        ("proceed_always_project", &once, "proceed_once"),
        ("proceed_always", &once, "proceed_once"),
        ("proceed_once", &once, "proceed_once"),
        ("cancel", &once, "cancel"),
        ("approve", &all, "approve"),
    ] {
        assert_eq!(coder::within(given.into(), offered), ChoiceId::from(taken), "{given}");
    }
}

/// The log has the profile of a task.
#[test]
fn the_profile_is_in_the_log() {
    let mut script = Script::new();
    let metadata = json!({ "coderAgent": { "kind": "agent-settings" } });
    let given = message(json!({ "metadata": metadata }));
    let said = asked("message/stream", given, Extension::Off).unwrap();
    let Intent::Prompt(prompt) = said.intent else { panic!() };
    let command = loggia_core::Command::Prompt {
        prompt: "p".into(),
        task: TaskChoice::Named("t".into()),
        content: prompt.content,
    };
    script.submit(super::script::client("ann"), command).unwrap();
    assert_eq!(script.session.profile_of(&"t".into()), Some(coder::PROFILE));
}
