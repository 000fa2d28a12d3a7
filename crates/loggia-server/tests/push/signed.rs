//! A34: a receiver that shares a secret can verify that Loggia sent a notification.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use loggia_session::MemoryStore;
use loggia_testkit::{Act, ScriptAgent};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::stage::{Names, Stage, options, send1, send03};
use crate::webhook::{Answer, Call, Webhook};

const KEY: [u8; 32] = *b"the secret that both sides share";
/// How old a notification may be for a receiver, in seconds.
const TOLERANCE: u64 = 300;

fn secret() -> String {
    format!("whsec_{}", STANDARD.encode(KEY))
}

/// An independent implementation of a receiver.
fn is_genuine(call: &Call) -> bool {
    let (id, time) = (call.header("webhook-id"), call.header("webhook-timestamp"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let fresh = now.abs_diff(time.parse().unwrap()) <= TOLERANCE;
    let mut sum = Hmac::<Sha256>::new_from_slice(&KEY).unwrap();
    for part in [id.as_bytes(), b".", time.as_bytes(), b".", &call.raw] {
        sum.update(part);
    }
    let (version, signature) = call.header("webhook-signature").split_once(',').unwrap();
    let genuine = sum.verify_slice(&STANDARD.decode(signature).unwrap()).is_ok();
    fresh && version == "v1" && genuine
}

#[tokio::test]
async fn a_shared_secret_signs_and_is_never_sent() {
    let places = [
        json!({ "token": secret() }),
        json!({ "authentication": { "scheme": "Bearer", "credentials": secret() } }),
        json!({ "token": secret(), "authentication": { "scheme": "Bearer", "credentials": "c" } }),
    ];
    for mut config in places {
        let stage = Stage::doing([Act::say("one")]);
        let webhook = Webhook::start().await;
        config["url"] = json!(webhook.url());
        stage.send1("go", config.clone()).await;
        let calls = webhook.until_over().await;
        for call in &calls {
            assert!(is_genuine(call), "{config}: {call:?}");
            let told = format!("{:?}", call.headers);
            assert!(!told.contains("whsec_"), "{told}");
        }
        let mut forged = calls[0].clone();
        forged.raw.push(b' ');
        assert!(!is_genuine(&forged));
    }
}

#[tokio::test]
async fn a_second_attempt_has_the_same_id_and_a_new_signature() {
    let stage = Stage::doing([Act::say("one")]);
    let webhook = Webhook::answering([Answer::Status(500)], Answer::Status(200)).await;
    let config = json!({
        "url": webhook.url(),
        "authentication": { "schemes": ["Bearer"], "credentials": secret() },
    });
    stage.call("message/send", send03("go", config)).await;
    webhook.until(|calls| calls.len() > 1).await;
    let calls = webhook.calls();
    assert_eq!(calls[0].header("webhook-id"), calls[1].header("webhook-id"));
    assert!(calls.iter().all(is_genuine));
}

#[tokio::test]
async fn without_a_secret_nothing_is_signed_and_a_wrong_one_is_refused() {
    let stage = Stage::doing([Act::say("one")]);
    let webhook = Webhook::start().await;
    stage.send1("go", json!({ "url": webhook.url(), "token": "a token" })).await;
    let calls = webhook.until_over().await;
    assert!(calls.iter().all(|call| call.headers.get("webhook-signature").is_none()));
    for wrong in ["whsec_", "whsec_c2hvcnQ=", "whsec_no base64", "t\r\nX-Injected: 1"] {
        let config = json!({ "url": webhook.url(), "token": wrong });
        let refused = stage.refused("SendMessage", send1("go", config)).await;
        assert_eq!(refused["code"], -32602, "{wrong}: {refused}");
    }
}

#[tokio::test]
async fn a_private_host_is_called_only_if_it_was_named() {
    let names = || {
        Names::default()
            .answering("hooks.lan", &[&["192.168.7.7"]])
            .answering("below.hooks.lan", &[&["192.168.7.7"]])
            .answering("liar.lan", &[&["169.254.169.254"]])
    };
    let register = async |private: &[&str], url: &str| {
        let mut options = options();
        options.lookup = Arc::new(names());
        options.private_hosts = private.iter().map(|host| (*host).to_owned()).collect();
        let agent = ScriptAgent::doing([Act::say("x")]);
        let stage = Stage::with(Arc::new(MemoryStore::default()), agent, options);
        let task = stage.send1("go", Value::Null).await["id"].clone();
        let wanted = json!({ "taskId": task, "id": "c", "url": url });
        let registered = stage.ask("ann", "CreateTaskPushNotificationConfig", wanted).await;
        // Refused at the registration.
        let which = json!({ "taskId": task, "id": "c" });
        stage.call("DeleteTaskPushNotificationConfig", which).await;
        registered.is_ok()
    };
    let named = ["hooks.lan", "LIAR.lan", "10.1.2.3", "fd00::7", "127.0.0.9", "169.254.169.254"];
    for (url, with, without) in [
        ("https://hooks.lan/", true, false),
        ("http://hooks.lan/", true, false),
        ("http://HOOKS.lan/", true, false),
        ("https://below.hooks.lan/", false, false),
        ("https://liar.lan/", false, false),
        ("http://10.1.2.3/", true, false),
        ("https://10.1.2.4/", false, false),
        ("https://[fd00::7]/", true, false),
        ("https://169.254.169.254/", false, false),
    ] {
        assert_eq!(register(&named, url).await, with, "{url}");
        assert_eq!(register(&[], url).await, without, "{url}");
    }
}
