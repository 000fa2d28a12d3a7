//! Events for clients of plain A2A: text and results are artifacts, progress and questions are status messages that a
//! person can read.

use loggia_core::{CallId, CallOutcome, Details, Event, FileDiff, Part, TaskState};

use super::calls::Calls;
use super::question::{
    PARAGRAPH, failure_id, failure_of, published, question_text, response_id, sources_text,
};
use super::update::{ArtifactChunk, ChatMessage, StatusChange, Update};
use super::{End, ResponsePart, Setup, Step};

pub(crate) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    match &step.envelope.event {
        Event::TaskOpened { .. } | Event::PromptScreened { .. } => vec![Update::Task],
        Event::PromptAccepted { .. } => [Update::Task]
            .into_iter()
            .chain(waits_again(step).then(|| state_update(step)))
            .collect(),
        Event::TurnStarted { .. } => {
            [state_update(step)].into_iter().chain(notices(step)).collect()
        }
        Event::TaskClosed { .. } => vec![state_update(step)],
        Event::PromptWithdrawn { .. } => {
            step.task.state.is_over().then(|| state_update(step)).into_iter().collect()
        }
        Event::TextAppended { message, text, .. } => {
            respond(step, ResponsePart::Reply(message.clone()), text).into_iter().collect()
        }
        Event::SourcesCited { sources, .. } => {
            respond(step, ResponsePart::Sources, &sources_text(sources)).into_iter().collect()
        }
        Event::ApprovalAsked { .. } => asked(step).into_iter().collect(),
        Event::CallStarted { call, .. } => started(step, call),
        Event::CallEnded { call, outcome } => ended(step, call, outcome),
        Event::ArtifactPublished { artifact, .. } => {
            vec![Update::Artifact(published(artifact, step.published_before))]
        }
        Event::NoticeRaised { .. } => notices(step).collect(),
        Event::PromptExpanded { command, source, text, .. } => {
            vec![progress(step, "notice", &Event::expansion(command, source, text))]
        }
        Event::TurnEnded { .. } => {
            let mut updates: Vec<Update> = response_end(step).into_iter().collect();
            updates.push(state_update(step));
            updates
        }
        Event::SessionOpened { .. }
        | Event::SettingsChanged { .. }
        | Event::PolicyAmended { .. }
        | Event::SessionNamed { .. }
        | Event::SessionClosed { .. }
        | Event::ThoughtAppended { .. }
        | Event::PlanUpdated { .. }
        | Event::UsageReported { .. }
        | Event::ContextCompacted { .. }
        | Event::CallProposed { .. }
        | Event::ApprovalAnswered { .. }
        | Event::CallOutput { .. }
        | Event::Unknown => Vec::new(),
    }
}

/// The next text of the turn's response.
fn respond(step: &mut Step<'_>, from: ResponsePart, text: &str) -> Option<Update> {
    let turn = step.turn?;
    let before = step.response.replace(from);
    let continues = before == *step.response && before != Some(ResponsePart::Sources);
    let text = match (&before, continues) {
        (None, _) | (_, true) => text.to_owned(),
        (Some(_), false) => format!("{PARAGRAPH}{text}"),
    };
    Some(Update::Artifact(ArtifactChunk {
        id: response_id(turn),
        name: "response".to_owned(),
        parts: vec![Part::Text { text }],
        append: before.is_some(),
        last: false,
    }))
}

fn response_end(step: &Step<'_>) -> Option<Update> {
    let turn = step.turn.filter(|_| step.response.is_some())?;
    Some(Update::Artifact(ArtifactChunk {
        id: response_id(turn),
        name: "response".to_owned(),
        // A chunk must have a part.
        parts: vec![Part::Text { text: String::new() }],
        append: true,
        last: true,
    }))
}

/// A task that was over has to wait for its next turn. A stream that began earlier gets no task frame, so it needs a
/// status update.
pub(super) fn waits_again(step: &Step<'_>) -> bool {
    step.was_over && step.busy
}

