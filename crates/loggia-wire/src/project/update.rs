//! The contents of frames, before a protocol writes them.

use loggia_core::{Millis, Part, SessionId, TaskId, TaskState};
use serde::Serialize;
use serde_json::{Map, Value};

use super::End;
use crate::devtool::{EventKind, EventMetadata};

/// The session, the task and the time of a frame, and the model that made it.
pub(crate) struct FrameContext<'a> {
    pub session: &'a SessionId,
    pub task: &'a TaskId,
    pub at: Millis,
    pub model: &'a str,
}

pub(crate) enum Update {
    /// The whole task as it is.
    Task,
    Status(StatusChange),
    Artifact(ArtifactChunk),
    /// A frame in its final form, for dialects with their own frames.
    Ready {
        body: Value,
        ends: Option<End>,
    },
}

impl Update {
    pub fn ends(&self) -> Option<End> {
        match self {
            Update::Status(status) => status.ends,
            Update::Ready { ends, .. } => *ends,
            Update::Task | Update::Artifact(_) => None,
        }
    }

    /// Contained in every later snapshot of the task. Calls and thoughts are not.
    pub fn is_in_snapshot(&self) -> bool {
        match self {
            Update::Task | Update::Artifact(_) => true,
            Update::Status(status) => {
                status.about.as_ref().is_some_and(|about| about.kind == EventKind::TextContent)
            }
            Update::Ready { .. } => false,
        }
    }
}

pub(crate) struct StatusChange {
    pub state: TaskState,
    pub message: Option<ChatMessage>,
    /// For clients with the extension.
    pub about: Option<EventMetadata>,
    pub ends: Option<End>,
}

impl StatusChange {
    pub fn metadata(&self, place: &FrameContext<'_>) -> Option<Map<String, Value>> {
        self.about.as_ref().map(|about| about.metadata(place.model))
    }
}

/// A chunk of an artifact. It is appended to the chunks before it, or replaces them.
pub(crate) struct ArtifactChunk {
    pub id: String,
    pub name: String,
    pub parts: Vec<Part>,
    pub append: bool,
    pub last: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChatMessage {
    pub id: String,
    pub role: Role,
    pub parts: Vec<Part>,
    pub metadata: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Agent,
}

impl ChatMessage {
    pub fn text(id: impl Into<String>, text: impl Into<String>) -> Self {
        let parts = vec![Part::Text { text: text.into() }];
        Self { id: id.into(), role: Role::Agent, parts, metadata: None }
    }

    /// The text of its parts.
    pub fn to_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::File { .. } | Part::Data { .. } => None,
        });
        texts.collect()
    }

    /// Objects of the extension's schemas.
    pub fn schemas(id: impl Into<String>, data: Vec<Value>) -> Self {
        let parts = data.into_iter().map(|data| Part::Data { data }).collect();
        Self { id: id.into(), role: Role::Agent, parts, metadata: None }
    }
}

/// Serialization cannot fail: no type here has a map whose keys are not strings.
pub(crate) fn value_of(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
