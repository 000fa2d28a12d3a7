//! Events for clients that speak the development-tool extension: S1's flow, line for line.
//!
//! Everything is a status update, calls are whole every time, and a call's first update says
//! PENDING. Where several calls wait for an answer, answering one repeats the others: a client
//! that reads one stream a request must hear of them.

use loggia_core::{CallId, CallOutcome, Details, Event, Level, Part, Seq, TaskState};
use serde_json::Value;

use super::calls::{Calls, OpenCall};
use super::plain::waits_again;
use super::question::{failure_id, published, response_id, response_text, sources_text};
use super::update::{Piece, Said, Status, Update, value_of};
use super::{End, Notice, Step};
use crate::devtool::schema::{
    AgentThought, ConfirmationRequest, ErrorDetails, ToolCall, ToolCallStatus, ToolOutput, object,
};
use crate::devtool::{About, AboutQuestion, EventKind};
use crate::dialect::Dialect;

pub(super) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    let mut updates = overdue(step);
    match &step.envelope.event {
        // First: the stream of the message begins with it.
        Event::TaskOpened { .. } | Event::PromptAccepted { .. } | Event::PromptScreened { .. } => {
            updates.insert(0, Update::Task);
            let accepted = matches!(step.envelope.event, Event::PromptAccepted { .. });
            updates.extend((accepted && waits_again(step)).then(|| changed(step)));
        }
        Event::TurnStarted { .. } | Event::TaskClosed { .. } => {
            updates.push(changed(step));
            updates.extend(noted(step));
        }
        Event::PromptWithdrawn { .. } => {
            updates.extend(step.task.state.is_over().then(|| changed(step)));
        }
        Event::TextAppended { message, text, .. } => {
            updates.push(spoken(step, EventKind::TextContent, Said::text(message.as_str(), text)));
        }
        Event::SourcesCited { turn, sources } => {
            let said = Said::text(format!("{turn}-sources"), sources_text(sources));
            updates.push(spoken(step, EventKind::TextContent, said));
        }
        Event::ThoughtAppended { message, subject, text, .. } => {
            let thought = AgentThought { subject: subject.clone(), description: text.clone() };
            let said = Said::schemas(format!("{message}-thought"), vec![value_of(&thought)]);
            updates.push(spoken(step, EventKind::Thought, said));
        }
        Event::ApprovalAsked { call, .. } => updates.extend(asked(step, call)),
        Event::CallStarted { call, .. } => updates.extend(started(step, call)),
        Event::CallOutput { call, .. } => updates.extend(printed(step, call)),
        Event::CallEnded { call, outcome } => updates.extend(ended(step, call, outcome)),
        Event::ArtifactPublished { artifact, .. } => {
            updates.push(published(artifact, step.published_before));
        }
        Event::NoticeRaised { .. } => updates.extend(noted(step)),
        Event::PromptExpanded { command, source, text, .. } => {
            let text = Event::expansion(command, source, text);
            updates.push(told(step, &Notice { seq: step.envelope.seq, level: Level::Info, text }));
        }
        Event::TurnEnded { .. } => {
            updates.extend(whole_response(step));
            updates.push(changed(step));
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

/// Output that was held back and whose time has come, whatever happened to the task just now.
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
        updates.extend(piece.map(|piece| published(piece, step.published_before)));
    }
    updates
}

/// A call that nobody asked about begins as PENDING too.
fn announced(seq: Seq, state: TaskState, call: &mut OpenCall) -> Option<Update> {
    let first = !std::mem::replace(&mut call.announced, true);
    first.then(|| update(seq, state, call, pending(call)))
}

/// The questions that are still open, for the stream that an answer to another one opened.
pub(super) fn ask_again(calls: &Calls, seq: Seq) -> Vec<Update> {
    let open = calls.open_questions();
    let mut updates: Vec<Update> =
        open.map(|call| update(seq, TaskState::InputRequired, call, pending(call))).collect();
    updates.extend(waiting(calls));
    updates
}

