use loggia_testkit::terminal::is_safe;
use proptest::prelude::*;

use super::*;
use crate::highlight::Highlighter;
use crate::safe::tests::nasty;
use crate::theme::{Background, Depth, Theme};
use crate::wrap::spans_width;

fn diff(old: Option<&str>, new: &str) -> Diff {
    Diff::of(&FileDiff::between("src/main.rs", "/w/src/main.rs", old, new))
}

fn plain(diff: &Diff, width: usize) -> Vec<String> {
    let theme = Theme::plain();
    let look = DiffOptions { width, theme: &theme, highlighter: Highlighter::waiting() };
    diff.lines(&look).iter().map(|line| line.to_string().trim_end().to_owned()).collect()
}

#[test]
fn a_changed_line() {
    let diff = diff(Some("fn main() {\n    old();\n}\n"), "fn main() {\n    new();\n}\n");
    assert_eq!((diff.added, diff.removed), (1, 1));
    assert_eq!(
        plain(&diff, 80),
        ["1 1   fn main() {", "2   -     old();", "  2 +     new();", "3 3   }",]
    );
    assert_eq!(plain(&diff, 40)[1], "2 -     old();");
    assert_eq!(plain(&diff, 20)[1], "-     old();");
    let theme = Theme::plain();
    let look = DiffOptions { width: 80, theme: &theme, highlighter: Highlighter::waiting() };
    assert_eq!(diff.header(&look).to_string(), "src/main.rs +1 −1");
}

#[test]
fn a_new_file_and_an_emptied_one() {
    let new = diff(None, "a\nb");
    assert_eq!(plain(&new, 80), ["  1 + a", "  2 + b", "      \\ no line break at the end",]);
    let theme = Theme::plain();
    let look = DiffOptions { width: 80, theme: &theme, highlighter: Highlighter::waiting() };
    assert_eq!(new.header(&look).to_string(), "src/main.rs +2 −0 new file");
    assert_eq!(plain(&diff(Some("a\n"), ""), 80), ["1   - a"]);
    assert_eq!(plain(&diff(Some("a\n"), "a\n"), 80), ["no change"]);
}

#[test]
fn long_unchanged_runs_are_folded() {
    let old: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    let new = old.replace("line 3\n", "LINE 3\n").replace("line 25\n", "");
    let lines = plain(&diff(Some(&old), &new), 80);
    assert!(lines.contains(&"⋯ 15 unchanged lines".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"25    - line 25".to_owned()), "{lines:#?}");
}

#[test]
fn side_by_side_where_there_is_room() {
    let diff = diff(Some("a\nb\nc\n"), "a\nB\nB2\nc\n");
    let lines = plain(&diff, 120);
    assert_eq!(lines.len(), 4);
    assert!(lines[1].starts_with("2 - b ") && lines[1].ends_with("│ 2 + B"), "{}", lines[1]);
    assert!(lines[2].trim_start().starts_with("│ 3 + B2"), "{}", lines[2]);
    assert_eq!(lines[3].matches('c').count(), 2);
}

#[test]
fn changed_words_are_marked() {
    let theme = Theme::new(Depth::Indexed, Background::Dark);
    let look = DiffOptions { width: 80, theme: &theme, highlighter: Highlighter::waiting() };
    let diff = diff(Some("let total = count + 1;\n"), "let total = count + 20;\n");
    let lines = diff.lines(&look);
    let marked = |line: &ratatui::text::Line<'static>, style: ratatui::style::Style| -> String {
        let spans = line.spans.iter().filter(|span| span.style.bg == style.bg);
        spans.map(|span| span.content.as_ref()).collect()
    };
    assert_eq!(marked(&lines[0], theme.removed_word), "1");
    assert_eq!(marked(&lines[1], theme.added_word), "20");
    assert!(marked(&lines[1], theme.added_line).starts_with("let total"));
    let unlike = super::words("completely different", "nothing in here is alike");
    assert_eq!(unlike, (vec![], vec![]));
}

#[test]
fn line_ends_that_change_are_seen() {
    assert_eq!(plain(&diff(Some("a\r\n"), "a\n"), 80), ["1   - a␍", "  1 + a"]);
    assert_eq!(
        plain(&diff(Some("a\r\nb\r\n"), "a\r\nc\r\n"), 80),
        ["1 1   a", "2   - b", "  2 + c",]
    );
}

#[test]
fn a_huge_change_is_bounded_and_says_so() {
    let old: String = (0..60_000).map(|line| format!("old {line}\n")).collect();
    let new: String = (0..60_000).map(|line| format!("new {line}\n")).collect();
    let diff = diff(Some(&old), &new);
    let lines = plain(&diff, 80);
    assert_eq!(lines.last().unwrap(), "… 100000 more changed lines are not shown");
    assert_eq!((diff.added, diff.removed), (60_000, 60_000));
}

proptest! {
    #[test]
    fn every_line_fits_and_is_safe(old in prop::option::of(nasty()), new in nasty(), width in 1usize..160) {
        let theme = Theme::default();
        let look = DiffOptions { width, theme: &theme, highlighter: Highlighter::waiting() };
        let diff = diff(old.as_deref(), &new);
        let lines = diff.lines(&look);
        for line in lines.iter().chain([&diff.header(&look)]) {
            prop_assert!(spans_width(&line.spans) <= width, "{line:?}");
            prop_assert!(line.spans.iter().all(|span| is_safe(&span.content)), "{line:?}");
        }
    }

    #[test]
    fn the_rows_tell_both_files(
        old in prop::collection::vec("[ab]", 0..12),
        new in prop::collection::vec("[ab]", 0..12),
    ) {
        let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let diff = diff(Some(&text(&old)), &text(&new));
        let rows: Vec<&DiffRow> = diff.hunks.iter().flat_map(|hunk| &hunk.rows).collect();
        let (mut old_left, mut new_left) = (old.clone(), new.clone());
        for row in rows.iter().rev() {
            if row.side != Side::Added {
                prop_assert_eq!(&old_left.remove(row.old - 1), &row.text);
            }
            if row.side != Side::Removed {
                prop_assert_eq!(&new_left.remove(row.new - 1), &row.text);
            }
        }
        // Hidden lines are unchanged.
        prop_assert_eq!(old_left, new_left);
    }
}
