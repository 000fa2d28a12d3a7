//! A reply as fragments of one assistant message, for vendors that have messages and not lists of items.
//! Each item of such a reply is a call as the vendor sent it, or an object with fields of the message:
//! `{"content":"…"}`, `{"reasoning_content":"…"}`.
//!
//! Not here: a vendor's names, except those that all of them share.

use loggia_core::{CallId, CallOutcome, ReplyItem};
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::request::Reply;

/// The fragments of one reply, put together.
#[derive(Debug, Default)]
pub struct Fragments {
    /// Fields of the message other than the calls.
    pub fields: Fields,
    pub calls: Vec<FragmentCall>,
}

#[derive(Debug)]
pub struct FragmentCall {
    pub raw: Fields,
    /// None if Loggia did not take the call.
    pub call: Option<CallId>,
}

/// Answers a call that the vendor remembers and that has no result.
pub const NOT_RUN: &str = "error: this call was not run";

impl Fragments {
    pub fn of(items: &[ReplyItem]) -> Self {
        let mut fragments = Self::default();
        for item in items {
            let Some(raw) = Fields::parse(&item.raw) else { continue };
            match item.call.is_some() || raw.get("function").is_some() {
                true => fragments.calls.push(FragmentCall { raw, call: item.call.clone() }),
                false => fragments.fields.extend(raw),
            }
        }
        fragments
    }
}

impl FragmentCall {
    /// The result of the call, for the model.
    pub fn result<'a>(&self, reply: &'a Reply) -> &'a str {
        let past = self.call.as_ref().and_then(|call| reply.past_call(call));
        past.map_or(NOT_RUN, |past| CallOutcome::summary(&past.outcome))
    }
}

/// The arguments of a call; the text itself if it is not a JSON object.
pub fn parse_input(arguments: &str) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str::<Value>(arguments) {
        Ok(input @ Value::Object(_)) => Ok(input),
        _ => Err(arguments.to_owned()),
    }
}

/// An input that a vendor accepts as arguments. What was not an object stays readable.
pub fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => Value::Object(Map::new()),
        other => serde_json::json!({ "invalid_arguments": other }),
    }
}
