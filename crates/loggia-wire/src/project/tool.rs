//! Events for clients of the development-tool extension, in the order of S1's flow.
//!
//! Everything is a status update, each update of a call has the whole call, and the first one says PENDING. If several
//! calls wait for an answer, an answer to one repeats the others: a client that reads one stream for each request must
//! see them.

use loggia_core::{CallId, CallOutcome, Details, Event, Level, Part, Seq, TaskState};
use serde_json::Value;

use super::calls::{Calls, OpenCall};
use super::plain::waits_again;
use super::question::{failure_id, published, response_id, response_text, sources_text};
use super::update::{ArtifactChunk, ChatMessage, StatusChange, Update, value_of};
use super::{End, FoldedEvent, Notice};
use crate::devtool::schema::{
    AgentThought, ConfirmationRequest, ErrorDetails, ToolCall, ToolCallStatus, ToolOutput, object,
};
use crate::devtool::{EventKind, EventMetadata, QuestionMetadata};

pub(crate) fn updates(folded: &mut FoldedEvent<'_>) -> Vec<Update> {
    let mut updates = overdue(folded);
    match &folded.envelope.event {
        // The stream of a message begins with the task.
        Event::TaskOpened { .. } | Event::PromptAccepted { .. } | Event::PromptScreened { .. } => {
            updates.insert(0, Update::Task);
            let accepted = matches!(folded.envelope.event, Event::PromptAccepted { .. });
            updates.extend((accepted && waits_again(folded)).then(|| state_update(folded)));
        }
        Event::TurnStarted { .. } | Event::TaskClosed { .. } => {
            updates.push(state_update(folded));
            updates.extend(notices(folded));
        }
        Event::PromptWithdrawn { .. } => {
            updates.extend(folded.task.state.is_over().then(|| state_update(folded)));
        }
        Event::TextAppended { message, text, .. } => {
            updates.push(message_update(
                folded,
                EventKind::TextContent,
                ChatMessage::text(message.as_str(), text),
            ));
        }
        Event::SourcesCited { turn, sources } => {
            let message = ChatMessage::text(format!("{turn}-sources"), sources_text(sources));
            updates.push(message_update(folded, EventKind::TextContent, message));
        }
        Event::ThoughtAppended { message, subject, text, .. } => {
            let thought = AgentThought { subject: subject.clone(), description: text.clone() };
            let id = format!("{message}-thought");
            let message = ChatMessage::schemas(id, vec![value_of(&thought)]);
            updates.push(message_update(folded, EventKind::Thought, message));
        }
        Event::ApprovalAsked { call, .. } => updates.extend(asked(folded, call)),
        Event::CallStarted { call, .. } => updates.extend(started(folded, call)),
        Event::CallOutput { call, .. } => updates.extend(printed(folded, call)),
        Event::CallEnded { call, outcome } => updates.extend(ended(folded, call, outcome)),
        Event::ArtifactPublished { artifact, .. } => {
            updates.push(Update::Artifact(published(artifact, folded.published_before)));
        }
        Event::NoticeRaised { .. } => updates.extend(notices(folded)),
        Event::PromptExpanded { command, source, text, .. } => {
            let text = Event::expansion(command, source, text);
            updates.push(notice_update(
                folded,
                &Notice { seq: folded.envelope.seq, level: Level::Info, text },
            ));
        }
        Event::TurnEnded { .. } => {
            updates.extend(whole_response(folded));
            updates.push(state_update(folded));
        }
        Event::SessionOpened { .. }
        | Event::SettingsChanged { .. }
        | Event::PolicyAmended { .. }
        | Event::SessionNamed { .. }
        | Event::SessionClosed { .. }
        | Event::PlanUpdated { .. }
        | Event::UsageReported { .. }
        | Event::ContextCompacted { .. }
        | Event::CallProposed { .. }
        | Event::ApprovalAnswered { .. }
        | Event::ModelRecord { .. }
        | Event::ReplyDiscarded { .. }
        | Event::Unknown => {}
    }
    updates
}

/// Output that was held back and is due now, whatever the event is.
fn overdue(folded: &mut FoldedEvent<'_>) -> Vec<Update> {
    let due = if folded.running { folded.calls.due(folded.envelope) } else { Vec::new() };
    let (state, seq) = (folded.task.state, folded.envelope.seq);
    let calls = due.iter().filter_map(|call| folded.calls.get(call));
    calls.map(|call| update(seq, state, call, executing(call))).collect()
}

