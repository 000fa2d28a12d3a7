//! Valid requests and their intents.

use loggia_core::{Content, Part, TaskChoice, TaskState};
use loggia_wire::{
    Call, DecodedRequest, Delivery, Dialect, Extension, HistoryLength, Id, Intent, ListTasks,
    PushTarget, StatusFilter, View, WireError, check_call_version, decode, dialect_of, streams,
};
use serde_json::{Value, json};

pub fn ask(method: &str, params: Value) -> Result<DecodedRequest, WireError> {
    decode(&Call { id: Id::NULL, method: method.into(), params }, None, Extension::Off)
}

fn intent(method: &str, params: Value) -> Intent {
    ask(method, params).unwrap().intent
}

pub fn message03(message: Value) -> Value {
    let mut whole = json!({
        "kind": "message", "role": "user", "messageId": "m1",
        "parts": [{ "kind": "text", "text": "hi" }],
    });
    merge(&mut whole, message);
    json!({ "message": whole })
}

pub fn message1(message: Value) -> Value {
    let mut whole = json!({ "role": "ROLE_USER", "messageId": "m1", "parts": [{ "text": "hi" }] });
    merge(&mut whole, message);
    json!({ "message": whole })
}

fn merge(whole: &mut Value, changes: Value) {
    for (name, value) in changes.as_object().unwrap() {
        whole[name] = value.clone();
    }
}

#[test]
fn methods_tell_the_dialects_apart() {
    for (method, dialect, stream) in [
        ("message/send", Dialect::A2a03, false),
        ("message/stream", Dialect::A2a03, true),
        ("tasks/resubscribe", Dialect::A2a03, true),
        ("commands/get", Dialect::A2a03, false),
        ("SendMessage", Dialect::A2a1, false),
        ("SendStreamingMessage", Dialect::A2a1, true),
        ("SubscribeToTask", Dialect::A2a1, true),
        ("ListTasks", Dialect::A2a1, false),
    ] {
        assert_eq!(dialect_of(method, None), Some(dialect), "{method}");
        assert_eq!(streams(method, None), stream, "{method}");
    }
    assert_eq!(dialect_of("sendmessage", None), None);
}

#[test]
fn versions() {
    for given in [None, Some(""), Some(" "), Some("1.0"), Some("1.0.1"), Some(" 1.0 ")] {
        assert_eq!(View::A2A_1.check_version(given), Ok(()), "{given:?}");
    }
    for given in [None, Some(""), Some("0.3"), Some("0.3.0")] {
        assert_eq!(View::A2A_03.check_version(given), Ok(()), "{given:?}");
    }
    for given in ["99.0", "1", "1.1", "2.0", "v1.0", "1.0.0.0", "1.x", "0.3"] {
        let error = View::A2A_1.check_version(Some(given)).unwrap_err();
        assert_eq!(View::A2A_1.refuse(&error).code, -32009, "{given}");
    }
    let error = View::A2A_03.check_version(Some("1.0")).unwrap_err();
    let shown = View::A2A_03.refuse(&error);
    assert_eq!(shown.code, -32603);
    assert_eq!(shown.message, "This is a request of A2A 0.3, but its A2A-Version says 1.0");
    let fits = |method: &str, given: &str| {
        let call = Call { id: Id::NULL, method: method.into(), params: json!({}) };
        check_call_version(Some(given), &call).is_ok()
    };
    assert!(fits("commands/get", "0.3") && fits("command/execute", "1.0"));
    assert!(
        !fits("commands/get", "2.0") && !fits("message/send", "1.0") && !fits("GetTask", "0.3")
    );
}

