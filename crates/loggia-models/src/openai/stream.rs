//! Reads the stream of a reply. Items are taken whole from `response.output_item.done`; the deltas before it
//! are for people who watch.

use std::borrow::Cow;

use loggia_core::{Stop, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error;
use super::thoughts::Thoughts;
use crate::error::ModelError;
use crate::protocol::{Decoder, Piece};
use crate::request::Delta;

#[derive(Debug, Default)]
pub struct ResponseDecoder {
    thoughts: Thoughts,
    /// The text with which the model declined.
    refusal: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: String,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
struct Response {
    usage: Option<Tokens>,
    incomplete_details: Option<Incomplete>,
}

#[derive(Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    input_tokens_details: Option<Details>,
    #[serde(default)]
    output_tokens: u64,
    output_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl Decoder for ResponseDecoder {
    fn read(&mut self, piece: &Piece, deltas: &mut Vec<Delta>) -> Result<bool, ModelError> {
        // Some gateways end every stream with this, as Chat Completions does.
        if piece.data.trim() == "[DONE]" {
            return Ok(false);
        }
        let event: Event<'_> = parsed(&piece.data)?;
        let kind = match event.r#type.as_ref() {
            "" => piece.event.as_str(),
            kind => kind,
        };
        match kind {
            "response.output_text.delta" => {
                let text = text(event.delta)?;
                if !text.is_empty() {
                    deltas.push(Delta::Text(text));
                }
            }
            "response.refusal.delta" => self.refusal.push_str(&text(event.delta)?),
            "response.reasoning_summary_part.added" => {
                self.thoughts.end(deltas);
                self.thoughts.begin();
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thoughts.push(&text(event.delta)?, deltas);
            }
            "response.reasoning_summary_part.done" => self.thoughts.end(deltas),
            "response.output_item.done" => {
                self.thoughts.end(deltas);
                let raw = event.item.ok_or_else(|| error::malformed("an item is missing"))?;
                deltas.push(item(raw)?);
            }
            "response.completed" | "response.incomplete" => {
                self.thoughts.end(deltas);
                let response = event.response.map(|raw| parsed::<Response>(raw.get()));
                self.stop(kind, response.transpose()?.unwrap_or_default(), deltas);
            }
            "response.failed" => {
                return Err(error::of_event(event.response.map_or("", RawValue::get)));
            }
            "error" => return Err(error::of_event(&piece.data)),
            // An error of a gateway, which has no type.
            "" if piece.data.contains("\"error\"") => return Err(error::of_event(&piece.data)),
            // Everything else that belongs to the response shows that it continues; `keepalive` does not.
            other => return Ok(other.starts_with("response.")),
        }
        Ok(true)
    }
}

impl ResponseDecoder {
    fn stop(&mut self, kind: &str, response: Response, deltas: &mut Vec<Delta>) {
        if let Some(tokens) = response.usage {
            let input = tokens.input_tokens_details;
            let cached = input.as_ref().and_then(|details| details.cached_tokens);
            let written = input.as_ref().and_then(|details| details.cache_write_tokens);
            let thought = tokens.output_tokens_details.and_then(|details| details.reasoning_tokens);
            deltas.push(Delta::Usage(Usage {
                input_tokens: tokens.input_tokens,
                output_tokens: tokens.output_tokens,
                thought_tokens: thought.unwrap_or_default(),
                cached_tokens: cached.unwrap_or_default(),
                cache_write_tokens: written.unwrap_or_default(),
            }));
        }
        let reason = response.incomplete_details.map(|details| details.reason).unwrap_or_default();
        let refusal = std::mem::take(&mut self.refusal);
        let stop = match (kind, reason.as_str()) {
            _ if !refusal.is_empty() => Stop::Refused { why: refusal },
            ("response.completed", _) => Stop::Finished,
            (_, "max_output_tokens") => Stop::Length,
            (_, "content_filter") => {
                Stop::Refused { why: "the provider's content filter stopped the reply".to_owned() }
            }
            (_, reason) => {
                Stop::Refused { why: format!("the provider stopped the reply ({reason})") }
            }
        };
        deltas.push(Delta::Stop(stop));
    }
}

fn parsed<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(json).map_err(|error| error::malformed(&error.to_string()))
}

fn text(delta: Option<&RawValue>) -> Result<String, ModelError> {
    delta.map_or_else(|| Ok(String::new()), |raw| parsed(raw.get()))
}

fn item(raw: &RawValue) -> Result<Delta, ModelError> {
    let Item { r#type, name, arguments, status } = parsed(raw.get())?;
    let item = raw.get().into();
    if r#type != "function_call" {
        return Ok(Delta::Item(item));
    }
    // The arguments of a call that was cut may look complete.
    let input = if status == "incomplete" { Err(arguments) } else { input(arguments) };
    Ok(Delta::Call { tool: name, input, item: Some(item) })
}

/// No arguments at all mean no parameters.
fn input(arguments: String) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str::<Value>(&arguments) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) | Err(_) => Err(arguments),
    }
}
