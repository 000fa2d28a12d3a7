//! Lines and screens for snapshots: as text, or with styles.

use loggia_core::{Cell, Millis, Origin, Surface};
use loggia_tui::cell::{CellContext, render};
use loggia_tui::highlight::Highlighter;
use loggia_tui::own_origins::OwnOrigins;
use loggia_tui::pager::{Pager, Scene};
use loggia_tui::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

/// The fixed current time.
pub const NOW: Millis = Millis(1_767_603_700_000);

pub fn text(lines: &[Line<'static>]) -> String {
    let line = |line: &Line<'static>| line.to_string().trim_end().to_owned() + "\n";
    lines.iter().map(line).collect()
}

pub fn cell(cell: &Cell, width: usize, expanded: bool) -> String {
    text(&lines(cell, width, expanded, &Theme::plain()))
}

pub fn lines(cell: &Cell, width: usize, expanded: bool, theme: &Theme) -> Vec<Line<'static>> {
    let own = OwnOrigins::new(Origin::new(Surface::Tui, "terminal-1"));
    let context = CellContext {
        width,
        theme,
        highlighter: Highlighter::waiting(),
        expanded,
        now: NOW,
        frame: 0,
        own: Some(&own),
        whole: None,
    };
    render(cell, &context)
}

/// Every span with its style.
pub fn styled(lines: &[Line<'static>]) -> String {
    let mut shown = String::new();
    for line in lines {
        for span in &line.spans {
            let mut words: Vec<String> = Vec::new();
            words.extend(span.style.fg.map(|color| color.to_string().to_lowercase()));
            words.extend(span.style.bg.map(|color| format!("on {color}").to_lowercase()));
            let modifier = span.style.add_modifier;
            words.extend(modifier.iter_names().map(|(name, _)| name.to_lowercase()));
            match words.is_empty() {
                true => shown.push_str(&span.content),
                false => shown.push_str(&format!("⟨{}:{}⟩", words.join(" "), span.content)),
            }
        }
        shown.push('\n');
    }
    shown
}

/// A screen of the pager as rows of text.
pub struct Screen {
    pub pager: Pager,
    pub theme: Theme,
    pub width: u16,
    pub height: u16,
}

impl Screen {
    pub fn new(width: u16, height: u16) -> Self {
        Self { pager: Pager::new(), theme: Theme::plain(), width, height }
    }

    pub fn act<T>(&mut self, cells: &[Cell], act: impl FnOnce(&mut Pager, &Scene<'_>) -> T) -> T {
        let scene = Scene {
            cells,
            theme: &self.theme,
            highlighter: Highlighter::waiting(),
            now: NOW,
            frame: 0,
            own: None,
        };
        act(&mut self.pager, &scene)
    }

    pub fn buffer(&mut self, cells: &[Cell]) -> Buffer {
        let area = Rect::new(0, 0, self.width, self.height);
        let mut buffer = Buffer::empty(area);
        self.act(cells, |pager, scene| pager.draw(scene, area, &mut buffer));
        buffer
    }

    pub fn rows(&mut self, cells: &[Cell]) -> Vec<String> {
        let buffer = self.buffer(cells);
        let row = |y| -> String {
            let row: String = (0..self.width).map(|x| buffer[(x, y)].symbol()).collect();
            row.trim_end().to_owned()
        };
        (0..self.height).map(row).collect()
    }
}
