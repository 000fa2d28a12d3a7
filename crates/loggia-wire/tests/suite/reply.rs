//! Answers that are not frames.

use loggia_core::{Content, Millis};
use loggia_wire::{Dialect, Extension, HistoryLength, Projector, PushTarget, Shown, View, reply};
use serde_json::json;

#[test]
fn a_direct_answer_without_a_task() {
    let shown = reply::message(Dialect::A2a03, &"s1".into(), "m1", "Hello", Millis(0));
    assert_eq!(
        shown,
        json!({
            "kind": "message", "role": "agent", "messageId": "m1", "contextId": "s1",
            "parts": [{ "kind": "text", "text": "Hello" }],
        })
    );
    let shown = reply::message(Dialect::A2a1, &"s1".into(), "m1", "Hello", Millis(0));
    assert_eq!(
        shown,
        json!({ "message": {
            "role": "ROLE_AGENT", "messageId": "m1", "contextId": "s1",
            "parts": [{ "text": "Hello" }],
        } })
    );
}

#[test]
fn a_rejected_task() {
    let content = Content { message: Some("m1".into()), ..Content::text("do it") };
    let shown = |dialect| {
        reply::rejected(dialect, &"s1".into(), &"t1".into(), &content, "not today", Millis(0))
    };
    assert_eq!(shown(Dialect::A2a03)["status"]["state"], "rejected");
    let task = shown(Dialect::A2a1);
    assert_eq!(task["status"]["state"], "TASK_STATE_REJECTED");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "not today");
    assert_eq!(task["status"]["timestamp"], "1970-01-01T00:00:00.000Z");
    assert_eq!(task["history"][0]["messageId"], "m1");
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
    assert_eq!(reply::push(Dialect::A2a03, &task, &target), v03);
    let v1 = json!({
        "id": "c1", "taskId": "t1", "url": "https://example.org/hook",
        "authentication": { "scheme": "Bearer" },
    });
    assert_eq!(reply::push(Dialect::A2a1, &task, &target), v1);
    let targets = [target];
    assert_eq!(reply::pushes(Dialect::A2a03, &task, &targets), json!([v03]));
    let listed = json!({ "configs": [v1], "nextPageToken": "" });
    assert_eq!(reply::pushes(Dialect::A2a1, &task, &targets), listed);
    assert_eq!(reply::push_deleted(Dialect::A2a03), json!(null));
    assert_eq!(reply::push_deleted(Dialect::A2a1), json!({}));
}

#[test]
fn a_page_of_tasks() {
    let shown = reply::page(vec![json!({ "id": "t1" })], None, 50, 1);
    let expected =
        json!({ "tasks": [{ "id": "t1" }], "nextPageToken": "", "pageSize": 50, "totalSize": 1 });
    assert_eq!(shown, expected);
}

#[test]
fn as_much_of_a_task_as_was_asked_for() {
    let log = super::logs::two_files();
    let view = View { dialect: Dialect::A2a1, extension: Extension::Off };
    let mut projector = Projector::new("session-1".into(), view);
    log.iter().for_each(|envelope| projector.fold(envelope));
    let task = projector.tasks().iter().next().unwrap().id.clone();
    let show =
        |history, artifacts| projector.snapshot(&task, Shown { history, artifacts }).unwrap();
    let whole = show(HistoryLength::All, true);
    let history = whole["history"].as_array().unwrap();
    assert_eq!(history.len(), 5, "a prompt, two questions, two answers");
    assert_eq!(whole["artifacts"].as_array().unwrap().len(), 2);
    let last = show(HistoryLength::Last(1), true);
    assert_eq!(last["history"].as_array().unwrap(), &history[4..]);
    let none = show(HistoryLength::Last(0), false);
    assert!(none.get("history").is_none() && none.get("artifacts").is_none());
    assert_eq!(reply::sent(Dialect::A2a1, none.clone()), json!({ "task": none }));
    assert_eq!(reply::sent(Dialect::A2a03, none.clone()), none);
}
