//! Whom a key is meant for while questions come and go: these rules, and nothing else.
//!
//! A key typed before a question was on the screen never answers it. While something is written in
//! the line, letters and Enter are the line's, and a letter that begins a word is not alone: no
//! sentence answers anything. A key meant for a
//! question that somebody else closed a moment ago is not typed into the line, and interrupts nothing.

use crossterm::event::KeyEvent;

use crate::dialog::{Dialog, Reaction};
use crate::moment::Moment;

/// How long nobody must have typed before a key counts as an answer, in milliseconds.
pub const GUARD: u64 = 400;
/// For how long a letter must stand alone to mean more than itself. People write faster.
pub const ALONE: u64 = 300;
/// For how long a key still counts as meant for a question that is gone from the screen.
pub const AFTER: u64 = 500;

/// From when on keys answer a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arming {
    /// When it was first on the screen.
    drawn: Option<Moment>,
    /// When a key was last pressed that did not count.
    typed: Option<Moment>,
}

impl Arming {
    pub fn is_armed(&self, now: Moment) -> bool {
        self.armed_from().is_some_and(|from| now >= from)
    }

    /// Whether it has been on the screen long enough to be seen, whoever types.
    pub fn is_seen(&self, now: Moment) -> bool {
        self.drawn.is_some_and(|drawn| now >= drawn.plus(GUARD))
    }

    /// When keys will count if nobody types until then.
    pub fn armed_from(&self) -> Option<Moment> {
        let drawn = self.drawn?;
        Some(drawn.max(self.typed.unwrap_or(drawn)).plus(GUARD))
    }

    pub fn was_drawn(&mut self, now: Moment) {
        self.drawn.get_or_insert(now);
    }

    pub fn was_typed(&mut self, now: Moment) {
        self.typed = Some(now);
    }
}

/// A letter that means something to a question, until it is known whether a word begins with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The letter, more than once where its key was held down.
    text: String,
    since: Moment,
    pub meant: Meant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// The answer with this index.
    Answer(usize),
    Edit,
    /// Scrolling waits for nobody.
    Done,
}

impl Held {
    pub fn new(letter: char, now: Moment, meant: Meant) -> Self {
        Self { text: letter.into(), since: now, meant }
    }

    /// Whether the next letter comes from the same key, held down.
    pub fn repeats(&self, letter: char) -> bool {
        self.text.starts_with(letter)
    }

    pub fn again(&mut self, letter: char, now: Moment) {
        self.text.push(letter);
        if self.meant == Meant::Done {
            self.since = now;
        }
    }

    pub fn alone_from(&self) -> Moment {
        self.since.plus(ALONE)
    }

    pub fn is_alone(&self, now: Moment) -> bool {
        now >= self.alone_from()
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// What the line below a question is used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Line {
    #[default]
    Empty,
    /// Something is written: letters, Enter and what edits are the line's, `↑↓` and Esc the question's.
    Written,
    /// A list or a search is open in it, or Esc has a meaning there: everything but pages is its own.
    Open,
}

/// A question that keys were answering when somebody else closed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    dialog: Dialog,
    /// Who closed it, for whoever presses a key.
    pub notice: String,
    /// When the first frame without it was on the screen.
    gone: Option<Moment>,
}

impl Closed {
    /// None where keys did not answer it yet: then they were typed into the line all along.
    pub fn new(dialog: Dialog, notice: String, now: Moment) -> Option<Self> {
        dialog.is_armed(now).then_some(Self { dialog, notice, gone: None })
    }

    /// A frame without it is on the screen.
    pub fn was_drawn_over(&mut self, now: Moment) {
        self.gone.get_or_insert(now);
    }

    /// Whether a key is one that the question would have taken. The first that is not says that the
    /// person has seen it go.
    pub fn takes(&mut self, event: &KeyEvent, now: Moment) -> bool {
        !self.is_over(now) && self.dialog.key_when_armed(event, now) != Reaction::Elsewhere
    }

    pub fn takes_paste(&self, now: Moment) -> bool {
        !self.is_over(now) && self.dialog.is_editing()
    }

    fn is_over(&self, now: Moment) -> bool {
        self.gone.is_some_and(|gone| now.since(gone) >= AFTER)
    }
}
