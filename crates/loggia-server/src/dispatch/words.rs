//! Which question a message is an answer to: by its words, where a client has nothing else, or by name.

use loggia_core::{ChoiceId, Question, Refusal, Session, TaskId};
use loggia_session::SessionHandle;
use loggia_wire::{Answer, Extension, Prompt, View, WireError};

use crate::state::submit_error;

/// The question that the words of a message to a task may be about.
enum Matter {
    Open {
        call: loggia_core::CallId,
        choices: Vec<loggia_core::Choice>,
        details: loggia_core::Details,
    },
    /// None is open, and this one was the last.
    Answered(loggia_core::AnsweredQuestion),
}

/// The answer that a message to a task with a question is; None if it is the next prompt.
pub(super) async fn answer_in_words(
    handle: &SessionHandle,
    prompt: &Prompt,
    view: View,
) -> Result<Option<Answer>, WireError> {
    let Some(task) = prompt.named_task() else { return Ok(None) };
    // Where answers have a form of their own, words are the next prompt.
    let form = match view {
        View { extension: Extension::On, .. } | View::SDLC | View::CODER => true,
        View { extension: Extension::Off, .. } => false,
    };
    let (choices, words) = match Box::pin(question(handle, task)).await? {
        None => return Ok(None),
        // Somebody was quicker.
        Some(Matter::Answered(answered)) => {
            return Ok((!form).then(|| prompt.answering_late(&answered)).flatten());
        }
        Some(Matter::Open { call, choices, details }) => {
            let words = prompt.answering(&call, &choices, &details);
            (choices, words)
        }
    };
    match (words, form) {
        (Some(answer), _) => Ok(Some(answer)),
        (None, true) => Ok(None),
        (None, false) => {
            let offered = choices.iter().map(|choice| choice.id.0.clone()).collect();
            Err(Refusal::NotAChoice { given: "this message".into(), offered }.into())
        }
    }
}

async fn question(handle: &SessionHandle, task: &TaskId) -> Result<Option<Matter>, WireError> {
    let task = task.clone();
    let look = move |session: &Session| {
        let turn = session.turn().filter(|turn| turn.task == task)?;
        match session.open_approvals().next() {
            None => turn.answered.clone().map(Matter::Answered),
            Some((call, approval)) => Some(Matter::Open {
                call: call.id.clone(),
                choices: approval.choices.clone(),
                details: call.details.clone(),
            }),
        }
    };
    handle.inspect(look).await.map_err(submit_error)
}

/// The task whose turn asks this question now, and what may be answered.
pub(super) async fn asked_now(
    handle: &SessionHandle,
    question: &Question,
) -> Result<Option<(TaskId, Vec<ChoiceId>)>, WireError> {
    let question = question.clone();
    let look = move |session: &Session| {
        let mut open = session.open_approvals();
        let (_, asked) = open.find(|(call, approval)| question.is(&call.id, &approval.id))?;
        let offered = asked.choices.iter().map(|choice| choice.id.clone()).collect();
        session.turn().map(|turn| (turn.task.clone(), offered))
    };
    handle.inspect(look).await.map_err(submit_error)
}
