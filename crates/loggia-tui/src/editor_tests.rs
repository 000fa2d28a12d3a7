use super::*;

fn edited(steps: impl FnOnce(&mut Editor)) -> String {
    let mut editor = Editor::default();
    steps(&mut editor);
    let (before, after) = editor.raw().split_at(editor.cursor());
    format!("{before}|{after}")
}

#[test]
fn the_cursor_moves_by_graphemes_words_and_lines() {
    type Case<'a> = (&'a str, &'a [Motion], &'a str);
    let cases: &[Case<'_>] = &[
        ("héllo", &[Motion::Left, Motion::Left], "hél|lo"),
        ("a👩‍💻b", &[Motion::Left, Motion::Left], "a|👩‍💻b"),
        ("e\u{301}x", &[Motion::Left, Motion::Left], "|e\u{301}x"),
        ("one two  three", &[Motion::WordLeft], "one two  |three"),
        ("one two  ", &[Motion::WordLeft], "one |two  "),
        ("cargo test --all", &[Motion::WordLeft, Motion::WordLeft], "cargo test -|-all"),
        ("a b", &[Motion::Start, Motion::WordRight], "a| b"),
        ("a b", &[Motion::Start, Motion::WordRight, Motion::WordRight], "a b|"),
        ("one\ntwo", &[Motion::LineStart], "one\n|two"),
        ("one\ntwo", &[Motion::Start, Motion::LineEnd], "one|\ntwo"),
        ("", &[Motion::Left, Motion::WordLeft, Motion::LineEnd], "|"),
    ];
    for (text, motions, wanted) in cases {
        let found = edited(|editor| {
            editor.insert(text);
            motions.iter().for_each(|motion| editor.go(*motion));
        });
        assert_eq!(found, *wanted, "{text:?} {motions:?}");
    }
}

#[test]
fn cut_text_can_be_inserted_and_undone() {
    let mut editor = Editor::with_text("one two three");
    editor.delete(Motion::WordLeft);
    editor.go(Motion::Start);
    editor.yank();
    assert_eq!(editor.text(), "threeone two ");
    editor.undo();
    assert_eq!(editor.text(), "one two ");
    editor.undo();
    assert_eq!(editor.text(), "one two three");
}

#[test]
fn control_characters_do_not_get_in() {
    assert_eq!(edited(|editor| editor.insert("a\u{1b}[2J\r\nb\u{7}\tc\rd")), "a[2J\nb\tc\nd|");
}

#[test]
fn rows_break_where_the_width_ends() {
    type Case<'a> = (&'a str, u16, &'a [&'a str], (u16, u16));
    let cases: &[Case<'_>] = &[
        ("", 10, &[""], (0, 0)),
        ("abcdef", 4, &["abcd", "ef"], (2, 1)),
        // After a full row the cursor is at the start of the next.
        ("abcd", 4, &["abcd", ""], (0, 1)),
        ("ab\ncd", 4, &["ab", "cd"], (2, 1)),
        // A wide character is not split at the edge.
        ("abc漢字", 4, &["abc", "漢字", ""], (0, 2)),
        ("👩‍💻👩‍💻", 3, &["👩‍💻", "👩‍💻"], (2, 1)),
        ("a\u{202e}b", 20, &["a\\u{202e}b"], (10, 0)),
        ("漢", 1, &["漢", ""], (0, 1)),
    ];
    for (text, width, rows, cursor) in cases {
        let layout = Editor::with_text(text).layout(*width);
        assert_eq!(
            (layout.rows, layout.cursor),
            (rows.iter().map(|row| (*row).to_owned()).collect(), *cursor),
            "{text:?}"
        );
    }
}

#[test]
fn up_and_down_keep_the_column() {
    let mut editor = Editor::with_text("abcdef\nx\nabcdef");
    let mut places = Vec::new();
    for down in [false, false, false, true, true, true] {
        let moved = editor.go_row(80, down);
        places.push((moved, editor.layout(80).cursor));
    }
    let wanted = [
        (true, (1, 1)),
        (true, (1, 0)),
        (false, (1, 0)),
        (true, (1, 1)),
        (true, (1, 2)),
        (false, (1, 2)),
    ];
    assert_eq!(places, wanted);
}

#[test]
fn a_folded_paste_is_one_character_that_means_many() {
    let mut editor = Editor::default();
    let long = "line\n".repeat(30);
    editor.insert("see ");
    assert!(editor.insert_chip(&long));
    editor.insert(" ok");
    assert_eq!(editor.layout(80).rows, ["see [pasted 30 lines] ok"]);
    assert_eq!(editor.text(), format!("see {long} ok"));
    (0..4).for_each(|_| editor.delete(Motion::Left));
    assert_eq!(editor.text(), "see ");
    editor.undo();
    assert_eq!(editor.text(), format!("see {long}"));
}
