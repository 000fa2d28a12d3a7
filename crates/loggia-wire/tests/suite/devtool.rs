//! The extension: activation, versions, settings, confirmations, commands.

use loggia_core::{Edit, Question};
use loggia_wire::commands::{
    CommandExecutionStatus, ExecuteSlashCommandResponse, GetAllSlashCommandsResponse, SlashCommand,
    SlashCommandArgument,
};
use loggia_wire::devtool::version::{Version, compatible, version_in};
use loggia_wire::devtool::{URI, activated_by_header, is_ours};
use loggia_wire::{Call, DecodedRequest, Extension, Id, Intent, RunSlash, View, WireError, decode};
use serde_json::{Value, json};

fn send(message: Value) -> Result<DecodedRequest, WireError> {
    let mut whole = json!({
        "role": "user", "messageId": "m1", "parts": [{ "kind": "text", "text": "hi" }],
    });
    for (name, value) in message.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let params = json!({ "message": whole });
    decode(&Call { id: Id::NULL, method: "message/stream".into(), params }, None, Extension::Off)
}

#[test]
fn activation() {
    let active = |message| send(message).unwrap().view.extension;
    assert_eq!(active(json!({})), Extension::Off);
    assert_eq!(active(json!({ "extensions": ["https://example.org/other"] })), Extension::Off);
    assert_eq!(active(json!({ "metadata": { "other": {} } })), Extension::Off);
    assert_eq!(active(json!({ "extensions": [URI] })), Extension::On);
    assert_eq!(active(json!({ "metadata": { URI: {} } })), Extension::On);
    let both = json!({ "extensions": [URI], "metadata": { "coderAgent": {} } });
    assert_eq!(active(both), Extension::On);

    assert_eq!(
        activated_by_header(["https://example.org/a, https://example.org/b"]),
        Extension::Off
    );
    assert_eq!(
        activated_by_header([format!("https://example.org/a ,{URI}").as_str()]),
        Extension::On
    );
    assert_eq!(activated_by_header(["https://example.org/a", URI]), Extension::On);
    assert_eq!(activated_by_header([]), Extension::Off);
}

#[test]
fn versions_follow_semantic_versioning() {
    let v = |text: &str| Version::parse(text).unwrap();
    // The example of Semantic Versioning 2.0.0, §11.
    let ascending = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.2.0",
        "2.0.0",
    ];
    assert!(ascending.windows(2).all(|pair| v(pair[0]) < v(pair[1])));
    assert_eq!(v("1.0.0+build.5"), v("1.0.0"));
    assert_eq!(v("1"), v("1.0.0"));
    for bad in ["", "1.", "01.0.0", "1.0.0.0", "1.0.0-", "1.0.0-a..b", "x", "1.-2.0", "1.0.0+"] {
        assert_eq!(Version::parse(bad), None, "{bad}");
    }
    for (wanted, offered, fits) in [
        ("1.0.0", "1.0.0", true),
        ("1.0.0", "1.4.2", true),
        ("1.4.0", "1.3.9", false),
        ("1.0.0", "2.0.0", false),
        ("0.1.0", "0.1.7", true),
        ("0.1.0", "0.2.0", false),
        ("0.0.0", "0.0.0", true),
        ("1.0.0", "1.0.0-rc.1", false),
    ] {
        assert_eq!(compatible(&v(wanted), &v(offered)), fits, "{wanted} {offered}");
    }
    assert_eq!(version_in(URI), Some(v("0.0.0")));
    assert_eq!(version_in("https://example.org/x/v1.2/spec.md"), Some(v("1.2.0")));
    assert_eq!(version_in("https://example.org/versions/spec.md"), None);
    assert!(is_ours(URI));
    assert!(is_ours(&URI.replace("/v0/", "/v0.0/")));
    assert!(!is_ours(&URI.replace("/v0/", "/v1/")));
    assert!(!is_ours(&URI.replace("developer-profile", "other")));
}

