//! The SDLC agent server as documented: its diagram line by line, the members of its objects, and the bodies
//! of its routes.

use std::path::Path;

use loggia_core::{
    ChoiceId, Command, Edit, Envelope, Question, Refusal, Report, Settings, Source, TaskChoice,
};
use loggia_wire::sdlc::decode;
use loggia_wire::sdlc::types::Tool;
use loggia_wire::{Delivery, End, Frame, Intent, Projector, TaskDetail, View, sdlc};
use serde_json::{Value, json};

use super::script::{Script, client};
use super::transcript::project;

fn golden(name: &str) -> Vec<Envelope> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loggia-core/tests/golden");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An event as the diagram writes it.
fn line(frame: &Frame) -> String {
    let kind = frame.body["kind"].as_str().unwrap();
    let about = match kind {
        "state-change" => frame.body["taskState"].as_str(),
        "thought" => frame.body["description"].as_str(),
        "text-content" => frame.body["text"].as_str(),
        "tool-call-update" => frame.body["status"].as_str(),
        _ => None,
    };
    let end = match frame.ends {
        None => "",
        Some(End::InputRequired) => "   the stream ends: an answer is needed",
        Some(End::Terminal) => "   the stream ends: the task is over",
    };
    about.map_or_else(|| kind.to_owned(), |about| format!("{kind}: {about}{end}"))
}

/// S2, "Event flow example".
#[test]
fn the_event_flow_example_line_for_line() {
    let log = golden("task_opened");
    let lines: Vec<String> = project(&log, View::SDLC).iter().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    state-change: submitted
    state-change: working
    thought: I'll create src/main.rs.
    tool-call-update: PENDING
    tool-call-confirmation
    state-change: input-required   the stream ends: an answer is needed
    state-change: working
    tool-call-update: EXECUTING
    tool-call-update: SUCCEEDED
    text-content: I've created src/main.rs.
    state-change: completed   the stream ends: the task is over
    ");
}

fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Every kind of event has exactly the members that the specification gives it.
#[test]
fn all_seven_kinds_have_the_specified_members() {
    let mut script = Script::new();
    script.prompt("Do it");
    script.think("Thinking", "I think.");
    script.say("Words.");
    let sources = vec![Source { title: "A".into(), uri: "https://example.org".into() }];
    script.report(Report::Cite { sources }).unwrap();
    let settings: Settings =
        serde_json::from_value(json!({ "model": "offline", "mode": "all" })).unwrap();
    let refused = script.write("a.txt", "a\n");
    script.answer("ann", &refused, ChoiceId::CANCEL, None).unwrap();
    script.submit(client("ann"), Command::Configure { settings }).unwrap();
    let failing = script.shell("make");
    script.fail(&failing, "exit_status", "exit status 2", 2);
    script.finish();
    let frames = project(&script.log, View::SDLC);
    let mut seen: Vec<(String, Vec<&str>)> = Vec::new();
    for frame in &frames {
        let kind = frame.body["kind"].as_str().unwrap();
        let status = frame.body["status"].as_str().unwrap_or_default();
        let named = format!("{kind} {status}").trim().to_owned();
        let mut members = members(&frame.body);
        members.sort_unstable();
        if !seen.iter().any(|(known, _)| *known == named) {
            seen.push((named, members));
        }
    }
    let text: Vec<String> =
        seen.iter().map(|(kind, members)| format!("{kind}: {}", members.join(" "))).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    state-change: contextId kind taskId taskState timestamp
    thought: description kind subject
    text-content: kind messageId text
    citation: kind title uri
    tool-call-update PENDING: inputParameters kind status toolCallId toolName
    tool-call-confirmation: confirmationRequest inputParameters kind toolCallId toolName
    tool-call-update CANCELLED: error kind status toolCallId toolName
    agent-settings: autoExecute kind workspacePath
    tool-call-update EXECUTING: kind status toolCallId toolName
    tool-call-update FAILED: error kind status toolCallId toolName
    ");
    let asked = frames.iter().find(|frame| frame.body["kind"] == "tool-call-confirmation");
    let request = &asked.unwrap().body["confirmationRequest"];
    assert_eq!(request["type"], "warning");
    assert!(request["title"].is_string() && request["prompt"].as_str().unwrap().contains("+a"));
    let settings = frames.iter().find(|frame| frame.body["kind"] == "agent-settings").unwrap();
    assert_eq!(settings.body["workspacePath"], "/work/demo");
    assert_eq!(settings.body["autoExecute"], true);
}

