//! A tool call: subject, state, approval, output, outcome.

use loggia_core::{CallCell, CallOutcome, CallState, ChoiceId, Details, FileDiff, KnownChoice};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{CellContext, Keep, MOST_LINES, elapsed};
use crate::diff::{Diff, DiffOptions};
use crate::safe::{one_line, output};
use crate::theme::Depth;
use crate::wrap::{Break, Margin, cut, wrap};

/// Summary lines of a title, a command or question, output, a change.
const TITLE: usize = 3;
const ABOUT: usize = 6;
const OUTPUT: usize = 5;
/// Output lines of a person's own command.
const OWN_OUTPUT: usize = 20;
const CHANGE: usize = 24;
/// Bytes of output read for a summary, and in total. Progress bars move up only a few lines.
const SUMMARY_BYTES: usize = 32 * 1024;
const SUMMARY_LINES: usize = 200;
const MOST_BYTES: usize = 2 * 1024 * 1024;

pub fn call(call: &CallCell, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let change = change(call).map(Diff::of);
    let mut lines = head(call, change.as_ref(), context);
    // The dialog shows the question in full.
    if call.state == CallState::Asked && call.outcome.is_none() && !context.expanded {
        return lines;
    }
    lines.extend(about(call, context));
    if let Some(change) = &change {
        let width = context.width.saturating_sub(2).max(1);
        let look = DiffOptions { width, theme: context.theme, highlighter: context.highlighter };
        let changed = context.shortened(change.lines(&look), CHANGE, Keep::Start);
        lines.extend(indented(&changed, context));
    }
    lines.extend(printed(call, change.is_some(), context));
    lines
}

/// The applied change, or else the proposed one.
fn change(call: &CallCell) -> Option<&FileDiff> {
    let made = match &call.outcome {
        Some(CallOutcome::Succeeded { output }) => output.diff.as_ref(),
        Some(CallOutcome::Failed { .. } | CallOutcome::Cancelled { .. }) | None => None,
    };
    made.or(match &call.details {
        Details::Edit(diff) => Some(diff),
        Details::Execute { .. }
        | Details::Mcp { .. }
        | Details::Question { .. }
        | Details::Generic { .. } => None,
    })
}

/// `✓ title +1 −2 · 3s · approved by …`
fn head(call: &CallCell, change: Option<&Diff>, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let theme = context.theme;
    let (mark, style) = match (&call.outcome, call.state) {
        (Some(CallOutcome::Succeeded { .. }), _) => ("✓", theme.success),
        (Some(CallOutcome::Failed { .. }), _) => ("✗", theme.failure),
        (Some(CallOutcome::Cancelled { .. }), _) => ("⊘", theme.dim),
        (None, CallState::Asked) => ("?", theme.waiting),
        (None, CallState::Proposed | CallState::Started | CallState::Ended) => {
            (context.spinner(), theme.running)
        }
    };
    let title = if call.title.trim().is_empty() { &call.tool } else { &call.title };
    let title = Span::styled(one_line(title.trim()).into_owned(), theme.tool);
    let room = if context.expanded { usize::MAX } else { context.width.saturating_mul(TITLE) };
    let mut spans = cut(&[title], room).spans;
    if let Some(change) = change {
        spans.push(Span::raw(" "));
        spans.extend(change.counts(theme));
    }
    let dot = || Span::styled(" · ", theme.dim);
    let time = call.started.and_then(|from| elapsed(from, call.ended.unwrap_or(context.now)));
    if let Some(time) = time {
        spans.extend([dot(), Span::styled(time, theme.dim)]);
    }
    if let Some((choice, origin)) = &call.answered {
        let text = format!("{} by {}", answer(choice, &call.details), context.who(origin));
        spans.extend([dot(), Span::styled(text, theme.dim)]);
    } else if call.state == CallState::Asked {
        spans.extend([dot(), Span::styled("waits for an answer", theme.waiting)]);
    }
    let margin = Margin::hanging(&format!("{mark} "), style);
    wrap(&spans, context.width, &margin, Break::Words)
}

fn answer(choice: &ChoiceId, details: &Details) -> &'static str {
    match choice.known() {
        Some(KnownChoice::Cancel) => "refused",
        Some(KnownChoice::Answer) => "answered",
        _ if matches!(details, Details::Question { .. }) => "answered",
        Some(KnownChoice::ProceedAlways | KnownChoice::ProceedAlwaysProject) => "always allowed",
        Some(KnownChoice::ProceedOnce) | None => "approved",
    }
}

