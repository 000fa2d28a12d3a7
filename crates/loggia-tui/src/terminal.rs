//! The inline screen: finished lines go once into the terminal's own scrollback, the rest is drawn
//! and redrawn below them. Nothing ever clears the screen or the scrollback.
//!
//! The screen keeps track of its place itself and asks the terminal only when it starts and after
//! a resize. New lines are printed the way every program prints: over the old picture, scrolling
//! at the bottom; so they end up in the scrollback of every terminal there is.

use ratatui::backend::{Backend, ClearType};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use ratatui::text::Line;

use crate::view::Frame;

pub struct Inline<B: Backend> {
    backend: B,
    size: Size,
    /// The first row of the picture.
    top: u16,
    /// What is on the screen from there on.
    picture: Buffer,
    /// Where the cursor was left, from the top of the picture.
    cursor: (u16, u16),
    shows_cursor: bool,
}

impl<B: Backend> Inline<B> {
    /// `row` is where the cursor stands: the picture begins there.
    pub fn new(backend: B, size: Size, row: u16) -> Self {
        let top = row.min(size.height.saturating_sub(1));
        let picture = Buffer::empty(Rect::new(0, 0, size.width, 0));
        Self { backend, size, top, picture, cursor: (0, 0), shows_cursor: true }
    }

    pub fn backend(&self) -> &B {
        &self.backend
    }

    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    pub fn top(&self) -> u16 {
        self.top
    }

    pub fn size(&self) -> Size {
        self.size
    }

