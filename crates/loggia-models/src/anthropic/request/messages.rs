//! The conversation as messages. A message depends only on what it says, never on what follows.
//!
//! A reply goes back to its own model as the raw items that came from it, byte for byte. Two kinds of items
//! are left out, because the vendor refuses them although it sends them: blank text, and thoughts at the
//! end of a reply.

use std::borrow::Cow;

use loggia_core::{CallId, CallOutcome, ModelName};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::anthropic::stream::INVALID;
use crate::request::{Message, PastCall, Reply, UserMessage, transcript};

#[derive(Serialize)]
pub struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum Block<'a> {
    /// As the vendor sent it.
    Raw(&'a RawValue),
    Own(OwnBlock<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OwnBlock<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: String,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// The fields of a raw item that are read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    text: String,
}

impl<'a> Block<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Block::Own(OwnBlock::Text { text: text.into() })
    }

    /// An error must have a text.
    fn result(tool_use_id: String, past: Option<&'a PastCall>) -> Self {
        let (content, is_error) = match past.map(|past| &past.outcome) {
            None => ("This call was not run.", true),
            Some(outcome @ CallOutcome::Succeeded { .. }) => (outcome.summary(), false),
            Some(outcome) if outcome.summary().trim().is_empty() => ("The call failed.", true),
            Some(outcome) => (outcome.summary(), true),
        };
        Block::Own(OwnBlock::ToolResult { tool_use_id, content, is_error })
    }
}

pub fn turns<'a>(model: &ModelName, messages: &'a [Message]) -> Vec<Turn<'a>> {
    let mut turns = Vec::new();
    for message in messages {
        match message {
            Message::Summary(summary) => turns.push(user(vec![Block::text(format!(
                "This is a summary of the earlier conversation, which it replaces:\n\n{summary}"
            ))])),
            Message::User(message) => turns.push(user(said(message))),
            Message::Reply(reply) => {
                let (content, results) = own(model, reply).unwrap_or_else(|| portable(reply));
                if !content.is_empty() {
                    turns.push(Turn { role: "assistant", content });
                }
                if !results.is_empty() {
                    turns.push(user(results));
                }
            }
        }
    }
    turns
}

/// One message with the whole conversation and the request for a summary of it.
pub fn summary(messages: &[Message]) -> Vec<Turn<'_>> {
    let (last, earlier) = match messages.split_last() {
        Some((Message::User(last), earlier)) => (said(last), earlier),
        _ => (Vec::new(), messages),
    };
    let earlier = Some(transcript(earlier)).filter(|text| !text.trim().is_empty());
    vec![user(earlier.map(Block::text).into_iter().chain(last).collect())]
}

fn user(content: Vec<Block<'_>>) -> Turn<'_> {
    Turn { role: "user", content }
}

/// The vendor refuses blank text, and a message without any.
fn said(message: &UserMessage) -> Vec<Block<'_>> {
    let content = match message.content.shown() {
        shown if shown.trim().is_empty() => "(no text)".to_owned(),
        shown => shown,
    };
    let context = message.context.as_deref().filter(|text| !text.trim().is_empty());
    context.map(Block::text).into_iter().chain([Block::text(content)]).collect()
}

type Exchange<'a> = (Vec<Block<'a>>, Vec<Block<'a>>);

/// The reply and the results of its calls, if this model wrote it.
fn own<'a>(model: &ModelName, reply: &'a Reply) -> Option<Exchange<'a>> {
    let items = reply.items_of(model)?.iter().map(|item| {
        let raw: &RawValue = serde_json::from_str(&item.raw).ok()?;
        let head: Head = serde_json::from_str(&item.raw).ok()?;
        Some((head, raw, item.call.as_ref()))
    });
    let mut items: Vec<_> = items.collect::<Option<_>>()?;
    // Text of white space is refused only where a message has no other text.
    let has_text = items.iter().any(|(head, ..)| !head.text.trim().is_empty());
    items.retain(|(head, ..)| {
        head.kind != "text" || !head.text.trim().is_empty() || (has_text && !head.text.is_empty())
    });
    while items.pop_if(|(head, ..)| head.kind.ends_with("thinking")).is_some() {}
    let results = items.iter().filter(|(head, ..)| head.kind == "tool_use");
    let results = results.map(|(head, _, call)| {
        let past = call.and_then(|call| reply.past_call(call));
        Block::result(head.id.clone(), past)
    });
    let results = results.collect();
    Some((items.into_iter().map(|(_, raw, _)| Block::Raw(raw)).collect(), results))
}

/// What the reply says without what only its vendor can read.
fn portable(reply: &Reply) -> Exchange<'_> {
    let text = Some(reply.text.as_str()).filter(|text| !text.trim().is_empty());
    let calls = reply.calls.iter().map(|past| {
        Block::Own(OwnBlock::ToolUse {
            id: derived_id(&past.call),
            name: &past.tool,
            input: object(&past.input),
        })
    });
    let results = reply.calls.iter().map(|past| Block::result(derived_id(&past.call), Some(past)));
    (text.map(Block::text).into_iter().chain(calls).collect(), results.collect())
}

fn object(input: &Value) -> Cow<'_, Value> {
    match input {
        Value::Object(_) => Cow::Borrowed(input),
        Value::Null => Cow::Owned(json!({})),
        Value::String(text) => Cow::Owned(json!({ INVALID: text })),
        other => Cow::Owned(json!({ INVALID: other.to_string() })),
    }
}

/// The vendor allows letters, digits, `_` and `-`. Different calls get different ids.
fn derived_id(call: &CallId) -> String {
    let mut id = String::from("call_");
    for letter in call.as_str().chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => id.push(letter),
            other => id.push_str(&format!("_{:x}_", u32::from(other))),
        }
    }
    id
}
