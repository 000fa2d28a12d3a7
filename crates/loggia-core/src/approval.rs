//! A question about a call, and the answers to choose from.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::call::Details;
use crate::id::{ApprovalId, CallId};

/// How risky a call is. It determines which answers are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    Normal,
    /// It changes files that configure Loggia, git or other programs: "always" is not offered.
    High,
}

/// The stable name of an answer, the same in every protocol and on every screen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChoiceId(pub String);

impl ChoiceId {
    pub const PROCEED_ONCE: &'static str = "proceed_once";
    pub const PROCEED_ALWAYS: &'static str = "proceed_always";
    pub const PROCEED_ALWAYS_PROJECT: &'static str = "proceed_always_project";
    pub const CANCEL: &'static str = "cancel";
    /// The answer to a question in words; the words travel in [`Edit::Text`].
    pub const ANSWER: &'static str = "answer";

    pub fn proceeds(&self) -> bool {
        self.0 != Self::CANCEL
    }
}

impl From<&str> for ChoiceId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl std::fmt::Display for ChoiceId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// One offered answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub id: ChoiceId,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The message that contained an answer: the id that its client gave it, and its text if that named
/// a choice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnswerMessage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A change that the person made while answering. It replaces the proposed content, but not the path
/// or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Edit {
    /// The new content of the file. The path stays the same.
    File { content: String },
    /// The command line to run instead.
    Command { command: String },
    /// The answer to a question, in words.
    Text { text: String },
}

/// Which question an answer is for. Some protocols name the approval, some the call, some both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    Approval(ApprovalId),
    Call(CallId),
    Both { approval: ApprovalId, call: CallId },
}

impl Question {
    /// Whether it names this call and approval.
    pub fn is(&self, call: &CallId, approval: &ApprovalId) -> bool {
        match self {
            Self::Approval(named) => named == approval,
            Self::Call(named) => named == call,
            Self::Both { approval: named, call: about } => named == approval && about == call,
        }
    }

    /// Whether it names two ids, and one of them is this one.
    pub(crate) fn is_mixed_with(&self, call: &CallId, approval: &ApprovalId) -> bool {
        match self {
            Self::Approval(_) | Self::Call(_) => false,
            Self::Both { approval: named, call: about } => named == approval || about == call,
        }
    }
}

impl Details {
    /// SHA-256 of the details. An answer with another digest was given to other details.
    pub fn digest(&self) -> String {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        hex(&Sha256::digest(&bytes))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
