//! Decides whether a key is for a question or for the composer.
//!
//! A key typed before a question was visible never answers it. While the composer contains text,
//! letters and Enter belong to it, and a letter followed by another starts a word, so that typing a
//! sentence never answers. A key meant for a question that another client closed just now is
//! ignored.

use crossterm::event::KeyEvent;

use crate::dialog::{Dialog, Reaction};
use crate::uptime::Uptime;

/// Milliseconds without typing before a key can answer.
pub const GUARD: u64 = 400;
/// Milliseconds without another letter before a letter counts as an answer. People type faster.
pub const ALONE: u64 = 300;
/// Milliseconds during which a key is still meant for a closed question.
pub const AFTER: u64 = 500;

/// When a question accepts keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyDelay {
    /// When the question was first drawn.
    drawn: Option<Uptime>,
    /// When a key was last pressed that was not for the question.
    typed: Option<Uptime>,
}

impl KeyDelay {
    pub fn accepts_keys(&self, now: Uptime) -> bool {
        self.accepts_keys_from().is_some_and(|from| now >= from)
    }

    /// Whether the question has been visible long enough, regardless of typing.
    pub fn is_seen(&self, now: Uptime) -> bool {
        self.drawn.is_some_and(|drawn| now >= drawn.plus(GUARD))
    }

    /// When keys will be accepted if no other key is pressed before.
    pub fn accepts_keys_from(&self) -> Option<Uptime> {
        let drawn = self.drawn?;
        Some(drawn.max(self.typed.unwrap_or(drawn)).plus(GUARD))
    }

    pub fn was_drawn(&mut self, now: Uptime) {
        self.drawn.get_or_insert(now);
    }

    pub fn was_typed(&mut self, now: Uptime) {
        self.typed = Some(now);
    }
}

/// A letter that may answer a question or start a word.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingLetter {
    /// The letter, repeated if its key was held down.
    text: String,
    since: Uptime,
    pub action: LetterAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterAction {
    /// The answer with this index.
    Answer(usize),
    Edit,
    /// Already done: scrolling needs no waiting time.
    Done,
}

impl PendingLetter {
    pub fn new(letter: char, now: Uptime, action: LetterAction) -> Self {
        Self { text: letter.into(), since: now, action }
    }

    /// Whether the next letter is a key repeat.
    pub fn repeats(&self, letter: char) -> bool {
        self.text.starts_with(letter)
    }

    pub fn again(&mut self, letter: char, now: Uptime) {
        self.text.push(letter);
        if self.action == LetterAction::Done {
            self.since = now;
        }
    }

    pub fn alone_from(&self) -> Uptime {
        self.since.plus(ALONE)
    }

    pub fn is_alone(&self, now: Uptime) -> bool {
        now >= self.alone_from()
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// The composer's state while a question is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComposerState {
    #[default]
    Empty,
    /// Text: letters, Enter and editing keys belong to the composer, `↑↓` and Esc to the question.
    Draft,
    /// A popup or search is open, or Esc has a meaning in the composer: all keys except paging
    /// belong to it.
    Open,
}

/// A question that accepted keys when another client closed it.
#[derive(Debug, Clone, PartialEq)]
pub struct DismissedDialog {
    dialog: Dialog,
    /// Who closed it.
    pub notice: String,
    /// When the first frame without it was drawn.
    gone: Option<Uptime>,
}

impl DismissedDialog {
    /// None if the question did not accept keys yet: then they already went to the composer.
    pub fn new(dialog: Dialog, notice: String, now: Uptime) -> Option<Self> {
        dialog.accepts_keys(now).then_some(Self { dialog, notice, gone: None })
    }

    /// A frame without the question was drawn.
    pub fn was_drawn_over(&mut self, now: Uptime) {
        self.gone.get_or_insert(now);
    }

    /// Whether the question would have used the key. The first other key shows that the person saw
    /// it close.
    pub fn takes(&mut self, event: &KeyEvent, now: Uptime) -> bool {
        !self.is_over(now) && self.dialog.accepted_key(event, now) != Reaction::Elsewhere
    }

    pub fn takes_paste(&self, now: Uptime) -> bool {
        !self.is_over(now) && self.dialog.is_editing()
    }

    fn is_over(&self, now: Uptime) -> bool {
        self.gone.is_some_and(|gone| now.since(gone) >= AFTER)
    }
}
