//! Any HTTP+JSON request gets an intent or an error, and an error repeats next to nothing of it. The first
//! line of the input is `VERB TARGET`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_wire::rest::route;
use loggia_wire::{Extension, View, WireError};

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
        let asked = route
            .params(query, body)
            .and_then(|params| route.view().decode(route.method, &params, Extension::Off));
        if let Err(error) = asked {
            show(&error, route.view());
        }
    }
    let Ok(params) = serde_json::from_slice(body) else { return };
    for view in [View::PROTO_03, View::A2A_1] {
        for method in METHODS {
            if let Err(error) = view.decode(method, &params, Extension::On) {
                show(&error, view);
            }
        }
    }
});

fn show(error: &WireError, view: View) {
    let shown = view.status(error);
    assert!((400..600).contains(&shown.http));
    assert!(shown.body.to_string().len() < 1024);
}
