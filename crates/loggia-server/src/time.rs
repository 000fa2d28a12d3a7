//! The wall clock, in the unit of the log. For times that are shown or sent. Timeouts use the monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};

use loggia_core::Millis;

pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
