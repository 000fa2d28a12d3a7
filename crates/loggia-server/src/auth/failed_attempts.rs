//! Wrong credentials by source, and the limit after which new ones of a source are not checked.
//!
//! A credential is checked before a source is delayed, so that an attacker does not lock out others behind
//! the same address. A credential that a person chose could be guessed, so after very many wrong ones only
//! credentials that were right before are checked from that source.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::limiter::{Limiter, Source};

/// Wrong credentials that are checked, without a minute between them.
const MOST_CHECKED: u32 = 1_000;
const WINDOW: Duration = Duration::from_secs(60);
/// Sources and credentials that are remembered as right.
const MOST_PROVEN: usize = 1_024;

/// A digest of a credential, and its source.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    source: Source,
    digest: [u8; 32],
}

impl Attempt {
    pub fn new(source: Source, request: &Parts) -> Self {
        let mut digest = Sha256::new();
        for value in request.headers.get_all(AUTHORIZATION) {
            digest.update(value.as_bytes());
            // A header cannot contain this byte.
            digest.update(b"\n");
        }
        Self { source, digest: digest.finalize().into() }
    }
}

pub(super) struct FailedAttempts {
    wrong: Limiter,
    /// A lock, not a task: held for a look-up.
    proven: Mutex<HashSet<Attempt>>,
}

impl Default for FailedAttempts {
    fn default() -> Self {
        Self { wrong: Limiter::new(MOST_CHECKED, WINDOW), proven: Mutex::default() }
    }
}

impl FailedAttempts {
    fn proven(&self) -> MutexGuard<'_, HashSet<Attempt>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the credential is checked; otherwise how long to wait.
    pub fn check(&self, attempt: &Attempt, now: Instant) -> Result<(), Duration> {
        match self.proven().contains(attempt) {
            true => Ok(()),
            false => self.wrong.check(&attempt.source, now),
        }
    }

    pub fn succeeded(&self, attempt: Attempt) {
        let mut proven = self.proven();
        if proven.len() >= MOST_PROVEN && !proven.contains(&attempt) {
            proven.clear();
        }
        proven.insert(attempt);
    }

    pub fn failed(&self, attempt: Attempt, now: Instant) {
        self.proven().remove(&attempt);
        self.wrong.fail(attempt.source, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(user: u32, digest: u8) -> Attempt {
        Attempt { source: Source::User(user), digest: [digest; 32] }
    }

    #[test]
    fn after_very_many_only_proven_credentials_are_checked() {
        let (attempts, now) = (FailedAttempts::default(), Instant::now());
        attempts.succeeded(attempt(1, 7));
        for _ in 0..MOST_CHECKED {
            assert_eq!(attempts.check(&attempt(1, 1), now), Ok(()));
            attempts.failed(attempt(1, 1), now);
        }
        assert!(attempts.check(&attempt(1, 1), now).is_err());
        assert!(attempts.check(&attempt(1, 2), now).is_err(), "nothing new from there");
        assert_eq!(attempts.check(&attempt(1, 7), now), Ok(()), "it was right from there");
        assert!(attempts.check(&attempt(1, 8), now).is_err());
        assert_eq!(attempts.check(&attempt(2, 1), now), Ok(()), "others are not concerned");
        attempts.failed(attempt(1, 7), now);
        assert!(attempts.check(&attempt(1, 7), now).is_err(), "it is no longer right");
    }

    #[test]
    fn proven_credentials_are_bounded() {
        let attempts = FailedAttempts::default();
        for user in 0..3 * u32::try_from(MOST_PROVEN).unwrap() {
            attempts.succeeded(attempt(user, 0));
            assert!(attempts.proven().len() <= MOST_PROVEN);
        }
    }
}
