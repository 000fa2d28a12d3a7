//! A text editor with a cursor, used by the composer and for proposals. It handles graphemes, rows
//! and folded pastes, but no keys or drawing.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::wrap::width as columns;

/// Each folded paste is one private-use character of the text.
const FIRST_CHIP: u32 = 0xF_0000;
const CHIPS: usize = 1000;
/// Maximum number of undo steps.
const UNDO: usize = 100;
const TAB: &str = "    ";

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Editor {
    text: String,
    /// A byte offset at a grapheme boundary.
    cursor: usize,
    chips: Vec<String>,
    undo: Vec<(String, usize)>,
    /// The last cut text.
    cut: String,
    /// Some while changes are grouped into one undo step; true once the state before them is saved.
    together: Option<bool>,
}

/// A cursor motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Start,
    End,
}

/// The rows of a text for a width, and the cursor position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub rows: Vec<String>,
    pub cursor: (u16, u16),
    /// Byte offset of the start of each row.
    starts: Vec<usize>,
}

impl Editor {
    pub fn with_text(text: &str) -> Self {
        let mut editor = Self::default();
        editor.replace(text);
        editor
    }

    /// The text with pastes unfolded.
    pub fn text(&self) -> String {
        self.unfolded(&self.text)
    }

    fn unfolded(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len());
        for letter in text.chars() {
            match self.chip(letter) {
                Some(pasted) => whole.push_str(pasted),
                None => whole.push(letter),
            }
        }
        whole
    }

    /// The text with each folded paste as one character. Byte offsets refer to this.
    pub fn raw(&self) -> &str {
        &self.text
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn replace(&mut self, text: &str) {
        self.remember();
        self.text = plain(text);
        self.cursor = self.text.len();
    }

    pub fn insert(&mut self, text: &str) {
        self.remember();
        let text = plain(text);
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    /// Inserts a large paste as one character; false if there are too many.
    pub fn insert_chip(&mut self, text: &str) -> bool {
        let code = FIRST_CHIP + u32::try_from(self.chips.len()).unwrap_or(u32::MAX);
        let Some(letter) = char::from_u32(code).filter(|_| self.chips.len() < CHIPS) else {
            return false;
        };
        self.remember();
        self.chips.push(plain(text));
        self.text.insert(self.cursor, letter);
        self.cursor += letter.len_utf8();
        true
    }

    fn chip(&self, letter: char) -> Option<&String> {
        let index = u32::from(letter).checked_sub(FIRST_CHIP)?;
        self.chips.get(usize::try_from(index).ok()?)
    }

    /// Replaces the bytes from `start` to the cursor. `start` must be a grapheme boundary.
    pub fn replace_before(&mut self, start: usize, text: &str) {
        if self.text.is_char_boundary(start) && start <= self.cursor {
            self.remember();
            let text = plain(text);
            self.text.replace_range(start..self.cursor, &text);
            self.cursor = start + text.len();
        }
    }

    pub fn delete(&mut self, motion: Motion) {
        let to = self.target(motion);
        let (start, end) = (self.cursor.min(to), self.cursor.max(to));
        if start == end {
            return;
        }
        self.remember();
        let cut: String = self.text.drain(start..end).collect();
        if !matches!(motion, Motion::Left | Motion::Right) {
            self.cut = cut;
        }
        self.cursor = start;
    }

    pub fn yank(&mut self) {
        let cut = self.cut.clone();
        self.insert(&cut);
    }

    pub fn clear(&mut self) {
        self.remember();
        self.text.clear();
        self.cursor = 0;
    }

    /// Starts a group of changes that are undone together.
    pub fn begin_change(&mut self) {
        self.together = Some(false);
    }

    pub fn end_change(&mut self) {
        self.together = None;
    }

    /// Moves to a byte offset, or to the grapheme boundary before it.
    pub fn put_cursor(&mut self, at: usize) {
        let at = at.min(self.text.len());
        let places = self.text.grapheme_indices(true).map(|(place, _)| place);
        self.cursor = match at == self.text.len() {
            true => at,
            false => places.take_while(|place| *place <= at).last().unwrap_or(0),
        };
    }

    /// The text of a range with pastes unfolded.
    pub fn copy(&self, range: Range<usize>) -> String {
        self.unfolded(self.text.get(range).unwrap_or_default())
    }

    /// Removes a range and keeps the cursor in place.
    pub fn cut(&mut self, range: Range<usize>) {
        if self.text.get(range.clone()).is_some_and(|text| !text.is_empty()) {
            self.remember();
            self.text.replace_range(range.clone(), "");
        }
        self.put_cursor(range.start);
    }

    pub fn undo(&mut self) {
        self.together = self.together.map(|_| false);
        if let Some((text, cursor)) = self.undo.pop() {
            (self.text, self.cursor) = (text, cursor);
        }
    }

    fn remember(&mut self) {
        if self.together == Some(true) {
            return;
        }
        self.together = self.together.map(|_| true);
        if self.undo.last().is_some_and(|(text, _)| *text == self.text) {
            return;
        }
        if self.undo.len() == UNDO {
            self.undo.remove(0);
        }
        self.undo.push((self.text.clone(), self.cursor));
    }

    pub fn go(&mut self, motion: Motion) {
        self.cursor = self.target(motion);
    }

    /// Moves one row in a layout of this width; false at the edge.
    pub fn go_row(&mut self, width: u16, down: bool) -> bool {
        let layout = self.layout(width);
        let row = usize::from(layout.cursor.1);
        let wanted = if down { row.checked_add(1) } else { row.checked_sub(1) };
        let Some(to) = wanted.filter(|to| *to < layout.rows.len()) else { return false };
        let (Some(start), Some(shown)) = (layout.starts.get(to), layout.rows.get(to)) else {
            return false;
        };
        // The end of a wrapped row is the start of the next one.
        let next = layout.starts.get(to + 1).copied().unwrap_or(self.text.len() + 1);
        let mut at = *start;
        let mut column = 0;
        let rest = self.text.get(*start..).unwrap_or_default();
        for grapheme in rest.graphemes(true) {
            let wide = columns(&self.shown(grapheme));
            let past = at + grapheme.len() >= next;
            if grapheme == "\n" || past || column + wide > usize::from(layout.cursor.0) {
                break;
            }
            column += wide;
            at += grapheme.len();
            if column >= columns(shown) {
                break;
            }
        }
        self.cursor = at;
        true
    }

    fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    fn target(&self, motion: Motion) -> usize {
        let (before, after) = (self.before(), self.after());
        match motion {
            Motion::Left => {
                self.cursor - before.graphemes(true).next_back().map_or(0, |last| last.len())
            }
            Motion::Right => {
                self.cursor + after.graphemes(true).next().map_or(0, |next| next.len())
            }
            Motion::WordLeft => {
                let kept = before.trim_end();
                let word = |letter: char| !letter.is_alphanumeric() && letter != '_';
                let kept = kept.trim_end_matches(|letter| !word(letter));
                // No word before the cursor: delete one character.
                if kept.len() == before.trim_end().len() {
                    let last = kept.graphemes(true).next_back().map_or(0, |last| last.len());
                    kept.len() - last
                } else {
                    kept.len()
                }
            }
            Motion::WordRight => {
                let gap = after.len() - after.trim_start().len();
                let rest = after.trim_start();
                let word = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let word = word.unwrap_or(rest.len());
                let sign = rest.graphemes(true).next().map_or(0, |next| next.len());
                self.cursor + gap + word.max(sign)
            }
            Motion::LineStart => before.rfind('\n').map_or(0, |at| at + 1),
            Motion::LineEnd => self.cursor + after.find('\n').unwrap_or(after.len()),
            Motion::Start => 0,
            Motion::End => self.text.len(),
        }
    }

    /// The displayed form of a grapheme.
    fn shown(&self, grapheme: &str) -> String {
        if grapheme == "\t" {
            return TAB.to_owned();
        }
        let chip = grapheme.chars().next().and_then(|letter| self.chip(letter));
        match chip {
            Some(pasted) => match pasted.lines().count() {
                0 | 1 => format!("[pasted {} letters]", pasted.chars().count()),
                lines => format!("[pasted {lines} lines]"),
            },
            None => crate::safe::one_line(grapheme).into_owned(),
        }
    }

    /// Breaks the text into rows at graphemes. Every line break starts a row.
    pub fn layout(&self, width: u16) -> Layout {
        let width = usize::from(width.max(1));
        let mut layout = Layout { rows: vec![String::new()], cursor: (0, 0), starts: vec![0] };
        let mut column = 0;
        for (at, grapheme) in self.text.grapheme_indices(true) {
            let shown = if grapheme == "\n" { String::new() } else { self.shown(grapheme) };
            let wide = columns(&shown).min(width);
            if grapheme != "\n" && column + wide > width {
                layout.break_at(at);
                column = 0;
            }
            if at == self.cursor {
                layout.put_cursor(column);
            }
            if grapheme == "\n" {
                layout.break_at(at + 1);
                column = 0;
                continue;
            }
            if let Some(row) = layout.rows.last_mut() {
                row.push_str(&shown);
            }
            column += wide;
        }
        if self.cursor >= self.text.len() {
            if column >= width {
                layout.break_at(self.text.len());
                column = 0;
            }
            layout.put_cursor(column);
        }
        layout
    }
}

impl Layout {
    fn break_at(&mut self, start: usize) {
        self.rows.push(String::new());
        self.starts.push(start);
    }

    fn put_cursor(&mut self, column: usize) {
        let row = self.rows.len().saturating_sub(1);
        let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        self.cursor = (short(column), short(row));
    }
}

/// Keeps line breaks and tabs of typed and pasted text; removes other control characters and the
/// private-use characters of folded pastes.
fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let keeps = |letter: &char| {
        let chip = (FIRST_CHIP..FIRST_CHIP + 0x1_0000).contains(&u32::from(*letter));
        !chip && (matches!(letter, '\n' | '\t') || !letter.is_control())
    };
    text.chars().filter(keeps).collect()
}

#[cfg(test)]
#[path = "editor_tests.rs"]
mod tests;
