//! A screen as an SVG image, with identical bytes for identical cells.

use std::fmt::Write;

use vt100::Color;

use crate::snapshots::{Cell, Look};

const COLUMN: f32 = 8.4;
const ROW: u16 = 18;
const MARGIN: u16 = 14;
const BAR: u16 = 30;
const LETTERS: &str = "#d8dee9";
const BEHIND: &str = "#16181d";

/// The sixteen colours of most terminals with a dark background.
const SIXTEEN: [&str; 16] = [
    "#20242c", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
    "#6b7280", "#f47983", "#b5e890", "#f5d08b", "#82c7ff", "#d89cf0", "#7fdbe6", "#ffffff",
];

fn color(color: Color, otherwise: &str) -> String {
    match color {
        Color::Default => otherwise.to_owned(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        Color::Idx(number @ 0..16) => SIXTEEN[usize::from(number)].to_owned(),
        // The colour cube and the greys.
        Color::Idx(number @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let (red, green, blue) = ((number - 16) / 36, (number - 16) / 6 % 6, (number - 16) % 6);
            format!("#{:02x}{:02x}{:02x}", level(red), level(green), level(blue))
        }
        Color::Idx(number) => {
            let grey = 8 + 10 * (number - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
    }
}

fn colors(look: Look) -> (String, String) {
    let (letters, behind) = (color(look.letters, LETTERS), color(look.behind, BEHIND));
    if look.reversed { (behind, letters) } else { (letters, behind) }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The window: a title bar, and the rows up to the last non-empty one.
pub fn draw(rows: &[Vec<Cell>]) -> String {
    let blank = |row: &Vec<Cell>| row.iter().all(|cell| cell.text.trim().is_empty());
    let used = rows.iter().rposition(|row| !blank(row)).map_or(1, |last| last + 1);
    let columns = u16::try_from(rows.first().map_or(0, Vec::len)).unwrap();
    let width = f32::from(columns) * COLUMN + 2.0 * f32::from(MARGIN);
    let height = u16::try_from(used).unwrap() * ROW + 2 * MARGIN + BAR;
    let mut svg = String::new();
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" \
         viewBox=\"0 0 {width:.0} {height}\" font-family=\"ui-monospace, 'JetBrains Mono', \
         'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{BEHIND}\"/>"
    )
    .unwrap();
    for (place, fill) in [(0, "#ff5f57"), (1, "#febc2e"), (2, "#28c840")] {
        let x = MARGIN + 8 + place * 20;
        writeln!(svg, "<circle cx=\"{x}\" cy=\"18\" r=\"6\" fill=\"{fill}\"/>").unwrap();
    }
    for (number, row) in rows.iter().take(used).enumerate() {
        let top = BAR + MARGIN + u16::try_from(number).unwrap() * ROW;
        let mut column = 0;
        for piece in row.chunk_by(|one, next| one.look == next.look) {
            draw_piece(&mut svg, piece, column, top);
            column += piece.len();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn place(column: usize) -> f32 {
    f32::from(MARGIN) + f32::from(u16::try_from(column).unwrap()) * COLUMN
}

fn draw_piece(svg: &mut String, piece: &[Cell], column: usize, top: u16) {
    let look = piece[0].look;
    let (letters, behind) = colors(look);
    if behind != BEHIND {
        let width = place(piece.len()) - place(0);
        let x = place(column);
        writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{ROW}\" fill=\"{behind}\"/>"
        )
        .unwrap();
    }
    let mut style = format!("fill=\"{letters}\"");
    for (set, attribute) in [
        (look.bold, " font-weight=\"bold\""),
        (look.dim, " opacity=\"0.6\""),
        (look.italic, " font-style=\"italic\""),
        (look.underline, " text-decoration=\"underline\""),
    ] {
        if set {
            style.push_str(attribute);
        }
    }
    // Word by word, so that every word is in its column in any font.
    let mut at = 0;
    for word in piece.chunk_by(|one, next| (one.text == " ") == (next.text == " ")) {
        if word[0].text != " " {
            let text: String = word.iter().map(|cell| escaped(&cell.text)).collect();
            let (x, y) = (place(column + at), top + 13);
            let length = place(word.len()) - place(0);
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y}\" textLength=\"{length:.1}\" {style}>{text}</text>"
            )
            .unwrap();
        }
        at += word.len();
    }
}
