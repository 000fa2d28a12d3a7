//! Tracks which cells were printed to the terminal's scrollback. A cell is printed once, when it
//! is final; a long answer is printed by finished paragraphs.

use loggia_core::{Cell, CellBody, Transcript};

use crate::cell::is_final;

/// Number of last cells that are printed when a session is resumed. The full transcript shows the
/// others.
const REPLAYED: usize = 40;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrollback {
    /// The first cell that is not printed.
    next: usize,
    /// Printed bytes of the text at `next`.
    printed_bytes: usize,
    /// The cell printed last.
    last: Option<Cell>,
    /// Skipped cells that were not reported yet.
    skipped: usize,
}

impl Scrollback {
    /// Skips all but the last cells of a resumed session.
    pub fn skip_history(&mut self, transcript: &Transcript) {
        let skipped = transcript.cells().len().saturating_sub(REPLAYED);
        self.skipped = skipped.saturating_sub(self.next);
        self.next = self.next.max(skipped);
    }

    /// The number of skipped cells, once.
    pub fn take_skipped(&mut self) -> Option<usize> {
        Some(std::mem::take(&mut self.skipped)).filter(|skipped| *skipped > 0)
    }

    pub fn last(&self) -> Option<&Cell> {
        self.last.as_ref()
    }

    /// The cells and parts of cells that were finished since the last call.
    pub fn take(&mut self, transcript: &Transcript, running: bool) -> Vec<Cell> {
        let finished = self.finished(transcript, running);
        self.last = finished.last().cloned().or(self.last.take());
        finished
    }

    fn finished(&mut self, transcript: &Transcript, running: bool) -> Vec<Cell> {
        let cells = transcript.cells();
        let mut finished = Vec::new();
        while let Some(cell) = cells.get(self.next) {
            let last = self.next + 1 == cells.len();
            if !is_final(cell, last && running) {
                finished.extend(self.paragraphs(cell));
                break;
            }
            finished.extend(rest_of(cell, self.printed_bytes));
            self.next += 1;
            self.printed_bytes = 0;
        }
        finished
    }

    fn paragraphs(&mut self, cell: &Cell) -> Option<Cell> {
        let CellBody::Text { text, discarded: false } = &cell.body else { return None };
        let rest = text.get(self.printed_bytes..)?;
        let settled = settled(rest);
        let piece = rest.get(..settled).filter(|piece| !piece.trim().is_empty())?;
        self.printed_bytes += settled;
        Some(with_text(cell, piece))
    }

    /// The unprinted cells.
    pub fn live(&self, transcript: &Transcript) -> Vec<Cell> {
        let cells = transcript.cells().iter().skip(self.next).enumerate();
        let live = cells.filter_map(|(place, cell)| {
            let printed = if place == 0 { self.printed_bytes } else { 0 };
            rest_of(cell, printed)
        });
        live.collect()
    }
}

/// The unprinted rest of a cell; None if nothing is left.
fn rest_of(cell: &Cell, printed: usize) -> Option<Cell> {
    match &cell.body {
        CellBody::Text { text, discarded: false } if printed > 0 => {
            let rest = text.get(printed..).filter(|rest| !rest.trim().is_empty())?;
            Some(with_text(cell, rest))
        }
        _ => Some(cell.clone()),
    }
}

fn with_text(cell: &Cell, text: &str) -> Cell {
    Cell { body: CellBody::Text { text: text.to_owned(), discarded: false }, ..cell.clone() }
}

/// The length of the part of a growing Markdown text that cannot change: up to the last empty line
/// outside a code block that is followed by an independent block.
pub fn settled(text: &str) -> usize {
    let (mut settled, mut at, mut fence, mut empty) = (0, 0, None, false);
    for line in text.split_inclusive('\n') {
        // An incomplete last line could still become anything.
        if !line.ends_with('\n') && line.trim_end().len() < 3 {
            break;
        }
        let bare = line.trim();
        let marks = |mark: char| bare.chars().take_while(|letter| *letter == mark).count();
        let longest = [('`', marks('`')), ('~', marks('~'))];
        let opened = longest.into_iter().find(|(_, count)| *count >= 3);
        if fence.is_none() && empty && starts_block(line) {
            settled = at;
        }
        match (fence, opened) {
            (None, Some(mark)) => fence = Some(mark),
            (Some((mark, count)), Some((letter, more)))
                if mark == letter && more >= count && marks(mark) == bare.chars().count() =>
            {
                fence = None;
            }
            _ => {}
        }
        empty = bare.is_empty();
        at += line.len();
    }
    settled
}

/// Whether the line starts a block that cannot belong to the list, quote, table or code block
/// before it.
fn starts_block(line: &str) -> bool {
    let Some(first) = line.chars().next() else { return false };
    let numbered = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let numbered = numbered.len() < line.len() && numbered.starts_with(['.', ')']);
    !first.is_whitespace() && !matches!(first, '-' | '*' | '+' | '>' | '|' | '[') && !numbered
}

#[cfg(test)]
#[path = "scrollback_tests.rs"]
mod tests;
