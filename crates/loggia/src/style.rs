//! Terminal output: colours, and escaping of untrusted text.
//!
//! This module does not decide what is printed.

use std::fmt::Write as _;
use std::io::IsTerminal;

use clap::ValueEnum;
use loggia_tui::safe::{is_unseen, joins};

use crate::config::Environment;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// Whether to use colours. Callers pass texts through [`printable`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    color: bool,
}

impl Style {
    /// Uses colours only if stdout and stderr are both terminals, so that a redirected stream gets
    /// none.
    pub fn new(environment: &Environment) -> Self {
        let terminals = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        Self::detect(environment, terminals)
    }

    /// `NO_COLOR` disables, `CLICOLOR_FORCE` and `FORCE_COLOR` enable, `TERM=dumb` and `CLICOLOR=0`
    /// disable; otherwise the terminal decides.
    pub fn detect(environment: &Environment, is_terminal: bool) -> Self {
        let set = |name: &str| environment.get_os(name).is_some_and(|value| value != "0");
        let color = if environment.get_os("NO_COLOR").is_some() {
            false
        } else if set("CLICOLOR_FORCE") || set("FORCE_COLOR") {
            true
        } else {
            is_terminal
                && environment.get("TERM") != Some("dumb")
                && environment.get("CLICOLOR") != Some("0")
        };
        Self { color }
    }

    pub fn color(&self) -> bool {
        self.color
    }

    pub fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn dim(&self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn red(&self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub fn green(&self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub fn yellow(&self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub fn cyan(&self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// Dims a line but not its line break, so that no colour continues on the next line.
    pub fn dim_line(&self, line: &str) -> String {
        match line.strip_suffix('\n') {
            Some(body) => self.dim(body) + "\n",
            None => self.dim(line),
        }
    }

    /// Colours a unified diff: removed red, added green, positions cyan.
    pub fn diff(&self, unified: &str) -> String {
        let color = |line: &str| {
            let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
            let shown = match body.chars().next() {
                Some('+') => self.green(body),
                Some('-') => self.red(body),
                Some('@') => self.cyan(body),
                _ => body.to_owned(),
            };
            shown + end
        };
        unified.split_inclusive('\n').map(color).collect()
    }

    fn wrap(&self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Escapes every control or invisible character as `\u{…}`, except line breaks, tabs and the
/// joiners inside an emoji.
///
/// Use it for every text of a model, tool, file or client before it reaches a terminal.
pub fn printable(text: &str) -> String {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

/// Like [`printable`], but also escapes line breaks and tabs, for text inside a sentence.
pub fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Prints a message to standard error with the program's name.
pub fn say(text: &str) {
    eprintln!("loggia: {}", indented(text));
}

/// Indents all lines but the first, so that untrusted text cannot imitate a message of Loggia.
pub fn indented(text: &str) -> String {
    printable(text).replace('\n', "\n        ")
}

/// A path for use in a sentence.
pub fn shown(path: &std::path::Path) -> String {
    one_line(&path.display().to_string())
}

/// A JSON value with control and invisible characters as JSON escapes.
pub fn json_line(value: &impl std::fmt::Display) -> String {
    json_text(&value.to_string())
}

/// Like [`json_line`] for serialized JSON.
pub fn json_text(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    for character in document.chars() {
        if character == '\n' || !is_unseen(character) {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let kept = keeps(character)
            || !is_unseen(character)
            || joins(before, character, rest.peek().copied());
        if kept {
            shown.push(character);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        }
        before = Some(character);
    }
    shown
}

#[cfg(test)]
#[path = "style_tests.rs"]
mod tests;
