//! A question about a call, and the answers to choose from.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::call::Details;
use crate::id::{ApprovalId, CallId};
use crate::policy::RuleLifetime;

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

    /// Whether a client that is not the owner may give this answer. Only the owner may add rules for the whole project.
    pub fn is_for_guests(&self) -> bool {
        self.known().and_then(KnownChoice::rule_lifetime) != Some(RuleLifetime::Project)
    }

    /// None for an option of a question and for an id of a newer version.
    pub fn known(&self) -> Option<KnownChoice> {
        KnownChoice::from_id(&self.0)
    }
}

/// The answers that Loggia itself offers, with all that screens and protocols need to know about them. Match it without
/// a `_` arm: the compiler then names each screen and protocol that does not cover a new answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KnownChoice {
    ProceedOnce,
    ProceedAlways,
    ProceedAlwaysProject,
    Cancel,
    Answer,
}

/// What an answer allows, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// This call.
    Call,
    /// This call, and by a rule others of the session.
    Session,
    /// This call, and by a rule others in the workspace.
    Project,
}

impl KnownChoice {
    pub const ALL: [Self; 5] = [
        Self::ProceedOnce,
        Self::ProceedAlways,
        Self::ProceedAlwaysProject,
        Self::Cancel,
        Self::Answer,
    ];

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.id() == id)
    }

    pub fn id(self) -> &'static str {
        match self {
            Self::ProceedOnce => ChoiceId::PROCEED_ONCE,
            Self::ProceedAlways => ChoiceId::PROCEED_ALWAYS,
            Self::ProceedAlwaysProject => ChoiceId::PROCEED_ALWAYS_PROJECT,
            Self::Cancel => ChoiceId::CANCEL,
            Self::Answer => ChoiceId::ANSWER,
        }
    }

    /// The word that a person types for it, and its key. None if the person types the answer itself.
    pub fn word_and_key(self) -> Option<(&'static str, char)> {
        match self {
            Self::ProceedOnce => Some(("yes", 'y')),
            Self::ProceedAlways => Some(("always", 'a')),
            Self::ProceedAlwaysProject => Some(("project", 'p')),
            Self::Cancel => Some(("no", 'n')),
            Self::Answer => None,
        }
    }

    /// None if it allows no call.
    pub fn reach(self) -> Option<Reach> {
        match self {
            Self::ProceedOnce => Some(Reach::Call),
            Self::ProceedAlways => Some(Reach::Session),
            Self::ProceedAlwaysProject => Some(Reach::Project),
            Self::Cancel | Self::Answer => None,
        }
    }

    /// The lifetime of the rule that it adds, if it adds one.
    pub fn rule_lifetime(self) -> Option<RuleLifetime> {
        match self.reach()? {
            Reach::Call => None,
            Reach::Session => Some(RuleLifetime::Session),
            Reach::Project => Some(RuleLifetime::Project),
        }
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
