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
use super::{End, Notice, Step};
use crate::devtool::schema::{
    AgentThought, ConfirmationRequest, ErrorDetails, ToolCall, ToolCallStatus, ToolOutput, object,
};
use crate::devtool::{EventKind, EventMetadata, QuestionMetadata};

pub(crate) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    let mut updates = overdue(step);
    match &step.envelope.event {
        // The stream of a message begins with the task.
        Event::TaskOpened { .. } | Event::PromptAccepted { .. } | Event::PromptScreened { .. } => {
            updates.insert(0, Update::Task);
            let accepted = matches!(step.envelope.event, Event::PromptAccepted { .. });
            updates.extend((accepted && waits_again(step)).then(|| state_update(step)));
        }
        Event::TurnStarted { .. } | Event::TaskClosed { .. } => {
            updates.push(state_update(step));
            updates.extend(notices(step));
        }
        Event::PromptWithdrawn { .. } => {
            updates.extend(step.task.state.is_over().then(|| state_update(step)));
        }
        Event::TextAppended { message, text, .. } => {
            updates.push(message_update(
                step,
                EventKind::TextContent,
                ChatMessage::text(message.as_str(), text),
            ));
        }
        Event::SourcesCited { turn, sources } => {
            let message = ChatMessage::text(format!("{turn}-sources"), sources_text(sources));
            updates.push(message_update(step, EventKind::TextContent, message));
        }
        Event::ThoughtAppended { message, subject, text, .. } => {
            let thought = AgentThought { subject: subject.clone(), description: text.clone() };
            let id = format!("{message}-thought");
            let message = ChatMessage::schemas(id, vec![value_of(&thought)]);
            updates.push(message_update(step, EventKind::Thought, message));
        }
        Event::ApprovalAsked { call, .. } => updates.extend(asked(step, call)),
        Event::CallStarted { call, .. } => updates.extend(started(step, call)),
        Event::CallOutput { call, .. } => updates.extend(printed(step, call)),
        Event::CallEnded { call, outcome } => updates.extend(ended(step, call, outcome)),
        Event::ArtifactPublished { artifact, .. } => {
            updates.push(Update::Artifact(published(artifact, step.published_before)));
        }
        Event::NoticeRaised { .. } => updates.extend(notices(step)),
        Event::PromptExpanded { command, source, text, .. } => {
            let text = Event::expansion(command, source, text);
            updates.push(notice_update(
                step,
                &Notice { seq: step.envelope.seq, level: Level::Info, text },
            ));
        }
        Event::TurnEnded { .. } => {
            updates.extend(whole_response(step));
            updates.push(state_update(step));
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
        | Event::Unknown => {}
    }
    updates
}

/// Output that was held back and is due now, whatever the event is.
fn overdue(step: &mut Step<'_>) -> Vec<Update> {
    let due = if step.running { step.calls.due(step.envelope) } else { Vec::new() };
    let (state, seq) = (step.task.state, step.envelope.seq);
    let calls = due.iter().filter_map(|call| step.calls.get(call));
    calls.map(|call| update(seq, state, call, executing(call))).collect()
}

fn asked(step: &mut Step<'_>, call: &CallId) -> Vec<Update> {
    // The change of state is the frame after this one.
    let alone = step.calls.open_questions().count() < 2;
    let state = if alone { TaskState::Working } else { TaskState::InputRequired };
    let Some(call) = step.calls.get_mut(call) else { return Vec::new() };
    call.announced = true;
    let pending = update(step.envelope.seq, state, call, pending(call));
    [Some(pending), waiting(step.calls)].into_iter().flatten().collect()
}

fn started(step: &mut Step<'_>, call: &CallId) -> Vec<Update> {
    let (state, seq) = (step.task.state, step.envelope.seq);
    let Some(call) = step.calls.get_mut(call) else { return Vec::new() };
    let mut updates: Vec<Update> = announced(seq, state, call).into_iter().collect();
    updates.push(update(seq, state, call, executing(call)));
    if call.answer.is_some() {
        updates.extend(ask_again(step.calls, seq));
    }
    updates
}

fn printed(step: &mut Step<'_>, call: &CallId) -> Option<Update> {
    let (state, at, seq) = (step.task.state, step.envelope.at, step.envelope.seq);
    let call = step.calls.get_mut(call)?;
    call.shows_live(at).then(|| update(seq, state, call, executing(call)))
}

fn ended(step: &mut Step<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
    let (state, seq) = (step.task.state, step.envelope.seq);
    let mut updates = Vec::new();
    if let Some(call) = step.calls.get_mut(call) {
        if call.shows_last_live() {
            updates.push(update(seq, state, call, executing(call)));
        }
        let state = if call.is_withdrawn() { TaskState::InputRequired } else { state };
        updates.extend(announced(seq, state, call));
        updates.push(update(seq, state, call, finished(call, outcome)));
        let refused = call.answer.is_some() && !call.started;
        if refused {
            updates.extend(ask_again(step.calls, seq));
        }
    }
    if let CallOutcome::Succeeded { output } = outcome {
        let piece = output.artifact.as_ref();
        updates
            .extend(piece.map(|piece| Update::Artifact(published(piece, step.published_before))));
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

fn message_update(step: &Step<'_>, kind: EventKind, message: ChatMessage) -> Update {
    let about = Some(EventMetadata::kind(kind));
    let state = step.task.state;
    Update::Status(StatusChange { state, message: Some(message), about, ends: None })
}

fn notices<'a>(step: &'a Step<'_>) -> impl Iterator<Item = Update> + use<'a> {
    step.notices.iter().map(|notice| notice_update(step, notice))
}

fn notice_update(step: &Step<'_>, notice: &Notice) -> Update {
    let error = match notice.level {
        Level::Info => None,
        Level::Warning | Level::Error => Some(notice.text.clone()),
    };
    Update::Status(StatusChange {
        state: step.task.state,
        message: Some(ChatMessage::text(notice.id(), &notice.text)),
        about: Some(EventMetadata { error, ..EventMetadata::kind(EventKind::StateChange) }),
        ends: None,
    })
}

/// The task's state, with the reason if it failed. A task with a queued prompt is not over.
fn state_update(step: &Step<'_>) -> Update {
    let failure = super::question::failure_of(step);
    Update::Status(StatusChange {
        state: step.task.state,
        message: failure.map(|why| ChatMessage::text(failure_id(step.task), why)),
        about: Some(EventMetadata {
            error: failure.map(str::to_owned),
            ..EventMetadata::kind(EventKind::StateChange)
        }),
        ends: step.task.state.is_over().then_some(End::Terminal),
    })
}

/// The whole text of the turn as an artifact, after it was sent in pieces.
fn whole_response(step: &Step<'_>) -> Option<Update> {
    let turn = step.turn.filter(|_| step.protocol.repeats_response())?;
    let text = response_text(step.task, turn);
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
