//! Markdown as lines, also while it is still being written.
//!
//! The text is cut into blocks by looking at whole lines only ([`blocks`]), and each block is
//! rendered by itself ([`paint`]). A finished block never changes again, so a message of any length
//! costs, per piece that arrives, what its last block costs; and because the cuts depend on the
//! text alone, the pieces in which it arrived leave no trace.
//!
//! The price: a link whose address is defined in another block is shown as it was written, address
//! included. Nothing of the text is ever hidden.

mod blocks;
mod paint;
mod table;

use ratatui::text::Line;

use crate::highlight::Highlighter;
use crate::theme::Theme;
use blocks::Blocks;
use paint::Painter;

/// A line that is longer is taken as several.
const LONGEST_LINE: usize = 16 * 1024;

/// The whole text as lines of at most `width` columns.
pub fn render(
    text: &str,
    width: usize,
    theme: &Theme,
    highlighter: Highlighter,
) -> Vec<Line<'static>> {
    let mut markdown = StreamingMarkdown::new(width, theme.clone(), highlighter);
    markdown.push(text);
    markdown.finish()
}

/// Markdown that grows at its end.
pub struct StreamingMarkdown {
    painter: Painter,
    blocks: Blocks,
    /// The last line, as far as it has arrived.
    line: String,
    finished: Vec<Line<'static>>,
}

impl StreamingMarkdown {
    pub fn new(width: usize, theme: Theme, highlighter: Highlighter) -> Self {
        Self {
            painter: Painter { width: width.max(1), theme, highlighter },
            blocks: Blocks::default(),
            line: String::new(),
            finished: Vec::new(),
        }
    }

    pub fn width(&self) -> usize {
        self.painter.width
    }

    /// Adds what has arrived.
    pub fn push(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            let mut rest = piece;
            while self.line.len() + rest.len() > LONGEST_LINE {
                let room = LONGEST_LINE.saturating_sub(self.line.len());
                let (head, tail) = rest.split_at(rest.floor_char_boundary(room));
                self.line.push_str(head);
                self.take_line();
                rest = tail;
            }
            self.line.push_str(rest);
            if self.line.ends_with('\n') {
                self.take_line();
            }
        }
    }

    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        self.blocks.take(line, &self.painter, &mut self.finished);
    }

    /// The lines that will not change any more.
    pub fn finished(&self) -> &[Line<'static>] {
        &self.finished
    }

    /// Hands the finished lines over; they are not kept.
    pub fn take_finished(&mut self) -> Vec<Line<'static>> {
        std::mem::take(&mut self.finished)
    }

    /// The lines after the finished ones, as they look if nothing more arrives.
    pub fn tail(&self) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut blocks = self.blocks.clone();
        if !self.line.is_empty() && !blocks.may_be_closing(&self.line) {
            let line = self.line.strip_suffix('\r').unwrap_or(&self.line);
            blocks.take(line, &self.painter, &mut lines);
        }
        blocks.finish(&self.painter, &mut lines);
        lines
    }

    /// All lines, with nothing more to come.
    pub fn finish(mut self) -> Vec<Line<'static>> {
        if !self.line.is_empty() {
            self.take_line();
        }
        self.blocks.finish(&self.painter, &mut self.finished);
        self.finished
    }
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
