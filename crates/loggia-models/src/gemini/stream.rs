//! Reads a streamed reply. Each event is a whole response with the next parts; the reply ends with the
//! event that has a `finishReason`, or that says that the prompt was blocked.

use std::sync::Arc;

use loggia_core::{Stop, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{self, Failure};
use crate::error::{ModelError, ModelErrorKind};
use crate::protocol::{Decoder, Piece};
use crate::request::Delta;

#[derive(Default)]
pub struct Reader {
    /// The last that was sent. Each replaces the one before.
    usage: Option<UsageMetadata>,
    /// There was something other than thoughts.
    answered: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<UsageMetadata>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UsageMetadata {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    name: String,
    args: Option<Value>,
}

impl Decoder for Reader {
    fn read(&mut self, piece: &Piece, deltas: &mut Vec<Delta>) -> Result<bool, ModelError> {
        let data = piece.data.trim();
        // Some gateways end a stream as OpenAI does.
        if data.is_empty() || data == "[DONE]" {
            return Ok(false);
        }
        let event: Event = serde_json::from_str(data).map_err(|why| unreadable(&why))?;
        if let Some(failure) = event.error {
            return Err(error::in_stream(failure));
        }
        if event.usage_metadata.is_some() {
            self.usage = event.usage_metadata;
        }
        let feedback = event.prompt_feedback;
        if let Some((reason, message)) = feedback
            .and_then(|feedback| Some((feedback.block_reason?, feedback.block_reason_message)))
        {
            deltas.extend(self.usage());
            deltas.push(Delta::Stop(refused("blocked the prompt", &reason, message.as_deref())));
            return Ok(true);
        }
        let Some(candidate) = event.candidates.into_iter().flatten().next() else {
            return Ok(false);
        };
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.into_iter().flatten() {
            self.read_part(&part, deltas)?;
        }
        let reason = candidate
            .finish_reason
            .filter(|reason| !reason.is_empty() && reason != "FINISH_REASON_UNSPECIFIED");
        if let Some(reason) = reason {
            deltas.extend(self.usage());
            let stop = self.stop(&reason, candidate.finish_message.as_deref())?;
            deltas.push(Delta::Stop(stop));
        }
        Ok(true)
    }
}

impl Reader {
    fn read_part(&mut self, raw: &RawValue, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let part: Part = serde_json::from_str(raw.get()).map_err(|why| unreadable(&why))?;
        let item: Arc<str> = raw.get().into();
        if let Some(FunctionCall { name, args }) = part.function_call {
            let input = match args {
                None | Some(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
                Some(args @ Value::Object(_)) => Ok(args),
                Some(other) => Err(other.to_string()),
            };
            self.answered = true;
            deltas.push(Delta::Call { tool: name, input, item: Some(item) });
            return Ok(());
        }
        let is_signed = part.thought_signature.is_some();
        if part.thought {
            let (subject, text) = with_subject(part.text.as_deref().unwrap_or_default());
            if !subject.is_empty() || !text.is_empty() {
                deltas.push(Delta::Thought { subject: subject.to_owned(), text: text.to_owned() });
            }
            // Only a signature makes a thought of use to the model.
            if is_signed {
                deltas.push(Delta::Item(item));
            }
            return Ok(());
        }
        match part.text {
            // The last event often has a part without anything. Some endpoints do not take it back.
            Some(text) if text.is_empty() && !is_signed => return Ok(()),
            Some(text) => {
                self.answered |= !text.trim().is_empty();
                if !text.is_empty() {
                    deltas.push(Delta::Text(text));
                }
            }
            None => self.answered = true,
        }
        deltas.push(Delta::Item(item));
        Ok(())
    }

    fn usage(&self) -> Option<Delta> {
        let usage = self.usage.as_ref()?;
        let sum =
            |one: Option<u64>, two: Option<u64>| one.unwrap_or(0).saturating_add(two.unwrap_or(0));
        Some(Delta::Usage(Usage {
            input_tokens: sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
            output_tokens: sum(usage.candidates_token_count, usage.thoughts_token_count),
            thought_tokens: usage.thoughts_token_count.unwrap_or(0),
            cached_tokens: usage.cached_content_token_count.unwrap_or(0),
            cache_write_tokens: 0,
        }))
    }

    fn stop(&self, reason: &str, message: Option<&str>) -> Result<Stop, ModelError> {
        let again = |what: &str| {
            let why = format!("Gemini {what}: try again{}", error::quoted(message));
            let error = ModelError::new(ModelErrorKind::Malformed, why);
            Err(ModelError { should_retry: Some(true), ..error })
        };
        match reason {
            "STOP" if self.answered => Ok(Stop::Finished),
            "STOP" => again("ended its reply without a word"),
            // Gemini 4 could continue after the last one, with a token.
            "MAX_TOKENS" | "CONTINUATION" => Ok(Stop::Length),
            "MALFORMED_FUNCTION_CALL" => again("wrote a call that cannot be parsed"),
            "MALFORMED_RESPONSE" => again("wrote a reply that cannot be parsed"),
            "UNEXPECTED_TOOL_CALL" => again("called a tool that it was not given"),
            "TOO_MANY_TOOL_CALLS" => again("called too many tools in a row"),
            "MISSING_THOUGHT_SIGNATURE" => Err(ModelError::new(
                ModelErrorKind::HistoryRejected,
                format!(
                    "Gemini misses a signature in its earlier replies: they can be sent again \
                     without what only the model reads{}",
                    error::quoted(message),
                ),
            )),
            _ => Ok(refused("stopped its reply", reason, message)),
        }
    }
}

fn refused(what: &str, reason: &str, message: Option<&str>) -> Stop {
    let why = match reason {
        "SAFETY" | "IMAGE_SAFETY" => "for safety",
        "RECITATION" | "IMAGE_RECITATION" => "because it repeats a source word for word",
        "PROHIBITED_CONTENT" | "IMAGE_PROHIBITED_CONTENT" => "because of prohibited content",
        "BLOCKLIST" => "because of a word that is not allowed",
        "SPII" => "because of personal data",
        "LANGUAGE" => "because it does not support the language",
        _ => "for a reason of its own",
    };
    Stop::Refused {
        why: format!(
            "Gemini {what} {why} ({reason}): say it differently{}",
            error::quoted(message)
        ),
    }
}

fn unreadable(why: &serde_json::Error) -> ModelError {
    let message = format!("Gemini sent an event that cannot be parsed: try again ({why})");
    ModelError::new(ModelErrorKind::Malformed, message)
}

/// Splits the first line from a thought if it is a heading: `**Reading the code**`.
fn with_subject(thought: &str) -> (&str, &str) {
    let heading = thought.trim_start().strip_prefix("**").and_then(|rest| rest.split_once("**"));
    match heading {
        Some((subject, text)) if !subject.contains('\n') && starts_line(text) => {
            (subject.trim(), text.trim_start())
        }
        _ => ("", thought),
    }
}

fn starts_line(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '\t', '\r']);
    text.is_empty() || text.starts_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bold_first_line_is_the_subject_of_a_thought() {
        let check = |thought: &str, subject: &str, text: &str| {
            assert_eq!(with_subject(thought), (subject, text), "{thought:?}");
        };
        check("**Reading**\n\nI read.\n", "Reading", "I read.\n");
        check("**Reading**", "Reading", "");
        check("**Bold** words", "", "**Bold** words");
        check("**open", "", "**open");
        check("**two\nlines**\n", "", "**two\nlines**\n");
        check("", "", "");
    }
}
