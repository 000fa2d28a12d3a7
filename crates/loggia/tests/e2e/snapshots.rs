//! Screens for comparison: cells without volatile parts (clocks, spinners, ports, ids, QR codes),
//! as text or with styles.

use regex::Regex;
use vt100::Color;

/// One column of a screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Empty for the right half of a wide character.
    pub text: String,
    pub look: Look,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub letters: Color,
    pub behind: Color,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub reversed: bool,
}

impl Look {
    const PLAIN: Self = Self {
        letters: Color::Default,
        behind: Color::Default,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        reversed: false,
    };

    fn of(cell: &vt100::Cell) -> Self {
        Self {
            letters: cell.fgcolor(),
            behind: cell.bgcolor(),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
            reversed: cell.inverse(),
        }
    }

    fn words(self) -> String {
        let color = |color: Color| match color {
            Color::Default => None,
            Color::Idx(number) => Some(number.to_string()),
            Color::Rgb(red, green, blue) => Some(format!("{red}/{green}/{blue}")),
        };
        let mut words: Vec<String> = color(self.letters).into_iter().collect();
        words.extend(color(self.behind).map(|color| format!("on {color}")));
        let flags = [
            (self.bold, "bold"),
            (self.dim, "dim"),
            (self.italic, "italic"),
            (self.underline, "underlined"),
            (self.reversed, "reversed"),
        ];
        words.extend(flags.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).to_owned()));
        words.join(" ")
    }
}

/// Volatile text and its replacement. A row keeps its length.
const VOLATILE: &[(&str, &str)] = &[
    // The spinner.
    (r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏⣾⣽⣻⢿⡿⣟⣯⣷]", "⠋"),
    // Durations.
    (r"\b\d+(\.\d+)?(s|m \d\ds|h \d\dm)\b", "4s"),
    (r"\b\d+ ms\b", "40 ms"),
    // Addresses, and the identity of unnamed clients.
    (r"@(127\.0\.0\.1|\[::1\]):\d+", "@localhost"),
    (r"(localhost|127\.0\.0\.1|\[::1\]):\d+", "localhost:1234"),
    (r"tui-[0-9a-f-]+", "tui-1"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    // The test's directory.
    (r"/[^ ]*/loggia-e2e-\w+/work", "/project"),
    (r"scripted:/[^ ]*/", "scripted:"),
    (r"loggia-e2e-\w+", "loggia"),
    (r"(just now|\d+ (second|minute)s? ago|\d\d:\d\d(:\d\d)?|\d{4}-\d\d-\d\d)", "today"),
];

/// The screen scrolled down to its full height. How far it was scrolled depends on the height of
/// intermediate frames, which vary.
pub fn filled(screen: &mut vt100::Screen) -> Vec<Vec<Cell>> {
    let blank = |row: &Vec<Cell>| row.iter().all(|cell| cell.text.trim().is_empty());
    let free = cells(screen).iter().rev().take_while(|row| blank(row)).count();
    screen.set_scrollback(free);
    let rows = cells(screen);
    screen.set_scrollback(0);
    rows
}

fn cells(screen: &vt100::Screen) -> Vec<Vec<Cell>> {
    let (rows, columns) = screen.size();
    let volatile: Vec<(Regex, &str)> =
        VOLATILE.iter().map(|(from, to)| (Regex::new(from).unwrap(), *to)).collect();
    let row = |row: u16| {
        let mut cells: Vec<Cell> = (0..columns.get())
            .map(|column| {
                let cell = screen.cell(row, column).unwrap();
                let text = match (cell.has_contents(), cell.is_wide_continuation()) {
                    (_, true) => String::new(),
                    (true, false) => cell.contents().to_owned(),
                    (false, false) => " ".to_owned(),
                };
                Cell { text, look: Look::of(cell) }
            })
            .collect();
        for (from, to) in &volatile {
            exchange(&mut cells, from, to);
        }
        hide_code(&mut cells);
        cells
    };
    (0..rows.get()).map(row).collect()
}

/// Replaces every match in the style of its first cell and moves the rest; blanks at the end are
/// added or removed.
fn exchange(cells: &mut Vec<Cell>, from: &Regex, to: &str) {
    let columns = cells.len();
    let mut start = 0;
    loop {
        // The byte offset of each cell.
        let mut text = String::new();
        let mut places = Vec::new();
        for cell in cells.iter() {
            places.push(text.len());
            text.push_str(&cell.text);
        }
        let Some(found) = from.find_at(&text, start) else { break };
        let first = places.iter().position(|place| *place >= found.start()).unwrap();
        let behind = places.iter().position(|place| *place >= found.end()).unwrap_or(columns);
        let look = cells[first].look;
        let new = to.chars().map(|letter| Cell { text: letter.to_string(), look });
        start = found.start() + to.len();
        cells.splice(first..behind, new);
    }
    cells.resize(columns, Cell { text: " ".to_owned(), look: Look::PLAIN });
}

/// A QR code contains the address.
fn hide_code(cells: &mut [Cell]) {
    let square = |cell: &Cell| matches!(cell.text.as_str(), "█" | "▀" | "▄");
    if cells.iter().filter(|cell| square(cell)).count() > 8 {
        for (column, cell) in cells.iter_mut().enumerate() {
            cell.text = if column < 8 { "▒" } else { " " }.to_owned();
        }
    }
}

pub fn text(screen: &mut vt100::Screen) -> String {
    let line = |row: Vec<Cell>| {
        let line: String = row.iter().map(|cell| cell.text.as_str()).collect();
        line.trim_end().to_owned()
    };
    joined(filled(screen).into_iter().map(line))
}

/// `⟨bold 2:text⟩`: the style of every piece that is not plain.
pub fn styled(screen: &mut vt100::Screen) -> String {
    let line = |row: Vec<Cell>| {
        let mut line = String::new();
        for piece in row.chunk_by(|one, next| one.look == next.look) {
            let text: String = piece.iter().map(|cell| cell.text.as_str()).collect();
            match piece[0].look {
                Look::PLAIN => line.push_str(&text),
                look => line.push_str(&format!("⟨{}:{text}⟩", look.words())),
            }
        }
        line.trim_end().to_owned()
    };
    joined(filled(screen).into_iter().map(line))
}

/// Whether this text is shown in one colour.
pub fn is_coloured(screen: &vt100::Screen, text: &str) -> bool {
    cells(screen).iter().any(|row| {
        row.windows(text.chars().count()).any(|window| {
            let found: String = window.iter().map(|cell| cell.text.as_str()).collect();
            found == text && window.iter().all(|cell| cell.look.letters != Color::Default)
        })
    })
}

fn joined(lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n")
}
