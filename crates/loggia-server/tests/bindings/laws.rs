//! Laws of the conversion between JSON and protocol buffers.

use loggia_server::grpc::transcode::{decode, encode, method};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A value as data parts and metadata hold it, with numbers that a double holds exactly.
fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(Value::from),
        any::<i32>().prop_map(|number| json!(f64::from(number) + 0.5)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-z.:/]{1,6}", data(), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

proptest! {
    /// A request over gRPC equals the same request over JSON, including its numbers.
    #[test]
    fn requests_of_1_0_come_back(
        text in ".{0,20}",
        data in data(),
        metadata in object(),
        history in proptest::option::of(0..100_i32),
    ) {
        let mut request = json!({ "message": {
            "messageId": "m1", "role": "ROLE_USER", "metadata": metadata,
            "parts": [{ "text": text }, { "data": data }, { "raw": "aGk=", "filename": "a" }],
        }});
        if let Some(history) = history {
            request["configuration"] = json!({ "historyLength": history, "returnImmediately": true });
        }
        let input = method("lf.a2a.v1.A2AService", "SendMessage").unwrap().input();
        let bytes = encode(&input, request.to_string().as_bytes()).unwrap();
        prop_assert_eq!(decode(&input, &bytes).unwrap(), request);
    }

    #[test]
    fn requests_of_0_3_come_back(text in ".{0,20}", data in object(), metadata in object()) {
        let request = json!({ "message": {
            "messageId": "m1", "role": "ROLE_USER", "metadata": metadata,
            "content": [
                { "text": text },
                { "data": { "data": data } },
                { "file": { "fileWithBytes": "aGk=", "mimeType": "text/plain", "name": "a" } },
            ],
        }});
        let input = method("a2a.v1.A2AService", "SendMessage").unwrap().input();
        let bytes = encode(&input, request.to_string().as_bytes()).unwrap();
        prop_assert_eq!(decode(&input, &bytes).unwrap(), request);
    }

    /// Any bytes get an answer, never a panic.
    #[test]
    fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for of in ["lf.a2a.v1.A2AService", "a2a.v1.A2AService"] {
            let input = method(of, "SendMessage").unwrap().input();
            let _ = decode(&input, &bytes);
        }
    }

    /// A message that is cut short or changed in one place is read or refused.
    #[test]
    fn any_cut_and_flip_gets_an_answer(data in data(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let request = json!({ "message": { "messageId": "m1", "parts": [{ "data": data }] } });
        let input = method("lf.a2a.v1.A2AService", "SendMessage").unwrap().input();
        let whole = encode(&input, request.to_string().as_bytes()).unwrap().to_vec();
        let at = at.index(whole.len());
        let _ = decode(&input, whole.get(..at).unwrap());
        let mut flipped = whole;
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 1 << bit;
        }
        let _ = decode(&input, &flipped);
    }
}

/// Every frame of every log is a message of its protocol file, without unknown fields.
#[test]
fn frames_are_messages_of_the_protocol_file() {
    let logs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../loggia-core/tests/golden");
    let mut frames = 0;
    for path in golden(&logs) {
        let text = std::fs::read_to_string(&path).unwrap();
        let log: Vec<loggia_core::Envelope> = text
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for view in loggia_wire::View::all() {
            let of = match view.dialect {
                loggia_wire::Dialect::Proto03 => "a2a.v1.A2AService",
                loggia_wire::Dialect::A2a1 => "lf.a2a.v1.A2AService",
                // These have no protocol file.
                loggia_wire::Dialect::A2a03
                | loggia_wire::Dialect::Legacy
                | loggia_wire::Dialect::Sdlc
                | loggia_wire::Dialect::Coder => continue,
            };
            let output = method(of, "SendStreamingMessage").unwrap().output();
            let mut projector = loggia_wire::Projector::new("s".into(), view);
            for frame in log.iter().flat_map(|envelope| projector.project(envelope)) {
                frames += 1;
                let bytes = encode(&output, frame.body.to_string().as_bytes()).unwrap();
                let back = decode(&output, &bytes).unwrap();
                let (kind, event) = back.as_object().unwrap().iter().next().unwrap();
                let sent = &frame.body[kind];
                assert_eq!(event["status"]["state"], sent["status"]["state"]);
                assert_eq!(event["artifact"]["parts"], sent["artifact"]["parts"]);
                assert_eq!(event["metadata"], sent["metadata"]);
            }
        }
    }
    assert!(frames > 100, "{frames}");
}

fn golden(below: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect()
}
