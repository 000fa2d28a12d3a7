//! What a person calls a session: short, on one line, and nothing that a screen would obey or hide.

use std::fmt;

/// Letters of a name.
pub const LONGEST_NAME: usize = 80;

/// A name that can be shown everywhere as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionName(String);

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a session's name has at least one letter")]
    Empty,
    #[error("a session's name has at most {LONGEST_NAME} letters")]
    TooLong,
    #[error(
        "a session's name is one line of letters that can be seen: `{}` is not",
        character.escape_unicode()
    )]
    Unseen { character: char },
}

impl SessionName {
    /// Space around a name is not part of it.
    pub fn read(text: &str) -> Result<Self, NameError> {
        let name = text.trim();
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(character) = name.chars().find(|character| is_unseen(*character)) {
            return Err(NameError::Unseen { character });
        }
        if name.chars().count() > LONGEST_NAME {
            return Err(NameError::TooLong);
        }
        Ok(Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What people are told when a session gets a name.
    pub fn told(name: &str) -> String {
        format!("This session is called `{name}`.")
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Control characters, what changes the direction of a text, and what takes no room. The joiner of
/// pictures stays: screens write it out where it joins nothing.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200c}' | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_that_can_be_seen() {
        let longest = "ä".repeat(LONGEST_NAME);
        let long = format!("{longest}ä");
        let unseen = |character| Err(NameError::Unseen { character });
        let cases = [
            ("parser", Ok("parser")),
            ("  the parser, 2nd try ", Ok("the parser, 2nd try")),
            ("構文解析 👩\u{200d}💻", Ok("構文解析 👩\u{200d}💻")),
            (&longest, Ok(&longest)),
            ("", Err(NameError::Empty)),
            (" \t\n", Err(NameError::Empty)),
            (&long, Err(NameError::TooLong)),
            ("a\nb", unseen('\n')),
            ("a\u{1b}[2J", unseen('\u{1b}')),
            ("a\u{9b}2J", unseen('\u{9b}')),
            ("safe\u{202e}gnp", unseen('\u{202e}')),
            ("a\u{200b}b", unseen('\u{200b}')),
            ("a\u{2028}b", unseen('\u{2028}')),
        ];
        for (text, wanted) in cases {
            let read = SessionName::read(text);
            assert_eq!(read.as_ref().map(SessionName::as_str).map_err(|error| *error), wanted);
        }
        let error = SessionName::read("a\u{1b}b").unwrap_err().to_string();
        assert!(error.contains("`\\u{1b}`"), "{error}");
    }
}
