//! Renders a table: natural column widths if they fit, wrapped cells if not, and records on narrow
//! screens.

use pulldown_cmark::Alignment;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::theme::Theme;
use crate::wrap::{Break, Margin, spans_width, wrap};

/// Minimum column width.
const NARROWEST: usize = 5;
const BETWEEN: &str = " │ ";
const CROSSING: &str = "─┼─";
/// Maximum number of columns.
const MOST: usize = 32;

type Cell = Vec<Span<'static>>;

pub struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    pub fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub fn cell(&mut self, cell: Cell) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    pub fn render(&self, width: usize, margin: &Margin, theme: &Theme) -> Vec<Line<'static>> {
        let columns = self.alignments.len().max(1);
        let room = width.saturating_sub(margin.width());
        let between = crate::wrap::width(BETWEEN) * (columns - 1);
        match room.checked_sub(between) {
            Some(free) if free >= columns * NARROWEST && columns <= MOST => {
                self.grid(&self.widths(free), width, margin, theme)
            }
            _ => self.records(width, margin, theme),
        }
    }

    /// Natural widths, with the widest columns reduced to a common width until all fit.
    fn widths(&self, free: usize) -> Vec<usize> {
        let natural = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| spans_width(cell)).max().unwrap_or_default().max(1)
        };
        let natural: Vec<usize> = (0..self.alignments.len()).map(natural).collect();
        let total = |limit: usize| natural.iter().map(|width| (*width).min(limit)).sum::<usize>();
        let mut limit = free;
        while limit > NARROWEST && total(limit) > free {
            limit -= 1;
        }
        natural.into_iter().map(|width| width.min(limit)).collect()
    }

    fn grid(
        &self,
        widths: &[usize],
        width: usize,
        margin: &Margin,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            for line in self.grid_row(row, widths, index == 0, theme) {
                lines.extend(wrap(&line, width, &next_margin(&lines, margin), Break::Anywhere));
            }
            if index == 0 {
                let parts: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                let rule = Span::styled(parts.join(CROSSING), theme.marker);
                lines.extend(wrap(&[rule], width, &margin.continued(), Break::Anywhere));
            }
        }
        lines
    }

    fn grid_row(&self, row: &[Cell], widths: &[usize], head: bool, theme: &Theme) -> Vec<Cell> {
        let style = if head { theme.strong } else { Style::new() };
        let cells: Vec<Vec<Line<'static>>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                let cell = row.get(column).map(Vec::as_slice).unwrap_or_default();
                wrap(cell, *width, &Margin::default(), Break::Words)
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        let line = |index: usize| {
            let mut line = Vec::new();
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                if column > 0 {
                    line.push(Span::styled(BETWEEN, theme.marker));
                }
                let spans = cell.get(index).map(|line| line.spans.clone()).unwrap_or_default();
                let free = width.saturating_sub(spans_width(&spans));
                let (left, right) = match self.alignments.get(column) {
                    Some(Alignment::Right) => (free, 0),
                    Some(Alignment::Center) => (free / 2, free - free / 2),
                    Some(Alignment::Left | Alignment::None) | None => (0, free),
                };
                line.push(Span::raw(" ".repeat(left)));
                line.extend(spans.into_iter().map(|span| span.patch_style(style)));
                if column + 1 < widths.len() {
                    line.push(Span::raw(" ".repeat(right)));
                }
            }
            line
        };
        (0..height).map(line).collect()
    }

    /// `head: cell` lines with an empty line after each row.
    fn records(&self, width: usize, margin: &Margin, theme: &Theme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let head = self.rows.first().map(Vec::as_slice).unwrap_or_default();
        let body = self.rows.get(1..).unwrap_or_default();
        if body.is_empty() {
            for cell in head {
                lines.extend(wrap(cell, width, &next_margin(&lines, margin), Break::Words));
            }
        }
        for (index, row) in body.iter().enumerate() {
            if index > 0 {
                lines.extend(wrap(&[], width, &margin.continued(), Break::Words));
            }
            for (column, cell) in row.iter().enumerate() {
                let mut spans: Cell = head.get(column).cloned().unwrap_or_default();
                spans = spans.into_iter().map(|span| span.patch_style(theme.strong)).collect();
                spans.push(Span::styled(": ", theme.marker));
                spans.extend(cell.iter().cloned());
                lines.extend(wrap(&spans, width, &next_margin(&lines, margin), Break::Words));
            }
        }
        lines
    }
}

/// The margin of the next line: a mark appears only on the first one.
fn next_margin(lines: &[Line<'static>], margin: &Margin) -> Margin {
    if lines.is_empty() { margin.clone() } else { margin.continued() }
}
