//! HTTP+JSON: paths, parameters, errors.

use loggia_core::{Content, Part, TaskState};
use loggia_wire::rest::{NoRoute, route, verbs};
use loggia_wire::{
    Condition, Delivery, Extension, HistoryLength, Intent, StatusFilter, View, WireError,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The method and the parameters of a request without a body.
fn asked(verb: &str, target: &str) -> Result<(View, &'static str, Value), NoRoute> {
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let route = route(verb, path, None)?;
    let params = route.params(query, b"").unwrap();
    Ok((route.view(), route.method, params))
}

#[test]
fn paths_of_1_0() {
    let cases = [
        ("POST", "/message:send", "SendMessage", json!({})),
        ("POST", "/message%3Asend", "SendMessage", json!({})),
        ("POST", "/message%3astream", "SendStreamingMessage", json!({})),
        ("GET", "/tasks", "ListTasks", json!({})),
        ("GET", "/tasks/t1", "GetTask", json!({ "id": "t1" })),
        ("GET", "/tasks/t%2F1", "GetTask", json!({ "id": "t/1" })),
        ("GET", "/tasks/t1?historyLength=2", "GetTask", json!({ "id": "t1", "historyLength": 2 })),
        ("GET", "/tasks/t1?id=t2", "GetTask", json!({ "id": "t1" })),
        ("POST", "/tasks/t1:cancel", "CancelTask", json!({ "id": "t1" })),
        ("POST", "/tasks/t1%3Acancel", "CancelTask", json!({ "id": "t1" })),
        ("GET", "/tasks/t1:subscribe", "SubscribeToTask", json!({ "id": "t1" })),
        ("POST", "/tasks/t1:subscribe", "SubscribeToTask", json!({ "id": "t1" })),
        ("GET", "/tasks/t1:2", "GetTask", json!({ "id": "t1:2" })),
        (
            "GET",
            "/tasks/t1/pushNotificationConfigs",
            "ListTaskPushNotificationConfigs",
            json!({ "taskId": "t1" }),
        ),
        (
            "POST",
            "/tasks/t1/pushNotificationConfigs",
            "CreateTaskPushNotificationConfig",
            json!({ "taskId": "t1" }),
        ),
        (
            "GET",
            "/tasks/t1/pushNotificationConfigs/c1",
            "GetTaskPushNotificationConfig",
            json!({ "taskId": "t1", "id": "c1" }),
        ),
        (
            "DELETE",
            "/tasks/t1/pushNotificationConfigs/c1",
            "DeleteTaskPushNotificationConfig",
            json!({ "taskId": "t1", "id": "c1" }),
        ),
        ("GET", "/extendedAgentCard", "GetExtendedAgentCard", json!({})),
        ("GET", "/acme/tasks/t1", "GetTask", json!({ "id": "t1", "tenant": "acme" })),
        ("POST", "/a%20b/message:send", "SendMessage", json!({ "tenant": "a b" })),
        ("GET", "/a2a/1.0/tasks/t1", "GetTask", json!({ "id": "t1" })),
        ("GET", "/a2a/1.0/acme/tasks", "ListTasks", json!({ "tenant": "acme" })),
        // The path without a tenant comes first.
        ("GET", "/tasks/tasks", "GetTask", json!({ "id": "tasks" })),
    ];
    for (verb, target, method, params) in cases {
        assert_eq!(asked(verb, target), Ok((View::A2A_1, method, params)), "{verb} {target}");
    }
}

#[test]
fn paths_of_0_3() {
    let name = |name: &str| json!({ "name": name });
    let cases = [
        ("POST", "/v1/message:send", "SendMessage", json!({})),
        ("POST", "/v1/message:stream", "SendStreamingMessage", json!({})),
        ("GET", "/v1/tasks", "ListTasks", json!({})),
        ("GET", "/v1/tasks/t1", "GetTask", name("tasks/t1")),
        ("POST", "/v1/tasks/t1:cancel", "CancelTask", name("tasks/t1")),
        ("GET", "/v1/tasks/t1:subscribe", "TaskSubscription", name("tasks/t1")),
        ("POST", "/v1/tasks/t1:subscribe", "TaskSubscription", name("tasks/t1")),
        (
            "GET",
            "/v1/tasks/t1/pushNotificationConfigs/c1",
            "GetTaskPushNotificationConfig",
            name("tasks/t1/pushNotificationConfigs/c1"),
        ),
        (
            "DELETE",
            "/v1/tasks/t1/pushNotificationConfigs/c1",
            "DeleteTaskPushNotificationConfig",
            name("tasks/t1/pushNotificationConfigs/c1"),
        ),
        (
            "POST",
            "/v1/tasks/t1/pushNotificationConfigs",
            "CreateTaskPushNotificationConfig",
            json!({ "parent": "tasks/t1" }),
        ),
        ("GET", "/v1/card", "GetAgentCard", json!({})),
        ("GET", "/a2a/0.3/v1/card", "GetAgentCard", json!({})),
    ];
    for (verb, target, method, params) in cases {
        assert_eq!(asked(verb, target), Ok((View::PROTO_03, method, params)), "{verb} {target}");
    }
}

#[test]
fn unknown_paths() {
    let unknown = ["/", "/tasks/", "/tasks/a/b", "/a/b/tasks", "/v1/x", "/%ff/tasks", "//tasks"];
    for path in unknown {
        assert_eq!(asked("GET", path), Err(NoRoute::Unknown), "{path}");
    }
    // Other parts of the server have these.
    for path in ["/tasks/t1/metadata", "/a2a/0.3/tasks", "/message/stream"] {
        assert_eq!(asked("GET", path), Err(NoRoute::Unknown), "{path}");
    }
    let others: [(&str, &str, &[&str]); 5] = [
        ("GET", "/message:send", &["POST"]),
        ("POST", "/tasks", &["GET"]),
        ("PUT", "/v1/card", &["GET"]),
        ("PATCH", "/acme/tasks/t1/pushNotificationConfigs", &["GET", "POST"]),
        ("POST", "/v1/tasks/t1/pushNotificationConfigs/c1", &["GET", "DELETE"]),
    ];
    for (verb, path, allowed) in others {
        assert_eq!(asked(verb, path), Err(NoRoute::Verb), "{verb} {path}");
        assert_eq!(verbs(path, None), allowed, "{path}");
    }
}

/// For a client that names 1.x, `v1` is a tenant.
#[test]
fn a_tenant_named_v1() {
    for (version, view) in [
        (None, View::PROTO_03),
        (Some(""), View::PROTO_03),
        (Some("0.3"), View::PROTO_03),
        (Some("1.0"), View::A2A_1),
        (Some("99.0"), View::A2A_1),
    ] {
        let route = route("GET", "/v1/tasks", version).unwrap();
        assert_eq!(route.view(), view, "{version:?}");
    }
}

#[test]
fn a_tenant_is_the_one_of_the_card_or_none() {
    let cases = [
        (None, json!({}), true),
        (None, json!({ "tenant": "" }), true),
        (None, json!({ "tenant": "acme" }), false),
        (Some("acme"), json!({ "tenant": "acme" }), true),
        (Some("acme"), json!({}), true),
        (Some("acme"), json!({ "tenant": "Acme" }), false),
    ];
    for (served, params, fits) in cases {
        let checked = View::A2A_1.check_tenant(served, &params);
        assert_eq!(checked.is_ok(), fits, "{served:?} {params}");
        assert_eq!(View::PROTO_03.check_tenant(served, &params), Ok(()), "0.3 has none");
    }
}

#[test]
fn a_query_is_read_by_the_types_of_its_members() {
    let target = "/tasks?pageSize=7&page_token=a%2Bb+c&status=TASK_STATE_WORKING\
                  &includeArtifacts=true&history_length=0&pageSize=9";
    let (view, method, params) = asked("GET", target).unwrap();
    let asked = view.decode(method, &params, Extension::Off).unwrap();
    let Intent::ListTasks(list) = asked.intent else { panic!("{:?}", asked.intent) };
    assert_eq!((list.page_size, list.artifacts), (7, true));
    assert_eq!(list.page_token.as_deref(), Some("a+b c"));
    assert_eq!(list.status, StatusFilter::Is(TaskState::Working));
    assert_eq!(list.history, HistoryLength::Last(0));
    for wrong in ["/tasks?pageSize=x", "/tasks?pageSize=-1", "/tasks?includeArtifacts=maybe"] {
        let (view, method, params) = self::asked("GET", wrong).unwrap();
        let error = view.decode(method, &params, Extension::Off).unwrap_err();
        assert_eq!(view.status(&error).http, 400, "{wrong}");
    }
}

#[test]
fn bodies() {
    let route = route("POST", "/v1/tasks/t1:cancel", None).unwrap();
    for body in ["", "  ", "null", "{}", r#"{"name":"tasks/t2"}"#] {
        let params = route.params(None, body.as_bytes()).unwrap();
        assert_eq!(params["name"], "tasks/t1", "{body:?}: the path says which");
    }
    for body in ["[]", "1", "\"x\"", "{"] {
        assert!(route.params(None, body.as_bytes()).is_err(), "{body}");
    }
    assert!(route.params(None, b"\xff").is_err());
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(80), "]".repeat(80));
    assert!(route.params(None, deep.as_bytes()).is_err());
}

