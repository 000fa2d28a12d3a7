//! Reads the chunks of a reply. Text and thoughts are passed on at once; items and calls at the end, when
//! they are complete.

use std::sync::Arc;

use loggia_core::{Stop, Usage};

use super::calls::Calls;
use super::dialect::Dialect;
use super::error;
use super::reasoning::Reasoning;
use crate::error::{ModelError, ModelErrorKind};
use crate::fields::Fields;
use crate::protocol::{Decoder, Piece};
use crate::request::Delta;
use crate::thoughts::Thoughts;

const END: &str = "[DONE]";

pub struct ChatDecoder {
    dialect: &'static Dialect,
    /// The id of the reply.
    id: String,
    thoughts: Thoughts,
    reasoning: Reasoning,
    content: Option<String>,
    refusal: String,
    calls: Calls,
    finish: Option<String>,
    usage: Option<Usage>,
}

impl ChatDecoder {
    pub fn new(dialect: &'static Dialect) -> Self {
        Self {
            dialect,
            id: String::new(),
            thoughts: Thoughts::default(),
            reasoning: Reasoning::default(),
            content: None,
            refusal: String::new(),
            calls: Calls::default(),
            finish: None,
            usage: None,
        }
    }

    fn read_delta(&mut self, delta: &Fields, deltas: &mut Vec<Delta>) -> bool {
        let thought = self.reasoning.take(delta);
        self.thoughts.push(&thought, deltas);
        let mut said = !thought.is_empty();
        if let Some(text) = delta.text("content") {
            self.content.get_or_insert_default().push_str(&text);
            if !text.is_empty() {
                self.thoughts.flush(deltas);
                deltas.push(Delta::Text(text));
                said = true;
            }
        }
        if let Some(text) = delta.text("refusal") {
            self.refusal.push_str(&text);
            said |= !text.is_empty();
        }
        for piece in delta.read::<Vec<Fields>>("tool_calls").unwrap_or_default() {
            self.calls.take(piece);
            said = true;
        }
        said
    }

    fn end(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let stop = self.stop()?;
        self.thoughts.flush(deltas);
        let mut push = |name: &str, value: &serde_json::value::RawValue| {
            let mut fragment = Fields::default();
            fragment.set(name, value);
            deltas.push(Delta::Item(Arc::from(fragment.to_text())));
        };
        if let Some((name, value)) = self.reasoning.returned(self.dialect.returns) {
            push(name, &value);
        }
        if let Some(content) = &self.content {
            push("content", &crate::fields::raw(content));
        }
        if !self.refusal.is_empty() {
            push("refusal", &crate::fields::raw(&self.refusal));
        }
        deltas.extend(std::mem::take(&mut self.calls).finish(&self.id));
        deltas.extend(self.usage.map(Delta::Usage));
        deltas.push(Delta::Stop(stop));
        Ok(())
    }

    fn stop(&self) -> Result<Stop, ModelError> {
        let Some(finish) = self.finish.as_deref() else {
            let why = "the reply ended without a finish reason (it is tried again)";
            return Err(ModelError::new(ModelErrorKind::Transport, why));
        };
        Ok(match finish {
            "length" | "max_tokens" => Stop::Length,
            "model_length" | "model_context_window_exceeded" => Stop::WindowFull,
            "content_filter" => {
                let why = match self.refusal.is_empty() {
                    true => "the provider's content filter stopped the reply".to_owned(),
                    false => self.refusal.clone(),
                };
                Stop::Refused { why }
            }
            _ if !self.refusal.is_empty() && self.calls.is_empty() => {
                Stop::Refused { why: self.refusal.clone() }
            }
            _ => Stop::Finished,
        })
    }
}

impl Decoder for ChatDecoder {
    fn read(&mut self, piece: &Piece, deltas: &mut Vec<Delta>) -> Result<bool, ModelError> {
        let data = piece.data.trim();
        if data == END {
            return self.end(deltas).map(|()| true);
        }
        let Some(chunk) = Fields::parse(data) else {
            // An event with a name that is not known may hold anything.
            return match piece.event.as_str() {
                "" | "message" => Err(error::unreadable(data)),
                _ => Ok(false),
            };
        };
        if let Some(error) = error::in_stream(self.dialect, &chunk, &piece.event) {
            return Err(error);
        }
        if let (true, Some(id)) = (self.id.is_empty(), chunk.text("id")) {
            self.id = id;
        }
        let mut said = false;
        if let Some(found) = chunk.read::<Fields>("usage") {
            said = self.finish.is_some();
            self.usage = Some(usage(&found));
        }
        let choices = chunk.read::<Vec<Fields>>("choices").unwrap_or_default();
        for choice in &choices {
            if choice.read::<u64>("index").unwrap_or_default() != 0 {
                continue;
            }
            let delta = choice.read::<Fields>("delta").unwrap_or_default();
            said |= self.read_delta(&delta, deltas);
            if let Some(reason) = choice.text("finish_reason") {
                error::finish(&reason)?;
                self.finish = Some(reason);
                said = true;
            }
        }
        if !self.dialect.done && self.finish.is_some() && self.usage.is_some() {
            self.end(deltas)?;
        }
        Ok(said)
    }
}

/// Some servers do not count the reasoning as output, but all of them count it in the total.
fn usage(found: &Fields) -> Usage {
    let count = |path: &str| found.read_at::<u64>(path);
    let input = count("prompt_tokens").unwrap_or_default();
    let cached =
        ["prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"];
    let total = count("total_tokens").unwrap_or_default();
    let output = count("completion_tokens").unwrap_or_default();
    Usage {
        input_tokens: input,
        output_tokens: output.max(total.saturating_sub(input)),
        thought_tokens: count("completion_tokens_details.reasoning_tokens").unwrap_or_default(),
        cached_tokens: cached.into_iter().find_map(count).unwrap_or_default(),
        cache_write_tokens: count("prompt_tokens_details.cache_write_tokens").unwrap_or_default(),
    }
}