fn asked(folded: &mut FoldedEvent<'_>, call: &CallId) -> Vec<Update> {
    // The change of state is the frame after this one.
    let alone = folded.calls.open_questions().count() < 2;
    let state = if alone { TaskState::Working } else { TaskState::InputRequired };
    let Some(call) = folded.calls.get_mut(call) else { return Vec::new() };
    call.announced = true;
    let pending = update(folded.envelope.seq, state, call, pending(call));
    [Some(pending), waiting(folded.calls)].into_iter().flatten().collect()
}

fn started(folded: &mut FoldedEvent<'_>, call: &CallId) -> Vec<Update> {
    let (state, seq) = (folded.task.state, folded.envelope.seq);
    let Some(call) = folded.calls.get_mut(call) else { return Vec::new() };
    let mut updates: Vec<Update> = announced(seq, state, call).into_iter().collect();
    updates.push(update(seq, state, call, executing(call)));
    if call.answer.is_some() {
        updates.extend(ask_again(folded.calls, seq));
    }
    updates
}

fn printed(folded: &mut FoldedEvent<'_>, call: &CallId) -> Option<Update> {
    let (state, at, seq) = (folded.task.state, folded.envelope.at, folded.envelope.seq);
    let call = folded.calls.get_mut(call)?;
    call.shows_live(at).then(|| update(seq, state, call, executing(call)))
}

fn ended(folded: &mut FoldedEvent<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
    let (state, seq) = (folded.task.state, folded.envelope.seq);
    let mut updates = Vec::new();
    if let Some(call) = folded.calls.get_mut(call) {
        if call.shows_last_live() {
            updates.push(update(seq, state, call, executing(call)));
        }
        let state = if call.is_withdrawn() { TaskState::InputRequired } else { state };
        updates.extend(announced(seq, state, call));
        updates.push(update(seq, state, call, finished(call, outcome)));
        let refused = call.answer.is_some() && !call.started;
        if refused {
            updates.extend(ask_again(folded.calls, seq));
        }
    }
    if let CallOutcome::Succeeded { output } = outcome {
        let piece = output.artifact.as_ref();
        updates
            .extend(piece.map(|piece| Update::Artifact(published(piece, folded.published_before))));
    }
    updates
}

/// A call that needs no approval begins as PENDING too.
fn announced(seq: Seq, state: TaskState, call: &mut OpenCall) -> Option<Update> {
    let first = !std::mem::replace(&mut call.announced, true);
    first.then(|| update(seq, state, call, pending(call)))
}

/// The questions that are still open, for the stream of an answer to another one.
pub(super) fn ask_again(calls: &Calls, seq: Seq) -> Vec<Update> {
    let open = calls.open_questions();
    let mut updates: Vec<Update> =
        open.map(|call| update(seq, TaskState::InputRequired, call, pending(call))).collect();
    updates.extend(waiting(calls));
    updates
}

/// The end of a request's stream: the task waits for an answer.
fn waiting(calls: &Calls) -> Option<Update> {
    let questions = open_questions(calls)?;
    Some(Update::Status(StatusChange {
        state: TaskState::InputRequired,
        message: Some(questions),
        about: Some(EventMetadata {
            question: only_question(calls),
            ..EventMetadata::kind(EventKind::StateChange)
        }),
        ends: Some(End::InputRequired),
    }))
}

/// Every call that waits for an answer, whole.
pub(super) fn open_questions(calls: &Calls) -> Option<ChatMessage> {
    let first = calls.open_questions().next()?.asked.as_ref()?;
    let calls = calls.open_questions().map(|call| value_of(&pending(call)));
    Some(ChatMessage::schemas(first.approval.as_str(), calls.collect()))
}

/// The open question, if there is only one. Otherwise each is named with its own call: an answer must not carry the
/// id of another question.
pub(super) fn only_question(calls: &Calls) -> Option<QuestionMetadata> {
    let mut open = calls.open_questions();
    open.next().filter(|_| open.next().is_none()).and_then(about_question)
}

fn about_question(call: &OpenCall) -> Option<QuestionMetadata> {
    call.asked.as_ref().map(|asked| QuestionMetadata {
        correlation: asked.approval.to_string(),
        digest: call.details.digest(),
    })
}

fn update(seq: Seq, state: TaskState, call: &OpenCall, shown: ToolCall) -> Update {
    let id = format!("{}-{seq}-{}", call.id, shown.status.word());
    let about = EventMetadata {
        question: shown.confirmation_request.as_ref().and_then(|_| about_question(call)),
        answer: call.answer.clone(),
        ..EventMetadata::kind(EventKind::ToolCallUpdate)
    };
    Update::Status(StatusChange {
        state,
        message: Some(ChatMessage::schemas(id, vec![value_of(&shown)])),
        about: Some(about),
        ends: None,
    })
}

