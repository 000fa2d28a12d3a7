//! Credentials that were looked at and were wrong, and when there are too many to look at more.
//!
//! A credential is looked at before anybody is turned away, so that strangers who guess do not
//! lock out who is behind the same address. What somebody chose could be hit on by trying for long
//! enough, so after very many wrong ones from a source, no other is looked at there but those
//! that were right before.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::limiter::{Limiter, Source};

/// Wrong ones that are looked at, without a quiet minute between them.
const LOOKED_AT: u32 = 1_000;
const WINDOW: Duration = Duration::from_secs(60);
/// Remembered places at which a credential was right.
const MOST_PROVEN: usize = 1_024;

/// A credential, and where it came from. The text of it is not kept.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Guess {
    source: Source,
    digest: [u8; 32],
}

impl Guess {
    pub fn new(source: Source, request: &Parts) -> Self {
        let mut digest = Sha256::new();
        for value in request.headers.get_all(AUTHORIZATION) {
            digest.update(value.as_bytes());
            // No header holds one.
            digest.update(b"\n");
        }
        Self { source, digest: digest.finalize().into() }
    }
}

pub(super) struct Guesses {
    wrong: Limiter,
    /// A lock, not a task: held for a look-up.
    proven: Mutex<HashSet<Guess>>,
}

impl Default for Guesses {
    fn default() -> Self {
        Self { wrong: Limiter::new(LOOKED_AT, WINDOW), proven: Mutex::default() }
    }
}

impl Guesses {
    fn proven(&self) -> MutexGuard<'_, HashSet<Guess>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is looked at; otherwise how long it has to wait.
    pub fn check(&self, guess: &Guess, now: Instant) -> Result<(), Duration> {
        match self.proven().contains(guess) {
            true => Ok(()),
            false => self.wrong.check(&guess.source, now),
        }
    }

    pub fn right(&self, guess: Guess) {
        let mut proven = self.proven();
        if proven.len() >= MOST_PROVEN && !proven.contains(&guess) {
            proven.clear();
        }
        proven.insert(guess);
    }

    pub fn wrong(&self, guess: Guess, now: Instant) {
        self.proven().remove(&guess);
        self.wrong.fail(guess.source, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(user: u32, digest: u8) -> Guess {
        Guess { source: Source::User(user), digest: [digest; 32] }
    }

    #[test]
    fn after_very_many_only_what_was_right_is_looked_at() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        guesses.right(guess(1, 7));
        for _ in 0..LOOKED_AT {
            assert_eq!(guesses.check(&guess(1, 1), now), Ok(()));
            guesses.wrong(guess(1, 1), now);
        }
        assert!(guesses.check(&guess(1, 1), now).is_err());
        assert!(guesses.check(&guess(1, 2), now).is_err(), "nothing new from there");
        assert_eq!(guesses.check(&guess(1, 7), now), Ok(()), "it was right from there");
        assert!(guesses.check(&guess(1, 8), now).is_err());
        assert_eq!(guesses.check(&guess(2, 1), now), Ok(()), "others are not concerned");
        guesses.wrong(guess(1, 7), now);
        assert!(guesses.check(&guess(1, 7), now).is_err(), "it is not right any more");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let guesses = Guesses::default();
        for user in 0..3 * u32::try_from(MOST_PROVEN).unwrap() {
            guesses.right(guess(user, 0));
            assert!(guesses.proven().len() <= MOST_PROVEN);
        }
    }
}
