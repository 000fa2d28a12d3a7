//! Styles by meaning.
//!
//! Uses the sixteen colours of the terminal, so that it follows the person's theme; only tints
//! behind changed lines and configured colours go beyond them. This module does not read the
//! environment.

use ratatui::style::{Color, Modifier, Style};

/// Whether the terminal's background is dark or light.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Background {
    #[default]
    Dark,
    Light,
    /// Use only styles that are readable on both.
    Unknown,
}

impl Background {
    /// Parses `COLORFGBG`: the last field is the background colour.
    pub fn from_colorfgbg(value: &str) -> Option<Self> {
        let number: u8 = value.rsplit(';').next()?.trim().parse().ok()?;
        match number {
            0..=6 | 8 => Some(Background::Dark),
            7 | 9..=15 => Some(Background::Light),
            _ => None,
        }
    }
}

/// How many colours to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Depth {
    /// No colours: bold, italic and underline carry the meaning.
    None,
    /// The terminal's sixteen colours.
    #[default]
    Sixteen,
    /// Sixteen colours, and 256-colour tints behind changed lines.
    Indexed,
}

impl Depth {
    /// From the values of `NO_COLOR`, `TERM` and `COLORTERM`.
    pub fn detect(no_color: bool, term: Option<&str>, colorterm: Option<&str>) -> Self {
        let term = term.unwrap_or_default();
        let many = term.contains("256color")
            || term.contains("direct")
            || colorterm.is_some_and(|value| !value.is_empty());
        match (no_color || term == "dumb", many) {
            (true, _) => Depth::None,
            (false, true) => Depth::Indexed,
            (false, false) => Depth::Sixteen,
        }
    }
}

/// A class of source code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syntax {
    Plain,
    Comment,
    Keyword,
    Text,
    Number,
    Escape,
    Function,
    Type,
    Name,
    Attribute,
    Heading,
    Invalid,
}

/// A style for each meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    pub depth: Depth,
    pub background: Background,
    pub agent: Style,
    pub user: Style,
    /// The origin of a prompt from another client.
    pub origin: Style,
    pub thought: Style,
    pub tool: Style,
    /// A running action.
    pub running: Style,
    /// An action that waits for a person.
    pub waiting: Style,
    pub success: Style,
    pub failure: Style,
    pub warning: Style,
    pub dim: Style,
    pub strong: Style,
    pub emphasis: Style,
    pub struck: Style,
    pub heading: Style,
    pub code: Style,
    pub link: Style,
    pub quote: Style,
    pub marker: Style,
    pub added: Style,
    pub removed: Style,
    /// A changed word in an added or removed line.
    pub added_word: Style,
    pub removed_word: Style,
    /// The background of added or removed lines.
    pub added_line: Style,
    pub removed_line: Style,
    pub found: Style,
    pub found_here: Style,
    pub focus: Style,
}

impl Default for Theme {
    fn default() -> Self {
        Self::new(Depth::default(), Background::default())
    }
}

impl Theme {
    pub fn new(depth: Depth, background: Background) -> Self {
        let plain = Style::new();
        let with = |color: Color| if depth == Depth::None { plain } else { plain.fg(color) };
        let bold = plain.add_modifier(Modifier::BOLD);
        let dim = plain.add_modifier(Modifier::DIM);
        let italic = plain.add_modifier(Modifier::ITALIC);
        let underlined = plain.add_modifier(Modifier::UNDERLINED);
        // Blue is hard to read on dark backgrounds, yellow on light ones.
        let yellow = if background == Background::Dark { Color::Yellow } else { Color::Magenta };
        let blue = if background == Background::Unknown { Color::Cyan } else { Color::Blue };
        let (added_line, removed_line, added_word, removed_word) = tints(depth, background);
        Self {
            depth,
            background,
            agent: plain,
            user: bold,
            origin: with(Color::Cyan),
            thought: dim.patch(italic),
            tool: bold,
            running: with(Color::Cyan),
            waiting: with(yellow).patch(bold),
            success: with(Color::Green),
            failure: with(Color::Red),
            warning: with(yellow),
            dim,
            strong: bold,
            emphasis: italic,
            struck: plain.add_modifier(Modifier::CROSSED_OUT),
            heading: with(Color::Cyan).patch(bold),
            code: with(Color::Cyan),
            link: with(blue).patch(underlined),
            quote: italic,
            marker: dim,
            added: with(Color::Green),
            removed: with(Color::Red),
            added_word,
            removed_word,
            added_line,
            removed_line,
            found: if depth == Depth::None {
                underlined
            } else {
                plain.fg(Color::Black).bg(Color::Yellow)
            },
            found_here: plain.add_modifier(Modifier::REVERSED).patch(bold),
            focus: plain.add_modifier(Modifier::REVERSED),
        }
    }

