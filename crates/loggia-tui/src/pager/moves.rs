//! Scrolling, folding and searching in the transcript. One method per action.

use super::search::Query;
use super::{CellLine, Pager, Scene};

impl Pager {
    pub fn scroll_up(&mut self, scene: &Scene<'_>, lines: usize) {
        self.sync(scene);
        self.settle(scene);
        let mut left = lines;
        while left > self.top.line {
            let Some(before) = self.top.cell.checked_sub(1) else {
                left = self.top.line;
                break;
            };
            left -= self.top.line;
            self.top = CellLine { cell: before, line: self.ensure(before, scene) };
        }
        self.top.line -= left;
        self.follows = self.is_at_end(self.top, scene);
    }

    /// At the end, the pager follows again.
    pub fn scroll_down(&mut self, scene: &Scene<'_>, lines: usize) {
        self.sync(scene);
        self.settle(scene);
        let mut left = lines;
        while left > 0 && self.top.cell < scene.cells.len() {
            let here = self.ensure(self.top.cell, scene).saturating_sub(self.top.line);
            if left < here {
                self.top.line += left;
                break;
            }
            left -= here;
            self.top = CellLine { cell: self.top.cell + 1, line: 0 };
        }
        self.follows = self.is_at_end(self.top, scene);
    }

    pub fn page_up(&mut self, scene: &Scene<'_>) {
        self.scroll_up(scene, self.height.saturating_sub(2).max(1));
    }

    pub fn page_down(&mut self, scene: &Scene<'_>) {
        self.scroll_down(scene, self.height.saturating_sub(2).max(1));
    }

    pub fn to_top(&mut self) {
        self.top = CellLine::default();
        self.follows = false;
    }

    /// Scrolls to the end and follows it.
    pub fn to_bottom(&mut self) {
        self.follows = true;
    }

    /// The cell at a screen row.
    pub fn cell_at(&mut self, scene: &Scene<'_>, row: usize) -> Option<usize> {
        let mut place = self.top;
        let mut left = row;
        while place.cell < scene.cells.len() {
            let here = self.ensure(place.cell, scene).saturating_sub(place.line);
            if left < here {
                return Some(place.cell);
            }
            left -= here;
            place = CellLine { cell: place.cell + 1, line: 0 };
        }
        None
    }

    /// Expands or collapses a cell.
    pub fn toggle(&mut self, scene: &Scene<'_>, cell: usize) {
        self.sync(scene);
        self.settle(scene);
        if let Some(entry) = self.entries.get_mut(cell) {
            entry.expanded = !entry.expanded;
            entry.shown = None;
            self.kept.remove(&cell);
        }
        let height = self.ensure(cell, scene);
        if self.top.cell == cell && self.top.line >= height {
            self.top.line = 0;
        }
        // Keep the expanded cell visible instead of following the end.
        self.follows = self.follows && self.is_at_end(self.top, scene);
    }

    /// Expands all cells, or resets them.
    pub fn expand_all(&mut self, scene: &Scene<'_>, expanded: bool) {
        self.sync(scene);
        for (entry, cell) in self.entries.iter_mut().zip(scene.cells) {
            entry.expanded = expanded || crate::cell::starts_expanded(&cell.body);
        }
        self.invalidate();
    }

    pub fn focused(&self) -> Option<usize> {
        self.focus
    }

    pub fn focus_next(&mut self, scene: &Scene<'_>) {
        self.sync(scene);
        let from = self.focus.map_or(self.top.cell, |cell| cell + 1);
        self.focus_first(from..scene.cells.len(), scene);
    }

    pub fn focus_previous(&mut self, scene: &Scene<'_>) {
        self.sync(scene);
        let until = self.focus.unwrap_or(scene.cells.len());
        self.focus_first((0..until).rev(), scene);
    }

    fn focus_first(&mut self, cells: impl Iterator<Item = usize>, scene: &Scene<'_>) {
        for cell in cells {
            if self.ensure(cell, scene) > 0 {
                self.focus = Some(cell);
                self.reveal(CellLine { cell, line: 0 }, scene);
                return;
            }
        }
    }

    pub fn toggle_focused(&mut self, scene: &Scene<'_>) {
        if let Some(cell) = self.focus {
            self.toggle(scene, cell);
        }
    }

    pub fn clear_focus(&mut self) {
        self.focus = None;
    }

