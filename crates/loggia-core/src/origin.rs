//! Who did it: the surface a fact came through, the client, and the principal behind it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ClientId;

/// The kind of client, or the part of Loggia, that caused a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    Cli,
    Tui,
    A2a,
    Acp,
    Web,
    Sdlc,
    Legacy,
    Agent,
    Policy,
    System,
}

impl Surface {
    /// The word people see in front of a message that came from elsewhere: `[A2A]`.
    pub fn label(self) -> &'static str {
        match self {
            Surface::Cli => "CLI",
            Surface::Tui => "TUI",
            Surface::A2a => "A2A",
            Surface::Acp => "ACP",
            Surface::Web => "web",
            Surface::Sdlc => "SDLC",
            Surface::Legacy => "legacy",
            Surface::Agent => "agent",
            Surface::Policy => "policy",
            Surface::System => "loggia",
        }
    }
}

/// Between a principal's name and what is its own for ever.
pub const MARK: char = '~';

/// What the principals of the user's own processes begin with.
const LOCAL: &str = "local:";

/// What answers where nobody does.
const TIME_OUT: &str = "time-out";

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    pub surface: Surface,
    pub client: ClientId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Arc<str>>,
}

impl Origin {
    pub fn new(surface: Surface, client: impl Into<ClientId>) -> Self {
        Self { surface, client: client.into(), principal: None }
    }

    /// The principal as people call it, if it has a name: "whoever is this user here" has none. Behind
    /// a [`MARK`] stands what tells it from an earlier one of the same name.
    pub fn name(&self) -> Option<&str> {
        self.guest()?.split(MARK).next()
    }

    /// The principal, unless it is the owner: the user who runs Loggia, at the terminal or through a
    /// local process that needs no credential.
    pub fn guest(&self) -> Option<&Arc<str>> {
        self.principal.as_ref().filter(|principal| !principal.starts_with(LOCAL))
    }

    pub fn agent() -> Self {
        Self::new(Surface::Agent, "agent")
    }

    /// Nobody: the policy for questions that are left open.
    pub fn timeout() -> Self {
        Self::new(Surface::Policy, TIME_OUT)
    }

    pub fn system() -> Self {
        Self::new(Surface::System, "loggia")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.surface == Surface::Policy && self.client.as_str() == TIME_OUT {
            return write!(out, "the {TIME_OUT}");
        }
        // Somebody with a name goes by it; others are told apart by their client.
        write!(out, "{}:{}", self.surface.label(), self.name().unwrap_or(self.client.as_str()))
    }
}