/// All six states occur.
#[test]
fn all_six_states() {
    let mut script = Script::new();
    script.submit(client("ann"), Command::OpenTask { task: "t".into(), profile: None }).unwrap();
    script.prompt_to(TaskChoice::Continue("t".into()), "one").unwrap();
    let call = script.write("a.txt", "a\n");
    script.answer("ann", &call, ChoiceId::CANCEL, None).unwrap();
    script.finish();
    script.prompt("two");
    script.finish_as(loggia_core::TurnOutcome::failed("it broke"));
    script.prompt("three");
    script.cancel(loggia_core::Cancel::Turn).unwrap();
    let frames = project(&script.log, View::SDLC);
    for state in ["submitted", "working", "input-required", "completed", "failed", "canceled"] {
        assert!(frames.iter().any(|frame| frame.body["taskState"] == state), "{state}");
    }
    let failed = frames.iter().find(|frame| frame.body["taskState"] == "failed").unwrap();
    assert_eq!(failed.body["error"], "it broke");
}

/// A queued prompt gets a state at once. If its own task is running, that state is `working`.
#[test]
fn a_queued_prompt_gets_a_state_at_once() {
    let states = |script: &Script| -> Vec<String> {
        let mut projector = Projector::new("s".into(), View::SDLC);
        let mut last = Vec::new();
        for event in &script.log {
            last = projector.project(event);
        }
        let told = |frame: &Frame| frame.body["taskState"].as_str().map(str::to_owned);
        last.iter().map(|frame| told(frame).unwrap_or("the question".into())).collect()
    };
    let mut script = Script::new();
    let task = script.prompt("one");
    script.prompt_to(TaskChoice::Continue(task.clone()), "two").unwrap();
    // The task is running already, and its state does not go back.
    assert_eq!(states(&script), ["working"]);
    script.prompt("another task");
    assert_eq!(states(&script), ["submitted"]);
    script.write("a.txt", "a\n");
    script.prompt_to(TaskChoice::Continue(task), "three").unwrap();
    assert_eq!(states(&script), ["the question", "input-required"]);
}

#[test]
fn metadata_has_the_specified_form_and_the_shipped_servers_at_once() {
    let log = golden("task_opened");
    let mut projector = Projector::new("session-1".into(), View::SDLC);
    log.iter().take(2).for_each(|envelope| projector.fold(envelope));
    let snapshot = projector.snapshot(&"task-1".into(), TaskDetail::default()).unwrap();
    let tool = Tool {
        name: "write_file".into(),
        description: "Writes.".into(),
        parameters: json!({ "type": "object" }),
    };
    let metadata = sdlc::metadata(snapshot, &[tool]);
    let expected = json!({
        "id": "task-1", "contextId": "session-1", "taskState": "submitted", "model": "scripted",
        "mcpServers": [],
        "availableTools": [{
            "name": "write_file", "description": "Writes.",
            "parameterSchema": { "type": "object" },
        }],
    });
    let mut named = metadata.clone();
    named["model"] = "scripted".into();
    assert_eq!(named, expected);
    let both = sdlc::metadata_of_one(&metadata);
    assert_eq!(both["metadata"], metadata);
    assert_eq!(both["taskState"], "submitted");
}

fn said(body: Value) -> Intent {
    let asked = decode::message(body.to_string().as_bytes()).unwrap().asked;
    assert_eq!(asked.view, View::SDLC);
    asked.intent
}

#[test]
fn a_prompt_may_be_written_in_every_way_that_the_specification_allows() {
    let settings =
        json!({ "kind": "agent-settings", "workspacePath": "/work/demo", "autoExecute": true });
    for message in [
        json!("go"),
        json!({ "text": "go" }),
        json!({ "kind": "text-content", "text": "go" }),
        json!({ "parts": [{ "kind": "text", "text": "go" }] }),
        json!({ "kind": "message", "messageId": "m", "role": "user",
                "parts": [{ "kind": "text", "text": "go" }] }),
    ] {
        let body = json!({
            "taskId": "t", "contextId": "c", "userMessage": message, "agentSettings": settings,
        });
        let Intent::Prompt(prompt) = said(body) else { panic!("{message}") };
        assert_eq!(prompt.content.to_text(), "go", "{message}");
        assert_eq!(prompt.task, TaskChoice::Reopen("t".into()));
        assert_eq!(prompt.session, Some("c".into()));
        assert_eq!(prompt.delivery, Delivery::Stream);
        let given = prompt.settings.unwrap();
        assert_eq!(given.workspace_path.as_deref(), Some("/work/demo"));
        assert_eq!(given.auto_execute, Some(true));
    }
    let inside = json!({ "text": "go", "metadata": { "coderAgent": settings } });
    let Intent::Prompt(prompt) = said(json!({ "userMessage": inside })) else { panic!() };
    assert_eq!(prompt.settings.unwrap().auto_execute, Some(true));
    assert_eq!(prompt.task, TaskChoice::New);
    assert_eq!(said(json!({ "taskId": "t" })), Intent::Subscribe { task: "t".into() });
}

