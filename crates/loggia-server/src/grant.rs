//! What somebody's tasks may do where nobody can be asked. The one place that says so: a session
//! gets it as its mode when it is opened, and policy does the rest.

use loggia_core::Mode;

use crate::auth::{Grant, Principal};

/// The mode of an unattended session of this principal: what the server lets pass anyway, or what
/// the principal was granted, whichever is more. Read only stays read only.
pub(crate) fn unattended_mode(default: Mode, principal: &Principal) -> Mode {
    match (default, granted(principal)) {
        (Mode::Plan, _) => Mode::Plan,
        (Mode::All, _) | (_, Mode::All) => Mode::All,
        (Mode::Edits, _) | (_, Mode::Edits) => Mode::Edits,
        (Mode::Ask, Mode::Ask | Mode::Plan) => Mode::Ask,
    }
}

/// What was granted when the client was registered.
fn granted(principal: &Principal) -> Mode {
    match principal.grant {
        Grant::None => Mode::Ask,
        Grant::Edits => Mode::Edits,
        Grant::All => Mode::All,
    }
}
