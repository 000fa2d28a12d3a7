//! Text that others wrote, made fit for a terminal.
//!
//! Whatever a model, a tool, a file or a client wrote passes through here before it becomes part of
//! a line: nothing that a terminal would obey, and nothing that a person could not see, is left.
//! [`printable`] and [`one_line`] write such characters out; [`output`] reads a program's output as
//! a terminal would, keeps its colours as styles and drops every other sequence.
//! What must not be here: widths of the screen, and what is shown where.

mod screen;

use std::borrow::Cow;
use std::fmt::Write as _;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Columns from one tab stop to the next.
pub const TAB: usize = 4;

/// Marks on top of one character. Scripts need two or three; a heap of hundreds paints over the
/// lines around it.
const MARKS: usize = 8;

/// The text with everything a terminal would obey or hide written out as `\u{…}`, and tabs as
/// spaces. Line breaks stay, and so do the joiners where they belong to an emoji.
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

/// The same on one line, for titles and for texts that are quoted inside a sentence.
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

/// The lines of a text, printable, without the line breaks.
pub fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split('\n').map(|line| printable(line.strip_suffix('\r').unwrap_or(line)))
}

/// A program's output as lines: carriage returns, backspaces and cursor movements within the output
/// are followed as a terminal would follow them, colours become styles on top of `style` (if
/// `colors`), every other sequence is dropped.
pub fn output(text: &str, style: Style, colors: bool) -> Vec<Line<'static>> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if !text.contains(|it: char| it.is_ascii_control() && it != '\n') {
        let line = |line| Line::from(Span::styled(printable(line).into_owned(), style));
        return text.split('\n').map(line).collect();
    }
    screen::read(text, style, colors)
}

/// Whether nothing in the text needs attention; most texts are so.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte))
}

fn write_out(shown: &mut String, character: char) {
    // Writing to a String cannot fail.
    let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
}

/// Passes what can be seen, and gives the rest to `replace` with the column it stands in.
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

/// First and last of the ranges that a terminal obeys or that nobody can see: C0, DEL and C1
/// controls, fillers, joiners, bidi controls, line and paragraph separators, variation selectors,
/// interlinear marks, tags and other default-ignorable code points.
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

/// Whether a terminal would obey the character, or nobody could see it.
pub fn is_unseen(character: char) -> bool {
    let code = u32::from(character);
    if (0x20..0x7f).contains(&code) {
        return false;
    }
    UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// `⚠` with its variation selector, `👩‍💻` with its joiner and `1️⃣` with its frame are ordinary
/// text.
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
