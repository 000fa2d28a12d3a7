//! Wraps and cuts lines by the display width of graphemes.
//!
//! Widths are those of the drawing buffer, so that measured and drawn widths agree. Texts are
//! already printable ([`crate::safe`]).

use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

/// Replaces a character that is wider than the screen.
const TOO_WIDE: &str = "\u{fffd}";

/// Minimum columns that a margin leaves for the text, if possible.
const LEAST: usize = 8;

/// Where a line may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Between words, and between characters of scripts without spaces. Drops spaces at the break.
    Words,
    /// Anywhere, keeping all spaces. For code and output.
    Anywhere,
}

/// The prefix of the first line and of the following ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Margin {
    pub first: Vec<Span<'static>>,
    pub rest: Vec<Span<'static>>,
}

impl Margin {
    pub fn new(first: Vec<Span<'static>>, rest: Vec<Span<'static>>) -> Self {
        Self { first, rest }
    }

    /// A mark, and blanks of its width on the following lines.
    pub fn hanging(mark: &str, style: Style) -> Self {
        let rest = Span::raw(" ".repeat(width(mark)));
        Self { first: vec![Span::styled(mark.to_owned(), style)], rest: vec![rest] }
    }

    /// The same prefix on every line.
    pub fn every(mark: &str, style: Style) -> Self {
        let mark = Span::styled(mark.to_owned(), style);
        Self { first: vec![mark.clone()], rest: vec![mark] }
    }

    /// This margin with `inner` to its right.
    #[must_use]
    pub fn and(&self, inner: &Margin) -> Self {
        Self {
            first: [self.first.clone(), inner.first.clone()].concat(),
            rest: [self.rest.clone(), inner.rest.clone()].concat(),
        }
    }

    /// The margin after the first line.
    #[must_use]
    pub fn continued(&self) -> Self {
        Self { first: self.rest.clone(), rest: self.rest.clone() }
    }

    pub fn width(&self) -> usize {
        spans_width(&self.first).max(spans_width(&self.rest))
    }
}

/// The columns of one grapheme.
pub fn grapheme_width(grapheme: &str) -> usize {
    if grapheme.chars().any(char::is_control) { 0 } else { usize::from(grapheme.cell_width()) }
}

/// The columns of a text.
pub fn width(text: &str) -> usize {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return text.len();
    }
    text.graphemes(true).map(grapheme_width).sum()
}

pub fn spans_width(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| width(&span.content)).sum()
}

/// Wraps spans to lines of at most `columns`, including the margin.
pub fn wrap(
    spans: &[Span<'static>],
    columns: usize,
    margin: &Margin,
    how: Break,
) -> Vec<Line<'static>> {
    let columns = columns.max(1);
    let room = columns.saturating_sub(LEAST);
    let (first, rest) = (fitting(&margin.first, room), fitting(&margin.rest, room));
    let taken = spans_width(&first).max(spans_width(&rest));
    let lines = broken(spans, columns - taken, how);
    let fronts = std::iter::once(first).chain(std::iter::repeat(rest));
    let join = |(mut front, line): (Vec<Span<'static>>, Vec<Span<'static>>)| {
        if line.iter().all(|span| span.content.is_empty()) {
            trim_end(&mut front);
        }
        front.extend(line);
        Line::from(front)
    };
    fronts.zip(lines).map(join).collect()
}

/// Removes trailing blanks of a line that has only a margin.
fn trim_end(spans: &mut Vec<Span<'static>>) {
    while let Some(last) = spans.last_mut() {
        let kept = last.content.trim_end_matches(' ').len();
        if kept > 0 {
            last.content.to_mut().truncate(kept);
            return;
        }
        spans.pop();
    }
}

