//! Configuration errors: a message with its position and a next step.

use std::fmt;
use std::path::Path;

use crate::style::one_line;

/// A message only, because callers do not distinguish errors. Quoted text is escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    sentence: String,
}

impl ConfigError {
    pub fn new(sentence: impl AsRef<str>) -> Self {
        Self { sentence: one_line(sentence.as_ref()) }
    }

    pub fn at(path: &Path, line: usize, sentence: impl fmt::Display) -> Self {
        Self::new(format!("{}:{line}: {sentence}", path.display()))
    }

    pub fn file(path: &Path, sentence: impl fmt::Display) -> Self {
        Self::new(format!("{}: {sentence}", path.display()))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence)
    }
}

impl std::error::Error for ConfigError {}

/// The start of an untrusted text, for messages.
pub fn shortened(text: &str) -> String {
    const MOST_CHARACTERS: usize = 60;
    let mut short: String = text.chars().take(MOST_CHARACTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