fn pending(call: &OpenCall) -> ToolCall {
    let confirmation_request =
        call.asked.as_ref().map(|asked| ConfirmationRequest::new(&asked.choices, &call.details));
    ToolCall { confirmation_request, ..tool_call(call, ToolCallStatus::Pending) }
}

fn executing(call: &OpenCall) -> ToolCall {
    let live_content = call.live().map(str::to_owned);
    ToolCall { live_content, ..tool_call(call, ToolCallStatus::Executing) }
}

fn finished(call: &OpenCall, outcome: &CallOutcome) -> ToolCall {
    match outcome {
        CallOutcome::Succeeded { output } => ToolCall {
            output: Some(ToolOutput::from(output)),
            ..tool_call(call, ToolCallStatus::Succeeded)
        },
        CallOutcome::Failed { failure } => ToolCall {
            error: Some(ErrorDetails::from(failure)),
            ..tool_call(call, ToolCallStatus::Failed)
        },
        CallOutcome::Cancelled { reason } => ToolCall {
            error: Some(ErrorDetails {
                message: reason.clone(),
                kind: Some("cancelled".to_owned()),
                status_code: None,
            }),
            ..tool_call(call, ToolCallStatus::Cancelled)
        },
    }
}

fn tool_call(call: &OpenCall, status: ToolCallStatus) -> ToolCall {
    ToolCall {
        tool_call_id: call.id.to_string(),
        status,
        tool_name: call.tool.clone(),
        description: Some(call.title.clone()),
        input_parameters: object(&edited_input(call)),
        live_content: None,
        output: None,
        error: None,
        confirmation_request: None,
    }
}

/// The input of a call, with the edit of the person who approved it.
fn edited_input(call: &OpenCall) -> Value {
    let mut input = call.input.clone();
    let edited = call.answer.as_ref().is_some_and(|answer| answer.edited);
    let Some(members) = input.as_object_mut().filter(|_| edited) else { return input };
    match &call.details {
        // A tool that does not write whole files has no member for the content; the extension calls it `new_content`.
        Details::Edit(diff) => {
            let member = if members.contains_key("content") { "content" } else { "new_content" };
            members.insert(member.to_owned(), diff.new.as_str().into());
        }
        Details::Execute { command, .. } => {
            members.insert("command".to_owned(), command.as_str().into());
        }
        Details::Mcp { .. } | Details::Question { .. } | Details::Generic { .. } => {}
    }
    input
}

fn message_update(folded: &FoldedEvent<'_>, kind: EventKind, message: ChatMessage) -> Update {
    let about = Some(EventMetadata::kind(kind));
    let state = folded.task.state;
    Update::Status(StatusChange { state, message: Some(message), about, ends: None })
}

fn notices<'a>(folded: &'a FoldedEvent<'_>) -> impl Iterator<Item = Update> + use<'a> {
    folded.notices.iter().map(|notice| notice_update(folded, notice))
}

fn notice_update(folded: &FoldedEvent<'_>, notice: &Notice) -> Update {
    let error = match notice.level {
        Level::Info => None,
        Level::Warning | Level::Error => Some(notice.text.clone()),
    };
    Update::Status(StatusChange {
        state: folded.task.state,
        message: Some(ChatMessage::text(notice.id(), &notice.text)),
        about: Some(EventMetadata { error, ..EventMetadata::kind(EventKind::StateChange) }),
        ends: None,
    })
}

/// The task's state, with the reason if it failed. A task with a queued prompt is not over.
fn state_update(folded: &FoldedEvent<'_>) -> Update {
    let failure = super::question::failure_of(folded);
    Update::Status(StatusChange {
        state: folded.task.state,
        message: failure.map(|why| ChatMessage::text(failure_id(folded.task), why)),
        about: Some(EventMetadata {
            error: failure.map(str::to_owned),
            ..EventMetadata::kind(EventKind::StateChange)
        }),
        ends: folded.task.state.is_over().then_some(End::Terminal),
    })
}

/// The whole text of the turn as an artifact, after it was sent in pieces.
fn whole_response(folded: &FoldedEvent<'_>) -> Option<Update> {
    let turn = folded.turn.filter(|_| folded.protocol.repeats_response())?;
    let text = response_text(folded.task, turn);
    (!text.is_empty()).then(|| {
        Update::Artifact(ArtifactChunk {
            id: response_id(turn),
            name: "response".to_owned(),
            parts: vec![Part::Text { text }],
            append: false,
            last: true,
        })
    })
}
