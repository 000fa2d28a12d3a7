//! The legacy service: its requests, and its answers, which have every field of the guide.

use loggia_core::{Content, Part, Repository, TaskChoice, TaskId, TurnOutcome};
use loggia_wire::legacy::{self, DecodeOptions, TaskIds, name, request};
use loggia_wire::{
    Call, DecodedRequest, Delivery, Dialect, Extension, HistoryLength, Id, Intent, Projector,
    Prompt, TaskDetail, View, WireError, decode as decode_others, dialect_of,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::refused::anything;
use super::script::Script;

const OWNER: &str = "client:ann";
const OPTIONS: DecodeOptions<'static> =
    DecodeOptions { ids: TaskIds::OfClient(OWNER), send: Delivery::AtOnce };
const VIEW: View = View::LEGACY;

fn ask(method: &str, params: Value) -> Result<DecodedRequest, WireError> {
    legacy::decode(&Call { id: Id::NULL, method: method.into(), params }, OPTIONS)
}

fn prompt(method: &str, params: Value) -> Prompt {
    match ask(method, params).unwrap().intent {
        Intent::Prompt(prompt) => *prompt,
        other => panic!("{other:?}"),
    }
}

/// The guide's own request.
fn example() -> Value {
    json!({
        "id": "unique-task-id-001",
        "message": {
            "role": "user",
            "parts": [{ "text": "Write a Python script that lists all files in a directory." }],
        },
        "context": {
            "repositoryUrl": "https://github.com/someuser/somerepo",
            "targetDirectory": "src/utils",
        },
    })
}

fn saying(text: &str) -> Value {
    json!({ "id": "t", "message": { "role": "user", "parts": [{ "text": text }] } })
}

fn with(name: &str, value: Value) -> Value {
    let mut params = saying("hi");
    params[name] = value;
    params
}

#[test]
fn the_guides_request() {
    let prompt = prompt("tasks/send", example());
    assert_eq!(prompt.task, TaskChoice::Named(name::task(OWNER, "unique-task-id-001")));
    assert_eq!(
        prompt.content.to_text(),
        "Write a Python script that lists all files in a directory."
    );
    assert_eq!(request::of_content(&prompt.content), Some(&example()));
    assert_eq!((prompt.delivery, prompt.history), (Delivery::AtOnce, HistoryLength::Last(0)));
    let settings = prompt.settings.unwrap();
    assert!(settings.unattended);
    let repository = Repository {
        url: "https://github.com/someuser/somerepo".into(),
        revision: None,
        shallow: false,
        directory: Some("src/utils".into()),
    };
    assert_eq!(settings.repository, Some(repository));
}

#[test]
fn methods() {
    let task = name::task(OWNER, "t");
    let id = json!({ "id": "t" });
    assert_eq!(prompt("tasks/sendSubscribe", saying("hi")).delivery, Delivery::Stream);
    assert_eq!(prompt("tasks/stream", saying("hi")).delivery, Delivery::Stream);
    let history = HistoryLength::Last(2);
    for (method, params, wanted) in [
        (
            "tasks/get",
            json!({ "id": "t", "historyLength": 2 }),
            Intent::GetTask { task: task.clone(), history },
        ),
        ("tasks/cancel", id.clone(), Intent::Cancel { task: task.clone() }),
        ("tasks/resubscribe", id.clone(), Intent::Subscribe { task: task.clone() }),
        ("tasks/pushNotification/get", id.clone(), Intent::GetPush { task, config: None }),
    ] {
        assert_eq!(ask(method, params).unwrap().intent, wanted, "{method}");
    }
    for method in ["message/send", "SendMessage", "tasks/list", "tasks/pushNotificationConfig/set"]
    {
        assert_eq!(ask(method, saying("hi")), Err(WireError::MethodNotFound), "{method}");
    }
    for method in ["tasks/send", "tasks/sendSubscribe", "tasks/stream"] {
        assert_eq!(dialect_of(method, None), Some(Dialect::Legacy));
        let call = Call { id: Id::NULL, method: method.into(), params: saying("hi") };
        let elsewhere = decode_others(&call, None, Extension::Off);
        assert_eq!(elsewhere, Err(WireError::MethodNotFound), "names depend on who asks");
    }
    assert_eq!(dialect_of("tasks/get", None), Some(Dialect::A2a03));
}

#[test]
fn parts_in_every_form() {
    let parts = |message: Value| {
        prompt("tasks/send", json!({ "id": "t", "message": message })).content.parts
    };
    let hi = vec![Part::Text { text: "hi".into() }];
    for message in [
        json!({ "role": "user", "parts": [{ "text": "hi" }] }),
        json!({ "role": "user", "parts": [{ "type": "text", "text": "hi" }] }),
        json!({ "role": "user", "parts": [{ "kind": "text", "text": "hi" }] }),
        json!({ "parts": [{ "text": "hi" }] }),
        json!({ "role": "user", "content": { "type": "text", "text": "hi" }, "message_id": "m" }),
        json!({ "role": "user", "content": { "text": "hi" } }),
    ] {
        assert_eq!(parts(message.clone()), hi, "{message}");
    }
    let data = vec![Part::Data { data: json!({ "n": 1 }) }];
    assert_eq!(parts(json!({ "parts": [{ "type": "data", "data": { "n": 1 } }] })), data);
    assert_eq!(parts(json!({ "parts": [{ "data": { "n": 1 } }] })), data);
    let called = json!({ "type": "function_call", "name": "f", "parameters": [] });
    assert_eq!(parts(json!({ "content": called })), vec![Part::Data { data: called }]);
    let file = json!({ "file": { "name": "a.txt", "mimeType": "text/plain", "bytes": "aGk=" } });
    let Part::File { name, base64, .. } = parts(json!({ "parts": [file] })).remove(0) else {
        panic!()
    };
    assert_eq!((name.as_deref(), base64.as_deref()), (Some("a.txt"), Some("aGk=")));
}

/// Members of the context that do not describe a repository are for the agent to read.
#[test]
fn the_rest_of_the_context_is_for_the_agent() {
    let told =
        |context: Value| prompt("tasks/send", with("context", context)).content.parts.split_off(1);
    let data = |pairs: Value| vec![Part::Data { data: json!({ "context": pairs }) }];
    assert_eq!(told(json!({})), []);
    assert_eq!(told(json!({ "repositoryUrl": "https://h/x", "branch": "main" })), []);
    let pairs = told(json!({ "repositoryUrl": "https://h/x", "style": "terse", "limit": 3 }));
    assert_eq!(pairs, data(json!({ "limit": 3, "style": "terse" })));
    let alone = json!({ "targetDirectory": "src" });
    assert_eq!(told(alone.clone()), data(alone));
}

#[test]
fn repositories() {
    let read = |context: Value| prompt("tasks/send", with("context", context)).settings.unwrap();
    for name in ["branch", "revision", "commit"] {
        let read =
            read(json!({ "repositoryUrl": "ssh://git@h/x.git", name: "v1", "shallow": true }));
        let read = read.repository.unwrap();
        assert_eq!((read.revision.as_deref(), read.shallow), (Some("v1"), true));
    }
    let same = json!({ "repositoryUrl": "https://h:8443/x", "branch": "a", "revision": "a" });
    assert_eq!(read(same).repository.unwrap().revision.as_deref(), Some("a"));
    // The directory is checked after cloning: the task fails with the reason.
    for directory in ["../..", "/etc", "a/../../b"] {
        let read = read(json!({ "repositoryUrl": "https://h/x", "targetDirectory": directory }));
        assert_eq!(read.repository.unwrap().directory.as_deref(), Some(directory));
    }
}

#[test]
fn errors_name_the_invalid_field() {
    let context = |context: Value| with("context", context);
    let url = |url: &str| context(json!({ "repositoryUrl": url }));
    let long = "x".repeat(2050);
    let mut cases = vec![
        ("tasks/send", json!({}), "id"),
        ("tasks/send", json!({ "id": "" }), "id"),
        ("tasks/send", json!({ "id": 7 }), "id"),
        ("tasks/send", json!({ "id": "x".repeat(257) }), "id"),
        ("tasks/send", json!([1]), "params"),
        ("tasks/send", json!({ "id": "t" }), "message"),
        ("tasks/send", json!({ "id": "t", "message": "hi" }), "message"),
        ("tasks/send", json!({ "id": "t", "message": {} }), "message.parts"),
        ("tasks/send", json!({ "id": "t", "message": { "parts": [] } }), "message.parts"),
        ("tasks/send", json!({ "id": "t", "message": { "parts": [7] } }), "message.parts[0]"),
        ("tasks/send", json!({ "id": "t", "message": { "parts": [{}] } }), "message.parts[0].text"),
        (
            "tasks/send",
            json!({ "id": "t", "message": { "parts": [{ "type": "sound" }] } }),
            "message.parts[0].type",
        ),
        (
            "tasks/send",
            json!({ "id": "t", "message": { "parts": [{ "text": 1 }] } }),
            "message.parts[0].text",
        ),
        (
            "tasks/send",
            json!({ "id": "t", "message": { "role": "king", "parts": [{ "text": "x" }] } }),
            "message.role",
        ),
        ("tasks/send", json!({ "id": "t", "message": { "content": {} } }), "message.content.text"),
        ("tasks/send", saying(&"x".repeat(1024 * 1024 + 1)), "message.parts"),
        (
            "tasks/send",
            json!({ "id": "t", "message": { "content": { "text": "x".repeat(1024 * 1024 + 1) } } }),
            "message.content",
        ),
        ("tasks/send", with("sessionId", json!("")), "sessionId"),
        ("tasks/send", with("metadata", json!([])), "metadata"),
        ("tasks/send", with("context", json!("x")), "context"),
        ("tasks/send", with("context", json!({ "x": "x".repeat(70_000) })), "context"),
        ("tasks/send", with("historyLength", json!(-1)), "historyLength"),
        ("tasks/send", with("pushNotification", json!({})), "pushNotification.url"),
        ("tasks/send", context(json!({ "repositoryUrl": 1 })), "context.repositoryUrl"),
        (
            "tasks/send",
            context(json!({ "repositoryUrl": "https://h/x", "branch": "-x" })),
            "context.branch",
        ),
        (
            "tasks/send",
            context(json!({ "repositoryUrl": "https://h/x", "branch": "a", "commit": "b" })),
            "context.commit",
        ),
        (
            "tasks/send",
            context(json!({ "repositoryUrl": "https://h/x", "shallow": "yes" })),
            "context.shallow",
        ),
        (
            "tasks/send",
            context(json!({ "repositoryUrl": "https://h/x", "targetDirectory": 1 })),
            "context.targetDirectory",
        ),
        ("tasks/get", json!({}), "id"),
        ("tasks/cancel", json!({ "id": null }), "id"),
        ("tasks/resubscribe", Value::Null, "id"),
        ("tasks/pushNotification/set", json!({ "id": "t" }), "pushNotificationConfig"),
    ];
    let hostile = [
        "ext::sh -c touch% PWNED",
        "--upload-pack=touch PWNED",
        "-oProxyCommand=touch",
        "ssh://-oProxyCommand=x/y",
        "ssh://a:b@h/x",
        "ssh://-x@h/y",
        "/etc",
        "https://u:p@h/x",
        "https://token@h/x",
        "https://h/x\nfoo",
        "HTTPS::x",
        "https://",
        "https:///x",
        "https://h",
        "https://h/",
        "javascript://h/x",
        "",
        &long,
    ];
    cases.extend(hostile.into_iter().map(|bad| ("tasks/send", url(bad), "context.repositoryUrl")));
    for (method, params, field) in cases {
        let error = ask(method, params.clone()).unwrap_err();
        let WireError::Invalid(violation) = &error else { panic!("{error:?}") };
        assert_eq!(violation.field, field, "{method} {params:.200}");
        let shown = View::LEGACY.refuse(&error);
        assert_eq!(shown.code, -32602);
        assert!(shown.message.starts_with(&format!("Invalid params: '{field}' ")), "{shown:?}");
    }
}

/// The guide's sentences.
#[test]
fn error_messages_are_the_guides() {
    let shown = |error: &WireError| {
        let shown = View::LEGACY.refuse(error);
        (shown.code, shown.message)
    };
    let missing = ask("tasks/get", json!({})).unwrap_err();
    assert_eq!(shown(&missing), (-32602, "Invalid params: 'id' is required.".into()));
    assert_eq!(shown(&WireError::MethodNotFound).0, -32601);
    assert_eq!(
        shown(&loggia_wire::Condition::TaskNotFound.into()),
        (-32001, "Task not found".into())
    );
    assert_eq!(shown(&loggia_wire::Condition::Internal.into()), (-32603, "Internal error".into()));
}

#[test]
fn a_task_id_belongs_to_its_client() {
    let task = name::task("ann", "1");
    assert_eq!(task, name::task("ann", "1"));
    for (owner, sent_id) in [("bob", "1"), ("ann", "2"), ("ann1", ""), ("", "ann1"), ("an", "n1")] {
        assert_ne!(task, name::task(owner, sent_id), "{owner} {sent_id}");
    }
    assert_ne!(task.as_str(), name::session("ann", "1").as_str());
    // This value is in every log and must never change.
    let known = name::task("client:reports", "report-7");
    assert_eq!(known, TaskId::from("aef6ac3b-e438-8e2b-82a9-c4e6c719a143"));
}

#[test]
fn repeated_and_different_requests() {
    let content = |params: Value| prompt("tasks/send", params).content;
    let field = |before: &Value, now: &Value| {
        request::difference(&content(before.clone()), &content(now.clone())).map(|it| it.field)
    };
    let first = example();
    let change = |name: &str, value: Value| {
        let mut params = first.clone();
        params[name] = value;
        params
    };
    assert_eq!(field(&first, &first), None);
    let mut again = first.clone();
    again["message"]["messageId"] = json!("m2");
    again["historyLength"] = json!(3);
    again["pushNotification"] = json!({ "url": "https://h/hook", "token": "secret" });
    again["metadata"] = Value::Null;
    assert_eq!(field(&first, &again), None);
    let other = json!({ "role": "user", "parts": [{ "text": "something else" }] });
    for (name, value) in [
        ("message", other),
        ("context", json!({})),
        ("metadata", json!({ "a": 1 })),
        ("sessionId", json!("s")),
    ] {
        assert_eq!(field(&first, &change(name, value)).as_deref(), Some(name));
    }
    let elsewhere = request::difference(&Content::text("hi"), &content(first)).unwrap();
    assert_eq!(elsewhere.field, "id");
}

/// The text is gone, and the same request is still recognized.
#[test]
fn a_rewritten_request_is_recognized_without_its_text() {
    let sent = || prompt("tasks/send", saying("the secret is hush")).content;
    let mut kept = sent();
    request::rewrite(&mut kept, "the secret is kept");
    let shown = request::of_content(&kept).unwrap();
    assert_eq!(
        shown["message"],
        json!({ "role": "user", "parts": [{ "text": "the secret is kept" }] })
    );
    assert!(!format!("{:?}", kept.metadata).contains("hush"));
    assert_eq!(request::difference(&kept, &sent()), None);
    let other = prompt("tasks/send", saying("the secret is kept")).content;
    assert_eq!(request::difference(&kept, &other).unwrap().field, "message");
    let mut plain = Content::text("hi");
    request::rewrite(&mut plain, "ho");
    assert_eq!(plain, Content::text("hi"));
}

/// python-a2a's text stream, made of the same events.
#[test]
fn the_text_stream_of_a_task() {
    let chunk = legacy::words::chunk;
    let artifact = |name: &str, text: &str| json!({ "id": "t", "artifact": { "name": name, "parts": [{ "type": "text", "text": text }] } });
    assert_eq!(
        chunk(&artifact("response", "hi")),
        Some(json!({ "content": "hi", "append": true }))
    );
    assert_eq!(chunk(&artifact("response", "")), None);
    assert_eq!(chunk(&artifact("a.txt", "--- a")), None);
    let status = |state: &str, ends: bool| {
        let message = json!({ "parts": [{ "text": "why" }] });
        json!({ "id": "t", "state": state, "message": message, "final": ends })
    };
    assert_eq!(chunk(&status("working", false)), None);
    let last = |content: &str| json!({ "content": content, "append": true, "lastChunk": true });
    assert_eq!(chunk(&status("completed", true)), Some(last("")));
    assert_eq!(chunk(&status("failed", true)), Some(last("why")));
}

/// The decoder accepts ids of the length that the card allows.
#[test]
fn ids_are_as_long_as_the_card_says() {
    let longest =
        legacy::schema::methods()[0]["inputSchema"]["properties"]["id"]["maxLength"].clone();
    let named = |count: usize| ask("tasks/send", with("id", json!("é".repeat(count))));
    let longest = usize::try_from(longest.as_u64().unwrap()).unwrap();
    assert!(named(longest).is_ok());
    let error = named(longest + 1).unwrap_err();
    let shown = View::LEGACY.refuse(&error).message;
    assert_eq!(shown, "Invalid params: 'id' must have 1 to 256 characters.");
}

/// A client cannot send a message of the agent.
#[test]
fn a_client_has_the_role_of_the_user() {
    let mut params = saying("x");
    params["message"]["role"] = json!("agent");
    let error = ask("tasks/send", params).unwrap_err();
    let shown = View::LEGACY.refuse(&error).message;
    assert_eq!(shown, "Invalid params: 'message.role' must be user in a message of a client.");
}

/// A request is the same in every spelling, and different if its meaning differs.
#[test]
fn a_repeated_request_may_have_another_spelling() {
    let first = json!({ "id": "t", "message": { "role": "user", "parts": [{ "text": "x" }] },
                        "metadata": { "n": 1 }, "context": { "repositoryUrl": "https://h/r",
                                                             "branch": "b" } });
    let sent = |change: &dyn Fn(&mut Value)| {
        let mut params = first.clone();
        change(&mut params);
        prompt("tasks/send", params).content
    };
    let before = sent(&|_| {});
    let same: [&dyn Fn(&mut Value); 9] = [
        &|params| params["message"]["parts"][0]["type"] = json!("text"),
        &|params| params["message"]["parts"][0]["kind"] = json!("text"),
        &|params| params["message"] = json!({ "parts": [{ "text": "x" }] }),
        &|params| params["message"] = json!({ "content": { "type": "text", "text": "x" } }),
        &|params| params["message"]["messageId"] = json!("other"),
        &|params| params["message"]["metadata"] = Value::Null,
        &|params| params["metadata"] = serde_json::from_str(r#"{ "n": 1.0 }"#).unwrap(),
        &|params| params["metadata"] = serde_json::from_str(r#"{ "n": 1e0 }"#).unwrap(),
        &|params| {
            params["context"] =
                json!({ "repositoryUrl": "https://h/r", "revision": "b", "shallow": false });
        },
    ];
    for (number, change) in same.iter().enumerate() {
        assert_eq!(request::difference(&before, &sent(change)), None, "{number}");
    }
    type Change<'a> = &'a dyn Fn(&mut Value);
    let other: [(Change<'_>, &str); 5] = [
        (&|params| params["message"]["parts"][0]["text"] = json!("y"), "message"),
        (&|params| params["message"]["parts"] = json!([{ "data": "x" }]), "message"),
        (&|params| params["message"]["metadata"] = json!({ "a": 1 }), "message"),
        (&|params| params["metadata"]["n"] = json!(2), "metadata"),
        (&|params| params["context"]["shallow"] = json!(true), "context"),
    ];
    for (change, field) in other {
        assert_eq!(request::difference(&before, &sent(change)).unwrap().field, field);
    }
}

/// Of a rejected request only the ids are kept; a repeated request is still recognized.
#[test]
fn a_rejected_request_is_recognized() {
    let content = |text: &str| prompt("tasks/send", saying(text)).content;
    let kept = request::withheld(content("a secret"));
    assert_eq!(request::sent_task_id(&kept), Some("t"));
    assert!(!format!("{kept:?}").contains("a secret"), "{kept:?}");
    assert_eq!(request::difference(&kept, &content("a secret")), None);
    assert_eq!(request::difference(&kept, &content("another")).unwrap().field, "message");
}

#[test]
fn a_callbacks_secrets_are_kept_nowhere() {
    let push = json!({ "url": "https://h/hook", "token": "hush", "authentication": {
        "schemes": ["Bearer"], "credentials": "hush",
    } });
    let prompt = prompt("tasks/send", with("pushNotification", push));
    assert_eq!(prompt.push.unwrap().token.as_deref(), Some("hush"));
    assert!(!format!("{:?}", prompt.content).contains("hush"));
}

/// A session with one task of the service, after `more`.
fn shown(params: Value, more: impl FnOnce(&mut Script)) -> Value {
    let mut script = Script::new();
    let prompt = prompt("tasks/send", params);
    script.prompt_as(OWNER, prompt.task, prompt.content);
    more(&mut script);
    let mut projector = Projector::new("session-1".into(), VIEW);
    script.log.iter().for_each(|envelope| projector.fold(envelope));
    let task = projector.tasks().iter().next().unwrap().id.clone();
    let shown = TaskDetail { history: HistoryLength::Last(0), artifacts: true };
    projector.snapshot(&task, shown).unwrap()
}

/// The answers have every member of the guide, in its form.
#[test]
fn the_guides_answers() {
    let task = shown(example(), |_| {});
    assert_eq!(task["id"], "unique-task-id-001");
    assert_eq!(task["state"], "working");
    assert_eq!(task["message"]["role"], "agent");
    let said = task["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("Task submitted."), "{said}");
    let task = shown(example(), |script| {
        script.say("def list_files(directory):\n    pass\n").finish();
    });
    assert_eq!(task["state"], "completed");
    assert_eq!(task["input"], example());
    assert_eq!(task["context"], example()["context"]);
    assert_eq!(task["message"]["parts"][0]["text"], "The task is complete.");
    let artifact = &task["artifacts"][0];
    assert_eq!(
        (&artifact["name"], &artifact["mimeType"]),
        (&json!("response"), &json!("text/plain"))
    );
    assert_eq!(artifact["parts"][0]["text"], "def list_files(directory):\n    pass\n");
    for name in ["createdAt", "updatedAt"] {
        assert!(loggia_wire::time::parse(task[name].as_str().unwrap()).is_some());
    }
    assert_eq!(task["status"]["state"], task["state"], "0.1 reads it there");
    assert_eq!(task["status"]["message"], task["message"]);
    assert_eq!(task["sessionId"], "session-1");
}

#[test]
fn artifacts_are_listed_in_the_order_of_their_index() {
    let task = shown(saying("hi"), |script| {
        script.say("First words.");
        let call = script.write("a.txt", "a\n");
        script.answer("ann", &call, loggia_core::ChoiceId::PROCEED_ONCE, None).unwrap();
        script.succeed(&call, super::script::written("a.txt", "a\n"));
        let artifact = loggia_core::Artifact {
            id: "r".into(),
            name: "report.md".into(),
            parts: vec![Part::Text { text: "all good".into() }],
            append: false,
            last: true,
        };
        script.report(loggia_core::Report::Publish { artifact }).unwrap();
        script.finish();
    });
    let artifacts = task["artifacts"].as_array().unwrap();
    let listed: Vec<(&Value, &Value)> =
        artifacts.iter().map(|artifact| (&artifact["index"], &artifact["name"])).collect();
    let (names, at) =
        (["response", "a.txt", "report.md"].map(Value::from), [0, 1, 2].map(Value::from));
    assert_eq!(listed, at.iter().zip(&names).collect::<Vec<_>>(), "{task}");
}

/// Some clients take a result without artifacts for no result, and send the task again.
#[test]
fn a_task_that_is_over_always_has_an_artifact() {
    let failed = |script: &mut Script| {
        script.finish_as(TurnOutcome::failed("the model is gone"));
    };
    let task = shown(saying("hi"), failed);
    assert_eq!(task["artifacts"][0]["name"], "status");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "the model is gone");
    assert_eq!(shown(saying("hi"), |_| {})["artifacts"], json!([]), "not before it is over");
}

#[test]
fn the_clients_own_session_name_comes_back() {
    assert_eq!(shown(with("sessionId", json!("mine")), |_| {})["sessionId"], "mine");
}

/// Forged metadata does not give a task of another client an id.
#[test]
fn a_forged_request_is_ignored() {
    let mut script = Script::new();
    let content = prompt("tasks/send", example()).content;
    script.prompt_as("mallory", TaskChoice::Named("task-1".into()), content);
    let mut projector = Projector::new("session-1".into(), VIEW);
    script.log.iter().for_each(|envelope| projector.fold(envelope));
    let task = projector.snapshot(&"task-1".into(), TaskDetail::default()).unwrap();
    assert_eq!((&task["id"], task.get("input")), (&json!("task-1"), None));
}

/// The card's schemas fit the decoder and the frames.
#[test]
fn schemas_fit_the_decoder_and_the_frames() {
    let methods = legacy::schema::methods();
    let definitions = legacy::schema::definitions();
    for method in methods.as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        for required in method["inputSchema"]["required"].as_array().unwrap() {
            let mut params = example();
            params.as_object_mut().unwrap().remove(required.as_str().unwrap());
            assert!(ask(name, params).is_err(), "{name} without {required}");
        }
        assert!(ask(name, example()).is_ok(), "{name}");
        let output = method["outputSchema"]["$ref"].as_str().unwrap();
        let output = output.strip_prefix("#/definitions/").unwrap();
        assert!(definitions[output].is_object(), "{output}");
    }
    let task = shown(with("metadata", json!({ "a": 1 })), |script| {
        script.say("x").finish();
    });
    let known = definitions["Task"]["properties"].as_object().unwrap();
    for name in task.as_object().unwrap().keys() {
        assert!(known.contains_key(name), "{name}");
    }
    for required in definitions["Task"]["required"].as_array().unwrap() {
        assert!(task.get(required.as_str().unwrap()).is_some(), "{required}");
    }
    let known = definitions["Artifact"]["properties"].as_object().unwrap();
    for name in task["artifacts"][0].as_object().unwrap().keys() {
        assert!(known.contains_key(name), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any request gets an intent, or an error that reveals nothing.
    #[test]
    fn the_decoder_takes_anything(params in anything()) {
        for method in ["tasks/send", "tasks/get", "tasks/cancel", "tasks/pushNotification/set"] {
            if let Err(error) = ask(method, params.clone()) {
                let shown = View::LEGACY.refuse(&error);
                prop_assert_eq!(shown.code, -32602);
                prop_assert!(!shown.message.contains("::"), "{}", shown.message);
            }
        }
    }
}
