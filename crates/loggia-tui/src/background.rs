//! What the terminal says its background is: the question, and its answer among the keys.
//!
//! Nobody waits for the answer. It comes whenever it comes, or never, and the reader of the terminal
//! takes it for keys: `Alt-]`, letters, `Alt-\\`. So it is picked out of the keys here, and what only
//! looked like one is given back. What must not be here: a terminal, a clock.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::keymap;
use crate::theme::Background;

/// Asks for the colour. Terminals that do not know it show nothing and say nothing.
pub const QUESTION: &[u8] = b"\x1b]11;?\x1b\\";

/// How an answer begins, and how long one is at most.
const BEGINNING: &str = "11;";
const LONGEST: usize = 64;

/// What a key was.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Keys that somebody pressed; none while it may become an answer.
    Keys(Vec<KeyEvent>),
    Background(Background),
}

/// Listens to all keys.
#[derive(Debug, Default)]
pub struct Answers {
    /// Keys that may be an answer, and what they say so far.
    held: Vec<KeyEvent>,
    said: String,
    /// The key before was Esc: an answer that came in two pieces begins, or ends, like this.
    after_escape: bool,
    /// A `\` that ends an answer is still to come.
    ending: bool,
}

impl Answers {
    pub fn hear(&mut self, key: KeyEvent) -> Heard {
        let after_escape =
            std::mem::replace(&mut self.after_escape, key.code == KeyCode::Esc && plain(&key));
        if std::mem::take(&mut self.ending) && is(&key, '\\', KeyModifiers::NONE) {
            return Heard::Keys(Vec::new());
        }
        if self.held.is_empty() {
            let begins = is(&key, ']', KeyModifiers::ALT)
                || (after_escape && is(&key, ']', KeyModifiers::NONE));
            if !begins {
                return Heard::Keys(vec![key]);
            }
            self.held.push(key);
            return Heard::Keys(Vec::new());
        }
        self.held.push(key);
        if let Some(letter) = keymap::letter(&key) {
            self.said.push(letter);
            return if self.may_be_answer() { Heard::Keys(Vec::new()) } else { self.give_back() };
        }
        let ends = is(&key, '\\', KeyModifiers::ALT) || is(&key, 'g', KeyModifiers::CONTROL);
        self.ending = self.after_escape;
        if !(ends || self.after_escape) || !self.said.starts_with(BEGINNING) {
            return self.give_back();
        }
        self.held.clear();
        match colour(&std::mem::take(&mut self.said)) {
            Some(background) => Heard::Background(background),
            // An answer that says nothing.
            None => Heard::Keys(Vec::new()),
        }
    }

    fn give_back(&mut self) -> Heard {
        (self.ending, self.said) = (false, String::new());
        Heard::Keys(std::mem::take(&mut self.held))
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

/// `11;rgb:ffff/ffff/ffff`, with one to four digits each; `rgba:` and `#ffffff` as well.
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
    // How bright it looks.
    let bright = 0.299 * red + 0.587 * green + 0.114 * blue;
    Some(if bright > 0.5 { Background::Light } else { Background::Dark })
}

/// Of the most that so many digits can say.
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
