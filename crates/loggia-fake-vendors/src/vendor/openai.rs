//! The Responses API. Encrypted reasoning is bound to everything that was sent before it, so a conversation
//! whose beginning changed is refused.
//!
//! Not here: stored responses, built-in tools, Chat Completions.

mod check;
mod error;
mod input;
mod reply;

use serde_json::{Value, json};

use super::{HttpCall, Response, Route, Vendor};
use crate::script::{Answer, Asked};

/// Models in the vendor's list. Any other name works too.
const MODELS: [&str; 4] = ["gpt-6.1-sol", "gpt-6-luna", "gpt-4.1", "text-embedding-3-small"];

pub struct OpenAi;

impl Vendor for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn route(&self, call: &HttpCall) -> Route {
        if let Err(refusal) = check::headers(call) {
            return Route::Now(refusal);
        }
        match (call.method.as_str(), call.path.as_str()) {
            ("POST", "/v1/responses") => {
                let body = &call.body;
                match check::body(body).and_then(|()| input::read(body)) {
                    Ok(asked) => Route::Reply(asked),
                    Err(refusal) => Route::Now(refusal),
                }
            }
            ("GET", "/v1/models") => {
                let data: Vec<Value> = MODELS.iter().map(|id| model(id)).collect();
                Route::Now(Response::new(200, json!({"object": "list", "data": data})))
            }
            (method, path) => {
                let message = format!("Invalid URL ({method} {path})");
                Route::Now(error::refusal(404, &message, None, None))
            }
        }
    }

    fn events(&self, asked: &Asked, answer: &Answer) -> Vec<String> {
        reply::events(asked, answer)
    }

    fn whole(&self, asked: &Asked, answer: &Answer) -> Value {
        reply::whole(asked, answer)
    }

    fn error(&self, name: &str, retry_after_ms: Option<u64>) -> Response {
        error::named(name, retry_after_ms)
    }

    fn error_event(&self, name: &str) -> String {
        error::event(name)
    }

    fn keep_alive(&self) -> String {
        "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n".to_owned()
    }
}

fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 1_763_000_000, "owned_by": "openai"})
}

/// Older models do not reason, and refuse to be asked for it.
fn reasons(model: &str) -> bool {
    !["gpt-4", "gpt-3.5", "chatgpt-4o"].iter().any(|prefix| model.starts_with(prefix))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
