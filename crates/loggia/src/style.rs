//! How text looks on a terminal: colours where they are wanted, and nothing that the terminal
//! would obey or hide in a text that somebody else wrote.
//!
//! What must not be here: what is printed, and when.

use std::fmt::Write as _;
use std::io::IsTerminal;

use clap::ValueEnum;
use loggia_tui::safe::{is_unseen, joins};

use crate::config::Environment;

/// What a command prints for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// Whether colours are wanted. Texts are passed through [`printable`] by whoever has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    color: bool,
}

impl Style {
    /// For both output streams: a redirected one must not get colours because the other is a
    /// terminal.
    pub fn new(environment: &Environment) -> Self {
        let terminals = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        Self::detect(environment, terminals)
    }

    /// `NO_COLOR` forbids, `CLICOLOR_FORCE` and `FORCE_COLOR` demand, `TERM=dumb` and
    /// `CLICOLOR=0` decline, and otherwise the terminal decides.
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

    /// Dims a line and leaves its end alone, so that no colour runs into the next one.
    pub fn dim_line(&self, line: &str) -> String {
        match line.strip_suffix('\n') {
            Some(body) => self.dim(body) + "\n",
            None => self.dim(line),
        }
    }

    /// A unified diff: what goes in red, what comes in green, where in cyan.
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

/// The text with everything a terminal would obey or hide written out as `\u{…}`. Line breaks and
/// tabs stay, and so do the two joiners where they belong to an emoji.
///
/// For every text of a model, a tool, a file or a client, before it reaches a terminal.
pub fn printable(text: &str) -> String {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

/// The same on one line, for texts that are quoted inside a sentence.
pub fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// A sentence on standard error, after the program's name.
pub fn say(text: &str) {
    eprintln!("loggia: {}", indented(text));
}

/// A text that may hold names and paths of others: its later lines are set in, so that none of them
/// looks like a line of Loggia's own.
pub fn indented(text: &str) -> String {
    printable(text).replace('\n', "\n        ")
}

/// A path or a name inside of a sentence.
pub fn shown(path: &std::path::Path) -> String {
    one_line(&path.display().to_string())
}

/// A JSON document with everything a terminal would obey or hide written as an escape of JSON, so that
/// it means the same.
pub fn json_line(value: &impl std::fmt::Display) -> String {
    json_text(&value.to_string())
}

/// The same for a document that is text already.
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