/// One question at a time: text can only answer the question that was shown.
fn asked(step: &Step<'_>) -> Option<Update> {
    (step.calls.open_questions().count() == 1).then(|| waiting(step)).flatten()
}

fn waiting(step: &Step<'_>) -> Option<Update> {
    Some(Update::Status(StatusChange {
        state: TaskState::InputRequired,
        message: Some(open_question(step.calls, step.setup)?),
        about: None,
        ends: Some(End::InputRequired),
    }))
}

/// The oldest open question, as a person reads it.
pub(super) fn open_question(calls: &Calls, setup: &Setup) -> Option<ChatMessage> {
    let call = calls.open_questions().next()?;
    let asked = call.asked.as_ref()?;
    Some(ChatMessage::text(asked.approval.as_str(), question_text(call, asked, setup)))
}

fn started(step: &mut Step<'_>, call: &CallId) -> Vec<Update> {
    let Some(call) = step.calls.get_mut(call) else { return Vec::new() };
    let (title, answered) = (call.title.clone(), call.answer.is_some());
    let mut updates = vec![match &call.details {
        // The client that answered knows the question.
        Details::Question { .. } => state_update(step),
        Details::Execute { .. }
        | Details::Edit(_)
        | Details::Mcp { .. }
        | Details::Generic { .. } => progress(step, "started", &title),
    }];
    if answered {
        updates.extend(waiting(step));
    }
    updates
}

fn ended(step: &mut Step<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
    let Some(open) = step.calls.get_mut(call) else { return Vec::new() };
    let (title, refused) = (open.title.clone(), open.answer.is_some() && !open.started);
    let withdrawn = open.is_withdrawn();
    match outcome {
        CallOutcome::Succeeded { output } => {
            let change = output.diff.as_ref().map(|diff| change(call, diff));
            let piece = output.artifact.as_ref();
            let piece =
                piece.map(|piece| Update::Artifact(published(piece, step.published_before)));
            change.into_iter().chain(piece).collect()
        }
        CallOutcome::Failed { failure } => {
            vec![progress(step, "failed", &format!("{title} failed: {}", failure.message))]
        }
        CallOutcome::Cancelled { reason } => {
            let (id, text) = (
                format!("cancelled-{}", step.envelope.seq),
                format!("{title} was not done: {reason}"),
            );
            let state = if withdrawn { TaskState::InputRequired } else { step.task.state };
            let mut updates = vec![line_in(state, id, &text)];
            if refused {
                updates.extend(waiting(step));
            }
            updates
        }
    }
}

fn change(call: &CallId, diff: &FileDiff) -> Update {
    Update::Artifact(ArtifactChunk {
        id: change_id(call),
        name: diff.path.clone(),
        parts: vec![Part::Text { text: diff.unified.clone() }],
        append: false,
        last: true,
    })
}

pub(super) fn change_id(call: &CallId) -> String {
    format!("change-{call}")
}

fn notices<'a>(step: &'a Step<'_>) -> impl Iterator<Item = Update> + use<'a> {
    step.notices.iter().map(|notice| line(step, notice.id(), &notice.text))
}

fn progress(step: &Step<'_>, what: &str, text: &str) -> Update {
    line(step, format!("{what}-{}", step.envelope.seq), text)
}

/// A line of progress. It ends with a newline because some clients concatenate the lines.
fn line(step: &Step<'_>, id: String, text: &str) -> Update {
    line_in(step.task.state, id, text)
}

fn line_in(state: TaskState, id: String, text: &str) -> Update {
    Update::Status(StatusChange {
        state,
        message: Some(ChatMessage::text(id, format!("{text}\n"))),
        about: None,
        ends: None,
    })
}

/// The task's state, with the reason if it failed. A task with a queued prompt is not over.
fn state_update(step: &Step<'_>) -> Update {
    let failure = failure_of(step);
    Update::Status(StatusChange {
        state: step.task.state,
        message: failure.map(|why| ChatMessage::text(failure_id(step.task), why)),
        about: None,
        ends: step.task.state.is_over().then_some(End::Terminal),
    })
}
