//! Reads shell command lines for the policy of `loggia-core`.
//!
//! [`plain_commands`] splits a line into commands if it is plain enough for an allow rule;
//! [`denies`] says whether a line could run a command that a deny rule names.
//!
//! Not here: the rules themselves and their verdicts (`loggia_core::policy`), the
//! environment, the file system, and which shell runs the line.

mod denied;
mod plain;
mod script;

pub use denied::{denies, mentions};
pub use plain::{NotPlain, parse_denied_pattern, parse_pattern, plain_commands};

use loggia_core::shell::{CommandPattern, Denial, PlainCommand, ShellParser};

/// The functions of this crate as the port of the core.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parser;

impl ShellParser for Parser {
    fn plain_commands(&self, line: &str) -> Option<Vec<PlainCommand>> {
        plain_commands(line).ok()
    }

    fn denies(&self, line: &str, pattern: &CommandPattern) -> Option<Denial> {
        denies(line, pattern)
    }
}
