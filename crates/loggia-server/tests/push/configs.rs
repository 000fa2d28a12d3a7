//! The four methods in both versions: access, results, and secrets that are not shown.

use futures::future::join_all;
use loggia_testkit::{Act, Gate, ScriptAgent, client};
use serde_json::{Value, json};

use crate::stage::{Stage, caller, send1, send03};
use crate::webhook::{Answer, Webhook};

const SECRETS: [&str; 2] = ["canary-token", "canary-credentials"];

#[tokio::test]
async fn a_registered_webhook_is_shown_without_its_secrets() {
    let gate = Gate::default();
    let stage = Stage::doing([Act::WaitFor(gate.clone())]);
    let webhook = Webhook::start().await;
    let task = stage.send1("go", Value::Null).await["id"].clone();
    let url = webhook.url();
    let new = json!({
        "taskId": task, "id": "new", "url": url, "token": SECRETS[0],
        "authentication": { "scheme": "Bearer", "credentials": SECRETS[1] },
    });
    let shown = json!({
        "taskId": task, "id": "new", "url": url, "authentication": { "scheme": "Bearer" },
    });
    assert_eq!(stage.call("CreateTaskPushNotificationConfig", new).await, shown);
    let old = json!({ "taskId": task, "pushNotificationConfig": {
        "url": url, "token": SECRETS[0],
        "authentication": { "schemes": ["Bearer"], "credentials": SECRETS[1] },
    } });
    let answered = stage.call("tasks/pushNotificationConfig/set", old.clone()).await;
    // Without a name it is named after its task; setting it again replaces it.
    assert_eq!(answered["pushNotificationConfig"]["id"], task, "{answered}");
    assert_eq!(stage.call("tasks/pushNotificationConfig/set", old).await, answered);
    let got = stage.call("GetTaskPushNotificationConfig", json!({ "taskId": task, "id": "new" }));
    assert_eq!(got.await, shown);
    let got = json!({ "id": task, "pushNotificationConfigId": task });
    assert_eq!(stage.call("tasks/pushNotificationConfig/get", got).await, answered);
    let first = stage.call("tasks/pushNotificationConfig/get", json!({ "id": task })).await;
    assert_eq!(first["taskId"], task);
    let listed = stage.call("tasks/pushNotificationConfig/list", json!({ "id": task })).await;
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let pages = stage.call("ListTaskPushNotificationConfigs", json!({ "taskId": task })).await;
    assert_eq!(pages["configs"].as_array().unwrap().len(), 2, "{pages}");
    for value in [&answered, &first, &listed, &pages] {
        let text = value.to_string();
        assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "{text}");
    }
    let unknown = json!({ "taskId": task, "id": "nothing" });
    let refused = stage.refused("GetTaskPushNotificationConfig", unknown).await;
    assert_eq!(refused["code"], -32001, "{refused}");
    gate.open();
    let calls = webhook.until_over().await;
    assert!(calls.iter().all(|call| call.header("x-a2a-notification-token") == SECRETS[0]));
}

/// A deleted webhook gets nothing more, not even a notification under way.
#[tokio::test]
async fn deletion_stops_delivery_and_may_be_repeated() {
    let gate = Gate::default();
    let stage = Stage::doing([Act::say("x"), Act::WaitFor(gate.clone()), Act::say("y")]);
    let webhook = Webhook::answering([Answer::Status(200)], Answer::Status(500)).await;
    let other = Webhook::start().await;
    let task = stage.send1("go", json!({ "id": "c", "url": webhook.url() })).await["id"].clone();
    let second = json!({ "taskId": task, "id": "d", "url": other.url() });
    stage.call("CreateTaskPushNotificationConfig", second).await;
    webhook.until(|calls| calls.len() > 1).await;
    let which = json!({ "taskId": task, "id": "c" });
    assert_eq!(stage.call("DeleteTaskPushNotificationConfig", which.clone()).await, json!({}));
    let received = webhook.calls().len();
    assert_eq!(stage.call("DeleteTaskPushNotificationConfig", which).await, json!({}));
    let old = json!({ "id": task, "pushNotificationConfigId": "c" });
    assert_eq!(stage.call("tasks/pushNotificationConfig/delete", old).await, Value::Null);
    gate.open();
    other.until_over().await;
    assert_eq!(webhook.calls().len(), received);
    let pages = stage.call("ListTaskPushNotificationConfigs", json!({ "taskId": task })).await;
    assert_eq!(pages["configs"].as_array().unwrap().len(), 1);
}