/// The JSON form of the 0.3 protocol file, with its own names and with those of the file.
#[test]
fn a_message_of_0_3() {
    let spelled = [
        json!({
            "message": {
                "messageId": "m1", "role": "ROLE_USER", "contextId": "c1", "taskId": "",
                "content": [
                    { "text": "Look" },
                    { "file": { "fileWithBytes": "aGk=", "mimeType": "text/plain", "name": "a" } },
                    { "file": { "fileWithUri": "https://example.org/b" } },
                    { "data": { "data": { "n": 42 } } },
                ],
            },
            "configuration": { "blocking": true, "historyLength": 3 },
        }),
        json!({
            "request": {
                "message_id": "m1", "role": "ROLE_USER", "context_id": "c1",
                "content": [
                    { "text": "Look" },
                    { "file": { "file_with_bytes": "aGk=", "mime_type": "text/plain", "name": "a" } },
                    { "file": { "file_with_uri": "https://example.org/b" } },
                    { "data": { "data": { "n": 42 } } },
                ],
            },
            "configuration": { "blocking": true, "history_length": 3 },
        }),
    ];
    for params in spelled {
        let asked = View::PROTO_03.decode("SendMessage", &params, Extension::Off);
        let Intent::Prompt(prompt) = asked.unwrap().intent else { panic!("a prompt") };
        assert_eq!(prompt.session.as_ref().map(|id| id.as_str()), Some("c1"));
        assert_eq!(prompt.delivery, Delivery::WhenSettled);
        assert_eq!(prompt.history, HistoryLength::Last(3));
        let parts = vec![
            Part::Text { text: "Look".into() },
            Part::File {
                name: Some("a".into()),
                media_type: Some("text/plain".into()),
                base64: Some("aGk=".into()),
                uri: None,
            },
            Part::File {
                name: None,
                media_type: None,
                base64: None,
                uri: Some("https://example.org/b".into()),
            },
            Part::Data { data: json!({ "n": 42 }) },
        ];
        let content = Content { parts, message: Some("m1".into()), metadata: None, profile: None };
        assert_eq!(prompt.content, content);
    }
}

