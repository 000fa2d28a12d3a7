//! The clock of open questions: whose time is up next.
//!
//! How long a question was open before this writer knew it is told by the log and the wall clock, once;
//! from then on a clock counts that nobody sets. So an owner that died does not give a question more
//! time, and a wall clock that is set, or a machine that slept, does not take any away. What follows
//! when the time is up is for the session to decide.

use std::collections::HashMap;
use std::time::Duration;

use loggia_core::{ApprovalId, Millis, OpenApproval, Session};
use tokio::time::Instant;

#[derive(Default)]
pub(super) struct Patience {
    known: HashMap<ApprovalId, Known>,
}

struct Known {
    since: Instant,
    /// What had passed by then.
    waited: Duration,
}

impl Patience {
    /// The question whose time is up first, and when. None where questions may wait for ever.
    pub fn next(
        &mut self,
        session: &Session,
        now: impl Fn() -> Millis,
    ) -> Option<(Instant, ApprovalId)> {
        let timeout = session.opened().and_then(|opened| opened.settings.timeout);
        let Some(patience) = timeout.and_then(|timeout| timeout.duration()) else {
            self.known.clear();
            return None;
        };
        self.known.retain(|known, _| session.open_approvals().any(|(_, open)| open.id == *known));
        if session.is_closed() {
            return None;
        }
        let due = |(_, open): (_, &OpenApproval)| {
            let known = self.known.entry(open.id.clone()).or_insert_with(|| Known {
                since: Instant::now(),
                waited: between(open.asked, now()),
            });
            // Too far away to be a moment: never.
            let due = known.since.checked_add(patience.saturating_sub(known.waited))?;
            Some((due, open.id.clone()))
        };
        session.open_approvals().filter_map(due).min_by_key(|(due, _)| *due)
    }
}

/// Nothing, where the clock was set back in between.
fn between(earlier: Millis, later: Millis) -> Duration {
    Duration::from_millis(u64::try_from(later.0.saturating_sub(earlier.0)).unwrap_or(0))
}

/// Returns when the time of a question is up; never, where there is none.
pub(super) async fn expired(next: Option<(Instant, ApprovalId)>) -> ApprovalId {
    match next {
        Some((due, approval)) => {
            tokio::time::sleep_until(due).await;
            approval
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "patience_tests.rs"]
mod tests;
