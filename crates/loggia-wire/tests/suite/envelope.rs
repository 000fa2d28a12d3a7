//! Envelopes: the malformed corpus, exact ids, batches.

use loggia_wire::jsonrpc::{self, Body};
use loggia_wire::{Extension, Id, View, decode};
use proptest::prelude::*;

/// The answer to a body: the error's code, or none.
fn answer(body: &[u8]) -> (Id, Option<i32>, String) {
    let (id, view, error) = match jsonrpc::parse(body, None) {
        Ok(Body::One(call)) => {
            let view = View::of_call(&call.method, None);
            match decode(&call, None, Extension::Off) {
                Ok(_) => return (call.id, None, String::new()),
                Err(error) => (call.id, view, error),
            }
        }
        Ok(Body::Batch(_)) => return (Id::NULL, None, String::new()),
        Err(rejected) => (rejected.id.clone(), rejected.view(), rejected.error),
    };
    let error = view.refuse(&error);
    let text = jsonrpc::error_response(&id, &error);
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    assert_safe(&text);
    (id, Some(error.code), text)
}

/// No path, no name of a type, no place in a source file, and nothing that the client sent.
fn assert_safe(text: &str) {
    assert!(text.len() < 1024, "an error of {} bytes", text.len());
    for secret in ["::", ".rs", "struct", "enum ", "variant", "line ", "column", "serde", "/work"] {
        assert!(!text.contains(secret), "{secret:?} in {text}");
    }
}

fn request(members: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":7,{members}}}")
}

fn nested(depth: usize, open: &str, close: &str) -> String {
    let inner = format!("{}{}", open.repeat(depth), close.repeat(depth));
    let inner = if open.contains(':') { inner.replace(":}", ":0}") } else { inner };
    request(&format!("\"method\":\"tasks/get\",\"params\":{{\"id\":\"t\",\"x\":{inner}}}"))
}

#[test]
fn the_malformed_corpus() {
    let get = r#""method":"tasks/get","params":{"id":"t"}"#;
    let long = "x".repeat(1_000_000);
    let cases: Vec<(&str, Vec<u8>, i32)> = vec![
        ("an open brace", b"{".to_vec(), -32700),
        ("nothing", b"".to_vec(), -32700),
        ("white space", b"  \n".to_vec(), -32700),
        ("a cut request", request(get).as_bytes()[..20].to_vec(), -32700),
        ("something after it", format!("{} {{}}", request(get)).into(), -32700),
        ("invalid UTF-8", b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}".to_vec(), -32700),
        ("a byte-order mark", [b"\xef\xbb\xbf", request(get).as_bytes()].concat(), -32700),
        (
            "half a surrogate",
            request(r#""method":"tasks/get","params":{"id":"\ud800"}"#).into(),
            -32700,
        ),
        (
            "a control character",
            request("\"method\":\"tasks/get\",\"params\":{\"id\":\"\n\"}").into(),
            -32700,
        ),
        ("200 arrays", nested(200, "[", "]").into(), -32700),
        ("5,000 arrays", nested(5_000, "[", "]").into(), -32700),
        ("100,000 arrays", nested(100_000, "[", "]").into(), -32700),
        ("100,000 objects", nested(100_000, "{\"a\":", "}").into(), -32700),
        ("100,000 open arrays", vec![b'['; 100_000], -32700),
        ("100,000 values", format!("[{}1]", "1,".repeat(100_000)).into(), -32700),
        ("100,000 commas in a text", format!("\"{}\"", ",".repeat(100_000)).into(), -32600),
        ("a number", b"1".to_vec(), -32600),
        ("a string", b"\"hello\"".to_vec(), -32600),
        ("null", b"null".to_vec(), -32600),
        ("an empty object", b"{}".to_vec(), -32600),
        ("an empty batch", b"[]".to_vec(), -32600),
        (
            "an id that is an object",
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{{}},{get}}}").into(),
            -32600,
        ),
        (
            "an id that is an array",
            format!("{{\"jsonrpc\":\"2.0\",\"id\":[1],{get}}}").into(),
            -32600,
        ),
        ("an id that is true", format!("{{\"jsonrpc\":\"2.0\",\"id\":true,{get}}}").into(), -32600),
        (
            "an id of a megabyte",
            format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{long}\",{get}}}").into(),
            -32600,
        ),
        ("method twice", request(&format!("{get},\"method\":\"tasks/cancel\"")).into(), -32600),
        (
            "method twice, once escaped",
            request(&format!("{get},\"m\\u0065thod\":\"tasks/cancel\"")).into(),
            -32600,
        ),
        ("id twice", request(&format!("{get},\"id\":8")).into(), -32600),
        ("params twice", request(&format!("{get},\"params\":{{}}")).into(), -32600),
        ("jsonrpc twice", request(&format!("{get},\"jsonrpc\":\"2.0\"")).into(), -32600),
        ("another version", format!("{{\"jsonrpc\":\"1.0\",\"id\":7,{get}}}").into(), -32600),
        ("no version", format!("{{\"id\":7,{get}}}").into(), -32600),
        (
            "a version that is a number",
            format!("{{\"jsonrpc\":2.0,\"id\":7,{get}}}").into(),
            -32600,
        ),
        ("no method", request("\"params\":{}").into(), -32600),
        ("a method that is a number", request("\"method\":1").into(), -32600),
        ("a method of a megabyte", request(&format!("\"method\":\"{long}\"")).into(), -32600),
        ("an unknown method", request("\"method\":\"tasks/fly\"").into(), -32601),
        (
            "tasks/list, which 0.3 does not have",
            request("\"method\":\"tasks/list\"").into(),
            -32601,
        ),
        (
            "params that are an array",
            request("\"method\":\"tasks/get\",\"params\":[1]").into(),
            -32602,
        ),
        (
            "params that are a string",
            request("\"method\":\"tasks/get\",\"params\":\"t\"").into(),
            -32602,
        ),
        ("params that are missing", request("\"method\":\"tasks/get\"").into(), -32602),
        (
            "a task id of a megabyte",
            request(&format!("\"method\":\"tasks/get\",\"params\":{{\"id\":\"{long}\"}}")).into(),
            -32602,
        ),
    ];
    for (what, body, expected) in cases {
        let (_, code, text) = answer(&body);
        assert_eq!(code, Some(expected), "{what}: {text}");
    }
}

