//! Interprets a program's output like a terminal without edges.
//!
//! Progress bars move to the start of their line or up and overwrite it; this is followed, so that
//! a hundred steps become one line. Other sequences (titles, links, queries, modes, screens) are
//! dropped. A sequence ends with its line, so that an unfinished one hides no later text.
//!
//! Not the parser of the crate `vte`: it recognizes sequences as a terminal does, so an unfinished title hides all later
//! lines, and letters beyond ASCII inside of a broken sequence are lost. The rows and columns, which are most of this
//! file, are not part of it.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::printable;
use crate::wrap::grapheme_width;

/// Maximum column of a movement beyond the text.
const FARTHEST: usize = 400;
/// Maximum number of blank columns that movements create in one output.
const PADDING: usize = 64 * 1024;
/// Columns between a program's tab stops.
const TAB: usize = 8;
/// Maximum length of a control sequence.
const LONGEST: usize = 256;

pub fn read(text: &str, style: Style, colors: bool) -> Vec<Line<'static>> {
    let mut screen = Screen {
        rows: vec![OutputRow::default()],
        row: 0,
        column: 0,
        style,
        start: style,
        colors,
        padding: PADDING,
    };
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(is_control).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        screen.put(run);
        rest = screen.apply_control(after);
    }
    screen.rows.into_iter().map(OutputRow::into_line).collect()
}

fn is_control(character: char) -> bool {
    character < ' ' || character == '\u{7f}'
}

struct Screen {
    rows: Vec<OutputRow>,
    row: usize,
    column: usize,
    style: Style,
    start: Style,
    colors: bool,
    padding: usize,
}

/// A line. Most are written once from left to right; one that is overwritten is split into columns.
#[derive(Default)]
struct OutputRow {
    spans: Vec<Span<'static>>,
    width: usize,
    slots: Option<Vec<Slot>>,
}

/// One column; the right half of a wide character is empty.
#[derive(Clone)]
struct Slot {
    text: String,
    style: Style,
}

impl Screen {
    fn put(&mut self, run: &str) {
        if run.is_empty() {
            return;
        }
        let run = printable(run);
        let Some(row) = self.rows.get_mut(self.row) else { return };
        let missing = self.column.saturating_sub(row.width());
        if missing > self.padding {
            self.column = row.width();
        } else {
            self.padding -= missing;
        }
        self.column = row.put(self.column, &run, self.style);
    }

    /// Applies a control character or sequence and returns the text after it.
    fn apply_control<'a>(&mut self, text: &'a str) -> &'a str {
        let mut rest = text.chars();
        match rest.next() {
            Some('\n') => {
                self.row += 1;
                self.column = 0;
                if self.row == self.rows.len() {
                    self.rows.push(OutputRow::default());
                }
            }
            Some('\r') => self.column = 0,
            Some('\u{8}') => self.column = self.column.saturating_sub(1),
            Some('\t') => {
                let width = TAB - self.column % TAB;
                self.put(&" ".repeat(width));
            }
            Some('\u{1b}') => return self.escape(rest.as_str()),
            // A bell, a null and similar characters show nothing.
            _ => {}
        }
        rest.as_str()
    }

    fn escape<'a>(&mut self, text: &'a str) -> &'a str {
        let mut rest = text.chars();
        match rest.next() {
            Some('[') => self.control(rest.as_str()),
            Some(']' | 'P' | 'X' | '^' | '_') => after_string(rest.as_str()),
            // Two-character sequences, some followed by a character set.
            Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
                let after = rest.as_str();
                let next = rest.next().is_some_and(|character| !is_control(character));
                if next { rest.as_str() } else { after }
            }
            Some(character) if !is_control(character) => rest.as_str(),
            _ => text,
        }
    }

    /// `ESC [ parameters final`.
    fn control<'a>(&mut self, text: &'a str) -> &'a str {
        let end = text
            .char_indices()
            .take(LONGEST)
            .find(|(_, character)| !matches!(character, '\u{20}'..='\u{3f}'));
        let Some((at, last)) = end else {
            return text.get(text.len().min(LONGEST)..).unwrap_or_default();
        };
        let (parameters, after) = text.split_at(at);
        if is_control(last) || !matches!(last, '\u{40}'..='\u{7e}') {
            return after;
        }
        self.perform(parameters, last);
        after.get(last.len_utf8()..).unwrap_or_default()
    }

    fn perform(&mut self, parameters: &str, last: char) {
        if last == 'm' {
            if self.colors {
                self.style = styled(self.style, self.start, parameters);
            }
            return;
        }
        let number: usize = parameters.split(';').next().unwrap_or_default().parse().unwrap_or(0);
        let count = number.max(1);
        let width = self.rows.get(self.row).map_or(0, OutputRow::width);
        match last {
            'A' | 'F' => self.row = self.row.saturating_sub(count),
            'B' | 'E' => self.row = self.row.saturating_add(count).min(self.rows.len() - 1),
            'C' => self.column = self.column.saturating_add(count).min(width.max(FARTHEST)),
            'D' => self.column = self.column.saturating_sub(count),
            'G' => self.column = (count - 1).min(width.max(FARTHEST)),
            'K' => {
                if let Some(row) = self.rows.get_mut(self.row) {
                    row.erase(number, self.column);
                }
            }
            'J' if number == 0 => {
                if let Some(row) = self.rows.get_mut(self.row) {
                    row.erase(0, self.column);
                }
                self.rows.truncate(self.row + 1);
            }
            _ => {}
        }
        if matches!(last, 'E' | 'F') {
            self.column = 0;
        }
    }
}

