//! Reads the events of a reply. The reply is complete at `message_stop`, never at the end of the connection.

use std::collections::BTreeMap;

use loggia_core::{Stop, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::error::{self, Reported};
use super::item::Fields;
use crate::error::{ModelError, ModelErrorKind};
use crate::protocol::{Decoder, Piece};
use crate::request::Delta;

/// The field that holds arguments which are not a JSON object. The vendor accepts only an object as the
/// input of a call, and its documentation of tool streaming names this wrapper.
pub const INVALID: &str = "INVALID_JSON";

#[derive(Default)]
pub struct Reply {
    /// The blocks that have begun and not ended, by index.
    blocks: BTreeMap<u64, Block>,
    counted: Counted,
    stop: Option<Stop>,
}

#[derive(Default)]
struct Block {
    fields: Fields,
    kind: String,
    text: String,
    signature: String,
    arguments: String,
    citations: Vec<Box<RawValue>>,
    subject: Subject,
}

/// The subject of a thought is a first line in bold. Nothing is shown until it is known, because all parts
/// of a thought must have the same subject.
enum Subject {
    Unknown(String),
    Known(String),
}

impl Default for Subject {
    fn default() -> Self {
        Subject::Unknown(String::new())
    }
}

/// Bytes of a first line in bold.
const SUBJECT_LIMIT: usize = 200;

/// Only the fields that this module reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    index: u64,
    content_block: Option<Fields>,
    delta: Part,
    message: Option<Begun>,
    usage: Option<Counted>,
    error: Option<Reported>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Begun {
    usage: Option<Counted>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: String,
    thinking: String,
    signature: String,
    partial_json: String,
    citation: Option<Box<RawValue>>,
    stop_reason: Option<String>,
    stop_details: Option<StopDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StopDetails {
    category: Option<String>,
    explanation: Option<String>,
}

/// The numbers are totals so far, and a later event may leave some out.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Counted {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: u64,
}

impl Decoder for Reply {
    fn read(&mut self, piece: &Piece, deltas: &mut Vec<Delta>) -> Result<bool, ModelError> {
        if !may_be_known(piece) {
            return Ok(false);
        }
        let event: Event = serde_json::from_str(&piece.data).map_err(|error| {
            malformed(&format!("the event {} cannot be read: {error}", piece.event))
        })?;
        match event.kind.as_str() {
            "message_start" => {
                let usage = event.message.and_then(|begun| begun.usage);
                self.counted.update(usage.unwrap_or_default());
            }
            "content_block_start" => {
                let block = Block::new(event.content_block.unwrap_or_default(), deltas);
                self.blocks.insert(event.index, block);
            }
            "content_block_delta" => {
                let block = self.blocks.get_mut(&event.index);
                let block = block.ok_or_else(|| malformed("a part of a block came before it"))?;
                block.append(event.delta, deltas);
            }
            "content_block_stop" => {
                if let Some(block) = self.blocks.remove(&event.index) {
                    block.finish(deltas);
                }
            }
            "message_delta" => {
                self.counted.update(event.usage.unwrap_or_default());
                self.stop = event.delta.stop().or(self.stop.take());
            }
            "message_stop" => self.finish(deltas),
            "error" => return Err(error::of_event(&event.error.unwrap_or_default())),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The vendor adds events, whose data may have any form. An event without a name is read by its type, and
/// some gateways end a stream with one that is not JSON.
fn may_be_known(Piece { event, data }: &Piece) -> bool {
    match event.as_str() {
        "" => data.starts_with('{'),
        "message_start" | "message_delta" | "message_stop" | "error" => true,
        event => event.starts_with("content_block_"),
    }
}

fn malformed(why: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, format!("the reply cannot be read: {why}"))
}

impl Reply {
    fn finish(&mut self, deltas: &mut Vec<Delta>) {
        // Some gateways end a reply without ending its last block.
        for block in std::mem::take(&mut self.blocks).into_values() {
            block.finish(deltas);
        }
        deltas.push(Delta::Usage(self.counted.usage()));
        deltas.push(Delta::Stop(self.stop.take().unwrap_or(Stop::Finished)));
    }
}

/// The first line may be in bold, and its end or the text behind it is missing.
fn may_become_subject(held: &str) -> bool {
    let bold = held.starts_with("**") || "**".starts_with(held);
    bold && held.split_once('\n').is_none_or(|(_, rest)| rest.trim().is_empty())
}

impl Block {
    /// The start event may hold the beginning of the text.
    fn new(fields: Fields, deltas: &mut Vec<Delta>) -> Self {
        let kind = fields.text("type");
        let (text, thinking) = (fields.text("text"), fields.text("thinking"));
        let signature = fields.text("signature");
        let mut block = Self { fields, kind, signature, ..Self::default() };
        block.say(&text, deltas);
        block.think(&thinking, deltas);
        block
    }

    fn append(&mut self, part: Part, deltas: &mut Vec<Delta>) {
        match part.kind.as_str() {
            "text_delta" => self.say(&part.text, deltas),
            "thinking_delta" => self.think(&part.thinking, deltas),
            "signature_delta" => self.signature.push_str(&part.signature),
            "input_json_delta" => self.arguments.push_str(&part.partial_json),
            "citations_delta" => self.citations.extend(part.citation),
            _ => {}
        }
    }

    fn say(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        self.text.push_str(text);
        if !text.is_empty() {
            deltas.push(Delta::Text(text.to_owned()));
        }
    }

    fn think(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        self.text.push_str(text);
        let text = match &mut self.subject {
            Subject::Known(_) => text.to_owned(),
            Subject::Unknown(held) => {
                held.push_str(text);
                if held.len() < SUBJECT_LIMIT && may_become_subject(held) {
                    return;
                }
                self.know_subject()
            }
        };
        if let (Subject::Known(subject), false) = (&self.subject, text.is_empty()) {
            deltas.push(Delta::Thought { subject: subject.clone(), text });
        }
    }

    /// Decides on the subject. Returns the text behind it.
    fn know_subject(&mut self) -> String {
        let Subject::Unknown(held) = std::mem::take(&mut self.subject) else {
            return String::new();
        };
        let (first, rest) = held.split_once('\n').unwrap_or((&held, ""));
        let bold = first.trim().strip_prefix("**").and_then(|line| line.strip_suffix("**"));
        let (subject, text) = match bold.filter(|subject| !subject.trim().is_empty()) {
            Some(subject) => (subject.trim().to_owned(), rest.trim_start().to_owned()),
            None => (String::new(), held),
        };
        self.subject = Subject::Known(subject);
        text
    }

    fn finish(mut self, deltas: &mut Vec<Delta>) {
        if matches!(self.subject, Subject::Unknown(_)) {
            let text = self.know_subject();
            let Subject::Known(subject) = std::mem::take(&mut self.subject) else { return };
            if !subject.is_empty() || !text.is_empty() {
                deltas.push(Delta::Thought { subject, text });
            }
        }
        match self.kind.as_str() {
            "text" => self.fields.set_to("text", &self.text),
            "thinking" => {
                self.fields.set_to("thinking", &self.text);
                self.fields.set_to("signature", &self.signature);
            }
            _ => {}
        }
        if !self.citations.is_empty() {
            self.fields.set_to("citations", &self.citations);
        }
        let input = match self.kind.ends_with("tool_use") {
            true => self.input(),
            false => Ok(Value::Null),
        };
        let Ok(raw) = serde_json::to_string(&self.fields) else { return };
        deltas.push(match self.kind.as_str() {
            "tool_use" => {
                let tool = self.fields.text("name");
                Delta::Call { tool, input, item: Some(raw.into()) }
            }
            _ => Delta::Item(raw.into()),
        });
    }

    /// The input of a call, which also becomes a field. Without parts, the start event has all of it.
    fn input(&mut self) -> Result<Value, String> {
        let text = match self.fields.get("input") {
            _ if !self.arguments.trim().is_empty() => std::mem::take(&mut self.arguments),
            Some(whole) => whole.get().to_owned(),
            None => "{}".to_owned(),
        };
        let Ok(input) = serde_json::from_str::<Map<String, Value>>(&text) else {
            self.fields.set_to("input", &BTreeMap::from([(INVALID, &text)]));
            return Err(text);
        };
        if let Ok(raw) = RawValue::from_string(text) {
            self.fields.set("input", raw);
        }
        Ok(Value::Object(input))
    }
}

impl Part {
    fn stop(&self) -> Option<Stop> {
        Some(match self.stop_reason.as_deref()? {
            "max_tokens" => Stop::Length,
            "pause_turn" => Stop::Paused,
            "model_context_window_exceeded" => Stop::WindowFull,
            "refusal" => Stop::Refused { why: self.refusal() },
            _ => Stop::Finished,
        })
    }

    fn refusal(&self) -> String {
        let details = self.stop_details.as_ref();
        let explanation = details.and_then(|details| details.explanation.clone());
        let category = details.and_then(|details| details.category.as_deref());
        match (explanation, category) {
            (Some(explanation), _) => explanation,
            (None, Some(category)) => format!("the model declined (category {category})"),
            (None, None) => "the model declined and gave no reason".to_owned(),
        }
    }
}

impl Counted {
    fn update(&mut self, later: Counted) {
        let update = |old: &mut Option<u64>, new: Option<u64>| *old = new.or(*old);
        update(&mut self.input_tokens, later.input_tokens);
        update(&mut self.cache_creation_input_tokens, later.cache_creation_input_tokens);
        update(&mut self.cache_read_input_tokens, later.cache_read_input_tokens);
        update(&mut self.output_tokens, later.output_tokens);
        self.output_tokens_details =
            later.output_tokens_details.or(self.output_tokens_details.take());
    }

    /// The vendor's `input_tokens` does not include what was written to the cache or read from it.
    fn usage(&self) -> Usage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let fresh = self.input_tokens.unwrap_or(0);
        Usage {
            input_tokens: fresh.saturating_add(written).saturating_add(cached),
            output_tokens: self.output_tokens.unwrap_or(0),
            thought_tokens: self
                .output_tokens_details
                .as_ref()
                .map_or(0, |details| details.thinking_tokens),
            cached_tokens: cached,
            cache_write_tokens: written,
        }
    }
}
