//! The name of a session: short, one line, no control characters and no invisible characters.

use std::fmt;

/// Characters of a name.
pub const MAX_NAME_CHARS: usize = 80;

/// A name that is safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionName(String);

/// Why a text is not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a session name needs at least one character")]
    Empty,
    #[error("a session name has at most {MAX_NAME_CHARS} characters")]
    TooLong,
    #[error(
        "a session name is one line of visible characters: `{}` is not allowed",
        character.escape_unicode()
    )]
    Invisible { character: char },
}

impl SessionName {
    /// Removes surrounding space.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.trim();
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(character) = name.chars().find(|character| is_invisible(*character)) {
            return Err(NameError::Invisible { character });
        }
        if name.chars().count() > MAX_NAME_CHARS {
            return Err(NameError::TooLong);
        }
        Ok(Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The notice that a session has a new name.
    pub fn notice(name: &str) -> String {
        format!("This session is called `{name}`.")
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Control characters, characters that change the text direction, and characters without width. The
/// zero-width joiner of emoji is allowed: screens print it as text if it joins nothing.
fn is_invisible(character: char) -> bool {
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
    fn a_name_is_one_line_of_visible_characters() {
        let longest = "ä".repeat(MAX_NAME_CHARS);
        let long = format!("{longest}ä");
        let invisible = |character| Err(NameError::Invisible { character });
        let cases = [
            ("parser", Ok("parser")),
            ("  the parser, 2nd try ", Ok("the parser, 2nd try")),
            ("構文解析 👩\u{200d}💻", Ok("構文解析 👩\u{200d}💻")),
            (&longest, Ok(&longest)),
            ("", Err(NameError::Empty)),
            (" \t\n", Err(NameError::Empty)),
            (&long, Err(NameError::TooLong)),
            ("a\nb", invisible('\n')),
            ("a\u{1b}[2J", invisible('\u{1b}')),
            ("a\u{9b}2J", invisible('\u{9b}')),
            ("safe\u{202e}gnp", invisible('\u{202e}')),
            ("a\u{200b}b", invisible('\u{200b}')),
            ("a\u{2028}b", invisible('\u{2028}')),
        ];
        for (text, wanted) in cases {
            let read = SessionName::parse(text);
            assert_eq!(read.as_ref().map(SessionName::as_str).map_err(|error| *error), wanted);
        }
        let error = SessionName::parse("a\u{1b}b").unwrap_err().to_string();
        assert!(error.contains("`\\u{1b}`"), "{error}");
    }
}