/// The text after a string sequence, which ends with a bell, `ESC \` or the line.
fn after_string(text: &str) -> &str {
    let end = text.find(['\u{7}', '\u{1b}', '\n']).unwrap_or(text.len());
    let rest = text.get(end..).unwrap_or_default();
    rest.strip_prefix('\u{7}').or_else(|| rest.strip_prefix("\u{1b}\\")).unwrap_or(rest)
}

impl OutputRow {
    fn width(&self) -> usize {
        self.slots.as_ref().map_or(self.width, Vec::len)
    }

    /// Writes at a column and returns the column after it.
    fn put(&mut self, column: usize, run: &str, style: Style) -> usize {
        if self.slots.is_none() && self.width == column {
            self.spans.push(Span::styled(run.to_owned(), style));
            self.width += crate::wrap::width(run);
            return self.width;
        }
        let slots = self.slots();
        let blank = Slot { text: " ".to_owned(), style: Style::new() };
        let mut column = column;
        for grapheme in run.graphemes(true) {
            let width = grapheme_width(grapheme);
            if width == 0 {
                continue;
            }
            if slots.len() < column + width {
                slots.resize(column + width, blank.clone());
            }
            cut_wide(slots, column);
            cut_wide(slots, column + width);
            for (offset, slot) in slots.iter_mut().skip(column).take(width).enumerate() {
                let text = if offset == 0 { grapheme.to_owned() } else { String::new() };
                *slot = Slot { text, style };
            }
            column += width;
        }
        column
    }

    fn slots(&mut self) -> &mut Vec<Slot> {
        self.slots.get_or_insert_with(|| taken_apart(&self.spans))
    }

    fn erase(&mut self, what: usize, column: usize) {
        let slots = self.slots();
        match what {
            0 => {
                cut_wide(slots, column);
                slots.truncate(column);
            }
            1 => {
                cut_wide(slots, column + 1);
                for slot in slots.iter_mut().take(column + 1) {
                    *slot = Slot { text: " ".to_owned(), style: Style::new() };
                }
            }
            _ => slots.clear(),
        }
    }

    fn into_line(self) -> Line<'static> {
        let Some(slots) = self.slots else { return Line::from(self.spans) };
        let mut spans: Vec<Span<'static>> = Vec::new();
        for slot in slots {
            match spans.last_mut() {
                Some(span) if span.style == slot.style => {
                    span.content.to_mut().push_str(&slot.text);
                }
                _ => spans.push(Span::styled(slot.text, slot.style)),
            }
        }
        Line::from(spans)
    }
}

fn taken_apart(spans: &[Span<'static>]) -> Vec<Slot> {
    let mut slots = Vec::new();
    for span in spans {
        for grapheme in span.content.graphemes(true) {
            let (width, style) = (grapheme_width(grapheme), span.style);
            if width > 0 {
                slots.push(Slot { text: grapheme.to_owned(), style });
                slots.extend(vec![Slot { text: String::new(), style }; width - 1]);
            }
        }
    }
    slots
}

/// If a wide character crosses `column`, both halves become blank.
fn cut_wide(slots: &mut [Slot], column: usize) {
    if slots.get(column).is_none_or(|slot| !slot.text.is_empty()) {
        return;
    }
    let first = slots.iter().take(column).rposition(|slot| !slot.text.is_empty()).unwrap_or(0);
    let rest = slots.iter_mut().skip(first);
    for slot in rest.enumerate().take_while(|(at, slot)| *at == 0 || slot.text.is_empty()) {
        slot.1.text = " ".to_owned();
    }
}

/// `style` after the parameters of `ESC [ … m`.
fn styled(style: Style, start: Style, parameters: &str) -> Style {
    let mut style = style;
    let mut codes = parameters
        .split([';', ':'])
        .map(|code| if code.is_empty() { 0 } else { code.parse::<u16>().unwrap_or(u16::MAX) });
    while let Some(code) = codes.next() {
        style = match code {
            0 => start,
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            22 => style.remove_modifier(Modifier::BOLD | Modifier::DIM),
            23 => style.remove_modifier(Modifier::ITALIC),
            24 => style.remove_modifier(Modifier::UNDERLINED),
            27 => style.remove_modifier(Modifier::REVERSED),
            29 => style.remove_modifier(Modifier::CROSSED_OUT),
            30..=37 => style.fg(sixteen(code - 30)),
            90..=97 => style.fg(sixteen(code - 90 + 8)),
            40..=47 => style.bg(sixteen(code - 40)),
            100..=107 => style.bg(sixteen(code - 100 + 8)),
            38 => extended(&mut codes).map_or(style, |color| style.fg(color)),
            48 => extended(&mut codes).map_or(style, |color| style.bg(color)),
            39 => Style { fg: start.fg, ..style },
            49 => Style { bg: start.bg, ..style },
            _ => style,
        };
    }
    // Text in the colour of its background would be invisible.
    if style.fg.is_some() && style.fg == style.bg { Style { bg: None, ..style } } else { style }
}

fn extended(codes: &mut impl Iterator<Item = u16>) -> Option<Color> {
    let mut byte = || codes.next().and_then(|code| u8::try_from(code).ok());
    match byte()? {
        5 => Some(Color::Indexed(byte()?)),
        2 => Some(Color::Rgb(byte()?, byte()?, byte()?)),
        _ => None,
    }
}

fn sixteen(index: u16) -> Color {
    const COLORS: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    COLORS.get(usize::from(index)).copied().unwrap_or(Color::Reset)
}