/// The end of a request's stream: somebody has to answer.
fn waiting(calls: &Calls) -> Option<Update> {
    let said = open_questions(calls)?;
    Some(Update::Status(Status {
        state: TaskState::InputRequired,
        said: Some(said),
        about: Some(About {
            question: only_question(calls),
            ..About::kind(EventKind::StateChange)
        }),
        ends: Some(End::InputRequired),
    }))
}

/// Every call that waits for an answer, whole.
pub(super) fn open_questions(calls: &Calls) -> Option<Said> {
    let first = calls.open_questions().next()?.asked.as_ref()?;
    let calls = calls.open_questions().map(|call| value_of(&pending(call)));
    Some(Said::schemas(first.approval.as_str(), calls.collect()))
}

/// The question that waits. Where several do, each is named with its own call: an answer to one of them must not
/// carry the name of another.
pub(super) fn only_question(calls: &Calls) -> Option<AboutQuestion> {
    let mut open = calls.open_questions();
    open.next().filter(|_| open.next().is_none()).and_then(about_question)
}

fn about_question(call: &OpenCall) -> Option<AboutQuestion> {
    call.asked.as_ref().map(|asked| AboutQuestion {
        correlation: asked.approval.to_string(),
        digest: call.details.digest(),
    })
}

fn update(seq: Seq, state: TaskState, call: &OpenCall, shown: ToolCall) -> Update {
    let id = format!("{}-{seq}-{}", call.id, shown.status.word());
    let about = About {
        question: shown.confirmation_request.as_ref().and_then(|_| about_question(call)),
        answer: call.answer.clone(),
        ..About::kind(EventKind::ToolCallUpdate)
    };
    Update::Status(Status {
        state,
        said: Some(Said::schemas(id, vec![value_of(&shown)])),
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
        input_parameters: object(&as_it_runs(call)),
        live_content: None,
        output: None,
        error: None,
        confirmation_request: None,
    }
}

/// The input of a call, with the change of the person who approved it.
fn as_it_runs(call: &OpenCall) -> Value {
    let mut input = call.input.clone();
    let edited = call.answer.as_ref().is_some_and(|answer| answer.edited);
    let Some(members) = input.as_object_mut().filter(|_| edited) else { return input };
    match &call.details {
        // A tool that takes no whole file has no member for one; the extension calls it `new_content`.
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

fn spoken(step: &Step<'_>, kind: EventKind, said: Said) -> Update {
    let about = Some(About::kind(kind));
    Update::Status(Status { state: step.task.state, said: Some(said), about, ends: None })
}

fn noted<'a>(step: &'a Step<'_>) -> impl Iterator<Item = Update> + use<'a> {
    step.notices.iter().map(|notice| told(step, notice))
}

fn told(step: &Step<'_>, notice: &Notice) -> Update {
    let error = match notice.level {
        Level::Info => None,
        Level::Warning | Level::Error => Some(notice.text.clone()),
    };
    Update::Status(Status {
        state: step.task.state,
        said: Some(Said::text(notice.id(), &notice.text)),
        about: Some(About { error, ..About::kind(EventKind::StateChange) }),
        ends: None,
    })
}

/// The task's state, and why where it failed. A task whose next prompt waits is not over.
fn changed(step: &Step<'_>) -> Update {
    let failure = super::question::failure_of(step);
    let said = failure.map(|why| Said::text(failure_id(step.task), why));
    Update::Status(Status {
        state: step.task.state,
        said,
        about: Some(About {
            error: failure.map(str::to_owned),
            ..About::kind(EventKind::StateChange)
        }),
        ends: step.task.state.is_over().then_some(End::Terminal),
    })
}

/// 1.0 wants results as artifacts. The text went out as it came; here it is once more, whole.
fn whole_response(step: &Step<'_>) -> Option<Update> {
    let turn = step.turn.filter(|_| step.dialect == Dialect::A2a1)?;
    let text = response_text(step.task, turn);
    (!text.is_empty()).then(|| {
        Update::Piece(Piece {
            id: response_id(turn),
            name: "response".to_owned(),
            parts: vec![Part::Text { text }],
            append: false,
            last: true,
        })
    })
}
