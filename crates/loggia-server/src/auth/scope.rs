//! Scopes by name, as in the command line, in `scope` of OAuth and in cards.
//!
//! Which request needs which scope is decided in `required_scopes`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The scopes of a principal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scopes {
    pub read: bool,
    pub prompt: bool,
    pub approve: bool,
    pub admin: bool,
}

/// A permission of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Read,
    Prompt,
    Approve,
    Admin,
}

/// Every scope with its name and a description. Parsing, errors, cards and help texts use this table.
pub const SCOPES: [(Scope, &str, &str); 4] = [
    (Scope::Read, "read", "See sessions, their tasks and what happens in them."),
    (Scope::Prompt, "prompt", "Send messages, run commands, cancel, and register webhooks."),
    (Scope::Approve, "approve", "Answer the questions that a session asks."),
    (Scope::Admin, "admin", "See and use the sessions of every client."),
];

impl Scope {
    pub fn name(self) -> &'static str {
        let row = SCOPES.iter().find(|(scope, ..)| *scope == self);
        row.map_or("", |(_, name, _)| name)
    }
}

/// A word that is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scope `{}`: there are {}", .0.escape_debug(), Scopes::ALL.listed())]
pub struct NoScope(String);

impl Scopes {
    /// Local clients of the user: everything but other clients' sessions.
    pub const CLIENT: Self = Self { read: true, prompt: true, approve: true, admin: false };
    /// The terminal and stdio.
    pub const ALL: Self = Self { read: true, prompt: true, approve: true, admin: true };
    /// The default of a registered client.
    pub const REGISTERED: Self = Self { read: true, prompt: true, approve: false, admin: false };

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn has(&self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Prompt => self.prompt,
            Scope::Approve => self.approve,
            Scope::Admin => self.admin,
        }
    }

    fn add(&mut self, scope: Scope) {
        *match scope {
            Scope::Read => &mut self.read,
            Scope::Prompt => &mut self.prompt,
            Scope::Approve => &mut self.approve,
            Scope::Admin => &mut self.admin,
        } = true;
    }

    pub fn names(&self) -> Vec<&'static str> {
        let held = SCOPES.iter().filter(|(scope, ..)| self.has(*scope));
        held.map(|(_, name, _)| *name).collect()
    }

    /// For sentences: `read, prompt and approve`.
    pub(super) fn listed(&self) -> String {
        match self.names().as_slice() {
            [names @ .., before, last] => {
                let names = names.iter().map(|name| format!("{name}, ")).collect::<String>();
                format!("{names}{before} and {last}")
            }
            names => names.concat(),
        }
    }

    /// Whether all scopes of `other` are in here.
    pub fn covers(&self, other: &Self) -> bool {
        self.and(other) == *other
    }

    /// The scopes that both have.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            read: self.read && other.read,
            prompt: self.prompt && other.prompt,
            approve: self.approve && other.approve,
            admin: self.admin && other.admin,
        }
    }
}

impl FromStr for Scopes {
    type Err = NoScope;

    /// Words separated by spaces or commas, in any order.
    fn from_str(text: &str) -> Result<Self, NoScope> {
        let mut scopes = Self::default();
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            let row = SCOPES.iter().find(|(_, name, _)| *name == word);
            let (scope, ..) = row.ok_or_else(|| NoScope(word.chars().take(64).collect()))?;
            scopes.add(*scope);
        }
        Ok(scopes)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.names().join(" "))
    }
}

impl TryFrom<String> for Scopes {
    type Error = NoScope;

    fn try_from(text: String) -> Result<Self, NoScope> {
        text.parse()
    }
}

impl From<Scopes> for String {
    fn from(scopes: Scopes) -> Self {
        scopes.to_string()
    }
}

/// Which calls run without approval in the sessions that a client opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Only those that the server's own mode lets run.
    #[default]
    None,
    /// File edits.
    Edits,
    All,
}

impl fmt::Display for Grant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Grant::None => "none",
            Grant::Edits => "edits",
            Grant::All => "all",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_as_they_are_written() {
        for bits in 0..16u8 {
            let bit = |place: u8| bits & (1 << place) != 0;
            let scopes = Scopes { read: bit(0), prompt: bit(1), approve: bit(2), admin: bit(3) };
            assert_eq!(scopes.to_string().parse(), Ok(scopes));
            assert!(Scopes::ALL.covers(&scopes) && scopes.covers(&Scopes::default()));
            assert_eq!(scopes.covers(&Scopes::ALL), scopes == Scopes::ALL);
        }
        assert_eq!("prompt,read  read".parse(), Ok(Scopes::REGISTERED));
        for wrong in ["write", "Read", "read;prompt", "read\u{a0}prompt"] {
            assert!(wrong.parse::<Scopes>().is_err(), "{wrong}");
        }
        let error = "write".parse::<Scopes>().unwrap_err().to_string();
        assert_eq!(error, "there is no scope `write`: there are read, prompt, approve and admin");
        assert_eq!(Scope::Approve.name(), "approve");
        assert_eq!(Scopes::REGISTERED.listed(), "read and prompt");
        assert_eq!(Scopes { read: true, ..Scopes::default() }.listed(), "read");
    }
}
