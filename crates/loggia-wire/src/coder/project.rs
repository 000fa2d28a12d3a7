//! Events as the shipped server tells them.
//!
//! A turn that is over leaves the task waiting for input, because that server's clients go on in the
//! same task; a stream ends there all the same. Live output replaces what was shown before, whole:
//! right for clients that replace, and for clients that read `append`.

use loggia_core::{Artifact, CallId, CallOutcome, Event, Level, Part, PromptId, TaskId, TaskState};
use serde_json::{Map, Value, json};

use super::record::{details, record, response};
use super::types::{
    ArtifactUpdate, LiveOutput, Message, Status, StatusUpdate, Task, ToolCall, ToolStatus,
};
use crate::a2a03;
use crate::a2a03::types::{Role, State};
use crate::devtool::CODER_AGENT;
use crate::project::calls::{Calls, OpenCall};
use crate::project::question::{failure_id, failure_of, published, sources_text};
use crate::project::snapshot::Shape;
use crate::project::update::{Said, Speaker, Update, value_of};
use crate::project::{End, Notice, Step};
use crate::time::rfc3339;

/// What an event is about.
#[derive(Clone, Copy)]
enum Kind {
    ToolCallConfirmation,
    ToolCallUpdate,
    TextContent,
    StateChange,
    Thought,
    Citation,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::ToolCallConfirmation => "tool-call-confirmation",
            Kind::ToolCallUpdate => "tool-call-update",
            Kind::TextContent => "text-content",
            Kind::StateChange => "state-change",
            Kind::Thought => "thought",
            Kind::Citation => "citation",
        }
    }
}

/// The task as it is, with the calls that wait for an answer: whoever comes late can answer, too.
pub(crate) fn task(shape: &Shape<'_>, calls: &Calls) -> Value {
    let open: Vec<Part> = match shape.state {
        TaskState::InputRequired => {
            let records = calls.open_questions().map(|call| awaiting(call, shape.task.as_str()));
            records.map(|record| Part::Data { data: value_of(&record) }).collect()
        }
        _ => Vec::new(),
    };
    let asked = calls.open_questions().find_map(|call| call.asked.as_ref());
    let asked = asked.filter(|_| !open.is_empty()).map(|asked| Said {
        id: asked.approval.to_string(),
        by: Speaker::Agent,
        parts: open,
        metadata: None,
    });
    let asked = asked.or((shape.state == TaskState::Canceled).then(|| canceled(shape.task)));
    let (task, session) = (shape.task.as_str(), shape.session.as_str());
    let said = asked.as_ref().or(shape.said.as_ref()).map(|said| message(task, session, said));
    let history = shape.history.iter().flatten();
    let artifacts = shape.artifacts.iter().flatten();
    value_of(&Task {
        id: task.to_owned(),
        context_id: session.to_owned(),
        status: Status { state: state(shape.state), message: said, timestamp: rfc3339(shape.at) },
        history: history.map(|said| message(task, session, said)).collect(),
        artifacts: artifacts.map(a2a03::project::artifact).collect(),
    })
}

fn canceled(task: &TaskId) -> Said {
    Said::text(format!("canceled-{task}"), "Task canceled by user request.")
}

/// A turn that went well leaves the task open for the next message.
fn state(state: TaskState) -> State {
    match state {
        TaskState::Completed => State::InputRequired,
        other => other.into(),
    }
}

fn message(task: &str, session: &str, said: &Said) -> Message {
    Message {
        role: match said.by {
            Speaker::User => Role::User,
            Speaker::Agent => Role::Agent,
        },
        parts: said.parts.iter().map(a2a03::types::Part::from).collect(),
        message_id: said.id.clone(),
        task_id: task.to_owned(),
        context_id: session.to_owned(),
        metadata: said.metadata.clone(),
    }
}