#[test]
fn a_message_of_every_kind_of_part() {
    let parts03 = json!([
        { "kind": "text", "text": "look" },
        { "kind": "file", "file": { "bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain" } },
        { "kind": "file", "file": { "uri": "https://example.org/a" } },
        { "kind": "file", "file": { "url": "https://example.org/b" } },
        { "kind": "data", "data": { "n": 42, "x": 1.5 } },
    ]);
    let parts1 = json!([
        { "text": "look" },
        { "raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain" },
        { "url": "https://example.org/a" },
        { "url": "https://example.org/b" },
        { "data": { "n": 42, "x": 1.5 } },
    ]);
    let file = |name: Option<&str>, media: Option<&str>, bytes: Option<&str>, uri: Option<&str>| {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Part::File {
            name: owned(name),
            media_type: owned(media),
            base64: owned(bytes),
            uri: owned(uri),
        }
    };
    let expected = Content {
        parts: vec![
            Part::Text { text: "look".into() },
            file(Some("a.txt"), Some("text/plain"), Some("aGk="), None),
            file(None, None, None, Some("https://example.org/a")),
            file(None, None, None, Some("https://example.org/b")),
            Part::Data { data: json!({ "n": 42, "x": 1.5 }) },
        ],
        message: Some("m1".into()),
        metadata: Some(json!({ "who": "me", "n": 7 })),
        profile: None,
    };
    let metadata = json!({ "who": "me", "n": 7 });
    let asked03 =
        intent("message/send", message03(json!({ "parts": parts03, "metadata": metadata })));
    let asked1 = intent("SendMessage", message1(json!({ "parts": parts1, "metadata": metadata })));
    for asked in [asked03, asked1] {
        let Intent::Prompt(prompt) = asked else { panic!("{asked:?}") };
        assert_eq!(prompt.content, expected);
        assert_eq!(prompt.task, TaskChoice::New);
        assert_eq!(prompt.session, None);
    }
}

#[test]
fn delivery_of_a_send() {
    let configured = |params: Value, configuration: Value| {
        let mut params = params;
        params["configuration"] = configuration;
        params
    };
    let of = |asked: Intent| match asked {
        Intent::Prompt(prompt) => (prompt.delivery, prompt.history),
        other => panic!("{other:?}"),
    };
    let cases = [
        ("message/send", message03(json!({})), json!({}), Delivery::Unsaid, HistoryLength::All),
        (
            "message/send",
            message03(json!({})),
            json!({ "blocking": true, "historyLength": 2 }),
            Delivery::WhenSettled,
            HistoryLength::Last(2),
        ),
        (
            "message/send",
            message03(json!({})),
            json!({ "blocking": false, "historyLength": 0 }),
            Delivery::AtOnce,
            HistoryLength::All,
        ),
        (
            "message/stream",
            message03(json!({})),
            json!({ "blocking": true }),
            Delivery::Stream,
            HistoryLength::All,
        ),
        ("SendMessage", message1(json!({})), json!({}), Delivery::WhenSettled, HistoryLength::All),
        (
            "SendMessage",
            message1(json!({})),
            json!({ "returnImmediately": true, "historyLength": 0 }),
            Delivery::AtOnce,
            HistoryLength::Last(0),
        ),
        (
            "SendStreamingMessage",
            message1(json!({})),
            json!({ "returnImmediately": true }),
            Delivery::Stream,
            HistoryLength::All,
        ),
    ];
    for (method, params, configuration, delivery, history) in cases {
        let asked = of(intent(method, configured(params, configuration.clone())));
        assert_eq!(asked, (delivery, history), "{method} {configuration}");
    }
    assert_eq!(of(intent("message/send", message03(json!({})))).0, Delivery::Unsaid);
    assert_eq!(of(intent("SendMessage", message1(json!({})))).0, Delivery::WhenSettled);
}

#[test]
fn the_task_of_a_message() {
    let named = json!({ "taskId": "t1", "contextId": "s1", "referenceTaskIds": ["t0"] });
    for (method, params) in
        [("message/send", message03(named.clone())), ("SendMessage", message1(named.clone()))]
    {
        let Intent::Prompt(prompt) = intent(method, params.clone()) else { panic!() };
        assert_eq!(prompt.task, TaskChoice::Continue("t1".into()));
        assert_eq!(prompt.session, Some("s1".into()));
        assert_eq!(prompt.references, ["t0".into()]);
        let call = Call { id: Id::NULL, method: method.into(), params };
        let Intent::Prompt(prompt) = decode(&call, None, Extension::On).unwrap().intent else {
            panic!()
        };
        assert_eq!(prompt.task, TaskChoice::Reopen("t1".into()));
    }
    let empty = message1(json!({ "taskId": "", "contextId": "" }));
    let Intent::Prompt(prompt) = intent("SendMessage", empty) else { panic!() };
    assert_eq!((prompt.task, prompt.session), (TaskChoice::New, None));
}

