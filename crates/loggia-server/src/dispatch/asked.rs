//! Which open question an answer names.

use loggia_core::{ChoiceId, Question, Session, TaskId};
use loggia_session::SessionHandle;
use loggia_wire::WireError;

use crate::state::submit_error;

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