#[test]
fn a_confirmation_says_yes_or_no() {
    let confirm = |more: Value| {
        let mut message = json!({ "kind": "tool-call-confirmation", "toolCallId": "call-1" });
        for (name, value) in more.as_object().unwrap() {
            message[name] = value.clone();
        }
        decode::message(json!({ "taskId": "t", "userMessage": message }).to_string().as_bytes())
    };
    for (more, choice, edit) in [
        (json!({ "approved": true }), "proceed_once", None),
        (json!({ "approved": false }), "cancel", None),
        (
            json!({ "approved": true, "newContent": "x" }),
            "proceed_once",
            Some(Edit::File { content: "x".into() }),
        ),
        (
            json!({ "approved": true, "answer": "both" }),
            "answer",
            Some(Edit::Text { text: "both".into() }),
        ),
    ] {
        let Intent::Answer(answer) = confirm(more).unwrap().asked.intent else { panic!() };
        assert_eq!(answer.to, Question::Call("call-1".into()));
        assert_eq!(answer.choice, ChoiceId::from(choice));
        assert_eq!(answer.edit, edit);
        assert_eq!(answer.task, Some("t".into()));
    }
    for bad in [
        json!({}),
        json!({ "approved": "yes" }),
        json!({ "approved": true, "outcome": "proceed_always" }),
        json!({ "approved": true, "toolCallId": 7 }),
    ] {
        let (status, body) = sdlc::error(&confirm(bad.clone()).unwrap_err());
        assert_eq!(status, 400, "{bad}");
        assert!(body["field"].as_str().unwrap().starts_with("userMessage"), "{body}");
    }
}

/// A confirmation has no names of choices, so an error must not ask for one.
#[test]
fn an_error_in_terms_of_a_confirmation() {
    let refused = |offered: &[&str]| {
        let offered = offered.iter().map(|id| (*id).to_owned()).collect();
        let error = Refusal::NotAChoice { given: "proceed_once".into(), offered };
        sdlc::error(&sdlc::in_its_words(error.into(), "userMessage")).1
    };
    let question = refused(&["option_1", "answer", "cancel"]);
    assert_eq!(question["field"], "userMessage.answer");
    assert!(question["error"].as_str().unwrap().contains("is missing"), "{question}");
    let call = refused(&["proceed_once", "cancel"]);
    assert!(call["error"].as_str().unwrap().contains("true or false"), "{call}");
    assert!(!format!("{question}{call}").contains("proceed_once"));
}

#[test]
fn errors_of_routes_name_the_field() {
    let message = |body: Value| decode::message(body.to_string().as_bytes()).unwrap_err();
    for (body, field) in [
        (json!({}), "userMessage"),
        (json!({ "userMessage": 7 }), "userMessage"),
        (json!({ "userMessage": {} }), "userMessage.text"),
        (json!({ "userMessage": { "kind": "state-change" } }), "userMessage.kind"),
        (json!({ "userMessage": { "text": "a", "parts": [] } }), "userMessage.text"),
        (json!({ "taskId": 7, "userMessage": "a" }), "taskId"),
        (
            json!({ "userMessage": "a", "agentSettings": { "workspacePath": "here" } }),
            "agentSettings.workspacePath",
        ),
        (
            json!({ "message": { "text": "a", "metadata": { "coderAgent": { "workspacePath": "x" } } } }),
            "message.metadata.coderAgent.workspacePath",
        ),
        (json!({ "userMessage": { "text": "a", "role": "agent" } }), "userMessage.role"),
        (json!({ "userMessage": "a".repeat(2 << 20) }), "userMessage"),
    ] {
        let (status, shown) = sdlc::error(&message(body.clone()));
        assert_eq!(status, 400, "{body}");
        assert_eq!(shown["field"], field, "{body}");
    }
    let (status, _) = sdlc::error(&decode::message(b"{").unwrap_err());
    assert_eq!(status, 400);
    let command = |body: &str| decode::command(body.as_bytes());
    assert_eq!(command(r#"{"command":"memory add","args":["a","b"]}"#).unwrap().args, "a b");
    for bad in ["", "{}", r#"{"command":7}"#, r#"{"command":"memory","args":"x"}"#] {
        assert_eq!(sdlc::error(&command(bad).unwrap_err()).0, 400, "{bad}");
    }
    let open = decode::open_task(
        br#"{"contextId":"c","agentSettings":{"kind":"agent-settings","workspacePath":"/w"}}"#,
    )
    .unwrap();
    assert_eq!(open.session, Some("c".into()));
    assert_eq!(open.settings.unwrap().workspace_path.as_deref(), Some("/w"));
    assert_eq!(decode::open_task(b"").unwrap().session, None);
}

#[test]
fn commands_have_their_full_names() {
    let tree = sdlc::types::commands(&loggia_core::CustomCommands::default());
    let memory = tree["commands"].as_array().unwrap().iter().find(|it| it["name"] == "memory");
    let below: Vec<&Value> =
        memory.unwrap()["subCommands"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert!(below.contains(&&json!("memory show")), "{below:?}");
}
