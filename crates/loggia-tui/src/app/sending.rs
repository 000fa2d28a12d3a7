//! What is sent to the session, and what is not: while the way to it is broken nothing is kept to be
//! sent later, because an answer or a cancellation that arrives late is about something else.

use loggia_core::{PromptId, Refusal};
use loggia_session::SubmitError;

use super::{Model, Submitted};
use crate::moment::Moment;

/// Prompts that came back and are remembered, to be recognized in the log.
const RETURNED: usize = 64;

/// Says that something is not sent, where the way to the session is broken.
pub fn is_unsent(model: &mut Model, what: &str, now: Moment) -> bool {
    let offline = !model.trouble.is_empty();
    if offline {
        model.remark(format!("not connected: {what}"), now);
    }
    offline
}

/// The connection broke or is back: whatever was typed at a question before that does not answer it.
pub fn trouble(model: &mut Model, trouble: String) {
    if model.trouble.is_empty() != trouble.is_empty()
        && let Some(dialog) = &mut model.dialog
    {
        dialog.start_over();
    }
    model.trouble = trouble;
}

pub fn submitted(model: &mut Model, what: Submitted, result: Result<(), SubmitError>, now: Moment) {
    let Err(error) = result else { return };
    match what {
        Submitted::Prompt { prompt, text } => {
            model.composer.give_back(&text);
            model.returned.push((prompt, text));
            let over = model.returned.len().saturating_sub(RETURNED);
            model.returned.drain(..over);
            model.remark(error.to_string(), now);
        }
        Submitted::Answer(approval) => {
            model.answering.retain(|known| *known != approval);
            model.remark(error.to_string(), now);
        }
        Submitted::Other => match error {
            SubmitError::Refused(Refusal::NothingToCancel) => {}
            error => model.remark(error.to_string(), now),
        },
    }
}

/// The log has a prompt. One that came back to the line because its confirmation was lost is taken out
/// of the line again, unless it was changed there.
pub fn arrived(model: &mut Model, prompt: &PromptId, now: Moment) {
    let Some(index) = model.returned.iter().position(|(known, _)| known == prompt) else { return };
    let (_, text) = model.returned.remove(index);
    if model.composer.editor.text() == text {
        model.composer.editor.clear();
    }
    model.remark("your prompt had arrived before the connection broke", now);
}
