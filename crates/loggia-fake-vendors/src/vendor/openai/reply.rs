//! The items of a reply and the events that stream them, in the vendor's order of events and of fields.

use serde::Serialize;
use serde_json::{Value, json};

use super::super::{sign, tokens};
use super::input::{AFTER_REASONING, Signer, WITHOUT_REASONING, tag};
use super::{list, reasons, text};
use crate::script::{Answer, Asked, Say, StopKind};

const REFUSAL: &str = "I'm sorry, but I can't help with that.";
const CREATED_AT: u64 = 1_763_000_000;
/// Characters of one delta of arguments.
const DELTA: usize = 8;
/// Tokens of hidden reasoning.
const HIDDEN: u64 = 64;

/// A JSON object whose fields keep their order.
#[derive(Clone)]
struct Object(String);

impl Object {
    fn new() -> Self {
        Self("{".to_owned())
    }

    fn with(self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_string(&value).unwrap_or_default();
        self.raw(name, &value)
    }

    fn raw(mut self, name: &str, json: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&format!("\"{name}\":{json}"));
        self
    }

    fn end(self) -> String {
        self.0 + "}"
    }
}

/// One item of the reply.
struct Item {
    id: String,
    content: Content,
}

enum Content {
    Reasoning { encrypted: Option<String>, summary: Vec<String> },
    Message { text: String, refuses: bool, phase: &'static str },
    Call { call: String, tool: String, arguments: String },
}

impl Item {
    /// The item with its content, or as it begins.
    fn json(&self, done: bool, status: &str) -> String {
        let item = Object::new().with("id", &self.id);
        let shown = |text: &str| if done { text.to_owned() } else { String::new() };
        match &self.content {
            Content::Reasoning { encrypted, summary } => {
                let parts: Vec<String> = summary.iter().map(|text| summary_part(text)).collect();
                let parts = if done { parts.join(",") } else { String::new() };
                let item = item.with("type", "reasoning");
                let item = match encrypted {
                    Some(encrypted) if done => item.with("encrypted_content", encrypted),
                    // As of the vendor: not complete before the end of the item.
                    Some(encrypted) => item.with("encrypted_content", tag(encrypted)),
                    None => item,
                };
                item.raw("summary", &format!("[{parts}]")).end()
            }
            Content::Message { text, refuses, phase } => {
                let parts = if done { message_part(text, *refuses) } else { String::new() };
                item.with("type", "message")
                    .with("status", status)
                    .raw("content", &format!("[{parts}]"))
                    .with("phase", phase)
                    .with("role", "assistant")
                    .end()
            }
            Content::Call { call, tool, arguments } => item
                .with("type", "function_call")
                .with("status", status)
                .with("arguments", shown(arguments))
                .with("call_id", call)
                .with("name", tool)
                .end(),
        }
    }
}

fn summary_part(text: &str) -> String {
    Object::new().with("type", "summary_text").with("text", text).end()
}

fn message_part(text: &str, refuses: bool) -> String {
    let part = Object::new();
    match refuses {
        true => part.with("type", "refusal").with("refusal", text).end(),
        false => part
            .with("type", "output_text")
            .raw("annotations", "[]")
            .raw("logprobs", "[]")
            .with("text", text)
            .end(),
    }
}

/// What the model says, as items.
fn items(asked: &Asked, answer: &Answer) -> Vec<Item> {
    let body = &asked.body;
    let mut signer = Signer::after(body);
    let wants = |name: &str| list(body, "include").iter().any(|include| include == name);
    let encrypts = wants("reasoning.encrypted_content");
    let summarizes = body.pointer("/reasoning/summary").is_some_and(Value::is_string);
    let phase = if answer.calls() { "commentary" } else { "final_answer" };
    let refuses = answer.stop == StopKind::Refusal;
    let prefix = signer.signature();
    let (mut marker, mut id) = (WITHOUT_REASONING, tag(&prefix));
    let mut says = answer.says.clone();
    if refuses && !says.iter().any(|say| matches!(say, Say::Text(_))) {
        says.push(Say::Text(REFUSAL.to_owned()));
    }
    if !reasons(&asked.model) {
        says.retain(|say| !matches!(say, Say::Thought(_) | Say::Redacted));
    }
    let mut items = Vec::new();
    for (index, say) in says.into_iter().enumerate() {
        let (prefix, content) = match say {
            Say::Thought(_) | Say::Redacted => {
                let encrypted = signer.encrypted();
                (marker, id) = (AFTER_REASONING, tag(&encrypted));
                let summary = match say {
                    Say::Thought(text) if summarizes => summary_parts(&text),
                    _ => Vec::new(),
                };
                ("rs", Content::Reasoning { encrypted: encrypts.then_some(encrypted), summary })
            }
            Say::Text(text) => ("msg", Content::Message { text, refuses, phase }),
            Say::Call { tool, arguments } => {
                let call = format!("{marker}{id}{index}");
                ("fc", Content::Call { call, tool, arguments })
            }
        };
        let id = match content {
            Content::Reasoning { .. } => format!("{prefix}_{id}"),
            _ => format!("{prefix}_{id}{index}"),
        };
        let item = Item { id, content };
        signer.add(&serde_json::from_str(&item.json(true, "completed")).unwrap_or_default());
        items.push(item);
    }
    items
}

/// Each heading begins a part.
fn summary_parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for (index, paragraphs) in text.split("\n\n**").enumerate() {
        parts.push(if index == 0 { paragraphs.to_owned() } else { format!("**{paragraphs}") });
    }
    parts
}

