//! The model as bytes for a terminal: the inline screen with its scrollback or the alternate
//! screen, whichever is open, and what has to be known of it when the terminal changes its size.
//!
//! What must not be here: a terminal, a clock, and what is shown where.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::{Model, Shown};
use crate::moment::Moment;
use crate::terminal::{Inline, paint_all};
use crate::view;

pub struct Picture {
    inline: Inline,
    /// What is on the alternate screen.
    full: Buffer,
    /// Whether that was painted last.
    alternate: bool,
    /// The terminal has changed its size, and nobody knows yet where our rows are.
    moved: bool,
    /// The terminal breaks rows in two when it gets narrower.
    reflows: bool,
}

/// One picture, ready to be written.
pub struct Painted {
    pub bytes: Vec<u8>,
    pub shown: Shown,
    /// The last row of the picture, where that is known: a shell would go on below it.
    pub last: Option<u16>,
}

impl Picture {
    /// The cursor is at the start of a line; `top` is its row, if anybody knows.
    pub fn new(size: (u16, u16), top: Option<u16>, reflows: bool) -> Self {
        let inline = Inline::new(size, top);
        Self { inline, full: Buffer::empty(Rect::ZERO), alternate: false, moved: false, reflows }
    }

    /// The terminal has changed its size, which the model knows: perhaps to another and back, and
    /// rows that were cut off meanwhile are gone.
    pub fn resized(&mut self) {
        self.moved = true;
        self.full = Buffer::empty(Rect::ZERO);
    }

    /// The picture that the model wants, on the screen that it wants: the caller has to have
    /// changed to it.
    pub fn draw(&mut self, model: &mut Model, now: Moment) -> Painted {
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

    fn draw_inline(&mut self, model: &mut Model, now: Moment) -> Painted {
        if std::mem::take(&mut self.moved) {
            self.inline.resized(model.size, self.reflows);
        }
        let finished = view::finished(model, now);
        let frame = view::inline(model, now);
        self.inline.draw(&finished, &frame);
        let rows = u16::try_from(frame.lines.len()).unwrap_or(u16::MAX);
        let last = self.inline.top().map(|top| top.saturating_add(rows.saturating_sub(1)));
        let shown = frame.shown(self.inline.top());
        Painted { bytes: self.inline.take(), shown, last }
    }

    fn draw_full(&mut self, model: &mut Model, now: Moment) -> Painted {
        let (next, frame) = view::fullscreen(model, now);
        let bytes = paint_all(&self.full, &next, frame.cursor);
        self.full = next;
        Painted { bytes, shown: frame.shown(Some(0)), last: None }
    }

    /// Everything is painted anew the next time, whatever is on the screen.
    pub fn forget(&mut self) {
        self.full = Buffer::empty(Rect::ZERO);
        self.inline.forget();
    }

    /// Somebody else has used the terminal; the cursor is at the start of a line.
    pub fn begin_again(&mut self, size: (u16, u16), top: Option<u16>) {
        self.full = Buffer::empty(Rect::ZERO);
        self.moved = false;
        self.inline.begin_again(size, top);
    }

    /// What is finished stays; the rest goes, and the cursor stands where it began.
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
