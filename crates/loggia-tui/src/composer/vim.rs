//! Optional Vim keys for the composer: two modes, motions, operators, counts, one register. The
//! keymap binds keys to actions; this module applies them to the text.

pub mod motion;

use crossterm::event::KeyEvent;

use crate::editor::Editor;
use crate::keymap::{self, Action, KeyContext};
use motion::Span;

/// Maximum count.
const MOST: usize = 9_999;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Letters are text. A prompt starts in this mode.
    #[default]
    Insert,
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Cut,
    Change,
    Copy,
}

impl Operator {
    fn of(action: Action) -> Option<Self> {
        match action {
            Action::Cut => Some(Operator::Cut),
            Action::Change => Some(Operator::Change),
            Action::CopyText => Some(Operator::Copy),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vim {
    mode: Mode,
    count: Option<usize>,
    /// A pending operator and the count before it.
    operator: Option<(Operator, Option<usize>)>,
    /// The first key of `gg` was pressed.
    halfway: bool,
    /// The keys of an incomplete command.
    typed: String,
    register: String,
    register_is_lines: bool,
}

/// The result of a key in normal mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Taken,
    /// Move a row or in the history: the composer knows the width.
    Row {
        down: bool,
        times: usize,
    },
    /// The key has its usual meaning.
    Elsewhere,
}

impl Vim {
    pub fn is_normal(&self) -> bool {
        self.mode == Mode::Normal
    }

    /// The mode and the incomplete command, for the status line.
    pub fn shown(&self) -> String {
        let mode = if self.is_normal() { "NORMAL" } else { "INSERT" };
        if self.typed.is_empty() { mode.to_owned() } else { format!("{mode} {}", self.typed) }
    }

    /// Enters insert mode; the text typed until Esc is one undo step.
    pub fn insert(&mut self, editor: &mut Editor) {
        editor.begin_change();
        self.mode = Mode::Insert;
    }

    /// Handles Esc: enters normal mode, or drops an incomplete command. False if there was nothing
    /// to do.
    pub fn escape(&mut self, editor: &mut Editor) -> bool {
        if self.mode == Mode::Insert {
            editor.end_change();
            self.mode = Mode::Normal;
            editor.put_cursor(motion::left(editor.raw(), editor.cursor()));
            return true;
        }
        let waiting = !self.typed.is_empty();
        self.forget();
        waiting
    }

    fn forget(&mut self) {
        (self.count, self.operator, self.halfway) = (None, None, false);
        self.typed.clear();
    }

    /// In normal mode the cursor is on a character if the line has one.
    pub fn settle(&self, editor: &mut Editor) {
        let (text, at) = (editor.raw(), editor.cursor());
        if self.is_normal() && at == motion::line_end(text, at) {
            editor.put_cursor(motion::last_sign(text, at));
        }
    }

    /// A key in normal mode.
    pub fn key(&mut self, event: &KeyEvent, editor: &mut Editor) -> Done {
        let letter = keymap::letter(event);
        self.typed.extend(letter);
        let digit = letter.and_then(|letter| letter.to_digit(10));
        if let Some(digit) = digit.filter(|digit| *digit > 0 || self.count.is_some()) {
            let digit = usize::try_from(digit).unwrap_or(0);
            self.count = Some((self.count.unwrap_or(0) * 10 + digit).min(MOST));
            return Done::Taken;
        }
        let Some(action) = keymap::own_action(KeyContext::Normal, event) else {
            self.forget();
            // A letter without a binding is ignored.
            return if letter.is_some() { Done::Taken } else { Done::Elsewhere };
        };
        // `g` is the first half of `gg`.
        if action == Action::Top && !self.halfway {
            self.halfway = true;
            return Done::Taken;
        }
        let (operator, count) = (self.operator.take(), self.count.take());
        if let (Some(begun), None) = (Operator::of(action), operator) {
            self.operator = Some((begun, count));
            return Done::Taken;
        }
        self.forget();
        match operator {
            Some((operator, before)) => {
                let count = match (before, count) {
                    (None, count) => count,
                    (Some(before), count) => Some((before * count.unwrap_or(1)).min(MOST)),
                };
                self.operate(operator, action, count, editor);
                Done::Taken
            }
            None => self.act(action, count, editor),
        }
    }

    fn operate(
        &mut self,
        operator: Operator,
        action: Action,
        count: Option<usize>,
        editor: &mut Editor,
    ) {
        let (text, at) = (editor.raw(), editor.cursor());
        let times = count.unwrap_or(1);
        let span = match action {
            action if Operator::of(action) == Some(operator) => {
                Some(motion::lines_beside(text, at, times - 1, true))
            }
            Action::Newer => Some(motion::lines_beside(text, at, times, true)),
            Action::Older => Some(motion::lines_beside(text, at, times, false)),
            action => motion::span(text, at, action, count, operator == Operator::Change),
        };
        if let Some(span) = span {
            self.work(operator, &span, editor);
        }
    }

    fn work(&mut self, operator: Operator, span: &Span, editor: &mut Editor) {
        let Span { range, lines } = span;
        (self.register, self.register_is_lines) = (editor.copy(range.clone()), *lines);
        match operator {
            Operator::Copy if *lines => {}
            Operator::Copy => editor.put_cursor(range.start),
            Operator::Change => {
                self.insert(editor);
                editor.cut(range.clone());
            }
            Operator::Cut if *lines => {
                // Also remove a line break: the following one, or at the end the preceding one.
                let (mut start, mut end) = (range.start, range.end);
                match end < editor.raw().len() {
                    true => end += 1,
                    false => start = start.saturating_sub(1),
                }
                editor.cut(start..end);
                editor.put_cursor(motion::first_sign(editor.raw(), editor.cursor()));
            }
            Operator::Cut => editor.cut(range.clone()),
        }
    }

    fn act(&mut self, action: Action, count: Option<usize>, editor: &mut Editor) -> Done {
        let (text, at) = (editor.raw(), editor.cursor());
        let times = count.unwrap_or(1);
        let change = |vim: &mut Self, operator, motion, editor: &mut Editor| {
            vim.operate(operator, motion, count, editor);
        };
        match action {
            Action::Older => return Done::Row { down: false, times },
            Action::Newer => return Done::Row { down: true, times },
            Action::DeleteRight => change(self, Operator::Cut, Action::Right, editor),
            Action::DeleteToEnd => change(self, Operator::Cut, Action::LineEnd, editor),
            Action::ChangeToEnd => change(self, Operator::Change, Action::LineEnd, editor),
            Action::Put => self.put(true, times, editor),
            Action::PutBefore => self.put(false, times, editor),
            Action::Undo => (0..times).for_each(|_| editor.undo()),
            Action::InsertHere => self.insert(editor),
            Action::InsertAfter => self.insert_at(motion::right(text, at), editor),
            Action::InsertAtStart => self.insert_at(motion::first_sign(text, at), editor),
            Action::InsertAtEnd => self.insert_at(motion::line_end(text, at), editor),
            Action::LineBelow => {
                self.insert_at(motion::line_end(text, at), editor);
                editor.insert("\n");
            }
            Action::LineAbove => {
                let start = motion::line_start(text, at);
                self.insert_at(start, editor);
                editor.insert("\n");
                editor.put_cursor(start);
            }
            action => {
                if let Some(to) = motion::target(text, at, action, count) {
                    editor.put_cursor(to);
                }
            }
        }
        Done::Taken
    }

    fn insert_at(&mut self, at: usize, editor: &mut Editor) {
        self.insert(editor);
        editor.put_cursor(at);
    }

    fn put(&self, behind: bool, times: usize, editor: &mut Editor) {
        if self.register.is_empty() && !self.register_is_lines {
            return;
        }
        let (text, at) = (editor.raw(), editor.cursor());
        let room = super::PROMPT_LIMIT.saturating_sub(text.len());
        let times = times.min(room / (self.register.len() + 1));
        let (place, put, cursor) = match (self.register_is_lines, behind) {
            (true, true) => {
                let end = motion::line_end(text, at);
                (end, format!("\n{}", self.register).repeat(times), end + 1)
            }
            (true, false) => {
                let start = motion::line_start(text, at);
                (start, format!("{}\n", self.register).repeat(times), start)
            }
            (false, behind) => {
                let place = if behind { motion::right(text, at) } else { at };
                (place, self.register.repeat(times), usize::MAX)
            }
        };
        editor.put_cursor(place);
        editor.insert(&put);
        match cursor {
            usize::MAX => editor.put_cursor(motion::left(editor.raw(), editor.cursor())),
            cursor => editor.put_cursor(motion::first_sign(editor.raw(), cursor)),
        }
    }
}

#[cfg(test)]
#[path = "vim_tests.rs"]
mod tests;
