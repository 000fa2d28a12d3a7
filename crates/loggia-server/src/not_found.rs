//! Gives answers that say "there is no such task or session" the same time, so that the time does not show whether
//! another client has a task or session of that id.

use std::time::Duration;

use loggia_core::Refusal;
use loggia_wire::{Condition, WireError};
use tokio::time::Instant;

/// Such an answer takes a multiple of this. A look-up takes much less, so it is nearly always once.
const STEP: Duration = Duration::from_millis(5);

/// Runs a request, and delays an answer that something does not exist until the next multiple of [`STEP`].
pub(crate) async fn padded<T>(
    request: impl Future<Output = Result<T, WireError>>,
) -> Result<T, WireError> {
    padded_since(Instant::now(), request).await
}

/// The same for a request that was begun earlier. Not when its first bytes came: a client that sends slowly could choose
/// when its look-up falls on the end of a step.
pub(crate) async fn padded_since<T>(
    started: Instant,
    request: impl Future<Output = Result<T, WireError>>,
) -> Result<T, WireError> {
    let answer = request.await;
    if answer.as_ref().is_err_and(says_not_found) {
        Box::pin(tokio::time::sleep_until(started + padded_time(started.elapsed()))).await;
    }
    answer
}

fn padded_time(taken: Duration) -> Duration {
    let steps = taken.as_micros() / STEP.as_micros() + 1;
    STEP * u32::try_from(steps).unwrap_or(u32::MAX)
}

fn says_not_found(error: &WireError) -> bool {
    matches!(
        error,
        WireError::Condition(Condition::TaskNotFound | Condition::UnknownContext)
            | WireError::Refused(Refusal::UnknownTask | Refusal::UnknownQuestion)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        for (taken, padded) in [(0, 5_000), (700, 5_000), (4_999, 5_000), (5_000, 10_000)] {
            let taken = Duration::from_micros(taken);
            assert_eq!(padded_time(taken), Duration::from_micros(padded), "{taken:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_answers_that_something_does_not_exist_are_delayed() {
        let time = async |answer: Result<(), WireError>| {
            let started = Instant::now();
            let _ = padded(async { answer }).await;
            started.elapsed()
        };
        assert_eq!(time(Ok(())).await, Duration::ZERO);
        assert_eq!(time(Err(Condition::Busy.into())).await, Duration::ZERO);
        for condition in [Condition::TaskNotFound, Condition::UnknownContext] {
            assert_eq!(time(Err(condition.into())).await, STEP);
        }
    }
}
