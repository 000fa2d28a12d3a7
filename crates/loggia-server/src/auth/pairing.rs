//! One-time codes: whoever reads one off a person's screen is let in, once, as a client of its own.
//!
//! A code is short enough to be typed, so what keeps it from being guessed is its end: it is good
//! for five minutes, for one device, and for a handful of wrong guesses, wherever they come from. A
//! guess that could not be counted is not answered.
//!
//! Codes are documents of the store, like the clients, so that `loggia pair` reaches a server that
//! runs already, and two devices at once are one change of one document. What is kept is a digest.
//! Forty bits can be found from it, but whoever can read the store has the keys that sign tokens;
//! what is left of a code after its end opens nothing. How requests are spelled is not known here,
//! nor what becomes of the device.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use loggia_core::Millis;
use loggia_session::{Document, Store, StoreError};
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::access::SKEW;
use super::scope::Scopes;
use super::secret::{NoChance, Secret, random, serial};

/// How long a code is good.
pub const CODE_LIFE: Duration = Duration::from_secs(300);
/// Wrong guesses that a code survives, less one.
const MOST_WRONG: u32 = 5;
const CODES: &str = "pairing-codes";
/// Where a code is kept that every server of this store takes.
const ANYWHERE: &str = "anywhere";
/// How often a change is tried again that another one came before.
const ATTEMPTS: usize = 16;

/// Five bits each; none looks like another.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH: usize = 8;
/// More than anybody types, with spaces and dashes.
const LONGEST: usize = 32;

/// A code. Like every secret, it is not shown by accident.
pub struct Code(Secret);

impl Code {
    fn fresh() -> Result<Self, NoChance> {
        let bits = random::<5>()?.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let letter = |place: usize| LETTERS[(bits >> (5 * place) & 31) as usize];
        Ok(Self(Secret::new((0..LENGTH).rev().map(|place| char::from(letter(place))).collect())))
    }

    /// What somebody typed, in capitals or not, in groups or not; a letter that is in no code stands
    /// for the digit that it looks like. None if it cannot be a code.
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

