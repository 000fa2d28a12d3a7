//! How long a principal stays who it is: a stream that outlives its credential would be a way around
//! its end. Without a credential that ends, for ever.
//!
//! Ends are told by the monotonic clock, so that a clock that is set cuts nobody off early (R23), and
//! by the store, which is asked once for all streams and not once for each.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::client::Clients;

/// How often an open stream looks whether its client is still there; half of what is promised.
const LOOK: Duration = Duration::from_millis(500);

/// Clones are the same tenure.
#[derive(Clone, Default)]
pub struct Tenure(Option<Arc<Held>>);

struct Held {
    since: Instant,
    until: Instant,
    client: String,
    serial: String,
    roster: Arc<Roster>,
}

impl Tenure {
    pub(super) fn of(client: String, serial: String, rest: Duration, roster: Arc<Roster>) -> Self {
        let since = Instant::now();
        Self(Some(Arc::new(Held { since, until: since + rest, client, serial, roster })))
    }

    /// Returns when the credential has expired or its client is no more what it was.
    pub async fn over(self) {
        let Some(held) = self.0 else { return std::future::pending().await };
        let revoked = async {
            loop {
                sleep(LOOK).await;
                if !held.roster.has(&held.client, &held.serial, held.since).await {
                    return;
                }
            }
        };
        tokio::select! {
            () = sleep_until(held.until) => {}
            () = revoked => {}
        }
    }
}

impl PartialEq for Tenure {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl Eq for Tenure {}

impl fmt::Debug for Tenure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "Tenure(limited)" } else { "Tenure(unlimited)" })
    }
}

/// The clients and their serials, as the store said a moment ago.
pub(super) struct Roster {
    clients: Clients,
    /// Not in the store.
    extra: Option<(String, String)>,
    /// A lock, not a task: held for a look.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// When somebody began to read last.
    read: Option<Instant>,
    serials: Option<Snapshot>,
}

#[derive(Clone)]
struct Snapshot {
    begun: Instant,
    serials: Arc<HashMap<String, String>>,
}

impl Roster {
    pub fn new(clients: Clients, extra: Option<(String, String)>) -> Self {
        Self { clients, extra, known: Mutex::default() }
    }

    /// Whether somebody who was there at `since` still is, as far as is known: what was read before
    /// that says nothing.
    async fn has(&self, client: &str, serial: &str, since: Instant) -> bool {
        if self.extra.as_ref().is_some_and(|(name, is)| name == client && is == serial) {
            return true;
        }
        if self.is_due() {
            self.read().await;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).serials.clone();
        known.is_none_or(|known| {
            known.begun <= since || known.serials.get(client).is_some_and(|is| is == serial)
        })
    }

    /// True for one of all who ask.
    fn is_due(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let due = known.read.is_none_or(|read| read.elapsed() >= LOOK);
        if due {
            known.read = Some(Instant::now());
        }
        due
    }

    /// Where the store does not answer nobody is cut off: a new request will be.
    async fn read(&self) {
        let begun = Instant::now();
        match self.clients.list().await {
            Ok(listed) => {
                let serials = listed.into_iter().map(|client| (client.name, client.serial));
                let serials = Arc::new(serials.collect());
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.serials = Some(Snapshot { begun, serials });
            }
            Err(error) => tracing::error!(%error, "the clients cannot be read"),
        }
    }
}
