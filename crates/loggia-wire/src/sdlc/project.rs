//! Events under the names of the SDLC specification, in the order of its event-flow diagram.
//!
//! A prompt that starts at once shows as its turn; a queued prompt shows as submitted. If several calls wait for an
//! answer, an answer to one repeats the others: a client that reads one stream for each request must see them.

use loggia_core::{
    CallId, CallOutcome, Details, Event as Fact, Mode, Risk, Screening, Settings, TaskState,
};
use serde_json::Value;

use super::types::{ConfirmationRequest, Event, Severity, TaskMetadata};
use crate::a2a03::state_of_six;
use crate::devtool::schema::{ToolCallStatus, object};
use crate::project::calls::{OpenCall, PendingApproval};
use crate::project::question::failure_of;
use crate::project::snapshot::TaskSnapshot;
use crate::project::update::{Update, value_of};
use crate::project::{End, FoldedEvent, Setup};
use crate::time::rfc3339;

pub(crate) fn task(task: &TaskSnapshot<'_>) -> Value {
    let settings = task.setup.settings.as_ref();
    value_of(&TaskMetadata {
        id: task.id().to_owned(),
        context_id: task.session.to_string(),
        task_state: state_of_six(task.state),
        model: task.setup.model.clone(),
        mcp_servers: Vec::new(),
        available_tools: settings.and_then(|settings| settings.tools.clone()),
    })
}

pub(crate) fn updates(folded: &mut FoldedEvent<'_>) -> Vec<Update> {
    match &folded.envelope.event {
        Fact::TaskOpened { .. } | Fact::TaskClosed { .. } => vec![state_update(folded)],
        Fact::PromptScreened { prompt, screening, .. } => {
            let said = match screening {
                Screening::Rejected { .. } => None,
                Screening::Answered { text } => {
                    let (text, message_id) = (text.clone(), prompt.to_string());
                    Some(event(Event::TextContent { text, message_id }))
                }
            };
            said.into_iter().chain([state_update(folded)]).collect()
        }
        // A queued prompt gets the state of its task; otherwise the next event starts the turn. If the task waits for
        // an answer, its questions are repeated.
        Fact::PromptAccepted { .. } => match (folded.busy, folded.running) {
            (false, _) => Vec::new(),
            (true, true) if folded.task.state == TaskState::InputRequired => ask_again(folded),
            (true, _) => vec![state_update(folded)],
        },
        Fact::PromptWithdrawn { .. } => {
            folded.task.state.is_over().then(|| state_update(folded)).into_iter().collect()
        }
        // The specification has no event for notices. The settings show what a client did not get.
        Fact::TurnStarted { .. } => {
            let shown = folded.settings_changed || !folded.notices.is_empty();
            let settings = shown.then_some(folded.setup.settings.as_ref()).flatten();
            let settings = settings.map(|settings| agent_settings(folded, settings));
            [state_update(folded)].into_iter().chain(settings).collect()
        }
        Fact::TurnEnded { .. } => vec![state_update(folded)],
        Fact::TextAppended { message, text, .. } => {
            vec![event(Event::TextContent { text: text.clone(), message_id: message.to_string() })]
        }
        Fact::ThoughtAppended { subject, text, .. } => {
            let (subject, description) = (subject.clone(), text.clone());
            vec![event(Event::Thought { subject, description })]
        }
        // The specification has no event for notices, and none for discarded text.
        Fact::ReplyDiscarded { message, .. } => {
            let text = DISCARDED.to_owned();
            vec![event(Event::TextContent { text, message_id: format!("{message}-discarded") })]
        }
        Fact::SourcesCited { sources, .. } => {
            let citation = |source: &loggia_core::Source| {
                event(Event::Citation { title: source.title.clone(), uri: source.uri.clone() })
            };
            sources.iter().map(citation).collect()
        }
        Fact::SettingsChanged { settings } => vec![agent_settings(folded, settings)],
        Fact::CallProposed { call, .. } => {
            update(folded, call, ToolCallStatus::Pending, CallDetail::Input).into_iter().collect()
        }
        Fact::ApprovalAsked { call, .. } => {
            let asked =
                folded.calls.get(call).and_then(|call| confirmation(folded, call)).map(event);
            asked.into_iter().chain([waiting(folded)]).collect()
        }
        Fact::ApprovalAnswered { .. } => match folded.calls.open_questions().next() {
            None => vec![state_update(folded)],
            Some(_) => Vec::new(),
        },
        Fact::CallStarted { call, .. } => {
            let mut updates: Vec<Update> =
                update(folded, call, ToolCallStatus::Executing, CallDetail::Nothing)
                    .into_iter()
                    .collect();
            if folded.calls.get(call).is_some_and(|call| call.answer.is_some()) {
                updates.extend(ask_again(folded));
            }
            updates
        }
        Fact::CallEnded { call, outcome } => ended(folded, call, outcome),
        Fact::SessionOpened { .. }
        | Fact::PolicyAmended { .. }
        | Fact::SessionNamed { .. }
        | Fact::SessionClosed { .. }
        | Fact::PlanUpdated { .. }
        | Fact::UsageReported { .. }
        | Fact::CallOutput { .. }
        | Fact::ArtifactPublished { .. }
        | Fact::ContextCompacted { .. }
        | Fact::NoticeRaised { .. }
        | Fact::PromptExpanded { .. }
        | Fact::ModelRecord { .. }
        | Fact::Unknown => Vec::new(),
    }
}

