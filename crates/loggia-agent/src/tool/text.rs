//! Text for people and models: bounded, and without control characters.

use std::ffi::OsStr;

use crate::workspace::shown;

/// A file name with control characters escaped, so that it stays on one line.
pub(super) fn one_line(name: &OsStr) -> String {
    let mut out = String::new();
    for character in name.to_string_lossy().chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The first line of a text, cut after 80 characters.
pub(super) fn headline(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let cut: String = first.chars().take(80).collect();
    let more = cut.len() < first.len() || lines.next().is_some();
    shown(&cut) + if more { "…" } else { "" }
}

/// `1 line`, `2 lines`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Lines with a limit on their number and on their bytes.
pub(super) struct Lines {
    text: String,
    count: usize,
    most: usize,
    most_bytes: usize,
    /// A line did not fit.
    pub cut: bool,
}

impl Lines {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { text: String::new(), count: 0, most, most_bytes, cut: false }
    }

    /// False if the line does not fit.
    pub(super) fn push(&mut self, line: &str) -> bool {
        if self.count >= self.most || self.text.len() + line.len() + 1 > self.most_bytes {
            self.cut = true;
            return false;
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.count += 1;
        true
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The lines, then each remark in brackets.
    pub(super) fn finish(mut self, remarks: &[String]) -> String {
        for remark in remarks {
            self.text.push_str(&format!("[{remark}]\n"));
        }
        self.text
    }
}

/// Length of an incomplete UTF-8 character at the end, 0 to 3.
pub(super) fn incomplete_tail(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        // Invalid before the end: check the last bytes alone.
        Err(_) => (1..=bytes.len().min(3))
            .rev()
            .find(|back| {
                let tail = bytes.get(bytes.len() - back..).unwrap_or_default();
                std::str::from_utf8(tail)
                    .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
            })
            .unwrap_or(0),
    }
}
