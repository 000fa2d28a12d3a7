//! Parses a command's file: Markdown with front matter, or TOML as in Gemini CLI.
//!
//! The front matter is a simple subset of YAML, extended by values that people write although they are
//! not YAML: `argument-hint: [issue] [priority]`, `description: Fix: all`. Values of unused keys may be
//! anything.

use serde::Deserialize;

use super::template::Template;
use crate::workspace::shown;

/// Characters of a description.
const DESCRIPTION: usize = 200;
/// Characters of a hint.
const HINT: usize = 80;

/// A command without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFile {
    pub description: String,
    pub hint: Option<String>,
    pub template: Template,
    /// Keys without effect.
    pub ignored: Vec<String>,
}

/// An error in a file, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    pub line: Option<usize>,
    pub why: String,
}

impl FileError {
    fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line: Some(line), why: why.into() }
    }

    pub fn whole(why: impl Into<String>) -> Self {
        Self { line: None, why: why.into() }
    }
}

pub fn markdown(text: &str) -> Result<CommandFile, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (keys, body) = front_matter(text)?;
    let body = body.trim();
    if body.is_empty() {
        return Err(FileError::whole("it contains no prompt"));
    }
    let template = Template::markdown(body).map_err(FileError::whole)?;
    let take = |name: &str| {
        let found = keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.trim().is_empty())
    };
    let ignored = keys.iter().map(|(key, _)| key.as_str());
    let ignored = ignored.filter(|key| !["description", "argument-hint", "name"].contains(key));
    Ok(CommandFile {
        description: cut(take("description").unwrap_or(first_line(body)), DESCRIPTION),
        hint: take("argument-hint").map(|hint| cut(hint, HINT)),
        template,
        ignored: ignored.map(|key| format!("`{}`", shown(key))).collect(),
    })
}

pub fn toml(text: &str) -> Result<CommandFile, FileError> {
    #[derive(Deserialize)]
    struct Command {
        prompt: String,
        description: Option<String>,
        #[serde(flatten)]
        others: toml::Table,
    }
    let command: Command = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map(|before| before.matches('\n').count() + 1);
        FileError { line, why: shown(error.message()) }
    })?;
    if command.prompt.trim().is_empty() {
        return Err(FileError::whole("it contains no prompt"));
    }
    let prompt = command.prompt.trim();
    let description = command.description.filter(|text| !text.trim().is_empty());
    Ok(CommandFile {
        description: cut(description.as_deref().unwrap_or(first_line(prompt)), DESCRIPTION),
        hint: None,
        template: Template::braces(prompt).map_err(FileError::whole)?,
        ignored: command.others.keys().map(|key| format!("`{}`", shown(key))).collect(),
    })
}

fn first_line(text: &str) -> &str {
    text.lines()
        .map(|line| line.trim_start_matches('#').trim())
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

/// One line, limited to `most` characters.
fn cut(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|letter| !letter.is_control()).collect();
    match line.chars().count() > most {
        true => line.chars().take(most - 1).chain(['…']).collect(),
        false => line,
    }
}

type Keys = Vec<(String, String)>;

/// The keys between two lines of `---` at the start, and the text after them.
fn front_matter(text: &str) -> Result<(Keys, &str), FileError> {
    let Some(rest) = fence(text) else { return Ok((Keys::new(), text)) };
    let mut keys = Keys::new();
    let mut inside = rest;
    let mut number = 1;
    let mut block: Option<bool> = None;
    loop {
        number += 1;
        if let Some(body) = fence(inside) {
            return Ok((keys, body));
        }
        let (line, after) = match inside.split_once('\n') {
            Some((line, after)) => (line.trim_end(), after),
            None => return Err(FileError::at(1, "the front matter has no closing line `---`")),
        };
        inside = after;
        let indented = line.starts_with([' ', '\t']) || line.starts_with("- ") || line == "-";
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if indented {
            // A value over several lines, or a list; lists are ignored.
            let Some((_, value)) = keys.last_mut() else {
                return Err(FileError::at(number, "a value without a key"));
            };
            if let Some(kept) = block {
                value.push_str(if kept && !value.is_empty() { "\n" } else { " " });
                value.push_str(line.trim());
            }
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(FileError::at(number, format!("`{}` is not `key: value`", cut(line, 40))));
        };
        let key = key.trim().to_ascii_lowercase();
        if keys.iter().any(|(known, _)| *known == key) {
            return Err(FileError::at(number, format!("`{}` is defined twice", cut(&key, 40))));
        }
        let value = value.trim();
        block = match value {
            "|" | "|-" | "|+" => Some(true),
            ">" | ">-" | ">+" => Some(false),
            _ => None,
        };
        let value = if block.is_some() {
            String::new()
        } else {
            scalar(value).map_err(|why| FileError::at(number, why))?
        };
        keys.push((key, value));
    }
}

/// The text after a line of three dashes at the start.
fn fence(text: &str) -> Option<&str> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    (line.trim_end() == "---").then_some(rest)
}

fn scalar(value: &str) -> Result<String, String> {
    if let Some(inside) = value.strip_prefix('\'') {
        let end = inside.replace("''", "\u{0}");
        let (text, _) = end.split_once('\'').ok_or("a quote is not closed")?;
        return Ok(text.replace('\u{0}', "'"));
    }
    if let Some(inside) = value.strip_prefix('"') {
        let mut text = String::new();
        let mut letters = inside.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => return Ok(text),
                '\\' => match letters.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(other) => text.push(other),
                    None => break,
                },
                letter => text.push(letter),
            }
        }
        return Err("a quote is not closed".to_owned());
    }
    // A comment begins after a space.
    let text = value.split_once(" #").map_or(value, |(text, _)| text);
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
