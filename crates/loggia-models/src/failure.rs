//! Turns what a vendor says about a failure into one sentence with the next step.
//!
//! Not here: which words of a vendor mean which kind.

use std::time::Duration;

use crate::error::{ModelError, ModelErrorKind};

/// Characters of a vendor's text in a message.
const SAID_LIMIT: usize = 300;

/// The error of this kind, with the vendor's own text and the next step.
pub fn failed(kind: ModelErrorKind, said: &str) -> ModelError {
    let (what, next) = match kind {
        ModelErrorKind::Authentication => {
            ("the provider refused the key", "set another one with `loggia keys set`")
        }
        ModelErrorKind::UnknownModel => {
            ("the provider does not offer this model", "`loggia models` lists those it has")
        }
        ModelErrorKind::RateLimited => ("the provider limits the requests", "wait, then try again"),
        ModelErrorKind::QuotaSpent => (
            "the quota or the credit at the provider is spent",
            "add credit there, or choose another model",
        ),
        ModelErrorKind::Overloaded => ("the provider cannot answer now", "try again later"),
        ModelErrorKind::Transport => ("the reply was cut off", "try again"),
        ModelErrorKind::ContextTooLong => {
            ("the conversation is too long for the model", "compact it with `/compact`")
        }
        ModelErrorKind::HistoryRejected => (
            "the provider does not accept its earlier replies",
            "compact the conversation with `/compact`",
        ),
        ModelErrorKind::Malformed => {
            ("the reply cannot be read", "try again, or use another model")
        }
        ModelErrorKind::Refused => ("the provider refused the request", "phrase it differently"),
        ModelErrorKind::BadRequest => {
            ("the provider does not accept the request", "check the model and its settings")
        }
    };
    let said = shorten(said);
    let message = match said.is_empty() {
        true => format!("{what}; {next}"),
        false => format!("{what}: {said} ({next})"),
    };
    ModelError::new(kind, message)
}

/// One line of a sane length.
pub fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches('.');
    match line.char_indices().nth(SAID_LIMIT) {
        Some(_) => line.chars().take(SAID_LIMIT).chain(['…']).collect(),
        None => line.to_owned(),
    }
}

/// The wait that a text asks for: `try again in 1.2s`, `retry in 20ms`, `try again in 1m30.5s`.
pub fn wait_in(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let marks = ["try again in ", "retry in ", "retry after "];
    let rest = marks.iter().find_map(|mark| text.split_once(mark).map(|(_, rest)| rest))?;
    let mut rest = rest.trim_start();
    let mut wait = None;
    loop {
        let end = rest.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.');
        let Some(end) = end else { return wait };
        let (number, behind) = rest.split_at_checked(end)?;
        let Ok(number) = number.trim_end_matches('.').parse::<f64>() else { return wait };
        let unit = behind.trim_start();
        let end = unit.find(|symbol: char| !symbol.is_ascii_alphabetic()).unwrap_or(unit.len());
        let (unit, behind) = unit.split_at_checked(end)?;
        let seconds = match unit {
            "ms" | "milliseconds" => number / 1000.0,
            "s" | "sec" | "second" | "seconds" => number,
            "m" | "min" | "minute" | "minutes" => number * 60.0,
            "h" | "hour" | "hours" => number * 3600.0,
            _ => return wait,
        };
        let more = Duration::try_from_secs_f64(seconds).ok()?;
        wait = Some(wait.unwrap_or(Duration::ZERO).saturating_add(more));
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_found_in_texts() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(wait_in(text), millis.map(Duration::from_millis), "{text}");
        };
        check("Rate limit reached. Please try again in 1.2s. Visit …", Some(1200));
        check("Please try again in 20ms.", Some(20));
        check("Please try again in 1m30.5s.", Some(90_500));
        check("Please retry in 7s", Some(7000));
        check("Please retry after 5 seconds.", Some(5000));
        check("try again in a while", None);
        check("try again later", None);
        check("try again in 5", None);
    }

    #[test]
    fn a_long_text_is_cut_and_stays_one_line() {
        assert_eq!(shorten(" a\n b. "), "a b");
        assert_eq!(shorten(&"ä".repeat(400)).chars().count(), SAID_LIMIT + 1);
    }
}
