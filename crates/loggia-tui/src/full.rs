//! Provisional: the full transcript, scrolled; the rendering half's pager takes its place.

use crossterm::event::KeyEvent;
use loggia_core::Transcript;
use ratatui::text::Line;

use crate::keymap::{self, Action, Place};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Full {
    /// Rows above the end.
    up: usize,
    page: usize,
    /// The composer keeps the keys: the screen was opened full.
    beside: bool,
    /// The transcript has the keys although the composer is there.
    focused: bool,
}

impl Full {
    pub fn beside_composer() -> Self {
        Self { beside: true, ..Self::default() }
    }

    pub fn has_keys(&self) -> bool {
        !self.beside || self.focused
    }

    pub fn toggled(mut self) -> Option<Self> {
        self.focused = !self.focused;
        self.beside.then_some(self)
    }

    pub fn scroll_by(&mut self, rows: isize) {
        self.up = self.up.saturating_add_signed(rows.saturating_neg());
    }

    pub fn key(&mut self, event: &KeyEvent, _transcript: &Transcript) -> bool {
        let page = isize::try_from(self.page.max(2) - 1).unwrap_or(1);
        match keymap::action(Place::Transcript, event) {
            Some(Action::ScrollUp) => self.scroll_by(-1),
            Some(Action::ScrollDown) => self.scroll_by(1),
            Some(Action::PageUp) => self.scroll_by(-page),
            Some(Action::PageDown) => self.scroll_by(page),
            Some(Action::Top) => self.up = usize::MAX / 2,
            Some(Action::Bottom) => self.up = 0,
            _ => return false,
        }
        true
    }

    pub fn draw(
        &mut self,
        transcript: &Transcript,
        width: u16,
        height: usize,
    ) -> Vec<Line<'static>> {
        let cells = transcript.cells().iter();
        let lines: Vec<Line<'static>> =
            cells.flat_map(|cell| crate::provisional_view::cell(cell, width)).collect();
        self.page = height;
        self.up = self.up.min(lines.len().saturating_sub(height));
        let end = lines.len() - self.up;
        lines.into_iter().take(end).skip(end.saturating_sub(height)).collect()
    }
}
