//! Text search in the transcript.
//!
//! A cell is rendered for the search only if its source contains all words, so that a long
//! transcript is searched without rendering it.

use std::ops::Range;

use loggia_core::{CallOutcome, Cell, CellBody, Details};
use ratatui::text::Line;

use crate::wrap::width;

/// A search text. It is case-sensitive only if it contains capital letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    text: String,
    exact: bool,
}

impl Query {
    /// None if the text is empty.
    pub fn new(text: &str) -> Option<Self> {
        let exact = text.chars().any(char::is_uppercase);
        (!text.is_empty()).then(|| Self { text: text.to_owned(), exact })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The columns of the matches in a line.
    pub fn columns(&self, line: &Line<'_>) -> Vec<Range<usize>> {
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        let column = |at: usize| text.get(..at).map_or(0, width);
        self.found(&text).map(|range| column(range.start)..column(range.end)).collect()
    }

    pub fn is_in(&self, line: &Line<'_>) -> bool {
        !self.columns(line).is_empty()
    }

    fn found(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        let same_length = |lower: &String| lower.len() == text.len();
        let lower = (!self.exact).then(|| text.to_lowercase()).filter(same_length);
        let text = lower.unwrap_or_else(|| text.to_owned());
        let length = self.text.len();
        let starts: Vec<usize> = text.match_indices(&self.text).map(|(at, _)| at).collect();
        starts.into_iter().map(move |at| at..at + length)
    }

    /// Whether a cell may contain a match: its source contains all words.
    pub fn may_be_in(&self, cell: &Cell) -> bool {
        let mut missing: Vec<&str> = self.text.split_whitespace().collect();
        sources(cell, &mut |text| missing.retain(|word| !self.word_in(text, word)));
        missing.is_empty()
    }

    fn word_in(&self, text: &str, word: &str) -> bool {
        if self.exact {
            return text.contains(word);
        }
        if !word.is_ascii() {
            return text.to_lowercase().contains(word);
        }
        let Some((first, rest)) = word.as_bytes().split_first() else { return true };
        let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
        let bytes = text.as_bytes();
        let fits = |at: usize| {
            bytes.get(at + 1..at + word.len()).is_some_and(|it| it.eq_ignore_ascii_case(rest))
        };
        bytes.iter().enumerate().any(|(at, it)| (*it == lower || *it == upper) && fits(at))
    }
}

/// Visits all texts from which a cell is rendered.
fn sources(cell: &Cell, visit: &mut impl FnMut(&str)) {
    visit(&cell.origin.to_string());
    match &cell.body {
        CellBody::Prompt { text, .. } => {
            visit("[A2A] [ACP] [web] [CLI] (queued) (withdrawn)");
            visit(text);
        }
        CellBody::Text { text, .. } => visit(text),
        CellBody::Thought { subject, text, .. } => {
            visit(subject);
            visit(text);
        }
        CellBody::Plan { steps } => {
            visit("Plan");
            steps.iter().for_each(|step| visit(&step.text));
        }
        CellBody::Sources { sources } => {
            visit("Sources");
            sources.iter().for_each(|source| {
                visit(&source.title);
                visit(&source.uri);
            });
        }
        CellBody::Notice { text, .. } => visit(text),
        CellBody::TurnEnd { .. } => visit("Failed: Cancelled by Interrupted: Loggia stopped"),
        CellBody::Call(call) => {
            visit("approved refused answered always allowed by you waits for an answer");
            visit(&call.title);
            visit(&call.tool);
            visit(&call.live);
            if let Some((_, origin)) = &call.answered {
                visit(&origin.to_string());
            }
            match &call.details {
                Details::Execute { command, directory } => {
                    visit(command);
                    visit(directory);
                }
                Details::Edit(diff) => {
                    [&diff.path, &diff.unified].into_iter().for_each(|it| visit(it))
                }
                Details::Mcp { server, tool } => {
                    [server, tool].into_iter().for_each(|it| visit(it))
                }
                Details::Question { text, options } => {
                    visit(text);
                    options.iter().for_each(|option| visit(option));
                }
                Details::Generic { text } => visit(text),
            }
            match &call.outcome {
                Some(CallOutcome::Succeeded { output }) => visit(&output.text),
                Some(CallOutcome::Failed { failure }) => visit(&failure.message),
                Some(CallOutcome::Cancelled { reason }) => visit(reason),
                None => {}
            }
        }
    }
}
