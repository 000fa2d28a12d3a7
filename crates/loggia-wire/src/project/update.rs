//! What a frame says, before a dialect writes it down.

use loggia_core::{Millis, Part, SessionId, TaskId, TaskState};
use serde::Serialize;
use serde_json::{Map, Value};

use super::End;
use crate::devtool::{About, EventKind};

/// Where a frame stands and who made it.
pub(crate) struct Place<'a> {
    pub session: &'a SessionId,
    pub task: &'a TaskId,
    pub at: Millis,
    pub model: &'a str,
}

pub(crate) enum Update {
    /// The task as it is, whole.
    Task,
    Status(Status),
    Piece(Piece),
    /// As it goes out: for dialects whose frames are their own.
    Written {
        body: Value,
        ends: Option<End>,
    },
}

impl Update {
    pub fn ends(&self) -> Option<End> {
        match self {
            Update::Status(status) => status.ends,
            Update::Written { ends, .. } => *ends,
            Update::Task | Update::Piece(_) => None,
        }
    }

    /// Whether a task of later says it, too. What calls did and what was thought is told once.
    pub fn stays(&self) -> bool {
        match self {
            Update::Task | Update::Piece(_) => true,
            Update::Status(status) => {
                status.about.as_ref().is_some_and(|about| about.kind == EventKind::TextContent)
            }
            Update::Written { .. } => false,
        }
    }
}

pub(crate) struct Status {
    pub state: TaskState,
    pub said: Option<Said>,
    pub about: Option<About>,
    pub ends: Option<End>,
}

impl Status {
    pub fn metadata(&self, place: &Place<'_>) -> Option<Map<String, Value>> {
        self.about.as_ref().map(|about| about.metadata(place.model))
    }
}

/// A piece of an artifact; appended to the pieces before it, or in place of them.
pub(crate) struct Piece {
    pub id: String,
    pub name: String,
    pub parts: Vec<Part>,
    pub append: bool,
    pub last: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub id: String,
    pub by: Speaker,
    pub parts: Vec<Part>,
    pub metadata: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Agent,
}

impl Said {
    pub fn text(id: impl Into<String>, text: impl Into<String>) -> Self {
        let parts = vec![Part::Text { text: text.into() }];
        Self { id: id.into(), by: Speaker::Agent, parts, metadata: None }
    }

    /// Objects of the extension's schemas.
    pub fn schemas(id: impl Into<String>, data: Vec<Value>) -> Self {
        let parts = data.into_iter().map(|data| Part::Data { data }).collect();
        Self { id: id.into(), by: Speaker::Agent, parts, metadata: None }
    }
}

/// Our types have no map with keys other than strings, so writing one down does not fail.
pub(crate) fn value_of(shape: &impl Serialize) -> Value {
    serde_json::to_value(shape).unwrap_or_default()
}

/// The same as JSON.
pub(crate) fn text_of(shape: &impl Serialize) -> String {
    serde_json::to_string(shape).unwrap_or_default()
}
