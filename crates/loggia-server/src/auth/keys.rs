//! The keys that tokens are signed with. The newest signs; older ones verify as long as a token that they
//! signed can be valid, so a rotation ends no token.
//!
//! One document of the store, shared by every server on it. It also holds the id of the store: a token of
//! another store is not accepted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use loggia_core::Millis;
use loggia_session::{Document, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::access_token::{LIFETIME, SKEW};
use super::secret::{NoRandomness, random, serial};
use crate::time::now;

const COLLECTION: &str = "oauth-keys";
const RING: &str = "ring";
/// How old the cached keys may be when a token is checked.
const FRESH: Duration = Duration::from_secs(1);
/// Keys at a time.
const MOST_KEYS: usize = 64;
const ATTEMPTS: usize = 8;

/// The keys of a store. Has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeyRing {
    /// The id of the store.
    pub issuer: String,
    /// Oldest first; the last one signs.
    keys: Vec<Key>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Key {
    pub id: String,
    secret: String,
    since: Millis,
}

/// Why keys could not be changed or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "there are {MOST_KEYS} keys with valid tokens: wait an hour, or end those tokens with \
         --at-once"
    )]
    TooMany,
    #[error("another process is changing the keys: try again")]
    Contended,
    #[error("the keys in the store are unreadable: `loggia clients rotate-keys --at-once`")]
    Unreadable,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The effect of a rotation on existing tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldTokens {
    /// They stay valid until they expire.
    Stay,
    /// They become invalid now, because a key may have leaked.
    End,
}

impl Key {
    pub fn fresh(since: Millis) -> Result<Self, NoRandomness> {
        let secret = URL_SAFE_NO_PAD.encode(random::<32>()?);
        Ok(Self { id: serial()?, secret, since })
    }

    pub fn bytes(&self) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(&self.secret).unwrap_or_default()
    }
}

impl KeyRing {
    pub fn fresh(at: Millis) -> Result<Self, NoRandomness> {
        Ok(Self { issuer: serial()?, keys: vec![Key::fresh(at)?] })
    }

    pub fn signing(&self) -> Option<&Key> {
        self.keys.last()
    }

    /// The key of this id, while a token that it signed can be valid.
    pub fn verifying(&self, id: &str, at: Millis) -> Option<&Key> {
        let place = self.keys.iter().position(|key| key.id == id)?;
        let successor = self.keys.get(place + 1);
        let over = successor.is_some_and(|next| at.0 >= end_of(next.since).0);
        self.keys.get(place).filter(|_| !over)
    }

    /// The ring with a new key, without keys whose tokens have all expired.
    pub fn rotated(&self, key: Key, at: Millis, old: OldTokens) -> Self {
        let mut keys = match old {
            OldTokens::End => Vec::new(),
            OldTokens::Stay => {
                let alive = |key: &&Key| self.verifying(&key.id, at).is_some();
                self.keys.iter().filter(alive).cloned().collect()
            }
        };
        keys.push(key);
        Self { issuer: self.issuer.clone(), keys }
    }
}

/// When the last token expires that was signed before `since`. Tokens count whole seconds.
fn end_of(since: Millis) -> Millis {
    let life = LIFETIME + SKEW + Duration::from_secs(1);
    let life = i64::try_from(life.as_millis()).unwrap_or(i64::MAX);
    Millis(since.0.saturating_add(life))
}

/// Reads and changes the ring in the store.
pub struct Keys {
    store: Arc<dyn Store>,
    /// A lock, not a task: held to copy the cached ring.
    known: Mutex<Option<(Instant, Arc<KeyRing>)>>,
}

impl Keys {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// The ring as it is now; created if there is none.
    pub async fn current(&self) -> Result<Arc<KeyRing>, KeyError> {
        for _ in 0..ATTEMPTS {
            let text = self.store.document(COLLECTION, RING).await?;
            if let Some(text) = text {
                return Ok(self.keep(read(&text).ok_or(KeyError::Unreadable)?));
            }
            let fresh = KeyRing::fresh(now())?;
            if self.store.replace(None, document(&fresh)?).await? {
                return Ok(self.keep(fresh));
            }
        }
        Err(KeyError::Contended)
    }