    /// For the one screen that it is shown on: two groups of four.
    pub fn reveal(&self) -> String {
        let letters: Vec<char> = self.0.reveal().chars().collect();
        let groups: Vec<String> = letters.chunks(4).map(|group| group.iter().collect()).collect();
        groups.join("-")
    }
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    #[error("a code without a scope opens nothing: name some of read, prompt and approve")]
    NoScope,
    #[error("a code gives no admin: register a client with `loggia clients add NAME --scope …`")]
    Admin,
    #[error("others make codes all the time: try again")]
    Contended,
    #[error(transparent)]
    NoChance(#[from] NoChance),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a code opens nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unredeemed {
    /// Wrong, used, over, withdrawn, or there never was one: which of them is not said.
    #[error("not a code")]
    Wrong,
    /// It is the code, and gives less than was asked for. It stays.
    #[error("the code gives less")]
    Scope,
    /// Too many tried at once: this guess was not looked at.
    #[error("too many codes at once")]
    Contended,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is kept of a code.
#[derive(Serialize, Deserialize)]
struct Offer {
    digest: String,
    scopes: Scopes,
    until: Millis,
    wrong: u32,
}

impl Offer {
    fn is_good(&self, at: Millis) -> bool {
        let life = i64::try_from(CODE_LIFE.as_millis()).unwrap_or(i64::MAX);
        let skew = i64::try_from(SKEW.as_millis()).unwrap_or(0);
        // Not longer than any we make: a clock that is set back makes no code live on.
        at < self.until && self.until.0.saturating_sub(at.0) <= life.saturating_add(skew)
    }

    fn fits(&self, presented: &Secret) -> Choice {
        let Ok(kept) = URL_SAFE_NO_PAD.decode(&self.digest) else { return Choice::from(0) };
        presented.digest().as_slice().ct_eq(&kept)
    }
}

/// The codes of one server, and those that every server takes.
pub struct Pairing {
    store: Arc<dyn Store>,
    /// Where this one's code is kept. Nobody else's, and nobody's any more when it has ended.
    place: String,
}

impl Pairing {
    /// Codes that nobody takes but whoever made them.
    pub fn here(store: Arc<dyn Store>) -> Result<Self, NoChance> {
        Ok(Self { store, place: serial()? })
    }

    /// Codes that every server of this store takes.
    pub fn anywhere(store: Arc<dyn Store>) -> Self {
        Self { store, place: ANYWHERE.to_owned() }
    }

    /// A new code; the one before is worth nothing any more.
    pub async fn offer(&self, scopes: Scopes, at: Millis) -> Result<Code, PairingError> {
        if scopes.is_empty() {
            return Err(PairingError::NoScope);
        }
        if scopes.admin {
            return Err(PairingError::Admin);
        }
        self.sweep(at).await?;
        let code = Code::fresh()?;
        let digest = URL_SAFE_NO_PAD.encode(code.0.digest());
        let until = at.0.saturating_add(i64::try_from(CODE_LIFE.as_millis()).unwrap_or(0));
        let offer = Offer { digest, scopes, until: Millis(until), wrong: 0 };
        match self.put(Some(&offer)).await? {
            true => Ok(code),
            false => Err(PairingError::Contended),
        }
    }

    /// The code that was made here is worth nothing any more.
    pub async fn withdraw(&self) -> Result<(), PairingError> {
        match self.put(None).await? {
            true => Ok(()),
            false => Err(PairingError::Contended),
        }
    }

    /// What the code gives, to whoever comes first with it.
    pub(super) async fn redeem(
        &self,
        typed: &str,
        asked: Option<Scopes>,
        at: Millis,
    ) -> Result<Scopes, Unredeemed> {
        // A slip of the finger that cannot be a code costs none of the guesses that one has.
        let code = Code::read(typed).ok_or(Unredeemed::Wrong)?;
        for _ in 0..ATTEMPTS {
            let good = self.good(at).await?;
            let Some(found) = find(&good, &code.0) else {
                if self.count(good).await? {
                    return Err(Unredeemed::Wrong);
                }
                continue;
            };
            let scopes = asked.unwrap_or(found.offer.scopes);
            if scopes.is_empty() || !found.offer.scopes.covers(&scopes) {
                return Err(Unredeemed::Scope);
            }
            let used = document(&found.place, None)?;
            if self.store.replace(Some(found.text.clone()), used).await? {
                return Ok(scopes);
            }
        }
        Err(Unredeemed::Contended)
    }

    /// The codes that can be redeemed here.
    async fn good(&self, at: Millis) -> Result<Vec<Kept>, StoreError> {
        let mut good = Vec::new();
        for place in [self.place.as_str(), ANYWHERE] {
            let text = self.store.document(CODES, place).await?;
            good.extend(text.and_then(|text| Kept::read(place, text)));
        }
        good.retain(|kept| kept.offer.is_good(at));
        Ok(good)
    }

    /// A wrong guess was one at every code there is. False: not all of them could be told.
    async fn count(&self, good: Vec<Kept>) -> Result<bool, StoreError> {
        for Kept { place, text, offer } in good {
            let wrong = offer.wrong.saturating_add(1);
            let more = (wrong < MOST_WRONG).then_some(Offer { wrong, ..offer });
            let changed = document(&place, more.as_ref())?;
            if !self.store.replace(Some(text), changed).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn put(&self, offer: Option<&Offer>) -> Result<bool, StoreError> {
        for _ in 0..ATTEMPTS {
            let before = self.store.document(CODES, &self.place).await?;
            if before.is_none() && offer.is_none() {
                return Ok(true);
            }
            if self.store.replace(before, document(&self.place, offer)?).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What ended without being used, and what a killed process left behind.
    async fn sweep(&self, at: Millis) -> Result<(), StoreError> {
        for (place, text) in self.store.documents(CODES, "").await? {
            let kept = Kept::read(&place, text.clone());
            if !kept.is_some_and(|kept| kept.offer.is_good(at)) {
                // Somebody else swept it.
                let _ = self.store.replace(Some(text), document(&place, None)?).await?;
            }
        }
        Ok(())
    }
}

/// An offer, where it is kept, and as what.
struct Kept {
    place: String,
    text: String,
    offer: Offer,
}

impl Kept {
    fn read(place: &str, text: String) -> Option<Self> {
        let offer = serde_json::from_str(&text).ok()?;
        Some(Self { place: place.to_owned(), text, offer })
    }
}

/// The one of them that is meant. Every one is compared every time.
fn find<'a>(good: &'a [Kept], code: &Secret) -> Option<&'a Kept> {
    let (mut found, mut any) = (0u64, Choice::from(0));
    for (index, kept) in good.iter().enumerate() {
        let same = kept.offer.fits(code);
        found.conditional_assign(&(index as u64), same);
        any |= same;
    }
    let index = bool::from(any).then(|| usize::try_from(found).ok())??;
    good.get(index)
}

fn document(place: &str, offer: Option<&Offer>) -> Result<Document, StoreError> {
    let value = offer.map(serde_json::to_string).transpose();
    let value = value.map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(Document { collection: CODES.to_owned(), key: place.to_owned(), value })
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