/// A13: another client's task does not exist, for all four methods in both versions.
#[tokio::test]
async fn another_principals_task_is_not_found() {
    let stage = Stage::doing([Act::say("x")]);
    let webhook = Webhook::start().await;
    let mine = stage.send1("go", json!({ "id": "c", "url": webhook.url() })).await["id"].clone();
    webhook.until_over().await;
    let methods = |task: &Value| {
        vec![
            ("CreateTaskPushNotificationConfig", json!({ "taskId": task, "url": webhook.url() })),
            ("GetTaskPushNotificationConfig", json!({ "taskId": task, "id": "c" })),
            ("ListTaskPushNotificationConfigs", json!({ "taskId": task })),
            ("DeleteTaskPushNotificationConfig", json!({ "taskId": task, "id": "c" })),
            (
                "tasks/pushNotificationConfig/set",
                json!({ "taskId": task, "pushNotificationConfig": { "url": webhook.url() } }),
            ),
            ("tasks/pushNotificationConfig/get", json!({ "id": task })),
            ("tasks/pushNotificationConfig/list", json!({ "id": task })),
            (
                "tasks/pushNotificationConfig/delete",
                json!({ "id": task, "pushNotificationConfigId": "c" }),
            ),
        ]
    };
    let unknown = json!("01a1de47-0000-7000-8000-000000000000");
    for ((method, foreign), (_, missing)) in methods(&mine).into_iter().zip(methods(&unknown)) {
        let foreign = stage.ask("bob", method, foreign).await.err().unwrap();
        let missing = stage.ask("bob", method, missing).await.err().unwrap();
        assert_eq!(foreign["code"], -32001, "{method}: {foreign}");
        assert_eq!(foreign, missing, "{method}");
    }
    let listed = stage.call("ListTaskPushNotificationConfigs", json!({ "taskId": mine })).await;
    assert_eq!(listed["configs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn there_are_limits() {
    let gate = Gate::default();
    let stage = Stage::doing([Act::WaitFor(gate.clone())]);
    let webhook = Webhook::start().await;
    let task = stage.send1("go", Value::Null).await["id"].clone();
    let config = |n: u32| json!({ "taskId": task, "id": format!("c{n}"), "url": webhook.url() });
    for n in 0..5 {
        stage.call("CreateTaskPushNotificationConfig", config(n)).await;
    }
    let refused = stage.refused("CreateTaskPushNotificationConfig", config(5)).await;
    assert_eq!(refused["code"], -32602, "{refused}");
    let said = refused["message"].as_str().unwrap();
    assert!(said.starts_with("Too many webhooks: "), "{refused}");
    // A registered one can be changed at the limit.
    stage.call("CreateTaskPushNotificationConfig", config(3)).await;
    // Values that would break out of a header.
    for name in ["token", "url"] {
        let mut hostile = config(3);
        hostile[name] = json!("http://127.0.0.1:1/x\r\nX-Injected: 1");
        let refused = stage.refused("CreateTaskPushNotificationConfig", hostile).await;
        assert_eq!(refused["code"], -32602, "{name}: {refused}");
    }
    gate.open();
}

/// A34: a value for a header arrives unchanged, or is refused.
#[tokio::test]
async fn secrets_must_be_valid_header_values() {
    let gate = Gate::default();
    let stage = Stage::doing([Act::WaitFor(gate.clone())]);
    let webhook = Webhook::start().await;
    let task = stage.send1("go", Value::Null).await["id"].clone();
    let (long, longest) = ("x".repeat(4_097), "x".repeat(4_096));
    let set = |token: &str, scheme: &str, credentials: &str| {
        json!({
            "taskId": task, "id": "c", "url": webhook.url(), "token": token,
            "authentication": { "scheme": scheme, "credentials": credentials },
        })
    };
    for secret in ["\u{e9}", " lead", "trail ", "a\tb", "a\u{7f}", "a\nb", &long] {
        for config in [set(secret, "Bearer", "c"), set("t", "Bearer", secret)] {
            let refused = stage.refused("CreateTaskPushNotificationConfig", config).await;
            assert_eq!(refused["code"], -32602, "{secret:?}: {refused}");
            assert!(!refused.to_string().contains(&long), "nothing is repeated");
        }
    }
    for scheme in ["Bea rer", "B\u{e9}arer", "Bearer:", &long] {
        let config = set("t", scheme, "c");
        let refused = stage.refused("CreateTaskPushNotificationConfig", config).await;
        assert_eq!(refused["code"], -32602, "{scheme:?}: {refused}");
    }
    let digest = "username=\"a\", response=\"b\"";
    for config in [set(&longest, "Bearer", &longest), set("t", "Digest", digest)] {
        stage.call("CreateTaskPushNotificationConfig", config).await;
    }
    gate.open();
    let calls = webhook.until_over().await;
    assert_eq!(calls.last().unwrap().header("authorization"), format!("Digest {digest}"));
}

#[tokio::test]
async fn webhooks_at_work_are_limited_for_each_principal() {
    let mut options = crate::stage::options();
    options.most_per_principal = 2;
    options.most = 3;
    let gate = Gate::default();
    let agent = loggia_testkit::ScriptAgent::doing([Act::WaitFor(gate.clone())]);
    let store = std::sync::Arc::new(loggia_session::MemoryStore::default());
    let stage = Stage::with(store, agent, options);
    let webhook = Webhook::start().await;
    let config = || send1("go", json!({ "url": webhook.url() }));
    stage.call("SendMessage", config()).await;
    stage.call("SendMessage", config()).await;
    let refused = stage.refused("SendMessage", config()).await;
    assert_eq!(refused["code"], -32602, "{refused}");
    assert!(stage.ask("bob", "SendMessage", config()).await.is_ok());
    assert!(stage.ask("eve", "SendMessage", config()).await.is_err());
    // Webhooks of finished tasks do not count.
    gate.open();
    let over = |call: &crate::webhook::Call| call.state() == "TASK_STATE_COMPLETED";
    webhook.until(|calls| calls.iter().filter(|call| over(call)).count() == 3).await;
    let begun = std::time::Instant::now();
    while stage.ask("ann", "SendMessage", config()).await.is_err() {
        assert!(begun.elapsed() < crate::webhook::TEST_TIMEOUT);
        tokio::task::yield_now().await;
    }
}

/// Concurrent requests get exactly as many webhooks as the limit allows.
#[tokio::test]
async fn the_limits_hold_for_requests_that_come_together() {
    let mut options = crate::stage::options();
    options.most_per_principal = 8;
    let directory = client::directory();
    let store = client::sqlite(directory.path());
    let gate = Gate::default();
    let agent = ScriptAgent::doing([Act::WaitFor(gate.clone())]);
    let stage = Stage::with(store, agent, options);
    let webhook = Webhook::start().await;
    let task = stage.send1("go", Value::Null).await["id"].clone();
    let of_task = (0..32).map(|n| {
        let config = json!({ "taskId": task, "id": format!("c{n}"), "url": webhook.url() });
        stage.ask("ann", "CreateTaskPushNotificationConfig", config)
    });
    let taken = join_all(of_task).await.into_iter().filter(Result::is_ok).count();
    let listed = stage.call("ListTaskPushNotificationConfigs", json!({ "taskId": task })).await;
    assert_eq!((taken, listed["configs"].as_array().unwrap().len()), (5, 5), "{listed}");
    let with_messages = (0..16)
        .map(|_| stage.ask("ann", "SendMessage", send1("go", json!({ "url": webhook.url() }))));
    let taken = join_all(with_messages).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(taken, 3, "beside the five");
    gate.open();
}

/// A webhook that is registered again continues at its cursor, at its new address.
#[tokio::test]
async fn a_webhook_that_is_set_again_goes_on() {
    let stage = Stage::doing([Act::Flood(4)]);
    let dead =
        Webhook::answering([Answer::Status(200), Answer::Status(200)], Answer::Status(500)).await;
    let task = stage.send1("go", json!({ "id": "c", "url": dead.url() })).await["id"].clone();
    dead.until(|calls| calls.len() > 3).await;
    let alive = Webhook::start().await;
    let again = json!({ "taskId": task, "id": "c", "url": alive.url() });
    stage.call("CreateTaskPushNotificationConfig", again).await;
    alive.until_over().await;
    let place = |call: &crate::webhook::Call| {
        let (seq, k) =
            call.header("webhook-id").rsplit_once('-').unwrap().1.split_once('.').unwrap();
        (seq.parse::<u64>().unwrap(), k.parse::<u64>().unwrap())
    };
    let mut places: Vec<_> = dead.taken().iter().map(place).collect();
    assert_eq!(places.len(), 2);
    places.extend(alive.taken().iter().map(place));
    assert!(places.is_sorted_by(|a, b| a < b), "no gap, nothing twice: {places:?}");
}

/// A webhook gets the task, so registering one needs the scope `read`.
#[tokio::test]
async fn a_webhook_needs_the_scope_to_read() {
    let stage = Stage::doing([Act::say("x")]);
    let task = stage.send1("go", Value::Null).await["id"].clone();
    let mut blind = caller("ann");
    blind.principal.scopes = "prompt".parse().unwrap();
    let url = "https://hooks.example/";
    let tries = [
        ("CreateTaskPushNotificationConfig", json!({ "taskId": task, "url": url })),
        (
            "tasks/pushNotificationConfig/set",
            json!({ "taskId": task, "pushNotificationConfig": { "url": url } }),
        ),
        ("SendMessage", send1("go", json!({ "url": url }))),
        ("message/send", send03("go", json!({ "url": url }))),
    ];
    for (method, params) in tries {
        let refused = stage.ask_as(&blind, method, params).await.err().unwrap();
        assert!(refused.to_string().contains("read"), "{method}: {refused}");
    }
    let listed = stage.call("ListTaskPushNotificationConfigs", json!({ "taskId": task })).await;
    assert_eq!(listed["configs"], json!([]));
    assert!(stage.ask_as(&blind, "SendMessage", send1("go", Value::Null)).await.is_ok());
}
