//! The inline screen: finished lines are printed once to the terminal's scrollback, and the rest is
//! redrawn below them. Nothing clears the screen or the scrollback.
//!
//! All movements are relative to the cursor, and new rows come from line feeds, which scroll at the
//! bottom. So the position on the screen does not matter, the terminal is not queried, and finished
//! lines reach the scrollback of every terminal. Output is collected as bytes and written at once
//! by the owner of the terminal.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::sgr;
use crate::view::Frame;

pub struct Inline {
    width: u16,
    height: u16,
    /// The rows on the screen, from the first row of the frame.
    drawn: Buffer,
    /// The row of the frame that contains the cursor.
    row: u16,
    /// The screen row of the frame's first row, if known. Only clicks need it.
    top: Option<u16>,
    /// Rows of an old frame that the terminal moved to its scrollback, directly above the screen,
    /// because the frame was higher than the resized terminal. Most terminals move them back when
    /// they grow.
    taken: usize,
    /// None if another program may have hidden it.
    shows_cursor: Option<bool>,
    out: Vec<u8>,
}

impl Inline {
    /// The frame starts in the cursor's row, at the start of a line; `top` is that row, if known.
    pub fn new((width, height): (u16, u16), top: Option<u16>) -> Self {
        let drawn = Buffer::empty(Rect::new(0, 0, width, 0));
        Self {
            width,
            height,
            drawn,
            row: 0,
            top,
            taken: 0,
            shows_cursor: Some(true),
            out: Vec::new(),
        }
    }

    pub fn top(&self) -> Option<u16> {
        self.top
    }

