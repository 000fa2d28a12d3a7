//! What a person does and a command of the agent does not: trusting a directory, resuming a session
//! and answering there, letting a client in, taking something back.
//!
//! The kernel says which processes started this one ([`loggia_server::peer::ancestry`]). A command can
//! choose its environment, its terminal and the file that it runs, but not its parents. What a
//! process of the same user can do without these commands is in docs/authentication.md.

use anyhow::bail;
use loggia_server::peer::{Ancestry, ancestry};

/// Resuming a session means answering the questions that are open there.
pub const GO_ON: &str = "go on in another session";

/// Whether a person may have started this process. Not so where the kernel does not say.
pub fn is_call() -> bool {
    ancestry() != Ancestry::Person
}

/// Refuses a call. `what` goes on "cannot …".
pub fn only_by_hand(what: &str) -> anyhow::Result<()> {
    match ancestry() {
        Ancestry::Person => Ok(()),
        Ancestry::Loggia => {
            bail!("a command that Loggia runs cannot {what}: do it in your own terminal")
        }
        Ancestry::Unreadable(why) => bail!(
            "this process cannot {what}, because Loggia cannot tell who started it: {why}; do it in \
             your own terminal, outside of such a sandbox"
        ),
    }
}

#[cfg(test)]
mod tests {
    /// Two crates that do not know each other: one gives the name, the other looks for it.
    #[test]
    fn a_guard_is_looked_for_by_its_own_name() {
        assert_eq!(loggia_agent::guard::NAME, loggia_server::peer::GUARD);
    }
}
