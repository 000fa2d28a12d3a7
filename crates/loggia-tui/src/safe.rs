//! Makes untrusted text safe for a terminal.
//!
//! All text of models, tools, files and clients passes through here before it becomes part of a
//! line, so that no control or invisible characters remain. [`printable`] and [`one_line`] escape
//! them; [`output`] interprets a program's output like a terminal, keeps its colours as styles and
//! drops other sequences. This module does not know the screen.

mod screen;

use std::borrow::Cow;
use std::fmt::Write as _;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Columns between tab stops.
pub const TAB: usize = 4;

/// Maximum number of combining marks on a character. Scripts need two or three; hundreds would
/// cover neighbouring lines.
const MARKS: usize = 8;

/// Escapes control and invisible characters as `\u{…}` and expands tabs. Line breaks stay, and so
/// do joiners inside an emoji.
pub fn printable(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(cleaned(text, |shown, character, column| match character {
        '\n' => shown.push('\n'),
        '\t' => shown.extend(std::iter::repeat_n(' ', TAB - column % TAB)),
        other => write_out(shown, other),
    }))
}

/// Like [`printable`] on one line, for titles and text inside a sentence.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if is_plain(text) && !text.contains('\n') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(cleaned(text, |shown, character, _| match character {
        '\n' => shown.push('↵'),
        '\t' => shown.push(' '),
        other => write_out(shown, other),
    }))
}

/// The printable lines of a text, without line breaks.
pub fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split('\n').map(|line| printable(line.strip_suffix('\r').unwrap_or(line)))
}

/// A program's output as lines. Carriage returns, backspaces and cursor movements are interpreted,
/// colours become styles on top of `style` (if `colors`), and other sequences are dropped.
pub fn output(text: &str, style: Style, colors: bool) -> Vec<Line<'static>> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if !text.contains(|it: char| it.is_ascii_control() && it != '\n') {
        let line = |line| Line::from(Span::styled(printable(line).into_owned(), style));
        return text.split('\n').map(line).collect();
    }
    screen::read(text, style, colors)
}

/// Whether the text contains only ordinary characters. Most texts do.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte))
}

fn write_out(shown: &mut String, character: char) {
    // Writing to a String cannot fail.
    let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
}

/// Copies visible characters and passes the others to `replace` with their column.
fn cleaned(text: &str, replace: impl Fn(&mut String, char, usize)) -> String {
    let mut shown = String::with_capacity(text.len() + 8);
    let (mut before, mut marks, mut column) = (None, 0, 0);
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let kept = !is_unseen(character) || joins(before, character, rest.peek().copied());
        marks = if is_mark(character) { marks + 1 } else { 0 };
        if kept && marks <= MARKS {
            shown.push(character);
            column += unicode_width::UnicodeWidthChar::width(character).unwrap_or_default();
        } else if !kept {
            let length = shown.len();
            replace(&mut shown, character, column);
            column = if character == '\n' { 0 } else { column + shown.len() - length };
        }
        before = Some(character);
    }
    shown
}

fn is_mark(character: char) -> bool {
    !character.is_ascii() && unicode_width::UnicodeWidthChar::width(character) == Some(0)
}

/// Ranges of control and invisible characters: C0, DEL and C1 controls, fillers, joiners, bidi
/// controls, line and paragraph separators, variation selectors, interlinear marks, tags and other
/// default-ignorable code points.
const UNSEEN: &[(u32, u32)] = &[
    (0x0, 0x1f),
    (0x7f, 0x9f),
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x600, 0x605),
    (0x61c, 0x61c),
    (0x6dd, 0x6dd),
    (0x70f, 0x70f),
    (0x890, 0x891),
    (0x8e2, 0x8e2),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0fff),
];

/// Whether the character is a control or invisible character.
pub fn is_unseen(character: char) -> bool {
    let code = u32::from(character);
    if (0x20..0x7f).contains(&code) {
        return false;
    }
    UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Whether a joiner is part of an emoji: `⚠` with its variation selector, `👩‍💻` with its joiner,
/// `1️⃣` with its frame.
pub fn joins(before: Option<char>, character: char, after: Option<char>) -> bool {
    const SELECTOR: char = '\u{fe0f}';
    const JOINER: char = '\u{200d}';
    const KEYCAP: char = '\u{20e3}';
    let key = |before: char| before.is_ascii_digit() || matches!(before, '#' | '*');
    match character {
        SELECTOR => {
            before.is_some_and(is_pictograph) || (before.is_some_and(key) && after == Some(KEYCAP))
        }
        JOINER => {
            before.is_some_and(|before| is_pictograph(before) || before == SELECTOR)
                && after.is_some_and(is_pictograph)
        }
        _ => false,
    }
}

fn is_pictograph(character: char) -> bool {
    matches!(u32::from(character), 0x203c..=0x27ff | 0x2900..=0x3299 | 0x1f000..=0x1faff)
        && !is_unseen(character)
}

#[cfg(test)]
#[path = "safe_tests.rs"]
pub(crate) mod tests;
