//! Reads a script from its file, and names the place where it is wrong.

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
    pub place: Option<Place>,
    pub message: String,
}

/// Counted from one, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(out, ":{line}:{column}")?;
        }
        write!(out, ": {}", self.message)
    }
}

pub fn read(file: &str, path: &Path) -> Result<String, ScriptError> {
    let wrong = |message: String| ScriptError { file: file.to_owned(), place: None, message };
    let unread = |error: io::Error| wrong(format!("the script cannot be read: {error}"));
    // Looked at before it is opened: opening a pipe would wait for its writer.
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

/// What a file says.
#[derive(Debug)]
pub struct Script {
    pub rules: Vec<Rule>,
    pub window: Option<u64>,
}

pub fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
    let wrong = |place, message: String| ScriptError { file: file.to_owned(), place, message };
    let ending = Path::new(file).extension().map(|ending| ending.to_ascii_lowercase());
    let form: FileForm = match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("toml") => toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| place_at(text, span.start));
            wrong(place, error.message().trim_end().to_owned())
        })?,
        Some("json") => serde_json::from_str(text).map_err(|error| {
            let place = Place { line: error.line(), column: error.column() };
            wrong(Some(place), without_place(&error))
        })?,
        _ => return Err(wrong(None, "a script's name ends in .toml or .json".to_owned())),
    };
    if form.rule.is_empty() {
        return Err(wrong(None, "the script has no rule".to_owned()));
    }
    Ok(Script { rules: form.rule, window: form.window.map(NonZeroU64::get) })
}

fn place_at(text: &str, offset: usize) -> Place {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
    let last = before.rsplit('\n').next().unwrap_or_default();
    Place { line: before.matches('\n').count() + 1, column: last.chars().count() + 1 }
}

/// serde_json ends its sentences with the place, which stands at the front of ours.
fn without_place(error: &serde_json::Error) -> String {
    let sentence = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    sentence.strip_suffix(&place).unwrap_or(&sentence).to_owned()
}
