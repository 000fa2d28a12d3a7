//! Delivery: every notification, in order, in the webhook's version, without delaying anyone.

use std::time::{Duration, Instant};

use futures::future::join_all;
use loggia_server::dispatch::Reply;
use loggia_testkit::{Act, Gate};
use loggia_wire::Extension;
use serde_json::{Value, json};

use crate::stage::{Stage, options, send1, send03};
use crate::webhook::{Answer, Call, Webhook};

fn ids(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|call| call.header("webhook-id")).collect()
}

/// The frames that a stream of the task carries, as values.
async fn streamed(stage: &Stage, method: &str, params: Value) -> Vec<Value> {
    let Ok(Reply::Frames(mut frames)) = stage.ask("ann", method, params).await else {
        panic!("{method} does not stream");
    };
    let mut seen = Vec::new();
    while let Some(batch) = frames.next().await.unwrap() {
        seen.extend(batch.iter().map(|frame| serde_json::from_slice(&frame.body).unwrap()));
    }
    seen
}

#[tokio::test]
async fn a_webhook_of_a_message_gets_the_frames_of_the_stream() {
    let stage = Stage::doing([Act::say("one"), Act::Flood(5), Act::say("end")]);
    let webhook = Webhook::start().await;
    let config = json!({
        "id": "c", "url": webhook.url(), "token": "the-token",
        "authentication": { "scheme": "Custom", "credentials": "the-credentials" },
    });
    let frames = streamed(&stage, "SendStreamingMessage", send1("go", config)).await;
    let calls = webhook.until_over().await;
    let bodies: Vec<Value> = calls.iter().map(|call| call.body.clone()).collect();
    assert_eq!(bodies, frames);
    assert!(bodies[0]["task"].is_object(), "{bodies:#?}");
    for call in &calls {
        assert_eq!(call.header("content-type"), "application/a2a+json");
        assert_eq!(call.header("a2a-version"), "1.0");
        assert_eq!(call.header("x-a2a-notification-token"), "the-token");
        assert_eq!(call.header("a2a-notification-token"), "the-token");
        assert_eq!(call.header("authorization"), "Custom the-credentials");
        assert!(call.header("webhook-timestamp").parse::<u64>().unwrap() > 1_700_000_000);
    }
    let mut unique = ids(&calls);
    unique.dedup();
    assert_eq!(unique.len(), calls.len());
}

#[tokio::test]
async fn a_webhook_of_the_older_version_gets_tasks() {
    let gate = Gate::default();
    let stage = Stage::doing([Act::say("one"), Act::WaitFor(gate.clone()), Act::say(" two")]);
    let webhook = Webhook::start().await;
    let config = json!({
        "url": webhook.url(), "token": "t",
        "authentication": { "schemes": ["Bearer"], "credentials": "c" },
    });
    stage.call("message/send", send03("go", config)).await;
    webhook.until(|calls| calls.iter().any(|call| call.state() == "working")).await;
    gate.open();
    let calls = webhook.until_over().await;
    for call in &calls {
        assert_eq!(call.body["kind"], "task", "{call:?}");
        assert_eq!(call.header("content-type"), "application/json");
        assert_eq!(call.header("authorization"), "Bearer c");
    }
    let mut states: Vec<String> = calls.iter().map(Call::state).collect();
    let last = states.last().unwrap().clone();
    states.dedup();
    assert_eq!(states.len(), calls.len(), "a change is delivered once: {calls:#?}");
    assert_eq!(last, "completed");
    let text = calls.last().unwrap().body["artifacts"][0].to_string();
    assert!(text.contains("one two"), "{text}");
}

