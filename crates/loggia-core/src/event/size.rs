//! Estimates the memory that an event takes, for caches with a limit in bytes. Long texts are counted, and everything
//! else is assumed to be short.

use serde_json::Value;

use super::{Envelope, Event};
use crate::call::{Artifact, CallOutcome, Details, FileDiff, Output};
use crate::content::{Content, Part};

/// The envelope itself and its short texts. Most ids are shared with other events.
const ENVELOPE_BYTES: usize = size_of::<Envelope>() + 64;

impl Envelope {
    pub fn approx_bytes(&self) -> usize {
        ENVELOPE_BYTES + self.event.approx_bytes()
    }
}

impl Event {
    /// The bytes of its long texts.
    pub fn approx_bytes(&self) -> usize {
        match self {
            Event::TextAppended { text, .. }
            | Event::ThoughtAppended { text, .. }
            | Event::CallOutput { text, .. }
            | Event::NoticeRaised { text, .. }
            | Event::PromptExpanded { text, .. } => text.len(),
            Event::ContextCompacted { summary, .. } => summary.len(),
            Event::ModelRecord { record, .. } => record.approx_bytes(),
            Event::PromptAccepted { content, .. } | Event::PromptScreened { content, .. } => {
                content.approx_bytes()
            }
            Event::CallProposed { input, details, .. } => of_value(input) + of_details(details),
            Event::ApprovalAnswered { details, .. } => details.as_ref().map_or(0, of_details),
            Event::CallEnded { outcome, .. } => of_outcome(outcome),
            Event::ArtifactPublished { artifact, .. } => of_artifact(artifact),
            Event::PlanUpdated { steps, .. } => steps.iter().map(|step| step.text.len()).sum(),
            Event::SourcesCited { sources, .. } => {
                sources.iter().map(|source| source.title.len() + source.uri.len()).sum()
            }
            Event::SessionOpened { .. }
            | Event::SettingsChanged { .. }
            | Event::PolicyAmended { .. }
            | Event::SessionNamed { .. }
            | Event::SessionClosed { .. }
            | Event::TaskOpened { .. }
            | Event::TaskClosed { .. }
            | Event::PromptWithdrawn { .. }
            | Event::TurnStarted { .. }
            | Event::TurnEnded { .. }
            | Event::UsageReported { .. }
            | Event::ApprovalAsked { .. }
            | Event::CallStarted { .. }
            | Event::ReplyDiscarded { .. }
            | Event::Unknown => 0,
        }
    }
}

impl Content {
    pub fn approx_bytes(&self) -> usize {
        of_parts(&self.parts) + self.metadata.as_ref().map_or(0, of_value)
    }
}

pub(crate) fn of_parts(parts: &[Part]) -> usize {
    let of_part = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::File { base64, uri, .. } => {
            base64.as_ref().map_or(0, String::len) + uri.as_ref().map_or(0, String::len)
        }
        Part::Data { data } => of_value(data),
    };
    parts.iter().map(of_part).sum()
}

fn of_artifact(artifact: &Artifact) -> usize {
    of_parts(&artifact.parts)
}

fn of_details(details: &Details) -> usize {
    match details {
        Details::Execute { command, .. } => command.len(),
        Details::Edit(diff) => of_diff(diff),
        Details::Mcp { .. } => 0,
        Details::Question { text, .. } | Details::Generic { text } => text.len(),
    }
}

fn of_diff(diff: &FileDiff) -> usize {
    diff.old.as_ref().map_or(0, String::len) + diff.new.len() + diff.unified.len()
}

fn of_outcome(outcome: &CallOutcome) -> usize {
    match outcome {
        CallOutcome::Succeeded { output: Output { text, diff, data, artifact } } => {
            text.len()
                + diff.as_ref().map_or(0, of_diff)
                + data.as_ref().map_or(0, of_value)
                + artifact.as_ref().map_or(0, of_artifact)
        }
        CallOutcome::Failed { failure } => failure.message.len(),
        CallOutcome::Cancelled { reason } => reason.len(),
    }
}

/// Recursive: the decoders limit how deep a value is nested.
pub(crate) fn of_value(value: &Value) -> usize {
    const EACH: usize = size_of::<Value>();
    EACH + match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(of_value).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| EACH + name.len() + of_value(value)).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// For every field that can hold a long text, the estimate is close to the length of the JSON.
    #[test]
    fn a_long_text_counts_in_every_field() {
        let long = "x".repeat(50_000);
        let parts =
            json!([{"type": "text", "text": long}, {"type": "data", "data": {"a": [1, long]}}]);
        let file = json!([{"type": "file", "base64": long}, {"type": "file", "uri": long}]);
        let diff =
            json!({"path": "a", "absolute_path": "/a", "old": long, "new": long, "unified": long});
        let edit = |diff: &Value| {
            let mut edit = diff.clone();
            edit["type"] = "edit".into();
            edit
        };
        let output = json!({
            "text": long, "diff": diff, "data": {"a": long},
            "artifact": {"id": "i", "name": "n", "parts": parts},
        });
        let ended = |outcome: Value| json!({"type": "call_ended", "call": "c", "outcome": outcome});
        let proposed = |details: Value| {
            json!({
                "type": "call_proposed", "turn": "t", "message": "m", "call": "c", "tool": "tool",
                "title": "title", "access": "edit", "input": {"content": long},
                "details": details,
            })
        };
        let events = [
            json!({"type": "text_appended", "turn": "t", "message": "m", "text": long}),
            json!({"type": "thought_appended", "turn": "t", "message": "m", "subject": "s", "text": long}),
            json!({"type": "call_output", "call": "c", "text": long}),
            json!({"type": "notice_raised", "level": "info", "text": long}),
            json!({"type": "prompt_expanded", "turn": "t", "command": "c", "source": "s", "text": long}),
            json!({"type": "context_compacted", "upto": 3, "summary": long}),
            json!({"type": "prompt_accepted", "prompt": "p", "task": "t", "content": {"parts": parts}}),
            json!({"type": "prompt_accepted", "prompt": "p", "task": "t", "content": {"parts": file}}),
            json!({"type": "plan_updated", "turn": "t", "steps": [{"text": long, "state": "pending"}]}),
            json!({"type": "sources_cited", "turn": "t", "sources": [{"title": long, "uri": long}]}),
            json!({"type": "artifact_published", "turn": "t", "artifact": {"id": "i", "name": "n", "parts": parts}}),
            json!({"type": "approval_answered", "approval": "a", "call": "c", "choice": "x", "details": edit(&diff)}),
            proposed(edit(&diff)),
            proposed(json!({"type": "execute", "command": long, "directory": "/"})),
            ended(json!({"type": "succeeded", "output": output})),
            ended(json!({"type": "failed", "failure": {"kind": "k", "message": long}})),
            ended(json!({"type": "cancelled", "reason": long})),
        ];
        for written in events {
            let (kind, length) = (written["type"].clone(), written.to_string().len());
            let event: Event = serde_json::from_value(written).unwrap();
            let estimate = event.approx_bytes();
            assert!(estimate.abs_diff(length) < 1_000, "{kind}: {estimate} for {length} bytes");
        }
    }
}