pub(crate) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    let mut updates = overdue(step);
    match &step.envelope.event {
        // Whoever opened it, or goes on with it, knows it.
        Event::TaskOpened { .. } | Event::TaskClosed { .. } => updates.push(changed(step)),
        Event::PromptAccepted { .. } => {
            let first = step.task.history.len() == 1 && !step.task.opened;
            let waits = step.busy && !step.running;
            updates.extend(first.then_some(Update::Task));
            updates.extend((!first && waits).then(|| changed(step)));
        }
        Event::PromptScreened { .. } => updates.push(Update::Task),
        Event::TurnStarted { .. } => {
            updates.push(changed(step));
            updates.extend(noted(step));
        }
        Event::TurnEnded { .. } => updates.push(changed(step)),
        Event::PromptWithdrawn { .. } => {
            updates.extend(step.task.state.is_over().then(|| changed(step)));
        }
        Event::TextAppended { message, text, .. } => {
            let said = Said::text(message.as_str(), text);
            updates.push(spoken(step, Kind::TextContent, said, message.as_str()));
        }
        Event::ThoughtAppended { message, subject, text, .. } => {
            let thought = json!({ "subject": subject, "description": text });
            let said = Said::schemas(format!("{message}-thought"), vec![thought]);
            updates.push(spoken(step, Kind::Thought, said, message.as_str()));
        }
        Event::SourcesCited { turn, sources } => {
            let said = Said::text(format!("{turn}-sources"), sources_text(sources));
            updates.push(spoken(step, Kind::Citation, said, turn.as_str()));
        }
        Event::CallProposed { call, .. } => {
            let call = step.calls.get(call);
            updates.extend(
                call.map(|call| update(step, tool_call(step, call, ToolStatus::Scheduled))),
            );
        }
        Event::ApprovalAsked { call, .. } => {
            updates.extend(step.calls.get(call).map(|call| confirmation(step, call)));
            updates.push(waiting(step));
        }
        Event::ApprovalAnswered { call, .. } => {
            updates.extend(step.calls.get(call).map(|call| confirmation(step, call)));
        }
        Event::CallStarted { call, .. } => updates.extend(started(step, call)),
        Event::CallOutput { call, .. } => updates.extend(printed(step, call)),
        Event::CallEnded { call, outcome } => updates.extend(ended(step, call, outcome)),
        Event::ArtifactPublished { artifact, .. } => updates.extend(piece(step, artifact)),
        Event::NoticeRaised { .. } => updates.extend(noted(step)),
        Event::PromptExpanded { command, source, text, .. } => {
            let text = Event::expansion(command, source, text);
            updates.push(note(step, &Notice { seq: step.envelope.seq, level: Level::Info, text }));
        }
        Event::SessionOpened { .. }
        | Event::SettingsChanged { .. }
        | Event::PolicyAmended { .. }
        | Event::SessionNamed { .. }
        | Event::SessionClosed { .. }
        | Event::PlanUpdated { .. }
        | Event::UsageReported { .. }
        | Event::ContextCompacted { .. }
        | Event::Unknown => {}
    }
    updates
}

fn started(step: &Step<'_>, call: &CallId) -> Vec<Update> {
    let Some(call) = step.calls.get(call) else { return Vec::new() };
    let mut updates = Vec::new();
    if call.answer.is_some() {
        updates.push(update(step, tool_call(step, call, ToolStatus::Scheduled)));
    }
    updates.push(update(step, tool_call(step, call, ToolStatus::Executing)));
    if call.answer.is_some() {
        updates.extend(ask_again(step));
    }
    updates
}

fn ended(step: &mut Step<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
    let mut updates = Vec::new();
    if step.calls.get_mut(call).is_some_and(OpenCall::shows_last_live) {
        updates.extend(step.calls.get(call).map(|call| live(step, call)));
    }
    if let Some(call) = step.calls.get(call) {
        let (status, response) = response(call, outcome);
        let record = ToolCall { response: Some(response), ..tool_call(step, call, status) };
        updates.push(update(step, record));
        let refused = call.answer.is_some() && !call.started;
        if refused {
            updates.extend(ask_again(step));
        }
        // The model is asked again. Calls that end with their turn are followed by its end.
        let goes_on = refused || !matches!(outcome, CallOutcome::Cancelled { .. });
        updates.extend((goes_on && step.calls.is_idle()).then(|| changed(step)));
    }
    if let CallOutcome::Succeeded { output } = outcome {
        updates.extend(output.artifact.as_ref().and_then(|artifact| piece(step, artifact)));
    }
    updates
}

fn piece(step: &Step<'_>, artifact: &Artifact) -> Option<Update> {
    let Update::Piece(piece) = published(artifact, step.published_before) else { return None };
    let body = a2a03::project::piece(&step.place, &piece);
    Some(Update::Written { body, ends: None })
}

/// Output that was held back and whose time has come.
fn overdue(step: &mut Step<'_>) -> Vec<Update> {
    let due = if step.running { step.calls.due(step.envelope) } else { Vec::new() };
    due.iter().filter_map(|call| step.calls.get(call).map(|call| live(step, call))).collect()
}

fn printed(step: &mut Step<'_>, call: &CallId) -> Option<Update> {
    let at = step.envelope.at;
    let shows = step.calls.get_mut(call)?.shows_live(at);
    let call = step.calls.get(call).filter(|_| shows)?;
    Some(live(step, call))
}

fn live(step: &Step<'_>, call: &OpenCall) -> Update {
    let text = call.live().unwrap_or_default().to_owned();
    let body = value_of(&ArtifactUpdate {
        task_id: step.place.task.to_string(),
        context_id: step.place.session.to_string(),
        artifact: LiveOutput {
            artifact_id: format!("tool-{}-output", call.id),
            parts: vec![a2a03::types::Part::Text { text }],
        },
        append: false,
        last_chunk: false,
    });
    Update::Written { body, ends: None }
}

