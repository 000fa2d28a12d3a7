//! Fills `$1`, `${name}`, `$result` and `${instructions}` in the strings of a rule's steps.
//!
//! Anything else after a dollar stays the same (`$HOME`, an unknown group), and `$$` is one dollar.
//! Values are not filled in again.

use regex::{Captures, Regex};

use crate::model::actions::{FILLED_BYTES, RESULT_BYTES, clip};

/// The groups of a rule's regex in one prompt; empty for other rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureGroups {
    groups: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    name: Option<String>,
    /// Empty if the group is not part of the match.
    text: String,
}

impl CaptureGroups {
    pub fn of(regex: &Regex, found: &Captures<'_>) -> Self {
        let groups = regex.capture_names().zip(found.iter()).map(|(name, text)| Group {
            name: name.map(str::to_owned),
            text: text.map_or_else(String::new, |text| text.as_str().to_owned()),
        });
        Self { groups: groups.collect() }
    }

    fn get(&self, key: &str) -> Option<&str> {
        let group = match key.parse::<usize>() {
            Ok(number) => self.groups.get(number),
            Err(_) => self.groups.iter().find(|group| group.name.as_deref() == Some(key)),
        };
        group.map(|group| group.text.as_str())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placeholders {
    captured: CaptureGroups,
    result: String,
    /// The instructions of the request.
    instructions: String,
}

impl Placeholders {
    pub fn new(captured: CaptureGroups, result: &str, instructions: &str) -> Self {
        let result = clip(result, RESULT_BYTES).0.to_owned();
        Self { captured, result, instructions: instructions.to_owned() }
    }

    pub fn fill(&self, template: &str) -> String {
        let mut filled = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            let (value, remaining) = self.value(after).unwrap_or(("$", after));
            filled.push_str(value);
            rest = remaining;
            if filled.len() > FILLED_BYTES {
                break;
            }
        }
        filled.push_str(rest);
        filled.truncate(filled.floor_char_boundary(FILLED_BYTES));
        filled
    }

    /// The value for the text after a dollar, and the rest of the text.
    fn value<'a>(&'a self, after: &'a str) -> Option<(&'a str, &'a str)> {
        if let Some(rest) = after.strip_prefix('$') {
            return Some(("$", rest));
        }
        if let Some(braced) = after.strip_prefix('{') {
            let (key, rest) = braced.split_once('}')?;
            return Some((self.named(key)?, rest));
        }
        let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let digits = split_while(after, |letter| letter.is_ascii_digit());
        let (key, rest) = if digits.0.is_empty() { split_while(after, word) } else { digits };
        // A bare word is usually a shell variable, so groups need braces.
        let bare = key == "result" || !digits.0.is_empty();
        bare.then(|| self.named(key)).flatten().map(|value| (value, rest))
    }

    fn named(&self, key: &str) -> Option<&str> {
        self.captured.get(key).or(match key {
            "result" => Some(self.result.as_str()),
            "instructions" => Some(self.instructions.as_str()),
            _ => None,
        })
    }
}

fn split_while(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|letter| !keep(letter)).unwrap_or(text.len()))
}
