//! What passes for somebody without a question, on every binding. The one place that says so: a session
//! gets it as its mode when it is opened, and policy does the rest.

use loggia_core::Mode;

use crate::auth::{Grant, Principal};

/// The mode of a session of this principal.
pub(crate) fn mode(default: Mode, principal: &Principal) -> Mode {
    more(default, granted(principal))
}

/// What was granted when the client was registered.
fn granted(principal: &Principal) -> Mode {
    match principal.grant {
        Grant::None => Mode::Ask,
        Grant::Edits => Mode::Edits,
        Grant::All => Mode::All,
    }
}

/// What the server lets pass anyway, or what was granted, whichever is more. Read only stays read
/// only.
fn more(default: Mode, granted: Mode) -> Mode {
    match (default, granted) {
        (Mode::Plan, _) => Mode::Plan,
        (Mode::All, _) | (_, Mode::All) => Mode::All,
        (Mode::Edits, _) | (_, Mode::Edits) => Mode::Edits,
        (Mode::Ask, Mode::Ask | Mode::Plan) => Mode::Ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_adds_and_takes_nothing_away() {
        use Mode::{All, Ask, Edits, Plan};
        for (default, granted, wanted) in [
            (Ask, Ask, Ask),
            (Ask, Edits, Edits),
            (Ask, All, All),
            (Edits, Ask, Edits),
            (Edits, All, All),
            (All, Ask, All),
            (All, Edits, All),
            (Plan, All, Plan),
        ] {
            assert_eq!(more(default, granted), wanted, "{default:?} with {granted:?}");
        }
    }
}
