//! The terminal's background: the query, and its reply among the keys.
//!
//! The reply arrives at any time or never, and crossterm reads it as keys: `Alt-]`, letters,
//! `Alt-\\`. It is filtered out here, and keys that only looked like a reply are passed on. This
//! module uses no terminal or clock.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::keymap;
use crate::theme::Background;

/// Queries the colour. Terminals without support ignore it.
pub const QUESTION: &[u8] = b"\x1b]11;?\x1b\\";

/// The start of a reply, and its maximum length.
const BEGINNING: &str = "11;";
const LONGEST: usize = 64;

/// The result of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyOrReply {
    /// Pressed keys; empty while they may be part of a reply.
    Keys(Vec<KeyEvent>),
    Background(Background),
}

/// Filters all keys.
#[derive(Debug, Default)]
pub struct ReplyFilter {
    /// Keys that may be part of a reply, and their text.
    held: Vec<KeyEvent>,
    said: String,
    /// The previous key was Esc: a reply that arrived in two parts starts or ends like this.
    after_escape: bool,
    /// The `\` that ends a reply is still missing.
    ending: bool,
}

impl ReplyFilter {
    pub fn filter(&mut self, key: KeyEvent) -> KeyOrReply {
        let after_escape =
            std::mem::replace(&mut self.after_escape, key.code == KeyCode::Esc && plain(&key));
        if std::mem::take(&mut self.ending) && is(&key, '\\', KeyModifiers::NONE) {
            return KeyOrReply::Keys(Vec::new());
        }
        if self.held.is_empty() {
            let begins = is(&key, ']', KeyModifiers::ALT)
                || (after_escape && is(&key, ']', KeyModifiers::NONE));
            if !begins {
                return KeyOrReply::Keys(vec![key]);
            }
            self.held.push(key);
            return KeyOrReply::Keys(Vec::new());
        }
        self.held.push(key);
        if let Some(letter) = keymap::letter(&key) {
            self.said.push(letter);
            return if self.may_be_answer() {
                KeyOrReply::Keys(Vec::new())
            } else {
                self.give_back()
            };
        }
        let ends = is(&key, '\\', KeyModifiers::ALT) || is(&key, 'g', KeyModifiers::CONTROL);
        self.ending = self.after_escape;
        if !(ends || self.after_escape) || !self.said.starts_with(BEGINNING) {
            return self.give_back();
        }
        self.held.clear();
        match colour(&std::mem::take(&mut self.said)) {
            Some(background) => KeyOrReply::Background(background),
            // A reply without a colour.
            None => KeyOrReply::Keys(Vec::new()),
        }
    }

    fn give_back(&mut self) -> KeyOrReply {
        (self.ending, self.said) = (false, String::new());
        KeyOrReply::Keys(std::mem::take(&mut self.held))
    }

    fn may_be_answer(&self) -> bool {
        let colour = |letter: char| letter.is_ascii_alphanumeric() || ":/#".contains(letter);
        match self.said.strip_prefix(BEGINNING) {
            Some(rest) => rest.len() <= LONGEST && rest.chars().all(colour),
            None => BEGINNING.starts_with(&self.said),
        }
    }
}

fn plain(key: &KeyEvent) -> bool {
    key.modifiers.is_empty()
}

fn is(key: &KeyEvent, letter: char, modifiers: KeyModifiers) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers == modifiers
}

/// Parses `11;rgb:ffff/ffff/ffff` with one to four digits each, `rgba:` and `#ffffff`.
fn colour(answer: &str) -> Option<Background> {
    let answer = answer.strip_prefix(BEGINNING)?;
    let parts: Option<Vec<f64>> = match answer.strip_prefix('#') {
        Some(digits) => {
            let each = digits.len() / 3;
            (0..3).map(|part| share(digits.get(part * each..(part + 1) * each)?)).collect()
        }
        None => {
            let parts = answer.strip_prefix("rgb:").or_else(|| answer.strip_prefix("rgba:"))?;
            parts.split('/').take(3).map(share).collect()
        }
    };
    let parts = parts?;
    let [red, green, blue] = parts.as_slice() else { return None };
    // Perceived brightness.
    let bright = 0.299 * red + 0.587 * green + 0.114 * blue;
    Some(if bright > 0.5 { Background::Light } else { Background::Dark })
}

/// The value as a fraction of the maximum for its number of digits.
fn share(digits: &str) -> Option<f64> {
    let most = match digits.len() {
        1 => 0xf,
        2 => 0xff,
        3 => 0xfff,
        4 => 0xffff,
        _ => return None,
    };
    let value = u32::from_str_radix(digits, 16).ok()?;
    Some(f64::from(value) / f64::from(most))
}

#[cfg(test)]
#[path = "background_tests.rs"]
mod tests;
