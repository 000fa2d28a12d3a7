//! The origins of this person.
//!
//! A terminal gets another origin after each reconnect. In the session's own process, all earlier
//! terminals and command lines belong to the same person, because only this person can open the
//! session there.

use loggia_core::{Origin, Surface};

/// Maximum number of earlier origins.
const MOST: usize = 256;

/// The current and earlier origins.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnOrigins {
    now: Origin,
    before: Vec<Origin>,
}

impl OwnOrigins {
    pub fn new(now: Origin) -> Self {
        Self { now, before: Vec::new() }
    }

    /// Sets the current origin.
    pub fn set_current(&mut self, origin: Origin) {
        if origin != self.now {
            self.before.push(std::mem::replace(&mut self.now, origin));
            let over = self.before.len().saturating_sub(MOST);
            self.before.drain(..over);
        }
    }

    pub fn contains(&self, origin: &Origin) -> bool {
        self.now == *origin
            || self.before.contains(origin)
            || (is_here(&self.now) && is_here(origin))
    }
}

/// A terminal or command line in the session's own process.
fn is_here(origin: &Origin) -> bool {
    origin.principal.is_none() && matches!(origin.surface, Surface::Tui | Surface::Cli)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached(client: &str) -> Origin {
        Origin { principal: Some("local:1000".into()), ..Origin::new(Surface::Tui, client) }
    }

    #[test]
    fn all_local_terminals_and_command_lines_are_the_same_person() {
        let origins = OwnOrigins::new(Origin::new(Surface::Tui, "tui-2"));
        for (origin, wanted) in [
            (Origin::new(Surface::Tui, "tui-2"), true),
            (Origin::new(Surface::Tui, "tui-1"), true),
            (Origin::new(Surface::Cli, "cli-7"), true),
            (Origin::new(Surface::A2a, "phone"), false),
            (attached("ann@1"), false),
            (Origin::agent(), false),
            (Origin::system(), false),
        ] {
            assert_eq!(origins.contains(&origin), wanted, "{origin}");
        }
    }

    #[test]
    fn a_reconnected_terminal_keeps_its_earlier_origins() {
        let mut origins = OwnOrigins::new(attached("ann@1"));
        assert!(
            !origins.contains(&attached("ann@2"))
                && !origins.contains(&Origin::new(Surface::Tui, "tui-1"))
        );
        origins.set_current(attached("ann@2"));
        assert!(origins.contains(&attached("ann@1")) && origins.contains(&attached("ann@2")));
        assert!(!origins.contains(&attached("bob@1")));
    }
}
