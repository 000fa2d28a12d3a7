//! Events as the shipped server writes them.
//!
//! A turn that ends leaves the task waiting for input, because that server's clients continue in the same task; a stream
//! ends there nevertheless. Each update of live output replaces the whole output shown before, which is right for
//! clients that replace and for clients that read `append`.

use loggia_core::{Artifact, CallId, CallOutcome, Event, Level, Part, PromptId, TaskId, TaskState};
use serde_json::{Map, Value, json};

use super::record::{details, record, response};
use super::types::{ToolCall, ToolStatus};
use crate::a2a::Spelling;
use crate::a2a03;
use crate::devtool::CODER_AGENT;
use crate::project::calls::OpenCall;
use crate::project::question::{failure_id, failure_of, published, sources_text};
use crate::project::snapshot::TaskSnapshot;
use crate::project::update::{ChatMessage, StatusChange, Update, value_of};
use crate::project::{End, Notice, Step};

/// The kind of an event.
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

const SPELLING: Spelling = Spelling { addressed: true, state, ..a2a03::SPELLING };

/// The task as it is, with the calls that wait for an answer, so that a client that joins late can answer.
pub(crate) fn task(task: TaskSnapshot<'_>) -> Value {
    let calls = task.calls;
    let questions: Vec<Value> = match task.state {
        TaskState::InputRequired => {
            calls.open_questions().map(|call| value_of(&awaiting(call, task.id()))).collect()
        }
        _ => Vec::new(),
    };
    let asked = calls.open_questions().find_map(|call| call.asked.as_ref());
    let asked = asked.filter(|_| !questions.is_empty());
    let asked = asked.map(|asked| ChatMessage::schemas(asked.approval.as_str(), questions));
    let canceled = (task.state == TaskState::Canceled).then(|| canceled(&task.view.id));
    SPELLING.task(&TaskSnapshot {
        message: asked.or(canceled).or(task.message),
        history: Some(task.history.unwrap_or_default()),
        artifacts: Some(task.artifacts.unwrap_or_default()),
        ..task
    })
}

fn canceled(task: &TaskId) -> ChatMessage {
    ChatMessage::text(format!("canceled-{task}"), "Task canceled by user request.")
}

/// A turn that succeeded leaves the task open for the next message.
fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Completed => a2a03::state(TaskState::InputRequired),
        other => a2a03::state(other),
    }
}

pub(crate) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    let mut updates = overdue(step);
    match &step.envelope.event {
        // The client that opened or continues the task has it.
        Event::TaskOpened { .. } | Event::TaskClosed { .. } => updates.push(state_update(step)),
        Event::PromptAccepted { .. } => {
            let first = step.task.history.len() == 1 && !step.task.opened;
            let waits = step.busy && !step.running;
            updates.extend(first.then_some(Update::Task));
            updates.extend((!first && waits).then(|| state_update(step)));
        }
        Event::PromptScreened { .. } => updates.push(Update::Task),
        Event::TurnStarted { .. } => {
            updates.push(state_update(step));
            updates.extend(notices(step));
        }
        Event::TurnEnded { .. } => updates.push(state_update(step)),
        Event::PromptWithdrawn { .. } => {
            updates.extend(step.task.state.is_over().then(|| state_update(step)));
        }
        Event::TextAppended { message, text, .. } => {
            let said = ChatMessage::text(message.as_str(), text);
            updates.push(message_update(step, Kind::TextContent, said, message.as_str()));
        }
        Event::ThoughtAppended { message, subject, text, .. } => {
            let thought = json!({ "subject": subject, "description": text });
            let said = ChatMessage::schemas(format!("{message}-thought"), vec![thought]);
            updates.push(message_update(step, Kind::Thought, said, message.as_str()));
        }
        Event::SourcesCited { turn, sources } => {
            let said = ChatMessage::text(format!("{turn}-sources"), sources_text(sources));
            updates.push(message_update(step, Kind::Citation, said, turn.as_str()));
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
        Event::ArtifactPublished { artifact, .. } => {
            updates.push(published_update(step, artifact));
        }
        Event::NoticeRaised { .. } => updates.extend(notices(step)),
        Event::PromptExpanded { command, source, text, .. } => {
            let text = Event::expansion(command, source, text);
            updates.push(notice_update(
                step,
                &Notice { seq: step.envelope.seq, level: Level::Info, text },
            ));
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
        // The model continues. Calls that end with their turn are followed by the end of the turn.
        let continues = refused || !matches!(outcome, CallOutcome::Cancelled { .. });
        updates.extend((continues && step.calls.is_idle()).then(|| state_update(step)));
    }
    if let CallOutcome::Succeeded { output } = outcome {
        let artifact = output.artifact.as_ref();
        updates.extend(artifact.map(|artifact| published_update(step, artifact)));
    }
    updates
}

fn published_update(step: &Step<'_>, artifact: &Artifact) -> Update {
    let body = SPELLING.artifact_frame(&step.context, &published(artifact, step.published_before));
    Update::Ready { body, ends: None }
}

/// Output that was held back and is due now.
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
    let body = json!({
        "kind": "artifact-update",
        "taskId": step.context.task,
        "contextId": step.context.session,
        "artifact": {
            "artifactId": format!("tool-{}-output", call.id),
            "parts": [a2a03::tagged_part("kind", &Part::Text { text })],
        },
        "append": false,
        "lastChunk": false,
    });
    Update::Ready { body, ends: None }
}

