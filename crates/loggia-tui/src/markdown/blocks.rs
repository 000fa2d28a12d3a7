//! Splits Markdown into blocks, line by line.
//!
//! A split never changes the meaning: a block may contain several elements, but never part of one.
//! Fenced code is rendered by line, and every list item is a block, so that a long list appears
//! while it is written.

use ratatui::text::Line;

use super::paint::Painter;
use crate::highlight::Code;

/// A longer block is split, to keep rendering it again cheap.
const LONGEST: usize = 32 * 1024;

#[derive(Clone, Default)]
pub struct Blocks {
    open: Open,
    /// An empty line comes before the next block.
    blank: bool,
    /// The last rendered element.
    before: Before,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Nothing,
    Heading,
    Item,
    Other,
}

#[derive(Clone, Default)]
enum Open {
    #[default]
    Nothing,
    /// Paragraphs, quotes, tables and other elements.
    Flow(String),
    Item(Item),
    Fence(Fence),
}

#[derive(Clone)]
struct Item {
    text: String,
    marker: Marker,
    /// The column of the item's text; lines indented as far belong to it.
    content: usize,
    /// Number of empty lines at the end of the text.
    blanks: usize,
}

/// `-`, `*` and `+` start different lists, and so do `.` and `)`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    sign: char,
    number: Option<u64>,
}

#[derive(Clone)]
struct Fence {
    sign: char,
    length: usize,
    indent: usize,
    code: Code,
    /// Nothing of it was rendered yet.
    fresh: bool,
    gap: bool,
}

impl Blocks {
    /// Adds a whole line without its line break. Finished blocks are rendered to `lines`.
    pub fn take(&mut self, line: &str, painter: &Painter, lines: &mut Vec<Line<'static>>) {
        if let Open::Fence(fence) = &mut self.open {
            if fence.closes(line) {
                self.finish(painter, lines);
            } else {
                fence.take(line, painter, lines);
                self.before = Before::Other;
            }
            return;
        }
        let start = Start::of(line);
        if !self.joins(&start) {
            let continued = self.finish(painter, lines);
            self.start(&start, continued, painter);
        }
        self.add(line, &start);
        let long = match &self.open {
            Open::Flow(text) | Open::Item(Item { text, .. }) => text.len() > LONGEST,
            Open::Nothing | Open::Fence(_) => false,
        };
        let heading = start.kind == Kind::Heading && matches!(self.open, Open::Flow(_));
        if long || heading {
            self.finish(painter, lines);
        }
    }

    /// Renders the open block. Returns its list if it is a list item.
    pub fn finish(&mut self, painter: &Painter, lines: &mut Vec<Line<'static>>) -> Option<Marker> {
        let blank = self.blank;
        self.blank = false;
        match std::mem::take(&mut self.open) {
            Open::Nothing => {
                self.blank = blank;
                None
            }
            Open::Fence(_) => None,
            Open::Flow(text) => {
                let heading = Start::of(&text).kind == Kind::Heading;
                let gap = blank || heading || self.before == Before::Heading;
                let now = if heading { Before::Heading } else { Before::Other };
                self.render(painter.block(&text, None), gap, now, lines);
                None
            }
            Open::Item(item) => {
                let gap = blank || self.before == Before::Heading;
                let rendered = painter.block(&item.text, item.marker.number);
                self.render(rendered, gap, Before::Item, lines);
                self.blank = item.blanks > 0;
                Some(item.marker)
            }
        }
    }

    fn render(
        &mut self,
        rendered: Vec<Line<'static>>,
        gap: bool,
        now: Before,
        lines: &mut Vec<Line<'static>>,
    ) {
        if rendered.is_empty() {
            return;
        }
        if gap && self.before != Before::Nothing {
            lines.push(Line::default());
        }
        lines.extend(rendered);
        self.before = now;
    }

    /// Whether an incomplete line may become the end of the open fence and should not be shown yet.
    pub fn may_be_closing(&self, line: &str) -> bool {
        matches!(&self.open, Open::Fence(fence) if line.trim().chars().all(|it| it == fence.sign))
    }

    /// Whether the line belongs to the open block.
    fn joins(&self, start: &Start<'_>) -> bool {
        match &self.open {
            Open::Nothing | Open::Fence(_) => false,
            Open::Flow(_) => match start.kind {
                Kind::Other => true,
                Kind::Ordered { number, .. } => number != 1 || !start.filled,
                Kind::Bullet { .. } => !start.filled,
                Kind::Blank | Kind::Fence { .. } | Kind::Heading => false,
            },
            Open::Item(item) => match start.kind {
                Kind::Blank => true,
                _ if start.indent >= item.content => true,
                Kind::Other => item.blanks == 0,
                Kind::Fence { .. } | Kind::Heading | Kind::Bullet { .. } | Kind::Ordered { .. } => {
                    false
                }
            },
        }
    }

