//! Invalid requests: the error names the field, and no input can do harm.

use loggia_wire::{Extension, View, WireError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decode::{ask, message1, message03};

#[test]
fn errors_name_the_invalid_field() {
    let text = |n: usize| "x".repeat(n);
    let cases: Vec<(&str, Value, &str)> = vec![
        ("message/send", json!({}), "message"),
        ("message/send", json!({ "": "not_a_dict" }), "message"),
        ("message/send", json!({ "message": "hi" }), "message"),
        ("message/send", json!({ "message": [] }), "message"),
        ("message/send", message03(json!({ "parts": [] })), "message.parts"),
        ("message/send", message03(json!({ "parts": null })), "message.parts"),
        ("message/send", message03(json!({ "parts": "invalid" })), "message.parts"),
        ("message/send", message03(json!({ "parts": [1] })), "message.parts[0]"),
        ("message/send", message03(json!({ "parts": [{}] })), "message.parts[0].kind"),
        (
            "message/send",
            message03(json!({ "parts": [{ "kind": "sound" }] })),
            "message.parts[0].kind",
        ),
        (
            "message/send",
            message03(json!({ "parts": [{ "kind": "text" }] })),
            "message.parts[0].text",
        ),
        (
            "message/send",
            message03(json!({ "parts": [{ "kind": "text", "text": 1 }] })),
            "message.parts[0].text",
        ),
        (
            "message/send",
            message03(json!({ "parts": [{ "kind": "data", "data": [1] }] })),
            "message.parts[0].data",
        ),
        (
            "message/send",
            message03(json!({ "parts": [{ "kind": "file", "file": {} }] })),
            "message.parts[0].file.bytes",
        ),
        (
            "message/send",
            message03(
                json!({ "parts": [{ "kind": "file", "file": { "bytes": "a", "uri": "b" } }] }),
            ),
            "message.parts[0].file.bytes",
        ),
        (
            "message/send",
            message03(json!({ "parts": [{ "kind": "file", "file": { "bytes": "not base64!" } }] })),
            "message.parts[0].file.bytes",
        ),
        ("message/send", message03(json!({ "role": "boss" })), "message.role"),
        // A client cannot send a message of the agent.
        ("message/send", message03(json!({ "role": "agent" })), "message.role"),
        ("SendMessage", message1(json!({ "role": "ROLE_AGENT" })), "message.role"),
        ("message/send", message03(json!({ "role": null })), "message.role"),
        ("message/send", message03(json!({ "messageId": null })), "message.messageId"),
        ("message/send", message03(json!({ "messageId": 7 })), "message.messageId"),
        ("message/send", message03(json!({ "messageId": "" })), "message.messageId"),
        ("message/send", message03(json!({ "messageId": text(257) })), "message.messageId"),
        ("message/send", message03(json!({ "messageId": "é".repeat(257) })), "message.messageId"),
        ("message/send", message03(json!({ "taskId": text(1_000_000) })), "message.taskId"),
        ("message/send", message03(json!({ "contextId": {} })), "message.contextId"),
        ("message/send", message03(json!({ "metadata": 1 })), "message.metadata"),
        (
            "message/send",
            message03(json!({ "metadata": { "x": text(70_000) } })),
            "message.metadata",
        ),
        ("message/send", message03(json!({ "extensions": "x" })), "message.extensions"),
        (
            "message/send",
            message03(json!({ "parts": [{ "kind": "text", "text": text(1_048_577) }] })),
            "message.parts",
        ),
        ("tasks/get", json!({ "id": 1 }), "id"),
        ("tasks/get", json!({ "id": "t", "historyLength": -1 }), "historyLength"),
        ("tasks/get", json!({ "id": "t", "historyLength": 1.5 }), "historyLength"),
        ("tasks/get", json!({ "id": "t", "historyLength": "5" }), "historyLength"),
        ("tasks/pushNotificationConfig/set", json!({ "taskId": "t" }), "pushNotificationConfig"),
        (
            "tasks/pushNotificationConfig/set",
            json!({ "taskId": "t", "pushNotificationConfig": {} }),
            "pushNotificationConfig.url",
        ),
        (
            "tasks/pushNotificationConfig/set",
            json!({ "taskId": "t", "pushNotificationConfig": { "url": "http://a", "token": "a\r\nb" } }),
            "pushNotificationConfig.token",
        ),
        ("tasks/pushNotificationConfig/delete", json!({ "id": "t" }), "pushNotificationConfigId"),
        ("SendMessage", json!({}), "message"),
        ("SendMessage", message1(json!({ "role": "user" })), "message.role"),
        ("SendMessage", message1(json!({ "parts": [{}] })), "message.parts[0].text"),
        (
            "SendMessage",
            message1(json!({ "parts": [{ "text": "a", "url": "b" }] })),
            "message.parts[0].text",
        ),
        ("SendMessage", message1(json!({ "parts": [{ "raw": "???" }] })), "message.parts[0].raw"),
        (
            "SendMessage",
            json!({ "message": message1(json!({}))["message"], "configuration": 1 }),
            "configuration",
        ),
        ("GetTask", json!({ "id": "t", "historyLength": -5 }), "historyLength"),
        ("GetTaskPushNotificationConfig", json!({ "taskId": "t" }), "id"),
        ("ListTasks", json!({ "pageSize": 0 }), "pageSize"),
        ("ListTasks", json!({ "pageSize": 101 }), "pageSize"),
        ("ListTasks", json!({ "status": "TASK_STATE_RUNNING" }), "status"),
        ("ListTasks", json!({ "statusTimestampAfter": "yesterday" }), "statusTimestampAfter"),
        ("ListTasks", json!({ "statusTimestampAfter": "9999-12-31" }), "statusTimestampAfter"),
        (
            "ListTasks",
            json!({ "statusTimestampAfter": "9999-02-31T00:00:00Z" }),
            "statusTimestampAfter",
        ),
        ("command/execute", json!({}), "command_path"),
        ("command/execute", json!({ "command_path": [] }), "command_path"),
        ("command/execute", json!({ "command_path": "memory add" }), "command_path"),
        ("command/execute", json!({ "command_path": [1] }), "command_path[0]"),
    ];
    for (method, params, field) in cases {
        let error = ask(method, params).unwrap_err();
        let WireError::Invalid(violation) = &error else { panic!("{method}: {error:?}") };
        assert_eq!(violation.field, field, "{method}: {violation:?}");
        let shown = View::of_call(method, None).refuse(&error);
        assert_eq!(shown.code, -32602);
        assert!(shown.message.len() < 200, "{}", shown.message);
    }
}

/// Any JSON.
pub fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
        prop::sample::select(vec!["user", "ROLE_USER", "text", "data", "file", "aGk=", "t1", "/a"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((member(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Names that decoders look for, so that random JSON gets past their first check.
fn member() -> impl Strategy<Value = String> {
    let known = vec![
        "message",
        "parts",
        "kind",
        "text",
        "data",
        "file",
        "bytes",
        "uri",
        "raw",
        "url",
        "role",
        "messageId",
        "taskId",
        "contextId",
        "id",
        "metadata",
        "configuration",
        "extensions",
        "historyLength",
        "blocking",
        "coderAgent",
        "callId",
        "outcome",
        "newContent",
        "answers",
        "userMessage",
        "toolCallId",
        "approved",
        "agentSettings",
        "command",
        "workspace_path",
        "tool_call_id",
        "selected_option_id",
        "file_details",
        "new_content",
        "modified_details",
        "command_path",
        "args",
        "pageSize",
        "status",
        "pushNotificationConfig",
        "authentication",
        "schemes",
        loggia_wire::devtool::URI,
    ];
    prop::sample::select(known).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any request gets an intent, or an error that reveals nothing.
    #[test]
    fn decoders_take_anything(params in anything()) {
        let methods = [
            "message/send", "message/stream", "tasks/get", "tasks/cancel",
            "tasks/pushNotificationConfig/set", "SendMessage", "GetTask", "ListTasks",
            "CreateTaskPushNotificationConfig", "commands/get", "command/execute",
        ];
        for method in methods {
            if let Err(error) = ask(method, params.clone()) {
                for view in [View::A2A_03, View::A2A_1, View::LEGACY] {
                    let shown = view.refuse(&error);
                    prop_assert_eq!(shown.code, -32602);
                    prop_assert!(!shown.message.contains("::"), "{}", shown.message);
                }
            }
        }
        let body = params.to_string();
        let (body, sdlc) = (body.as_bytes(), |error: &WireError| loggia_wire::sdlc::error(error));
        use loggia_wire::sdlc::decode;
        for refused in [
            decode::open_task(body).err(),
            decode::message(body).err(),
            decode::command(body).err(),
        ] {
            let Some((status, shown)) = refused.as_ref().map(sdlc) else { continue };
            prop_assert_eq!(status, 400);
            prop_assert!(shown["error"].is_string());
        }
        let of_the_protocol_file = [
            "SendMessage", "GetTask", "CancelTask", "CreateTaskPushNotificationConfig",
            "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfig",
        ];
        for method in of_the_protocol_file {
            let asked = View::PROTO_03.decode( method, &params, Extension::Off);
            if let Err(error) = asked {
                prop_assert_eq!(View::PROTO_03.refuse(&error).code, -32602);
            }
        }
    }
}