    /// Takes the pending output.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Prints `finished` above the frame and draws the frame.
    pub fn draw(&mut self, finished: &[Line<'static>], frame: &Frame) {
        if self.width == 0 || self.height == 0 {
            return;
        }
        self.print(finished);
        let rows = u16::try_from(frame.lines.len()).unwrap_or(u16::MAX).min(self.height);
        let mut next = Buffer::empty(Rect::new(0, 0, self.width, rows));
        // If it does not fit, keep the end.
        let skip = frame.lines.len() - usize::from(rows);
        for (row, line) in (0..rows).zip(frame.lines.iter().skip(skip)) {
            next.set_line(0, row, line, self.width);
        }
        self.paint(next);
        self.place_cursor(frame.cursor, skip);
    }

    /// Prints lines for the scrollback over the frame, which is redrawn below them.
    fn print(&mut self, lines: &[Line<'static>]) {
        if lines.is_empty() {
            return;
        }
        // The printed lines now separate the screen from the moved rows.
        self.taken = 0;
        self.go(0);
        for line in lines {
            let mut row = Buffer::empty(Rect::new(0, 0, self.width, 1));
            row.set_line(0, 0, line, self.width);
            self.print_row(&row.content);
            self.line_feed();
            self.row = 0;
            self.top = self.top.map(|top| (top + 1).min(self.height.saturating_sub(1)));
        }
        self.forget_below();
    }

    /// Prints one row without trailing blanks, which would be copied with it. Erases first: at the
    /// right edge, erasing afterwards would remove the last character.
    fn print_row(&mut self, cells: &[Cell]) {
        self.out.extend_from_slice(b"\x1b[K");
        let used = cells.iter().rposition(|cell| *cell != Cell::EMPTY).map_or(0, |last| last + 1);
        let mut style = sgr::CurrentStyle::default();
        let mut skip = 0;
        for cell in cells.iter().take(used) {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            style.change(cell, &mut self.out);
            self.out.extend_from_slice(cell.symbol().as_bytes());
            skip = crate::wrap::width(cell.symbol()).saturating_sub(1);
        }
        style.end(&mut self.out);
    }

    fn line_feed(&mut self) {
        self.out.extend_from_slice(b"\r\n");
        self.row += 1;
        // At the bottom the screen scrolls, and the frame moves up.
        let last = self.height.saturating_sub(1);
        self.top = self.top.map(|top| top.min(last.saturating_sub(self.row)));
    }

    /// Moves to the start of a row of the frame.
    fn go(&mut self, row: u16) {
        let (up, down) = (self.row.saturating_sub(row), row.saturating_sub(self.row));
        if up > 0 {
            self.out.extend_from_slice(format!("\x1b[{up}A").as_bytes());
        }
        if down > 0 {
            self.out.extend_from_slice(format!("\x1b[{down}B").as_bytes());
        }
        self.out.push(b'\r');
        self.row = row;
    }

    /// Erases everything from here, because its contents are unknown.
    fn forget_below(&mut self) {
        self.out.extend_from_slice(b"\x1b[J");
        self.drawn = Buffer::empty(Rect::new(0, 0, self.width, 0));
    }

    fn paint(&mut self, next: Buffer) {
        let (old, rows) = (self.drawn.area.height, next.area.height);
        if old > rows {
            self.go(rows);
            self.out.extend_from_slice(b"\x1b[J");
        }
        let width = usize::from(self.width);
        let pairs = self.drawn.content.chunks(width).zip(next.content.chunks(width));
        let changed: Vec<u16> =
            (0..).zip(pairs).filter(|(_, (old, new))| old != new).map(|(row, _)| row).collect();
        for row in changed {
            self.go(row);
            let start = usize::from(row) * width;
            self.print_row(next.content.get(start..start + width).unwrap_or_default());
        }
        for (row, cells) in (0..rows).zip(next.content.chunks(width)).skip(usize::from(old)) {
            if row > 0 {
                self.go(row - 1);
                self.line_feed();
            }
            self.print_row(cells);
        }
        self.drawn = next;
    }

    fn place_cursor(&mut self, cursor: Option<(u16, u16)>, skip: usize) {
        let skip = u16::try_from(skip).unwrap_or(u16::MAX);
        let last = self.drawn.area.height.saturating_sub(1);
        let wanted = cursor.and_then(|(column, row)| Some((column, row.checked_sub(skip)?)));
        match wanted {
            Some((column, row)) => {
                self.go(row.min(last));
                let column = column.min(self.width.saturating_sub(1));
                if column > 0 {
                    self.out.extend_from_slice(format!("\x1b[{column}C").as_bytes());
                }
                if self.shows_cursor != Some(true) {
                    self.out.extend_from_slice(b"\x1b[?25h");
                }
            }
            None => {
                self.go(last);
                if self.shows_cursor != Some(false) {
                    self.out.extend_from_slice(b"\x1b[?25l");
                }
            }
        }
        self.shows_cursor = Some(wanted.is_some());
    }

    /// Adapts to another size. If the terminal wrapped our rows (`reflows`) or moved rows back from
    /// its scrollback, the frame starts further up. It is erased and redrawn. A terminal that moves
    /// nothing back has the frame at its upper edge, where moving up stops.
    pub fn resized(&mut self, (width, height): (u16, u16), reflows: bool) {
        if reflows && width != self.width {
            self.taken = 0;
        }
        let given = self.taken.min(usize::from(height.saturating_sub(self.height)));
        self.taken -= given;
        let mut up = usize::from(self.row) + given;
        if reflows && width < self.width && width > 0 {
            let rows = self.drawn.content.chunks(usize::from(self.width.max(1)));
            let used = |row: &[Cell]| {
                row.iter().rposition(|cell| *cell != Cell::EMPTY).map_or(0, |last| last + 1)
            };
            let broken = |row: &[Cell]| used(row).saturating_sub(1) / usize::from(width);
            up += rows.take(usize::from(self.row)).map(broken).sum::<usize>();
        }
        (self.width, self.height) = (width, height);
        let most = usize::from(height.saturating_sub(1));
        self.taken += up.saturating_sub(most);
        self.row = u16::try_from(up.min(most)).unwrap_or(u16::MAX);
        self.top = None;
        self.forget();
    }

    /// Redraws the frame next time.
    pub fn forget(&mut self) {
        self.go(0);
        self.forget_below();
    }

    /// Another program used the terminal; the cursor is at the start of a line.
    pub fn begin_again(&mut self, size: (u16, u16), top: Option<u16>) {
        let out = self.take();
        *self = Self { out, ..Self::new(size, top) };
    }

    /// Erases the frame and leaves the cursor at its start.
    pub fn close(&mut self) {
        self.forget();
        if self.shows_cursor != Some(true) {
            self.out.extend_from_slice(b"\x1b[?25h");
            self.shows_cursor = Some(true);
        }
    }

    /// The alternate screen may have changed the cursor's visibility.
    pub fn forget_cursor(&mut self) {
        self.shows_cursor = None;
    }
}

/// Paints the rows of a full screen that differ from its previous contents.
pub fn paint_all(before: &Buffer, next: &Buffer, cursor: Option<(u16, u16)>) -> Vec<u8> {
    let mut rows = Inline::new((next.area.width, next.area.height), None);
    let width = usize::from(next.area.width.max(1));
    let known = before.area == next.area;
    let old = before.content.chunks(width).map(Some).chain(std::iter::repeat(None));
    for (row, (cells, old)) in next.content.chunks(width).zip(old).enumerate() {
        if known && old == Some(cells) {
            continue;
        }
        rows.out.extend_from_slice(format!("\x1b[{};1H", row + 1).as_bytes());
        rows.print_row(cells);
    }
    match cursor {
        Some((column, row)) => {
            let place = format!("\x1b[{};{}H\x1b[?25h", row + 1, column + 1);
            rows.out.extend_from_slice(place.as_bytes());
        }
        None => rows.out.extend_from_slice(b"\x1b[?25l"),
    }
    rows.out
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
