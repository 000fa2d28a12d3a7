//! The scrollable transcript: scrolling, folding, searching.
//!
//! A pure model without terminal or clock. The position is a cell and a line in it, so that a frame
//! costs only the visible part: only visible cells are rendered, only unfinished cells are checked
//! again, and the height of an unseen cell is estimated until it is seen or measured in idle time
//! ([`Pager::measure`]). This module does not handle keys, the terminal or the log.

mod cell_lines;
mod heights;
mod moves;
mod search;

use std::collections::BTreeSet;

use loggia_core::{Cell, Millis};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::cell::{self, CellContext};
use crate::highlight::Highlighter;
use crate::own_origins::OwnOrigins;
use crate::theme::Theme;
use cell_lines::CellLines;
use heights::Heights;
use search::Query;

/// Maximum number of cells whose lines are cached.
const MOST_KEPT: usize = 256;

/// The cells and rendering options.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub cells: &'a [Cell],
    pub theme: &'a Theme,
    pub highlighter: Highlighter,
    pub now: Millis,
    /// Frame number of the spinner.
    pub frame: usize,
    pub own: Option<&'a OwnOrigins>,
}

/// A line of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct CellLine {
    cell: usize,
    line: usize,
}

/// The position in the transcript, estimated until all cells are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The first visible line.
    pub line: usize,
    pub total: usize,
}

#[derive(Default)]
struct Entry {
    shown: Option<CellLines>,
    /// The cell's fingerprint at the last check, if it is not final.
    fingerprint: u64,
    /// The layout number of the cached lines and height.
    layout: u64,
    expanded: bool,
}

#[derive(Default)]
struct Search {
    query: Option<Query>,
    /// The position when the search began.
    origin: CellLine,
    hit: Option<CellLine>,
}

pub struct Pager {
    width: usize,
    height: usize,
    /// Incremented when all lines change, as with another width or theme.
    layout: u64,
    entries: Vec<Entry>,
    heights: Heights,
    /// Cells that may still change.
    live: Vec<usize>,
    /// Cells with cached lines.
    kept: BTreeSet<usize>,
    top: CellLine,
    /// The height of the top cell before the layout changed.
    top_height: Option<usize>,
    follows: bool,
    focus: Option<usize>,
    search: Search,
    /// The first cell that was not measured in idle time.
    measured: usize,
    colored: bool,
}

impl Default for Pager {
    fn default() -> Self {
        Self::new()
    }
}

impl Pager {
    /// Starts at the end and follows it.
    pub fn new() -> Self {
        Self {
            width: 80,
            height: 24,
            layout: 1,
            entries: Vec::new(),
            heights: Heights::default(),
            live: Vec::new(),
            kept: BTreeSet::new(),
            top: CellLine::default(),
            top_height: None,
            follows: true,
            focus: None,
            search: Search::default(),
            measured: 0,
            colored: false,
        }
    }

