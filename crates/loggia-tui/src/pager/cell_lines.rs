//! The cached lines of a cell.

use std::hash::{DefaultHasher, Hash, Hasher};

use loggia_core::{CallState, Cell, CellBody, Millis};
use ratatui::text::{Line, Span};

use crate::cell::{self, CellContext, FOLDED_TEXT as FOLDED};
use crate::markdown::StreamingMarkdown;
use crate::wrap::cut;

/// The lines of one cell.
pub enum CellLines {
    Whole(Vec<Line<'static>>),
    /// A growing text, whose finished lines are kept.
    Growing(Box<Growing>),
}

pub struct Growing {
    markdown: StreamingMarkdown,
    tail: Vec<Line<'static>>,
    /// Processed bytes of the text.
    taken: usize,
    /// Some if only the first lines are shown; counts the rest.
    note: Option<Line<'static>>,
    folded: bool,
}

impl CellLines {
    pub fn new(cell: &Cell, context: &CellContext<'_>) -> Self {
        match &cell.body {
            CellBody::Text { text, discarded: false } => {
                let markdown = StreamingMarkdown::new(
                    context.width,
                    context.theme.clone(),
                    context.highlighter,
                );
                let mut growing = Growing {
                    markdown,
                    tail: Vec::new(),
                    taken: 0,
                    note: None,
                    folded: !context.expanded,
                };
                growing.grow(text, context);
                CellLines::Growing(Box::new(growing))
            }
            _ => CellLines::Whole(cell::render(cell, context)),
        }
    }

    /// Appends the new text of the cell. False if it changed in another way.
    pub fn grow(&mut self, cell: &Cell, context: &CellContext<'_>) -> bool {
        match (self, &cell.body) {
            (CellLines::Growing(growing), CellBody::Text { text, discarded: false }) => {
                growing.grow(text, context)
            }
            _ => false,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            CellLines::Whole(lines) => lines.len(),
            CellLines::Growing(growing) => match growing.note {
                Some(_) => FOLDED + 1,
                None => growing.len(),
            },
        }
    }

    pub fn line(&self, index: usize) -> Option<&Line<'static>> {
        match self {
            CellLines::Whole(lines) => lines.get(index),
            CellLines::Growing(growing) => match &growing.note {
                Some(note) if index == FOLDED => Some(note),
                Some(_) if index > FOLDED => None,
                Some(_) | None => growing.line(index),
            },
        }
    }
}

impl Growing {
    fn grow(&mut self, text: &str, context: &CellContext<'_>) -> bool {
        let Some(more) = text.get(self.taken..) else { return false };
        self.markdown.push(more);
        self.taken = text.len();
        self.tail = self.markdown.tail();
        let more = self.len().saturating_sub(FOLDED);
        self.note = (self.folded && more > 1).then(|| {
            let text = format!("  … {more} more lines");
            cut(&[Span::styled(text, context.theme.dim)], context.width)
        });
        true
    }

    fn len(&self) -> usize {
        self.markdown.finished().len() + self.tail.len()
    }

    fn line(&self, index: usize) -> Option<&Line<'static>> {
        let finished = self.markdown.finished();
        finished.get(index).or_else(|| self.tail.get(index - finished.len().min(index)))
    }
}

/// A hash that changes with the appearance of an unfinished cell.
pub fn fingerprint(cell: &Cell, now: Millis, frame: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    match &cell.body {
        CellBody::Text { text, discarded } | CellBody::Thought { text, discarded, .. } => {
            (text.len(), discarded).hash(&mut hasher);
        }
        CellBody::Prompt { queued, withdrawn, .. } => (queued, withdrawn).hash(&mut hasher),
        CellBody::Call(call) => {
            call.state.hash(&mut hasher);
            call.live.hash(&mut hasher);
            call.answered.is_some().hash(&mut hasher);
            if matches!(call.state, CallState::Started | CallState::Proposed) {
                (frame, now.0 / 1000).hash(&mut hasher);
            }
        }
        CellBody::Plan { .. }
        | CellBody::Sources { .. }
        | CellBody::Notice { .. }
        | CellBody::TurnEnd { .. } => {}
    }
    hasher.finish()
}

/// Estimates the number of lines of an unseen cell by its size.
pub fn estimate(cell: &Cell, width: usize) -> usize {
    let lines = |bytes: usize| bytes / width.clamp(20, 60) + 1;
    1 + match &cell.body {
        CellBody::Text { text, .. } => lines(text.len()),
        CellBody::Prompt { text, .. } => lines(text.len()).min(13),
        CellBody::Thought { .. } => 1,
        CellBody::Plan { steps } => steps.len() + 1,
        CellBody::Sources { sources } => sources.len() + 1,
        CellBody::Call(call) => 2 + lines(call.live.len()).min(5),
        CellBody::Notice { text, .. } => lines(text.len()).min(7),
        CellBody::TurnEnd { .. } => 0,
    }
}