/// The questions that are still open, for the stream that an answer to another one opened.
fn ask_again(step: &Step<'_>) -> Vec<Update> {
    let open = step.calls.open_questions();
    let mut updates: Vec<Update> = open.map(|call| confirmation(step, call)).collect();
    if !updates.is_empty() {
        updates.push(waiting(step));
    }
    updates
}

fn confirmation(step: &Step<'_>, call: &OpenCall) -> Update {
    let record = ToolCall {
        confirmation_details: Some(details(call)),
        ..tool_call(step, call, ToolStatus::AwaitingApproval)
    };
    told(step, Kind::ToolCallConfirmation, record)
}

/// The end of a request's stream: somebody has to answer.
fn waiting(step: &Step<'_>) -> Update {
    let metadata = with_usage(step, metadata(step, Kind::StateChange));
    let state = State::InputRequired;
    written(step, state, None, metadata, Some(End::InputRequired))
}

/// The task's state, and why where it failed. A task whose next prompt waits is not over.
fn changed(step: &Step<'_>) -> Update {
    let mut metadata = metadata(step, Kind::StateChange);
    let failure = failure_of(step);
    if let Some(why) = failure {
        metadata.insert("error".into(), why.into());
    }
    let over = step.task.state.is_over().then_some(End::Terminal);
    let metadata = if over.is_some() { with_usage(step, metadata) } else { metadata };
    let said = failure.map(|why| Said::text(failure_id(step.task), why));
    let said = said.or((step.task.state == TaskState::Canceled).then(|| canceled(step.place.task)));
    written(step, state(step.task.state), said, metadata, over)
}

fn noted<'a>(step: &'a Step<'_>) -> impl Iterator<Item = Update> + use<'a> {
    step.notices.iter().map(|notice| note(step, notice))
}

fn note(step: &Step<'_>, notice: &Notice) -> Update {
    let mut metadata = metadata(step, Kind::StateChange);
    if notice.level != Level::Info {
        metadata.insert("error".into(), notice.text.as_str().into());
    }
    let said = Said::text(notice.id(), &notice.text);
    written(step, state(step.task.state), Some(said), metadata, None)
}

/// `trace` names the model's reply that this is part of.
fn spoken(step: &Step<'_>, kind: Kind, said: Said, trace: &str) -> Update {
    let mut metadata = metadata(step, kind);
    metadata.insert("traceId".into(), trace.into());
    written(step, state(step.task.state), Some(said), metadata, None)
}

fn update(step: &Step<'_>, record: ToolCall) -> Update {
    told(step, Kind::ToolCallUpdate, record)
}

fn told(step: &Step<'_>, kind: Kind, record: ToolCall) -> Update {
    let (call, status) = (&record.request.call_id, record.status.word());
    let id = format!("{call}-{}-{status}", step.envelope.seq);
    let said = Said::schemas(id, vec![value_of(&record)]);
    let withdrawn =
        step.calls.get(&CallId::from(call.as_str())).is_some_and(OpenCall::is_withdrawn);
    let shown = if withdrawn { State::InputRequired } else { state(step.task.state) };
    written(step, shown, Some(said), metadata(step, kind), None)
}

fn written(
    step: &Step<'_>,
    state: State,
    said: Option<Said>,
    metadata: Map<String, Value>,
    ends: Option<End>,
) -> Update {
    let (task, session) = (step.place.task.as_str(), step.place.session.as_str());
    let body = value_of(&StatusUpdate {
        task_id: task.to_owned(),
        context_id: session.to_owned(),
        status: Status {
            state,
            message: said.as_ref().map(|said| message(task, session, said)),
            timestamp: rfc3339(step.place.at),
        },
        r#final: ends.is_some(),
        metadata,
    });
    Update::Written { body, ends }
}

fn metadata(step: &Step<'_>, kind: Kind) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert(CODER_AGENT.into(), json!({ "kind": kind.word() }));
    metadata.insert("model".into(), step.place.model.into());
    metadata
}

/// What the turn's last reply cost.
fn with_usage(step: &Step<'_>, mut metadata: Map<String, Value>) -> Map<String, Value> {
    if let Some(usage) = step.usage {
        let total = usage.input_tokens.saturating_add(usage.output_tokens);
        metadata.insert(
            "usageMetadata".into(),
            json!({
                "promptTokenCount": usage.input_tokens,
                "candidatesTokenCount": usage.output_tokens,
                "totalTokenCount": total,
                "thoughtsTokenCount": usage.thought_tokens,
            }),
        );
    }
    metadata
}

fn tool_call(step: &Step<'_>, call: &OpenCall, status: ToolStatus) -> ToolCall {
    let prompt = step.prompt.map(PromptId::as_str).unwrap_or_default();
    record(call, status, step.place.task.as_str(), prompt)
}

fn awaiting(call: &OpenCall, task: &str) -> ToolCall {
    ToolCall {
        confirmation_details: Some(details(call)),
        ..record(call, ToolStatus::AwaitingApproval, task, task)
    }
}
