//! Turns the model into terminal output, for the inline or the alternate screen, and tracks
//! resizes.
//!
//! This module uses no terminal or clock and does not lay out the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::{FrameInfo, Model};
use crate::terminal::{Inline, paint_all};
use crate::uptime::Uptime;
use crate::view;

pub struct Renderer {
    inline: Inline,
    /// The contents of the alternate screen.
    full: Buffer,
    /// Whether the alternate screen was painted last.
    alternate: bool,
    /// The terminal was resized, and the position of our rows is unknown.
    moved: bool,
    /// The terminal wraps long rows when it gets narrower.
    reflows: bool,
}

/// One frame as bytes.
pub struct PaintedFrame {
    pub bytes: Vec<u8>,
    pub shown: FrameInfo,
    /// The last row, if known: the shell prompt would follow below it.
    pub last: Option<u16>,
}

impl Renderer {
    /// The cursor must be at the start of a line; `top` is its row, if known.
    pub fn new(size: (u16, u16), top: Option<u16>, reflows: bool) -> Self {
        let inline = Inline::new(size, top);
        Self { inline, full: Buffer::empty(Rect::ZERO), alternate: false, moved: false, reflows }
    }

    /// The terminal was resized, perhaps several times. Rows that were cut off are lost.
    pub fn resized(&mut self) {
        self.moved = true;
        self.full = Buffer::empty(Rect::ZERO);
    }

    /// Draws the model's current screen. The caller must have switched to it.
    pub fn draw(&mut self, model: &mut Model, now: Uptime) -> PaintedFrame {
        let wants_full = model.full.is_some();
        if self.alternate != wants_full {
            self.alternate = wants_full;
            self.full = Buffer::empty(Rect::ZERO);
            self.inline.forget_cursor();
        }
        match wants_full {
            true => self.draw_full(model, now),
            false => self.draw_inline(model, now),
        }
    }

    fn draw_inline(&mut self, model: &mut Model, now: Uptime) -> PaintedFrame {
        if std::mem::take(&mut self.moved) {
            self.inline.resized(model.size, self.reflows);
        }
        let finished = view::finished(model, now);
        let frame = view::inline(model, now);
        self.inline.draw(&finished, &frame);
        let rows = u16::try_from(frame.lines.len()).unwrap_or(u16::MAX);
        let last = self.inline.top().map(|top| top.saturating_add(rows.saturating_sub(1)));
        let shown = frame.shown(self.inline.top());
        PaintedFrame { bytes: self.inline.take(), shown, last }
    }

    fn draw_full(&mut self, model: &mut Model, now: Uptime) -> PaintedFrame {
        let (next, frame) = view::fullscreen(model, now);
        let bytes = paint_all(&self.full, &next, frame.cursor);
        self.full = next;
        PaintedFrame { bytes, shown: frame.shown(Some(0)), last: None }
    }

    /// Redraws everything next time.
    pub fn forget(&mut self) {
        self.full = Buffer::empty(Rect::ZERO);
        self.inline.forget();
    }

    /// Another program used the terminal; the cursor is at the start of a line.
    pub fn begin_again(&mut self, size: (u16, u16), top: Option<u16>) {
        self.full = Buffer::empty(Rect::ZERO);
        self.moved = false;
        self.inline.begin_again(size, top);
    }

    /// Keeps the finished lines, removes the rest and moves the cursor to its start.
    pub fn close(&mut self, finished: &[ratatui::text::Line<'static>]) -> Vec<u8> {
        if std::mem::take(&mut self.alternate) {
            self.inline.forget_cursor();
        }
        if !finished.is_empty() {
            self.inline.draw(finished, &view::Frame::default());
        }
        self.inline.close();
        self.inline.take()
    }
}
