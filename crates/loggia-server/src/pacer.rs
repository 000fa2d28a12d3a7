//! When a reader that has just been served may come again: at once, or, in a crowd, a moment later.
//!
//! A reader costs a wake and a write to its socket, however much is in it. Two thousand readers that
//! came for each of two hundred events a second would be four hundred thousand writes a second, and
//! whoever writes the events would wait for a processor behind them. So every reader, once served,
//! takes the next free place in line, and the places are as far apart as serving one takes. A few
//! readers never wait for theirs; a crowd comes round in turn, and finds everything that has
//! happened since.
//!
//! Knows no reader, no event and no session: it is a clock and one number. The writer does not know
//! of it, and what a reader gets does not depend on it, nor in which order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// What serving one reader takes of a processor: the wake, what is put together, the write, and the
/// client that takes it if it is on this machine, too.
const COST: Duration = Duration::from_micros(80);
/// A place that is no further away is not waited for. Timers go by the millisecond.
const SOON: Duration = Duration::from_millis(2);
/// Nobody is told to wait longer, whatever the line.
const LONGEST: Duration = Duration::from_millis(150);

/// The line of one session's readers.
#[derive(Debug)]
pub struct Pacer {
    begun: Instant,
    /// The first free place, in nanoseconds since it began.
    free: AtomicU64,
    /// From one place to the next.
    apart: Duration,
}

impl Default for Pacer {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_places(COST / u32::try_from(processors).unwrap_or(1))
    }
}

impl Pacer {
    fn with_places(apart: Duration) -> Self {
        Self { begun: Instant::now(), free: AtomicU64::new(0), apart }
    }

    /// For a reader that has just been served: when it is its turn again. None: at once.
    pub fn again(&self) -> Option<Instant> {
        let now = self.begun.elapsed();
        let mut place = None;
        let take = |free| {
            let (next, mine) = next_place(now, Duration::from_nanos(free), self.apart);
            place = mine;
            u64::try_from(next.as_nanos()).ok()
        };
        // Failed: the clock has run for five hundred years.
        let _ = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        place.map(|place| self.begun + place)
    }
}

/// The first free place after this one was taken, and the one taken, if it is to be waited for.
fn next_place(now: Duration, free: Duration, apart: Duration) -> (Duration, Option<Duration>) {
    let place = free.clamp(now, now + LONGEST);
    let waits = place > now + SOON;
    (place + apart, waits.then_some(place))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const APART: Duration = Duration::from_micros(40);

    /// Plays readers that come whenever they may and a session that says something every `every`:
    /// how often each was served within a second, and how long anything waited at most.
    fn play(readers: usize, every: Duration) -> (f64, Duration) {
        let second = Duration::from_secs(1);
        let mut free = Duration::ZERO;
        // When each is ready for more.
        let mut ready: std::collections::BinaryHeap<_> =
            (0..readers).map(|reader| std::cmp::Reverse((Duration::ZERO, reader))).collect();
        let (mut served, mut waited) = (0_usize, Duration::ZERO);
        let mut had = vec![Duration::ZERO; readers];
        while let Some(std::cmp::Reverse((since, reader))) = ready.pop() {
            // The next event that it has not seen, or now, if that has happened already.
            let unseen = had[reader] + every;
            let now = since.max(unseen);
            if now > second {
                continue;
            }
            waited = waited.max(now - unseen);
            had[reader] = every * u32::try_from(now.as_nanos() / every.as_nanos()).unwrap();
            served += 1;
            let (next, mine) = next_place(now, free, APART);
            free = next;
            ready.push(std::cmp::Reverse((mine.unwrap_or(now), reader)));
        }
        (served as f64 / readers as f64, waited)
    }

    #[test]
    fn a_few_see_every_event_at_once_and_a_crowd_comes_round_in_turn() {
        let every = Duration::from_millis(5);
        for readers in [1, 10, 50] {
            let (served, waited) = play(readers, every);
            assert!(served >= 199.0 && waited <= SOON, "{readers}: {served}, {waited:?}");
        }
        for readers in [500_u32, 1_000, 2_000, 4_000] {
            let (served, waited) = play(readers as usize, every);
            let round = APART * readers;
            let most = 1.0 / round.as_secs_f64();
            assert!(served <= most + 2.0, "{readers}: {served} of {most}");
            assert!(served >= most / 2.0 - 2.0, "{readers}: {served} of {most}");
            assert!(waited <= round + every, "{readers}: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_has_run_dry_is_no_line() {
        let pacer = Pacer::with_places(APART);
        for _ in 0..2 {
            let turns: Vec<_> = (0..1_000).filter_map(|_| pacer.again()).collect();
            assert_eq!(turns.len(), 949, "those within two milliseconds do not wait");
            assert!(turns.is_sorted(), "each is behind the one before");
            tokio::time::advance(LONGEST).await;
        }
    }

    proptest! {
        /// Nobody waits longer than the longest, nobody comes before now, and a place is taken once.
        #[test]
        fn places_are_apart_and_not_far(
            now in 0_u64..1 << 40,
            free in 0_u64..1 << 41,
            apart in 1_u64..1_000_000,
        ) {
            let [now, free, apart] = [now, free, apart].map(Duration::from_nanos);
            let (next, mine) = next_place(now, free, apart);
            prop_assert!(next >= now + apart);
            prop_assert!(next <= now + LONGEST + apart);
            if let Some(mine) = mine {
                prop_assert!(mine > now + SOON && mine <= now + LONGEST);
                prop_assert_eq!(next, mine + apart);
            } else {
                prop_assert!(free <= now + SOON);
            }
        }
    }
}
