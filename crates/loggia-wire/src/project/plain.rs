//! Events for clients of plain A2A: text and results are artifacts, progress and questions are status messages that a
//! person can read.

use loggia_core::{
    CallId, CallOutcome, Details, Event, Exchange, FileDiff, Part, TaskState, TaskView, TurnId,
};

use super::calls::Calls;
use super::question::{
    PARAGRAPH, failure_id, failure_of, published, question_text, response_id, sources_text,
};
use super::update::{ArtifactChunk, ChatMessage, StatusChange, Update};
use super::{End, FoldedEvent, ResponsePart, Setup};

pub(crate) fn updates(folded: &mut FoldedEvent<'_>) -> Vec<Update> {
    match &folded.envelope.event {
        Event::TaskOpened { .. } | Event::PromptScreened { .. } => vec![Update::Task],
        Event::PromptAccepted { .. } => [Update::Task]
            .into_iter()
            .chain(waits_again(folded).then(|| state_update(folded)))
            .collect(),
        Event::TurnStarted { .. } => {
            [state_update(folded)].into_iter().chain(notices(folded)).collect()
        }
        Event::TaskClosed { .. } => vec![state_update(folded)],
        Event::PromptWithdrawn { .. } => {
            folded.task.state.is_over().then(|| state_update(folded)).into_iter().collect()
        }
        Event::TextAppended { message, text, .. } => {
            respond(folded, ResponsePart::Reply(message.clone()), text).into_iter().collect()
        }
        Event::ReplyDiscarded { .. } => discard(folded).into_iter().collect(),
        Event::SourcesCited { sources, .. } => {
            respond(folded, ResponsePart::Sources, &sources_text(sources)).into_iter().collect()
        }
        Event::ApprovalAsked { .. } => asked(folded).into_iter().collect(),
        Event::CallStarted { call, .. } => started(folded, call),
        Event::CallEnded { call, outcome } => ended(folded, call, outcome),
        Event::ArtifactPublished { artifact, .. } => {
            vec![Update::Artifact(published(artifact, folded.published_before))]
        }
        Event::NoticeRaised { .. } => notices(folded).collect(),
        Event::PromptExpanded { command, source, text, .. } => {
            vec![progress(folded, "notice", &Event::expansion(command, source, text))]
        }
        Event::TurnEnded { .. } => {
            let mut updates: Vec<Update> = response_end(folded).into_iter().collect();
            updates.push(state_update(folded));
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
        | Event::ModelRecord { .. }
        | Event::Unknown => Vec::new(),
    }
}

/// The next text of the turn's response.
fn respond(folded: &mut FoldedEvent<'_>, from: ResponsePart, text: &str) -> Option<Update> {
    let turn = folded.turn?;
    let before = folded.response.replace(from);
    let continues = before == *folded.response && before != Some(ResponsePart::Sources);
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

/// The response without a reply that broke off: it replaces what was sent. A notice says why.
fn discard(folded: &mut FoldedEvent<'_>) -> Option<Update> {
    let turn = folded.turn.filter(|_| folded.response.is_some())?;
    let (text, last) = response_text(folded.task, turn);
    *folded.response = last;
    Some(Update::Artifact(ArtifactChunk {
        id: response_id(turn),
        name: "response".to_owned(),
        parts: vec![Part::Text { text }],
        append: false,
        last: false,
    }))
}

/// The text of a turn's response, as [`respond`] sends it, and its last part.
fn response_text(task: &TaskView, of: &TurnId) -> (String, Option<ResponsePart>) {
    let (mut text, mut last) = (String::new(), None);
    for said in &task.history {
        let (piece, part) = match said {
            Exchange::Reply { turn, message, text, .. } if turn == of => {
                (text.clone(), ResponsePart::Reply(message.clone()))
            }
            Exchange::Sources { turn, sources, .. } if turn == of => {
                (sources_text(sources), ResponsePart::Sources)
            }
            _ => continue,
        };
        if last.replace(part).is_some() {
            text.push_str(PARAGRAPH);
        }
        text.push_str(&piece);
    }
    (text, last)
}

fn response_end(folded: &FoldedEvent<'_>) -> Option<Update> {
    let turn = folded.turn.filter(|_| folded.response.is_some())?;
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
pub(super) fn waits_again(folded: &FoldedEvent<'_>) -> bool {
    folded.was_over && folded.busy
}

/// One question at a time: text can only answer the question that was shown.
fn asked(folded: &FoldedEvent<'_>) -> Option<Update> {
    (folded.calls.open_questions().count() == 1).then(|| waiting(folded)).flatten()
}

fn waiting(folded: &FoldedEvent<'_>) -> Option<Update> {
    Some(Update::Status(StatusChange {
        state: TaskState::InputRequired,
        message: Some(open_question(folded.calls, folded.setup)?),
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

fn started(folded: &mut FoldedEvent<'_>, call: &CallId) -> Vec<Update> {
    let Some(call) = folded.calls.get_mut(call) else { return Vec::new() };
    let (title, answered) = (call.title.clone(), call.answer.is_some());
    let mut updates = vec![match &call.details {
        // The client that answered knows the question.
        Details::Question { .. } => state_update(folded),
        Details::Execute { .. }
        | Details::Edit(_)
        | Details::Mcp { .. }
        | Details::Generic { .. } => progress(folded, "started", &title),
    }];
    if answered {
        updates.extend(waiting(folded));
    }
    updates
}

fn ended(folded: &mut FoldedEvent<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
    let Some(open) = folded.calls.get_mut(call) else { return Vec::new() };
    let (title, refused) = (open.title.clone(), open.answer.is_some() && !open.started);
    let withdrawn = open.is_withdrawn();
    match outcome {
        CallOutcome::Succeeded { output } => {
            let change = output.diff.as_ref().map(|diff| change(call, diff));
            let piece = output.artifact.as_ref();
            let piece =
                piece.map(|piece| Update::Artifact(published(piece, folded.published_before)));
            change.into_iter().chain(piece).collect()
        }
        CallOutcome::Failed { failure } => {
            vec![progress(folded, "failed", &format!("{title} failed: {}", failure.message))]
        }
        CallOutcome::Cancelled { reason } => {
            let (id, text) = (
                format!("cancelled-{}", folded.envelope.seq),
                format!("{title} was not done: {reason}"),
            );
            let state = if withdrawn { TaskState::InputRequired } else { folded.task.state };
            let mut updates = vec![line_in(state, id, &text)];
            if refused {
                updates.extend(waiting(folded));
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

fn notices<'a>(folded: &'a FoldedEvent<'_>) -> impl Iterator<Item = Update> + use<'a> {
    folded.notices.iter().map(|notice| line(folded, notice.id(), &notice.text))
}

fn progress(folded: &FoldedEvent<'_>, what: &str, text: &str) -> Update {
    line(folded, format!("{what}-{}", folded.envelope.seq), text)
}

/// A line of progress. It ends with a newline because some clients concatenate the lines.
fn line(folded: &FoldedEvent<'_>, id: String, text: &str) -> Update {
    line_in(folded.task.state, id, text)
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
fn state_update(folded: &FoldedEvent<'_>) -> Update {
    let failure = failure_of(folded);
    Update::Status(StatusChange {
        state: folded.task.state,
        message: failure.map(|why| ChatMessage::text(failure_id(folded.task), why)),
        about: None,
        ends: folded.task.state.is_over().then_some(End::Terminal),
    })
}
