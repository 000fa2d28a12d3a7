//! Exponential back-off with jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Half of the delay is random, so that webhooks of one failed server are not retried together.
pub fn delay(attempts: u32, first: Duration, longest: Duration, random: u64) -> Duration {
    let doubled =
        first.saturating_mul(1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX));
    let half = doubled.min(longest) / 2;
    // A number between 0 and 1.
    let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
    half + half.mul_f64(share)
}

/// Not for secrets.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(3_600));
        for (attempts, seconds) in [
            (1, 1),
            (2, 2),
            (3, 4),
            (10, 512),
            (12, 2_048),
            (13, 3_600),
            (40, 3_600),
            (u32::MAX, 3_600),
        ] {
            let whole = Duration::from_secs(seconds);
            assert_eq!(delay(attempts, first, longest, 0), whole / 2, "{attempts}");
            let most = delay(attempts, first, longest, u64::MAX);
            assert!(most > whole.mul_f64(0.99) && most <= whole, "{attempts}: {most:?}");
            let any = delay(attempts, first, longest, random());
            assert!(any >= whole / 2 && any <= whole, "{attempts}: {any:?}");
        }
        assert_eq!(delay(0, first, longest, 0), first / 2);
    }
}
