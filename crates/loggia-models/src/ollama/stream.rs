//! Reads the lines of a reply. Calls come whole.

use std::sync::Arc;

use loggia_core::{Stop, Usage};
use serde_json::{Value, json};

use super::error;
use crate::error::ModelError;
use crate::fields::Fields;
use crate::fragments::{as_object, parse_input};
use crate::protocol::{Decoder, Piece};
use crate::request::Delta;
use crate::thoughts::Thoughts;

#[derive(Default)]
pub struct OllamaDecoder {
    thoughts: Thoughts,
    thinking: Option<String>,
    content: Option<String>,
    calls: Vec<Fields>,
}

impl OllamaDecoder {
    fn read_message(&mut self, message: &Fields, deltas: &mut Vec<Delta>) -> bool {
        let thinking = message.text("thinking").unwrap_or_default();
        if !thinking.is_empty() {
            self.thinking.get_or_insert_default().push_str(&thinking);
            self.thoughts.push(&thinking, deltas);
        }
        let content = message.text("content").unwrap_or_default();
        if !content.is_empty() {
            self.content.get_or_insert_default().push_str(&content);
            self.thoughts.flush(deltas);
            deltas.push(Delta::Text(content.clone()));
        }
        let calls = message.read::<Vec<Fields>>("tool_calls").unwrap_or_default();
        let said = !(thinking.is_empty() && content.is_empty() && calls.is_empty());
        self.calls.extend(calls);
        said
    }

    fn end(&mut self, last: &Fields, deltas: &mut Vec<Delta>) {
        self.thoughts.flush(deltas);
        for (name, text) in [("thinking", &self.thinking), ("content", &self.content)] {
            if let Some(text) = text {
                deltas.push(Delta::Item(Arc::from(json!({ name: text }).to_string())));
            }
        }
        deltas.extend(self.calls.drain(..).map(call));
        let count = |name: &str| last.read::<u64>(name);
        if let Some(output_tokens) = count("eval_count") {
            let input_tokens = count("prompt_eval_count").unwrap_or_default();
            deltas.push(Delta::Usage(Usage { input_tokens, output_tokens, ..Usage::default() }));
        }
        deltas.push(Delta::Stop(match last.text("done_reason").as_deref() {
            Some("length") => Stop::Length,
            _ => Stop::Finished,
        }));
    }
}

/// The server refuses arguments that are not an object, so the item holds none.
fn call(mut raw: Fields) -> Delta {
    let mut function = raw.read::<Fields>("function").unwrap_or_default();
    let tool = function.text("name").unwrap_or_default();
    let input = match function.read::<Value>("arguments") {
        Some(input @ Value::Object(_)) => Ok(input),
        Some(Value::String(text)) => parse_input(&text),
        Some(Value::Null) | None => parse_input(""),
        Some(other) => Err(other.to_string()),
    };
    if function.read::<Fields>("arguments").is_none() {
        let arguments = input.clone().unwrap_or_else(|text| as_object(&Value::String(text)));
        function.set("arguments", &arguments);
        raw.set("function", &function);
    }
    Delta::Call { tool, input, item: Some(Arc::from(raw.to_text())) }
}

impl Decoder for OllamaDecoder {
    fn read(&mut self, piece: &Piece, deltas: &mut Vec<Delta>) -> Result<bool, ModelError> {
        let line = Fields::parse(&piece.data).ok_or_else(|| error::unreadable(&piece.data))?;
        if let Some(why) = line.text("error") {
            return Err(error::in_stream(&why));
        }
        let message = line.read::<Fields>("message").unwrap_or_default();
        let said = self.read_message(&message, deltas);
        let done = line.read::<bool>("done") == Some(true);
        if done {
            self.end(&line, deltas);
        }
        Ok(said || done)
    }
}
