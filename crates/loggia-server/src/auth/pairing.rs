//! One-time codes: a device that has one is registered as a new client, once.
//!
//! A code is short enough to type, so it is limited instead of long: it is valid for five minutes, for one
//! device, and is invalidated after five wrong guesses from any source. A guess that could not be counted
//! is not answered.
//!
//! Codes are documents of the store, like clients, so that `loggia pair` reaches a running server and two
//! devices that redeem one code are one compare-and-swap. The document holds a digest. Forty bits can be
//! found from a digest, but a process that can read the store can read the signing keys, too. The form of
//! requests is in `http::token`, the registration of the device in `oauth`.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use loggia_core::Millis;
use loggia_session::{Document, Store, StoreError};
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq};

use super::access_token::SKEW;
use super::scope::Scopes;
use super::secret::{NoRandomness, Secret, position, random, serial};

/// How long a code is valid.
pub const CODE_LIFE: Duration = Duration::from_secs(300);
/// The wrong guess that invalidates a code.
const MOST_WRONG: u32 = 5;
const CODES: &str = "pairing-codes";
/// The key of the code that every server of this store accepts.
const ANYWHERE: &str = "anywhere";
/// How often a change is retried after a concurrent one.
const ATTEMPTS: usize = 16;

/// Five bits each; no two look alike.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH: usize = 8;
/// The longest input that is read, with spaces and dashes.
const LONGEST: usize = 32;

/// A code. It has no `Debug`, like every secret.
pub struct Code(Secret);

impl Code {
    fn fresh() -> Result<Self, NoRandomness> {
        let bits = random::<5>()?.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let letter = |index: usize| LETTERS[(bits >> (5 * index) & 31) as usize];
        Ok(Self(Secret::new((0..LENGTH).rev().map(|index| char::from(letter(index))).collect())))
    }

    /// Reads typed text: case, spaces and dashes do not matter, and letters that are in no code stand for
    /// the digits that they look like. None if it cannot be a code.
    fn read(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let typed = text.chars().filter(|letter| !matches!(letter, '-' | ' '));
        let meant = typed.map(|letter| match letter.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        });
        let known = |letter: &char| u8::try_from(*letter).is_ok_and(|byte| LETTERS.contains(&byte));
        let code: String = meant.collect();
        let whole = code.chars().count() == LENGTH && code.chars().all(|letter| known(&letter));
        whole.then(|| Self(Secret::new(code)))
    }

    /// For showing it once: two groups of four.
    pub fn reveal(&self) -> String {
        let letters: Vec<char> = self.0.reveal().chars().collect();
        let groups: Vec<String> = letters.chunks(4).map(|group| group.iter().collect()).collect();
        groups.join("-")
    }
}

