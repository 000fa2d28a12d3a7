//! Targets of motions: pure functions of a text and a position. Words are runs of letters and
//! digits, or of symbols; an empty line is also a word.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::keymap::Action;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    Word,
    Sign,
}

fn class(grapheme: &str) -> Class {
    match grapheme.chars().next() {
        Some(letter) if letter.is_whitespace() => Class::Blank,
        Some(letter) if letter.is_alphanumeric() || letter == '_' => Class::Word,
        _ => Class::Sign,
    }
}

fn before(text: &str, at: usize) -> &str {
    text.get(..at).unwrap_or_default()
}

fn after(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

pub fn line_start(text: &str, at: usize) -> usize {
    before(text, at).rfind('\n').map_or(0, |newline| newline + 1)
}

/// The position of the line break, or the end of the text.
pub fn line_end(text: &str, at: usize) -> usize {
    at + after(text, at).find('\n').unwrap_or(after(text, at).len())
}

pub fn first_sign(text: &str, at: usize) -> usize {
    let start = line_start(text, at);
    let line = text.get(start..line_end(text, start)).unwrap_or_default();
    start + line.find(|letter: char| !letter.is_whitespace()).unwrap_or(0)
}

pub fn left(text: &str, at: usize) -> usize {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    at - line.graphemes(true).next_back().map_or(0, str::len)
}

/// One character to the right, at most to the end of the line.
pub fn right(text: &str, at: usize) -> usize {
    let line = text.get(at..line_end(text, at)).unwrap_or_default();
    at + line.graphemes(true).next().map_or(0, str::len)
}

/// The last cursor position of a line.
pub fn last_sign(text: &str, at: usize) -> usize {
    left(text, line_end(text, at))
}

pub fn next_word(text: &str, at: usize) -> usize {
    let mut graphemes = after(text, at).grapheme_indices(true).peekable();
    let begun = graphemes.peek().map_or(Class::Blank, |(_, grapheme)| class(grapheme));
    if begun != Class::Blank {
        while graphemes.next_if(|(_, grapheme)| class(grapheme) == begun).is_some() {}
    }
    let mut line = false;
    while let Some((_, blank)) = graphemes.next_if(|(offset, grapheme)| {
        class(grapheme) == Class::Blank && !(line && *grapheme == "\n" && *offset > 0)
    }) {
        line = blank == "\n";
    }
    graphemes.peek().map_or(text.len(), |(offset, _)| at + offset)
}

pub fn word_before(text: &str, at: usize) -> usize {
    let mut graphemes = before(text, at).grapheme_indices(true).rev().peekable();
    let mut found = at;
    while let Some((offset, blank)) =
        graphemes.next_if(|(_, grapheme)| class(grapheme) == Class::Blank)
    {
        found = offset;
        let empty_line = blank == "\n" && graphemes.peek().is_none_or(|(_, one)| *one == "\n");
        if empty_line {
            return found;
        }
    }
    let Some((_, grapheme)) = graphemes.peek() else { return found };
    let begun = class(grapheme);
    while let Some((offset, _)) = graphemes.next_if(|(_, grapheme)| class(grapheme) == begun) {
        found = offset;
    }
    found
}

/// The last character of this word or, from there, of the next.
pub fn word_end(text: &str, at: usize) -> usize {
    let mut graphemes = after(text, at).grapheme_indices(true).skip(1).peekable();
    while graphemes.next_if(|(_, grapheme)| class(grapheme) == Class::Blank).is_some() {}
    let Some((_, grapheme)) = graphemes.peek() else { return left(text, text.len()).max(at) };
    let begun = class(grapheme);
    let mut found = at;
    while let Some((offset, _)) = graphemes.next_if(|(_, grapheme)| class(grapheme) == begun) {
        found = at + offset;
    }
    found
}

/// The start of a line by its number, from 1.
fn line_number(text: &str, number: usize) -> usize {
    let newlines = text.match_indices('\n').take(number.saturating_sub(1));
    newlines.last().map_or(0, |(at, _)| at + 1)
}

/// The target of a motion; None if the action is not a motion within the text.
pub fn target(text: &str, at: usize, action: Action, count: Option<usize>) -> Option<usize> {
    let repeat = |step: fn(&str, usize) -> usize| {
        let steps = count.unwrap_or(1);
        (0..steps).try_fold(at, |at, _| {
            let next = step(text, at);
            // At the edge further steps change nothing.
            if next == at { Err(at) } else { Ok(next) }
        })
    };
    Some(match action {
        Action::Left => repeat(left).unwrap_or_else(|at| at),
        Action::Right => repeat(right).unwrap_or_else(|at| at),
        Action::NextWord => repeat(next_word).unwrap_or_else(|at| at),
        Action::WordLeft => repeat(word_before).unwrap_or_else(|at| at),
        Action::WordEnd => repeat(word_end).unwrap_or_else(|at| at),
        Action::LineStart => line_start(text, at),
        Action::FirstSign => first_sign(text, at),
        Action::LineEnd => line_end(text, at),
        Action::Top => first_sign(text, line_number(text, count.unwrap_or(1))),
        Action::Bottom => first_sign(text, line_number(text, count.unwrap_or(usize::MAX))),
        _ => return None,
    })
}

/// The range of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub range: Range<usize>,
    /// Whole lines; the range excludes the last line break.
    pub lines: bool,
}

/// From the line of one position to the line of another.
pub fn lines(text: &str, one: usize, other: usize) -> Span {
    let range = line_start(text, one.min(other))..line_end(text, one.max(other));
    Span { range, lines: true }
}

/// This line and `more` lines before or after it.
pub fn lines_beside(text: &str, at: usize, more: usize, down: bool) -> Span {
    let mut other = at;
    for _ in 0..more {
        other = match down {
            true => (line_end(text, other) + 1).min(text.len()),
            false => line_start(text, other).saturating_sub(1),
        };
    }
    lines(text, at, other)
}

/// The range of an operator with a motion. `changes`: changing a word keeps the blank after it.
pub fn span(
    text: &str,
    at: usize,
    action: Action,
    count: Option<usize>,
    changes: bool,
) -> Option<Span> {
    let on_word = after(text, at).graphemes(true).next().map(class) != Some(Class::Blank);
    let action = match action {
        Action::NextWord if changes && on_word => Action::WordEnd,
        action => action,
    };
    let to = target(text, at, action, count)?;
    let range = match action {
        Action::Top | Action::Bottom => return Some(lines(text, at, to)),
        // Includes the last character.
        Action::WordEnd => at..right(text, to),
        Action::NextWord => at..within_line(text, at, to),
        _ => at.min(to)..at.max(to),
    };
    Some(Span { range, lines: false })
}

/// The last word of a line ends with the line.
fn within_line(text: &str, at: usize, to: usize) -> usize {
    let between = text.get(at..to).unwrap_or_default();
    let words = between.trim_end().len();
    let newline = between.get(words..).and_then(|blank| blank.find('\n'));
    newline.map_or(to, |newline| at + words + newline)
}
