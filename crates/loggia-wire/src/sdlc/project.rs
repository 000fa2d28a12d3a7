//! Events as the document names them, in the order of its event-flow diagram.
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
use crate::project::{End, Setup, Step};
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

pub(crate) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    match &step.envelope.event {
        Fact::TaskOpened { .. } | Fact::TaskClosed { .. } => vec![state_update(step)],
        Fact::PromptScreened { prompt, screening, .. } => {
            let said = match screening {
                Screening::Rejected { .. } => None,
                Screening::Answered { text } => {
                    let (text, message_id) = (text.clone(), prompt.to_string());
                    Some(event(Event::TextContent { text, message_id }))
                }
            };
            said.into_iter().chain([state_update(step)]).collect()
        }
        // A queued prompt gets the state of its task; otherwise the next event starts the turn. If the task waits for
        // an answer, its questions are repeated.
        Fact::PromptAccepted { .. } => match (step.busy, step.running) {
            (false, _) => Vec::new(),
            (true, true) if step.task.state == TaskState::InputRequired => ask_again(step),
            (true, _) => vec![state_update(step)],
        },
        Fact::PromptWithdrawn { .. } => {
            step.task.state.is_over().then(|| state_update(step)).into_iter().collect()
        }
        // The document has no event for notices. The settings show what a client did not get.
        Fact::TurnStarted { .. } => {
            let shown = step.settings_changed || !step.notices.is_empty();
            let settings = shown.then_some(step.setup.settings.as_ref()).flatten();
            let settings = settings.map(|settings| agent_settings(step, settings));
            [state_update(step)].into_iter().chain(settings).collect()
        }
        Fact::TurnEnded { .. } => vec![state_update(step)],
        Fact::TextAppended { message, text, .. } => {
            vec![event(Event::TextContent { text: text.clone(), message_id: message.to_string() })]
        }
        Fact::ThoughtAppended { subject, text, .. } => {
            let (subject, description) = (subject.clone(), text.clone());
            vec![event(Event::Thought { subject, description })]
        }
        Fact::SourcesCited { sources, .. } => {
            let citation = |source: &loggia_core::Source| {
                event(Event::Citation { title: source.title.clone(), uri: source.uri.clone() })
            };
            sources.iter().map(citation).collect()
        }
        Fact::SettingsChanged { settings } => vec![agent_settings(step, settings)],
        Fact::CallProposed { call, .. } => {
            update(step, call, ToolCallStatus::Pending, CallDetail::Input).into_iter().collect()
        }
        Fact::ApprovalAsked { call, .. } => {
            let asked = step.calls.get(call).and_then(|call| confirmation(step, call)).map(event);
            asked.into_iter().chain([waiting(step)]).collect()
        }
        Fact::ApprovalAnswered { .. } => match step.calls.open_questions().next() {
            None => vec![state_update(step)],
            Some(_) => Vec::new(),
        },
        Fact::CallStarted { call, .. } => {
            let mut updates: Vec<Update> =
                update(step, call, ToolCallStatus::Executing, CallDetail::Nothing)
                    .into_iter()
                    .collect();
            if step.calls.get(call).is_some_and(|call| call.answer.is_some()) {
                updates.extend(ask_again(step));
            }
            updates
        }
        Fact::CallEnded { call, outcome } => ended(step, call, outcome),
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
        | Fact::Unknown => Vec::new(),
    }
}

fn agent_settings(step: &Step<'_>, settings: &Settings) -> Update {
    event(Event::AgentSettings {
        workspace_path: step.setup.workspace.clone(),
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
    step: &Step<'_>,
    call: &CallId,
    status: ToolCallStatus,
    detail: CallDetail,
) -> Option<Update> {
    let call = step.calls.get(call)?;
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

fn ended(step: &Step<'_>, call: &CallId, outcome: &CallOutcome) -> Vec<Update> {
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
    let mut updates: Vec<Update> = update(step, call, status, detail).into_iter().collect();
    let refused = |call: &OpenCall| call.answer.is_some() && !call.started;
    if step.calls.get(call).is_some_and(refused) {
        updates.extend(ask_again(step));
    }
    updates
}

/// The questions that are still open, for the stream of an answer to another one.
fn ask_again(step: &Step<'_>) -> Vec<Update> {
    let open = step.calls.open_questions().filter_map(|call| confirmation(step, call));
    let mut updates: Vec<Update> = open.map(event).collect();
    if !updates.is_empty() {
        updates.push(waiting(step));
    }
    updates
}

/// The end of a request's stream: the task waits for an answer.
fn waiting(step: &Step<'_>) -> Update {
    let state = TaskState::InputRequired;
    Update::Ready { body: state_change(step, state, None), ends: Some(End::InputRequired) }
}

/// The task's state, with the reason if it failed. A task with a queued prompt is not over.
fn state_update(step: &Step<'_>) -> Update {
    let over = step.task.state.is_over().then_some(End::Terminal);
    let error = failure_of(step).map(str::to_owned);
    Update::Ready { body: state_change(step, step.task.state, error), ends: over }
}

fn state_change(step: &Step<'_>, state: TaskState, error: Option<String>) -> Value {
    value_of(&Event::StateChange {
        task_state: state_of_six(state),
        task_id: step.context.task.to_string(),
        context_id: step.context.session.to_string(),
        timestamp: rfc3339(step.context.at),
        error,
    })
}

fn confirmation(step: &Step<'_>, call: &OpenCall) -> Option<Event> {
    let asked = call.asked.as_ref()?;
    Some(Event::ToolCallConfirmation {
        tool_call_id: call.id.to_string(),
        tool_name: call.tool.clone(),
        input_parameters: object(&call.input),
        confirmation_request: request(step.setup, call, asked),
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
