use std::num::NonZero;

use super::*;

fn some(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

/// An emulated terminal with its scrollback.
struct Screen {
    inline: Inline,
    parser: vt100::Parser,
    written: Vec<u8>,
}

impl Screen {
    fn new(width: u16, height: u16, before: &str) -> Self {
        let mut parser = vt100::Parser::new(some(height), some(width), 1000);
        parser.process(before.as_bytes());
        let top = parser.screen().cursor_position().0;
        Self { inline: Inline::new((width, height), Some(top)), parser, written: Vec::new() }
    }

    fn draw(&mut self, finished: &[&str], drawn: &[&str], cursor: Option<(u16, u16)>) {
        let lines = |texts: &[&str]| -> Vec<Line<'static>> {
            texts.iter().map(|text| Line::from((*text).to_owned())).collect()
        };
        let frame = Frame::new(lines(drawn), cursor);
        self.inline.draw(&lines(finished), &frame);
        self.flush();
    }

    fn flush(&mut self) {
        let bytes = self.inline.take();
        self.parser.process(&bytes);
        self.written.extend(bytes);
    }

    fn resize(&mut self, width: u16, height: u16) {
        self.parser.screen_mut().set_size(some(height), some(width));
        self.inline.resized((width, height), false);
        self.flush();
    }

    fn shown(&self) -> String {
        self.parser.screen().contents()
    }

    /// Scrollback and screen.
    fn all(&mut self) -> Vec<String> {
        let screen = self.parser.screen_mut();
        screen.set_scrollback(usize::MAX);
        let hidden = screen.scrollback();
        let mut rows: Vec<String> = Vec::new();
        for back in (1..=hidden).rev() {
            screen.set_scrollback(back);
            let width = screen.size().1.get();
            rows.extend(screen.rows(0, width).take(1));
        }
        screen.set_scrollback(0);
        rows.extend(screen.contents().lines().map(str::to_owned));
        rows
    }
}

#[test]
fn the_picture_begins_where_the_shell_stopped() {
    let mut screen = Screen::new(20, 6, "$ loggia\r\n");
    screen.draw(&[], &[">>", "status"], Some((2, 0)));
    assert_eq!(screen.shown(), "$ loggia\n>>\nstatus");
    assert_eq!(screen.parser.screen().cursor_position(), (1, 2));
    assert_eq!(screen.inline.top(), Some(1));
}

#[test]
fn finished_lines_go_above_once_and_into_the_scrollback() {
    let mut screen = Screen::new(10, 5, "$ loggia\r\n");
    let mut wanted = vec!["$ loggia".to_owned()];
    for number in 0..40 {
        let line = format!("line {number}");
        screen.draw(&[&line], &[">>", "status"], Some((2, 0)));
        wanted.push(line);
    }
    wanted.extend([">>".to_owned(), "status".to_owned()]);
    assert_eq!(screen.all(), wanted);
    assert_eq!(screen.inline.top(), Some(3));
    let bytes = String::from_utf8_lossy(&screen.written).into_owned();
    assert!(!bytes.contains("\x1b[2J") && !bytes.contains("\x1b[3J"), "the screen was cleared");
}

#[test]
fn more_lines_than_the_screen_has_are_all_kept() {
    let mut screen = Screen::new(12, 4, "");
    screen.draw(&[], &["a", "b", ">>"], Some((2, 2)));
    let lines: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    screen.draw(&texts, &[">>"], Some((2, 0)));
    assert_eq!(screen.all(), [lines, vec![">>".to_owned()]].concat());
}

