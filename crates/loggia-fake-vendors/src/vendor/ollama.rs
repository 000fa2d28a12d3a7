//! Ollama's own API. The base URL has no path.

mod check;

use serde_json::{Value, json};

use super::{HttpCall, Response, Route, Vendor, tokens};
use crate::script::{Answer, Asked, Say, StopKind};

const MODEL: &str = "qwen3.8:27b";
const TIME: &str = "2026-11-18T12:00:00.123456789Z";
/// The window of a request that names none.
const DEFAULT_WINDOW: u64 = 4096;
/// Characters of one line.
const DELTA: usize = 5;

pub struct Ollama;

impl Vendor for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn route(&self, call: &HttpCall) -> Route {
        Route::Now(match (call.method.as_str(), call.path.as_str()) {
            ("POST", "/api/chat") => match check::request(&call.body) {
                Ok(asked) => return Route::Reply(asked),
                Err((status, why)) => refusal(status, &why),
            },
            ("GET", "/api/tags") => Response::new(200, json!({ "models": [described()] })),
            ("GET", "/api/version") => Response::new(200, json!({ "version": "0.40.12" })),
            ("POST", "/api/show") => match call.body["model"].as_str() {
                Some(MODEL) => Response::new(200, shown()),
                other => refusal(404, &format!("model '{}' not found", other.unwrap_or_default())),
            },
            _ => Response::new(404, Value::String("404 page not found".to_owned())),
        })
    }

    fn events(&self, asked: &Asked, answer: &Answer) -> Vec<String> {
        let mut lines = Vec::new();
        for say in &answer.says {
            match say {
                Say::Thought(text) => {
                    lines.extend(
                        pieces(text).map(|text| json!({ "content": "", "thinking": text })),
                    );
                }
                Say::Redacted => {}
                Say::Text(text) => {
                    lines.extend(pieces(text).map(|text| json!({ "content": text })))
                }
                Say::Call { tool, arguments } => match call(tool, arguments, lines.len()) {
                    Ok(call) => lines.push(json!({ "content": "", "tool_calls": [call] })),
                    Err(why) => {
                        return lines
                            .into_iter()
                            .map(|line| text_of(asked, line))
                            .chain([why])
                            .collect();
                    }
                },
            }
        }
        let lines = lines.into_iter().map(|message| text_of(asked, message));
        lines.chain([format!("{}\n", last(asked, answer, json!({ "content": "" })))]).collect()
    }

    fn whole(&self, asked: &Asked, answer: &Answer) -> Value {
        let (mut content, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
        for say in &answer.says {
            match say {
                Say::Thought(text) => thinking.push_str(text),
                Say::Redacted => {}
                Say::Text(text) => content.push_str(text),
                Say::Call { tool, arguments } => calls.extend(call(tool, arguments, calls.len())),
            }
        }
        let mut message = json!({ "content": content });
        if !thinking.is_empty() {
            message["thinking"] = thinking.into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        last(asked, answer, message)
    }

    fn error(&self, name: &str, retry_after_ms: Option<u64>) -> Response {
        let (status, why) = named(name);
        let mut response = refusal(status, why);
        let after = retry_after_ms.map(|millis| millis.div_ceil(1000).to_string());
        response.headers.extend(after.map(|after| ("retry-after", after)));
        response
    }

    fn error_event(&self, name: &str) -> String {
        error_line(named(name).1)
    }

    /// It sends none, but proxies do.
    fn keep_alive(&self) -> String {
        "\n".to_owned()
    }

    fn media_type(&self) -> &'static str {
        "application/x-ndjson"
    }
}

fn refusal(status: u16, why: &str) -> Response {
    Response::new(status, json!({ "error": why }))
}

fn named(name: &str) -> (u16, &'static str) {
    match name {
        "bad_key" => (401, "unauthorized"),
        "unknown_model" => (404, "model 'nope' not found"),
        "rate_limit" => (429, "too many requests"),
        "quota" => (402, "you have reached your usage limit, upgrade for higher limits"),
        "overloaded" => (503, "server busy, please try again. maximum pending requests exceeded"),
        "too_long" => (400, TOO_LONG),
        "tools" => (400, "registry.ollama.ai/library/nope does not support tools"),
        _ => (500, "an error was encountered while running the model: CUDA error"),
    }
}

pub const TOO_LONG: &str =
    "the prompt is longer than the context length currently available to the model";

fn error_line(why: &str) -> String {
    format!("{}\n", json!({ "error": why }))
}

/// A call whose arguments cannot be parsed ends the reply.
fn call(tool: &str, arguments: &str, at: usize) -> Result<Value, String> {
    let arguments = if arguments.is_empty() { "{}" } else { arguments };
    match serde_json::from_str::<Value>(arguments) {
        Ok(arguments @ Value::Object(_)) => Ok(json!({
            "function": { "index": at, "name": tool, "arguments": arguments },
        })),
        Ok(_) => Err(error_line(&format!("error parsing tool call: raw='{arguments}'"))),
        Err(error) => {
            Err(error_line(&format!("error parsing tool call: raw='{arguments}', err={error}")))
        }
    }
}

fn line(asked: &Asked, mut message: Value, done: bool) -> Value {
    message["role"] = "assistant".into();
    json!({ "model": asked.model, "created_at": TIME, "message": message, "done": done })
}

fn text_of(asked: &Asked, message: Value) -> String {
    format!("{}\n", line(asked, message, false))
}

fn last(asked: &Asked, answer: &Answer, message: Value) -> Value {
    let said = answer.says.iter().map(|say| match say {
        Say::Thought(text) | Say::Text(text) => tokens(text),
        Say::Call { tool, arguments } => tokens(tool) + tokens(arguments),
        Say::Redacted => 0,
    });
    let input = tokens(&asked.body["messages"].to_string());
    let [input, _, output] = answer.usage.unwrap_or([input, 0, said.sum()]);
    let mut last = line(asked, message, true);
    last["done_reason"] = match answer.stop {
        StopKind::Length | StopKind::WindowFull => "length".into(),
        StopKind::Natural | StopKind::Refusal | StopKind::Paused => "stop".into(),
    };
    for name in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"] {
        last[name] = 1_000_000.into();
    }
    last["prompt_eval_count"] = input.into();
    last["eval_count"] = output.into();
    last
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let symbols: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = symbols.chunks(DELTA).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

fn described() -> Value {
    json!({
        "name": MODEL, "model": MODEL, "modified_at": TIME, "size": 17_000_000_000_u64,
        "digest": "0123456789abcdef",
        "details": {
            "parent_model": "", "format": "gguf", "family": "qwen3", "families": ["qwen3"],
            "parameter_size": "27B", "quantization_level": "Q4_K_M",
        },
    })
}

fn shown() -> Value {
    json!({
        "modelfile": format!("FROM {MODEL}"),
        "parameters": "stop                           \"<|im_end|>\"\ntemperature                    0.6",
        "template": "{{ .Prompt }}",
        "details": described()["details"],
        "model_info": { "general.architecture": "qwen3", "qwen3.context_length": 262_144 },
        "capabilities": ["completion", "tools", "thinking"],
        "thinking": { "values": [false, true], "default": true },
        "modified_at": TIME,
    })
}
