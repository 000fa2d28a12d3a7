//! The settings of a session: workspace, model, policy and limits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::Effort;
use crate::policy::{Mode, Rule};
use crate::repository::Repository;
use crate::timeout::{OnTimeout, Timeout};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelName(pub String);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentName(pub String);

impl fmt::Display for ModelName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Where the session works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Workspace {
    Local {
        path: String,
    },
    /// A directory for this session only. Its first turn clones the repository into it.
    Clone {
        path: String,
        repository: Repository,
    },
}

impl Workspace {
    pub fn path(&self) -> &str {
        match self {
            Workspace::Local { path } | Workspace::Clone { path, .. } => path,
        }
    }

    /// The cloned repository.
    pub fn repository(&self) -> Option<&Repository> {
        match self {
            Workspace::Local { .. } => None,
            Workspace::Clone { repository, .. } => Some(repository),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub model: ModelName,
    /// None: the model's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    pub mode: Mode,
    /// Rules from configuration and from earlier sessions of the project.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// The tools the agent is given; None means all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// No person can answer: a call that would need an approval is refused at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// How unanswered questions are treated; None: they wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    #[serde(default)]
    pub limits: Limits,
}

impl Settings {
    /// The mode and the treatment of unanswered questions, for people.
    pub fn approvals(&self) -> String {
        let mode = self.mode.name();
        match self.timeout.filter(|timeout| timeout.then != OnTimeout::Wait) {
            _ if self.unattended => format!("{mode}, unattended"),
            Some(Timeout { after, then }) => format!("{mode}, {} after {after}", then.done()),
            None => mode.to_owned(),
        }
    }
}

/// Limits of one turn. The agent enforces them and records an exceeded limit in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Replies of the model in one turn.
    pub replies: u32,
    /// Calls in one reply.
    pub calls: u32,
    /// Bytes of text and thoughts in one turn.
    pub text_bytes: u64,
    pub turn_seconds: u64,
    pub call_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            replies: 200,
            calls: 64,
            text_bytes: 8 * 1024 * 1024,
            turn_seconds: 6 * 60 * 60,
            call_seconds: 600,
        }
    }
}
