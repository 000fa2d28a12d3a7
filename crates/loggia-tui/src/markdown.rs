//! Renders Markdown, also while it is being written.
//!
//! The text is split into blocks by whole lines ([`blocks`]), and each block is rendered separately
//! ([`paint`]). A finished block never changes, so each new piece costs only its last block. The
//! splits depend on the text alone, so the pieces in which it arrived make no difference.
//!
//! A link whose address is defined in another block is shown as written. No text is ever hidden.

mod blocks;
mod paint;
mod table;

use ratatui::text::Line;

use crate::highlight::Highlighter;
use crate::theme::Theme;
use blocks::Blocks;
use paint::Painter;

/// A longer line is split.
const LONGEST_LINE: usize = 16 * 1024;

/// Renders the whole text to lines of at most `width` columns.
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
    /// The incomplete last line.
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

    /// Appends text.
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

    /// The lines that will not change.
    pub fn finished(&self) -> &[Line<'static>] {
        &self.finished
    }

    /// Removes and returns the finished lines.
    pub fn take_finished(&mut self) -> Vec<Line<'static>> {
        std::mem::take(&mut self.finished)
    }

    /// The lines after the finished ones, assuming that the text ends here.
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

    /// All lines; the text is complete.
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
