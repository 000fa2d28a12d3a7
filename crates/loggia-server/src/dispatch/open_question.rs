//! The open question that an answer names.

use loggia_core::{ChoiceId, Question, Session, TaskId};
use loggia_session::SessionHandle;
use loggia_wire::WireError;

use crate::state::submit_error;

pub(super) struct OpenQuestion {
    /// The task whose turn asks.
    pub task: TaskId,
    pub choices: Vec<ChoiceId>,
}

pub(super) async fn open_question(
    handle: &SessionHandle,
    question: &Question,
) -> Result<Option<OpenQuestion>, WireError> {
    let question = question.clone();
    let find = move |session: &Session| {
        let mut open = session.open_approvals();
        let (_, asked) = open.find(|(call, approval)| question.is(&call.id, &approval.id))?;
        let choices = asked.choices.iter().map(|choice| choice.id.clone()).collect();
        session.turn().map(|turn| OpenQuestion { task: turn.task.clone(), choices })
    };
    handle.inspect(find).await.map_err(submit_error)
}
