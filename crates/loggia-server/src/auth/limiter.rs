//! Slows down guessing: after a few wrong credentials in a minute, a source has to wait, twice as long each
//! time, up to a minute. Rate limiters such as `governor` have no wait that grows.
//!
//! Knows no credential and no request. Memory is bounded: the sources that failed longest ago are dropped
//! first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const MOST_SOURCES: usize = 4_096;

/// The source of attempts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A user of this machine, as the kernel reports it.
    User(u32),
    Address(IpAddr),
    /// All attempts at one client's secret, from any address.
    Client(String),
    /// One client at a source from which it has sent the right secret before.
    Known(Box<Source>, String),
}

impl Source {
    pub(super) fn known(source: &Source, client: &str) -> Self {
        Source::Known(Box::new(source.clone()), client.to_owned())
    }
}

pub struct Limiter {
    free: u32,
    window: Duration,
    /// A lock, not a task: held for one look-up.
    sources: Mutex<HashMap<Source, Failures>>,
}

struct Failures {
    count: u32,
    last: Instant,
    closed_until: Option<Instant>,
}

impl Limiter {
    /// The first `free` failures within `window` cause no wait.
    pub fn new(free: u32, window: Duration) -> Self {
        Self { free, window, sources: Mutex::default() }
    }

    /// An error is the time that the source has to wait.
    pub(super) fn check(&self, source: &Source, now: Instant) -> Result<(), Duration> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let until = sources.get(source).and_then(|failures| failures.closed_until);
        match until.map(|until| until.saturating_duration_since(now)) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(()),
        }
    }

    pub(super) fn fail(&self, source: Source, now: Instant) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= MOST_SOURCES && !sources.contains_key(&source) {
            self.drop_oldest(&mut sources, now);
        }
        let fresh = || Failures { count: 0, last: now, closed_until: None };
        let failures = sources.entry(source).or_insert_with(fresh);
        if failures.is_stale(now, self.window) {
            *failures = fresh();
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(beyond) = failures.count.checked_sub(self.free) {
            let wait = Duration::from_secs(1 << beyond.min(6)).min(LONGEST_WAIT);
            failures.closed_until = Some(now + wait);
        }
    }

    /// Drops half of them at once, so that a flood does not make each failure a search.
    fn drop_oldest(&self, sources: &mut HashMap<Source, Failures>, now: Instant) {
        sources.retain(|_, failures| !failures.is_stale(now, self.window));
        if sources.len() >= MOST_SOURCES {
            let mut times: Vec<Instant> = sources.values().map(|failures| failures.last).collect();
            let (_, middle, _) = times.select_nth_unstable(MOST_SOURCES / 2);
            let middle = *middle;
            sources.retain(|_, failures| failures.last > middle);
        }
    }
}

impl Failures {
    /// No failure for a whole window after the last one and its wait.
    fn is_stale(&self, now: Instant, window: Duration) -> bool {
        let since = self.closed_until.unwrap_or(self.last).max(self.last);
        now.saturating_duration_since(since) > window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source = Source::User(7);

    fn limiter() -> Limiter {
        Limiter::new(5, Duration::from_secs(60))
    }

    #[test]
    fn the_wait_doubles_up_to_a_minute_and_ends_after_a_minute_without_failures() {
        let limiter = limiter();
        let mut now = Instant::now();
        for _ in 0..5 {
            assert_eq!(limiter.check(&SOURCE, now), Ok(()));
            limiter.fail(SOURCE, now);
        }
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(limiter.check(&SOURCE, now), Err(Duration::from_secs(wait)));
            assert_eq!(limiter.check(&Source::User(8), now), Ok(()), "others are not concerned");
            now += Duration::from_secs(wait);
            assert_eq!(limiter.check(&SOURCE, now), Ok(()));
            limiter.fail(SOURCE, now);
        }
        now += Duration::from_secs(60 + 61);
        limiter.fail(SOURCE, now);
        assert_eq!(limiter.check(&SOURCE, now), Ok(()), "counted from one again");
    }

    #[test]
    fn a_flood_of_sources_costs_bounded_memory() {
        let limiter = limiter();
        let start = Instant::now();
        for number in 0..20_000u32 {
            let now = start + Duration::from_micros(number.into());
            limiter.fail(Source::Address(IpAddr::from(number.to_be_bytes())), now);
        }
        assert!(limiter.sources.lock().unwrap().len() <= MOST_SOURCES);
    }
}
