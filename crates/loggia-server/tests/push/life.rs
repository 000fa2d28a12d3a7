//! Webhooks across restarts: no registration is lost, and attempts end.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{Command, Content, Event, Seq, SessionId, TaskChoice, TaskId};
use loggia_server::auth::{Clients, Grant, Scopes};
use loggia_server::dispatch::Reply;
use loggia_server::push::record::{Records, Registration, Start};
use loggia_session::{MemoryStore, SessionHandle, Store};
use loggia_testkit::{Act, Reader, ScriptAgent, client};
use serde_json::{Value, json};

use crate::stage::{Stage, options, send1};
use crate::webhook::{Answer, Call, TEST_TIMEOUT, Webhook};

fn bodies(calls: &[Call]) -> Vec<Value> {
    calls.iter().map(|call| call.body.clone()).collect()
}

/// After a graceful stop between two notifications, a new process delivers the rest, and nothing twice.
#[tokio::test]
async fn after_a_restart_the_rest_is_delivered() {
    let directory = client::directory();
    let agent = ScriptAgent::doing([Act::Flood(10)]);
    let answers = [Answer::Status(200), Answer::Status(200), Answer::Status(200)];
    let webhook = Webhook::answering(answers, Answer::Status(503)).await;
    let stage = Stage::with(client::sqlite(directory.path()), agent.clone(), options());
    let task = stage.send1("go", json!({ "id": "c", "url": webhook.url() })).await;
    webhook.until(|calls| calls.len() > 5).await;
    let reader = Webhook::start().await;
    stage.stop().await;

    webhook.answer_next(vec![Answer::Status(200); 100]);
    let received = webhook.calls().len();
    let stage = Stage::with(client::sqlite(directory.path()), agent, options());
    stage.server.resume_push().await.unwrap();
    let taken = webhook.until_over().await;
    let later = &webhook.calls()[received..];
    assert!(later.iter().all(|call| call.status == 200));
    let mut names: Vec<_> = taken.iter().map(|call| call.header("webhook-id").to_owned()).collect();
    let whole = names.len();
    names.dedup();
    assert_eq!(names.len(), whole, "nothing twice");
    // The same as a reader from the beginning of the task.
    let config = json!({ "taskId": task["id"], "id": "d", "url": reader.url() });
    stage.call("CreateTaskPushNotificationConfig", config).await;
    let snapshot = reader.until_over().await.remove(0).body["task"].clone();
    let words = |value: &Value| value.to_string().matches("piece ").count();
    let told: usize = bodies(&taken).iter().map(words).sum();
    assert_eq!(told, words(&snapshot["artifacts"]), "{taken:#?}");
    stage.stop().await;

    // Everything is delivered: a third process has nothing to do.
    let received = webhook.calls().len();
    let stage = Stage::with(client::sqlite(directory.path()), ScriptAgent::idle(), options());
    stage.server.resume_push().await.unwrap();
    stage.stop().await;
    assert_eq!(webhook.calls().len(), received);
}

/// The cursor is on disk before the next notification is sent, so that a crash repeats one at most.
#[tokio::test]
async fn the_cursor_moves_before_the_next_one_is_sent() {
    let directory = client::directory();
    let agent = ScriptAgent::doing([Act::Flood(10)]);
    let stage = Stage::with(client::sqlite(directory.path()), agent, options());
    for taken in 1..4 {
        let answers = vec![Answer::Status(200); taken];
        let webhook = Webhook::answering(answers, Answer::Hang).await;
        let task = stage.send1("go", json!({ "id": "c", "url": webhook.url() })).await;
        let calls = webhook.until(|calls| calls.len() > taken).await;
        let records = Records::new(stage.store.clone());
        let task = TaskId::from(task["id"].as_str().unwrap());
        let registration = records.of_task(&task).await.unwrap().remove(0);
        let cursor = records.cursor(&registration).await.unwrap();
        let place = calls[taken - 1].header("webhook-id").rsplit_once('-').unwrap().1;
        assert_eq!(cursor.delivered.as_deref(), Some(place), "{cursor:?}");
    }
}

/// The webhooks of a revoked client get nothing more.
#[tokio::test]
async fn a_webhook_ends_with_its_client() {
    let stage = Stage::doing([Act::Flood(10)]);
    let clients = Clients::new(stage.store.clone());
    clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
    let ann = clients.find("ann").await.unwrap().unwrap().principal();
    let webhook = Webhook::answering([], Answer::Status(503)).await;
    let params = send1("go", json!({ "id": "c", "url": webhook.url() }));
    let sent = match stage.ask(&ann, "SendMessage", params).await {
        Ok(Reply::Value(sent)) => sent,
        _ => panic!("it is not sent"),
    };
    let task = TaskId::from(sent["task"]["id"].as_str().unwrap());
    webhook.until(|calls| calls.len() > 3).await;
    clients.rotate("ann").await.unwrap();
    let received = webhook.calls().len();
    webhook.until(|calls| calls.len() > received + 1).await; // a new secret is the same client
    clients.revoke("ann").await.unwrap();
    // The next client of this name is another principal.
    clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
    let records = Records::new(stage.store.clone());
    let gone = async {
        while !records.of_task(&task).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, gone).await.expect("it is forgotten");
    stage.stop().await;
}

