//! Any bytes get an intent or a JSON-RPC error, and an error repeats nothing of them but the id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_wire::jsonrpc::{self, Body, Rejected};
use loggia_wire::legacy::{self, DecodeOptions, TaskIds};
use loggia_wire::{
    Call, DecodedRequest, Delivery, Extension, Intent, View, WireError, decode, sdlc,
};

fuzz_target!(|bytes: &[u8]| {
    rest(bytes);
    match jsonrpc::parse(bytes, None) {
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
    let view = View::of_call(&call.method, None);
    for extension in [Extension::Off, Extension::On] {
        if let Err(error) = decode(&call, None, extension) {
            show(&call.id, &error, view);
        }
    }
    for ids in [TaskIds::OfClient("token:somebody"), TaskIds::OfServer] {
        let options = DecodeOptions { ids, send: Delivery::AtOnce };
        let bare = legacy::decode_bare(&call.params, options);
        for asked in [legacy::decode(&call, options), bare] {
            match asked {
                Ok(asked) => repeat(&asked),
                Err(error) => show(&call.id, &error, View::LEGACY),
            }
        }
    }
}

/// A request does not differ from itself, and its task id is kept.
fn repeat(asked: &DecodedRequest) {
    if let Intent::Prompt(prompt) = &asked.intent {
        assert!(legacy::request::sent_task_id(&prompt.content).is_some());
        assert_eq!(legacy::request::difference(&prompt.content, &prompt.content), None);
    }
}

fn reject(rejected: &Rejected) {
    show(&rejected.id, &rejected.error, rejected.view());
}

fn show(id: &loggia_wire::Id, error: &WireError, view: View) {
    let text = jsonrpc::error_response(id, &view.refuse(error));
    assert!(text.len() < 1024);
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
}
