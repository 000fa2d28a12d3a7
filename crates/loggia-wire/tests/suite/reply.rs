//! Answers that are not frames.

use loggia_core::{AnswerMessage, ChoiceId, Command, Content, Question, Screening, TaskChoice};
use loggia_wire::{End, HistoryLength, Projector, PushTarget, TaskDetail, View, reply};
use serde_json::json;

use super::script::{Script, client};

#[test]
fn a_direct_answer_without_a_task() {
    let shown = View::A2A_03.message(&"s1".into(), "m1", "Hello").unwrap();
    assert_eq!(
        shown,
        json!({
            "kind": "message", "role": "agent", "messageId": "m1", "contextId": "s1",
            "parts": [{ "kind": "text", "text": "Hello" }],
        })
    );
    let shown = View::A2A_1.message(&"s1".into(), "m1", "Hello").unwrap();
    assert_eq!(
        shown,
        json!({ "message": {
            "role": "ROLE_AGENT", "messageId": "m1", "contextId": "s1",
            "parts": [{ "text": "Hello" }],
        } })
    );
}

/// The history has a person's answer as it was sent: its id, its text.
#[test]
fn an_answer_in_the_history_is_as_it_was_sent() {
    let message = |id: &str, text: Option<&str>| {
        Some(AnswerMessage { id: Some(id.into()), text: text.map(str::to_owned) })
    };
    let table = [
        (message("m-7", Some("Yes, please.")), "m-7", "Yes, please."),
        (message("m-8", None), "m-8", "proceed_once"),
        (None, "", "proceed_once"),
    ];
    for (message, id, text) in table {
        let mut script = Script::new();
        let task = script.prompt("do it");
        let call = script.write("a.txt", "a\n");
        let (to, choice) = (Question::Call(call), ChoiceId::from(ChoiceId::PROCEED_ONCE));
        let answer = Command::Answer { to, choice, edit: None, digest: None, message };
        script.submit(client("ann"), answer).unwrap();
        for view in [View::A2A_03, View::A2A_1, View::PROTO_03] {
            let mut projector = Projector::new("s1".into(), view);
            script.log.iter().for_each(|event| projector.fold(event));
            let shown = projector.snapshot(&task, TaskDetail::default()).unwrap();
            let said = shown["history"].as_array().unwrap().last().unwrap().clone();
            let parts = if view == View::PROTO_03 { &said["content"] } else { &said["parts"] };
            assert_eq!(parts[0]["text"], text, "{said}");
            let given = said["messageId"].as_str().unwrap();
            assert!(if id.is_empty() { given.ends_with("-answer") } else { given == id }, "{said}");
        }
    }
}

/// A message that a hook rejected or answered is a task of the log like any other.
#[test]
fn a_rejected_or_answered_message() {
    let command = |screening| Command::Screened {
        prompt: "p1".into(),
        task: TaskChoice::Named("t1".into()),
        content: Content { message: Some("m1".into()), ..Content::default() },
        screening,
    };
    let rejected = command(Screening::Rejected { reason: "not today".into() });
    let answered = command(Screening::Answered { text: "forty-two".into() });
    let shown = |command: &Command, view| {
        let mut script = Script::new();
        script.submit(client("ann"), command.clone()).unwrap();
        let mut projector = Projector::new("s1".into(), view);
        let frames: Vec<_> = script.log.iter().flat_map(|event| projector.project(event)).collect();
        assert_eq!(frames.len(), 1, "{view:?}");
        assert_eq!(frames[0].ends, Some(End::Terminal), "{view:?}");
        projector.snapshot(&"t1".into(), TaskDetail::default()).unwrap()
    };
    let table = [
        (View::A2A_03, "rejected", "completed"),
        (View::PROTO_03, "TASK_STATE_REJECTED", "TASK_STATE_COMPLETED"),
        (View::A2A_1, "TASK_STATE_REJECTED", "TASK_STATE_COMPLETED"),
        (View::LEGACY, "failed", "completed"),
    ];
    for (view, no, yes) in table {
        let (rejected, answered) = (shown(&rejected, view), shown(&answered, view));
        assert_eq!(rejected["status"]["state"], no);
        assert!(rejected["status"]["message"].to_string().contains("not today"), "{rejected}");
        assert_eq!(answered["status"]["state"], yes);
        assert_eq!(answered["artifacts"][0]["parts"][0]["text"], "forty-two", "{answered}");
    }
    let metadata = shown(&rejected, View::SDLC);
    assert_eq!(metadata["taskState"], "failed");
}

#[test]
fn callbacks_are_shown_without_their_secrets() {
    let target = PushTarget {
        id: Some("c1".into()),
        url: "https://example.org/hook".into(),
        token: Some("secret".into()),
        scheme: Some("Bearer".into()),
        credentials: Some("abc".into()),
    };
    let task = "t1".into();
    let v03 = json!({ "taskId": "t1", "pushNotificationConfig": {
        "id": "c1", "url": "https://example.org/hook", "authentication": { "schemes": ["Bearer"] },
    } });
    assert_eq!(View::A2A_03.push_config(&task, &target), v03);
    let v1 = json!({
        "id": "c1", "taskId": "t1", "url": "https://example.org/hook",
        "authentication": { "scheme": "Bearer" },
    });
    assert_eq!(View::A2A_1.push_config(&task, &target), v1);
    let targets = [target];
    assert_eq!(View::A2A_03.push_configs(&task, &targets), json!([v03]));
    let listed = json!({ "configs": [v1], "nextPageToken": "" });
    assert_eq!(View::A2A_1.push_configs(&task, &targets), listed);
    assert_eq!(View::A2A_03.push_config_deleted(), json!(null));
    assert_eq!(View::A2A_1.push_config_deleted(), json!({}));
}

#[test]
fn a_page_of_tasks() {
    let shown = reply::page(vec![json!({ "id": "t1" })], None, 50, 1);
    let expected =
        json!({ "tasks": [{ "id": "t1" }], "nextPageToken": "", "pageSize": 50, "totalSize": 1 });
    assert_eq!(shown, expected);
}

#[test]
fn the_requested_detail_of_a_task() {
    let log = super::logs::two_files();
    let view = View::A2A_1;
    let mut projector = Projector::new("session-1".into(), view);
    log.iter().for_each(|envelope| projector.fold(envelope));
    let task = projector.tasks().iter().next().unwrap().id.clone();
    let show =
        |history, artifacts| projector.snapshot(&task, TaskDetail { history, artifacts }).unwrap();
    let whole = show(HistoryLength::All, true);
    let history = whole["history"].as_array().unwrap();
    assert_eq!(history.len(), 5, "a prompt, two questions, two answers");
    assert_eq!(whole["artifacts"].as_array().unwrap().len(), 2);
    let last = show(HistoryLength::Last(1), true);
    assert_eq!(last["history"].as_array().unwrap(), &history[4..]);
    let none = show(HistoryLength::Last(0), false);
    assert!(none.get("history").is_none() && none.get("artifacts").is_none());
    assert_eq!(View::A2A_1.sent(none.clone()), json!({ "task": none }));
    assert_eq!(View::A2A_03.sent(none.clone()), none);
}
