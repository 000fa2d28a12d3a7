//! Any Markdown at any width: every line fits and is safe, and text in two pieces looks the same as in one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loggia_testkit::terminal::is_safe;
use loggia_tui::highlight::Highlighter;
use loggia_tui::markdown::{StreamingMarkdown, render};
use loggia_tui::theme::{Background, Depth, Theme};
use loggia_tui::wrap::spans_width;

fuzz_target!(|input: (u8, u8, &str)| {
    let (width, cut, text) = input;
    let width = usize::from(width).clamp(1, 200);
    let theme = Theme::new(Depth::Indexed, Background::Dark);
    let whole = render(text, width, &theme, Highlighter::waiting());
    for line in &whole {
        assert!(spans_width(&line.spans) <= width, "{line:?}");
        assert!(line.spans.iter().all(|span| is_safe(&span.content)), "{line:?}");
    }
    let (first, rest) = text.split_at(text.floor_char_boundary(usize::from(cut)));
    let mut pieces = StreamingMarkdown::new(width, theme, Highlighter::waiting());
    pieces.push(first);
    pieces.tail();
    pieces.push(rest);
    assert_eq!(pieces.finish(), whole);
});
