//! The task service: its webhooks, and requests under one name that come at once.

use std::sync::Arc;

use loggia_testkit::{Act, ScriptAgent, client};
use serde_json::{Value, json};

use crate::stage::{Stage, options};
use crate::webhook::Webhook;

fn saying(id: &str) -> Value {
    json!({ "id": id, "message": { "role": "user", "parts": [{ "text": "go" }] } })
}

#[tokio::test]
async fn a_webhook_gets_tasks_by_the_names_their_client_gave_them() {
    let stage = Stage::doing([Act::say("done")]);
    let webhook = Webhook::start().await;
    let config = json!({
        "url": webhook.url(), "token": "canary-token",
        "authentication": { "schemes": ["Bearer"], "credentials": "canary-credentials" },
    });
    let mut params = saying("report");
    params["pushNotification"] = config.clone();
    let task = stage.task_of("ann", "tasks/send", params).await.unwrap();
    assert_eq!(task["state"], "completed", "{task}");
    assert!(!task.to_string().contains("canary"), "{task}");
    let calls = webhook.until_over().await;
    let last = calls.last().unwrap();
    assert_eq!((&last.body["id"], &last.body["state"]), (&json!("report"), &json!("completed")));
    assert_eq!(last.body["artifacts"][0]["parts"][0]["text"], "done");
    assert_eq!(last.header("content-type"), "application/json");
    assert_eq!(last.header("authorization"), "Bearer canary-credentials");
    assert_eq!(last.header("x-a2a-notification-token"), "canary-token");
    let shown = json!({ "id": "report", "pushNotificationConfig": {
        "url": webhook.url(), "authentication": { "schemes": ["Bearer"] },
    } });
    let get = json!({ "id": "report" });
    let got = stage.task_of("ann", "tasks/pushNotification/get", get.clone()).await;
    assert_eq!(got.unwrap(), shown);
    let set = json!({ "id": "report", "pushNotificationConfig": config });
    let set_again = stage.task_of("ann", "tasks/pushNotification/set", set.clone()).await;
    assert_eq!(set_again.unwrap(), shown);
    for (method, params) in
        [("tasks/pushNotification/get", get), ("tasks/pushNotification/set", set)]
    {
        let hidden = stage.task_of("bob", method, params).await.unwrap_err();
        assert_eq!(hidden["code"], -32001, "{method}");
    }
}

/// The first request makes the task; the others get it, or an error that says how they differ.
#[tokio::test]
async fn one_name_for_many_sessions_at_once_is_one_task() {
    let stage = Stage::doing([Act::say("done")]);
    let sent = (0..16).map(|number| {
        let mut params = saying("report");
        params["sessionId"] = format!("session-{}", number % 4).into();
        stage.task_of("ann", "tasks/send", params)
    });
    let answers = futures::future::join_all(sent).await;
    let tasks: Vec<&Value> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    assert!(!tasks.is_empty());
    for task in &tasks {
        assert_eq!(task["sessionId"], tasks[0]["sessionId"]);
        assert_eq!(task["createdAt"], tasks[0]["createdAt"]);
    }
    assert_eq!(tasks.len(), 4, "{answers:#?}");
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_eq!(
            (&error["code"], &error["data"]["field"]),
            (&json!(-32602), &json!("sessionId"))
        );
    }
    let got = stage.task_of("ann", "tasks/get", json!({ "id": "report" })).await.unwrap();
    assert_eq!(got["sessionId"], tasks[0]["sessionId"]);
}

/// A first message that finds the session being opened by another first message waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_request_many_times_at_once_is_answered_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = client::sqlite(directory.path());
    let stage = Arc::new(Stage::with(store, ScriptAgent::doing([Act::say("done")]), options()));
    for round in 0..40 {
        let sent = (0..8).map(|_| {
            let stage = stage.clone();
            tokio::spawn(async move {
                stage.task_of("ann", "tasks/send", saying(&format!("report-{round}"))).await
            })
        });
        for answer in futures::future::join_all(sent).await {
            let task = answer.unwrap().unwrap_or_else(|error| panic!("{round}: {error}"));
            assert_eq!(task["state"], "completed", "{task}");
        }
    }
}