/// The questions that are still open, for the stream of an answer to another one.
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
    call_update(step, Kind::ToolCallConfirmation, record)
}

/// The end of a request's stream: the task waits for an answer.
fn waiting(step: &Step<'_>) -> Update {
    let metadata = with_usage(step, metadata(step, Kind::StateChange));
    let state = TaskState::InputRequired;
    status_update(step, state, None, metadata, Some(End::InputRequired))
}

/// The task's state, with the reason if it failed. A task with a queued prompt is not over.
fn state_update(step: &Step<'_>) -> Update {
    let mut metadata = metadata(step, Kind::StateChange);
    let failure = failure_of(step);
    if let Some(why) = failure {
        metadata.insert("error".into(), why.into());
    }
    let over = step.task.state.is_over().then_some(End::Terminal);
    let metadata = if over.is_some() { with_usage(step, metadata) } else { metadata };
    let said = failure.map(|why| ChatMessage::text(failure_id(step.task), why));
    let said =
        said.or((step.task.state == TaskState::Canceled).then(|| canceled(step.context.task)));
    status_update(step, step.task.state, said, metadata, over)
}

fn notices<'a>(step: &'a Step<'_>) -> impl Iterator<Item = Update> + use<'a> {
    step.notices.iter().map(|notice| notice_update(step, notice))
}

fn notice_update(step: &Step<'_>, notice: &Notice) -> Update {
    let mut metadata = metadata(step, Kind::StateChange);
    if notice.level != Level::Info {
        metadata.insert("error".into(), notice.text.as_str().into());
    }
    let said = ChatMessage::text(notice.id(), &notice.text);
    status_update(step, step.task.state, Some(said), metadata, None)
}

/// `trace` is the id of the model's reply that this is part of.
fn message_update(step: &Step<'_>, kind: Kind, said: ChatMessage, trace: &str) -> Update {
    let mut metadata = metadata(step, kind);
    metadata.insert("traceId".into(), trace.into());
    status_update(step, step.task.state, Some(said), metadata, None)
}

fn update(step: &Step<'_>, record: ToolCall) -> Update {
    call_update(step, Kind::ToolCallUpdate, record)
}

fn call_update(step: &Step<'_>, kind: Kind, record: ToolCall) -> Update {
    let (call, status) = (&record.request.call_id, record.status.word());
    let id = format!("{call}-{}-{status}", step.envelope.seq);
    let said = ChatMessage::schemas(id, vec![value_of(&record)]);
    let withdrawn =
        step.calls.get(&CallId::from(call.as_str())).is_some_and(OpenCall::is_withdrawn);
    let state = if withdrawn { TaskState::InputRequired } else { step.task.state };
    status_update(step, state, Some(said), metadata(step, kind), None)
}

fn status_update(
    step: &Step<'_>,
    state: TaskState,
    message: Option<ChatMessage>,
    metadata: Map<String, Value>,
    ends: Option<End>,
) -> Update {
    let status = StatusChange { state, message, about: None, ends };
    let mut body = SPELLING.status_frame(&step.context, &status);
    body["metadata"] = Value::Object(metadata);
    Update::Ready { body, ends }
}

fn metadata(step: &Step<'_>, kind: Kind) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert(CODER_AGENT.into(), json!({ "kind": kind.word() }));
    metadata.insert("model".into(), step.context.model.into());
    metadata
}

/// Adds the cost of the turn's last reply.
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
    record(call, status, step.context.task.as_str(), prompt)
}

fn awaiting(call: &OpenCall, task: &str) -> ToolCall {
    ToolCall {
        confirmation_details: Some(details(call)),
        ..record(call, ToolStatus::AwaitingApproval, task, task)
    }
}
