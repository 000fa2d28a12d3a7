//! One frame of a stream: its id, its body, and whether a request's stream may end with it.

use std::fmt;
use std::str::FromStr;

use loggia_core::{Seq, TaskId, TaskState};
use serde_json::Value;

/// The position of a frame: the event it comes from, and its number among that event's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FrameId {
    pub seq: Seq,
    pub k: u32,
}

impl fmt::Display for FrameId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.seq, self.k)
    }
}

impl FromStr for FrameId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (seq, k) = text.trim().split_once('.').ok_or(())?;
        Ok(Self { seq: Seq(seq.parse().map_err(|_| ())?), k: k.parse().map_err(|_| ())? })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub id: FrameId,
    pub task: TaskId,
    /// The `result` of a JSON-RPC response, the `data` of an HTTP+JSON stream.
    pub body: Value,
    pub ends: Option<End>,
    /// Contained in every later snapshot of the task.
    pub is_in_snapshot: bool,
    /// The whole task, not an update of it.
    pub whole: bool,
}

/// Why a request's stream may end with a frame. In 0.3 either is `final: true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The task waits for an answer. A subscription continues.
    InputRequired,
    /// The task is over.
    Terminal,
}

impl End {
    pub(super) fn of(state: TaskState) -> Option<End> {
        match state {
            TaskState::Submitted | TaskState::Working => None,
            TaskState::InputRequired => Some(End::InputRequired),
            TaskState::Completed
            | TaskState::Failed
            | TaskState::Canceled
            | TaskState::Rejected => Some(End::Terminal),
        }
    }
}