#[test]
fn a_callback_of_0_3_in_three_spellings() {
    let config = json!({ "url": "https://example.org/hook", "token": "" });
    let spelled = [
        json!({ "config": { "pushNotificationConfig": config }, "configId": "c1" }),
        json!({ "config": { "push_notification_config": config }, "config_id": "c1" }),
        json!({ "pushNotificationConfig": { "id": "c1", "url": "https://example.org/hook" } }),
    ];
    for mut params in spelled {
        params["parent"] = "tasks/t1".into();
        let method = "CreateTaskPushNotificationConfig";
        let asked = View::PROTO_03.decode(method, &params, Extension::Off).unwrap();
        let Intent::SetPush { task, target } = asked.intent else { panic!("a callback") };
        assert_eq!((task.as_str(), target.id.as_deref(), target.token), ("t1", Some("c1"), None));
    }
}

#[test]
fn invalid_requests_of_0_3() {
    let message = |content: Value| json!({ "message": { "messageId": "m1", "role": "ROLE_USER", "content": content } });
    let cases = [
        ("GetTask", json!({}), "name"),
        ("GetTask", json!({ "name": "t1" }), "name"),
        ("GetTask", json!({ "name": "tasks/" }), "name"),
        ("GetTask", json!({ "name": "tasks/a/b" }), "name"),
        ("GetTaskPushNotificationConfig", json!({ "name": "tasks/t1" }), "name"),
        ("SendMessage", json!({}), "message"),
        ("SendMessage", message(json!([])), "message.content"),
        ("SendMessage", message(json!([{}])), "message.content[0].text"),
        ("SendMessage", message(json!([{ "text": "a", "data": {} }])), "message.content[0].text"),
        (
            "SendMessage",
            message(json!([{ "data": { "data": 1 } }])),
            "message.content[0].data.data",
        ),
        ("SendMessage", message(json!([{ "kind": "text" }])), "message.content[0].text"),
    ];
    for (method, params, field) in cases {
        let error = View::PROTO_03.decode(method, &params, Extension::Off).unwrap_err();
        let WireError::Invalid(violation) = &error else { panic!("{error:?}") };
        assert_eq!(violation.field, field, "{method} {params}");
        assert_eq!(View::PROTO_03.status(&error).http, 422);
    }
}

