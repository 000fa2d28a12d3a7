//! Draws a change: unified, or side by side if there is room.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Diff, DiffRow, Hunk, Side};
use crate::highlight::{Code, Highlighter};
use crate::safe::one_line;
use crate::theme::{Depth, Theme};
use crate::wrap::{Break, Margin, cut, spans_width, wrap};

/// Minimum width for side by side.
pub const SIDE_BY_SIDE: usize = 120;
/// Below these widths, show one line number or none.
const TWO_NUMBERS: usize = 60;
const ONE_NUMBER: usize = 24;

/// Drawing options.
#[derive(Clone, Copy)]
pub struct DiffOptions<'a> {
    pub width: usize,
    pub theme: &'a Theme,
    pub highlighter: Highlighter,
}

impl Diff {
    /// `path +1 −2`, on one line.
    pub fn header(&self, options: &DiffOptions<'_>) -> Line<'static> {
        let mut spans = vec![Span::styled(one_line(&self.path).into_owned(), options.theme.strong)];
        spans.push(Span::raw(" "));
        spans.extend(self.counts(options.theme));
        cut(&spans, options.width)
    }

    /// `+1 −2`, and file properties.
    pub fn counts(&self, theme: &Theme) -> Vec<Span<'static>> {
        let mut spans = vec![
            Span::styled(format!("+{}", self.added), theme.added),
            Span::raw(" "),
            Span::styled(format!("−{}", self.removed), theme.removed),
        ];
        if self.is_new {
            spans.push(Span::styled(" new file", theme.dim));
        }
        if self.protected {
            spans.push(Span::styled(" protected", theme.warning));
        }
        spans
    }

    /// The changes, without the header.
    pub fn lines(&self, options: &DiffOptions<'_>) -> Vec<Line<'static>> {
        let pairs = options.width >= SIDE_BY_SIDE && self.added > 0 && self.removed > 0;
        let mut lines = Vec::new();
        for hunk in &self.hunks {
            if hunk.folded > 0 && !lines.is_empty() {
                let text = format!("⋯ {} unchanged {}", hunk.folded, plural(hunk.folded));
                lines.push(cut(&[Span::styled(text, options.theme.dim)], options.width));
            }
            let mut painter = HunkPainter::new(self, options);
            match pairs {
                true => painter.side_by_side(hunk, &mut lines),
                false => hunk.rows.iter().for_each(|row| painter.unified(row, &mut lines)),
            }
        }
        if self.left_out > 0 {
            let text = format!("… {} more changed lines are not shown", self.left_out);
            lines.push(cut(&[Span::styled(text, options.theme.warning)], options.width));
        }
        if self.added + self.removed == 0 {
            lines.push(cut(&[Span::styled("no change", options.theme.dim)], options.width));
        }
        lines
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "line" } else { "lines" }
}

/// Draws one hunk. Highlighting starts at the hunk, without earlier lines.
struct HunkPainter<'a> {
    options: &'a DiffOptions<'a>,
    digits: usize,
    old: Code,
    new: Code,
}

impl<'a> HunkPainter<'a> {
    fn new(diff: &Diff, options: &'a DiffOptions<'a>) -> Self {
        let code = || options.highlighter.file(&diff.path, options.theme);
        Self { options, digits: diff.digits, old: code(), new: code() }
    }

    fn unified(&mut self, row: &DiffRow, lines: &mut Vec<Line<'static>>) {
        let (width, digits) = (self.options.width, self.digits);
        let number = |number: usize, shown: bool| match shown {
            true => format!("{number:>digits$} "),
            false => " ".repeat(digits + 1),
        };
        let numbers = match row.side {
            _ if width < ONE_NUMBER => String::new(),
            Side::Removed if width < TWO_NUMBERS => number(row.old, true),
            Side::Added | Side::Same if width < TWO_NUMBERS => number(row.new, true),
            side => number(row.old, side != Side::Added) + &number(row.new, side != Side::Removed),
        };
        let spans = self.spans(row);
        lines.extend(self.row(&numbers, row, &spans, width));
        if row.unended {
            let indent = spans_width(&[Span::raw(numbers)]) + 2;
            lines.push(self.unended(indent, width));
        }
    }

    fn row(
        &self,
        numbers: &str,
        row: &DiffRow,
        spans: &[Span<'static>],
        width: usize,
    ) -> Vec<Line<'static>> {
        let (sign, style) = match row.side {
            Side::Same => ("  ", self.options.theme.dim),
            Side::Removed => ("- ", self.options.theme.removed),
            Side::Added => ("+ ", self.options.theme.added),
        };
        let first = vec![
            Span::styled(numbers.to_owned(), self.options.theme.dim),
            Span::styled(sign, style),
        ];
        let rest = vec![Span::raw(" ".repeat(spans_width(&first)))];
        wrap(spans, width, &Margin::new(first, rest), Break::Anywhere)
    }

