use loggia_testkit::terminal::is_safe;
use proptest::prelude::*;

use super::*;
use crate::safe::tests::nasty;
use crate::wrap::spans_width;

fn plain(text: &str, width: usize) -> Vec<String> {
    let lines = render(text, width, &Theme::plain(), Highlighter::waiting());
    lines.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(text: &str, width: usize, wanted: &[&str]) {
    assert_eq!(plain(text, width), wanted, "{text:?} at {width}");
}

#[test]
fn paragraphs_and_headings() {
    check("One\ntwo.\n\nThree.", 40, &["One two.", "", "Three."]);
    check("# Title\ntext\n## Sub\nmore", 40, &["# Title", "", "text", "", "## Sub", "", "more"]);
    check("Title\n===\ntext", 40, &["# Title", "", "text"]);
    check("a  \nb", 40, &["a", "b"]);
    check("a *b* **c** ~~d~~ `e`", 40, &["a b c d e"]);
    check("\n\n\n", 40, &[]);
    check("---", 10, &["──────────"]);
}

#[test]
fn lists() {
    check(
        "Steps:\n- one\n- two\n  - deep\n- three",
        40,
        &["Steps:", "• one", "• two", "  ◦ deep", "• three"],
    );
    check("1. one\n1. two\n1. three", 40, &["1. one", "2. two", "3. three"]);
    check(
        "7. seven\n8. eight\n\nthen\n\n3) new",
        40,
        &["7. seven", "8. eight", "", "then", "", "3. new"],
    );
    check("- one\n\n- two", 40, &["• one", "", "• two"]);
    check("- [ ] open\n- [x] done", 40, &["• ☐ open", "• ☑ done"]);
    check(
        "- a long item that wraps\n  and goes on",
        14,
        &["• a long item", "  that wraps", "  and goes on"],
    );
    check(
        "- one\n\n  second paragraph\n\n      code\n- two",
        40,
        &["• one", "", "  second paragraph", "", "    code", "• two"],
    );
    check("- item\n  ```sh\n  ls -l\n  ```\n- next", 40, &["• item", "", "    ls -l", "• next"]);
    check("- \n- x", 40, &["•", "• x"]);
    check("* * *", 5, &["─────"]);
}

#[test]
fn code_and_quotes() {
    check(
        "Run:\n```sh\nls -l\n\n  cat x\n```\nDone.",
        40,
        &["Run:", "  ls -l", "", "    cat x", "Done."],
    );
    check("~~~\na```b\n~~~", 40, &["  a```b"]);
    check("```\nnever closed", 40, &["  never closed"]);
    check("````\n```\n````", 40, &["  ```"]);
    check("    indented", 40, &["  indented"]);
    check("> quoted\n> text\n\nafter", 40, &["│ quoted text", "", "after"]);
    check("> a\n>\n> - b", 40, &["│ a", "│ • b"]);
    check("```\nabcdefgh\n```", 6, &["abcdef", "gh"]);
}

#[test]
fn links_show_where_they_lead() {
    check("see [docs](https://a.example/x)", 60, &["see docs (https://a.example/x)"]);
    check("<https://a.example>", 60, &["https://a.example"]);
    check("![alt](a.png)", 60, &["image: alt (a.png)"]);
    check("[a][1]\n\n[1]: https://b.example", 60, &["[a][1]", "", "[1]: https://b.example"]);
    check("<b>html</b>", 60, &["<b>html</b>"]);
    check("<div>\nx\n</div>", 60, &["<div>", "x", "</div>"]);
}

#[test]
fn tables() {
    let table = "| name | size |\n|:--|--:|\n| a.txt | 12 |\n| long name | 3 |";
    check(
        table,
        40,
        &["name      │ size", "──────────┼─────", "a.txt     │   12", "long name │    3"],
    );
    check(
        "| a | b |\n|---|---|\n| one two three | four five |",
        19,
        &["a        │ b", "─────────┼─────────", "one two  │ four", "three    │ five"],
    );
    check(table, 8, &["name:", "a.txt", "size: 12", "", "name:", "long", "name", "size: 3"]);
}

#[test]
fn sequences_in_markdown_are_written_out() {
    check("a\u{1b}[31mb `\u{1b}]0;x\u{7}`", 60, &["a\\u{1b}[31mb \\u{1b}]0;x\\u{7}"]);
    check("```\n\u{1b}[2J\n```", 60, &["  \\u{1b}[2J"]);
    check("[x](http://a\u{202e}b)", 60, &["x (http://a\\u{202e}b)"]);
    check("```\u{1b}[2J\nx\n```", 60, &["  x"]);
}

#[test]
fn finished_lines_do_not_change() {
    let mut markdown = StreamingMarkdown::new(40, Theme::plain(), Highlighter::waiting());
    let mut seen: Vec<Line<'static>> = Vec::new();
    let text = "# Head\n\nSome *text*\nover lines.\n\n- a\n- b\n\n```rust\nlet a = 1;\nlet b = 2;\n```\nend";
    for character in text.chars() {
        markdown.push(&character.to_string());
        let finished = markdown.finished();
        assert_eq!(finished.get(..seen.len()), Some(seen.as_slice()));
        seen = finished.to_vec();
        if character == '2' {
            // The first line of code is finished before the fence is closed.
            assert_eq!(seen.last().map(ToString::to_string).as_deref(), Some("  let a = 1;"));
        }
    }
    let mut lines = seen;
    lines.extend(markdown.tail());
    assert_eq!(lines, render(text, 40, &Theme::plain(), Highlighter::waiting()));
}

#[test]
fn a_block_without_an_end_costs_what_its_end_costs() {
    let mut markdown = StreamingMarkdown::new(80, Theme::plain(), Highlighter::waiting());
    for _ in 0..3_000 {
        markdown.push("word word word word word word word word word word word word word word \n");
    }
    let tail = markdown.tail().len();
    assert!(tail < 600, "{tail} lines would be looked at again with every piece");
    let mut markdown = StreamingMarkdown::new(80, Theme::plain(), Highlighter::waiting());
    markdown.push(&"x".repeat(1_000_000));
    assert!(markdown.tail().len() < 1_000);
}

#[test]
fn depth_is_bounded() {
    let lines = plain(&">".repeat(20_000), 40);
    assert!(lines.len() < 5, "{}", lines.len());
    let deep: String = (0..200).map(|level| format!("{}- x\n", "  ".repeat(level))).collect();
    assert!(plain(&deep, 20).len() >= 200);
}

/// Generates Markdown with much markup.
fn markup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "# ",
        "## ",
        "- ",
        "* ",
        "1. ",
        "2) ",
        "> ",
        "```",
        "```rust",
        "~~~",
        "\n",
        "\n\n",
        "    ",
        "  ",
        "|",
        "|---|---|\n",
        "| a | b |\n",
        "**",
        "*",
        "_",
        "`",
        "[x](y)",
        "[x]: y\n",
        "<div>",
        "---\n",
        "===\n",
        "- [ ] ",
        "word",
        "漢字",
        "let x = 1;",
        "\t",
        "~~",
        "![a](b)",
        "&amp;",
        "\\*",
        "  \n",
        "👩‍💻",
        "\r\n",
    ]);
    let text =
        prop::collection::vec(prop_oneof![8 => piece.prop_map(String::from), 1 => nasty()], 0..40);
    text.prop_map(|pieces| pieces.concat())
}