#[test]
fn an_error_in_the_shape_of_each_version() {
    let error = WireError::from(Condition::TaskNotFound);
    let info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": { "cause": "unknown-task" },
    });
    let v1 = json!({ "error": {
        "code": 404, "status": "NOT_FOUND", "message": "Task not found", "details": [info],
    }});
    assert_eq!(View::A2A_1.status(&error).body, v1);
    let v03 = json!({
        "code": -32001, "message": "Task not found", "error": "TaskNotFoundError",
        "data": { "reason": "unknown-task" },
    });
    assert_eq!(View::PROTO_03.status(&error).body, v03);
    let closed = View::A2A_1.rejection(415, "content-type", "No.");
    assert_eq!(closed.body["error"]["details"][0]["reason"], "CONTENT_TYPE_NOT_SUPPORTED");
    let closed = View::A2A_1.rejection(401, "token-needed", "No.");
    assert_eq!(closed.body["error"]["status"], "UNAUTHENTICATED");
}

proptest! {
    /// Any request gets a method with parameters, or an error that reveals nothing.
    #[test]
    fn any_request_gets_an_answer(
        verb in "GET|POST|DELETE",
        path in "(/(a2a|1\\.0|v1|tasks|message:(send|stream)|[a-z%:.]{0,6}|pushNotificationConfigs)){1,5}",
        query in "[a-zA-Z_=&%+0-9-]{0,40}",
        body in prop_oneof![".{0,60}", Just("null".to_owned()), "\\{\"[a-zA-Z]{2,8}\":[0-9\\[\\]\"]{1,6}\\}"],
        version in proptest::option::of("[0-9.]{0,4}"),
    ) {
        let Ok(route) = route(&verb, &path, version.as_deref()) else { return Ok(()) };
        let asked = route.params(Some(&query), body.as_bytes())
            .and_then(|params| route.view().decode(route.method, &params, Extension::Off));
        if let Err(error) = asked {
            let shown = route.view().status(&error);
            prop_assert!((400..600).contains(&shown.http));
            prop_assert!(shown.body.to_string().len() < 1024);
        }
    }
}
