//! Answers in words, for clients without a structured answer.
//!
//! Only unambiguous words are read as an answer. "yes" allows only this one call; a sentence that begins
//! with "no" is not a refusal.

use crate::approval::{Choice, ChoiceId, Edit};
use crate::call::Details;

const YES: &[&str] = &[
    "yes",
    "y",
    "ok",
    "okay",
    "sure",
    "approve",
    "approved",
    "allow",
    "allowed",
    "accept",
    "proceed",
    "continue",
    "confirm",
    "confirmed",
    "go ahead",
    "do it",
    "yes please",
];
const NO: &[&str] = &[
    "no",
    "n",
    "cancel",
    "deny",
    "denied",
    "reject",
    "rejected",
    "refuse",
    "refused",
    "decline",
    "stop",
    "don't",
    "do not",
    "no thanks",
];
const ALWAYS: &[&str] = &["always", "always allow", "allow always", "yes always", "yes, always"];

/// The offered choice that `text` names by id, name, number or a known word. A question to the user
/// accepts any other text as its answer.
pub fn words_to_choice(
    text: &str,
    choices: &[Choice],
    details: &Details,
) -> Option<(ChoiceId, Option<Edit>)> {
    let said = bare(text);
    if said.is_empty() {
        return None;
    }
    let named = choices.iter().find(|choice| {
        // The id of "answer in words" alone is not an answer: the text is missing.
        let needs_words = choice.id.0 == ChoiceId::ANSWER;
        !needs_words && (bare(&choice.id.0) == said || bare(&choice.name) == said)
    });
    if let Some(choice) = named {
        return Some((choice.id.clone(), None));
    }
    let offered = |id: &str| choices.iter().find(|choice| choice.id.0 == id);
    match details {
        Details::Question { options, .. } => {
            let numbered = numbered(&said).filter(|number| *number <= options.len());
            if let Some(choice) = numbered.and_then(|number| choices.get(number - 1)) {
                return Some((choice.id.clone(), None));
            }
            let answer = offered(ChoiceId::ANSWER)?;
            Some((answer.id.clone(), Some(Edit::Text { text: text.trim().to_owned() })))
        }
        Details::Execute { .. }
        | Details::Edit(_)
        | Details::Mcp { .. }
        | Details::Generic { .. } => {
            let by_word = if YES.contains(&said.as_str()) {
                offered(ChoiceId::PROCEED_ONCE)
            } else if NO.contains(&said.as_str()) {
                offered(ChoiceId::CANCEL)
            } else if ALWAYS.contains(&said.as_str()) {
                offered(ChoiceId::PROCEED_ALWAYS)
            } else {
                numbered(&said).and_then(|number| choices.get(number - 1))
            };
            by_word.map(|choice| (choice.id.clone(), None))
        }
    }
}

/// A number, counted from one.
fn numbered(said: &str) -> Option<usize> {
    said.parse::<usize>().ok().filter(|number| *number >= 1)
}

/// Lower case, without surrounding quotes and punctuation.
fn bare(text: &str) -> String {
    let around = |c: char| c.is_whitespace() || ".!`'\"“”".contains(c);
    text.trim_matches(around).to_lowercase()
}
