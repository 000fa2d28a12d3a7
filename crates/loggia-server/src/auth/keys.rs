//! The keys that tokens are signed with: the newest signs, the older ones are still believed for as
//! long as a token that they signed may live. So a change of keys logs nobody out.
//!
//! One document of the store, read by every server on it and private like everything there. It also
//! names the store: a token of another one is not for us, whatever it is signed with.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use loggia_core::Millis;
use loggia_session::{Document, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::access::{LIFETIME, SKEW};
use super::client::now;
use super::secret::{NoChance, random, serial};

const COLLECTION: &str = "oauth-keys";
const RING: &str = "ring";
/// How old what is known of the keys may be when a token is looked at.
const FRESH: Duration = Duration::from_secs(1);
/// Keys at a time: who changes them more often has another problem.
const MOST_KEYS: usize = 64;
const ATTEMPTS: usize = 8;

/// The keys of a store. Has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Ring {
    /// Names the store.
    pub issuer: String,
    /// The last one signs.
    keys: Vec<Key>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Key {
    pub id: String,
    secret: String,
    since: Millis,
}

/// Why keys were not changed or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "there are {MOST_KEYS} keys whose tokens still live: wait an hour, or end those tokens \
         with --at-once"
    )]
    TooMany,
    #[error("others change the keys all the time: try again")]
    Contended,
    #[error("the keys in the store are unreadable: `loggia clients rotate-keys --at-once`")]
    Unreadable,
    #[error(transparent)]
    NoChance(#[from] NoChance),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What becomes of tokens when the keys change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldTokens {
    /// They live to their end.
    Stay,
    /// They end now: somebody may have got hold of a key.
    End,
}

impl Key {
    pub fn fresh(since: Millis) -> Result<Self, NoChance> {
        let secret = URL_SAFE_NO_PAD.encode(random::<32>()?);
        Ok(Self { id: serial()?, secret, since })
    }

    pub fn bytes(&self) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(&self.secret).unwrap_or_default()
    }
}

impl Ring {
    pub fn fresh(at: Millis) -> Result<Self, NoChance> {
        Ok(Self { issuer: serial()?, keys: vec![Key::fresh(at)?] })
    }

    pub fn signing(&self) -> Option<&Key> {
        self.keys.last()
    }

    /// The key of that name, while anything it signed may live.
    pub fn verifying(&self, id: &str, at: Millis) -> Option<&Key> {
        let place = self.keys.iter().position(|key| key.id == id)?;
        let successor = self.keys.get(place + 1);
        let over = successor.is_some_and(|next| at.0 >= end_of(next.since).0);
        self.keys.get(place).filter(|_| !over)
    }

    /// The same with a new key, without those whose tokens have all ended.
    pub fn turned(&self, key: Key, at: Millis, old: OldTokens) -> Self {
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

/// When the last token ends that was signed before `since`; tokens count whole seconds.
fn end_of(since: Millis) -> Millis {
    let life = LIFETIME + SKEW + Duration::from_secs(1);
    let life = i64::try_from(life.as_millis()).unwrap_or(i64::MAX);
    Millis(since.0.saturating_add(life))
}

/// The ring, as the store has it.
pub struct Keys {
    store: Arc<dyn Store>,
    /// A lock, not a task: held for a look.
    known: Mutex<Option<(Instant, Arc<Ring>)>>,
}

impl Keys {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// As it is now; made if there is none.
    pub async fn current(&self) -> Result<Arc<Ring>, KeyError> {
        for _ in 0..ATTEMPTS {
            let text = self.store.document(COLLECTION, RING).await?;
            if let Some(text) = text {
                return Ok(self.keep(read(&text).ok_or(KeyError::Unreadable)?));
            }
            let fresh = Ring::fresh(now())?;
            if self.store.replace(None, document(&fresh)?).await? {
                return Ok(self.keep(fresh));
            }
        }
        Err(KeyError::Contended)
    }

    /// As it was a moment ago, or as it is now where that does not have the key.
    pub async fn with(&self, key: &str) -> Result<Arc<Ring>, KeyError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known.filter(|(read, _)| read.elapsed() < FRESH) {
            Some((_, ring)) if ring.keys.iter().any(|known| known.id == key) => Ok(ring),
            Some(_) | None => self.current().await,
        }
    }

    fn keep(&self, ring: Ring) -> Arc<Ring> {
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
            let turned = match (text.as_deref().map(read), old) {
                (None, _) | (Some(None), OldTokens::End) => Ring::fresh(at)?,
                (Some(None), OldTokens::Stay) => return Err(KeyError::Unreadable),
                (Some(Some(ring)), _) => ring.turned(Key::fresh(at)?, at, old),
            };
            if turned.keys.len() > MOST_KEYS {
                return Err(KeyError::TooMany);
            }
            if self.store.replace(text, document(&turned)?).await? {
                self.keep(turned);
                return Ok(());
            }
        }
        Err(KeyError::Contended)
    }
}

