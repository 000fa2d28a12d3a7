//! Results of submitted commands. Without a connection nothing is queued for later, because a late
//! answer or cancellation would apply to something else.

use loggia_core::{PromptId, Refusal};
use loggia_session::SubmitError;

use super::{Model, Submitted};
use crate::uptime::Uptime;

/// Maximum number of returned prompts that are recognized in the log.
const RETURNED: usize = 64;

/// Reports that something was not sent, if there is no connection.
pub fn is_unsent(model: &mut Model, what: &str, now: Uptime) -> bool {
    let offline = !model.connection_problem.is_empty();
    if offline {
        model.remark(format!("not connected: {what}"), now);
    }
    offline
}

/// The connection was lost or restored: pending input does not answer a question.
pub fn connection_problem(model: &mut Model, problem: String) {
    if model.connection_problem.is_empty() != problem.is_empty()
        && let Some(dialog) = &mut model.dialog
    {
        dialog.start_over();
    }
    model.connection_problem = problem;
}

pub fn submitted(model: &mut Model, what: Submitted, result: Result<(), SubmitError>, now: Uptime) {
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

/// The log contains a prompt. If it was returned to the composer because its confirmation was lost,
/// it is removed there, unless it was changed.
pub fn arrived(model: &mut Model, prompt: &PromptId, now: Uptime) {
    let Some(index) = model.returned.iter().position(|(known, _)| known == prompt) else { return };
    let (_, text) = model.returned.remove(index);
    if model.composer.editor.text() == text {
        model.composer.editor.clear();
    }
    model.remark("your prompt had arrived before the connection was lost", now);
}
