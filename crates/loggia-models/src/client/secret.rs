//! Keys and other secrets: never shown, and removed from the texts of vendors.

use std::fmt;

/// So many equal bytes of a text and a secret are taken for a part of the secret.
const FRAGMENT: usize = 6;
const PLACEHOLDER: &str = "[key]";

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[secret]")
    }
}

/// The text without words that contain a part of a secret, or that look like a key with its middle hidden.
pub fn clean(text: &str, secrets: &[Secret]) -> String {
    let is_edge = |symbol: char| {
        symbol.is_whitespace() || matches!(symbol, '"' | '\'' | '`' | ',' | ';' | '(' | ')')
    };
    let mut cleaned = String::with_capacity(text.len());
    for piece in text.split_inclusive(is_edge) {
        let word = piece.trim_end_matches(is_edge);
        let edge = piece.get(word.len()..).unwrap_or_default();
        cleaned.push_str(if is_secret(word, secrets) { PLACEHOLDER } else { word });
        cleaned.push_str(edge);
    }
    cleaned
}

fn is_secret(word: &str, secrets: &[Secret]) -> bool {
    let hidden = word.contains("***") || word.contains("…") && word.starts_with("sk-");
    let part_of = |Secret(secret): &Secret| {
        // The word behind a scheme: `Bearer KEY`.
        let secret = secret.rsplit(' ').next().unwrap_or_default().as_bytes();
        secret.len() >= FRAGMENT
            && word
                .as_bytes()
                .windows(FRAGMENT)
                .any(|window| secret.windows(FRAGMENT).any(|of_secret| of_secret == window))
    };
    hidden || secrets.iter().any(part_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_key_are_removed_from_a_text() {
        let secrets = [Secret::new("Bearer sk-proj-1234567890abcdef")];
        let check = |text: &str, cleaned: &str| assert_eq!(clean(text, &secrets), cleaned);
        check("no key here", "no key here");
        check(
            "Incorrect API key provided: sk-proj-1234567890abcdef. See the console.",
            "Incorrect API key provided: [key] See the console.",
        );
        check(
            "Incorrect API key provided: sk-***********cdef.",
            "Incorrect API key provided: [key]",
        );
        check("{\"key\":\"67890abc\"}", "{\"key\":\"[key]\"}");
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("sk-1")), "[secret]");
    }
}
