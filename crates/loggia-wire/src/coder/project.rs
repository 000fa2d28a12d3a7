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
use crate::project::{End, FoldedEvent, Notice};

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

pub(crate) fn updates(folded: &mut FoldedEvent<'_>) -> Vec<Update> {
    let mut updates = overdue(folded);
    match &folded.envelope.event {
        // Its client has the task already, and gets its new state.
        Event::TaskOpened { .. } | Event::TaskClosed { .. } => updates.push(state_update(folded)),
        Event::PromptAccepted { .. } => {
            let first = folded.task.history.len() == 1 && !folded.task.opened;
            let waits = folded.busy && !folded.running;
            updates.extend(first.then_some(Update::Task));
            updates.extend((!first && waits).then(|| state_update(folded)));
        }
        Event::PromptScreened { .. } => updates.push(Update::Task),
        Event::TurnStarted { .. } => {
            updates.push(state_update(folded));
            updates.extend(notices(folded));
        }
        Event::TurnEnded { .. } => updates.push(state_update(folded)),
        Event::PromptWithdrawn { .. } => {
            updates.extend(folded.task.state.is_over().then(|| state_update(folded)));
        }
        Event::TextAppended { message, text, .. } => {
            let said = ChatMessage::text(message.as_str(), text);
            updates.push(message_update(folded, Kind::TextContent, said, message.as_str()));
        }
        Event::ThoughtAppended { message, subject, text, .. } => {
            let thought = json!({ "subject": subject, "description": text });
            let said = ChatMessage::schemas(format!("{message}-thought"), vec![thought]);
            updates.push(message_update(folded, Kind::Thought, said, message.as_str()));
        }
        Event::SourcesCited { turn, sources } => {
            let said = ChatMessage::text(format!("{turn}-sources"), sources_text(sources));
            updates.push(message_update(folded, Kind::Citation, said, turn.as_str()));
        }
        Event::CallProposed { call, .. } => {
            let call = folded.calls.get(call);
            updates.extend(
                call.map(|call| update(folded, tool_call(folded, call, ToolStatus::Scheduled))),
            );
        }
        Event::ApprovalAsked { call, .. } => {
            updates.extend(folded.calls.get(call).map(|call| confirmation(folded, call)));
            updates.push(waiting(folded));
        }
        Event::ApprovalAnswered { call, .. } => {
            updates.extend(folded.calls.get(call).map(|call| confirmation(folded, call)));
        }
        Event::CallStarted { call, .. } => updates.extend(started(folded, call)),
        Event::CallOutput { call, .. } => updates.extend(printed(folded, call)),
        Event::CallEnded { call, outcome } => updates.extend(ended(folded, call, outcome)),
        Event::ArtifactPublished { artifact, .. } => {
            updates.push(published_update(folded, artifact));
        }
        Event::NoticeRaised { .. } => updates.extend(notices(folded)),
        Event::PromptExpanded { command, source, text, .. } => {
            let text = Event::expansion(command, source, text);
            updates.push(notice_update(
                folded,
                &Notice { seq: folded.envelope.seq, level: Level::Info, text },
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
        | Event::ModelRecord { .. }
        | Event::ReplyDiscarded { .. }
        | Event::Unknown => {}
    }
    updates
}

fn started(folded: &FoldedEvent<'_>, call: &CallId) -> Vec<Update> {
    let Some(call) = folded.calls.get(call) else { return Vec::new() };
    let mut updates = Vec::new();
    if call.answer.is_some() {
        updates.push(update(folded, tool_call(folded, call, ToolStatus::Scheduled)));
    }
    updates.push(update(folded, tool_call(folded, call, ToolStatus::Executing)));
    if call.answer.is_some() {
        updates.extend(ask_again(folded));
    }
    updates
}

fn ended(folded: &mut FoldedEvent<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
    let mut updates = Vec::new();
    if folded.calls.get_mut(call).is_some_and(OpenCall::shows_last_live) {
        updates.extend(folded.calls.get(call).map(|call| live(folded, call)));
    }
    if let Some(call) = folded.calls.get(call) {
        let (status, response) = response(call, outcome);
        let record = ToolCall { response: Some(response), ..tool_call(folded, call, status) };
        updates.push(update(folded, record));
        let refused = call.answer.is_some() && !call.started;
        if refused {
            updates.extend(ask_again(folded));
        }
        // The model continues. Calls that end with their turn are followed by the end of the turn.
        let continues = refused || !matches!(outcome, CallOutcome::Cancelled { .. });
        updates.extend((continues && folded.calls.is_idle()).then(|| state_update(folded)));
    }
    if let CallOutcome::Succeeded { output } = outcome {
        let artifact = output.artifact.as_ref();
        updates.extend(artifact.map(|artifact| published_update(folded, artifact)));
    }
    updates
}

fn published_update(folded: &FoldedEvent<'_>, artifact: &Artifact) -> Update {
    let body =
        SPELLING.artifact_frame(&folded.context, &published(artifact, folded.published_before));
    Update::Ready { body, ends: None }
}

/// Output that was held back and is due now.
fn overdue(folded: &mut FoldedEvent<'_>) -> Vec<Update> {
    let due = if folded.running { folded.calls.due(folded.envelope) } else { Vec::new() };
    due.iter().filter_map(|call| folded.calls.get(call).map(|call| live(folded, call))).collect()
}

fn printed(folded: &mut FoldedEvent<'_>, call: &CallId) -> Option<Update> {
    let at = folded.envelope.at;
    let shows = folded.calls.get_mut(call)?.shows_live(at);
    let call = folded.calls.get(call).filter(|_| shows)?;
    Some(live(folded, call))
}

fn live(folded: &FoldedEvent<'_>, call: &OpenCall) -> Update {
    let text = call.live().unwrap_or_default().to_owned();
    let body = json!({
        "kind": "artifact-update",
        "taskId": folded.context.task,
        "contextId": folded.context.session,
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
fn ask_again(folded: &FoldedEvent<'_>) -> Vec<Update> {
    let open = folded.calls.open_questions();
    let mut updates: Vec<Update> = open.map(|call| confirmation(folded, call)).collect();
    if !updates.is_empty() {
        updates.push(waiting(folded));
    }
    updates
}

fn confirmation(folded: &FoldedEvent<'_>, call: &OpenCall) -> Update {
    let record = ToolCall {
        confirmation_details: Some(details(call)),
        ..tool_call(folded, call, ToolStatus::AwaitingApproval)
    };
    call_update(folded, Kind::ToolCallConfirmation, record)
}

/// The end of a request's stream: the task waits for an answer.
fn waiting(folded: &FoldedEvent<'_>) -> Update {
    let metadata = with_usage(folded, metadata(folded, Kind::StateChange));
    let state = TaskState::InputRequired;
    status_update(folded, state, None, metadata, Some(End::InputRequired))
}

/// The task's state, with the reason if it failed. A task with a queued prompt is not over.
fn state_update(folded: &FoldedEvent<'_>) -> Update {
    let mut metadata = metadata(folded, Kind::StateChange);
    let failure = failure_of(folded);
    if let Some(why) = failure {
        metadata.insert("error".into(), why.into());
    }
    let over = folded.task.state.is_over().then_some(End::Terminal);
    let metadata = if over.is_some() { with_usage(folded, metadata) } else { metadata };
    let said = failure.map(|why| ChatMessage::text(failure_id(folded.task), why));
    let said =
        said.or((folded.task.state == TaskState::Canceled).then(|| canceled(folded.context.task)));
    status_update(folded, folded.task.state, said, metadata, over)
}

fn notices<'a>(folded: &'a FoldedEvent<'_>) -> impl Iterator<Item = Update> + use<'a> {
    folded.notices.iter().map(|notice| notice_update(folded, notice))
}

fn notice_update(folded: &FoldedEvent<'_>, notice: &Notice) -> Update {
    let mut metadata = metadata(folded, Kind::StateChange);
    if notice.level != Level::Info {
        metadata.insert("error".into(), notice.text.as_str().into());
    }
    let said = ChatMessage::text(notice.id(), &notice.text);
    status_update(folded, folded.task.state, Some(said), metadata, None)
}

/// `trace` is the id of the model's reply that this is part of.
fn message_update(folded: &FoldedEvent<'_>, kind: Kind, said: ChatMessage, trace: &str) -> Update {
    let mut metadata = metadata(folded, kind);
    metadata.insert("traceId".into(), trace.into());
    status_update(folded, folded.task.state, Some(said), metadata, None)
}

fn update(folded: &FoldedEvent<'_>, record: ToolCall) -> Update {
    call_update(folded, Kind::ToolCallUpdate, record)
}

fn call_update(folded: &FoldedEvent<'_>, kind: Kind, record: ToolCall) -> Update {
    let (call, status) = (&record.request.call_id, record.status.word());
    let id = format!("{call}-{}-{status}", folded.envelope.seq);
    let said = ChatMessage::schemas(id, vec![value_of(&record)]);
    let withdrawn =
        folded.calls.get(&CallId::from(call.as_str())).is_some_and(OpenCall::is_withdrawn);
    let state = if withdrawn { TaskState::InputRequired } else { folded.task.state };
    status_update(folded, state, Some(said), metadata(folded, kind), None)
}

fn status_update(
    folded: &FoldedEvent<'_>,
    state: TaskState,
    message: Option<ChatMessage>,
    metadata: Map<String, Value>,
    ends: Option<End>,
) -> Update {
    let status = StatusChange { state, message, about: None, ends };
    let mut body = SPELLING.status_frame(&folded.context, &status);
    body["metadata"] = Value::Object(metadata);
    Update::Ready { body, ends }
}

fn metadata(folded: &FoldedEvent<'_>, kind: Kind) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert(CODER_AGENT.into(), json!({ "kind": kind.word() }));
    metadata.insert("model".into(), folded.context.model.into());
    metadata
}

/// Adds the cost of the turn's last reply.
fn with_usage(folded: &FoldedEvent<'_>, mut metadata: Map<String, Value>) -> Map<String, Value> {
    if let Some(usage) = folded.usage {
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

fn tool_call(folded: &FoldedEvent<'_>, call: &OpenCall, status: ToolStatus) -> ToolCall {
    let prompt = folded.prompt.map(PromptId::as_str).unwrap_or_default();
    record(call, status, folded.context.task.as_str(), prompt)
}

fn awaiting(call: &OpenCall, task: &str) -> ToolCall {
    ToolCall {
        confirmation_details: Some(details(call)),
        ..record(call, ToolStatus::AwaitingApproval, task, task)
    }
}
