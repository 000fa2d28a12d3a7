//! The port to a language model: a request goes in, deltas come out, in order.
//!
//! A model keeps no state between requests; a request contains everything that the model gets. Errors
//! say whether and when to retry, so that the turn loop need not know providers.

mod actions;
pub mod offline;
pub mod registry;
pub mod scripted;
mod summarize;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use loggia_core::{CallId, CallOutcome, Content, ModelName, Usage};
use serde::Deserialize;
use serde_json::Value;

use crate::tool::ToolSpec;

pub trait Model: Send + Sync + 'static {
    fn name(&self) -> ModelName;
    /// Tokens of one request and its reply. None if unknown.
    fn window(&self) -> Option<u64> {
        None
    }
    /// Streams one reply. Dropping the stream stops the request. A stream that ends without
    /// [`Delta::Stop`] was cut, and the loop treats it as a failure.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>>;
}

/// Everything that a model gets.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    pub purpose: Purpose,
    pub instructions: String,
    /// The conversation, oldest first. The model replies to the last message.
    pub messages: Vec<Message>,
    pub tools: Arc<[ToolSpec]>,
}

/// The purpose of a reply. The messages also say it, but the built-in models do not understand text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    #[default]
    Turn,
    /// A text that will replace the conversation so far. No calls.
    Summary,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Replaces the earlier conversation. At most one, as the first message.
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
    /// All calls have ended before the next request.
    pub outcome: CallOutcome,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Thought {
        subject: String,
        text: String,
    },
    /// One complete call. `input` is the model's text if it is not valid JSON.
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
    /// The wait that the provider requested. Used only if the kind allows a retry.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// The key is missing or refused.
    Authentication,
    RateLimited,
    Overloaded,
    /// The connection broke or the stream was cut.
    Transport,
    ContextTooLong,
    /// The reply could not be parsed.
    Malformed,
    /// The model refused, or a script told it to fail.
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