/// Cuts a line to `columns` and marks the cut with `…`.
pub fn cut(spans: &[Span<'static>], columns: usize) -> Line<'static> {
    if spans_width(spans) <= columns {
        return Line::from(spans.to_vec());
    }
    let mut kept = fitting(spans, columns.saturating_sub(1));
    let style = kept.last().map(|span| span.style).unwrap_or_default();
    if columns > 0 {
        kept.push(Span::styled("…", style));
    }
    Line::from(kept)
}

/// The leftmost part of the spans that fits.
pub fn fitting(spans: &[Span<'static>], columns: usize) -> Vec<Span<'static>> {
    let mut left = columns;
    let mut kept = Vec::new();
    for span in spans {
        let whole = width(&span.content);
        if whole <= left {
            left -= whole;
            kept.push(span.clone());
            continue;
        }
        let mut text = String::new();
        for grapheme in span.content.graphemes(true) {
            let Some(rest) = left.checked_sub(grapheme_width(grapheme)) else { break };
            left = rest;
            text.push_str(grapheme);
        }
        kept.push(Span::styled(text, span.style));
        break;
    }
    kept
}

/// One grapheme of a span.
struct Piece<'a> {
    span: usize,
    text: &'a str,
    width: usize,
}

impl Piece<'_> {
    fn is_space(&self) -> bool {
        self.text == " "
    }

    /// Whether a line may break between this piece and `next`.
    fn ends_before(&self, next: &Piece<'_>) -> bool {
        const CLOSING: &str = "、。，．：；！？）］｝」』】〉》”’…ー";
        const OPENING: &str = "（［｛「『【〈《“‘";
        let wide = self.width > 1 || next.width > 1;
        wide && !CLOSING.contains(next.text) && !OPENING.contains(self.text) && next.width > 0
    }
}

fn broken(spans: &[Span<'static>], columns: usize, how: Break) -> Vec<Vec<Span<'static>>> {
    if spans_width(spans) <= columns {
        return vec![spans.to_vec()];
    }
    let pieces = pieces(spans, columns);
    let mut lines = Vec::new();
    // The first piece of the line, the column, and the last possible break.
    let (mut start, mut column, mut breakable) = (0, 0, None);
    let mut at = 0;
    while let Some(piece) = pieces.get(at) {
        if column + piece.width > columns {
            let next = match (how, breakable) {
                (Break::Words, _) if piece.is_space() => at,
                (Break::Words, Some(next)) => next,
                _ => at,
            };
            lines.push(line(spans, pieces.get(start..next).unwrap_or_default(), how));
            start = next;
            if how == Break::Words {
                let blank = |piece: &Piece<'_>| piece.is_space();
                start += pieces.iter().skip(next).take_while(|piece| blank(piece)).count();
            }
            (at, column, breakable) = (start, 0, None);
            continue;
        }
        column += piece.width;
        let after = pieces.get(at + 1);
        let only_blanks = || pieces.iter().skip(start).take(at + 1 - start).all(Piece::is_space);
        let may_end = piece.is_space() && !only_blanks()
            || after.is_some_and(|after| piece.ends_before(after));
        if may_end {
            breakable = Some(at + 1);
        }
        at += 1;
    }
    if start < pieces.len() || lines.is_empty() {
        // The last line is not broken, so it keeps its spaces.
        lines.push(line(spans, pieces.get(start..).unwrap_or_default(), Break::Anywhere));
    }
    lines
}

fn pieces<'a>(spans: &'a [Span<'static>], columns: usize) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for (span, content) in spans.iter().map(|span| &span.content).enumerate() {
        for grapheme in content.graphemes(true) {
            let width = grapheme_width(grapheme);
            let (text, width) = if width > columns { (TOO_WIDE, 1) } else { (grapheme, width) };
            pieces.push(Piece { span, text, width });
        }
    }
    pieces
}

fn line(spans: &[Span<'static>], pieces: &[Piece<'_>], how: Break) -> Vec<Span<'static>> {
    let trailing = match how {
        Break::Words => pieces.iter().rev().take_while(|piece| piece.is_space()).count(),
        Break::Anywhere => 0,
    };
    let mut line: Vec<Span<'static>> = Vec::new();
    let mut last = None;
    for piece in pieces.iter().take(pieces.len() - trailing) {
        match line.last_mut() {
            Some(span) if last == Some(piece.span) => span.content.to_mut().push_str(piece.text),
            _ => {
                let style = spans.get(piece.span).map(|span| span.style).unwrap_or_default();
                line.push(Span::styled(piece.text.to_owned(), style));
            }
        }
        last = Some(piece.span);
    }
    line
}

#[cfg(test)]
#[path = "wrap_tests.rs"]
mod tests;
