//! Says which open question times out next.
//!
//! When an actor learns of an open question, it computes once from the log and the wall clock how long the question
//! has been open. After that it uses a monotonic clock. So a crash of the owner does not extend the time, and setting
//! the wall clock or suspending the machine does not shorten it. The session decides what a timeout does.

use std::collections::HashMap;
use std::time::Duration;

use loggia_core::{ApprovalId, Millis, OpenApproval, Session};
use tokio::time::Instant;

#[derive(Default)]
pub(super) struct ApprovalTimeouts {
    open: HashMap<ApprovalId, OpenSince>,
}

struct OpenSince {
    since: Instant,
    /// How long it had been open at `since`.
    waited: Duration,
}

impl ApprovalTimeouts {
    /// The question that times out first, and when. None if questions may wait for ever.
    pub fn next(
        &mut self,
        session: &Session,
        now: impl Fn() -> Millis,
    ) -> Option<(Instant, ApprovalId)> {
        let timeout = session.opened().and_then(|opened| opened.settings.timeout);
        let Some(limit) = timeout.and_then(|timeout| timeout.duration()) else {
            self.open.clear();
            return None;
        };
        self.open.retain(|id, _| session.open_approvals().any(|(_, open)| open.id == *id));
        if session.is_closed() {
            return None;
        }
        let due = |(_, open): (_, &OpenApproval)| {
            let known = self.open.entry(open.id.clone()).or_insert_with(|| OpenSince {
                since: Instant::now(),
                waited: between(open.asked, now()),
            });
            // None: too late for the clock to represent, so never.
            let due = known.since.checked_add(limit.saturating_sub(known.waited))?;
            Some((due, open.id.clone()))
        };
        session.open_approvals().filter_map(due).min_by_key(|(due, _)| *due)
    }
}

/// Zero if the clock was set back in between.
fn between(earlier: Millis, later: Millis) -> Duration {
    Duration::from_millis(u64::try_from(later.0.saturating_sub(earlier.0)).unwrap_or(0))
}

#[cfg(test)]
#[path = "approval_timeout_tests.rs"]
mod tests;
