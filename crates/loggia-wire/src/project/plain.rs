//! Events for clients that speak plain A2A: words arrive as an artifact, results as artifacts,
//! progress and questions as status messages that a person can read.

use loggia_core::{CallId, CallOutcome, Details, Event, FileDiff, Part, TaskState};

use super::calls::Calls;
use super::question::{
    PARAGRAPH, failure_id, failure_of, published, question_text, response_id, sources_text,
};
use super::update::{Piece, Said, Status, Update};
use super::{End, Setup, Spoken, Step};

pub(super) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    match &step.envelope.event {
        Event::TaskOpened { .. } | Event::PromptScreened { .. } => vec![Update::Task],
        Event::PromptAccepted { .. } => {
            [Update::Task].into_iter().chain(waits_again(step).then(|| changed(step))).collect()
        }
        Event::TurnStarted { .. } => [changed(step)].into_iter().chain(noted(step)).collect(),
        Event::TaskClosed { .. } => vec![changed(step)],
        Event::PromptWithdrawn { .. } => {
            step.task.state.is_over().then(|| changed(step)).into_iter().collect()
        }
        Event::TextAppended { message, text, .. } => {
            spoken(step, Spoken::Reply(message.clone()), text).into_iter().collect()
        }
        Event::SourcesCited { sources, .. } => {
            spoken(step, Spoken::Sources, &sources_text(sources)).into_iter().collect()
        }
        Event::ApprovalAsked { .. } => asked(step).into_iter().collect(),
        Event::CallStarted { call, .. } => started(step, call),
        Event::CallEnded { call, outcome } => ended(step, call, outcome),
        Event::ArtifactPublished { artifact, .. } => {
            vec![published(artifact, step.published_before)]
        }
        Event::NoticeRaised { .. } => noted(step).collect(),
        Event::PromptExpanded { command, source, text, .. } => {
            vec![progress(step, "notice", &Event::expansion(command, source, text))]
        }
        Event::TurnEnded { .. } => {
            let mut updates: Vec<Update> = response_end(step).into_iter().collect();
            updates.push(changed(step));
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

/// The next words of the turn's response.
fn spoken(step: &mut Step<'_>, from: Spoken, text: &str) -> Option<Update> {
    let turn = step.turn?;
    let before = step.spoken.replace(from);
    let goes_on = before == *step.spoken && before != Some(Spoken::Sources);
    let text = match (&before, goes_on) {
        (None, _) | (_, true) => text.to_owned(),
        (Some(_), false) => format!("{PARAGRAPH}{text}"),
    };
    Some(Update::Piece(Piece {
        id: response_id(turn),
        name: "response".to_owned(),
        parts: vec![Part::Text { text }],
        append: before.is_some(),
        last: false,
    }))
}

fn response_end(step: &Step<'_>) -> Option<Update> {
    let turn = step.turn.filter(|_| step.spoken.is_some())?;
    Some(Update::Piece(Piece {
        id: response_id(turn),
        name: "response".to_owned(),
        // A piece must hold a part; there is nothing left to say in it.
        parts: vec![Part::Text { text: String::new() }],
        append: true,
        last: true,
    }))
}

/// A task that was over has to wait for its turn. A stream that does not begin here gets no task, so it is told apart.
pub(super) fn waits_again(step: &Step<'_>) -> bool {
    step.was_over && step.busy
}

/// One question at a time: words can only answer the one that was read.
fn asked(step: &Step<'_>) -> Option<Update> {
    (step.calls.open_questions().count() == 1).then(|| waiting(step)).flatten()
}

fn waiting(step: &Step<'_>) -> Option<Update> {
    Some(Update::Status(Status {
        state: TaskState::InputRequired,
        said: Some(open_question(step.calls, step.setup)?),
        about: None,
        ends: Some(End::InputRequired),
    }))
}

/// The question that waits longest, as a person reads it.
pub(super) fn open_question(calls: &Calls, setup: &Setup) -> Option<Said> {
    let call = calls.open_questions().next()?;
    let asked = call.asked.as_ref()?;
    Some(Said::text(asked.approval.as_str(), question_text(call, asked, setup)))
}

fn started(step: &mut Step<'_>, call: &CallId) -> Vec<Update> {
    let Some(call) = step.calls.get_mut(call) else { return Vec::new() };
    let (title, answered) = (call.title.clone(), call.answer.is_some());
    let mut updates = vec![match &call.details {
        // Whoever answered knows the question.
        Details::Question { .. } => changed(step),
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
            let piece = piece.map(|piece| published(piece, step.published_before));
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
    Update::Piece(Piece {
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

fn noted<'a>(step: &'a Step<'_>) -> impl Iterator<Item = Update> + use<'a> {
    step.notices.iter().map(|notice| line(step, notice.id(), &notice.text))
}

fn progress(step: &Step<'_>, what: &str, text: &str) -> Update {
    line(step, format!("{what}-{}", step.envelope.seq), text)
}

/// A line about what goes on. It ends like a line: some clients join what they are told.
fn line(step: &Step<'_>, id: String, text: &str) -> Update {
    line_in(step.task.state, id, text)
}

fn line_in(state: TaskState, id: String, text: &str) -> Update {
    Update::Status(Status {
        state,
        said: Some(Said::text(id, format!("{text}\n"))),
        about: None,
        ends: None,
    })
}

/// The task's state, and why where it failed. A task whose next prompt waits is not over.
fn changed(step: &Step<'_>) -> Update {
    let failure = failure_of(step);
    Update::Status(Status {
        state: step.task.state,
        said: failure.map(|why| Said::text(failure_id(step.task), why)),
        about: None,
        ends: step.task.state.is_over().then_some(End::Terminal),
    })
}