/// Splits the text at the given characters.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (characters.len() + 1)).collect();
    cuts.extend([0, characters.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| characters[pair[0]..pair[1]].iter().collect()).collect()
}

proptest! {
    #[test]
    fn the_pieces_leave_no_trace(
        text in markup(),
        cuts in prop::collection::vec(0usize..400, 0..12),
        width in 1usize..60,
    ) {
        let theme = Theme::default();
        let whole = render(&text, width, &theme, Highlighter::waiting());
        let mut markdown = StreamingMarkdown::new(width, theme, Highlighter::waiting());
        let mut taken = Vec::new();
        for piece in pieces(&text, &cuts) {
            markdown.push(&piece);
            taken.extend(markdown.take_finished());
            let mut shown = taken.clone();
            shown.extend(markdown.tail());
            for line in &shown {
                prop_assert!(spans_width(&line.spans) <= width);
            }
        }
        let mut lines = taken;
        lines.extend(markdown.finish());
        prop_assert_eq!(lines, whole);
    }

    #[test]
    fn every_line_fits_and_is_safe(text in prop_oneof![markup(), nasty()], width in 1usize..100) {
        for line in render(&text, width, &Theme::default(), Highlighter::waiting()) {
            prop_assert!(spans_width(&line.spans) <= width, "{line:?}");
            for span in &line.spans {
                prop_assert!(is_safe(&span.content), "{:?}", span.content);
            }
        }
    }

    #[test]
    fn no_word_is_lost(words in prop::collection::vec("[a-z]{1,12}", 1..30), width in 1usize..60) {
        let separators = [" ", "\n", "\n\n", "\n- ", "\n> ", "\n\n1. ", "\n# "];
        let text: String = words.iter().enumerate()
            .map(|(at, word)| format!("{word}{}", separators[(at * 7 + word.len()) % separators.len()]))
            .collect();
        let shown: String = plain(&text, width).concat().chars().filter(char::is_ascii_lowercase).collect();
        prop_assert_eq!(shown, words.concat());
    }
}