    fn unended(&self, indent: usize, width: usize) -> Line<'static> {
        let text = format!("{}\\ no line break at the end", " ".repeat(indent));
        cut(&[Span::styled(text, self.options.theme.dim)], width)
    }

    /// The text of a row: highlighted, tinted by its side, with changed words marked.
    fn spans(&mut self, row: &DiffRow) -> Vec<Span<'static>> {
        let theme = self.options.theme;
        let (code, behind, word) = match row.side {
            Side::Same => {
                drop(self.old.line(&row.text, theme));
                (&mut self.new, Style::new(), Style::new())
            }
            Side::Removed => (&mut self.old, theme.removed_line, theme.removed_word),
            Side::Added => (&mut self.new, theme.added_line, theme.added_word),
        };
        let mut spans = code.line(&row.text, theme);
        // With sixteen colours, show the side instead of the syntax.
        if row.side != Side::Same && theme.depth == Depth::Sixteen {
            spans = vec![Span::raw(row.text.clone())];
        }
        let spans = spans.into_iter().map(|span| span.patch_style(behind)).collect();
        marked(spans, &row.words, word)
    }

    fn side_by_side(&mut self, hunk: &Hunk, lines: &mut Vec<Line<'static>>) {
        let mut rows = hunk.rows.as_slice();
        while let Some(first) = rows.first() {
            if first.side == Side::Same {
                let spans = self.spans(first);
                self.pair(Some((first, &spans)), Some((first, &spans)), lines);
                rows = rows.get(1..).unwrap_or_default();
                continue;
            }
            let count =
                |rows: &[DiffRow], side| rows.iter().take_while(|row| row.side == side).count();
            let (removed, rest) = rows.split_at(count(rows, Side::Removed));
            let (added, rest) = rest.split_at(count(rest, Side::Added));
            for at in 0..removed.len().max(added.len()) {
                let left = removed.get(at).map(|row| (row, self.spans(row)));
                let right = added.get(at).map(|row| (row, self.spans(row)));
                self.pair(
                    left.as_ref().map(|(row, spans)| (*row, spans.as_slice())),
                    right.as_ref().map(|(row, spans)| (*row, spans.as_slice())),
                    lines,
                );
            }
            rows = rest;
        }
    }

    fn pair(
        &self,
        left: Option<(&DiffRow, &[Span<'static>])>,
        right: Option<(&DiffRow, &[Span<'static>])>,
        lines: &mut Vec<Line<'static>>,
    ) {
        let half = (self.options.width - 3) / 2;
        let digits = self.digits;
        let column = |side: Option<(&DiffRow, &[Span<'static>])>, is_left: bool| {
            let Some((row, spans)) = side else { return Vec::new() };
            let number = if is_left { row.old } else { row.new };
            let mut lines = self.row(&format!("{number:>digits$} "), row, spans, half);
            if row.unended {
                lines.push(self.unended(digits + 3, half));
            }
            lines
        };
        let (left, right) = (column(left, true), column(right, false));
        for at in 0..left.len().max(right.len()) {
            let mut spans = left.get(at).map(|line| line.spans.clone()).unwrap_or_default();
            let free = half.saturating_sub(spans_width(&spans));
            spans.push(Span::raw(" ".repeat(free)));
            spans.push(Span::styled(" │ ", self.options.theme.marker));
            spans.extend(right.get(at).map(|line| line.spans.clone()).unwrap_or_default());
            lines.push(Line::from(spans));
        }
    }
}

/// Applies `style` to byte ranges of the spans.
fn marked(spans: Vec<Span<'static>>, ranges: &[Range<usize>], style: Style) -> Vec<Span<'static>> {
    if ranges.is_empty() {
        return spans;
    }
    let mut marked = Vec::new();
    let mut start = 0;
    for span in spans {
        let end = start + span.content.len();
        // The borders of the ranges inside this span, and its own.
        let mut borders: Vec<usize> = ranges
            .iter()
            .flat_map(|range| [range.start, range.end])
            .filter(|at| (start..end).contains(at))
            .chain([start, end])
            .collect();
        borders.sort_unstable();
        borders.dedup();
        for pair in borders.windows(2) {
            let [from, to] = pair else { continue };
            let piece = span.content.get(from - start..to - start).unwrap_or_default();
            let inside = ranges.iter().any(|range| range.contains(from));
            let style = if inside { span.style.patch(style) } else { span.style };
            marked.push(Span::styled(piece.to_owned(), style));
        }
        start = end;
    }
    marked
}
