//! One command's file, read: Markdown with a front matter, or TOML as Gemini CLI has it.
//!
//! A front matter is the simple part of YAML that people write there, and what they write there
//! without being YAML: `argument-hint: [issue] [priority]`, `description: Fix: all`. Values that are
//! not needed may be anything.

use serde::Deserialize;

use super::template::Template;
use crate::workspace::shown;

/// Letters of a description and of a hint that are kept.
const DESCRIPTION: usize = 200;
const HINT: usize = 80;

/// A command without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub description: String,
    pub hint: Option<String>,
    pub template: Template,
    /// Keys that nothing is done about.
    pub ignored: Vec<String>,
}

/// What is wrong with a file, and in which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub line: Option<usize>,
    pub why: String,
}

impl Wrong {
    fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line: Some(line), why: why.into() }
    }

    fn whole(why: impl Into<String>) -> Self {
        Self { line: None, why: why.into() }
    }
}

pub fn markdown(text: &str) -> Result<Written, Wrong> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (keys, body) = front_matter(text)?;
    let body = body.trim();
    if body.is_empty() {
        return Err(Wrong::whole("there is no prompt in it"));
    }
    let template = Template::markdown(body).map_err(Wrong::whole)?;
    let take = |name: &str| {
        let found = keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.trim().is_empty())
    };
    let ignored = keys.iter().map(|(key, _)| key.as_str());
    let ignored = ignored.filter(|key| !["description", "argument-hint", "name"].contains(key));
    Ok(Written {
        description: cut(take("description").unwrap_or(first_line(body)), DESCRIPTION),
        hint: take("argument-hint").map(|hint| cut(hint, HINT)),
        template,
        ignored: ignored.map(|key| format!("`{}`", shown(key))).collect(),
    })
}

pub fn toml(text: &str) -> Result<Written, Wrong> {
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
        Wrong { line, why: shown(error.message()) }
    })?;
    if command.prompt.trim().is_empty() {
        return Err(Wrong::whole("there is no prompt in it"));
    }
    let prompt = command.prompt.trim();
    let description = command.description.filter(|text| !text.trim().is_empty());
    Ok(Written {
        description: cut(description.as_deref().unwrap_or(first_line(prompt)), DESCRIPTION),
        hint: None,
        template: Template::braces(prompt).map_err(Wrong::whole)?,
        ignored: command.others.keys().map(|key| format!("`{}`", shown(key))).collect(),
    })
}

fn first_line(text: &str) -> &str {
    text.lines()
        .map(|line| line.trim_start_matches('#').trim())
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

/// One line for people, and not too long.
fn cut(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|letter| !letter.is_control()).collect();
    match line.chars().count() > most {
        true => line.chars().take(most - 1).chain(['…']).collect(),
        false => line,
    }
}

type Keys = Vec<(String, String)>;

/// The keys between two lines of `---` at the start, and what is behind them.
fn front_matter(text: &str) -> Result<(Keys, &str), Wrong> {
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
        let (line, behind) = match inside.split_once('\n') {
            Some((line, behind)) => (line.trim_end(), behind),
            None => return Err(Wrong::at(1, "the front matter has no end: a line `---`")),
        };
        inside = behind;
        let indented = line.starts_with([' ', '\t']) || line.starts_with("- ") || line == "-";
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if indented {
            // A value over several lines, or one that is a list; lists are of no use here.
            let Some((_, value)) = keys.last_mut() else {
                return Err(Wrong::at(number, "a value without a key"));
            };
            if let Some(kept) = block {
                value.push_str(if kept && !value.is_empty() { "\n" } else { " " });
                value.push_str(line.trim());
            }
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(Wrong::at(number, format!("`{}` is no `key: value`", cut(line, 40))));
        };
        let key = key.trim().to_ascii_lowercase();
        if keys.iter().any(|(known, _)| *known == key) {
            return Err(Wrong::at(number, format!("`{}` is there twice", cut(&key, 40))));
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
            scalar(value).map_err(|why| Wrong::at(number, why))?
        };
        keys.push((key, value));
    }
}

/// What is behind a line of three dashes at the start.
fn fence(text: &str) -> Option<&str> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    (line.trim_end() == "---").then_some(rest)
}

fn scalar(value: &str) -> Result<String, String> {
    if let Some(inside) = value.strip_prefix('\'') {
        let end = inside.replace("''", "\u{0}");
        let (text, _) = end.split_once('\'').ok_or("a quote has no end")?;
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
        return Err("a quote has no end".to_owned());
    }
    // A comment begins behind a space.
    let text = value.split_once(" #").map_or(value, |(text, _)| text);
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
