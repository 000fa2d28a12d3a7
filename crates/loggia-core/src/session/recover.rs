//! The crash table: what to append when a log is opened and its last owner is gone.
//!
//! | found in the log            | becomes                                                     |
//! |-----------------------------|-------------------------------------------------------------|
//! | call started, not ended     | failed ("interrupted"); never run again                      |
//! | call asked, not answered    | stays open; the agent runs again on the same history, waits  |
//! | turn with nothing asked     | ended as interrupted; the next queued prompt starts          |
//! | prompt queued               | stays queued                                                 |

use crate::call::{CallFailure, CallOutcome};
use crate::event::{Event, TurnOutcome};
use crate::id::Fresh;
use crate::session::Session;

impl Session {
    /// Nothing to append means that the last owner left in order, or that only a person is missing.
    pub fn recover(&self, fresh: &Fresh) -> Vec<Event> {
        self.recover_after(None, fresh)
    }

    /// The same where it is known why the last owner stopped: the turn has failed for that reason.
    pub fn recover_after(&self, failure: Option<&str>, fresh: &Fresh) -> Vec<Event> {
        let Some(turn) = &self.turn else {
            // A prompt and its turn are one append, so a queue without a turn can only come from
            // a log written by something else; it must not wait for ever all the same.
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