/// Details that the title does not contain.
fn about(call: &CallCell, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let theme = context.theme;
    let hanging = |mark: &str| context.indent().and(&Margin::hanging(mark, theme.dim));
    let mut lines = match &call.details {
        Details::Execute { command, .. } if says(&call.title, command) => Vec::new(),
        Details::Execute { command, .. } => context.paragraph(command, theme.code, &hanging("$ ")),
        Details::Edit(_) => Vec::new(),
        Details::Mcp { server, tool } => {
            let text = format!("{} of {}", one_line(tool), one_line(server));
            context.paragraph(&text, theme.dim, &context.indent())
        }
        Details::Question { text, options } => {
            let mut lines = match says(&call.title, text) {
                true => Vec::new(),
                false => context.paragraph(text, Style::new(), &context.indent()),
            };
            for option in options {
                lines.extend(context.paragraph(&one_line(option), theme.dim, &hanging("- ")));
            }
            lines
        }
        Details::Generic { text } if text.trim().is_empty() || says(&call.title, text) => {
            Vec::new()
        }
        Details::Generic { text } => context.paragraph(text, theme.dim, &context.indent()),
    };
    if let (Details::Execute { directory, .. }, true) = (&call.details, context.expanded) {
        lines.extend(context.paragraph(&one_line(directory), theme.dim, &hanging("in ")));
    }
    context.shortened(lines, ABOUT, Keep::Start)
}

fn says(title: &str, text: &str) -> bool {
    title.contains(text.trim()) && !text.trim().contains('\n')
}

/// The output so far and the outcome.
fn printed(call: &CallCell, changed: bool, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let theme = context.theme;
    let live = call.live.trim_end();
    let command = matches!(call.details, Details::Execute { .. });
    // Keep the end of a command's output, the start of other results.
    let keep = if command || !live.is_empty() { Keep::End } else { Keep::Start };
    let mut lines = Vec::new();
    let limit = if call.typed { OWN_OUTPUT } else { OUTPUT };
    let mut show = |text: &str, style: Style, keep: Keep| {
        if !text.trim().is_empty() {
            if call.skipped > 0 && text == live {
                let before = format!("… {} bytes before this are left out", call.skipped);
                lines.extend(context.paragraph(&before, theme.dim, &context.indent()));
            }
            lines.extend(output_lines(text, style, keep, limit, context));
        }
    };
    match &call.outcome {
        None => show(live, theme.dim, Keep::End),
        Some(CallOutcome::Succeeded { output }) => {
            let text = output.text.trim_end();
            match (live.contains(text), text.contains(live)) {
                _ if changed => {}
                (true, _) => show(live, theme.dim, keep),
                (false, true) => show(text, theme.dim, keep),
                (false, false) => {
                    show(live, theme.dim, keep);
                    show(text, theme.dim, Keep::Start);
                }
            }
            if let Some(artifact) = &output.artifact {
                let text = format!("artifact {}", one_line(&artifact.name));
                show(&text, theme.dim, Keep::Start);
            }
        }
        Some(CallOutcome::Failed { failure }) => {
            let message = failure.message.trim_end();
            if !message.contains(live) {
                show(live, theme.dim, Keep::End);
            }
            show(message, theme.failure, Keep::End);
        }
        Some(CallOutcome::Cancelled { reason }) => {
            show(live, theme.dim, Keep::End);
            // The head already shows who refused it.
            let said = call.answered.as_ref().map(|(_, origin)| format!("refused by {origin}"));
            if said.as_ref() != Some(reason) {
                show(reason, theme.dim, Keep::Start);
            }
        }
    }
    lines
}

/// Output as a terminal shows it. Reads only the part that is kept.
fn output_lines(
    text: &str,
    style: Style,
    keep: Keep,
    limit: usize,
    context: &CellContext<'_>,
) -> Vec<Line<'static>> {
    let (bytes, count, limit) = match context.expanded {
        true => (MOST_BYTES, MOST_LINES, MOST_LINES),
        false => (SUMMARY_BYTES, SUMMARY_LINES, limit),
    };
    let (part, unread) = match keep {
        Keep::Start => start(text, bytes, count),
        Keep::End => end(text, bytes, count),
    };
    let colors = context.theme.depth != Depth::None;
    let mut lines = Vec::new();
    for line in output(part, style, colors) {
        lines.extend(wrap(&line.spans, context.width, &context.indent(), Break::Anywhere));
    }
    context.limited(lines, unread, limit, keep)
}

/// The start of a text, and the number of lines after it.
fn start(text: &str, bytes: usize, count: usize) -> (&str, usize) {
    let within = text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
    let lines = within.match_indices('\n').nth(count.saturating_sub(1)).map(|(at, _)| at);
    let part = lines.and_then(|end| within.get(..end)).unwrap_or(within);
    let rest = text.get(part.len()..).unwrap_or_default();
    (part, rest.trim_end().matches('\n').count() + usize::from(lines.is_none() && !rest.is_empty()))
}

/// The end of a text, and the number of lines before it.
fn end(text: &str, bytes: usize, count: usize) -> (&str, usize) {
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    let within = text.get(from..).unwrap_or_default();
    let lines = within.rmatch_indices('\n').nth(count.saturating_sub(1)).map(|(at, _)| at + 1);
    let part = lines.and_then(|start| within.get(start..)).unwrap_or(within);
    let rest = text.get(..text.len() - part.len()).unwrap_or_default();
    (part, rest.matches('\n').count() + usize::from(lines.is_none() && !rest.is_empty()))
}

fn indented(lines: &[Line<'static>], context: &CellContext<'_>) -> Vec<Line<'static>> {
    let indent =
        |line: &Line<'static>| wrap(&line.spans, context.width, &context.indent(), Break::Anywhere);
    lines.iter().flat_map(indent).collect()
}
