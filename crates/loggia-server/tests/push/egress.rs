//! A33 and A14: addresses that must not be called are not called, however a URL or a name leads there.

use std::sync::Arc;
use std::time::Duration;

use loggia_server::dispatch::Reply;
use loggia_session::MemoryStore;
use loggia_testkit::{Act, ScriptAgent};
use serde_json::{Value, json};

use crate::stage::{Names, Stage, options, send1, send03};
use crate::webhook::{Answer, Webhook};

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_when_registered() {
    let names = Names::default()
        .answering("metadata.google.internal", &[&["169.254.169.254"]])
        .answering("localtest", &[&["127.0.0.1"]])
        .answering("mixed.example", &[&["1.1.1.1", "10.0.0.1"]])
        .answering("six.example", &[&["::ffff:127.0.0.1"]]);
    let mut options = options();
    options.lookup = Arc::new(names);
    options.own_ports = vec![4242];
    let stage =
        Stage::with(Arc::new(MemoryStore::default()), ScriptAgent::doing([Act::say("x")]), options);
    let webhook = Webhook::start().await;
    let port = webhook.port;
    let task = stage.send1("go", Value::Null).await["id"].clone();
    let urls = [
        format!("http://0.0.0.0:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("https://localtest:{port}/"),
        format!("https://six.example:{port}/"),
        "https://mixed.example/".into(),
        "https://metadata.google.internal/".into(),
        "http://metadata.google.internal/".into(),
        "https://169.254.169.254/latest".into(),
        "https://[fd00:ec2::254]/".into(),
        "https://10.1.2.3/".into(),
        "https://192.168.0.1/".into(),
        "http://hooks.example/".into(),
        "http://localhost:4242/".into(),
        "http://127.0.0.1:4242/".into(),
        "file:///etc/passwd".into(),
        "ftp://hooks.example/".into(),
        "https://user:password@hooks.example/".into(),
    ];
    for url in urls {
        let old = json!({ "taskId": task, "pushNotificationConfig": { "url": url } });
        let refused = stage.refused("tasks/pushNotificationConfig/set", old).await;
        assert_eq!(refused["code"], -32602, "{url}: {refused}");
        assert_eq!(refused["data"]["reason"], "push-target-refused", "{url}");
        let new = json!({ "taskId": task, "url": url });
        let refused = stage.refused("CreateTaskPushNotificationConfig", new).await;
        assert_eq!(refused["code"], -32602, "{url}");
        // A message whose callback is refused is refused.
        let refused = stage.refused("message/send", send03("go", json!({ "url": url }))).await;
        assert_eq!(refused["code"], -32602, "{url}");
        let refused = stage.refused("SendMessage", send1("go", json!({ "url": url }))).await;
        assert_eq!(refused["code"], -32602, "{url}");
    }
    let listed = stage.call("ListTaskPushNotificationConfigs", json!({ "taskId": task })).await;
    assert_eq!(listed["configs"], json!([]));
    assert!(webhook.calls().is_empty());
}

/// Services on loopback trust local processes, so a remote client must not have them called.
#[tokio::test]
async fn only_the_local_user_names_loopback() {
    const LOCAL: &str = "local:1000";
    let webhook = Webhook::start().await;
    let stage = |private: &[&str]| {
        let mut options = options();
        options.private_hosts = private.iter().map(|&host| host.to_owned()).collect();
        let store = Arc::new(MemoryStore::default());
        Stage::with(store, ScriptAgent::doing([Act::say("x")]), options)
    };
    let strict = stage(&[]);
    let port = webhook.port;
    let mut urls = vec![webhook.url()];
    for host in
        ["localhost", "localhost.", "127.0.0.1", "127.9.9.9", "[::1]", "2130706433", "0x7f.1"]
    {
        urls.push(format!("http://{host}:{port}/"));
        urls.push(format!("https://{host}:{port}/"));
    }
    for who in ["client:eve~1", "token:eve", "localhost", ""] {
        let begun = strict.ask(who, "SendMessage", send1("go", Value::Null)).await.unwrap();
        let task = match begun {
            Reply::Value(value) => value["task"]["id"].clone(),
            Reply::Frame(_) | Reply::Frames(_) => panic!("it streams"),
        };
        for url in &urls {
            let config = json!({ "url": url });
            let old = json!({ "taskId": task, "pushNotificationConfig": config });
            let tries = [
                ("tasks/pushNotificationConfig/set", old),
                ("CreateTaskPushNotificationConfig", json!({ "taskId": task, "url": url })),
                ("message/send", send03("go", config.clone())),
                ("message/stream", send03("go", config.clone())),
                ("SendMessage", send1("go", config.clone())),
            ];
            for (method, params) in tries {
                let asked = strict.ask(who, method, params).await;
                let Err(refused) = asked else { panic!("{who} {method} {url} is not refused") };
                assert_eq!(refused["code"], -32602, "{method} {url}: {refused}");
                assert!(refused.to_string().contains("of this machine"), "{method}: {refused}");
            }
            let mut send = send03("go", Value::Null);
            send["id"] = json!("mine");
            send["pushNotification"] = config.clone();
            let refused = strict.task_of(who, "tasks/send", send).await.unwrap_err();
            assert!(refused.to_string().contains("machine"), "{url}: {refused}");
        }
    }
    assert!(webhook.calls().is_empty());
    let config = json!({ "url": webhook.url() });
    assert!(strict.ask(LOCAL, "SendMessage", send1("go", config.clone())).await.is_ok());
    webhook.until_over().await;
    // The operator named it.
    let named = stage(&["localhost"]);
    assert!(named.ask("token:eve", "SendMessage", send1("go", config)).await.is_ok());
}

/// A name that was public when it was registered and is not when it is called.
#[tokio::test]
async fn a_name_that_resolves_differently_later_gets_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = "rebound.example";
    let names = Names::default().answering(name, &[&["1.1.1.1"], &["127.0.0.1"]]);
    let mut options = options();
    options.lookup = Arc::new(names);
    options.give_up = Duration::from_millis(50);
    let stage =
        Stage::with(Arc::new(MemoryStore::default()), ScriptAgent::doing([Act::say("x")]), options);
    let url = format!("https://{name}:{port}/");
    let task = stage.send1("go", json!({ "id": "c", "url": url })).await;
    // It was given up, so it was tried.
    let handle = stage.session(&task).await;
    let mut reader = loggia_testkit::Reader::new(&handle);
    let notice = reader.until(|event| {
        matches!(event, loggia_core::Event::NoticeRaised { text, .. } if text.contains(name))
    });
    notice.await;
    let connected = listener.accept().map(|(_, from)| from);
    assert_eq!(connected.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// A redirect is not followed: its target gets no request and no secret.
#[tokio::test]
async fn a_redirect_leads_nowhere() {
    let elsewhere = Webhook::start().await;
    for status in [301, 302, 303, 307, 308] {
        let redirect = Answer::With(status, "location", elsewhere.url());
        let webhook = Webhook::answering([redirect], Answer::Status(200)).await;
        let stage = Stage::doing([Act::say("x")]);
        let config = json!({
            "url": webhook.url(), "token": "t",
            "authentication": { "scheme": "Bearer", "credentials": "c" },
        });
        stage.send1("go", config).await;
        webhook.until_over().await;
    }
    assert!(elsewhere.calls().is_empty());
}
