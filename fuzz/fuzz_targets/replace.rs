//! Replacing never panics, and the result is the old text with as many replacements as expected; the rest is
//! unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Included as a file: its crate depends on SQLite, which does not start under the sanitizer.
#[path = "../../crates/loggia-agent/src/tool/edit/replacement.rs"]
mod replacement;
use replacement::apply_replace;

fn forms(text: &str) -> [String; 3] {
    let lf = text.replace("\r\n", "\n");
    [text.to_owned(), lf.replace('\n', "\r\n"), lf]
}

fuzz_target!(|input: (&str, &str, &str, u8)| {
    let (old, old_string, new_string, expected) = input;
    let Ok(new) = apply_replace(old, old_string, new_string, expected.into()) else { return };
    let explained = forms(old_string).iter().any(|from| {
        let parts: Vec<&str> = old.split(from.as_str()).collect();
        parts.len() == usize::from(expected) + 1
            && forms(new_string).iter().any(|to| parts.join(to) == new)
    });
    assert!(explained, "{old:?} {old_string:?} {new_string:?} {expected} -> {new:?}");
});
