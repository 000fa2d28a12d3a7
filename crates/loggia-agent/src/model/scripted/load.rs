//! Reads a script from its file, and reports the position of an error.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU64;
use std::path::Path;

use super::form::FileForm;
use super::rule::Rule;

/// Largest file that is read.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ScriptError {
    pub file: String,
    pub position: Option<Position>,
    pub message: String,
}

/// Counted from one, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(out, ":{line}:{column}")?;
        }
        write!(out, ": {}", self.message)
    }
}

pub fn read(file: &str, path: &Path) -> Result<String, ScriptError> {
    let wrong = |message: String| ScriptError { file: file.to_owned(), position: None, message };
    let unread = |error: io::Error| wrong(format!("the script cannot be read: {error}"));
    // Checked before opening, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(unread)?.is_file() {
        return Err(wrong("the script is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    let mut limited = File::open(path).map_err(unread)?.take(FILE_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(wrong("the script is larger than 4 MiB".to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| wrong("the script is not UTF-8 text".to_owned()))
}

/// A parsed file.
#[derive(Debug)]
pub struct Script {
    pub rules: Vec<Rule>,
    pub window: Option<u64>,
}

pub fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
    let wrong =
        |position, message: String| ScriptError { file: file.to_owned(), position, message };
    let ending = Path::new(file).extension().map(|ending| ending.to_ascii_lowercase());
    let form: FileForm = match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("toml") => toml::from_str(text).map_err(|error| {
            let position = error.span().map(|span| position_at(text, span.start));
            wrong(position, error.message().trim_end().to_owned())
        })?,
        Some("json") => serde_json::from_str(text).map_err(|error| {
            let position = Position { line: error.line(), column: error.column() };
            wrong(Some(position), without_position(&error))
        })?,
        _ => return Err(wrong(None, "a script's name ends in .toml or .json".to_owned())),
    };
    if form.rule.is_empty() {
        return Err(wrong(None, "the script has no rule".to_owned()));
    }
    Ok(Script { rules: form.rule, window: form.window.map(NonZeroU64::get) })
}

fn position_at(text: &str, offset: usize) -> Position {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
    let last = before.rsplit('\n').next().unwrap_or_default();
    Position { line: before.matches('\n').count() + 1, column: last.chars().count() + 1 }
}

/// serde_json adds the position at the end of its messages; ours have it at the beginning.
fn without_position(error: &serde_json::Error) -> String {
    let sentence = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    sentence.strip_suffix(&position).unwrap_or(&sentence).to_owned()
}