#[tokio::test]
async fn by_method_a_webhook_begins_with_the_task_as_it_is() {
    let gate = Gate::default();
    let stage = Stage::doing([Act::say("one"), Act::WaitFor(gate.clone()), Act::say("two")]);
    let task = stage.send1("go", Value::Null).await;
    let webhook = Webhook::start().await;
    let config = json!({ "taskId": task["id"], "url": webhook.url() });
    stage.call("CreateTaskPushNotificationConfig", config).await;
    webhook.until(|calls| !calls.is_empty()).await;
    gate.open();
    let calls = webhook.until_over().await;
    assert_eq!(calls[0].body["task"]["id"], task["id"], "{calls:#?}");
    assert!(calls[1..].iter().all(|call| call.body["task"].is_null()));
    // A webhook that is registered after the end of the task gets the finished task.
    let late = Webhook::start().await;
    let config = json!({ "taskId": task["id"], "pushNotificationConfig": { "url": late.url() } });
    stage.call("tasks/pushNotificationConfig/set", config).await;
    let calls = late.until_over().await;
    assert_eq!((calls.len(), calls[0].state()), (1, "completed".to_owned()));
}

/// R18 and P6: one webhook hangs, another one and a stream get everything.
#[tokio::test]
async fn a_hanging_webhook_delays_no_other_client() {
    let stage = Stage::doing([Act::Flood(50)]);
    let hanging = Webhook::answering([], Answer::Hang).await;
    let fast = Webhook::start().await;
    let begun = Instant::now();
    let frames =
        streamed(&stage, "SendStreamingMessage", send1("go", json!({ "url": hanging.url() })))
            .await;
    assert!(frames.len() > 50);
    hanging.until(|calls| calls.len() == 1).await;
    // Other tasks and other webhooks of the same task are served while the first one hangs.
    let task = &frames[0]["task"]["id"];
    let config = json!({ "taskId": task, "url": fast.url() });
    stage.call("CreateTaskPushNotificationConfig", config).await;
    fast.until_over().await;
    let other = Webhook::start().await;
    let frames =
        streamed(&stage, "SendStreamingMessage", send1("go", json!({ "url": other.url() }))).await;
    assert_eq!(other.until_over().await.len(), frames.len());
    assert_eq!(hanging.calls().len(), 1, "one at a time");
    // The timeout is 60 s.
    assert!(begun.elapsed() < Duration::from_secs(20));
    stage.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(30), "nor does the end");
}

/// Many hanging webhooks delay neither another principal nor another server of the same principal. The
/// timeout of an attempt is a minute here, longer than the test waits.
#[tokio::test]
async fn many_hanging_webhooks_delay_no_other() {
    let stage = Stage::doing([Act::say("x")]);
    let hanging = Webhook::answering([], Answer::Hang).await;
    let begun = Instant::now();
    let all = (0..200)
        .map(|_| stage.ask("ann", "SendMessage", send1("go", json!({ "url": hanging.url() }))));
    assert!(join_all(all).await.iter().all(Result::is_ok));
    // As many as one server gets.
    hanging.until(|calls| calls.len() == 12).await;
    for who in ["ann", "bob"] {
        let fast = Webhook::start().await;
        let sent = stage.ask(who, "SendMessage", send1("go", json!({ "url": fast.url() }))).await;
        assert!(sent.is_ok());
        fast.until_over().await;
    }
    assert!(begun.elapsed() < Duration::from_secs(50), "no attempt had ended");
    assert_eq!(hanging.calls().len(), 12);
    stage.stop().await;
}

