//! Renders one cell of the transcript to lines.
//!
//! A pure function without clock or state. Every line fits the width and is safe to print. Long
//! contents are shortened, with a note that counts the rest. This module does not handle positions,
//! keys or the log.

mod call;
mod list;
mod prose;

use loggia_core::{CallState, Cell, CellBody, Millis, Origin, Surface};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::highlight::Highlighter;
use crate::markdown;
use crate::own_origins::OwnOrigins;
use crate::safe::one_line;
use crate::theme::Theme;
use crate::wrap::{Break, Margin, cut, wrap};

/// Maximum number of lines of one cell.
const MOST_LINES: usize = 10_000;

/// Lines of a collapsed text.
pub(crate) const FOLDED_TEXT: usize = 3;

/// Frames of the spinner.
pub const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Rendering options.
#[derive(Clone, Copy)]
pub struct CellContext<'a> {
    pub width: usize,
    pub theme: &'a Theme,
    pub highlighter: Highlighter,
    /// Show everything instead of a summary.
    pub expanded: bool,
    pub now: Millis,
    /// Frame number of the spinner.
    pub frame: usize,
    /// The viewing client: its own prompts and answers show no name.
    pub own: Option<&'a OwnOrigins>,
    /// The key that shows the full contents, if the cell cannot be expanded in place.
    pub whole: Option<&'static str>,
}

/// Renders the cell to lines of at most `context.width` columns; empty if there is nothing to show.
pub fn render(cell: &Cell, context: &CellContext<'_>) -> Vec<Line<'static>> {
    let lines = match &cell.body {
        CellBody::Prompt { text, queued, withdrawn } => {
            prose::prompt(text, &cell.origin, *queued, *withdrawn, context)
        }
        CellBody::Text { discarded: true, .. } | CellBody::Thought { discarded: true, .. } => {
            prose::discarded(cell, context)
        }
        CellBody::Text { text, .. } => {
            let lines = markdown::render(text, context.width, context.theme, context.highlighter);
            context.shortened(lines, FOLDED_TEXT, Keep::Start)
        }
        CellBody::Thought { subject, text, .. } => prose::thought(subject, text, context),
        CellBody::Plan { steps } => list::plan(steps, context),
        CellBody::Sources { sources } => list::sources(sources, context),
        CellBody::Call(call) => call::call(call, context),
        CellBody::Notice { level, text } => prose::notice(*level, text, context),
        CellBody::TurnEnd { outcome } => prose::turn_end(outcome, &cell.origin, context),
    };
    context.bounded(lines)
}

/// Whether a cell is expanded initially.
pub fn starts_expanded(body: &CellBody) -> bool {
    match body {
        CellBody::Text { .. } | CellBody::Plan { .. } | CellBody::Sources { .. } => true,
        CellBody::Prompt { .. }
        | CellBody::Thought { .. }
        | CellBody::Call(_)
        | CellBody::Notice { .. }
        | CellBody::TurnEnd { .. } => false,
    }
}

/// Whether a cell is final: text and thoughts grow while they are the last cell,
/// calls change until they end, prompts while they are queued.
pub fn is_final(cell: &Cell, is_last: bool) -> bool {
    match &cell.body {
        CellBody::Text { discarded, .. } | CellBody::Thought { discarded, .. } => {
            *discarded || !is_last
        }
        CellBody::Call(call) => call.state == CallState::Ended,
        CellBody::Prompt { queued, .. } => !queued,
        CellBody::Plan { .. }
        | CellBody::Sources { .. }
        | CellBody::Notice { .. }
        | CellBody::TurnEnd { .. } => true,
    }
}

/// Whether to put an empty line between two visible cells.
pub fn is_apart(before: &Cell, cell: &Cell) -> bool {
    let notice = |cell: &Cell| matches!(cell.body, CellBody::Notice { .. });
    !(notice(before) && notice(cell))
}

/// Which end of a long text to keep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Start,
    End,
}

impl CellContext<'_> {
    /// All lines if expanded, otherwise `limit` lines and a note that counts the rest.
    fn shortened(&self, lines: Vec<Line<'static>>, limit: usize, keep: Keep) -> Vec<Line<'static>> {
        let limit = if self.expanded { MOST_LINES } else { limit };
        self.limited(lines, 0, limit, keep)
    }

    /// At most `limit` lines and a note that counts the rest, including `unread` lines that were
    /// not rendered. A single line is not replaced by a note.
    fn limited(
        &self,
        mut lines: Vec<Line<'static>>,
        unread: usize,
        limit: usize,
        keep: Keep,
    ) -> Vec<Line<'static>> {
        if lines.len() + unread <= limit + 1 && unread == 0 {
            return lines;
        }
        let more = lines.len().saturating_sub(limit) + unread;
        if more == 0 {
            return lines;
        }
        let note = self.more(more);
        match keep {
            Keep::Start => {
                lines.truncate(limit);
                lines.push(note);
            }
            Keep::End => {
                let mut kept = lines.split_off(lines.len().saturating_sub(limit));
                kept.insert(0, note);
                lines = kept;
            }
        }
        lines
    }

    fn more(&self, count: usize) -> Line<'static> {
        let lines = if count == 1 { "line" } else { "lines" };
        let key = self.whole.map_or_else(String::new, |key| format!(": {key} shows all"));
        let text = format!("… {count} more {lines}{key}");
        wrap(&[Span::styled(text, self.theme.dim)], self.width, &self.indent(), Break::Words)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    fn bounded(&self, lines: Vec<Line<'static>>) -> Vec<Line<'static>> {
        self.limited(lines, 0, MOST_LINES + 100, Keep::Start)
    }

    fn indent(&self) -> Margin {
        Margin::every("  ", Style::new())
    }

    /// Renders a printable text line by line with a margin.
    fn paragraph(&self, text: &str, style: Style, margin: &Margin) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for line in crate::safe::lines(text.strip_suffix('\n').unwrap_or(text)) {
            let margin = if lines.is_empty() { margin.clone() } else { margin.continued() };
            let span = Span::styled(line.into_owned(), style);
            lines.extend(wrap(&[span], self.width, &margin, Break::Words));
        }
        lines
    }

    fn line(&self, spans: &[Span<'static>]) -> Line<'static> {
        cut(spans, self.width)
    }

    fn is_own(&self, origin: &Origin) -> bool {
        self.own.is_some_and(|own| own.contains(origin))
    }

    /// `you`, or surface and name.
    fn who(&self, origin: &Origin) -> String {
        if self.is_own(origin) {
            "you".to_owned()
        } else {
            one_line(&origin.to_string()).into_owned()
        }
    }

    /// `[A2A] name` for another client.
    fn label(&self, origin: &Origin) -> Option<String> {
        let here = match self.own {
            Some(own) => own.contains(origin),
            None => origin.surface == Surface::Tui,
        };
        let shown = origin.to_string();
        let name = shown.split_once(':').map_or(shown.as_str(), |(_, name)| name);
        let label = format!("[{}] {}", origin.surface.label(), one_line(name));
        (!here).then_some(label)
    }

    fn spinner(&self) -> &'static str {
        SPINNER.get(self.frame % SPINNER.len()).copied().unwrap_or(" ")
    }
}

/// `12s`, `3m 05s`, `1h 02m`; None below a second.
pub fn elapsed(from: Millis, to: Millis) -> Option<String> {
    let seconds = to.0.saturating_sub(from.0) / 1000;
    match seconds {
        ..1 => None,
        1..60 => Some(format!("{seconds}s")),
        60..3600 => Some(format!("{}m {:02}s", seconds / 60, seconds % 60)),
        _ => Some(format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60)),
    }
}