fn document(ring: &Ring) -> Result<Document, StoreError> {
    let value = serde_json::to_string(ring).map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(Document { collection: COLLECTION.to_owned(), key: RING.to_owned(), value: Some(value) })
}

fn read(text: &str) -> Option<Ring> {
    let ring: Option<Ring> = serde_json::from_str(text).ok();
    ring.filter(|ring| ring.keys.iter().all(|key| key.bytes().len() == 32) && !ring.keys.is_empty())
}

#[cfg(test)]
mod tests {
    use loggia_session::MemoryStore;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn ids(ring: &Ring) -> Vec<&str> {
        ring.keys.iter().map(|key| key.id.as_str()).collect()
    }

    #[test]
    fn an_older_key_is_believed_until_its_last_token_has_ended() {
        let first = Ring::fresh(Millis(0)).unwrap();
        let old = first.signing().unwrap().id.clone();
        assert!(first.verifying(&old, Millis(100 * HOUR)).is_some(), "the newest never ends");
        let turned = first.turned(
            Key::fresh(Millis(10 * HOUR)).unwrap(),
            Millis(10 * HOUR),
            OldTokens::Stay,
        );
        assert_eq!(turned.issuer, first.issuer);
        let new = turned.signing().unwrap().id.clone();
        let skew = 31_000;
        for (at, believed) in
            [(10 * HOUR, true), (11 * HOUR + skew - 1, true), (11 * HOUR + skew, false)]
        {
            assert_eq!(turned.verifying(&old, Millis(at)).is_some(), believed, "{at}");
            assert!(turned.verifying(&new, Millis(at)).is_some());
        }
        let later = Millis(12 * HOUR);
        let again = turned.turned(Key::fresh(later).unwrap(), later, OldTokens::Stay);
        assert_eq!(ids(&again).len(), 2, "the first is gone for good");
        assert_eq!(ids(&again)[0], new);
        let ended = again.turned(Key::fresh(later).unwrap(), later, OldTokens::End);
        assert_eq!(ids(&ended).len(), 1);
        assert!(again.verifying("../../x", later).is_none());
    }

    #[tokio::test]
    async fn many_who_begin_at_once_have_the_same_keys() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let beginning = (0..16).map(|_| {
            let keys = Keys::new(store.clone());
            async move { keys.current().await.unwrap().signing().unwrap().id.clone() }
        });
        let mut ids = futures::future::join_all(beginning).await;
        ids.dedup();
        assert_eq!(ids.len(), 1);
        // Somebody else's change is seen as soon as one of its tokens comes.
        let (mine, other) = (Keys::new(store.clone()), Keys::new(store.clone()));
        mine.current().await.unwrap();
        other.rotate(OldTokens::Stay).await.unwrap();
        let new = other.current().await.unwrap().signing().unwrap().id.clone();
        assert!(mine.with(&new).await.unwrap().verifying(&new, now()).is_some());
        for _ in 0..MOST_KEYS - 2 {
            other.rotate(OldTokens::Stay).await.unwrap();
        }
        assert!(matches!(other.rotate(OldTokens::Stay).await, Err(KeyError::TooMany)));
        other.rotate(OldTokens::End).await.unwrap();
        assert_eq!(super::tests::ids(&other.current().await.unwrap()).len(), 1);
    }
}