/// Why no code was made.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    #[error("a code without a scope is useless: name some of {}", Scopes::CLIENT.listed())]
    NoScope,
    #[error("a code cannot give admin: register a client with `loggia clients add NAME --scope …`")]
    Admin,
    #[error("another process is making codes: try again")]
    Contended,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a code was not redeemed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedeemError {
    /// Wrong, used, expired, withdrawn, or never made: the answer does not say which.
    #[error("not a code")]
    Wrong,
    /// The code has fewer scopes than were requested. It stays valid.
    #[error("the code lacks a requested scope")]
    Scope,
    /// Too many concurrent guesses: this one was not checked.
    #[error("too many codes at once")]
    Contended,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The stored form of a code.
#[derive(Serialize, Deserialize)]
struct Offer {
    digest: String,
    scopes: Scopes,
    until: Millis,
    wrong: u32,
}

impl Offer {
    fn is_valid(&self, at: Millis) -> bool {
        let life = i64::try_from(CODE_LIFE.as_millis()).unwrap_or(i64::MAX);
        let skew = i64::try_from(SKEW.as_millis()).unwrap_or(0);
        // Not longer than any that we make: setting the clock back does not extend a code.
        at < self.until && self.until.0.saturating_sub(at.0) <= life.saturating_add(skew)
    }

    fn fits(&self, presented: &Secret) -> Choice {
        let Ok(stored) = URL_SAFE_NO_PAD.decode(&self.digest) else { return Choice::from(0) };
        presented.digest().as_slice().ct_eq(&stored)
    }
}

/// The codes of one server, and those that every server accepts.
pub struct Pairing {
    store: Arc<dyn Store>,
    /// The key of this server's code, unique to this process.
    key: String,
}

impl Pairing {
    /// Codes that only this server accepts.
    pub fn here(store: Arc<dyn Store>) -> Result<Self, NoRandomness> {
        Ok(Self { store, key: serial()? })
    }

    /// Codes that every server of this store accepts.
    pub fn anywhere(store: Arc<dyn Store>) -> Self {
        Self { store, key: ANYWHERE.to_owned() }
    }

    /// Makes a new code and invalidates the one before.
    pub async fn offer(&self, scopes: Scopes, at: Millis) -> Result<Code, PairingError> {
        if scopes.is_empty() {
            return Err(PairingError::NoScope);
        }
        if scopes.admin {
            return Err(PairingError::Admin);
        }
        self.remove_expired(at).await?;
        let code = Code::fresh()?;
        let digest = URL_SAFE_NO_PAD.encode(code.0.digest());
        let until = at.0.saturating_add(i64::try_from(CODE_LIFE.as_millis()).unwrap_or(0));
        let offer = Offer { digest, scopes, until: Millis(until), wrong: 0 };
        match self.put(Some(&offer)).await? {
            true => Ok(code),
            false => Err(PairingError::Contended),
        }
    }

    /// Invalidates the code that was made here.
    pub async fn withdraw(&self) -> Result<(), PairingError> {
        match self.put(None).await? {
            true => Ok(()),
            false => Err(PairingError::Contended),
        }
    }

    /// The scopes of the code, for the first request that has it.
    pub(super) async fn redeem(
        &self,
        typed: &str,
        asked: Option<Scopes>,
        at: Millis,
    ) -> Result<Scopes, RedeemError> {
        // Text that cannot be a code is a typing mistake and does not count as a guess.
        let code = Code::read(typed).ok_or(RedeemError::Wrong)?;
        for _ in 0..ATTEMPTS {
            let valid = self.valid(at).await?;
            let Some(found) = find(&valid, &code.0) else {
                if self.count(valid).await? {
                    return Err(RedeemError::Wrong);
                }
                continue;
            };
            let scopes = asked.unwrap_or(found.offer.scopes);
            if scopes.is_empty() || !found.offer.scopes.covers(&scopes) {
                return Err(RedeemError::Scope);
            }
            let used = document(&found.key, None)?;
            if self.store.replace(Some(found.text.clone()), used).await? {
                return Ok(scopes);
            }
        }
        Err(RedeemError::Contended)
    }

    /// The codes that can be redeemed here.
    async fn valid(&self, at: Millis) -> Result<Vec<StoredOffer>, StoreError> {
        let mut valid = Vec::new();
        for key in [self.key.as_str(), ANYWHERE] {
            let text = self.store.document(CODES, key).await?;
            valid.extend(text.and_then(|text| StoredOffer::read(key, text)));
        }
        valid.retain(|stored| stored.offer.is_valid(at));
        Ok(valid)
    }

    /// Counts a wrong guess against every valid code. False if one of them changed meanwhile.
    async fn count(&self, valid: Vec<StoredOffer>) -> Result<bool, StoreError> {
        for StoredOffer { key, text, offer } in valid {
            let wrong = offer.wrong.saturating_add(1);
            let more = (wrong < MOST_WRONG).then_some(Offer { wrong, ..offer });
            let changed = document(&key, more.as_ref())?;
            if !self.store.replace(Some(text), changed).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn put(&self, offer: Option<&Offer>) -> Result<bool, StoreError> {
        for _ in 0..ATTEMPTS {
            let before = self.store.document(CODES, &self.key).await?;
            if before.is_none() && offer.is_none() {
                return Ok(true);
            }
            if self.store.replace(before, document(&self.key, offer)?).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes expired codes, also those of killed processes.
    async fn remove_expired(&self, at: Millis) -> Result<(), StoreError> {
        for (key, text) in self.store.documents(CODES, "").await? {
            let stored = StoredOffer::read(&key, text.clone());
            if !stored.is_some_and(|stored| stored.offer.is_valid(at)) {
                // False if another process removed it first.
                let _ = self.store.replace(Some(text), document(&key, None)?).await?;
            }
        }
        Ok(())
    }
}

/// An offer with its key and its stored text.
struct StoredOffer {
    key: String,
    text: String,
    offer: Offer,
}

impl StoredOffer {
    fn read(key: &str, text: String) -> Option<Self> {
        let offer = serde_json::from_str(&text).ok()?;
        Some(Self { key: key.to_owned(), text, offer })
    }
}

/// The offer of this code.
fn find<'a>(valid: &'a [StoredOffer], code: &Secret) -> Option<&'a StoredOffer> {
    valid.get(position(valid.iter().map(|stored| stored.offer.fits(code)))?)
}

fn document(key: &str, offer: Option<&Offer>) -> Result<Document, StoreError> {
    let value = offer.map(serde_json::to_string).transpose();
    let value = value.map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(Document { collection: CODES.to_owned(), key: key.to_owned(), value })
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