    fn start(&mut self, start: &Start<'_>, list: Option<Marker>, painter: &Painter) {
        let gap = self.blank;
        self.open = match start.kind {
            Kind::Blank => {
                self.blank = true;
                Open::Nothing
            }
            Kind::Fence { sign, length } => {
                self.blank = false;
                let language = start.text.trim_start_matches(sign).trim();
                let code = painter.highlighter.code(language, &painter.theme);
                let gap = (gap || self.before == Before::Heading) && self.before != Before::Nothing;
                Open::Fence(Fence { sign, length, indent: start.indent, code, fresh: true, gap })
            }
            Kind::Bullet { sign, content } => Open::Item(Item {
                text: String::new(),
                marker: Marker { sign, number: None },
                content,
                blanks: 0,
            }),
            Kind::Ordered { number, sign, content } => {
                let next = list.filter(|list| list.sign == sign).and_then(|list| list.number);
                let number = next.map_or(number, |last| last.saturating_add(1));
                Open::Item(Item {
                    text: String::new(),
                    marker: Marker { sign, number: Some(number) },
                    content,
                    blanks: 0,
                })
            }
            Kind::Heading | Kind::Other => Open::Flow(String::new()),
        };
    }

    fn add(&mut self, line: &str, start: &Start<'_>) {
        let text = match &mut self.open {
            Open::Nothing | Open::Fence(_) => return,
            Open::Flow(text) => text,
            Open::Item(item) => {
                item.blanks = if start.kind == Kind::Blank { item.blanks + 1 } else { 0 };
                &mut item.text
            }
        };
        text.push_str(line);
        text.push('\n');
    }
}

impl Fence {
    fn closes(&self, line: &str) -> bool {
        let start = Start::of(line);
        matches!(start.kind, Kind::Fence { sign, length } if sign == self.sign && length >= self.length)
            && start.text.trim().chars().all(|it| it == self.sign)
    }

    fn take(&mut self, line: &str, painter: &Painter, lines: &mut Vec<Line<'static>>) {
        if self.fresh && self.gap {
            lines.push(Line::default());
        }
        self.fresh = false;
        let blanks = line.bytes().take_while(|byte| *byte == b' ').count().min(self.indent);
        let line = line.get(blanks..).unwrap_or_default();
        lines.extend(painter.code_line(&mut self.code, line));
    }
}

/// The start of a line.
struct Start<'a> {
    kind: Kind,
    indent: usize,
    /// The line without its indentation.
    text: &'a str,
    /// Text follows the item's marker.
    filled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blank,
    Heading,
    Fence { sign: char, length: usize },
    Bullet { sign: char, content: usize },
    Ordered { number: u64, sign: char, content: usize },
    Other,
}

impl<'a> Start<'a> {
    fn of(line: &'a str) -> Self {
        let text = line.trim_start_matches([' ', '\t']);
        let indent = line
            .chars()
            .take_while(|it| matches!(it, ' ' | '\t'))
            .fold(0, |column, it| if it == '\t' { column / 4 * 4 + 4 } else { column + 1 });
        let mut start = Start { kind: Kind::Other, indent, text, filled: false };
        if text.trim_end().is_empty() {
            start.kind = Kind::Blank;
        } else if indent < 4 {
            start.classify();
        }
        start
    }

    fn classify(&mut self) {
        let text = self.text;
        let first = text.chars().next().unwrap_or(' ');
        let length = text.chars().take_while(|it| *it == first).count();
        let rest = text.trim_start_matches(first);
        let separated = rest.is_empty() || rest.starts_with([' ', '\t']);
        match first {
            '#' if length <= 6 && separated => self.kind = Kind::Heading,
            '`' if length >= 3 && !rest.contains('`') => {
                self.kind = Kind::Fence { sign: first, length };
            }
            '~' if length >= 3 => self.kind = Kind::Fence { sign: first, length },
            '-' | '*' | '+' if length == 1 && separated && !is_rule(text, first) => {
                self.item(rest, 1, |content| Kind::Bullet { sign: first, content });
            }
            '0'..='9' => {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                let number = text.get(..digits).and_then(|digits| digits.parse().ok());
                let rest = text.get(digits..).unwrap_or_default();
                let sign = rest.chars().next().unwrap_or(' ');
                let after = rest.get(sign.len_utf8()..).unwrap_or_default();
                let separated = after.is_empty() || after.starts_with([' ', '\t']);
                if let (Some(number), '.' | ')', true, 1..=9) = (number, sign, separated, digits) {
                    self.item(after, digits + 1, |content| Kind::Ordered { number, sign, content });
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, rest: &str, marker: usize, kind: impl Fn(usize) -> Kind) {
        let blanks = rest.chars().take_while(|it| matches!(it, ' ' | '\t')).count();
        self.filled = !rest.trim().is_empty();
        // Five or more blanks start a code block inside the item.
        let blanks = if self.filled && blanks < 5 { blanks } else { 1 };
        self.kind = kind(self.indent + marker + blanks);
    }
}

/// `* * *` is a rule, not an item.
fn is_rule(text: &str, sign: char) -> bool {
    let signs = text.chars().filter(|it| *it == sign).count();
    signs >= 3 && text.chars().all(|it| it == sign || it == ' ' || it == '\t')
}
