//! Styles as escape sequences.

use std::fmt::Write;

use ratatui::buffer::Cell;
use ratatui::style::{Color, Modifier};

/// The style that the terminal has now.
#[derive(Default, PartialEq)]
pub struct CurrentStyle {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

impl CurrentStyle {
    /// Switches to the style of a cell. Always resets first: styles are short, and switching
    /// attributes off one by one is error-prone.
    pub fn change(&mut self, cell: &Cell, out: &mut Vec<u8>) {
        let wanted = Self { fg: cell.fg, bg: cell.bg, modifier: cell.modifier };
        if *self == wanted {
            return;
        }
        out.extend_from_slice(wanted.sequence().as_bytes());
        *self = wanted;
    }

    pub fn end(&mut self, out: &mut Vec<u8>) {
        if *self != Self::default() {
            out.extend_from_slice(b"\x1b[0m");
            *self = Self::default();
        }
    }

    fn sequence(&self) -> String {
        const MODIFIERS: [(Modifier, &str); 9] = [
            (Modifier::BOLD, ";1"),
            (Modifier::DIM, ";2"),
            (Modifier::ITALIC, ";3"),
            (Modifier::UNDERLINED, ";4"),
            (Modifier::SLOW_BLINK, ";5"),
            (Modifier::RAPID_BLINK, ";6"),
            (Modifier::REVERSED, ";7"),
            (Modifier::HIDDEN, ";8"),
            (Modifier::CROSSED_OUT, ";9"),
        ];
        let mut text = "\x1b[0".to_owned();
        for (modifier, code) in MODIFIERS {
            if self.modifier.contains(modifier) {
                text.push_str(code);
            }
        }
        color(&mut text, self.fg, 30);
        color(&mut text, self.bg, 40);
        text.push('m');
        text
    }
}

/// `base` is 30 for the foreground and 40 for the background.
fn color(text: &mut String, color: Color, base: u8) {
    let plain = |number: u8| match number {
        0..=7 => base + number,
        _ => base + 52 + number,
    };
    let code = match color {
        Color::Reset => return,
        Color::Black => plain(0),
        Color::Red => plain(1),
        Color::Green => plain(2),
        Color::Yellow => plain(3),
        Color::Blue => plain(4),
        Color::Magenta => plain(5),
        Color::Cyan => plain(6),
        Color::Gray => plain(7),
        Color::DarkGray => plain(8),
        Color::LightRed => plain(9),
        Color::LightGreen => plain(10),
        Color::LightYellow => plain(11),
        Color::LightBlue => plain(12),
        Color::LightMagenta => plain(13),
        Color::LightCyan => plain(14),
        Color::White => plain(15),
        Color::Indexed(number) => {
            // Writing to a String cannot fail.
            let _ = write!(text, ";{};5;{number}", base + 8);
            return;
        }
        Color::Rgb(red, green, blue) => {
            let _ = write!(text, ";{};2;{red};{green};{blue}", base + 8);
            return;
        }
    };
    let _ = write!(text, ";{code}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    #[test]
    fn styles_are_said_as_terminals_understand_them() {
        let plain = Style::new();
        let cases = [
            (plain, ""),
            (plain.fg(Color::Red), "\x1b[0;31m"),
            (plain.bg(Color::DarkGray), "\x1b[0;100m"),
            (plain.fg(Color::White).add_modifier(Modifier::BOLD), "\x1b[0;1;97m"),
            (plain.bg(Color::Indexed(22)), "\x1b[0;48;5;22m"),
            (plain.fg(Color::Rgb(1, 2, 3)), "\x1b[0;38;2;1;2;3m"),
        ];
        for (style, wanted) in cases {
            let mut cell = Cell::EMPTY;
            cell.set_style(style);
            let (mut out, mut written) = (Vec::new(), CurrentStyle::default());
            written.change(&cell, &mut out);
            written.change(&cell, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
