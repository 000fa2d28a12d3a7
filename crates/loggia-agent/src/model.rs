//! The port to a language model: a request goes in, deltas come out, in order.
//!
//! A model keeps nothing between requests; all it may know is in the request. Errors say whether
//! and when to try again, so that the turn loop need not know vendors.

mod digest;
pub mod offline;
mod play;
pub mod registry;
pub mod scripted;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use loggia_core::{CallId, CallOutcome, Content, ModelName, Usage};
use serde_json::Value;

use crate::tool::ToolSpec;

pub trait Model: Send + Sync + 'static {
    fn name(&self) -> ModelName;
    /// Tokens that fit into one request and its reply. None: nobody knows, and nothing is shown.
    fn window(&self) -> Option<u64> {
        None
    }
    /// Whether a reply is computed in this process and touches nothing: then it may be asked for
    /// before anything is on disk. What it waits for, it waits for in the stream.
    fn only_computes(&self) -> bool {
        false
    }
    /// Streams one reply. Dropping the stream stops the request. A stream that ends without
    /// [`Delta::Stop`] was cut, and the loop treats it as a failure.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>>;
}

/// Everything a model is told.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    pub purpose: Purpose,
    pub instructions: String,
    /// The conversation, oldest first. Ends with what the model has to react to.
    pub messages: Vec<Message>,
    pub tools: Arc<[ToolSpec]>,
}

/// What a reply is for. The messages say so in words as well; a built-in model reads no words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    #[default]
    Turn,
    /// A text that will stand for the conversation so far. No calls.
    Summary,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What stands for the conversation before this. At most one, and the first.
    Summary(String),
    User(Arc<Content>),
    /// One earlier reply with the results of its calls, if any.
    Reply(Reply),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    pub text: String,
    pub calls: Vec<PastCall>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PastCall {
    pub call: CallId,
    pub tool: String,
    pub input: Value,
    /// Every call has ended when the model is asked again.
    pub outcome: CallOutcome,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Thought {
        subject: String,
        text: String,
    },
    /// One whole call. `input` is the model's text where it was not readable as JSON.
    Call {
        tool: String,
        input: Result<Value, String>,
    },
    Usage(Usage),
    Stop,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    pub message: String,
    /// When the provider said to come back. Only looked at where the kind may be retried.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// Key missing or refused: only a person can help.
    Authentication,
    RateLimited,
    Overloaded,
    /// The connection broke or the stream was cut.
    Transport,
    ContextTooLong,
    /// The reply was not understood.
    Malformed,
    /// The model says no, or is told to fail.
    Refused,
}

impl ModelError {
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    pub fn may_retry(&self) -> bool {
        match self.kind {
            ModelErrorKind::RateLimited
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Transport => true,
            ModelErrorKind::Authentication
            | ModelErrorKind::ContextTooLong
            | ModelErrorKind::Malformed
            | ModelErrorKind::Refused => false,
        }
    }
}
