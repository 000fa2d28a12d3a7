#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;

use super::{ReplaceError, apply_replace};

fn check(old: &str, from: &str, to: &str, expected: usize, new: Result<&str, ReplaceError>) {
    assert_eq!(apply_replace(old, from, to, expected), new.map(str::to_owned), "{old:?}");
}

#[test]
fn replaces_a_text_that_occurs_as_often_as_expected() {
    check("a b a", "b", "c", 1, Ok("a c a"));
    check("a b a", "a", "c", 2, Ok("c b c"));
    check("a b a", "a", "c", 1, Err(ReplaceError::Count { found: 2, expected: 1 }));
    check("a b a", "x", "c", 1, Err(ReplaceError::Count { found: 0, expected: 1 }));
    check("aaa", "aa", "b", 1, Ok("ba"));
    check("ab", "ab", "", 1, Ok(""));
}

#[test]
fn refuses_invalid_arguments() {
    check("a", "", "b", 1, Err(ReplaceError::Empty));
    check("a", "a", "b", 0, Err(ReplaceError::NoneExpected));
    check("a", "a", "a", 1, Err(ReplaceError::Same));
}

#[test]
fn a_result_that_is_too_large_is_refused() {
    let (old, new) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
    let bytes = 1 << 40;
    check(&old, "a", &new, 1 << 20, Err(ReplaceError::TooLarge { bytes }));
}

#[test]
fn the_error_names_the_number_of_occurrences() {
    let error = apply_replace("a a a", "a", "b", 1).unwrap_err().to_string();
    assert!(error.contains("found 3 times, expected once:"), "{error}");
    assert!(error.contains("set expected_replacements to 3"), "{error}");
}

#[test]
fn the_file_keeps_its_line_endings() {
    check("a\r\nb\r\nc\r\n", "a\nb", "x\ny", 1, Ok("x\r\ny\r\nc\r\n"));
    check("a\r\nb\r\nc\r\n", "b", "x\ny", 1, Ok("a\r\nx\r\ny\r\nc\r\n"));
    check("a\r\nb\r\n", "a\r\nb", "x\r\ny", 1, Ok("x\r\ny\r\n"));
    check("a\nb\n", "a\r\nb", "x\r\ny", 1, Ok("x\ny\n"));
    check("a\nb", "b", "x\r\ny", 1, Ok("a\nx\r\ny"));
    check("a\r\nb\nc\r\n", "a\nb", "x", 1, Ok("x\nc\r\n"));
    check("a\r\nb\nc", "b\nc", "x", 1, Ok("a\r\nx"));
    check("a\r\nb", "b", "b\n", 1, Ok("a\r\nb\r\n"));
    check("a\r\nb\r\n", "\nb", "\nc", 1, Ok("a\r\nc\r\n"));
    check("a\r\nb\nc", "\nb", "\nx", 1, Ok("a\r\nx\nc"));
}

#[test]
fn the_byte_order_mark_stays() {
    check("\u{feff}a\r\nb\r\n", "a\n", "c\n", 1, Ok("\u{feff}c\r\nb\r\n"));
    check("\u{feff}a", "a", "", 1, Ok("\u{feff}"));
}

/// A text of few letters, so that spans repeat, with any line endings.
fn file() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[abé]{0,4}",
        1 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\r".to_owned()),
    ];
    (any::<bool>(), proptest::collection::vec(piece, 0..40)).prop_map(|(mark, pieces)| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{}", pieces.concat())
    })
}

fn forms(text: &str) -> [String; 3] {
    let lf = text.replace("\r\n", "\n");
    [text.to_owned(), lf.replace('\n', "\r\n"), lf]
}

proptest! {
    /// The bytes before and after a single replacement do not change.
    #[test]
    fn bytes_outside_the_span_are_unchanged(
        old in file(),
        start in any::<prop::sample::Index>(),
        length in 1_usize..12,
        as_lf in any::<bool>(),
        new_string in "[xy]{0,3}(\n|\r\n)?[xy]{0,3}",
    ) {
        let characters: Vec<char> = old.chars().collect();
        prop_assume!(!characters.is_empty());
        let start = start.index(characters.len());
        let span: String = characters.iter().skip(start).take(length).collect();
        let old_string = if as_lf { span.replace("\r\n", "\n") } else { span };
        if let Ok(new) = apply_replace(&old, &old_string, &new_string, 1) {
            let explained = forms(&old_string).iter().any(|from| {
                old.match_indices(from.as_str()).any(|(at, _)| {
                    let (before, rest) = old.split_at(at);
                    let after = rest.strip_prefix(from.as_str()).unwrap();
                    forms(&new_string).iter().any(|to| new == format!("{before}{to}{after}"))
                })
            });
            prop_assert!(explained, "{old:?} {old_string:?} {new_string:?} -> {new:?}");
        }
    }

    /// An existing span is found, and only its occurrences change.
    #[test]
    fn every_occurrence_is_replaced(old in file(), start in any::<prop::sample::Index>(), length in 1_usize..6) {
        let characters: Vec<char> = old.chars().collect();
        prop_assume!(!characters.is_empty());
        let start = start.index(characters.len());
        let span: String = characters.iter().skip(start).take(length).collect();
        // A span must not begin or end inside a line ending.
        prop_assume!(!span.starts_with('\n') && !span.ends_with('\r'));
        let count = old.matches(span.as_str()).count();
        let parts: Vec<&str> = old.split(span.as_str()).collect();
        prop_assert_eq!(apply_replace(&old, &span, "Z", count), Ok(parts.join("Z")));
    }
}
