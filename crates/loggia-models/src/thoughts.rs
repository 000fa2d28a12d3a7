//! Finds the subject of a thought: models begin a summary of their reasoning with a line `**Subject**`.
//! Text is held back only while it may still be such a line.

use crate::request::Delta;

/// Bytes of the longest subject.
const SUBJECT_LIMIT: usize = 200;
const MARK: &str = "**";

#[derive(Debug, Default)]
pub struct Thoughts {
    subject: String,
    /// The beginning, until it is known whether it is a subject.
    held: String,
    /// Text was passed on.
    begun: bool,
}

impl Thoughts {
    pub fn push(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if self.begun {
            return self.emit(text, deltas);
        }
        self.held.push_str(text);
        if !self.subject.is_empty() {
            return self.flush(deltas);
        }
        match subject_of(&self.held) {
            Line::Unfinished => {}
            Line::Other => self.flush(deltas),
            Line::Subject(subject, rest) => {
                (self.subject, self.held) = (subject.to_owned(), rest.to_owned());
                self.flush(deltas);
            }
        }
    }

    /// Emits held text: the thought is over, or its subject is known.
    pub fn flush(&mut self, deltas: &mut Vec<Delta>) {
        let held = std::mem::take(&mut self.held);
        // Empty lines stand between the subject and the text.
        let text = if self.subject.is_empty() { &held } else { held.trim_start_matches('\n') };
        self.begun |= !text.is_empty();
        self.emit(text, deltas);
    }

    fn emit(&self, text: &str, deltas: &mut Vec<Delta>) {
        if !text.is_empty() {
            let text = text.to_owned();
            deltas.push(Delta::Thought { subject: self.subject.clone(), text });
        }
    }
}

enum Line<'a> {
    Unfinished,
    Other,
    /// The subject, and the text behind its line.
    Subject(&'a str, &'a str),
}

fn subject_of(text: &str) -> Line<'_> {
    let Some(inner) = text.strip_prefix(MARK) else {
        return if MARK.starts_with(text) { Line::Unfinished } else { Line::Other };
    };
    match (inner.split_once('\n'), text.len() > SUBJECT_LIMIT) {
        (Some((line, rest)), _) => match line.trim_end().strip_suffix(MARK) {
            Some(subject) if !subject.is_empty() && !subject.contains(MARK) => {
                Line::Subject(subject, rest)
            }
            _ => Line::Other,
        },
        (None, true) => Line::Other,
        (None, false) => Line::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bold_first_line_is_the_subject_of_all_that_follows() {
        let check = |pieces: &[&str], wanted: &[(&str, &str)]| {
            let (mut thoughts, mut deltas) = (Thoughts::default(), Vec::new());
            pieces.iter().for_each(|piece| thoughts.push(piece, &mut deltas));
            thoughts.flush(&mut deltas);
            let wanted: Vec<Delta> = wanted
                .iter()
                .map(|(subject, text)| Delta::Thought {
                    subject: (*subject).to_owned(),
                    text: (*text).to_owned(),
                })
                .collect();
            assert_eq!(deltas, wanted, "{pieces:?}");
        };
        check(&["Let me", " look."], &[("", "Let me"), ("", " look.")]);
        check(&["*", "*Plan", "**\n", "\nFirst", " x"], &[("Plan", "First"), ("Plan", " x")]);
        check(&["**Plan**\n\nFirst"], &[("Plan", "First")]);
        check(&["**bold** word\n"], &[("", "**bold** word\n")]);
        check(&["**never", " closed"], &[("", "**never closed")]);
        check(&["*", " item"], &[("", "* item")]);
        check(&[""], &[]);
    }
}