#[test]
fn requests_without_a_message() {
    let task = || "t1".into();
    let target = PushTarget {
        id: Some("c1".into()),
        url: "https://example.org/hook".into(),
        token: Some("secret".into()),
        scheme: Some("Bearer".into()),
        credentials: Some("abc".into()),
    };
    let config03 = json!({
        "id": "c1", "url": "https://example.org/hook", "token": "secret",
        "authentication": { "schemes": ["Bearer"], "credentials": "abc" },
    });
    let config1 = json!({
        "id": "c1", "taskId": "t1", "url": "https://example.org/hook", "token": "secret",
        "authentication": { "scheme": "Bearer", "credentials": "abc" },
    });
    let one = || Some("c1".to_owned());
    let cases = [
        (
            "tasks/get",
            json!({ "id": "t1", "historyLength": 3 }),
            Intent::GetTask { task: task(), history: HistoryLength::Last(3) },
        ),
        (
            "tasks/get",
            json!({ "id": "t1", "historyLength": 0 }),
            Intent::GetTask { task: task(), history: HistoryLength::All },
        ),
        (
            "tasks/get",
            json!({ "id": "t1", "historyLength": null, "metadata": null }),
            Intent::GetTask { task: task(), history: HistoryLength::All },
        ),
        ("tasks/cancel", json!({ "id": "t1" }), Intent::Cancel { task: task() }),
        ("tasks/resubscribe", json!({ "id": "t1" }), Intent::Subscribe { task: task() }),
        (
            "tasks/pushNotificationConfig/set",
            json!({ "taskId": "t1", "pushNotificationConfig": config03 }),
            Intent::SetPush { task: task(), target: target.clone() },
        ),
        (
            "tasks/pushNotificationConfig/get",
            json!({ "id": "t1" }),
            Intent::GetPush { task: task(), config: None },
        ),
        (
            "tasks/pushNotificationConfig/get",
            json!({ "id": "t1", "pushNotificationConfigId": "c1" }),
            Intent::GetPush { task: task(), config: one() },
        ),
        (
            "tasks/pushNotificationConfig/list",
            json!({ "id": "t1" }),
            Intent::ListPush { task: task() },
        ),
        (
            "tasks/pushNotificationConfig/delete",
            json!({ "id": "t1", "pushNotificationConfigId": "c1" }),
            Intent::DeletePush { task: task(), config: "c1".into() },
        ),
        ("agent/getAuthenticatedExtendedCard", Value::Null, Intent::GetExtendedCard),
        (
            "GetTask",
            json!({ "id": "t1", "historyLength": 0 }),
            Intent::GetTask { task: task(), history: HistoryLength::Last(0) },
        ),
        ("CancelTask", json!({ "id": "t1", "tenant": "x" }), Intent::Cancel { task: task() }),
        ("SubscribeToTask", json!({ "id": "t1" }), Intent::Subscribe { task: task() }),
        ("CreateTaskPushNotificationConfig", config1, Intent::SetPush { task: task(), target }),
        (
            "GetTaskPushNotificationConfig",
            json!({ "taskId": "t1", "id": "c1" }),
            Intent::GetPush { task: task(), config: one() },
        ),
        (
            "ListTaskPushNotificationConfigs",
            json!({ "taskId": "t1" }),
            Intent::ListPush { task: task() },
        ),
        (
            "DeleteTaskPushNotificationConfig",
            json!({ "taskId": "t1", "id": "c1" }),
            Intent::DeletePush { task: task(), config: "c1".into() },
        ),
        ("GetExtendedAgentCard", Value::Null, Intent::GetExtendedCard),
    ];
    for (method, params, expected) in cases {
        assert_eq!(intent(method, params.clone()), expected, "{method} {params}");
    }
}

