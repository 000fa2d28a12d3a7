//! The pure part of `replace`: text in, text out.
//!
//! Must not use the rest of this crate: the fuzz target includes this file alone.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    #[error("the field `old_string` must not be empty: write a new file with write_file")]
    Empty,
    #[error("the field `expected_replacements` must be at least 1")]
    NoneExpected,
    #[error("old_string and new_string are the same: there is nothing to change")]
    Same,
    #[error("{}", count_sentence(*found, *expected))]
    Count { found: usize, expected: usize },
    #[error("the result would have {bytes} bytes, the limit is {LARGEST}")]
    TooLarge { bytes: usize },
}

/// Checked before replacing: many small texts replaced by a large one can make a huge file.
const LARGEST: usize = 16 * 1024 * 1024;

fn count_sentence(found: usize, expected: usize) -> String {
    let times = |count| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let next = if found == 0 {
        "read the file again, spaces and line endings matter".to_owned()
    } else {
        format!("add lines around it until it is unique, or set expected_replacements to {found}")
    };
    format!("old_string was found {}, expected {}: {next}", times(found), times(expected))
}

/// `old` with every `old_string` replaced, if there are exactly `expected` of them.
///
/// Models write `\n`. If a file has `\r\n`, the texts are also tried with the file's line endings, and
/// the new text gets the file's line endings; and vice versa.
pub fn apply_replace(
    old: &str,
    old_string: &str,
    new_string: &str,
    expected: usize,
) -> Result<String, ReplaceError> {
    if old_string.is_empty() {
        return Err(ReplaceError::Empty);
    }
    if expected == 0 {
        return Err(ReplaceError::NoneExpected);
    }
    let (old_lf, new_lf) = (with_lf(old_string), with_lf(new_string));
    let as_given = (old_string.to_owned(), new_string.to_owned());
    let crlf = (old_lf.replace('\n', "\r\n"), new_lf.replace('\n', "\r\n"));
    // In a file with only `\r\n` that form comes first: a text that begins with `\n` would match
    // half a line ending.
    let forms = if ends_in_crlf(old) {
        [crlf, as_given, (old_lf, new_lf)]
    } else {
        [as_given, crlf, (old_lf, new_lf)]
    };
    for (from, to) in forms {
        let found = old.matches(from.as_str()).count();
        if found == 0 {
            continue;
        }
        if found != expected {
            return Err(ReplaceError::Count { found, expected });
        }
        let grown = found.saturating_mul(to.len()).saturating_add(old.len());
        let bytes = grown.saturating_sub(found * from.len());
        if bytes > LARGEST {
            return Err(ReplaceError::TooLarge { bytes });
        }
        let new = old.replace(from.as_str(), &to);
        return if new == old { Err(ReplaceError::Same) } else { Ok(new) };
    }
    Err(ReplaceError::Count { found: 0, expected })
}

fn with_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Whether a file has line endings and all of them are `\r\n`.
fn ends_in_crlf(file: &str) -> bool {
    let ends = file.matches('\n').count();
    ends > 0 && file.matches("\r\n").count() == ends
}

#[cfg(test)]
#[path = "replacement_tests.rs"]
mod tests;
