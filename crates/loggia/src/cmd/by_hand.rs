//! What a person does and a command of the agent does not: trusting a directory, going on in a session
//! and answering there, letting somebody in.
//!
//! Commands of the agent, and prompt hooks, carry a mark in their environment. It stops an accident, not
//! an attack: that is stopped by the question that every command asks, and on the wire by the
//! kernel's word about who descends from whom.

use anyhow::bail;

use crate::compose::App;

/// Set for every process that Loggia runs for an agent.
const MARK: &str = "LOGGIA";

/// Whoever opens a session answers for it: questions that are open there included.
pub const GO_ON: &str = "go on in another session";

/// Whether this process belongs to a call, or to a hook.
pub fn is_call(app: &App) -> bool {
    app.environment.get_os(MARK).is_some()
}

/// Refuses a call. `what` goes on "cannot …".
pub fn only_by_hand(what: &str, app: &App) -> anyhow::Result<()> {
    if is_call(app) {
        bail!("a command that Loggia runs cannot {what}: do it in your own terminal");
    }
    Ok(())
}
