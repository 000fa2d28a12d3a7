//! How long a question may stay open, and what happens then.
//!
//! Not here: a clock. The session's actor has the timer and sends
//! [`crate::Command::Expire`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The policy for unanswered questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeout {
    pub after: Seconds,
    #[serde(default)]
    pub then: OnTimeout,
}

impl Timeout {
    /// How long a question stays open; None if it stays open forever.
    pub fn duration(self) -> Option<Duration> {
        (self.then != OnTimeout::Wait).then_some(Duration::from_secs(self.after.0))
    }

    /// Why a call was refused.
    pub(crate) fn reason(self) -> String {
        format!("no answer within {}", self.after)
    }
}

/// The action after the timeout, the mildest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The question stays open.
    Wait,
    /// The call is refused, and the agent continues.
    #[default]
    Deny,
    /// The turn is cancelled.
    Cancel,
}

impl OnTimeout {
    pub const ALL: [Self; 3] = [OnTimeout::Wait, OnTimeout::Deny, OnTimeout::Cancel];

    pub fn name(self) -> &'static str {
        match self {
            OnTimeout::Wait => "wait",
            OnTimeout::Deny => "deny",
            OnTimeout::Cancel => "cancel",
        }
    }

    /// The state of the call afterwards, for people.
    pub fn done(self) -> &'static str {
        match self {
            OnTimeout::Wait => "open",
            OnTimeout::Deny => "refused",
            OnTimeout::Cancel => "cancelled",
        }
    }
}

/// A duration, written as `90s`, `10m`, `2h` or `1d`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seconds(pub u64);

/// The largest first.
const UNITS: [(u64, char); 4] = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')];

impl FromStr for Seconds {
    type Err = ();

    /// An integer and one unit.
    fn from_str(text: &str) -> Result<Self, ()> {
        let unit =
            UNITS.iter().find_map(|(seconds, unit)| Some((text.strip_suffix(*unit)?, seconds)));
        let (number, seconds) = unit.ok_or(())?;
        let plain = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        let number: u64 = number.parse().ok().filter(|_| plain).ok_or(())?;
        number.checked_mul(*seconds).map(Self).ok_or(())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(seconds, _): &&(u64, char)| self.0 > 0 && self.0.is_multiple_of(*seconds);
        match UNITS.iter().find(fits) {
            Some((seconds, unit)) => write!(out, "{}{unit}", self.0 / seconds),
            None => write!(out, "{}s", self.0),
        }
    }
}
