//! One block of Markdown as lines.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::table::Table;
use crate::highlight::{Code, Highlighter};
use crate::safe::{lines as safe_lines, one_line, printable};
use crate::theme::Theme;
use crate::wrap::{Break, Margin, wrap};

/// Maximum nesting depth of quotes and lists.
const DEEPEST: usize = 12;

pub struct Painter {
    pub width: usize,
    pub theme: Theme,
    pub highlighter: Highlighter,
}

impl Painter {
    /// Renders a block; `number` is that of an ordered list item.
    pub fn block(&self, text: &str, number: Option<u64>) -> Vec<Line<'static>> {
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let mut parser = Parser::new_ext(text, options);
        let mut page = Page {
            painter: self,
            lines: Vec::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            margins: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            number,
            fresh: true,
            code: None,
            table: None,
        };
        for event in parser.by_ref() {
            page.event(event);
        }
        page.flush();
        let mut definitions: Vec<_> = parser.reference_definitions().iter().collect();
        definitions.sort_by_key(|(_, definition)| definition.span.start);
        for (label, definition) in definitions {
            let text = format!("[{label}]: {}", definition.dest);
            page.spans.push(Span::styled(one_line(&text).into_owned(), self.theme.dim));
            page.flush();
        }
        page.lines
    }

    /// A line of a block of code.
    pub fn code_line(&self, code: &mut Code, line: &str) -> Vec<Line<'static>> {
        self.indented_code(code, line, &Margin::default())
    }

    fn indented_code(&self, code: &mut Code, line: &str, margin: &Margin) -> Vec<Line<'static>> {
        let margin = margin.and(&Margin::every("  ", Style::new()));
        wrap(&code.line(line, &self.theme), self.width, &margin, Break::Anywhere)
    }
}

struct Page<'a> {
    painter: &'a Painter,
    lines: Vec<Line<'static>>,
    /// The line being built.
    spans: Vec<Span<'static>>,
    styles: Vec<Style>,
    margins: Vec<Margin>,
    /// The next number of each open list.
    lists: Vec<Option<u64>>,
    /// The address of each open link, and the start of its text.
    links: Vec<(String, usize)>,
    number: Option<u64>,
    /// Nothing was written yet in the innermost quote or item.
    fresh: bool,
    code: Option<(String, String)>,
    table: Option<Table>,
}

impl Page<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push(&printable(&text), Style::new()),
            },
            Event::Code(text) => self.push(&one_line(&text), self.painter.theme.code),
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&one_line(&text), self.painter.theme.code);
            }
            Event::InlineHtml(text) => self.push(&one_line(&text), self.painter.theme.dim),
            Event::Html(text) => self.html(&text),
            Event::SoftBreak => self.push(" ", Style::new()),
            Event::HardBreak if self.table.is_some() => self.push(" ", Style::new()),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(self.painter.width.min(40));
                self.push(&rule, self.painter.theme.marker);
                self.flush();
            }
            Event::TaskListMarker(done) => {
                let (mark, style) = match done {
                    true => ("☑ ", self.painter.theme.success),
                    false => ("☐ ", self.painter.theme.marker),
                };
                self.push(mark, style);
            }
            Event::FootnoteReference(name) => {
                self.push(&format!("[^{}]", one_line(&name)), Style::new());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let theme = &self.painter.theme;
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                self.styles.push(theme.heading);
                let marks = "#".repeat(usize::from(level_number(level)));
                self.push(&format!("{marks} "), theme.dim);
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.margins.push(Margin::every("│ ", theme.marker));
                self.styles.push(theme.quote);
                self.fresh = true;
            }
            Tag::CodeBlock(kind) => {
                self.gap();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                let number = self.number.take();
                self.lists.push(if self.lists.is_empty() { number.or(first) } else { first });
            }
            Tag::Item => self.item(),
            Tag::Table(alignments) => {
                self.gap();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.row();
                }
            }
            Tag::TableCell => self.spans.clear(),
            Tag::Emphasis => self.styles.push(theme.emphasis),
            Tag::Strong => self.styles.push(theme.strong),
            Tag::Strikethrough => self.styles.push(theme.struck),
            Tag::Link { dest_url, .. } => {
                self.links.push((one_line(&dest_url).into_owned(), self.spans.len()));
                self.styles.push(theme.link);
            }
            Tag::Image { dest_url, .. } => {
                self.push("image: ", theme.dim);
                self.links.push((one_line(&dest_url).into_owned(), self.spans.len()));
                self.styles.push(theme.link);
            }
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.margins.pop();
                self.styles.pop();
                self.fresh = false;
            }
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.fresh = false;
            }
            TagEnd::Item => {
                // An item without text still shows its marker.
                if self.margins.last().is_some_and(|margin| margin.first != margin.rest)
                    || !self.spans.is_empty()
                {
                    self.write_line();
                }
                self.margins.pop();
                self.fresh = false;
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let margin = self.margin();
                    self.lines.extend(table.render(
                        self.painter.width,
                        &margin,
                        &self.painter.theme,
                    ));
                    self.written();
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.link(),
            TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn item(&mut self) {
        self.flush();
        let depth = self.lists.len();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ if depth % 2 == 1 => "• ".to_owned(),
            _ => "◦ ".to_owned(),
        };
        self.margins.push(Margin::hanging(&mark, self.painter.theme.marker));
        self.fresh = true;
    }

    /// Appends the address to the text, unless they are equal.
    fn link(&mut self) {
        self.styles.pop();
        let Some((address, from)) = self.links.pop() else { return };
        let text: String = self.spans.iter().skip(from).map(|span| span.content.as_ref()).collect();
        let same = text == address || address.strip_prefix("mailto:") == Some(text.as_str());
        if !same && !address.is_empty() {
            self.push(&format!(" ({address})"), self.painter.theme.dim);
        }
    }

    fn code_block(&mut self) {
        let Some((language, text)) = self.code.take() else { return };
        let mut code = self.painter.highlighter.code(&language, &self.painter.theme);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        for line in text.split('\n') {
            let margin = self.margin();
            let lines = self.painter.indented_code(&mut code, line, &margin);
            self.lines.extend(lines);
            self.written();
        }
    }

    fn html(&mut self, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        for line in safe_lines(text) {
            self.push(&line, self.painter.theme.dim);
            self.flush();
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        let style =
            self.styles.iter().fold(Style::new(), |sum, next| sum.patch(*next)).patch(style);
        // Only HTML and code contain line breaks, and they arrive by line.
        let text = text.replace('\n', " ");
        self.spans.push(Span::styled(text, style));
    }

    /// Adds an empty line between two elements of the same container.
    fn gap(&mut self) {
        self.flush();
        if !self.fresh && !self.lines.is_empty() {
            let margin = self.margin().continued();
            self.lines.extend(wrap(&[], self.painter.width, &margin, Break::Words));
        }
    }

    fn flush(&mut self) {
        if !self.spans.is_empty() && self.table.is_none() {
            self.write_line();
        }
    }

    fn write_line(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        let margin = self.margin();
        self.lines.extend(wrap(&spans, self.painter.width, &margin, Break::Words));
        self.written();
    }

    fn margin(&self) -> Margin {
        let margins = self.margins.iter().take(DEEPEST);
        margins.fold(Margin::default(), |outer, inner| outer.and(inner))
    }

    fn written(&mut self) {
        self.fresh = false;
        for margin in &mut self.margins {
            if margin.first != margin.rest {
                *margin = margin.continued();
            }
        }
    }
}

fn level_number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}