const DISCARDED: &str =
    "[The reply broke off and does not count. The model is asked for it again.]";

fn agent_settings(folded: &FoldedEvent<'_>, settings: &Settings) -> Update {
    event(Event::AgentSettings {
        workspace_path: folded.setup.workspace.clone(),
        auto_execute: settings.mode == Mode::All,
    })
}

fn event(event: Event) -> Update {
    Update::Ready { body: value_of(&event), ends: None }
}

/// A detail in an update of a call, besides its status.
enum CallDetail {
    Nothing,
    Input,
    Result(String),
    Error(String),
}

fn update(
    folded: &FoldedEvent<'_>,
    call: &CallId,
    status: ToolCallStatus,
    detail: CallDetail,
) -> Option<Update> {
    let call = folded.calls.get(call)?;
    let (mut input_parameters, mut result, mut error) = (None, None, None);
    match detail {
        CallDetail::Nothing => {}
        CallDetail::Input => input_parameters = Some(object(&call.input)),
        CallDetail::Result(text) => result = Some(text),
        CallDetail::Error(text) => error = Some(text),
    }
    Some(event(Event::ToolCallUpdate {
        tool_call_id: call.id.to_string(),
        tool_name: call.tool.clone(),
        status,
        input_parameters,
        result,
        error,
    }))
}

fn ended(folded: &FoldedEvent<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
    let (status, detail) = match outcome {
        CallOutcome::Succeeded { output } => {
            (ToolCallStatus::Succeeded, CallDetail::Result(output.text.clone()))
        }
        CallOutcome::Failed { failure } => {
            (ToolCallStatus::Failed, CallDetail::Error(failure.message.clone()))
        }
        CallOutcome::Cancelled { reason } => {
            (ToolCallStatus::Cancelled, CallDetail::Error(reason.clone()))
        }
    };
    let mut updates: Vec<Update> = update(folded, call, status, detail).into_iter().collect();
    let refused = |call: &OpenCall| call.answer.is_some() && !call.started;
    if folded.calls.get(call).is_some_and(refused) {
        updates.extend(ask_again(folded));
    }
    updates
}

/// The questions that are still open, for the stream of an answer to another one.
fn ask_again(folded: &FoldedEvent<'_>) -> Vec<Update> {
    let open = folded.calls.open_questions().filter_map(|call| confirmation(folded, call));
    let mut updates: Vec<Update> = open.map(event).collect();
    if !updates.is_empty() {
        updates.push(waiting(folded));
    }
    updates
}

/// The end of a request's stream: the task waits for an answer.
fn waiting(folded: &FoldedEvent<'_>) -> Update {
    let state = TaskState::InputRequired;
    Update::Ready { body: state_change(folded, state, None), ends: Some(End::InputRequired) }
}

/// The task's state, with the reason if it failed. A task with a queued prompt is not over.
fn state_update(folded: &FoldedEvent<'_>) -> Update {
    let over = folded.task.state.is_over().then_some(End::Terminal);
    let error = failure_of(folded).map(str::to_owned);
    Update::Ready { body: state_change(folded, folded.task.state, error), ends: over }
}

fn state_change(folded: &FoldedEvent<'_>, state: TaskState, error: Option<String>) -> Value {
    value_of(&Event::StateChange {
        task_state: state_of_six(state),
        task_id: folded.context.task.to_string(),
        context_id: folded.context.session.to_string(),
        timestamp: rfc3339(folded.context.at),
        error,
    })
}

fn confirmation(folded: &FoldedEvent<'_>, call: &OpenCall) -> Option<Event> {
    let asked = call.asked.as_ref()?;
    Some(Event::ToolCallConfirmation {
        tool_call_id: call.id.to_string(),
        tool_name: call.tool.clone(),
        input_parameters: object(&call.input),
        confirmation_request: request(folded.setup, call, asked),
    })
}

/// Commands and changes are warnings, questions are information, high risk is danger.
fn request(setup: &Setup, call: &OpenCall, asked: &PendingApproval) -> ConfirmationRequest {
    let (prompt, kind) = match &call.details {
        Details::Execute { command, directory } => {
            let directory = setup.directory(directory);
            (format!("Run in {directory}:\n{command}"), Severity::Warning)
        }
        Details::Edit(diff) => (diff.unified.clone(), Severity::Warning),
        Details::Mcp { server, tool } => {
            (format!("Use the tool {tool} of the server {server}."), Severity::Warning)
        }
        Details::Question { text, options } if options.is_empty() => (text.clone(), Severity::Info),
        Details::Question { text, options } => {
            (format!("{text}\n- {}", options.join("\n- ")), Severity::Info)
        }
        Details::Generic { text } => (text.clone(), Severity::Info),
    };
    let kind = if asked.risk == Risk::High { Severity::Danger } else { kind };
    ConfirmationRequest { title: call.title.clone(), prompt, kind }
}
