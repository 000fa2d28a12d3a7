//! Provisional: cells and details as plain text, until the rendering half takes its place.

use loggia_core::{Cell, CellBody, Details, StepState};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::safe;

/// Text in rows of at most `width` columns, broken at graphemes.
pub fn wrapped(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let width = usize::from(width.max(1));
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let line = line.replace('\t', "    ");
        let (mut row, mut column) = (String::new(), 0);
        for grapheme in line.graphemes(true) {
            let wide = grapheme.width();
            if column + wide > width && column > 0 {
                lines.push(Line::from(Span::styled(std::mem::take(&mut row), style)));
                column = 0;
            }
            row.push_str(grapheme);
            column += wide;
        }
        lines.push(Line::from(Span::styled(row, style)));
    }
    lines
}

pub fn details(details: &Details, width: u16) -> Vec<Line<'static>> {
    let plain = Style::new();
    match details {
        Details::Execute { command, directory } => {
            let mut lines = wrapped(&safe::printable(&format!("in {directory}")), width, plain);
            lines.extend(wrapped(&safe::printable(&format!("$ {command}")), width, plain));
            lines
        }
        Details::Edit(diff) => {
            let text = safe::printable(diff.unified.trim_end_matches('\n'));
            let style = |line: &str| match line.chars().next() {
                Some('+') => plain.fg(Color::Green),
                Some('-') => plain.fg(Color::Red),
                _ => plain,
            };
            text.split('\n').flat_map(|line| wrapped(line, width, style(line))).collect()
        }
        Details::Mcp { server, tool } => {
            wrapped(&safe::printable(&format!("{tool} of {server}")), width, plain)
        }
        Details::Question { text, .. } | Details::Generic { text } => {
            wrapped(&safe::printable(text), width, plain)
        }
    }
}

pub fn cell(cell: &Cell, width: u16) -> Vec<Line<'static>> {
    let inner = width.saturating_sub(2).max(1);
    let text = match &cell.body {
        CellBody::Prompt { text, .. } => format!("› [{}] {text}", cell.origin),
        CellBody::Text { text } => text.trim().to_owned(),
        CellBody::Thought { subject, text } => format!("thought: {subject} {text}"),
        CellBody::Plan { steps } => {
            let done = |state| if state == StepState::Completed { "x" } else { " " };
            let rows: Vec<String> =
                steps.iter().map(|step| format!("[{}] {}", done(step.state), step.text)).collect();
            rows.join("\n")
        }
        CellBody::Sources { sources } => {
            let rows: Vec<String> =
                sources.iter().map(|source| format!("{} {}", source.title, source.uri)).collect();
            rows.join("\n")
        }
        CellBody::Call(call) => {
            let by = call.answered.as_ref().map(|(choice, by)| format!(" ({choice} by {by})"));
            let end = call.outcome.as_ref().map(|outcome| outcome.summary().to_owned());
            let end = end.unwrap_or_else(|| call.live.clone());
            format!("• {}{}\n{end}", call.title, by.unwrap_or_default())
        }
        CellBody::Notice { text, .. } => format!("! {text}"),
        CellBody::TurnEnd { outcome } => format!("— {outcome:?}"),
    };
    let lines = wrapped(&safe::printable(&text), inner, Style::new());
    let indented = lines.into_iter().map(|line| {
        let mut spans = vec![Span::raw("  ")];
        spans.extend(line.spans);
        Line::from(spans)
    });
    indented.chain([Line::default()]).collect()
}