    /// The cached ring, or the current one if the cache is old or does not have this key.
    pub async fn ring_with_key(&self, key: &str) -> Result<Arc<KeyRing>, KeyError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known.filter(|(read, _)| read.elapsed() < FRESH) {
            Some((_, ring)) if ring.keys.iter().any(|known| known.id == key) => Ok(ring),
            Some(_) | None => self.current().await,
        }
    }

    fn keep(&self, ring: KeyRing) -> Arc<KeyRing> {
        let ring = Arc::new(ring);
        let known = Some((Instant::now(), ring.clone()));
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        ring
    }

    /// A new key signs from now on.
    pub async fn rotate(&self, old: OldTokens) -> Result<(), KeyError> {
        for _ in 0..ATTEMPTS {
            let text = self.store.document(COLLECTION, RING).await?;
            let at = now();
            let rotated = match (text.as_deref().map(read), old) {
                (None, _) | (Some(None), OldTokens::End) => KeyRing::fresh(at)?,
                (Some(None), OldTokens::Stay) => return Err(KeyError::Unreadable),
                (Some(Some(ring)), _) => ring.rotated(Key::fresh(at)?, at, old),
            };
            if rotated.keys.len() > MOST_KEYS {
                return Err(KeyError::TooMany);
            }
            if self.store.replace(text, document(&rotated)?).await? {
                self.keep(rotated);
                return Ok(());
            }
        }
        Err(KeyError::Contended)
    }
}

fn document(ring: &KeyRing) -> Result<Document, StoreError> {
    let value = serde_json::to_string(ring).map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(Document { collection: COLLECTION.to_owned(), key: RING.to_owned(), value: Some(value) })
}

fn read(text: &str) -> Option<KeyRing> {
    let ring: Option<KeyRing> = serde_json::from_str(text).ok();
    ring.filter(|ring| ring.keys.iter().all(|key| key.bytes().len() == 32) && !ring.keys.is_empty())
}

#[cfg(test)]
mod tests {
    use loggia_session::MemoryStore;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn ids(ring: &KeyRing) -> Vec<&str> {
        ring.keys.iter().map(|key| key.id.as_str()).collect()
    }

    #[test]
    fn an_older_key_verifies_until_its_last_token_has_expired() {
        let first = KeyRing::fresh(Millis(0)).unwrap();
        let old = first.signing().unwrap().id.clone();
        assert!(first.verifying(&old, Millis(100 * HOUR)).is_some(), "the newest never ends");
        let rotated = first.rotated(
            Key::fresh(Millis(10 * HOUR)).unwrap(),
            Millis(10 * HOUR),
            OldTokens::Stay,
        );
        assert_eq!(rotated.issuer, first.issuer);
        let new = rotated.signing().unwrap().id.clone();
        let skew = 31_000;
        for (at, believed) in
            [(10 * HOUR, true), (11 * HOUR + skew - 1, true), (11 * HOUR + skew, false)]
        {
            assert_eq!(rotated.verifying(&old, Millis(at)).is_some(), believed, "{at}");
            assert!(rotated.verifying(&new, Millis(at)).is_some());
        }
        let later = Millis(12 * HOUR);
        let again = rotated.rotated(Key::fresh(later).unwrap(), later, OldTokens::Stay);
        assert_eq!(ids(&again).len(), 2, "the first is gone for good");
        assert_eq!(ids(&again)[0], new);
        let ended = again.rotated(Key::fresh(later).unwrap(), later, OldTokens::End);
        assert_eq!(ids(&ended).len(), 1);
        assert!(again.verifying("../../x", later).is_none());
    }

    #[tokio::test]
    async fn servers_that_start_at_once_have_the_same_keys() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let beginning = (0..16).map(|_| {
            let keys = Keys::new(store.clone());
            async move { keys.current().await.unwrap().signing().unwrap().id.clone() }
        });
        let mut ids = futures::future::join_all(beginning).await;
        ids.dedup();
        assert_eq!(ids.len(), 1);
        // A change of another process is seen as soon as one of its tokens arrives.
        let (mine, other) = (Keys::new(store.clone()), Keys::new(store.clone()));
        mine.current().await.unwrap();
        other.rotate(OldTokens::Stay).await.unwrap();
        let new = other.current().await.unwrap().signing().unwrap().id.clone();
        assert!(mine.ring_with_key(&new).await.unwrap().verifying(&new, now()).is_some());
        for _ in 0..MOST_KEYS - 2 {
            other.rotate(OldTokens::Stay).await.unwrap();
        }
        assert!(matches!(other.rotate(OldTokens::Stay).await, Err(KeyError::TooMany)));
        other.rotate(OldTokens::End).await.unwrap();
        assert_eq!(super::tests::ids(&other.current().await.unwrap()).len(), 1);
    }
}
