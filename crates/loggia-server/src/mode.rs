//! The mode of a principal's sessions, on every binding. A session gets it when it is opened; policy does the rest.

use loggia_core::Mode;

use crate::auth::{Grant, Principal};

pub(crate) fn of_principal(default: Mode, principal: &Principal) -> Mode {
    more(default, granted(principal))
}

/// The grant of the client's registration.
fn granted(principal: &Principal) -> Mode {
    match principal.grant {
        Grant::None => Mode::Ask,
        Grant::Edits => Mode::Edits,
        Grant::All => Mode::All,
    }
}

/// The server's default or the grant, whichever allows more. Plan mode stays read-only.
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
    fn a_grant_only_adds() {
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