fn registration(handle: &SessionHandle, task: &TaskId, url: String) -> Registration {
    Registration {
        serial: "s".into(),
        session: handle.id().clone(),
        task: task.clone(),
        config: "c".into(),
        url,
        token: None,
        scheme: None,
        credentials: None,
        version: "1.0".to_owned(),
        extension: false,
        principal: "ann".into(),
        start: Start::After(handle.head()),
    }
}

/// A crash between the registration and the prompt loses both; one between the prompt and the first
/// notification loses neither.
#[tokio::test]
async fn a_callback_is_there_exactly_if_its_prompt_is() {
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let stage = Stage::with(store.clone(), ScriptAgent::doing([Act::say("x")]), options());
    let webhook = Webhook::start().await;
    let handle = client::create(&stage.hub).await;
    let records = Records::new(store.clone());
    let (never, accepted) = (TaskId::from("never"), TaskId::from("accepted"));
    for task in [&never, &accepted] {
        records.keep(&registration(&handle, task, webhook.url())).await.unwrap();
    }
    let command = Command::Prompt {
        prompt: SessionHandle::fresh_prompt(),
        task: TaskChoice::Named(accepted.clone()),
        content: Content::text("go"),
    };
    handle.submit(command, client::origin("ann")).await.unwrap();
    Reader::new(&handle).until_over().await;
    stage.stop().await;
    drop(store);
    drop(handle);
    assert!(webhook.calls().is_empty());

    let stage = Stage::with(client::sqlite(directory.path()), ScriptAgent::idle(), options());
    stage.server.resume_push().await.unwrap();
    let calls = webhook.until_over().await;
    assert_eq!(calls[0].body["task"]["id"], "accepted", "the prompt's own event comes first");
    let records = Records::new(stage.store.clone());
    assert!(records.of_task(&never).await.unwrap().is_empty());
    assert_eq!(records.of_task(&accepted).await.unwrap().len(), 1);
}

/// After the time is up the webhook is removed, and the session says so without a secret.
#[tokio::test]
async fn a_dead_webhook_is_given_up_with_a_notice() {
    let mut options = options();
    options.give_up = Duration::from_millis(100);
    let agent = ScriptAgent::doing([Act::say("x")]);
    let stage = Stage::with(Arc::new(MemoryStore::default()), agent, options);
    let webhook = Webhook::answering([], Answer::Status(500)).await;
    let url = format!("{}/canary-path?key=canary-query", webhook.url());
    let config = json!({ "id": "c", "url": url, "token": "canary-token" });
    let task = stage.send1("go", config).await;
    let handle = stage.session(&task).await;
    let mut reader = Reader::new(&handle);
    let notice = reader.until(|event| matches!(event, Event::NoticeRaised { .. })).await;
    let Event::NoticeRaised { text, .. } = &notice.event else { unreachable!() };
    assert!(text.contains(&format!("http://127.0.0.1:{}", webhook.port)), "{text}");
    assert!(text.contains("it replied 500") && !text.contains("canary"), "{text}");
    let attempts = webhook.calls().len();
    assert!(attempts > 2, "it was tried again: {attempts}");
    let which = json!({ "taskId": task["id"] });
    loop {
        let listed = stage.call("ListTaskPushNotificationConfigs", which.clone()).await;
        if listed["configs"] == json!([]) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_webhook_that_is_gone_is_forgotten_at_once() {
    let stage = Stage::doing([Act::Flood(5)]);
    let webhook = Webhook::answering([Answer::Status(200)], Answer::Status(410)).await;
    let task = stage.send1("go", json!({ "id": "c", "url": webhook.url() })).await;
    webhook.until(|calls| calls.len() == 2).await;
    let which = json!({ "taskId": task["id"] });
    loop {
        let listed = stage.call("ListTaskPushNotificationConfigs", which.clone()).await;
        if listed["configs"] == json!([]) {
            break;
        }
        tokio::task::yield_now().await;
    }
    stage.stop().await;
    assert_eq!(webhook.calls().len(), 2);
}

/// No configuration id of a client can match another webhook.
#[tokio::test]
async fn names_do_not_run_into_each_other() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let records = Records::new(store);
    let named = |task: &str, config: &str| Registration {
        serial: format!("{task}|{config}"),
        session: SessionId::from("s"),
        task: TaskId::from(task),
        config: config.into(),
        url: "https://hooks.example/".into(),
        token: None,
        scheme: None,
        credentials: None,
        version: "0.3".to_owned(),
        extension: false,
        principal: "ann".into(),
        start: Start::After(Seq(1)),
    };
    let pairs = [("a", "b"), ("a:", "b"), ("a", ":b"), ("1:a:", "b"), ("a%", "b"), ("a_", "b")];
    for (task, config) in pairs {
        records.keep(&named(task, config)).await.unwrap();
    }
    for (task, config) in pairs {
        let registration = named(task, config);
        let found = records.registration(&registration.key()).await.unwrap().unwrap();
        assert_eq!(found.serial, registration.serial);
    }
    let of_a: Vec<String> = records
        .of_task(&TaskId::from("a"))
        .await
        .unwrap()
        .iter()
        .map(|found| found.serial.clone())
        .collect();
    assert_eq!(of_a, ["a|:b", "a|b"]);
}
