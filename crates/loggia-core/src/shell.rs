//! Command rules, and the port through which the policy reads shell lines.
//!
//! Not here: parsing. `loggia-shell` implements [`ShellParser`], so that the core does
//! not depend on a parser.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Reads shell lines for the policy. Implementations are pure functions: they know no environment and
/// no file system, and the same line always gives the same answer.
pub trait ShellParser {
    /// The commands of a line that consists of simple commands with literal words only. None for every
    /// other line: a rule must not allow it.
    fn plain_commands(&self, line: &str) -> Option<Vec<PlainCommand>>;

    /// Whether the line runs, or could run, a command that the pattern denies.
    fn denies(&self, line: &str, pattern: &CommandPattern) -> Option<Denial>;
}

/// One command as the shell would run it: its words, quotes resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainCommand {
    pub words: Vec<String>,
}

/// Why a deny rule applies to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The line could run the command: some word or text is only known once the shell has expanded it.
    Possible,
    /// The line contains the words of the rule.
    Named,
}

/// A rule about commands, as words: `git log` exact, or `git log *` for "and any further words".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Hash, PartialOrd, Ord)]
pub struct CommandPattern {
    pub words: Vec<String>,
    pub open: bool,
}

impl CommandPattern {
    /// Matches this command only, without further words.
    pub fn exact(command: &PlainCommand) -> CommandPattern {
        CommandPattern { words: command.words.clone(), open: false }
    }

    pub fn matches(&self, command: &PlainCommand) -> bool {
        // Patterns are read from files: one without words must not match every command.
        !self.words.is_empty()
            && command.words.starts_with(&self.words)
            && (self.open || command.words.len() == self.words.len())
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        words.extend(self.open.then(|| "*".to_owned()));
        formatter.write_str(&words.join(" "))
    }
}

/// Quotes a text so that a shell reads it as one word.
pub fn quoted(word: &str) -> String {
    let bare =
        |character: char| character.is_ascii_alphanumeric() || "_-./:=,@+".contains(character);
    if !word.is_empty() && word.chars().all(bare) {
        word.to_owned()
    } else {
        // No backslash: in some locales it can be read as part of the character before it.
        format!("'{}'", word.replace('\'', r#"'"'"'"#))
    }
}
