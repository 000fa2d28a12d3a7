//! Ends streams when their credential expires or is revoked. Local clients have no credential that ends.
//!
//! Expiry is measured by the monotonic clock, so that setting the wall clock ends no stream early (R23).
//! Revocation is read from the store, once for all streams.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::client::Clients;
use super::keys::{KeyRing, Keys};
use super::oauth::OAuthError;
use crate::time::now;

/// How often an open stream checks for revocation; half of the documented second.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// When the credential of a connection ends. Clones share it.
#[derive(Clone, Default)]
pub struct CredentialLifetime(Option<Arc<ExpiringCredential>>);

struct ExpiringCredential {
    since: Instant,
    until: Instant,
    credential: Credential,
    active: Arc<ActiveCredentials>,
}

/// A token's client and serial, and the key that signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credential {
    pub client: String,
    pub serial: String,
    pub key: String,
}

impl CredentialLifetime {
    pub(super) fn of(
        credential: Credential,
        remaining: Duration,
        active: Arc<ActiveCredentials>,
    ) -> Self {
        let since = Instant::now();
        Self(Some(Arc::new(ExpiringCredential {
            since,
            until: since + remaining,
            credential,
            active,
        })))
    }

    /// Whether the credential is valid now, by the store and not by a cache. Checked before each request
    /// of a connection that stays open.
    pub async fn is_valid(&self) -> bool {
        let Some(held) = &self.0 else { return true };
        Instant::now() < held.until && held.active.has_now(&held.credential).await
    }

