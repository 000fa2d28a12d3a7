//! The Messages API.

mod binding;
mod check;
mod errors;
mod history;
mod models;
mod reply;

use serde_json::{Value, json};

use super::{HttpCall, Response, Route, Vendor, tokens};
use crate::script::{Answer, Asked, Spoken};
use history::{blocks, field, messages};

pub struct Anthropic;

impl Vendor for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn route(&self, call: &HttpCall) -> Route {
        if let Err(refusal) = check::headers(call) {
            return Route::Now(refusal);
        }
        match (call.method.as_str(), call.path.as_str()) {
            ("POST", "/v1/messages") => match check::body(call) {
                Ok(()) => Route::Reply(asked(&call.body)),
                Err(refusal) => Route::Now(refusal),
            },
            ("POST", "/v1/messages/count_tokens") => Route::Now(match check::counted_body(call) {
                Ok(()) => {
                    let count = tokens(&call.body.to_string());
                    Response::new(200, json!({ "input_tokens": count }))
                }
                Err(refusal) => refusal,
            }),
            ("GET", "/v1/models") => Route::Now(match check::page(call) {
                Ok(()) => Response::new(200, models::list()),
                Err(refusal) => refusal,
            }),
            ("GET", path) => {
                let model = path.strip_prefix("/v1/models/").and_then(models::described);
                Route::Now(model.map_or_else(
                    || errors::response(404, "not_found_error", "Not found"),
                    |model| Response::new(200, model),
                ))
            }
            _ => Route::Now(errors::response(404, "not_found_error", "Not found")),
        }
    }

    fn events(&self, asked: &Asked, answer: &Answer) -> Vec<String> {
        reply::events(asked, answer)
    }

    fn whole(&self, asked: &Asked, answer: &Answer) -> Value {
        reply::whole(asked, answer)
    }

    fn error(&self, name: &str, retry_after_ms: Option<u64>) -> Response {
        let mut response = errors::named(name);
        if let Some(wait) = retry_after_ms {
            response.headers.push(("retry-after-ms", wait.to_string()));
            response.headers.push(("retry-after", wait.div_ceil(1000).to_string()));
        }
        response
    }

    fn error_event(&self, name: &str) -> String {
        reply::event("error", &errors::named(name).body)
    }

    fn keep_alive(&self) -> String {
        reply::event("ping", &json!({ "type": "ping" }))
    }
}

fn asked(body: &Value) -> Asked {
    let tools = body["tools"].as_array().into_iter().flatten();
    let system = blocks(&body["system"]);
    let system: Vec<&str> = system.iter().map(|block| field(block, "text")).collect();
    Asked {
        vendor: "anthropic".to_owned(),
        model: field(body, "model").to_owned(),
        system: system.join("\n"),
        conversation: messages(body).iter().flat_map(spoken).collect(),
        tools: tools.map(|tool| field(tool, "name").to_owned()).collect(),
        stream: body["stream"].as_bool().unwrap_or(false),
        earlier_requests: 0,
        body: body.clone(),
    }
}

fn spoken(message: &Value) -> Vec<Spoken> {
    let content = blocks(&message["content"]);
    let of_kind = |kind: &'static str| content.iter().filter(move |block| block["type"] == kind);
    let text: Vec<&str> = of_kind("text").map(|block| field(block, "text")).collect();
    let text = text.join("\n");
    match field(message, "role") {
        "assistant" => vec![Spoken::Model { text, calls: of_kind("tool_use").count() }],
        "user" => {
            let results = of_kind("tool_result").map(|block| {
                let texts = blocks(&block["content"]);
                let texts: Vec<&str> = texts.iter().map(|block| field(block, "text")).collect();
                Spoken::Result {
                    call: field(block, "tool_use_id").to_owned(),
                    text: texts.join("\n"),
                }
            });
            let mut spoken: Vec<Spoken> = results.collect();
            if !text.is_empty() {
                spoken.push(Spoken::User(text));
            }
            spoken
        }
        _ => Vec::new(),
    }
}
