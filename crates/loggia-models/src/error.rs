//! Why a reply failed. The turn loop reacts to the kind; the message is a sentence for people.

use std::time::Duration;

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    pub message: String,
    /// The wait that the vendor asked for.
    pub retry_after: Option<Duration>,
    /// The vendor's own word on whether to retry, which overrides the kind.
    pub should_retry: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// The key is missing or refused.
    Authentication,
    /// The vendor does not offer this model.
    UnknownModel,
    RateLimited,
    /// The quota or the money is spent: a retry does not help.
    QuotaSpent,
    Overloaded,
    /// The connection broke, or the stream stalled or was cut.
    Transport,
    ContextTooLong,
    /// The vendor does not accept the items of earlier replies.
    HistoryRejected,
    /// The reply could not be parsed.
    Malformed,
    /// The model or a filter refused, or a script told it to fail.
    Refused,
    /// The vendor does not accept the request, for another reason.
    BadRequest,
}

impl ModelError {
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, should_retry: None }
    }

    pub fn may_retry(&self) -> bool {
        self.should_retry.unwrap_or(match self.kind {
            ModelErrorKind::RateLimited
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Transport => true,
            ModelErrorKind::Authentication
            | ModelErrorKind::UnknownModel
            | ModelErrorKind::QuotaSpent
            | ModelErrorKind::ContextTooLong
            | ModelErrorKind::HistoryRejected
            | ModelErrorKind::Malformed
            | ModelErrorKind::Refused
            | ModelErrorKind::BadRequest => false,
        })
    }
}
