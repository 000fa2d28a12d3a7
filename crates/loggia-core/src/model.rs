//! What the log keeps of a model's requests and replies, so that a later request repeats the conversation
//! exactly as the provider knows it, also after a restart.
//!
//! Not here: any provider's format. An item is text that only its provider reads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, MessageId};
use crate::settings::ModelName;

/// One item of a reply as the provider sent it: thinking with its signature, encrypted reasoning, text, a
/// call. Items are kept in order and sent back unchanged to the model that wrote them. No client gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyItem {
    /// JSON text. Not a value: the order of the keys in a call's input must survive.
    pub raw: Arc<str>,
    /// The call that this item requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

/// What the log keeps for the model only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ModelRecord {
    /// The fixed beginning of all requests that follow, until the next one. The first message to the model
    /// begins with `notes`. Items of earlier replies are not sent any longer.
    ContextStarted {
        model: ModelName,
        instructions: Arc<str>,
        tools: Arc<[ToolDescription]>,
        notes: Vec<Note>,
    },
    /// Notes that are new, or that have changed, since the last request: the prompt of the turn begins with
    /// them.
    NotesChanged { notes: Vec<Note> },
    /// Memory files of directories that this call used for the first time: they follow its result.
    MemoryGiven { call: CallId, notes: Vec<Note> },
    /// The model's reply is complete.
    ReplyEnded { message: MessageId, model: ModelName, stop: Stop, items: Vec<ReplyItem> },
}

/// A text beside the prompts: the content of a memory file, the date, the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Tells whether a note has changed.
    pub name: String,
    /// As it is sent.
    pub text: String,
}

impl ModelRecord {
    /// The same record without what no client may get.
    #[must_use]
    pub fn public(&self) -> Self {
        match self {
            ModelRecord::ContextStarted { model, .. } => ModelRecord::ContextStarted {
                model: model.clone(),
                instructions: "".into(),
                tools: [].into(),
                notes: Vec::new(),
            },
            ModelRecord::NotesChanged { .. } => ModelRecord::NotesChanged { notes: Vec::new() },
            ModelRecord::MemoryGiven { call, .. } => {
                ModelRecord::MemoryGiven { call: call.clone(), notes: Vec::new() }
            }
            ModelRecord::ReplyEnded { message, model, stop, .. } => ModelRecord::ReplyEnded {
                message: message.clone(),
                model: model.clone(),
                stop: stop.clone(),
                items: Vec::new(),
            },
        }
    }

    pub(crate) fn approx_bytes(&self) -> usize {
        let of_notes = |notes: &[Note]| notes.iter().map(|note| note.text.len()).sum::<usize>();
        match self {
            ModelRecord::ContextStarted { instructions, tools, notes, .. } => {
                let of_tools = tools.iter().map(|tool| {
                    tool.description.len() + crate::event::size::of_value(&tool.parameters)
                });
                instructions.len() + of_tools.sum::<usize>() + of_notes(notes)
            }
            ModelRecord::NotesChanged { notes } | ModelRecord::MemoryGiven { notes, .. } => {
                of_notes(notes)
            }
            ModelRecord::ReplyEnded { items, .. } => items.iter().map(|item| item.raw.len()).sum(),
        }
    }
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Stop {
    /// The model has finished, or waits for the results of its calls.
    Finished,
    /// The reply reached the most tokens that the model may write.
    Length,
    /// The provider wants the reply back unchanged, and continues it.
    Paused,
    /// The model or a filter of the provider declined.
    Refused { why: String },
    /// The model's context window is full.
    WindowFull,
}

/// A tool as the model was told about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    pub name: String,
    pub description: String,
    /// JSON Schema of the input, an object.
    pub parameters: Value,
}

/// How much a model reasons before it answers. A provider uses the nearest level that the model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    pub const ALL: [Effort; 7] = [
        Effort::None,
        Effort::Minimal,
        Effort::Low,
        Effort::Medium,
        Effort::High,
        Effort::Xhigh,
        Effort::Max,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::Xhigh => "xhigh",
            Effort::Max => "max",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.name() == name)
    }
}
