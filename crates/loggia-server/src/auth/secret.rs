//! Secrets of clients and their hashes.
//!
//! A client's secret has 256 random bits, and its argon2id hash is stored. The cost is the lowest that is
//! recommended for passwords (19 MiB, two passes): such a secret cannot be guessed at any cost, so the
//! cost of a check to this machine matters more. Only a few secrets are checked at a time, on blocking
//! threads, and further requests are refused when too many wait.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tokio::sync::Semaphore;

const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
/// Limits for hashes that are read back.
const MOST_MEMORY_KIB: u32 = 256 * 1024;
const MOST_PASSES: u32 = 16;
const HASH: usize = 32;

/// Checks at a time; each needs [`MEMORY_KIB`].
const AT_A_TIME: usize = 2;
/// Checks that run or wait.
const MOST_WAITING: usize = 64;

/// A secret text. It has no `Debug`, `Display`, `Serialize` or `PartialEq`.
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// A random secret.
    pub fn fresh() -> Result<Self, NoRandomness> {
        Ok(Self(URL_SAFE_NO_PAD.encode(random::<32>()?)))
    }

    /// For showing it to its owner once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

/// The system provided no random numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system provides no random numbers: {0}")]
pub struct NoRandomness(String);

pub(super) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| NoRandomness(error.to_string()))?;
    Ok(bytes)
}

/// The index of a match. Looks at all of them, so that the time does not depend on which one matches.
pub(super) fn position(matches: impl Iterator<Item = Choice>) -> Option<usize> {
    let (mut found, mut any) = (0u64, Choice::from(0));
    for (index, same) in matches.enumerate() {
        found.conditional_assign(&(index as u64), same);
        any |= same;
    }
    bool::from(any).then(|| usize::try_from(found).ok())?
}

/// A short unique id.
pub(super) fn serial() -> Result<String, NoRandomness> {
    Ok(URL_SAFE_NO_PAD.encode(random::<12>()?))
}

/// The hash of a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct SecretHash {
    memory_kib: u32,
    passes: u32,
    salt: String,
    hash: String,
}

impl SecretHash {
    /// Takes as long as a check: call it off the runtime's threads.
    pub fn of(secret: &Secret) -> Result<Self, NoRandomness> {
        let salt = random::<16>()?;
        let mut kept = Self {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: URL_SAFE_NO_PAD.encode(salt),
            hash: String::new(),
        };
        let hash = kept.compute(secret).ok_or_else(|| NoRandomness("argon2 failed".into()))?;
        kept.hash = URL_SAFE_NO_PAD.encode(hash);
        Ok(kept)
    }

    /// A hash that no secret fits, for clients that do not exist.
    fn decoy() -> Result<Self, NoRandomness> {
        let [salt, hash] = [random::<16>()?.to_vec(), random::<HASH>()?.to_vec()];
        let [salt, hash] = [salt, hash].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        Ok(Self { memory_kib: MEMORY_KIB, passes: PASSES, salt, hash })
    }

    fn fits(&self, secret: &Secret) -> bool {
        let Some(computed) = self.compute(secret) else { return false };
        let Ok(kept) = URL_SAFE_NO_PAD.decode(&self.hash) else { return false };
        computed.as_slice().ct_eq(&kept).into()
    }

    fn compute(&self, secret: &Secret) -> Option<[u8; HASH]> {
        if self.memory_kib > MOST_MEMORY_KIB || self.passes > MOST_PASSES {
            return None;
        }
        let params = Params::new(self.memory_kib, self.passes, 1, Some(HASH)).ok()?;
        let salt = URL_SAFE_NO_PAD.decode(&self.salt).ok()?;
        let mut out = [0; HASH];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password_into(secret.0.as_bytes(), &salt, &mut out).ok()?;
        Some(out)
    }
}

/// Too many secrets wait to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyChecks;

/// Checks secrets, a few at a time.
pub struct Checker {
    waiting: Arc<Semaphore>,
    running: Arc<Semaphore>,
    decoy: SecretHash,
}