/// How a reply ended: status, reason, status of the last item.
fn ending(answer: &Answer) -> (&'static str, Option<&'static str>) {
    match answer.stop {
        StopKind::Length | StopKind::WindowFull => ("incomplete", Some("max_output_tokens")),
        StopKind::Natural | StopKind::Refusal | StopKind::Paused => ("completed", None),
    }
}

fn finished(items: &[Item], status: &'static str) -> Vec<String> {
    let last = items.len().saturating_sub(1);
    let status = |index: usize| if index == last { status } else { "completed" };
    items.iter().enumerate().map(|(index, item)| item.json(true, status(index))).collect()
}

fn usage(asked: &Asked, answer: &Answer) -> Value {
    let thought = answer.says.iter().map(|say| match say {
        Say::Thought(text) => tokens(text).max(1),
        Say::Redacted => HIDDEN,
        Say::Text(_) | Say::Call { .. } => 0,
    });
    let said = answer.says.iter().map(|say| match say {
        Say::Text(text) => tokens(text),
        Say::Call { tool, arguments } => tokens(tool) + tokens(arguments),
        Say::Thought(_) | Say::Redacted => 0,
    });
    let thought: u64 = if reasons(&asked.model) { thought.sum() } else { 0 };
    let length = tokens(&asked.body.to_string());
    let [input, cached, output] = answer.usage.unwrap_or([length, 0, said.sum::<u64>() + thought]);
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought.min(output)},
        "total_tokens": input + output,
    })
}

fn response(
    asked: &Asked,
    status: &str,
    reason: Option<&str>,
    output: &[String],
    usage: &Value,
) -> String {
    let body = &asked.body;
    let given = |name: &str| body.get(name).cloned().unwrap_or_default();
    let reasoning = match reasons(&asked.model) {
        true => json!({
            "effort": body.pointer("/reasoning/effort").cloned().unwrap_or(json!("medium")),
            "summary": body.pointer("/reasoning/summary"),
        }),
        false => json!({"effort": null, "summary": null}),
    };
    let or = |value: Value, otherwise: Value| if value.is_null() { otherwise } else { value };
    let id: String = sign(&[body]).chars().take(48).collect();
    Object::new()
        .with("id", format!("resp_{id}"))
        .with("object", "response")
        .with("created_at", CREATED_AT)
        .with("status", status)
        .with("background", false)
        .with("error", Value::Null)
        .with("incomplete_details", reason.map(|reason| json!({"reason": reason})))
        .with("instructions", given("instructions"))
        .with("max_output_tokens", given("max_output_tokens"))
        .with("max_tool_calls", Value::Null)
        .with("model", text(body, "model"))
        .raw("output", &format!("[{}]", output.join(",")))
        .with("parallel_tool_calls", or(given("parallel_tool_calls"), json!(true)))
        .with("previous_response_id", Value::Null)
        .with("prompt_cache_key", given("prompt_cache_key"))
        .with("reasoning", reasoning)
        .with("safety_identifier", Value::Null)
        .with("service_tier", if status == "in_progress" { "auto" } else { "default" })
        .with("store", or(given("store"), json!(true)))
        .with("temperature", 1.0)
        .with("text", or(given("text"), json!({"format": {"type": "text"}, "verbosity": "medium"})))
        .with("tool_choice", or(given("tool_choice"), json!("auto")))
        .with("tools", or(given("tools"), json!([])))
        .with("top_logprobs", 0)
        .with("top_p", 1.0)
        .with("truncation", "disabled")
        .with("usage", usage)
        .with("user", Value::Null)
        .with("metadata", json!({}))
        .end()
}