    /// Draws the visible part.
    pub fn draw(&mut self, scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        self.resize(area.width.into(), area.height.into());
        self.sync(scene);
        self.settle(scene);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                buffer[(x, y)].reset();
            }
        }
        let mut place = self.top;
        let mut y = area.top();
        while y < area.bottom() && place.cell < scene.cells.len() {
            if place.line >= self.ensure(place.cell, scene) {
                place = CellLine { cell: place.cell + 1, line: 0 };
                continue;
            }
            self.draw_line(place, scene, Rect { y, height: 1, ..area }, buffer);
            place.line += 1;
            y += 1;
        }
        self.forget(self.top.cell, place.cell);
    }

    fn draw_line(&self, place: CellLine, scene: &Scene<'_>, row: Rect, buffer: &mut Buffer) {
        let Some(line) = self.line(place, scene) else { return };
        buffer.set_line(row.x, row.y, line, row.width);
        if let Some(query) = &self.search.query {
            let here = self.search.hit == Some(place);
            let style = if here { scene.theme.found_here } else { scene.theme.found };
            for columns in query.columns(line) {
                let start = u16::try_from(columns.start).unwrap_or(u16::MAX).min(row.width);
                let end = u16::try_from(columns.end).unwrap_or(u16::MAX).min(row.width);
                let found = Rect { x: row.x + start, width: end - start, ..row };
                buffer.set_style(found, style);
            }
        }
        if self.focus == Some(place.cell) && place.line == self.lead(place.cell, scene) {
            let width = u16::try_from(crate::wrap::spans_width(&line.spans)).unwrap_or(u16::MAX);
            let focus = Rect { width: width.clamp(1, row.width), ..row };
            buffer.set_style(focus, scene.theme.focus);
        }
    }

    /// Updates new and unfinished cells.
    fn sync(&mut self, scene: &Scene<'_>) {
        if scene.cells.len() < self.entries.len() {
            *self = Self { width: self.width, height: self.height, ..Self::new() };
        }
        let colored = scene.highlighter.is_ready();
        if colored != self.colored && !self.entries.is_empty() {
            self.invalidate();
        }
        self.colored = colored;
        let last = scene.cells.len().saturating_sub(1);
        for index in std::mem::take(&mut self.live) {
            let Some(cell) = scene.cells.get(index) else { continue };
            let fingerprint = cell_lines::fingerprint(cell, scene.now, scene.frame);
            self.refresh(index, cell, fingerprint, scene);
            if !cell::is_final(cell, index == last) {
                self.live.push(index);
            }
        }
        for (index, cell) in scene.cells.iter().enumerate().skip(self.entries.len()) {
            let is_final = cell::is_final(cell, index == last);
            if !is_final {
                self.live.push(index);
            }
            let expanded = cell::starts_expanded(&cell.body);
            let fingerprint =
                if is_final { 0 } else { cell_lines::fingerprint(cell, scene.now, scene.frame) };
            self.entries.push(Entry { shown: None, fingerprint, layout: 0, expanded });
            self.heights.push(cell_lines::estimate(cell, self.width));
        }
    }

    /// Updates the cached lines of a changed cell.
    fn refresh(&mut self, index: usize, cell: &Cell, fingerprint: u64, scene: &Scene<'_>) {
        let layout = self.layout;
        let lead = self.lead_of_any(index, scene);
        let width = self.width;
        let Some(entry) = self.entries.get_mut(index) else { return };
        if entry.fingerprint == fingerprint {
            return;
        }
        entry.fingerprint = fingerprint;
        let context = context(scene, width, entry.expanded);
        let kept = entry.layout == layout
            && entry.shown.as_mut().is_some_and(|shown| shown.grow(cell, &context));
        if kept {
            let lines = entry.shown.as_ref().map_or(0, CellLines::len);
            self.heights.set(index, if lines == 0 { 0 } else { lines + lead });
        } else {
            entry.shown = None;
            self.kept.remove(&index);
        }
    }

    /// Renders a cell if it is not cached. Returns its number of lines, including the empty one
    /// before it.
    fn ensure(&mut self, index: usize, scene: &Scene<'_>) -> usize {
        let (layout, width) = (self.layout, self.width);
        let lead = self.lead_of_any(index, scene);
        let (Some(entry), Some(cell)) = (self.entries.get_mut(index), scene.cells.get(index))
        else {
            return 0;
        };
        if entry.layout != layout || entry.shown.is_none() {
            let shown = CellLines::new(cell, &context(scene, width, entry.expanded));
            let lines = shown.len();
            entry.shown = Some(shown);
            entry.layout = layout;
            self.kept.insert(index);
            self.heights.set(index, if lines == 0 { 0 } else { lines + lead });
        }
        self.heights.get(index)
    }

    /// The number of empty lines before a visible cell.
    fn lead_of_any(&self, index: usize, scene: &Scene<'_>) -> usize {
        let before = index.checked_sub(1).and_then(|before| scene.cells.get(before));
        let apart =
            |before| scene.cells.get(index).is_some_and(|cell| cell::is_apart(before, cell));
        usize::from(before.is_some_and(apart))
    }

    fn lead(&self, index: usize, scene: &Scene<'_>) -> usize {
        if self.heights.get(index) == 0 { 0 } else { self.lead_of_any(index, scene) }
    }

    /// A line of a rendered cell; None for the empty one before it.
    fn line(&self, place: CellLine, scene: &Scene<'_>) -> Option<&Line<'static>> {
        let line = place.line.checked_sub(self.lead(place.cell, scene))?;
        self.entries.get(place.cell)?.shown.as_ref()?.line(line)
    }

    /// Corrects the top position: at the end while following, and never beyond it.
    fn settle(&mut self, scene: &Scene<'_>) {
        if let Some(before) = self.top_height.take() {
            let height = self.ensure(self.top.cell, scene);
            self.top.line = self.top.line * height / before.max(1);
        }
        if self.follows || self.is_at_end(self.top, scene) {
            self.top = self.bottom(scene);
        }
    }

    /// Whether everything from this position fits the screen.
    fn is_at_end(&mut self, place: CellLine, scene: &Scene<'_>) -> bool {
        let mut room = self.height + place.line;
        for cell in place.cell..scene.cells.len() {
            match room.checked_sub(self.ensure(cell, scene)) {
                Some(rest) => room = rest,
                None => return false,
            }
        }
        true
    }

    /// The top position that shows the last line at the bottom.
    fn bottom(&mut self, scene: &Scene<'_>) -> CellLine {
        let mut room = self.height;
        for cell in (0..scene.cells.len()).rev() {
            let height = self.ensure(cell, scene);
            if height >= room {
                return CellLine { cell, line: height - room };
            }
            room -= height;
        }
        CellLine::default()
    }

    /// Drops the cached lines of cells far from the screen.
    fn forget(&mut self, first: usize, last: usize) {
        while self.kept.len() > MOST_KEPT {
            let (Some(low), Some(high)) = (self.kept.first(), self.kept.last()) else { return };
            let (low, high) = (*low, *high);
            let far =
                if first.saturating_sub(low) >= high.saturating_sub(last) { low } else { high };
            self.kept.remove(&far);
            if let Some(entry) = self.entries.get_mut(far) {
                entry.shown = None;
            }
        }
    }

    fn resize(&mut self, width: usize, height: usize) {
        self.height = height;
        if width != self.width {
            self.width = width;
            self.invalidate();
        }
    }

    /// Invalidates all lines after a change of theme or width.
    pub fn invalidate(&mut self) {
        self.top_height = self.top_height.or(Some(self.heights.get(self.top.cell)));
        self.layout += 1;
        self.measured = 0;
    }

    /// Renders some unseen cells to learn their heights, in idle time. False once all are known.
    pub fn measure(&mut self, scene: &Scene<'_>, cells: usize) -> bool {
        self.sync(scene);
        for index in (self.measured..scene.cells.len()).take(cells) {
            let known = self.entries.get(index).is_some_and(|entry| entry.layout == self.layout);
            if !known {
                self.ensure(index, scene);
            }
            self.measured = index + 1;
        }
        self.forget(self.top.cell, self.top.cell);
        self.measured < scene.cells.len()
    }

    pub fn position(&self) -> Position {
        let line = self.heights.before(self.top.cell) + self.top.line;
        Position { line, total: self.heights.total() }
    }

    pub fn is_following(&self) -> bool {
        self.follows
    }
}

fn context<'a>(scene: &Scene<'a>, width: usize, expanded: bool) -> CellContext<'a> {
    CellContext {
        width,
        theme: scene.theme,
        highlighter: scene.highlighter,
        expanded,
        now: scene.now,
        frame: scene.frame,
        own: scene.own,
        whole: None,
    }
}