/// 1.0 is protocol buffers as JSON, which may also have the names of the protocol file. 0.3 is not, and
/// ignores those names as unknown members.
#[test]
fn names_of_the_protocol_file() {
    let pairs = [
        (
            "GetTask",
            json!({ "id": "t1", "historyLength": 1 }),
            json!({ "id": "t1", "history_length": 1 }),
        ),
        (
            "ListTasks",
            json!({ "contextId": "s1", "pageSize": 2, "pageToken": "p", "includeArtifacts": true,
                    "statusTimestampAfter": "2026-01-01T00:00:00Z" }),
            json!({ "context_id": "s1", "page_size": 2, "page_token": "p", "include_artifacts": true,
                    "status_timestamp_after": "2026-01-01T00:00:00Z" }),
        ),
        (
            "SendMessage",
            json!({ "message": { "messageId": "m", "role": "ROLE_USER", "taskId": "t1", "contextId": "s1",
                                 "parts": [{ "url": "https://example.org/a", "mediaType": "text/plain" }] },
                    "configuration": { "returnImmediately": true, "historyLength": 3 } }),
            json!({ "message": { "message_id": "m", "role": "ROLE_USER", "task_id": "t1", "context_id": "s1",
                                 "parts": [{ "url": "https://example.org/a", "media_type": "text/plain" }] },
                    "configuration": { "return_immediately": true, "history_length": 3 } }),
        ),
        (
            "DeleteTaskPushNotificationConfig",
            json!({ "taskId": "t1", "id": "c1" }),
            json!({ "task_id": "t1", "id": "c1" }),
        ),
    ];
    for (method, camel, proto) in pairs {
        assert_eq!(intent(method, camel), intent(method, proto.clone()), "{method} {proto}");
    }
    // If both names are there, the one that the specification writes is used.
    let both = json!({ "id": "t1", "historyLength": 1, "history_length": 2 });
    let expected = Intent::GetTask { task: "t1".into(), history: HistoryLength::Last(1) };
    assert_eq!(intent("GetTask", both), expected);
    let old = json!({ "id": "t1", "history_length": 1 });
    let expected = Intent::GetTask { task: "t1".into(), history: HistoryLength::All };
    assert_eq!(intent("tasks/get", old), expected);
}

#[test]
fn a_list_of_tasks() {
    let everything = ListTasks {
        session: None,
        status: StatusFilter::Any,
        page_size: 50,
        page_token: None,
        history: HistoryLength::All,
        artifacts: false,
        since: None,
    };
    assert_eq!(intent("ListTasks", json!({})), Intent::ListTasks(everything.clone()));
    assert_eq!(intent("ListTasks", Value::Null), Intent::ListTasks(everything.clone()));
    let filtered = json!({
        "contextId": "s1", "status": "TASK_STATE_WORKING", "pageSize": 100, "pageToken": "p2",
        "historyLength": 1, "includeArtifacts": true,
        "statusTimestampAfter": "2026-01-01T00:00:00.250Z",
    });
    let expected = ListTasks {
        session: Some("s1".into()),
        status: StatusFilter::Is(TaskState::Working),
        page_size: 100,
        page_token: Some("p2".into()),
        history: HistoryLength::Last(1),
        artifacts: true,
        since: Some(loggia_core::Millis(1_767_225_600_250)),
    };
    assert_eq!(intent("ListTasks", filtered), Intent::ListTasks(expected));
    for last in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999+00:00"] {
        let Intent::ListTasks(list) = intent("ListTasks", json!({ "statusTimestampAfter": last }))
        else {
            panic!("{last}")
        };
        assert!(list.since > Some(loggia_core::Millis(253_402_000_000_000)), "{list:?}");
    }
    let nowhere = json!({ "status": "TASK_STATE_AUTH_REQUIRED" });
    let expected = ListTasks { status: StatusFilter::Nothing, ..everything };
    assert_eq!(intent("ListTasks", nowhere), Intent::ListTasks(expected));
}

#[test]
fn a_message_comes_back_in_the_history_as_it_was_sent() {
    let parts = json!([
        { "kind": "text", "text": "look" },
        { "kind": "file", "file": { "bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain" } },
        { "kind": "data", "data": { "line": 42, "ratio": 0.1, "deep": [1, 2.0, { "x": null }] } },
    ]);
    let Intent::Prompt(prompt) = intent("message/send", message03(json!({ "parts": parts })))
    else {
        panic!()
    };
    let mut script = super::script::Script::new();
    let command = loggia_core::Command::Prompt {
        prompt: "p".into(),
        task: TaskChoice::New,
        content: prompt.content,
    };
    script.submit(super::script::client("ann"), command).unwrap();
    let view = View::A2A_03;
    let frames = super::transcript::project(&script.log, view);
    assert_eq!(frames[0].body["history"][0]["parts"], parts);
    assert_eq!(frames[0].body["history"][0]["messageId"], "m1");
}
