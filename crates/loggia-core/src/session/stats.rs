//! Statistics of a session, folded from its log.

use crate::call::CallOutcome;
use crate::event::{Envelope, Event, TurnOutcome, Usage};
use crate::id::Millis;
use crate::prices::UsageByModel;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Turns that were started.
    pub turns: u64,
    /// Failed or interrupted.
    pub failed: u64,
    pub cancelled: u64,
    /// Proposed calls, then the ended ones by outcome.
    pub calls: u64,
    pub calls_succeeded: u64,
    pub calls_failed: u64,
    /// Refused or stopped.
    pub calls_cancelled: u64,
    /// Questions that were asked.
    pub questions: u64,
    pub compactions: u64,
    pub usage: Usage,
    pub by_model: UsageByModel,
    /// Milliseconds of all turns that ended, including the time they waited.
    pub working: u64,
    pub opened: Millis,
    /// When the running turn was started.
    running: Option<Millis>,
}

impl Stats {
    pub fn apply(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::SessionOpened { .. } => self.opened = envelope.at,
            Event::TurnStarted { .. } => {
                self.turns += 1;
                self.running = Some(envelope.at);
            }
            Event::TurnEnded { outcome, .. } => {
                let since = self.running.take().unwrap_or(envelope.at);
                // The clock may have been set back.
                let spent = u64::try_from(envelope.at.0.saturating_sub(since.0)).unwrap_or(0);
                self.working = self.working.saturating_add(spent);
                match outcome {
                    TurnOutcome::Completed => {}
                    TurnOutcome::Failed { .. } | TurnOutcome::Interrupted => self.failed += 1,
                    TurnOutcome::Cancelled => self.cancelled += 1,
                }
            }
            Event::UsageReported { model, usage, .. } => {
                self.usage.add(usage);
                self.by_model.add(model, usage);
            }
            Event::CallProposed { .. } => self.calls += 1,
            Event::CallEnded { outcome, .. } => match outcome {
                CallOutcome::Succeeded { .. } => self.calls_succeeded += 1,
                CallOutcome::Failed { .. } => self.calls_failed += 1,
                CallOutcome::Cancelled { .. } => self.calls_cancelled += 1,
            },
            Event::ApprovalAsked { .. } => self.questions += 1,
            Event::ContextCompacted { .. } => self.compactions += 1,
            Event::SettingsChanged { .. }
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
            | Event::ApprovalAnswered { .. }
            | Event::CallStarted { .. }
            | Event::CallOutput { .. }
            | Event::ArtifactPublished { .. }
            | Event::NoticeRaised { .. }
            | Event::PromptExpanded { .. }
            | Event::ModelRecord { .. }
            | Event::ReplyDiscarded { .. }
            | Event::Unknown => {}
        }
    }
}