    /// Returns within a second after the credential has expired or was revoked.
    pub async fn ended(self) {
        let Some(held) = self.0 else { return std::future::pending().await };
        let revoked = async {
            loop {
                sleep(CHECK_INTERVAL).await;
                if !held.active.has(&held.credential, held.since).await {
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

impl PartialEq for CredentialLifetime {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl Eq for CredentialLifetime {}

impl fmt::Debug for CredentialLifetime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() {
            "CredentialLifetime(expiring)"
        } else {
            "CredentialLifetime(unlimited)"
        })
    }
}

/// The serials of all clients and the keys, cached for [`CHECK_INTERVAL`].
pub(super) struct ActiveCredentials {
    clients: Clients,
    keys: Arc<Keys>,
    /// The name and serial of a client that is not in the store.
    extra: Option<(String, String)>,
    /// A lock, not a task: held to copy the cache.
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// When the last read began.
    read: Option<Instant>,
    snapshot: Option<Snapshot>,
}

#[derive(Clone)]
struct Snapshot {
    begun: Instant,
    serials: Arc<HashMap<String, String>>,
    ring: Arc<KeyRing>,
}

impl ActiveCredentials {
    pub fn new(clients: Clients, keys: Arc<Keys>, extra: Option<(String, String)>) -> Self {
        Self { clients, keys, extra, cache: Mutex::default() }
    }

    /// Whether a credential that was valid at `since` still is, by the cache. A snapshot from before
    /// `since` says nothing about it.
    async fn has(&self, credential: &Credential, since: Instant) -> bool {
        if self.is_due() {
            self.read().await;
        }
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = cache.snapshot.clone();
        drop(cache);
        snapshot.is_none_or(|known| {
            let serial = known.serials.get(&credential.client);
            known.begun <= since
                || (is_signed(&known.ring, credential) && self.is_serial(credential, serial))
        })
    }

    /// By the store. If it cannot be read the answer is yes: the request itself will fail then.
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

    /// True for one caller in each interval.
    fn is_due(&self) -> bool {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let due = cache.read.is_none_or(|read| read.elapsed() >= CHECK_INTERVAL);
        if due {
            cache.read = Some(Instant::now());
        }
        due
    }

    /// If the store cannot be read, open streams stay; new requests fail.
    async fn read(&self) {
        let begun = Instant::now();
        let look = async || -> Result<Snapshot, OAuthError> {
            let listed = self.clients.list().await?;
            let serials = listed.into_iter().map(|client| (client.name, client.serial));
            let (serials, ring) = (Arc::new(serials.collect()), self.keys.current().await?);
            Ok(Snapshot { begun, serials, ring })
        };
        match look().await {
            Ok(snapshot) => {
                let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
                cache.snapshot = Some(snapshot);
            }
            Err(error) => tracing::error!(%error, "the clients cannot be read"),
        }
    }
}

fn is_signed(ring: &KeyRing, credential: &Credential) -> bool {
    ring.verifying(&credential.key, now()).is_some()
}

#[cfg(test)]
mod tests {
    use loggia_session::MemoryStore;

    use super::*;
    use crate::auth::keys::OldTokens;
    use crate::auth::scope::{Grant, Scopes};

    async fn stage() -> (Clients, Arc<ActiveCredentials>, String) {
        let store = Arc::new(MemoryStore::default());
        let (clients, keys) = (Clients::new(store.clone()), Arc::new(Keys::new(store)));
        clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        keys.current().await.unwrap();
        (clients.clone(), Arc::new(ActiveCredentials::new(clients, keys, None)), serial)
    }

    async fn lifetime(
        active: &Arc<ActiveCredentials>,
        serial: &str,
        remaining: u64,
    ) -> CredentialLifetime {
        let key = active.keys.current().await.unwrap().signing().unwrap().id.clone();
        let credential = Credential { client: "ann".into(), serial: serial.into(), key };
        CredentialLifetime::of(credential, Duration::from_secs(remaining), active.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_key_that_signed() {
        let (_, active, serial) = stage().await;
        let early = lifetime(&active, &serial, 3_630).await;
        active.keys.rotate(OldTokens::Stay).await.unwrap();
        assert!(early.is_valid().await, "valid until it expires");
        let hour = tokio::time::timeout(Duration::from_secs(100), early.clone().ended());
        hour.await.unwrap_err();
        active.keys.rotate(OldTokens::End).await.unwrap();
        assert!(!early.is_valid().await);
        let begun = Instant::now();
        early.ended().await;
        assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
        assert!(lifetime(&active, &serial, 3_630).await.is_valid().await);
    }

    /// Time is advanced by the runtime whenever nothing else is left to do.
    #[tokio::test(start_paused = true)]
    async fn it_lasts_as_long_as_the_token() {
        let (_, active, serial) = stage().await;
        let begun = Instant::now();
        lifetime(&active, &serial, 3_630).await.ended().await;
        assert_eq!(begun.elapsed().as_secs(), 3_630);
        let unlimited = tokio::time::timeout(
            Duration::from_secs(1 << 30),
            CredentialLifetime::default().ended(),
        );
        assert!(unlimited.await.is_err());
    }

    /// No time passes between the revocation and the next check.
    #[tokio::test(start_paused = true)]
    async fn a_revocation_is_seen_by_the_next_check() {
        let (clients, active, serial) = stage().await;
        let first = lifetime(&active, &serial, 3_630).await;
        assert!(first.is_valid().await && CredentialLifetime::default().is_valid().await);
        clients.rotate("ann").await.unwrap();
        assert!(!first.is_valid().await);
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        let second = lifetime(&active, &serial, 3_630).await;
        assert!(second.is_valid().await);
        clients.revoke("ann").await.unwrap();
        assert!(!second.is_valid().await);
        clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
        assert!(!second.is_valid().await, "another one of this name");
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        let short = lifetime(&active, &serial, 0).await;
        assert!(!short.is_valid().await, "its time is over");
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_within_a_second_of_its_client() {
        let (clients, active, serial) = stage().await;
        let early = lifetime(&active, &serial, 3_630).await;
        tokio::time::timeout(Duration::from_secs(100), early.clone().ended()).await.unwrap_err();
        clients.rotate("ann").await.unwrap();
        // A credential that is newer than the cache is not checked by it.
        let serial = clients.find("ann").await.unwrap().unwrap().serial;
        let late = lifetime(&active, &serial, 3_630).await;
        let begun = Instant::now();
        early.ended().await;
        assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
        tokio::time::timeout(Duration::from_secs(100), late.clone().ended()).await.unwrap_err();
        clients.revoke("ann").await.unwrap();
        let begun = Instant::now();
        late.ended().await;
        assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}
