//! Events in the document's words: its event-flow diagram, line for line.
//!
//! A prompt that begins at once is told by its turn; one that has to wait is told as submitted, at once.
//! Where several calls wait for an answer, answering one repeats the others: a client that reads
//! one stream a request must hear of them.

use loggia_core::{
    CallId, CallOutcome, Details, Event as Fact, Mode, Risk, Screening, Settings, TaskState,
};
use serde_json::Value;

use super::types::{ConfirmationRequest, Event, TaskMetadata, Weight};
use crate::a2a03::types::State;
use crate::devtool::schema::{ToolCallStatus, object};
use crate::project::calls::{Asked, OpenCall};
use crate::project::question::failure_of;
use crate::project::snapshot::Shape;
use crate::project::update::{Update, value_of};
use crate::project::{End, Setup, Step};
use crate::time::rfc3339;

pub(crate) fn snapshot(shape: &Shape<'_>, model: &str, setup: &Setup) -> Value {
    value_of(&TaskMetadata {
        id: shape.task.to_string(),
        context_id: shape.session.to_string(),
        task_state: State::of_six(shape.state),
        model: model.to_owned(),
        mcp_servers: Vec::new(),
        available_tools: setup.settings.as_ref().and_then(|settings| settings.tools.clone()),
    })
}

pub(crate) fn updates(step: &mut Step<'_>) -> Vec<Update> {
    match &step.envelope.event {
        Fact::TaskOpened { .. } | Fact::TaskClosed { .. } => vec![changed(step)],
        Fact::PromptScreened { prompt, screening, .. } => {
            let said = match screening {
                Screening::Rejected { .. } => None,
                Screening::Answered { text } => {
                    let (text, message_id) = (text.clone(), prompt.to_string());
                    Some(event(Event::TextContent { text, message_id }))
                }
            };
            said.into_iter().chain([changed(step)]).collect()
        }
        // A prompt that has to wait is told the state of its task; otherwise the turn begins with the
        // next event. Where the task itself asks, its questions are repeated.
        Fact::PromptAccepted { .. } => match (step.busy, step.running) {
            (false, _) => Vec::new(),
            (true, true) if step.task.state == TaskState::InputRequired => ask_again(step),
            (true, _) => vec![changed(step)],
        },
        Fact::PromptWithdrawn { .. } => {
            step.task.state.is_over().then(|| changed(step)).into_iter().collect()
        }
        // There is no event for words of the server; what a client did not get shows in the settings.
        Fact::TurnStarted { .. } => {
            let told = step.reconfigured || !step.notices.is_empty();
            let settings = told.then_some(step.setup.settings.as_ref()).flatten();
            let settings = settings.map(|settings| agent_settings(step, settings));
            [changed(step)].into_iter().chain(settings).collect()
        }
        Fact::TurnEnded { .. } => vec![changed(step)],
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
            update(step, call, ToolCallStatus::Pending, Told::Input).into_iter().collect()
        }
        Fact::ApprovalAsked { call, .. } => {
            let asked = step.calls.get(call).and_then(|call| confirmation(step, call)).map(event);
            asked.into_iter().chain([waiting(step)]).collect()
        }
        Fact::ApprovalAnswered { .. } => match step.calls.open_questions().next() {
            None => vec![changed(step)],
            Some(_) => Vec::new(),
        },
        Fact::CallStarted { call, .. } => {
            let mut updates: Vec<Update> =
                update(step, call, ToolCallStatus::Executing, Told::Nothing).into_iter().collect();
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
    Update::Written { body: value_of(&event), ends: None }
}

/// What an update of a call says beside its status.
enum Told {
    Nothing,
    Input,
    Result(String),
    Error(String),
}

fn update(step: &Step<'_>, call: &CallId, status: ToolCallStatus, told: Told) -> Option<Update> {
    let call = step.calls.get(call)?;
    let (mut input_parameters, mut result, mut error) = (None, None, None);
    match told {
        Told::Nothing => {}
        Told::Input => input_parameters = Some(object(&call.input)),
        Told::Result(text) => result = Some(text),
        Told::Error(text) => error = Some(text),
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
    let (status, told) = match outcome {
        CallOutcome::Succeeded { output } => {
            (ToolCallStatus::Succeeded, Told::Result(output.text.clone()))
        }
        CallOutcome::Failed { failure } => {
            (ToolCallStatus::Failed, Told::Error(failure.message.clone()))
        }
        CallOutcome::Cancelled { reason } => {
            (ToolCallStatus::Cancelled, Told::Error(reason.clone()))
        }
    };
    let mut updates: Vec<Update> = update(step, call, status, told).into_iter().collect();
    let refused = |call: &OpenCall| call.answer.is_some() && !call.started;
    if step.calls.get(call).is_some_and(refused) {
        updates.extend(ask_again(step));
    }
    updates
}

/// The questions that are still open, for the stream that an answer to another one opened.
fn ask_again(step: &Step<'_>) -> Vec<Update> {
    let open = step.calls.open_questions().filter_map(|call| confirmation(step, call));
    let mut updates: Vec<Update> = open.map(event).collect();
    if !updates.is_empty() {
        updates.push(waiting(step));
    }
    updates
}

/// The end of a request's stream: somebody has to answer.
fn waiting(step: &Step<'_>) -> Update {
    let state = TaskState::InputRequired;
    Update::Written { body: state_change(step, state, None), ends: Some(End::InputRequired) }
}

/// The task's state, and why where it failed. A task whose next prompt waits is not over.
fn changed(step: &Step<'_>) -> Update {
    let over = step.task.state.is_over().then_some(End::Terminal);
    let error = failure_of(step).map(str::to_owned);
    Update::Written { body: state_change(step, step.task.state, error), ends: over }
}

fn state_change(step: &Step<'_>, state: TaskState, error: Option<String>) -> Value {
    value_of(&Event::StateChange {
        task_state: State::of_six(state),
        task_id: step.place.task.to_string(),
        context_id: step.place.session.to_string(),
        timestamp: rfc3339(step.place.at),
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

/// What runs a program or touches what configures programs weighs more than what reads.
fn request(setup: &Setup, call: &OpenCall, asked: &Asked) -> ConfirmationRequest {
    let (prompt, kind) = match &call.details {
        Details::Execute { command, directory } => {
            let directory = setup.directory(directory);
            (format!("Run in {directory}:\n{command}"), Weight::Warning)
        }
        Details::Edit(diff) => (diff.unified.clone(), Weight::Warning),
        Details::Mcp { server, tool } => {
            (format!("Use the tool {tool} of the server {server}."), Weight::Warning)
        }
        Details::Question { text, options } if options.is_empty() => (text.clone(), Weight::Info),
        Details::Question { text, options } => {
            (format!("{text}\n- {}", options.join("\n- ")), Weight::Info)
        }
        Details::Generic { text } => (text.clone(), Weight::Info),
    };
    let kind = if asked.risk == Risk::High { Weight::Danger } else { kind };
    ConfirmationRequest { title: call.title.clone(), prompt, kind }
}