pub fn whole(asked: &Asked, answer: &Answer) -> Value {
    let (status, reason) = ending(answer);
    let output = finished(&items(asked, answer), status);
    let text = response(asked, status, reason, &output, &usage(asked, answer));
    serde_json::from_str(&text).unwrap_or_default()
}

pub fn events(asked: &Asked, answer: &Answer) -> Vec<String> {
    let items = items(asked, answer);
    let (status, reason) = ending(answer);
    let output = finished(&items, status);
    let begun = response(asked, "in_progress", None, &[], &Value::Null);
    let mut stream = Stream::default();
    stream.push("response.created", |event| event.raw("response", &begun));
    stream.push("response.in_progress", |event| event.raw("response", &begun));
    for (index, (item, done)) in items.iter().zip(&output).enumerate() {
        let added = item.json(false, "in_progress");
        stream.push("response.output_item.added", |event| {
            event.with("output_index", index).raw("item", &added)
        });
        stream.item(index, item);
        stream.push("response.output_item.done", |event| {
            event.with("output_index", index).raw("item", done)
        });
    }
    let ended = response(asked, status, reason, &output, &usage(asked, answer));
    stream.push(&format!("response.{status}"), |event| event.raw("response", &ended));
    stream.events
}

#[derive(Default)]
struct Stream {
    events: Vec<String>,
}

impl Stream {
    fn push(&mut self, kind: &str, fields: impl FnOnce(Object) -> Object) {
        let event = Object::new().with("type", kind).with("sequence_number", self.events.len());
        let data = fields(event).end();
        self.events.push(format!("event: {kind}\ndata: {data}\n\n"));
    }

    /// The events between the beginning and the end of an item.
    fn item(&mut self, index: usize, item: &Item) {
        let at = |event: Object| event.with("item_id", &item.id).with("output_index", index);
        match &item.content {
            Content::Reasoning { summary, .. } => {
                for (part, text) in summary.iter().enumerate() {
                    self.summary(part, text, at);
                }
            }
            Content::Message { text, refuses, .. } => self.message(text, *refuses, at),
            Content::Call { arguments, .. } => {
                for delta in chunks(arguments) {
                    self.push("response.function_call_arguments.delta", |event| {
                        at(event).with("delta", &delta).with("obfuscation", "x7Kq")
                    });
                }
                self.push("response.function_call_arguments.done", |event| {
                    at(event).with("arguments", arguments)
                });
            }
        }
    }

    fn summary(&mut self, part: usize, text: &str, at: impl Fn(Object) -> Object) {
        let at = |event: Object| at(event).with("summary_index", part);
        self.push("response.reasoning_summary_part.added", |event| {
            at(event).raw("part", &summary_part(""))
        });
        for delta in words(text) {
            self.push("response.reasoning_summary_text.delta", |event| {
                at(event).with("delta", delta).with("obfuscation", "x7Kq")
            });
        }
        self.push("response.reasoning_summary_text.done", |event| at(event).with("text", text));
        self.push("response.reasoning_summary_part.done", |event| {
            at(event).raw("part", &summary_part(text))
        });
    }

    fn message(&mut self, text: &str, refuses: bool, at: impl Fn(Object) -> Object) {
        let at = |event: Object| at(event).with("content_index", 0);
        let (kind, name) = if refuses { ("refusal", "refusal") } else { ("output_text", "text") };
        let logprobs = |event: Object| if refuses { event } else { event.raw("logprobs", "[]") };
        self.push("response.content_part.added", |event| {
            at(event).raw("part", &message_part("", refuses))
        });
        for delta in words(text) {
            self.push(&format!("response.{kind}.delta"), |event| {
                logprobs(at(event).with("delta", delta)).with("obfuscation", "x7Kq")
            });
        }
        self.push(&format!("response.{kind}.done"), |event| logprobs(at(event).with(name, text)));
        self.push("response.content_part.done", |event| {
            at(event).raw("part", &message_part(text, refuses))
        });
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

fn chunks(text: &str) -> Vec<String> {
    let symbols: Vec<char> = text.chars().collect();
    symbols.chunks(DELTA).map(|chunk| chunk.iter().collect()).collect()
}
