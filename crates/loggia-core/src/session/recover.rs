//! Recovery: the events to append when a log is opened after its last owner has crashed.
//!
//! | found in the log            | result                                                      |
//! |-----------------------------|-------------------------------------------------------------|
//! | call started, not ended     | fails ("interrupted"); never runs again                      |
//! | call asked, not answered    | stays open; the agent runs again on the same history, waits  |
//! | turn without open question  | ends as interrupted; the next queued prompt starts           |
//! | prompt queued               | stays queued                                                 |

use crate::call::{CallFailure, CallOutcome};
use crate::event::{Event, TurnOutcome};
use crate::id::FreshIds;
use crate::session::Session;

impl Session {
    /// Returns nothing if the last owner closed in order, or if the turn only waits for an answer.
    pub fn recover(&self, fresh: &FreshIds) -> Vec<Event> {
        self.recover_after(None, fresh)
    }

    /// The same if it is known why the last owner stopped: the turn fails with that reason.
    pub fn recover_after(&self, failure: Option<&str>, fresh: &FreshIds) -> Vec<Event> {
        let Some(turn) = &self.turn else {
            // A prompt and its turn are one append, so Loggia never writes a queue without a turn.
            // If a log has one anyway, its prompts must not wait forever.
            return self.start_next(fresh, &[]).into_iter().collect();
        };
        let mut events: Vec<Event> = turn
            .calls
            .iter()
            .filter(|call| call.approval.is_none())
            .map(|call| Event::CallEnded {
                call: call.id.clone(),
                outcome: CallOutcome::Failed { failure: CallFailure::interrupted() },
            })
            .collect();
        if self.open_approvals().next().is_none() {
            events.push(Event::TurnEnded {
                turn: turn.id.clone(),
                outcome: match failure {
                    Some(message) => TurnOutcome::failed(message),
                    None => TurnOutcome::Interrupted,
                },
            });
            events.extend(self.start_next(fresh, &[]));
        }
        events
    }
}
