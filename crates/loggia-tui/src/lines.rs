//! Plain text as lines, and the details of a question.

use loggia_core::Details;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::diff::{Diff, DiffOptions};
use crate::highlight::Highlighter;
use crate::safe;
use crate::theme::Theme;
use crate::wrap::{Break, Margin, wrap};

/// Printable text wrapped to `width` columns.
pub fn wrapped(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    broken(text, width, style, &Margin::default(), Break::Words)
}

/// The first row only.
pub fn first(text: &str, width: u16, style: Style) -> Line<'static> {
    let span = Span::styled(safe::one_line(text).into_owned(), style);
    crate::wrap::cut(&[span], usize::from(width))
}

fn broken(text: &str, width: u16, style: Style, margin: &Margin, how: Break) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in safe::lines(text) {
        let margin = if lines.is_empty() { margin.clone() } else { margin.continued() };
        let spans = [Span::styled(line.into_owned(), style)];
        lines.extend(wrap(&spans, usize::from(width), &margin, how));
    }
    lines
}

/// The complete details of a question, with all white space.
pub fn details(details: &Details, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let plain = Style::new();
    match details {
        Details::Execute { command, directory } => {
            let mut lines = broken(
                directory,
                width,
                theme.dim,
                &Margin::hanging("in ", theme.dim),
                Break::Anywhere,
            );
            let margin = Margin::hanging("$ ", theme.dim);
            lines.extend(broken(command, width, theme.code, &margin, Break::Anywhere));
            lines
        }
        Details::Edit(change) => {
            let diff = Diff::of(change);
            let highlighter = Highlighter::when_ready();
            let look = DiffOptions { width: usize::from(width), theme, highlighter };
            let mut lines = vec![diff.header(&look)];
            match diff.is_whole() {
                true => lines.extend(diff.lines(&look)),
                // A change that is too large for a diff is still shown completely.
                false => {
                    let text = change.unified.trim_end_matches('\n');
                    lines.extend(broken(text, width, plain, &Margin::default(), Break::Anywhere));
                }
            }
            lines
        }
        Details::Mcp { server, tool } => wrapped(&format!("{tool} of {server}"), width, plain),
        Details::Question { text, .. } | Details::Generic { text } => wrapped(text, width, plain),
    }
}
