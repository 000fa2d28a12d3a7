//! The origin of an event: the surface, the client, and the principal.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ClientId;

/// The kind of client, or the part of Loggia, that caused an event.
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
    /// The label before a message from another client: `[A2A]`.
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

/// Separates the name of a principal from the id that makes it unique.
pub const PRINCIPAL_SEPARATOR: char = '~';

/// Prefix of the principals of the user's own processes.
const LOCAL_PREFIX: &str = "local:";

/// The client id of the timeout policy, which answers questions left open.
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

    /// The display name of the principal: the part before [`PRINCIPAL_SEPARATOR`]. The local user has
    /// none. The part after it tells two principals of the same name apart.
    pub fn name(&self) -> Option<&str> {
        self.guest()?.split(PRINCIPAL_SEPARATOR).next()
    }

    /// Whether the owner has this name as a principal.
    pub fn is_owner(principal: &str) -> bool {
        principal.starts_with(LOCAL_PREFIX)
    }

    /// The principal, unless it is the owner. The owner is the user who runs Loggia, at the terminal or
    /// through a local process without a credential.
    pub fn guest(&self) -> Option<&Arc<str>> {
        self.principal.as_ref().filter(|principal| !Self::is_owner(principal))
    }

    pub fn agent() -> Self {
        Self::new(Surface::Agent, "agent")
    }

    /// The policy for questions that time out.
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
        // A principal without a name is shown by its client id.
        write!(out, "{}:{}", self.surface.label(), self.name().unwrap_or(self.client.as_str()))
    }
}