#[test]
fn limits_are_inclusive() {
    // The envelope and the parameters are two of the 64.
    assert_eq!(answer(nested(62, "[", "]").as_bytes()).1, None);
    assert_eq!(answer(nested(63, "[", "]").as_bytes()).1, Some(-32700));
    let brackets_in_text = request(&format!(
        "\"method\":\"tasks/get\",\"params\":{{\"id\":\"t\",\"x\":\"{}\\\"[\"}}",
        "[".repeat(200)
    ));
    assert_eq!(answer(brackets_in_text.as_bytes()).1, None);
    let number = r#""method":"tasks/get","params":{"id":"t","n":[18446744073709551615,-9223372036854775808,"99999999999999999999",1e300]}"#;
    assert_eq!(answer(request(number).as_bytes()).1, None);
}

#[test]
fn ids_are_echoed_exactly() {
    let ids = [
        "1",
        "-1",
        "1.50",
        "1e2",
        "123456789012345678901234567890",
        "\"a\"",
        "\"\\u0041\"",
        "null",
        "\"\"",
    ];
    for id in ids {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"nothing\"}}");
        let (echoed, code, text) = answer(body.as_bytes());
        assert_eq!((echoed.as_json(), code), (id, Some(-32601)));
        assert!(text.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")), "{text}");
    }
    let (echoed, _, _) = answer(b"{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}");
    assert_eq!(echoed, Id::NULL);
    let long = format!("\"{}\"", "x".repeat(254));
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{long},\"method\":\"nothing\"}}");
    assert_eq!(answer(body.as_bytes()).0.as_json(), long);
}

#[test]
fn numbers_come_back_as_they_were_sent() {
    let numbers = "[1e+5,0.1e+1,-0,1e+400,12345678901234567890123,1.10,42,1.0,0.1,-0.5,9007199254740993,18446744073709551615,2.2250738585072014e-308,123456789.12345679]";
    let body =
        request(&format!("\"method\":\"tasks/get\",\"params\":{{\"id\":\"t\",\"n\":{numbers}}}"));
    let Ok(Body::One(call)) = jsonrpc::parse(body.as_bytes(), None) else { panic!("one call") };
    assert_eq!(call.params["n"].to_string(), numbers);
    // Only the sign of an exponent is normalized.
    let spelled: serde_json::Value = serde_json::from_str("[1E5,0.1e1,1E+400,1e-07]").unwrap();
    assert_eq!(spelled.to_string(), "[1e+5,0.1e+1,1e+400,1e-07]");
}

#[test]
fn a_batch_is_answered_item_by_item() {
    let one = request(r#""method":"tasks/get","params":{"id":"t"}"#);
    let stream = request(r#""method":"message/stream","params":{}"#);
    let body = format!("[{one}, 1, {stream}]");
    let Ok(Body::Batch(items)) = jsonrpc::parse(body.as_bytes(), None) else { panic!("a batch") };
    let codes: Vec<Option<i32>> = items
        .iter()
        .map(|item| item.as_ref().err().map(|bad| bad.view().refuse(&bad.error).code))
        .collect();
    assert_eq!(codes, [None, Some(-32600), Some(-32600)]);
    for (count, fits) in [(100, true), (101, false), (10_000, false)] {
        let body = format!("[{}]", vec![one.as_str(); count].join(","));
        assert_eq!(jsonrpc::parse(body.as_bytes(), None).is_ok(), fits, "{count}");
    }
}

#[test]
fn a_result_is_spliced_in() {
    let Ok(Body::One(call)) = jsonrpc::parse(request("\"method\":\"x\"").as_bytes(), None) else {
        panic!("one call")
    };
    let text = jsonrpc::response(&call.id, r#"{"kind":"task"}"#);
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":7,"result":{"kind":"task"}}"#);
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        answer(&bytes);
    }

    #[test]
    fn any_cut_and_flip_of_a_request_gets_an_answer(cut in 0usize..200, at in 0usize..200, byte: u8) {
        let mut body = request(
            r#""method":"message/send","params":{"message":{"role":"user","messageId":"m","parts":[{"kind":"text","text":"hi"}]}}"#,
        )
        .into_bytes();
        body.truncate(cut.max(1));
        let at = at % body.len();
        body[at] = byte;
        answer(&body);
    }
}
