//! The body of a request. The contents come last in it, so that the body of a longer conversation begins
//! with that of the shorter one.

use loggia_core::{CallOutcome, ReplyItem};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::fields::Fields;
use super::{schema, thinking};
use crate::protocol::ModelContext;
use crate::request::{Message, ModelRequest, PastCall, Purpose, Reply, UserMessage, transcript};

/// Gemini 3 and later refuse a call without a signature, except with this one.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// The most that one request may write. Gemini 4 takes a higher number for a reply that goes on over
/// several requests.
const OUTPUT_LIMIT: u64 = 65_536;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Contents<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Value>,
    contents: Vec<Contents<'a>>,
}

#[derive(Serialize)]
struct Contents<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    /// As the vendor sent it.
    Received(&'a RawValue),
    /// As the vendor sent it, with an id of ours.
    Completed(Box<RawValue>),
    Made(Value),
}

pub fn body(model: &ModelContext<'_>, request: &ModelRequest) -> String {
    let mut contents = Vec::new();
    let is_summary = request.purpose == Purpose::Summary;
    match request.messages.split_last() {
        Some((last, earlier)) if is_summary => contents.push(summary_request(earlier, last)),
        _ => {
            for (place, message) in request.messages.iter().enumerate() {
                push_message(&mut contents, model, place, message);
            }
        }
    }
    contents.retain(|content| !content.parts.is_empty());
    let instructions = request.instructions.as_ref();
    let body = Body {
        system_instruction: (!instructions.is_empty()).then(|| user([text(instructions)])),
        tools: (!request.tools.is_empty() && !is_summary).then(|| tools(request)),
        generation_config: generation_config(model, request),
        contents,
    };
    serde_json::to_string(&body).unwrap_or_default()
}

fn tools(request: &ModelRequest) -> Value {
    let declared = request.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": schema::inlined(&tool.parameters),
        })
    });
    json!([{ "functionDeclarations": declared.collect::<Value>() }])
}

fn generation_config(model: &ModelContext<'_>, request: &ModelRequest) -> Option<Value> {
    let mut config = serde_json::Map::new();
    if let Some(thinking) = thinking::config(model.facts, request.effort) {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    if let Some(output) = model.facts.output {
        config.insert("maxOutputTokens".to_owned(), output.min(OUTPUT_LIMIT).into());
    }
    (!config.is_empty()).then_some(Value::Object(config))
}

fn text(text: &str) -> Part<'static> {
    Part::Made(json!({ "text": text }))
}

fn user<'a>(parts: impl IntoIterator<Item = Part<'a>>) -> Contents<'a> {
    Contents { role: "user", parts: parts.into_iter().collect() }
}

fn user_parts(message: &UserMessage) -> impl Iterator<Item = Part<'static>> {
    let context = message.context.as_deref().map(text);
    context.into_iter().chain([text(&message.content.shown())])
}

fn summary_request<'a>(earlier: &[Message], last: &Message) -> Contents<'a> {
    let mut parts = vec![text(&transcript(earlier))];
    match last {
        Message::Summary(summary) => parts.push(text(summary)),
        Message::User(message) => parts.extend(user_parts(message)),
        Message::Reply(reply) => parts.push(text(&reply.text)),
    }
    user(parts)
}

fn push_message<'a>(
    contents: &mut Vec<Contents<'a>>,
    model: &ModelContext<'_>,
    place: usize,
    message: &'a Message,
) {
    match message {
        Message::Summary(summary) => contents.push(user([text(&format!(
            "This is a summary of the earlier conversation, which it replaces:\n\n{summary}"
        ))])),
        Message::User(message) => contents.push(user(user_parts(message))),
        Message::Reply(reply) => {
            let (parts, results) = match reply.items_of(model.name) {
                Some(items) => own_reply(reply, items, place),
                None => portable_reply(reply),
            };
            contents.push(Contents { role: "model", parts });
            contents.push(user(results));
        }
    }
}

/// The fields of a part that matter for its result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartView<'a> {
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

/// The parts of a reply as they were received, and the results of its calls.
fn own_reply<'a>(
    reply: &'a Reply,
    items: &'a [ReplyItem],
    place: usize,
) -> (Vec<Part<'a>>, Vec<Part<'a>>) {
    let (mut parts, mut results) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        // A damaged item would make the whole body invalid.
        let Ok(raw) = serde_json::from_str::<&RawValue>(&item.raw) else { continue };
        let view = serde_json::from_str::<PartView<'_>>(&item.raw).ok();
        let call = view.and_then(|view| view.function_call);
        let Some(call) = call.and_then(|call| serde_json::from_str::<Fields>(call.get()).ok())
        else {
            parts.push(Part::Received(raw));
            continue;
        };
        let name = string(&call, "name").unwrap_or_default();
        let own_id = string(&call, "id");
        let past = item.call.as_ref().and_then(|call| reply.past_call(call));
        let id = match (&own_id, &item.call) {
            (Some(id), _) => id.clone(),
            (None, Some(call)) => call.to_string(),
            (None, None) => format!("call-{place}-{index}"),
        };
        let is_complete = own_id.is_some() && has_object_or_nothing(&call);
        let part = if is_complete { None } else { completed(raw, call, &id) };
        parts.push(part.map_or(Part::Received(raw), Part::Completed));
        results.push(result(&id, &name, past));
    }
    (parts, results)
}

fn string(fields: &Fields, name: &str) -> Option<String> {
    serde_json::from_str(fields.get(name)?.get()).ok()
}

/// Whether the arguments are an object or absent. Gemini accepts nothing else.
fn has_object_or_nothing(call: &Fields) -> bool {
    call.get("args").is_none_or(|args| args.get().starts_with('{') || args.get() == "null")
}

/// The part of a call with this id, and with arguments that are an object.
fn completed(raw: &RawValue, mut call: Fields, id: &str) -> Option<Box<RawValue>> {
    if !has_object_or_nothing(&call) {
        let input = json!({ "input": call.get("args") });
        call.set("args", to_raw_value(&input).ok()?);
    }
    call.set("id", to_raw_value(id).ok()?);
    let mut part: Fields = serde_json::from_str(raw.get()).ok()?;
    part.set("functionCall", to_raw_value(&call).ok()?);
    to_raw_value(&part).ok()
}

/// A reply of another model: its text and its calls.
fn portable_reply<'a>(reply: &Reply) -> (Vec<Part<'a>>, Vec<Part<'a>>) {
    let mut parts = Vec::new();
    if !reply.text.trim().is_empty() {
        parts.push(text(&reply.text));
    }
    for past in &reply.calls {
        let args = match &past.input {
            Value::Object(_) => past.input.clone(),
            Value::Null => json!({}),
            other => json!({ "input": other }),
        };
        let call = json!({ "id": past.call.as_str(), "name": past.tool, "args": args });
        parts.push(Part::Made(json!({ "functionCall": call, "thoughtSignature": NO_SIGNATURE })));
    }
    let results = reply.calls.iter().map(|past| result(past.call.as_str(), &past.tool, Some(past)));
    (parts, results.collect())
}

fn result(id: &str, name: &str, past: Option<&PastCall>) -> Part<'static> {
    let response = match past.map(|past| &past.outcome) {
        Some(CallOutcome::Succeeded { output }) => json!({ "output": output.text }),
        Some(outcome) => json!({ "error": outcome.summary() }),
        None => json!({ "error": "The call was not run." }),
    };
    Part::Made(json!({ "functionResponse": { "id": id, "name": name, "response": response } }))
}
