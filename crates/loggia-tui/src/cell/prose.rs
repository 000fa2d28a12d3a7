//! Prompts, thoughts, notices and turn ends.

use loggia_core::{Cell, CellBody, Level, Origin, Surface, TurnOutcome};
use ratatui::text::{Line, Span};

use super::{CellContext, Keep};
use crate::markdown;
use crate::safe::one_line;
use crate::wrap::{Break, Margin, wrap};

/// Lines of a collapsed notice or turn end.
const NOTICE: usize = 6;
/// Lines of a collapsed prompt.
const PROMPT: usize = 12;

pub fn prompt(
    text: &str,
    origin: &Origin,
    queued: bool,
    withdrawn: bool,
    context: &CellContext<'_>,
) -> Vec<Line<'static>> {
    let theme = context.theme;
    let style = match (queued, withdrawn) {
        (_, true) => theme.dim.patch(theme.struck),
        (true, false) => theme.dim,
        (false, false) => theme.user,
    };
    let mut first = Vec::new();
    if let Some(label) = context.label(origin) {
        first.push(Span::styled(label, theme.origin));
        first.push(Span::raw("  "));
    }
    match (queued, withdrawn) {
        (_, true) => first.push(Span::styled("(withdrawn) ", theme.dim)),
        (true, false) => first.push(Span::styled("(queued) ", theme.dim)),
        (false, false) => {}
    }
    let margin = Margin::hanging("› ", theme.user);
    let text = if text.trim().is_empty() { "(no text)" } else { text.trim_end() };
    let mut lines = Vec::new();
    for line in crate::safe::lines(text) {
        let mut spans = std::mem::take(&mut first);
        spans.push(Span::styled(line.into_owned(), style));
        let margin = if lines.is_empty() { margin.clone() } else { margin.continued() };
        lines.extend(wrap(&spans, context.width, &margin, Break::Words));
    }
    context.shortened(lines, PROMPT, Keep::Start)
}

/// One line, or the whole thought below its subject.
pub fn thought(subject: &str, text: &str, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let theme = context.theme;
    let body = text.trim();
    let subject = one_line(subject.trim());
    let mark = Span::styled("∴ ", theme.thought);
    if context.expanded {
        let subject = if subject.is_empty() { "Thought" } else { &subject };
        let head = Span::styled(subject.to_owned(), theme.thought.patch(theme.strong));
        let mut lines = vec![context.line(&[mark, head])];
        let width = context.width.saturating_sub(2).max(1);
        for mut line in markdown::render(body, width, theme, context.highlighter) {
            for span in &mut line.spans {
                span.style = theme.thought.patch(span.style);
            }
            lines.extend(wrap(&line.spans, context.width, &context.indent(), Break::Anywhere));
        }
        return lines;
    }
    let start = body.lines().next().unwrap_or_default();
    let head = match (subject.is_empty(), start.is_empty()) {
        (true, true) => "Thinking".to_owned(),
        (true, false) => one_line(start).into_owned(),
        (false, true) => subject.into_owned(),
        (false, false) => format!("{subject}: {}", one_line(start)),
    };
    vec![context.line(&[mark, Span::styled(head, theme.thought)])]
}

/// A text that broke off. Its thoughts are not mentioned.
pub fn discarded(cell: &Cell, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let CellBody::Text { .. } = &cell.body else { return Vec::new() };
    let text = "The reply above broke off and does not count.";
    context.paragraph(text, context.theme.dim, &Margin::hanging("⊘ ", context.theme.dim))
}

pub fn notice(level: Level, text: &str, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let theme = context.theme;
    let (mark, style) = match level {
        Level::Info => ("· ", theme.dim),
        Level::Warning => ("! ", theme.warning),
        Level::Error => ("✗ ", theme.failure),
    };
    let lines = context.paragraph(text.trim(), style, &Margin::hanging(mark, style));
    context.shortened(lines, NOTICE, Keep::Start)
}

pub fn turn_end(
    outcome: &TurnOutcome,
    origin: &Origin,
    context: &CellContext<'_>,
) -> Vec<Line<'static>> {
    let theme = context.theme;
    let person = !matches!(origin.surface, Surface::Agent | Surface::System);
    let (mark, text, style) = match outcome {
        TurnOutcome::Completed => return Vec::new(),
        TurnOutcome::Failed { message, .. } => ("✗ ", format!("Failed: {message}"), theme.failure),
        TurnOutcome::Cancelled if person => {
            ("⊘ ", format!("Cancelled by {}", context.who(origin)), theme.dim)
        }
        TurnOutcome::Cancelled => ("⊘ ", "Cancelled".to_owned(), theme.dim),
        TurnOutcome::Interrupted => {
            ("⊘ ", "Interrupted: Loggia stopped during this turn".to_owned(), theme.warning)
        }
    };
    let lines = context.paragraph(&text, style, &Margin::hanging(mark, style));
    context.shortened(lines, NOTICE, Keep::Start)
}
