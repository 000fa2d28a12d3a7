//! Refuses actions that only a person may start: trusting a directory, resuming a session,
//! registering a client, revoking something.
//!
//! The kernel reports which processes started this one ([`loggia_server::peer::ancestry`]). A
//! command can choose its environment, terminal and executable, but not its ancestors.
//! docs/authentication.md describes what other processes of the same user can do.

use anyhow::bail;
use loggia_server::peer::{Ancestry, ancestry};

/// Resuming a session allows answering its open questions.
pub const RESUME: &str = "resume another session";

/// Whether an agent's command started this process. True if the kernel does not tell.
pub fn is_agent_command() -> bool {
    ancestry() != Ancestry::Person
}

/// Fails if an agent's command started this process. `what` completes "cannot …".
pub fn require_person(what: &str) -> anyhow::Result<()> {
    match ancestry() {
        Ancestry::Person => Ok(()),
        Ancestry::Loggia => {
            bail!("a command run by Loggia cannot {what}: use your own terminal")
        }
        Ancestry::Unreadable(why) => bail!(
            "this process cannot {what}, because Loggia cannot determine which process started it: \
             {why}; use your own terminal, outside the sandbox"
        ),
    }
}

#[cfg(test)]
mod tests {
    /// The crates do not depend on each other: one sets the name, the other looks for it.
    #[test]
    fn a_guard_is_looked_for_by_its_own_name() {
        assert_eq!(loggia_agent::guard::NAME, loggia_server::peer::GUARD);
    }
}