#[test]
fn the_picture_grows_and_shrinks_without_a_trace() {
    let mut screen = Screen::new(20, 8, "before\r\n");
    let dialog: Vec<String> = (0..6).map(|row| format!("dialog {row}")).collect();
    let dialog: Vec<&str> = dialog.iter().map(String::as_str).collect();
    screen.draw(&[], &[">>"], Some((2, 0)));
    screen.draw(&[], &dialog, None);
    assert!(screen.shown().ends_with("dialog 5"), "{}", screen.shown());
    assert!(screen.parser.screen().hide_cursor());
    screen.draw(&["done"], &[">>"], Some((2, 0)));
    assert_eq!(screen.shown(), "before\ndone\n>>");
    // At the bottom, growing scrolls the screen.
    screen.draw(&["x"; 6], &[">>"], Some((2, 0)));
    screen.draw(&[], &dialog, None);
    screen.draw(&[], &[">>"], Some((2, 0)));
    let all = screen.all();
    let wanted = ["before", "done", "x", "x", "x", "x", "x", "x", ">>"];
    assert_eq!(all, wanted);
}

#[test]
fn only_rows_that_changed_are_written() {
    let mut screen = Screen::new(80, 24, "");
    let long = "x".repeat(70);
    screen.draw(&[], &[&long, "spinner 1", ">>"], Some((2, 2)));
    screen.written.clear();
    screen.draw(&[], &[&long, "spinner 2", ">>"], Some((2, 2)));
    assert!(screen.written.len() < 40, "{:?}", String::from_utf8_lossy(&screen.written));
    assert!(screen.shown().contains("spinner 2"));
}

#[test]
fn wide_letters_and_full_rows_stay_whole() {
    let mut screen = Screen::new(6, 5, "");
    screen.draw(&["漢字漢", "abcdef", "👩‍💻 ok"], &[">>"], Some((2, 0)));
    let all = screen.all();
    assert_eq!(all.first().map(String::as_str), Some("漢字漢"));
    assert_eq!(all.get(1).map(String::as_str), Some("abcdef"));
}

/// A terminal that cuts rows, resized in every direction, with several rows.
#[test]
fn a_resize_leaves_what_is_printed_alone() {
    let mut screen = Screen::new(30, 10, "");
    screen.draw(&["one", "two"], &["live", ">>", "status"], Some((2, 1)));
    for (width, height) in [(20, 10), (40, 10), (40, 12), (10, 12)] {
        screen.resize(width, height);
        screen.draw(&[], &["live", ">>", "status"], Some((2, 1)));
        assert_eq!(screen.shown(), "one\ntwo\nlive\n>>\nstatus", "{width}x{height}");
    }
}

/// The frame is higher than the resized window: the terminal moves its upper rows to the
/// scrollback, and back when it grows.
#[test]
fn a_window_smaller_than_the_picture_leaves_no_trace_when_it_has_grown_again() {
    let dialog: Vec<String> = (0..10).map(|row| format!("dialog {row}")).collect();
    let dialog: Vec<&str> = dialog.iter().map(String::as_str).collect();
    let mut screen = Screen::new(20, 14, "before\r\n");
    screen.draw(&["one"], &dialog, None);
    let whole = ["before\none\n", &dialog.join("\n")].concat();
    for heights in [&[5, 14][..], &[5, 3, 4, 9, 14], &[9, 8, 7, 14]] {
        for height in heights {
            screen.resize(20, *height);
            screen.draw(&[], &dialog, None);
        }
        assert_eq!(screen.shown(), whole, "{heights:?}");
    }
    // Rows printed meanwhile are kept.
    screen.resize(20, 5);
    screen.draw(&["two"], &[">>"], Some((2, 0)));
    screen.resize(20, 14);
    screen.draw(&[], &[">>"], Some((2, 0)));
    assert!(screen.shown().ends_with("\ntwo\n>>"), "{}", screen.shown());
    assert!(screen.shown().starts_with("before\none\n"), "{}", screen.shown());
}

#[test]
fn any_size_is_drawn() {
    for (width, height) in [(0, 0), (1, 1), (10, 3), (3, 1), (500, 2)] {
        let mut inline = Inline::new((width, height), None);
        let lines: Vec<Line<'static>> =
            (0..20).map(|row| Line::from(format!("{row} 漢字 👩‍💻"))).collect();
        let frame = Frame::new(lines.clone(), Some((90, 19)));
        inline.draw(&lines, &frame);
        inline.resized((height, width), true);
        inline.draw(&[], &Frame::default());
    }
}