/// Every notification is repeated until the webhook accepts it, in order.
#[tokio::test]
async fn order_holds_under_failures() {
    let stage = Stage::doing([Act::Flood(6), Act::say("end")]);
    let mut answers = Vec::new();
    for status in [500, 200, 404, 429, 200, 502, 503, 400, 401, 200, 301] {
        answers.push(Answer::Status(status));
    }
    answers.push(Answer::With(503, "retry-after", "0".into()));
    answers.push(Answer::EndlessBody);
    let webhook = Webhook::answering(answers, Answer::Status(200)).await;
    let config = json!({ "url": webhook.url() });
    let frames = streamed(&stage, "SendStreamingMessage", send1("go", config)).await;
    webhook.until_over().await;
    let taken = webhook.taken();
    assert_eq!(taken.iter().map(|call| call.body.clone()).collect::<Vec<_>>(), frames);
    // The same id and the same body for every attempt at one notification.
    let calls = webhook.calls();
    for pair in calls.windows(2).filter(|pair| pair[0].status != 200) {
        assert_eq!(pair[0].header("webhook-id"), pair[1].header("webhook-id"));
        assert_eq!(pair[0].body, pair[1].body);
    }
    assert!(calls.len() > taken.len() + 5, "{calls:#?}");
}

#[tokio::test]
async fn a_webhook_says_when_to_come_back() {
    let stage = Stage::doing([Act::say("x")]);
    let later = Answer::With(503, "retry-after", "3600".into());
    let webhook = Webhook::answering([later], Answer::Status(200)).await;
    let mut options = options();
    options.longest_delay = Duration::from_millis(700);
    let stage = Stage::with(stage.store.clone(), loggia_testkit::ScriptAgent::idle(), options);
    let begun = Instant::now();
    stage.send1("go", json!({ "url": webhook.url() })).await;
    webhook.until_over().await;
    // The back-off alone would have been a few milliseconds; the longest delay bounds `retry-after`.
    assert!(begun.elapsed() >= Duration::from_millis(700));
}

/// A task that waits for an answer is sent, holds no session open, and continues with the answer.
#[tokio::test]
async fn a_question_and_its_continuation_are_delivered() {
    let stage = Stage::doing([Act::execute("make"), Act::succeed("built"), Act::say("done")]);
    let webhook = Webhook::start().await;
    let task = stage.send1("go", json!({ "url": webhook.url() })).await;
    let asked = |call: &Call| call.state() == "TASK_STATE_INPUT_REQUIRED";
    webhook.until(|calls| calls.iter().any(asked)).await;
    // The session is closed meanwhile, as an idle one may be; the answer opens it again.
    stage.session(&task).await.stop().await;
    let before = webhook.calls().len();
    let answer = json!({ "message": {
        "role": "ROLE_USER", "messageId": "a", "taskId": task["id"],
        "parts": [{ "text": "proceed_once" }],
    } });
    stage.call("SendMessage", answer).await;
    let calls = webhook.until_over().await;
    assert!(calls.len() > before, "{calls:#?}");
    let mut unique = ids(&calls);
    unique.dedup();
    assert_eq!(unique.len(), calls.len(), "nothing twice");
}

/// A finished task that continues is sent again; with the extension it can continue.
#[tokio::test]
async fn a_continued_task_is_delivered_again() {
    let stage = Stage::doing([Act::say("x")]);
    let webhook = Webhook::start().await;
    let config = json!({ "url": webhook.url() });
    let first = stage
        .ask_with("ann", "SendMessage", send1("go", config), Extension::On)
        .await
        .ok()
        .unwrap();
    let Reply::Value(first) = first else { panic!("it streams") };
    let task = first["task"]["id"].clone();
    let before = webhook.until_over().await;
    let mut more = send1("more", Value::Null);
    more["message"]["taskId"] = task.clone();
    let Ok(_) = stage.ask_with("ann", "SendMessage", more, Extension::On).await else {
        panic!("it does not go on");
    };
    let over = |calls: &[Call]| {
        calls.iter().filter(|call| call.state() == "TASK_STATE_COMPLETED").count() == 2
    };
    let calls = webhook.until(over).await;
    assert!(calls.len() > before.len() + 1);
    let places: Vec<(u64, u64)> = ids(&calls)
        .iter()
        .map(|id| {
            let (seq, k) = id.rsplit_once('-').unwrap().1.split_once('.').unwrap();
            (seq.parse().unwrap(), k.parse().unwrap())
        })
        .collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
}
