//! Text for people and models: bounded, and safe to put on a line.

use std::ffi::OsStr;

use crate::workspace::shown;

/// A name on disk for a list: control characters escaped, so that one name stays one line.
pub(super) fn listed(name: &OsStr) -> String {
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
pub(super) fn counted(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {what}s"),
    }
}

/// Lines that stop growing: at most so many, at most so many bytes.
pub(super) struct Lines {
    text: String,
    count: usize,
    most: usize,
    most_bytes: usize,
    /// There was more than fits.
    pub cut: bool,
}

impl Lines {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { text: String::new(), count: 0, most, most_bytes, cut: false }
    }

    /// False when there is no room.
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

    /// The lines, then a remark in brackets for each of `remarks`.
    pub(super) fn finish(mut self, remarks: &[String]) -> String {
        for remark in remarks {
            self.text.push_str(&format!("[{remark}]\n"));
        }
        self.text
    }
}

/// Length of an unfinished UTF-8 character at the end, 0 to 3: not to be shown as broken.
pub(super) fn unfinished(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        // Broken before the end: look at the end alone.
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