impl Checker {
    pub fn new() -> Result<Self, NoRandomness> {
        let (waiting, running) = (Semaphore::new(MOST_WAITING), Semaphore::new(AT_A_TIME));
        Ok(Self {
            waiting: Arc::new(waiting),
            running: Arc::new(running),
            decoy: SecretHash::decoy()?,
        })
    }

    /// Whether the secret fits the hash. Without a hash the answer is no, after the same time.
    pub async fn fits(
        &self,
        kept: Option<SecretHash>,
        secret: Secret,
    ) -> Result<bool, TooManyChecks> {
        let waiting = self.waiting.clone().try_acquire_owned().map_err(|_| TooManyChecks)?;
        let running = self.running.clone().acquire_owned().await.map_err(|_| TooManyChecks)?;
        let known = kept.is_some();
        let kept = kept.unwrap_or_else(|| self.decoy.clone());
        let checked = tokio::task::spawn_blocking(move || {
            // Held until the check is done, also if the request is gone.
            let _held = (waiting, running);
            kept.fits(&secret)
        });
        // It fails only by a panic, which was reported where it happened.
        Ok(checked.await.unwrap_or(false) && known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    #[tokio::test]
    async fn the_right_secret_fits_and_nothing_else() {
        let (fresh, other) = (Secret::fresh().unwrap(), Secret::fresh().unwrap());
        assert!(fresh.reveal().len() >= 43 && fresh.reveal() != other.reveal());
        let kept = SecretHash::of(&fresh).unwrap();
        let written = serde_json::to_string(&kept).unwrap();
        assert!(!written.contains(fresh.reveal()), "{written}");
        let again: SecretHash = serde_json::from_str(&written).unwrap();
        let checker = Checker::new().unwrap();
        assert_eq!(checker.fits(Some(again.clone()), secret(fresh.reveal())).await, Ok(true));
        let longer = format!("{}x", fresh.reveal());
        for wrong in ["", "x", other.reveal(), &longer] {
            assert_eq!(checker.fits(Some(again.clone()), secret(wrong)).await, Ok(false));
        }
        assert_eq!(checker.fits(None, secret(fresh.reveal())).await, Ok(false));
        let costly = SecretHash { memory_kib: u32::MAX, ..again };
        assert_eq!(checker.fits(Some(costly), secret(fresh.reveal())).await, Ok(false));
    }

    /// The processor time of this thread, which does not depend on the load of the machine.
    fn worked() -> std::time::Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// A10: a name that is not registered must not be answered faster.
    #[test]
    fn a_client_that_does_not_exist_costs_as_much() {
        let (kept, decoy) =
            (SecretHash::of(&Secret::fresh().unwrap()).unwrap(), SecretHash::decoy().unwrap());
        let near = |text: &str| Secret::new(text.repeat(43));
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..9 {
            let cases = [(&kept, near("x")), (&decoy, near("x")), (&decoy, near("y"))];
            for ((hash, secret), times) in cases.into_iter().zip(&mut times) {
                let begun = worked();
                assert!(!hash.fits(&secret));
                times.push(worked() - begun);
            }
        }
        // The quickest, because other processes slow down the memory.
        let quickest = |times: Vec<std::time::Duration>| times.iter().min().unwrap().as_secs_f64();
        let [known, unknown, other] = times.map(quickest);
        for ratio in [unknown / known, other / known] {
            assert!((0.5..2.0).contains(&ratio), "{known} s, {unknown} s, {other} s");
        }
    }

    #[tokio::test]
    async fn too_many_waiting_checks_are_refused() {
        let checker = Checker::new().unwrap();
        let held = checker.waiting.clone().try_acquire_many_owned(MOST_WAITING as u32).unwrap();
        assert_eq!(checker.fits(None, secret("x")).await, Err(TooManyChecks));
        drop(held);
        assert_eq!(checker.fits(None, secret("x")).await, Ok(false));
        assert_eq!(checker.waiting.available_permits(), MOST_WAITING, "every permit is free again");
    }
}
