use loggia_testkit::terminal::is_safe;
use proptest::prelude::*;

use super::*;

/// Generates texts that consist mostly of problematic characters.
pub fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,8}".prop_map(String::from),
        2 => any::<char>().prop_map(String::from),
        2 => (0u32..0x20).prop_map(|code| char::from_u32(code).unwrap().to_string()),
        1 => (0x7fu32..0xa0).prop_map(|code| char::from_u32(code).unwrap().to_string()),
        1 => "\u{1b}\\[[0-9;:?]{0,6}[@-~]".prop_map(String::from),
        1 => "\u{1b}[\\]P_^X][a-z0-9;]{0,6}(\u{7}|\u{1b}\\\\|)".prop_map(String::from),
        1 => prop::sample::select(vec![
            "\u{202e}", "\u{200b}", "\u{2066}", "\u{feff}", "漢字", "👩‍💻", "🇩🇪", "e\u{301}", "\t", "\r\n",
            "\u{fe0f}", "\u{200d}", "1\u{fe0f}\u{20e3}", "ｶﾞ", "\u{e0041}", "\u{2028}",
        ]).prop_map(String::from),
        1 => prop::collection::vec(any::<u8>(), 0..8)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_that_a_terminal_obeys_passes(text in nasty()) {
        for line in printable(&text).split('\n') {
            prop_assert!(is_safe(line), "{line:?}");
        }
        prop_assert!(is_safe(&one_line(&text)));
    }

    #[test]
    fn output_has_no_sequence_left(text in nasty(), colors: bool) {
        for line in output(&text, Style::new(), colors) {
            for span in &line.spans {
                prop_assert!(is_safe(&span.content), "{:?}", span.content);
            }
        }
    }

    #[test]
    fn output_without_controls_keeps_every_line(lines in prop::collection::vec("[a-zäß漢 ]{0,9}", 1..9)) {
        let text = lines.join("\n");
        let shown: Vec<String> = output(&format!("{text}\n\u{1b}[0m"), Style::new(), true)
            .iter().map(ToString::to_string).collect();
        prop_assert_eq!(&shown[..lines.len()], &lines[..]);
    }
}

fn shown(text: &str) -> Vec<String> {
    output(text, Style::new(), true).iter().map(ToString::to_string).collect()
}

#[test]
fn invisible_characters_are_escaped() {
    let cases = [
        ("a\u{1b}[31mb", "a\\u{1b}[31mb"),
        ("a\u{202e}b", "a\\u{202e}b"),
        ("a\u{9b}31m", "a\\u{9b}31m"),
        ("\u{0}\u{7f}", "\\u{0}\\u{7f}"),
        ("a\tb", "a   b"),
        ("漢\tb", "漢  b"),
        ("👩‍💻 1️⃣ ⚠️", "👩‍💻 1️⃣ ⚠️"),
        ("a\u{200d}b", "a\\u{200d}b"),
        ("a\r\nb", "a\\u{d}\nb"),
    ];
    for (text, wanted) in cases {
        assert_eq!(printable(text), wanted, "{text:?}");
    }
    assert_eq!(one_line("a\nb\tc"), "a↵b c");
}

#[test]
fn marks_do_not_pile_up() {
    let text = format!("a{}b", "\u{301}".repeat(1_000));
    assert!(printable(&text).chars().count() < 12);
}

#[test]
fn output_is_read_as_a_terminal_reads_it() {
    let cases: &[(&str, &[&str])] = &[
        ("a\nb\n", &["a", "b"]),
        ("a\r\nb\r\n", &["a", "b"]),
        ("10%\r20%\r100%\ndone", &["100%", "done"]),
        ("100%\r9", &["900%"]),
        ("abc\u{8}\u{8}X", &["aXc"]),
        ("\u{1b}[31mred\u{1b}[0m plain", &["red plain"]),
        ("\u{1b}]0;title\u{7}text", &["text"]),
        ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", &["link"]),
        ("\u{1b}]0;never ended\nnext", &["", "next"]),
        ("\u{1b}[2J\u{1b}[Hx", &["x"]),
        ("progress\r\u{1b}[Kdone", &["done"]),
        ("a\nb\n\u{1b}[2Ax\u{1b}[2By", &["x", "b", " y"]),
        ("漢字\rab", &["ab字"]),
        ("漢字\ra", &["a 字"]),
        ("a\u{1b}[10Gb", &["a        b"]),
        ("\u{1b}", &[""]),
        ("\u{1b}[", &[""]),
        ("\u{1b}(Bx", &["x"]),
        ("a\tb\u{7}", &["a       b"]),
        ("a\u{202e}\rb", &["b\\u{202e}"]),
        ("", &[""]),
    ];
    for (text, wanted) in cases {
        assert_eq!(
            shown(text).iter().map(|line| line.trim_end()).collect::<Vec<_>>(),
            *wanted,
            "{text:?}"
        );
    }
}

#[test]
fn colours_of_output_become_styles() {
    use ratatui::style::{Color, Modifier};
    let lines = output("\u{1b}[1;32mok\u{1b}[22m x\u{1b}[38;5;200my\u{1b}[mz", Style::new(), true);
    let spans: Vec<_> =
        lines[0].spans.iter().map(|span| (span.content.as_ref(), span.style)).collect();
    let green = Style::new().fg(Color::Green);
    assert_eq!(spans[0], ("ok", green.add_modifier(Modifier::BOLD)));
    assert_eq!(spans[1].1.fg, Some(Color::Green));
    assert_eq!(spans[2], ("y", spans[1].1.fg(Color::Indexed(200))));
    assert_eq!(spans[3], ("z", Style::new()));
    let hidden = output("\u{1b}[31;41mhidden", Style::new(), true);
    assert_eq!(hidden[0].spans[0].style, Style::new().fg(Color::Red));
    let plain = output("\u{1b}[31mx", Style::new(), false);
    assert_eq!(plain[0].spans[0].style, Style::new());
}

#[test]
fn movements_cannot_fill_the_memory() {
    let text = "\u{1b}[400Gx\n".repeat(2_000);
    let columns: usize = shown(&text).iter().map(String::len).sum();
    assert!(columns < 80_000, "{columns}");
}