    /// Prints `finished` above the picture and draws the picture.
    pub fn draw(&mut self, finished: &[Line<'static>], frame: &Frame) -> Result<(), B::Error> {
        if self.size.width == 0 || self.size.height == 0 {
            return Ok(());
        }
        self.print(finished)?;
        let rows = u16::try_from(frame.lines.len()).unwrap_or(u16::MAX).min(self.size.height);
        self.make_room(rows)?;
        let mut next = Buffer::empty(Rect::new(0, 0, self.size.width, rows));
        // If there is too much, the end is what matters.
        let skip = frame.lines.len() - usize::from(rows);
        for (row, line) in (0..rows).zip(frame.lines.iter().skip(skip)) {
            next.set_line(0, row, line, self.size.width);
        }
        self.paint(next)?;
        self.place_cursor(frame.cursor, skip)?;
        self.backend.flush()
    }

    /// Lines for the scrollback, printed over the picture, which is pushed down.
    fn print(&mut self, lines: &[Line<'static>]) -> Result<(), B::Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let old = self.picture.area.height;
        for line in lines {
            if self.top >= self.size.height {
                self.scroll(1)?;
            }
            let mut row = Buffer::empty(Rect::new(0, 0, self.size.width, 1));
            row.set_line(0, 0, line, self.size.width);
            self.print_row(&row, self.top)?;
            self.top += 1;
        }
        // What is left of the old picture below is painted over or cleared.
        let bottom = self.size.height.min(self.top.saturating_add(old));
        self.clear_rows(self.top, bottom)?;
        self.picture = Buffer::empty(Rect::new(0, 0, self.size.width, 0));
        Ok(())
    }

    /// One row, without the blanks at its end: they would be copied with it.
    fn print_row(&mut self, row: &Buffer, at: u16) -> Result<(), B::Error> {
        let blank = Cell::EMPTY;
        let used = row.content.iter().rposition(|cell| *cell != blank).map_or(0, |last| last + 1);
        self.backend.set_cursor_position(Position::new(0, at))?;
        self.backend.clear_region(ClearType::UntilNewLine)?;
        let empty = Buffer::empty(row.area);
        let cells = empty.diff(row);
        let cells = cells.into_iter().filter(|(x, _, _)| usize::from(*x) < used);
        self.backend.draw(cells.map(|(x, _, cell)| (x, at, cell)))
    }

    /// The screen moves up: its first rows go into the scrollback.
    fn scroll(&mut self, rows: u16) -> Result<(), B::Error> {
        let last = self.size.height.saturating_sub(1);
        self.backend.set_cursor_position(Position::new(0, last))?;
        self.backend.append_lines(rows)?;
        self.top = self.top.saturating_sub(rows);
        Ok(())
    }

    fn make_room(&mut self, rows: u16) -> Result<(), B::Error> {
        let needed = (self.top.saturating_add(rows)).saturating_sub(self.size.height);
        if needed > 0 {
            self.scroll(needed)?;
        }
        let old = self.picture.area.height;
        if old > rows {
            self.clear_rows(self.top + rows, (self.top + old).min(self.size.height))?;
        }
        Ok(())
    }

    fn clear_rows(&mut self, from: u16, to: u16) -> Result<(), B::Error> {
        for row in from..to {
            self.backend.set_cursor_position(Position::new(0, row))?;
            self.backend.clear_region(ClearType::UntilNewLine)?;
        }
        Ok(())
    }

    fn paint(&mut self, next: Buffer) -> Result<(), B::Error> {
        let mut before = Buffer::empty(next.area);
        for (old, new) in self.picture.content.iter().zip(before.content.iter_mut()) {
            *new = old.clone();
        }
        let top = self.top;
        let changes = before.diff(&next);
        self.backend.draw(changes.into_iter().map(|(x, y, cell)| (x, top + y, cell)))?;
        self.picture = next;
        Ok(())
    }

    fn place_cursor(&mut self, cursor: Option<(u16, u16)>, skip: usize) -> Result<(), B::Error> {
        let skip = u16::try_from(skip).unwrap_or(u16::MAX);
        let last = self.picture.area.height.saturating_sub(1);
        let wanted = cursor.and_then(|(column, row)| Some((column, row.checked_sub(skip)?)));
        match wanted {
            Some((column, row)) => {
                let column = column.min(self.size.width.saturating_sub(1));
                self.cursor = (column, row.min(last));
                let at = Position::new(column, self.top + self.cursor.1);
                self.backend.set_cursor_position(at)?;
                if !self.shows_cursor {
                    self.backend.show_cursor()?;
                }
            }
            None => {
                self.cursor = (0, last);
                if self.shows_cursor {
                    self.backend.hide_cursor()?;
                }
                self.backend.set_cursor_position(Position::new(0, self.top + last))?;
            }
        }
        self.shows_cursor = wanted.is_some();
        Ok(())
    }

    /// The terminal has another size, and has moved what it showed as it likes; `row` is where the
    /// cursor is now, as far as the terminal says so.
    pub fn resized(&mut self, size: Size, row: Option<u16>) -> Result<(), B::Error> {
        let last = size.height.saturating_sub(1);
        let row = row.unwrap_or_else(|| (self.top + self.cursor.1).min(last)).min(last);
        self.top = row.saturating_sub(self.cursor.1);
        self.size = size;
        self.forget()
    }

    /// The picture is unknown: what is below its top is cleared and painted anew.
    pub fn forget(&mut self) -> Result<(), B::Error> {
        self.picture = Buffer::empty(Rect::new(0, 0, self.size.width, 0));
        if self.size.height > 0 {
            self.clear_rows(self.top, self.size.height)?;
        }
        Ok(())
    }

    /// Somebody else has used the terminal; the cursor is at `row`.
    pub fn begin_again(&mut self, size: Size, row: u16) {
        self.size = size;
        self.top = row.min(size.height.saturating_sub(1));
        self.picture = Buffer::empty(Rect::new(0, 0, size.width, 0));
    }

    /// The picture goes; the cursor stands where it began, for whatever comes after.
    pub fn close(&mut self) -> Result<(), B::Error> {
        let rows = self.picture.area.height;
        self.clear_rows(self.top, (self.top + rows).min(self.size.height))?;
        self.backend.set_cursor_position(Position::new(0, self.top))?;
        if !self.shows_cursor {
            self.backend.show_cursor()?;
            self.shows_cursor = true;
        }
        self.picture = Buffer::empty(Rect::new(0, 0, self.size.width, 0));
        self.backend.flush()
    }
}

/// Paints a whole screen over what it showed before.
pub fn paint_all<B: Backend>(
    backend: &mut B,
    before: &Buffer,
    next: &Buffer,
    cursor: Option<(u16, u16)>,
) -> Result<(), B::Error> {
    backend.draw(before.diff(next).into_iter())?;
    match cursor {
        Some((column, row)) => {
            backend.show_cursor()?;
            backend.set_cursor_position(Position::new(column, row))?;
        }
        None => backend.hide_cursor()?,
    }
    backend.flush()
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
