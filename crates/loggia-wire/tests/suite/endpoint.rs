//! JSON-RPC URLs: which protocol a call is in, and which tasks it may mean.

use loggia_wire::{
    Call, CallContext, Endpoint, Extension, Id, Intent, KnownNames, StreamFormat, View, WireError,
    legacy,
};
use serde_json::{Value, json};

const OWNER: &str = "token:ann";
const LEGACY: [Endpoint; 4] =
    [Endpoint::LegacyPolled, Endpoint::LegacyWaiting, Endpoint::LegacyStream, Endpoint::LegacyText];

fn call(method: &str, params: Value) -> Call {
    Call { id: Id::NULL, method: method.into(), params }
}

fn context(version: Option<&str>) -> CallContext<'_> {
    CallContext { version, extension: Extension::Off, tenant: None, owner: OWNER }
}

fn known(by_client: bool, by_server: bool) -> KnownNames {
    KnownNames { by_client, by_server }
}

/// Three methods have the same name in A2A 0.3. The task decides which protocol is meant.
#[test]
fn a_shared_method_follows_its_task() {
    let get = call("tasks/get", json!({ "id": "t" }));
    let names = Endpoint::JsonRpc.task_names(&get, OWNER).unwrap();
    assert_eq!(names.by_client, legacy::name::task(OWNER, "t"));
    assert_eq!(names.by_server, "t".into());
    let table = [
        (known(true, false), View::LEGACY, names.by_client.clone()),
        (known(true, true), View::A2A_03, names.by_server.clone()),
        (known(false, true), View::A2A_03, names.by_server.clone()),
        (known(false, false), View::A2A_03, names.by_server.clone()),
    ];
    for (known, view, task) in table {
        let (found, asked) = Endpoint::JsonRpc.read(&get, context(None), known);
        assert_eq!(found, view, "{known:?}");
        assert_eq!(asked.unwrap().intent.task(), Some(&task), "{known:?}");
    }
    for endpoint in LEGACY {
        for by_server in [true, false] {
            let (view, asked) = endpoint.read(&get, context(None), known(true, by_server));
            assert_eq!(view, View::LEGACY);
            assert_eq!(asked.unwrap().intent.task(), Some(&names.by_client));
            let (_, asked) = endpoint.read(&get, context(None), known(false, by_server));
            assert_eq!(asked.unwrap().intent.task(), Some(&names.by_server));
        }
    }
}

#[test]
fn other_methods_need_no_lookup() {
    for method in ["SendMessage", "message/send", "tasks/send", "GetTask", "commands/get", "x"] {
        let call = call(method, json!({ "id": "t" }));
        assert_eq!(Endpoint::JsonRpc.task_names(&call, OWNER), None, "{method}");
    }
    // An invalid call is refused by `read`.
    assert_eq!(Endpoint::JsonRpc.task_names(&call("tasks/get", json!({})), OWNER), None);
}

#[test]
fn the_method_tells_the_protocol() {
    let table = [
        ("SendMessage", None, View::A2A_1),
        ("message/send", None, View::A2A_03),
        ("tasks/send", None, View::LEGACY),
        ("x", None, View::A2A_03),
        ("x", Some("0.3"), View::A2A_03),
        ("x", Some("1.0"), View::A2A_1),
        ("x", Some("2.0"), View::A2A_1),
    ];
    for (method, version, view) in table {
        let call = call(method, json!({}));
        let (found, asked) = Endpoint::JsonRpc.read(&call, context(version), KnownNames::default());
        assert_eq!(found, view, "{method} {version:?}");
        assert!(asked.is_err());
    }
    let get = call("GetTask", json!({ "id": "t" }));
    let (view, asked) = Endpoint::JsonRpc.read(&get, context(Some("0.3")), KnownNames::default());
    assert_eq!(view, View::A2A_1);
    assert!(matches!(asked, Err(WireError::OtherVersion { .. })));
}

#[test]
fn bodies_without_an_envelope() {
    let task = json!({ "id": "t", "message": { "role": "user", "parts": [{ "text": "hi" }] } });
    let message = task["message"].to_string();
    let read = |endpoint: Endpoint, body: &str| {
        endpoint.read_bare(body.as_bytes(), OWNER, || "new".to_owned())
    };
    let prompt = |asked: Option<Result<loggia_wire::DecodedRequest, WireError>>| {
        let Intent::Prompt(prompt) = asked.unwrap().unwrap().intent else { panic!() };
        legacy::request::sent_task_id(&prompt.content).unwrap().to_owned()
    };
    assert_eq!(prompt(read(Endpoint::LegacyStream, &task.to_string())), "t");
    assert_eq!(prompt(read(Endpoint::LegacyText, &message)), "new");
    let enveloped = json!({ "jsonrpc": "2.0", "id": 1, "method": "x" }).to_string();
    for endpoint in [Endpoint::JsonRpc, LEGACY[0], LEGACY[1], LEGACY[2], LEGACY[3]] {
        assert!(read(endpoint, &enveloped).is_none(), "{endpoint:?}");
        assert!(read(endpoint, "[]").is_none(), "{endpoint:?}");
        if endpoint.stream_format() == StreamFormat::JsonRpc {
            assert!(read(endpoint, &task.to_string()).is_none(), "{endpoint:?}");
        }
    }
}
