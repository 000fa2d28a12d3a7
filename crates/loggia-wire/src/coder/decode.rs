//! Answers of the shipped server's clients: a data part `{callId, outcome, newContent}`.

use loggia_core::{CallId, ChoiceId, Edit, Question};
use serde_json::Value;

use crate::devtool::decode::Confirmation;
use crate::read::{Fields, Read, violation};

/// Whether a data part is meant as an answer. One of the two members is enough, so that an incomplete answer
/// is refused and does not become the next prompt.
pub(crate) fn is_answer(data: &Value) -> bool {
    let members = ["callId", "outcome"];
    data.as_object().is_some_and(|map| members.iter().any(|name| map.contains_key(*name)))
}

/// An unknown member is refused, because it might be meant to change what is approved.
pub(crate) fn answer(at: &str, data: &Value) -> Read<Confirmation> {
    const KNOWN: [&str; 4] = ["callId", "outcome", "newContent", "answers"];
    let fields = Fields::of(at, data)?;
    if !fields.names().all(|name| KNOWN.contains(&name.as_str())) {
        return Err(violation(at, "holds a member that an answer does not have"));
    }
    let call = fields.needed_id("callId")?;
    let outcome = fields.needed_id("outcome")?;
    let content = fields.owned_text("newContent")?;
    let words = answers(&fields)?;
    if outcome == "modify_with_editor" && content.is_none() {
        let why = "is missing: there is no editor here to modify it with";
        return Err(violation(fields.path("newContent"), why));
    }
    let choice = choice(outcome, words.is_some());
    let edit = match (words, content) {
        // That server ignores other members of a refusal.
        (_, _) if choice == ChoiceId::CANCEL => None,
        (Some(_), Some(_)) => {
            return Err(violation(fields.path("answers"), "and newContent exclude each other"));
        }
        (Some(text), None) => Some(Edit::Text { text }),
        (None, content) => content.map(|content| Edit::File { content }),
    };
    Ok(Confirmation {
        to: Question::Call(CallId::from(call)),
        choice: choice.into(),
        edit,
        digest: None,
    })
}

/// The choice of an outcome. Loggia does not trust a whole server or tool at once, so these outcomes mean
/// "always". An unknown outcome is passed on and refused by name.
fn choice(outcome: &str, in_words: bool) -> &str {
    match outcome {
        "proceed_once" if in_words => ChoiceId::ANSWER,
        "modify_with_editor" => ChoiceId::PROCEED_ONCE,
        "proceed_always" | "proceed_always_server" | "proceed_always_tool" => {
            ChoiceId::PROCEED_ALWAYS
        }
        "proceed_always_and_save" => ChoiceId::PROCEED_ALWAYS_PROJECT,
        other => other,
    }
}

/// The answers to a question, by number. Loggia asks one question at a time.
fn answers(fields: &Fields<'_>) -> Read<Option<String>> {
    let Some(given) = fields.object("answers")? else { return Ok(None) };
    let mut texts = Vec::new();
    for name in given.names() {
        let text = given.text(name)?;
        texts.push(text.ok_or_else(|| violation(fields.path("answers"), "must contain strings"))?);
    }
    match texts.is_empty() {
        true => Err(violation(fields.path("answers"), "must contain an answer")),
        false => Ok(Some(texts.join("\n"))),
    }
}
