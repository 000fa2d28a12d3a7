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
use super::keys::{Keys, Ring};
use super::oauth::OAuthError;
use crate::time::now;

/// How often an open stream looks whether its client is still there; half of what is promised.
const LOOK: Duration = Duration::from_millis(500);

/// Clones are the same tenure.
#[derive(Clone, Default)]
pub struct Tenure(Option<Arc<Held>>);

struct Held {
    since: Instant,
    until: Instant,
    credential: Credential,
    roster: Arc<Roster>,
}

/// What a token stands on: a client as it was, and the key that signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credential {
    pub client: String,
    pub serial: String,
    pub key: String,
}

impl Tenure {
    pub(super) fn of(credential: Credential, rest: Duration, roster: Arc<Roster>) -> Self {
        let since = Instant::now();
        Self(Some(Arc::new(Held { since, until: since + rest, credential, roster })))
    }

    /// Whether it is so at this very moment, by the store and not by what it said a moment ago: asked
    /// before anything is done for somebody whose connection stays open.
    pub async fn holds(&self) -> bool {
        let Some(held) = &self.0 else { return true };
        Instant::now() < held.until && held.roster.has_now(&held.credential).await
    }

    /// Returns when the credential has expired or its client is no more what it was: within a second
    /// of that.
    pub async fn over(self) {
        let Some(held) = self.0 else { return std::future::pending().await };
        let revoked = async {
            loop {
                sleep(LOOK).await;
                if !held.roster.has(&held.credential, held.since).await {
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

/// The clients, their serials and the keys, as the store said a moment ago.
pub(super) struct Roster {
    clients: Clients,
    keys: Arc<Keys>,
    /// Not in the store.
    extra: Option<(String, String)>,
    /// A lock, not a task: held for a look.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// When somebody began to read last.
    read: Option<Instant>,
    then: Option<Snapshot>,
}

#[derive(Clone)]
struct Snapshot {
    begun: Instant,
    serials: Arc<HashMap<String, String>>,
    ring: Arc<Ring>,
}

impl Roster {
    pub fn new(clients: Clients, keys: Arc<Keys>, extra: Option<(String, String)>) -> Self {
        Self { clients, keys, extra, known: Mutex::default() }
    }

    /// Whether somebody who was there at `since` still is, as far as is known: what was read before
    /// that says nothing.
    async fn has(&self, credential: &Credential, since: Instant) -> bool {
        if self.is_due() {
            self.read().await;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).then.clone();
        known.is_none_or(|known| {
            let serial = known.serials.get(&credential.client);
            known.begun <= since
                || (is_signed(&known.ring, credential) && self.is_serial(credential, serial))
        })
    }

    /// By the store, now. Where it does not answer, what is asked of it will fail as well.
    async fn has_now(&self, credential: &Credential) -> bool {
        let look = async || -> Result<bool, OAuthError> {
            let found = self.clients.find(&credential.client).await?;
            let serial = found.map(|found| found.serial);
            let ring = self.keys.current().await?;
            Ok(is_signed(&ring, credential) && self.is_serial(credential, serial.as_ref()))
        };
        look().await.unwrap_or_else(|error| {
            tracing::error!(%error, "the clients cannot be read");
            true
        })
    }

    fn is_serial(&self, credential: &Credential, found: Option<&String>) -> bool {
        let Credential { client, serial, .. } = credential;
        let extra = self.extra.as_ref().filter(|(name, _)| name == client);
        extra.map(|(_, serial)| serial).or(found) == Some(serial)
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
        let look = async || -> Result<Snapshot, OAuthError> {
            let listed = self.clients.list().await?;
            let serials = listed.into_iter().map(|client| (client.name, client.serial));
            let (serials, ring) = (Arc::new(serials.collect()), self.keys.current().await?);
            Ok(Snapshot { begun, serials, ring })
        };
        match look().await {
            Ok(then) => {
                self.known.lock().unwrap_or_else(PoisonError::into_inner).then = Some(then);
            }
            Err(error) => tracing::error!(%error, "the clients cannot be read"),
        }
    }
}

fn is_signed(ring: &Ring, credential: &Credential) -> bool {
    ring.verifying(&credential.key, now()).is_some()
}

#[cfg(test)]
mod tests {
    use loggia_session::MemoryStore;

    use super::*;
    use crate::auth::keys::OldTokens;
    use crate::auth::scope::{Grant, Scopes};

    async fn stage() -> (Clients, Arc<Roster>, String) {
        let store = Arc::new(MemoryStore::default());
        let (clients, keys) = (Clients::new(store.clone()), Arc::new(Keys::new(store)));
        clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        keys.current().await.unwrap();
        (clients.clone(), Arc::new(Roster::new(clients, keys, None)), serial)
    }

    async fn tenure(roster: &Arc<Roster>, serial: &str, rest: u64) -> Tenure {
        let key = roster.keys.current().await.unwrap().signing().unwrap().id.clone();
        let credential = Credential { client: "ann".into(), serial: serial.into(), key };
        Tenure::of(credential, Duration::from_secs(rest), roster.clone())
    }

    /// Whoever has seen a key must not go on where it once got in.
    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_key_that_signed() {
        let (_, roster, serial) = stage().await;
        let early = tenure(&roster, &serial, 3_630).await;
        roster.keys.rotate(OldTokens::Stay).await.unwrap();
        assert!(early.holds().await, "believed to its end");
        let hour = tokio::time::timeout(Duration::from_secs(100), early.clone().over());
        hour.await.unwrap_err();
        roster.keys.rotate(OldTokens::End).await.unwrap();
        assert!(!early.holds().await);
        let begun = Instant::now();
        early.over().await;
        assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
        assert!(tenure(&roster, &serial, 3_630).await.holds().await);
    }

    /// Time is advanced by the runtime whenever nothing else is left to do.
    #[tokio::test(start_paused = true)]
    async fn it_lasts_as_long_as_the_token() {
        let (_, roster, serial) = stage().await;
        let begun = Instant::now();
        tenure(&roster, &serial, 3_630).await.over().await;
        assert_eq!(begun.elapsed().as_secs(), 3_630);
        let unlimited =
            tokio::time::timeout(Duration::from_secs(1 << 30), Tenure::default().over());
        assert!(unlimited.await.is_err());
    }

    /// No time passes: what is revoked holds no longer when it is asked next.
    #[tokio::test(start_paused = true)]
    async fn it_is_known_at_once_to_who_asks() {
        let (clients, roster, serial) = stage().await;
        let first = tenure(&roster, &serial, 3_630).await;
        assert!(first.holds().await && Tenure::default().holds().await);
        clients.rotate("ann").await.unwrap();
        assert!(!first.holds().await);
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        let second = tenure(&roster, &serial, 3_630).await;
        assert!(second.holds().await);
        clients.revoke("ann").await.unwrap();
        assert!(!second.holds().await);
        clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
        assert!(!second.holds().await, "another one of this name");
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        let short = tenure(&roster, &serial, 0).await;
        assert!(!short.holds().await, "its time is over");
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_within_a_second_of_its_client() {
        let (clients, roster, serial) = stage().await;
        let early = tenure(&roster, &serial, 3_630).await;
        tokio::time::timeout(Duration::from_secs(100), early.clone().over()).await.unwrap_err();
        clients.rotate("ann").await.unwrap();
        // Somebody who came after what is known was read is not measured by it.
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        let late = tenure(&roster, &serial, 3_630).await;
        let begun = Instant::now();
        early.over().await;
        assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
        tokio::time::timeout(Duration::from_secs(100), late.clone().over()).await.unwrap_err();
        clients.revoke("ann").await.unwrap();
        let begun = Instant::now();
        late.over().await;
        assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}
