//! What the outside world has to do once an event is durable.

use crate::call::CallOutcome;
use crate::event::Event;
use crate::id::{CallId, TurnId};

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Run the agent on this turn.
    StartTurn(TurnId),
    /// Hand out the permit for this call.
    Grant(CallId),
    /// Tell whoever waits for a permit that none will come.
    Deny(CallId, CallOutcome),
    /// The turn is over: whatever still runs for it must stop.
    StopTurn(TurnId),
}

impl Effect {
    /// Whether this gives whoever waits for a permit of `call` its answer.
    pub fn settles(&self, call: &CallId) -> bool {
        match self {
            Effect::Grant(settled) | Effect::Deny(settled, _) => settled == call,
            Effect::StartTurn(_) | Effect::StopTurn(_) => false,
        }
    }
}

pub fn effects(event: &Event) -> Option<Effect> {
    match event {
        Event::TurnStarted { turn, .. } => Some(Effect::StartTurn(turn.clone())),
        Event::CallStarted { call, .. } => Some(Effect::Grant(call.clone())),
        Event::CallEnded { call, outcome } => Some(Effect::Deny(call.clone(), outcome.clone())),
        Event::TurnEnded { turn, .. } => Some(Effect::StopTurn(turn.clone())),
        Event::SessionOpened { .. }
        | Event::SettingsChanged { .. }
        | Event::PolicyAmended { .. }
        | Event::SessionNamed { .. }
        | Event::SessionClosed { .. }
        | Event::TaskOpened { .. }
        | Event::TaskClosed { .. }
        | Event::PromptAccepted { .. }
        | Event::PromptWithdrawn { .. }
        | Event::PromptScreened { .. }
        | Event::TextAppended { .. }
        | Event::ThoughtAppended { .. }
        | Event::PlanUpdated { .. }
        | Event::SourcesCited { .. }
        | Event::UsageReported { .. }
        | Event::CallProposed { .. }
        | Event::ApprovalAsked { .. }
        | Event::ApprovalAnswered { .. }
        | Event::CallOutput { .. }
        | Event::ArtifactPublished { .. }
        | Event::ContextCompacted { .. }
        | Event::NoticeRaised { .. }
        | Event::PromptExpanded { .. }
        | Event::Unknown => None,
    }
}
