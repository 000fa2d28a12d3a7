//! The body of a request. The messages stand at its end, and each is written without regard to those
//! behind it: a longer conversation begins with the bytes of the shorter one.

use loggia_core::{Effort, ModelName, ToolDescription};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::chat::{nearest, summary_text};
use crate::fields::{Fields, raw};
use crate::fragments::{Fragments, as_object};
use crate::protocol::{ModelContext, ModelFacts};
use crate::request::{Message, ModelRequest, Purpose, Reply, transcript};

pub fn body(model: &ModelContext<'_>, request: &ModelRequest) -> String {
    let facts = model.facts;
    let mut body = Fields::default();
    body.set("model", &facts.id);
    body.set("stream", &true);
    // An error instead of a conversation without its beginning.
    body.set("truncate", &false);
    body.set("shift", &false);
    if let Some(think) = request.effort.and_then(|effort| think(facts, effort)) {
        body.set("think", &think);
    }
    let mut options = Fields::default();
    if let Some(window) = facts.window {
        options.set("num_ctx", &window);
    }
    if let Some(output) = facts.output {
        options.set("num_predict", &output);
    }
    body.set("options", &options);
    let messages = match request.purpose {
        Purpose::Turn => {
            if !request.tools.is_empty() {
                body.set("tools", &tools(&request.tools));
            }
            conversation(model.name, request)
        }
        Purpose::Summary => vec![summary_request(&request.messages)],
    };
    body.set("messages", &messages);
    body.to_text()
}

/// A model that does not think refuses to be asked, so nothing is asked of a model that is not known.
fn think(facts: &ModelFacts, effort: Effort) -> Option<Value> {
    let effort = match &facts.efforts {
        Some(efforts) => nearest(efforts.iter().copied(), effort)?,
        None => effort,
    };
    match (facts.thinking.as_deref(), effort) {
        (_, Effort::None) => Some(Value::Bool(false)),
        (Some("level"), effort) => Some(effort.name().into()),
        (Some(_), _) => Some(Value::Bool(true)),
        (None, _) => None,
    }
}

fn tools(tools: &[ToolDescription]) -> Vec<Value> {
    let described = tools.iter().map(|ToolDescription { name, description, parameters }| {
        let function =
            json!({ "name": name, "description": description, "parameters": parameters });
        json!({ "type": "function", "function": function })
    });
    described.collect()
}

fn conversation(model: &ModelName, request: &ModelRequest) -> Vec<Box<RawValue>> {
    let mut messages = Vec::new();
    if !request.instructions.is_empty() {
        messages.push(plain("system", &request.instructions));
    }
    for message in &request.messages {
        match message {
            Message::Summary(summary) => messages.push(plain("user", &summary_text(summary))),
            Message::User(user) => {
                let content = user.content.shown();
                // A message has one text, not parts.
                let texts = user.context.as_deref().into_iter().chain([content.as_str()]);
                messages.push(plain("user", &texts.collect::<Vec<_>>().join("\n\n")));
            }
            Message::Reply(reply) => match reply.items_of(model) {
                Some(items) => own_reply(reply, Fragments::of(items), &mut messages),
                None => portable_reply(reply, &mut messages),
            },
        }
    }
    messages
}

fn summary_request(messages: &[Message]) -> Box<RawValue> {
    let (asked, earlier) = match messages.split_last() {
        Some((Message::User(user), earlier)) => (user.content.shown(), earlier),
        _ => (String::new(), messages),
    };
    plain("user", &format!("{}\n\n{asked}", transcript(earlier).trim_end()))
}

fn plain(role: &str, content: &str) -> Box<RawValue> {
    let mut message = Fields::default();
    message.set("role", role);
    message.set("content", content);
    raw(&message)
}

/// The reply as the server knows it, and the results of its calls.
fn own_reply(reply: &Reply, fragments: Fragments, messages: &mut Vec<Box<RawValue>>) {
    let Fragments { fields, calls } = fragments;
    let mut message = Fields::default();
    message.set("role", "assistant");
    message.set("content", "");
    message.extend(fields);
    let results: Vec<_> = calls
        .iter()
        .map(|call| {
            let name = call.raw.read_at::<String>("function.name").unwrap_or_default();
            // Newer servers give calls an id.
            result(&name, call.raw.text("id"), call.result(reply))
        })
        .collect();
    if !calls.is_empty() {
        message.set("tool_calls", &calls.iter().map(|call| &call.raw).collect::<Vec<_>>());
    }
    messages.push(raw(&message));
    messages.extend(results);
}

/// The reply of another model: its text and its calls.
fn portable_reply(reply: &Reply, messages: &mut Vec<Box<RawValue>>) {
    let mut message = Fields::default();
    message.set("role", "assistant");
    message.set("content", &reply.text);
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|past| {
            let function = json!({ "name": past.tool, "arguments": as_object(&past.input) });
            json!({ "function": function })
        });
        message.set("tool_calls", &calls.collect::<Vec<_>>());
    }
    messages.push(raw(&message));
    let results = reply.calls.iter().map(|past| result(&past.tool, None, past.outcome.summary()));
    messages.extend(results);
}

fn result(tool: &str, id: Option<String>, text: &str) -> Box<RawValue> {
    let mut message = Fields::default();
    message.set("role", "tool");
    message.set("tool_name", tool);
    if let Some(id) = id {
        message.set("tool_call_id", &id);
    }
    message.set("content", text);
    raw(&message)
}