#[test]
fn settings_with_the_first_message() {
    let settings = |metadata: Value| match send(json!({ "metadata": metadata })).unwrap().intent {
        Intent::Prompt(prompt) => (prompt.settings, prompt.content.metadata.unwrap()),
        other => panic!("{other:?}"),
    };
    let servers = json!({ "files": { "command": "mcp-files", "env": { "TOKEN": "secret" } } });
    let (given, kept) = settings(json!({ URI: {
        "workspace_path": "/work/demo", "mcp_servers": servers, "allowed_tools": ["read_file"],
    }, "mine": 1 }));
    let given = given.unwrap();
    assert_eq!(given.workspace_path.as_deref(), Some("/work/demo"));
    assert_eq!(given.mcp_servers, Some(servers));
    assert_eq!(given.allowed_tools, Some(vec!["read_file".to_owned()]));
    // The addresses of a client's tool servers do not go into the log.
    let shown = json!({
        URI: { "workspace_path": "/work/demo", "allowed_tools": ["read_file"] }, "mine": 1,
    });
    assert_eq!(kept, shown);

    let (given, _) = settings(json!({ "coderAgent": {
        "kind": "agent-settings", "workspacePath": "/work/demo", "autoExecute": true,
    } }));
    let given = given.unwrap();
    assert_eq!(given.workspace_path.as_deref(), Some("/work/demo"));
    assert_eq!(given.auto_execute, Some(true));

    let (given, _) = settings(json!({ URI: { "repository": {
        "url": "https://example.org/x.git", "revision": "main", "shallow": true,
        "target_directory": "src/one",
    } } }));
    let wanted = loggia_core::Repository {
        url: "https://example.org/x.git".into(),
        revision: Some("main".into()),
        shallow: true,
        directory: Some("src/one".into()),
    };
    assert_eq!(given.unwrap().repository, Some(wanted));

    assert_eq!(settings(json!({ URI: {} })).0, None);
    for bad in [
        json!("x"),
        json!({ "workspace_path": 1 }),
        json!({ "workspace_path": "relative" }),
        json!({ "workspace_path": "/a\u{0}b" }),
        json!({ "workspace_path": format!("/{}", "x".repeat(5000)) }),
        json!({ "allowed_tools": "all" }),
        json!({ "mcp_servers": [] }),
        json!({ "auto_execute": "yes" }),
        json!({ "repository": "https://h/x" }),
        json!({ "repository": {} }),
        json!({ "repository": { "url": "https://u:p@h/x" } }),
        json!({ "repository": { "url": "ext::sh -c touch% PWNED" } }),
        json!({ "repository": { "url": "https://h/x", "revision": "--upload-pack=x" } }),
        json!({ "repository": { "url": "https://h/x", "shallow": "yes" } }),
        json!({ "repository": { "url": "https://h/x" }, "workspace_path": "/work/demo" }),
    ] {
        let error = send(json!({ "metadata": { URI: bad.clone() } })).unwrap_err();
        assert_eq!(View::A2A_03.refuse(&error).code, -32602, "{bad}");
    }
}

fn confirm(data: Value) -> Result<DecodedRequest, WireError> {
    send(json!({ "taskId": "t1", "parts": [{ "kind": "data", "data": data }] }))
}

