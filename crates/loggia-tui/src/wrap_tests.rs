use proptest::prelude::*;

use super::*;

fn spans(texts: &[&str]) -> Vec<Span<'static>> {
    texts.iter().map(|text| Span::raw((*text).to_owned())).collect()
}

fn shown(lines: &[Line<'static>]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

fn words(text: &str, columns: usize) -> Vec<String> {
    shown(&wrap(&spans(&[text]), columns, &Margin::default(), Break::Words))
}

#[test]
fn words_stay_whole_where_they_can() {
    let cases: &[(&str, usize, &[&str])] = &[
        ("the quick brown fox", 10, &["the quick", "brown fox"]),
        ("the quick   brown", 9, &["the quick", "brown"]),
        ("  indented text here", 10, &["  indented", "text here"]),
        ("unbreakable", 4, &["unbr", "eaka", "ble"]),
        ("a unbreakable", 4, &["a", "unbr", "eaka", "ble"]),
        ("", 5, &[""]),
        ("漢字仮名交じり文", 5, &["漢字", "仮名", "交じ", "り文"]),
        ("これは、文。", 6, &["これ", "は、", "文。"]),
        ("ab漢字", 3, &["ab", "漢", "字"]),
        ("a b", 1, &["a", "b"]),
        ("漢a", 1, &["\u{fffd}", "a"]),
        ("👩‍💻👩‍💻", 2, &["👩‍💻", "👩‍💻"]),
        ("e\u{301}e\u{301}", 1, &["e\u{301}", "e\u{301}"]),
        ("ends with space ", 15, &["ends with space"]),
    ];
    for (text, columns, wanted) in cases {
        assert_eq!(words(text, *columns), *wanted, "{text:?} at {columns}");
    }
}

#[test]
fn margins_hang_and_give_way() {
    let margin = Margin::hanging("1. ", Style::new());
    let wrapped =
        |columns| shown(&wrap(&spans(&["one two three"]), columns, &margin, Break::Words));
    assert_eq!(wrapped(12), ["1. one two", "   three"]);
    assert_eq!(wrapped(9), ["1one two", " three"]);
    assert_eq!(wrapped(3), ["one", "two", "thr", "ee"]);
}

#[test]
fn a_cut_line_says_so() {
    let line = |columns| cut(&spans(&["a long", " title"]), columns).to_string();
    assert_eq!(line(12), "a long title");
    assert_eq!(line(8), "a long …");
    assert_eq!(line(1), "…");
    assert_eq!(line(0), "");
    assert_eq!(cut(&spans(&["漢字漢字"]), 6).to_string(), "漢字…");
}

fn text() -> impl Strategy<Value = Vec<String>> {
    let piece = "[a-z漢字ｶﾞ👩💻é ]{0,12}|👩‍💻|🇩🇪|e\u{301}";
    prop::collection::vec(
        piece.prop_map(|text: String| crate::safe::printable(&text).into_owned()),
        0..6,
    )
}

proptest! {
    #[test]
    fn no_line_is_wider_and_nothing_visible_is_lost(texts in text(), columns in 1usize..30, anywhere: bool) {
        let how = if anywhere { Break::Anywhere } else { Break::Words };
        let spans: Vec<Span<'static>> = texts.iter().map(|text| Span::raw(text.clone())).collect();
        let lines = wrap(&spans, columns, &Margin::default(), how);
        for line in &lines {
            prop_assert!(spans_width(&line.spans) <= columns, "{line:?}");
        }
        let widest = texts.iter().flat_map(|text| text.graphemes(true)).map(grapheme_width).max();
        if widest.unwrap_or_default() <= columns {
            let visible = |text: &str| text.chars().filter(|it| anywhere || *it != ' ').collect::<String>();
            let before: String = texts.concat();
            let after: String = shown(&lines).concat();
            prop_assert_eq!(visible(&before), visible(&after));
        }
    }

    #[test]
    fn measured_and_drawn_widths_agree(texts in text(), columns in 1u16..30) {
        let spans: Vec<Span<'static>> = texts.iter().map(|text| Span::raw(text.clone())).collect();
        for line in wrap(&spans, columns.into(), &Margin::default(), Break::Words) {
            let area = ratatui::layout::Rect::new(0, 0, 100, 1);
            let mut buffer = ratatui::buffer::Buffer::empty(area);
            let (end, _) = buffer.set_line(0, 0, &line, 100);
            prop_assert_eq!(usize::from(end), spans_width(&line.spans));
        }
    }

    #[test]
    fn margins_never_make_a_line_too_wide(text in "[a-z ]{0,40}", columns in 1usize..30, mark in "[>* ]{0,20}") {
        let margin = Margin::hanging(&mark, Style::new());
        for line in wrap(&[Span::raw(text)], columns, &margin, Break::Words) {
            prop_assert!(spans_width(&line.spans) <= columns);
        }
    }
}
