//! The actions that follow a durable event.

use crate::call::CallOutcome;
use crate::event::Event;
use crate::id::{CallId, TurnId};

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Run the agent on this turn.
    StartTurn(TurnId),
    /// Hand out the permit for this call.
    Grant(CallId),
    /// Tell the waiter for this permit that it is denied.
    Deny(CallId, CallOutcome),
    /// The turn is over: stop everything that still runs for it.
    StopTurn(TurnId),
}

impl Effect {
    /// Whether it grants or denies the permit for `call`.
    pub fn answers(&self, call: &CallId) -> bool {
        match self {
            Effect::Grant(decided) | Effect::Deny(decided, _) => decided == call,
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
        | Event::ModelRecord { .. }
        | Event::ReplyDiscarded { .. }
        | Event::Unknown => None,
    }
}