    /// Starts a search from the current position.
    pub fn begin_search(&mut self, scene: &Scene<'_>) {
        self.sync(scene);
        self.settle(scene);
        self.search.origin = self.top;
        self.search.hit = None;
    }

    /// Searches for the text typed so far. Returns whether it was found.
    pub fn search(&mut self, scene: &Scene<'_>, text: &str) -> bool {
        self.sync(scene);
        self.search.query = Query::new(text);
        self.search.hit = None;
        self.find(scene, self.search.origin, true)
    }

    /// The search text.
    pub fn query(&self) -> Option<&str> {
        self.search.query.as_ref().map(Query::text)
    }

    /// The next match, wrapping at the end.
    pub fn search_next(&mut self, scene: &Scene<'_>) -> bool {
        self.sync(scene);
        let from = self.search.hit.map(|hit| CellLine { line: hit.line + 1, ..hit });
        self.find(scene, from.unwrap_or(self.top), true)
    }

    /// The previous match, wrapping at the start.
    pub fn search_previous(&mut self, scene: &Scene<'_>) -> bool {
        self.sync(scene);
        self.find(scene, self.search.hit.unwrap_or(self.top), false)
    }

    pub fn clear_search(&mut self) {
        self.search.query = None;
        self.search.hit = None;
    }

    /// Finds the next or previous matching line, wrapping once.
    fn find(&mut self, scene: &Scene<'_>, from: CellLine, forward: bool) -> bool {
        let Some(query) = self.search.query.clone() else { return false };
        let count = scene.cells.len();
        for step in 0..=count {
            let cell = match forward {
                true => (from.cell + step) % count.max(1),
                false => (from.cell + count * 2 - step) % count.max(1),
            };
            let fits = |line: usize| match (step == 0, step == count, forward) {
                (true, _, true) => line >= from.line,
                (true, _, false) => line < from.line,
                (_, true, true) => line < from.line,
                (_, true, false) => line >= from.line,
                _ => true,
            };
            let may = scene.cells.get(cell).is_some_and(|cell| query.may_be_in(cell));
            if !may {
                continue;
            }
            let lines = self.matching(cell, &query, scene);
            let mut lines = lines.into_iter().filter(|line| fits(*line));
            let found = if forward { lines.next() } else { lines.next_back() };
            if let Some(line) = found {
                let hit = CellLine { cell, line };
                self.search.hit = Some(hit);
                self.reveal(hit, scene);
                return true;
            }
        }
        false
    }

    /// The matching lines of a cell. A collapsed cell that hides the text is expanded.
    fn matching(&mut self, cell: usize, query: &Query, scene: &Scene<'_>) -> Vec<usize> {
        let found = self.lines_with(cell, query, scene);
        let folded = self.entries.get(cell).is_some_and(|entry| !entry.expanded);
        if !found.is_empty() || !folded {
            return found;
        }
        self.toggle(scene, cell);
        let found = self.lines_with(cell, query, scene);
        if found.is_empty() {
            self.toggle(scene, cell);
        }
        found
    }

    fn lines_with(&mut self, cell: usize, query: &Query, scene: &Scene<'_>) -> Vec<usize> {
        let height = self.ensure(cell, scene);
        let has = |line: &usize| {
            self.line(CellLine { cell, line: *line }, scene).is_some_and(|line| query.is_in(line))
        };
        (0..height).filter(has).collect()
    }

    /// Scrolls to make a position visible.
    fn reveal(&mut self, place: CellLine, scene: &Scene<'_>) {
        self.settle(scene);
        let end = self.after(self.top, self.height, scene);
        if self.top <= place && place < end {
            return;
        }
        self.follows = false;
        self.top = place;
        let above = self.height / 3;
        if above > 0 {
            self.scroll_up(scene, above);
        }
        self.follows = false;
        self.settle(scene);
    }

    /// The position some lines further.
    fn after(&mut self, place: CellLine, lines: usize, scene: &Scene<'_>) -> CellLine {
        let (mut place, mut left) = (place, lines);
        while place.cell < scene.cells.len() {
            let here = self.ensure(place.cell, scene).saturating_sub(place.line);
            if left < here {
                return CellLine { line: place.line + left, ..place };
            }
            left -= here;
            place = CellLine { cell: place.cell + 1, line: 0 };
        }
        place
    }
}