    /// Without colours.
    pub fn plain() -> Self {
        Self::new(Depth::None, Background::default())
    }

    /// The style of a piece of source code.
    pub fn syntax(&self, kind: Syntax) -> Style {
        let plain = Style::new();
        if self.depth == Depth::None {
            return plain;
        }
        match kind {
            Syntax::Plain | Syntax::Name => plain,
            Syntax::Comment => plain.add_modifier(Modifier::DIM | Modifier::ITALIC),
            Syntax::Keyword => plain.fg(Color::Magenta),
            Syntax::Text => plain.fg(Color::Green),
            Syntax::Number | Syntax::Escape => plain.fg(match self.background {
                Background::Dark => Color::Yellow,
                Background::Light | Background::Unknown => Color::Red,
            }),
            Syntax::Function => plain.fg(match self.background {
                Background::Dark => Color::LightBlue,
                Background::Light => Color::Blue,
                Background::Unknown => Color::Cyan,
            }),
            Syntax::Type | Syntax::Attribute => plain.fg(Color::Cyan),
            Syntax::Heading => plain.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            Syntax::Invalid => plain.fg(Color::Red),
        }
    }
}

/// Backgrounds of added lines, removed lines, added words and removed words.
fn tints(depth: Depth, background: Background) -> (Style, Style, Style, Style) {
    let plain = Style::new();
    let behind = |index: u8| plain.bg(Color::Indexed(index));
    let word = plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    match (depth, background) {
        (Depth::None, _) => (plain, plain, word, word),
        // With an unknown background, the terminal's text gets no tint.
        (Depth::Sixteen, _) | (_, Background::Unknown) => {
            let (added, removed) = (plain.fg(Color::Green), plain.fg(Color::Red));
            (added, removed, added.patch(word), removed.patch(word))
        }
        (Depth::Indexed, Background::Dark) => (behind(22), behind(52), behind(28), behind(88)),
        (Depth::Indexed, Background::Light) => (behind(194), behind(224), behind(157), behind(217)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_is_read_from_colorfgbg() {
        let cases = [
            ("15;0", Some(Background::Dark)),
            ("0;15", Some(Background::Light)),
            ("0;default;15", Some(Background::Light)),
            ("12;8", Some(Background::Dark)),
            ("0;7", Some(Background::Light)),
            ("default;default", None),
            ("", None),
            ("0;300", None),
        ];
        for (value, wanted) in cases {
            assert_eq!(Background::from_colorfgbg(value), wanted, "{value}");
        }
    }

    #[test]
    fn the_depth_follows_what_the_terminal_says() {
        let cases = [
            ((true, Some("xterm-256color"), Some("truecolor")), Depth::None),
            ((false, Some("dumb"), None), Depth::None),
            ((false, Some("xterm"), None), Depth::Sixteen),
            ((false, None, None), Depth::Sixteen),
            ((false, Some("xterm-256color"), None), Depth::Indexed),
            ((false, Some("xterm"), Some("truecolor")), Depth::Indexed),
        ];
        for ((no_color, term, colorterm), wanted) in cases {
            assert_eq!(Depth::detect(no_color, term, colorterm), wanted, "{term:?} {colorterm:?}");
        }
    }

    /// No tint behind the terminal's own text, and no colour that is invisible on dark or light.
    #[test]
    fn an_unknown_background_gets_colours_for_both() {
        let theme = Theme::new(Depth::Indexed, Background::Unknown);
        let mut shown = format!("{theme:?}");
        for kind in [Syntax::Number, Syntax::Escape, Syntax::Function, Syntax::Keyword] {
            shown.push_str(&format!("{:?}", theme.syntax(kind)));
        }
        // Except if foreground and background are both ours.
        let shown = shown.replace(&format!("{:?}", theme.found), "");
        for color in ["Indexed(", "Blue", "Yellow", "White", "Black", "bg: Some"] {
            assert!(!shown.contains(color), "{color} in {shown}");
        }
        assert_ne!(theme.added_line, theme.removed_line);
    }

    #[test]
    fn without_colours_there_is_no_colour() {
        let shown = format!("{:?}", Theme::plain());
        for color in ["Red", "Green", "Yellow", "Blue", "Cyan", "Indexed("] {
            assert!(!shown.contains(color), "{color} in {shown}");
        }
    }
}