#[test]
fn a_confirmation() {
    let answer = |data: Value| match confirm(data).unwrap().intent {
        Intent::Answer(answer) => *answer,
        other => panic!("{other:?}"),
    };
    let plain = answer(json!({ "tool_call_id": "c1", "selected_option_id": "proceed_once" }));
    assert_eq!(plain.to, Question::Call("c1".into()));
    assert_eq!(plain.choice.0, "proceed_once");
    assert_eq!((plain.edit, plain.digest), (None, None));
    assert_eq!(plain.task, Some("t1".into()));

    let edited = Some(Edit::File { content: "new\n".into() });
    for details in [
        json!({ "file_details": { "new_content": "new\n" } }),
        json!({ "modified_details": { "file_details": { "new_content": "new\n" } } }),
        json!({ "fileDetails": { "newContent": "new\n" } }),
    ] {
        let mut data = json!({ "toolCallId": "c1", "selectedOptionId": "proceed_once" });
        let (name, value) = details.as_object().unwrap().iter().next().unwrap();
        data[name] = value.clone();
        assert_eq!(answer(data).edit, edited);
    }

    let named = answer(json!({
        "tool_call_id": "c1", "selected_option_id": "cancel",
        "correlationId": "a1", "details_digest": "abc",
    }));
    assert_eq!(named.to, Question::Both { approval: "a1".into(), call: "c1".into() });
    assert_eq!(named.digest.as_deref(), Some("abc"));

    let beside = send(json!({
        "metadata": { "correlationId": "a1", "detailsDigest": "abc" },
        "parts": [{ "kind": "data", "data": {
            "tool_call_id": "c1", "selected_option_id": "cancel",
        } }],
    }));
    let Intent::Answer(beside) = beside.unwrap().intent else { panic!() };
    assert_eq!(beside.to, Question::Both { approval: "a1".into(), call: "c1".into() });
    assert_eq!(beside.digest.as_deref(), Some("abc"));
}

/// If several questions are open, a confirmation answers one of them in text.
#[test]
fn a_confirmation_in_words() {
    let parts = |choice: &str| {
        json!([
            { "kind": "data", "data": { "tool_call_id": "c1", "selected_option_id": choice } },
            { "kind": "text", "text": "Zig, please" },
        ])
    };
    let Intent::Answer(answer) = send(json!({ "parts": parts("answer") })).unwrap().intent else {
        panic!()
    };
    assert_eq!(answer.edit, Some(Edit::Text { text: "Zig, please".into() }));
    let error = send(json!({ "parts": parts("proceed_once") })).unwrap_err();
    assert_eq!(View::A2A_03.refuse(&error).code, -32602);
}

#[test]
fn invalid_confirmations() {
    let long = "x".repeat(1_000_000);
    let cases = [
        ("no choice", json!({ "tool_call_id": "c1" })),
        ("no call", json!({ "selected_option_id": "cancel" })),
        ("an empty choice", json!({ "tool_call_id": "c1", "selected_option_id": "" })),
        (
            "a choice that is a list",
            json!({ "tool_call_id": "c1", "selected_option_id": ["cancel"] }),
        ),
        ("a choice of a megabyte", json!({ "tool_call_id": "c1", "selected_option_id": long })),
        (
            "another file",
            json!({
                "tool_call_id": "c1", "selected_option_id": "proceed_once",
                "file_details": { "new_content": "x", "file_path": "/etc/passwd" },
            }),
        ),
        (
            "another file beside it",
            json!({
                "tool_call_id": "c1", "selected_option_id": "proceed_once",
                "file_details": { "new_content": "x" }, "file_path": "/etc/passwd",
            }),
        ),
        (
            "another file around it",
            json!({
                "tool_call_id": "c1", "selected_option_id": "proceed_once",
                "modified_details": { "file_details": { "new_content": "x" }, "file_path": "/etc" },
            }),
        ),
        (
            "two changes",
            json!({
                "tool_call_id": "c1", "selected_option_id": "proceed_once",
                "file_details": { "new_content": "x" },
                "modified_details": { "file_details": { "new_content": "y" } },
            }),
        ),
        (
            "a change without content",
            json!({
                "tool_call_id": "c1", "selected_option_id": "proceed_once", "file_details": {},
            }),
        ),
    ];
    for (what, data) in cases {
        let error = confirm(data).expect_err(what);
        let shown = View::A2A_03.refuse(&error);
        assert_eq!(shown.code, -32602, "{what}");
        assert!(shown.message.len() < 200, "{what}");
    }
    let confirmation =
        json!({ "kind": "data", "data": { "tool_call_id": "c1", "selected_option_id": "cancel" } });
    for parts in [
        json!([confirmation, { "kind": "text", "text": "and do something else" }]),
        json!([confirmation, confirmation]),
    ] {
        let error = send(json!({ "parts": parts })).unwrap_err();
        assert_eq!(View::A2A_03.refuse(&error).code, -32602);
    }
}

