//! Any HTTP+JSON request gets an intent or an error, and an error repeats next to nothing of it. The first
//! line of the input is `VERB TARGET`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_wire::rest::route;
use loggia_wire::{Dialect, Extension, WireError, decode_method, status};

/// Methods of both gRPC services; gRPC has parameters without a path.
const METHODS: [&str; 5] = [
    "SendMessage",
    "GetTask",
    "ListTasks",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
];

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = bytes.split_at(end);
    let line = String::from_utf8_lossy(line);
    let (verb, target) = line.split_once(' ').unwrap_or(("POST", &*line));
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    for version in [None, Some("1.0")] {
        let Ok(route) = route(verb, path, version) else { continue };
        let asked = route.params(query, body).and_then(|params| {
            decode_method(route.dialect, route.method, &params, Extension::Off)
        });
        if let Err(error) = asked {
            show(&error, route.dialect);
        }
    }
    let Ok(params) = serde_json::from_slice(body) else { return };
    for dialect in [Dialect::Proto03, Dialect::A2a1] {
        for method in METHODS {
            if let Err(error) = decode_method(dialect, method, &params, Extension::On) {
                show(&error, dialect);
            }
        }
    }
});

fn show(error: &WireError, dialect: Dialect) {
    let shown = status(error, dialect);
    assert!((400..600).contains(&shown.http));
    assert!(shown.body.to_string().len() < 1024);
}
