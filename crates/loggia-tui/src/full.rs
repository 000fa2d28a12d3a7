//! The full transcript on the alternate screen: pager, search line and key focus.

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::keymap::{self, Action, KeyContext};
use crate::lines::first;
use crate::pager::{Pager, Scene};

#[derive(Default)]
pub struct FullTranscript {
    pager: Pager,
    /// The search text while it is being typed.
    searching: Option<String>,
    /// The search text was not found.
    missing: bool,
    /// Number of cells at the last search.
    looked: usize,
    expanded: bool,
    /// Opened with --fullscreen: the composer is below and has the focus at first.
    beside: bool,
    focused: bool,
}

impl FullTranscript {
    pub fn beside_composer() -> Self {
        Self { beside: true, ..Self::default() }
    }

    /// All cells must be rendered again.
    pub fn invalidate(&mut self) {
        self.pager.invalidate();
    }

    pub fn is_searching(&self) -> bool {
        self.searching.is_some()
    }

    pub fn has_keys(&self) -> bool {
        !self.beside || self.focused
    }

    /// Closes the transcript, or moves the focus with --fullscreen.
    pub fn toggled(mut self) -> Option<Self> {
        self.focused = !self.focused;
        self.pager.clear_focus();
        self.beside.then_some(self)
    }

    pub fn scroll_by(&mut self, rows: isize, scene: &Scene<'_>) {
        match rows < 0 {
            true => self.pager.scroll_up(scene, rows.unsigned_abs()),
            false => self.pager.scroll_down(scene, rows.unsigned_abs()),
        }
    }

    /// Scrolls by a page while the composer has the focus.
    pub fn page(&mut self, down: bool, scene: &Scene<'_>) {
        match down {
            true => self.pager.page_down(scene),
            false => self.pager.page_up(scene),
        }
    }

    /// Scrolls to the end.
    pub fn to_end(&mut self) {
        self.pager.to_bottom();
    }

    /// True if the transcript used the key.
    pub fn key(&mut self, event: &KeyEvent, scene: &Scene<'_>) -> bool {
        if self.searching.is_some() {
            self.key_while_searching(event, scene);
            return true;
        }
        match keymap::action(KeyContext::Transcript, event) {
            Some(Action::ScrollUp) => self.pager.scroll_up(scene, 1),
            Some(Action::ScrollDown) => self.pager.scroll_down(scene, 1),
            Some(Action::PageUp) => self.pager.page_up(scene),
            Some(Action::PageDown) => self.pager.page_down(scene),
            Some(Action::Top) => self.pager.to_top(),
            Some(Action::Bottom) => self.pager.to_bottom(),
            Some(Action::Search) => {
                self.pager.begin_search(scene);
                self.searching = Some(String::new());
            }
            Some(Action::NextMatch) => self.missing = !self.pager.search_next(scene),
            Some(Action::PreviousMatch) => self.missing = !self.pager.search_previous(scene),
            Some(Action::NextCell) => self.pager.focus_next(scene),
            Some(Action::PreviousCell) => self.pager.focus_previous(scene),
            Some(Action::Fold) => self.fold(scene),
            Some(Action::FoldAll) => {
                self.expanded = !self.expanded;
                self.pager.expand_all(scene, self.expanded);
            }
            Some(Action::Close) if self.pager.query().is_some() => self.pager.clear_search(),
            _ => return false,
        }
        true
    }

    /// Folds the marked cell, or the first visible one.
    fn fold(&mut self, scene: &Scene<'_>) {
        match self.pager.focused() {
            Some(_) => self.pager.toggle_focused(scene),
            None => {
                if let Some(cell) = self.pager.cell_at(scene, 0) {
                    self.pager.toggle(scene, cell);
                }
            }
        }
    }

    fn key_while_searching(&mut self, event: &KeyEvent, scene: &Scene<'_>) {
        let Some(query) = &mut self.searching else { return };
        match (keymap::letter(event), keymap::action(KeyContext::Composer, event)) {
            (Some(letter), _) => query.push(letter),
            (None, Some(Action::DeleteLeft)) => drop(query.pop()),
            (None, Some(Action::Submit)) => {
                self.searching = None;
                return;
            }
            (None, Some(Action::Interrupt)) => {
                self.searching = None;
                self.pager.clear_search();
                return;
            }
            _ => return,
        }
        self.missing = !self.pager.search(scene, query) && !query.is_empty();
    }

    /// Draws the transcript and a line with the position.
    pub fn draw(&mut self, scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let line = u16::from(area.height > 2);
        let above = Rect { height: area.height - line, ..area };
        self.pager.draw(scene, above, buffer);
        let before = std::mem::replace(&mut self.looked, scene.cells.len());
        if before < self.looked && self.missing {
            // It may have been added since.
            self.missing = !self.pager.search_next(scene);
            self.pager.draw(scene, above, buffer);
        }
        if line == 0 {
            return;
        }
        let position = self.pager.position();
        let end = position.line + usize::from(above.height);
        let text = match (&self.searching, self.pager.query()) {
            (Some(query), _) if self.missing => format!("/{query}  not found"),
            (None, Some(query)) if self.missing => format!("/{query}  not found · q back"),
            (Some(query), _) => format!("/{query}"),
            (None, Some(query)) => format!("/{query}  n next · N before · q back"),
            (None, None) if self.has_keys() => {
                let total = position.total;
                format!("{} of {total} · / search · Tab mark · Enter fold · q back", end.min(total))
            }
            (None, None) => "Ctrl-T to scroll".to_owned(),
        };
        let shown = first(&text, area.width, scene.theme.dim);
        buffer.set_line(area.x, above.bottom(), &shown, area.width);
    }
}
