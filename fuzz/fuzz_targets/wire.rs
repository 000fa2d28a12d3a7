//! Whatever bytes arrive, they get an intent or a JSON-RPC error, and an error gives nothing of
//! them back but the id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_wire::jsonrpc::{self, Body, Rejected};
use loggia_wire::{Call, Dialect, Extension, WireError, decode, dialect_of, refuse, sdlc};

fuzz_target!(|bytes: &[u8]| {
    rest(bytes);
    match jsonrpc::parse(bytes) {
        Ok(Body::One(call)) => answer(call),
        Ok(Body::Batch(items)) => {
            for item in items {
                match item {
                    Ok(call) => answer(call),
                    Err(rejected) => reject(&rejected),
                }
            }
        }
        Err(rejected) => reject(&rejected),
    }
});

/// The same bytes as the body of the SDLC agent server's routes.
fn rest(bytes: &[u8]) {
    let refused = [
        sdlc::decode::open_task(bytes).err(),
        sdlc::decode::message(bytes).err(),
        sdlc::decode::command(bytes).err(),
    ];
    for error in refused.iter().flatten() {
        let (status, body) = sdlc::error(error);
        assert!((400..500).contains(&status));
        assert!(body["error"].is_string() && body.to_string().len() < 1024);
    }
}

fn answer(call: Call) {
    let dialect = dialect_of(&call.method).unwrap_or(Dialect::A2a03);
    for extension in [Extension::Off, Extension::On] {
        if let Err(error) = decode(&call, extension) {
            show(&call.id, &error, dialect);
        }
    }
}

fn reject(rejected: &Rejected) {
    show(&rejected.id, &rejected.error, rejected.dialect);
}

fn show(id: &loggia_wire::Id, error: &WireError, dialect: Dialect) {
    let text = jsonrpc::error_response(id, &refuse(error, dialect));
    assert!(text.len() < 1024);
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
}
