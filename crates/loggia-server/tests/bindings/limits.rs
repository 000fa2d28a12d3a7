//! Limits of gRPC messages.

use loggia_server::grpc::transcode::{decode, encode, method};
use loggia_wire::View;
use serde_json::{Value, json};

fn sent(data: Value) -> Result<Value, String> {
    let request = json!({ "message": { "messageId": "m1", "parts": [{ "data": data }] } });
    let input = method("lf.a2a.v1.A2AService", "SendMessage").unwrap().input();
    let bytes = encode(&input, request.to_string().as_bytes()).unwrap();
    decode(&input, &bytes).map_err(|error| {
        assert_eq!(View::A2A_1.status(&error).rpc.name(), "INVALID_ARGUMENT");
        error.to_string()
    })
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// One field of bytes.
fn wrapped(key: u8, inner: Vec<u8>) -> Vec<u8> {
    let mut length = inner.len();
    let mut out = vec![key];
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend(inner);
    out
}

/// Values that JSON clients may nest and protocol buffer readers may not arrive as text.
#[test]
fn values_too_deep_for_readers_are_written_as_text() {
    let data = sent(deep(60)).unwrap()["message"]["parts"][0]["data"].clone();
    let mut inner = &data;
    let mut levels = 0;
    while let Some(below) = inner.get(0) {
        inner = below;
        levels += 1;
    }
    let text: Value = serde_json::from_str(inner.as_str().unwrap()).unwrap();
    assert_eq!(text, deep(60 - levels));
}

#[test]
fn depth_and_values_are_counted_before_anything_is_built() {
    assert!(sent(deep(40)).is_ok());
    // message { parts { data { list_value { values { list_value { …
    let mut nested = Vec::new();
    for _ in 0..60 {
        nested = wrapped(0x32, wrapped(0x0a, nested));
    }
    let message = wrapped(0x12, wrapped(0x2a, wrapped(0x22, nested)));
    let input = method("lf.a2a.v1.A2AService", "SendMessage").unwrap().input();
    assert!(decode(&input, &message).unwrap_err().to_string().contains("nested too deep"));
    let many = |values: usize| Value::from(vec![0; values]);
    assert!(sent(many(30_000)).is_ok());
    assert!(sent(many(70_000)).unwrap_err().contains("too many values"));
}

#[test]
fn doubles_that_are_whole_are_whole() {
    let data = json!({ "a": 2.0, "b": -0.0, "c": 1e15, "d": 0.5, "e": 1e300 });
    let back = sent(data).unwrap()["message"]["parts"][0]["data"].to_string();
    assert_eq!(back, r#"{"a":2,"b":0,"c":1000000000000000,"d":0.5,"e":1e+300}"#);
}

/// Every spelling of a JSON number becomes a number.
#[test]
fn numbers_of_every_spelling_are_doubles() {
    let numbers = "[1.0,1E5,0.1e1,-0,12345678901234567890,123456789012345678901234567890,1e400]";
    let data: Value = serde_json::from_str(numbers).unwrap();
    let back = sent(data).unwrap()["message"]["parts"][0]["data"].to_string();
    let wanted = r#"[1,100000,1,0,1.2345678901234567e+19,1.2345678901234568e+29,"1e+400"]"#;
    assert_eq!(back, wanted);
}

/// A number that JSON has no way to write.
#[test]
fn nan_is_refused() {
    let input = method("lf.a2a.v1.A2AService", "SendMessage").unwrap().input();
    // message { parts { data { number_value: NaN } } }
    let mut bytes = vec![0x12, 0x0f, 0x2a, 0x0d, 0x22, 0x0b, 0x11];
    bytes.extend(f64::NAN.to_le_bytes());
    bytes[1] = 13;
    bytes[3] = 11;
    bytes[5] = 9;
    assert!(decode(&input, &bytes).is_err());
}

#[test]
fn unknown_fields_are_not_written() {
    let output = method("a2a.v1.A2AService", "GetTask").unwrap().output();
    assert!(encode(&output, br#"{"id":"t1"}"#).is_ok());
    assert!(encode(&output, br#"{"id":"t1","kind":"task"}"#).is_err());
}