#[test]
fn slash_commands() {
    let call = |method: &str, params| {
        let call = Call { id: Id::NULL, method: method.into(), params };
        decode(&call, None, Extension::Off).unwrap()
    };
    let list = call("commands/get", Value::Null);
    assert_eq!(list.view.extension, Extension::On);
    assert_eq!(list.intent, Intent::ListSlash { session: None });
    let run = call(
        "command/execute",
        json!({ "command_path": ["memory", "add"], "args": "likes tea", "contextId": "s1" }),
    );
    let expected = RunSlash {
        session: Some("s1".into()),
        path: vec!["memory".into(), "add".into()],
        args: "likes tea".into(),
        settings: None,
    };
    assert_eq!(run.intent, Intent::RunSlash(expected));
    for (params, field) in [
        (json!({}), "command_path"),
        (json!({ "command_path": [] }), "command_path"),
        (json!({ "command_path": "memory" }), "command_path"),
        (json!({ "command_path": [1] }), "command_path[0]"),
        (json!({ "command_path": vec!["a"; 17] }), "command_path"),
        (json!({ "command_path": ["memory"], "args": ["a"] }), "args"),
        (json!({ "command_path": ["memory"], "args": "a".repeat(1024 * 1024 + 1) }), "args"),
    ] {
        let call = Call { id: Id::NULL, method: "command/execute".into(), params };
        let error = decode(&call, None, Extension::On).unwrap_err();
        assert!(matches!(&error, WireError::Invalid(it) if it.field == field), "{error}");
    }

    let tree = GetAllSlashCommandsResponse {
        commands: vec![SlashCommand {
            name: "memory".into(),
            description: "What Loggia remembers".into(),
            arguments: Vec::new(),
            sub_commands: vec![SlashCommand {
                name: "add".into(),
                description: "Remembers a sentence".into(),
                arguments: vec![SlashCommandArgument {
                    name: "text".into(),
                    description: "The sentence".into(),
                    is_required: true,
                }],
                sub_commands: Vec::new(),
            }],
        }],
    };
    let expected = json!({ "commands": [{
        "name": "memory", "description": "What Loggia remembers", "arguments": [],
        "sub_commands": [{
            "name": "add", "description": "Remembers a sentence", "sub_commands": [],
            "arguments": [{ "name": "text", "description": "The sentence", "is_required": true }],
        }],
    }] });
    assert_eq!(serde_json::to_value(&tree).unwrap(), expected);

    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../transcripts");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let whole =
        serde_json::to_value(GetAllSlashCommandsResponse::all(&Default::default())).unwrap();
    settings.bind(|| insta::assert_snapshot!("commands", super::transcript::compact(&whole, 0)));

    let statuses = [
        (CommandExecutionStatus::Started, "STARTED"),
        (CommandExecutionStatus::FailedToStart, "FAILED_TO_START"),
        (CommandExecutionStatus::AwaitingShellConfirmation, "AWAITING_SHELL_CONFIRMATION"),
        (CommandExecutionStatus::AwaitingActionConfirmation, "AWAITING_ACTION_CONFIRMATION"),
    ];
    for (status, name) in statuses {
        let answer = ExecuteSlashCommandResponse {
            execution_id: "t1".into(),
            status,
            message: String::new(),
        };
        let expected = json!({ "execution_id": "t1", "status": name, "message": "" });
        assert_eq!(serde_json::to_value(&answer).unwrap(), expected);
    }
}
