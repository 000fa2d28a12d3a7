//! Ids. Each kind has its own type, so that a task id cannot be passed as a turn id.
//!
//! Ids are opaque text: Loggia's own are UUIDv7, but clients and models may choose theirs (a task id,
//! a call id). Nothing here is random: [`FreshIds`] derives ids from a seed that the caller supplies.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(IdVisitor).map(Self)
            }
        }

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<uuid::Uuid> for $name {
            fn from(id: uuid::Uuid) -> Self {
                Self((*id.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer())).into())
            }
        }
    )*};
}

ids! {
    /// One conversation on one workspace; one log.
    SessionId,
    /// The unit that clients refer to: one or more turns.
    TaskId,
    /// From a started prompt to its end.
    TurnId,
    /// One prompt of a client. A retry with the same id changes nothing.
    PromptId,
    /// One use of one tool.
    CallId,
    /// A question about a call.
    ApprovalId,
    /// One reply of the model: its text, thoughts and calls share this id.
    MessageId,
    /// A remembered permission.
    RuleId,
    /// One client, for the length of its connection or run.
    ClientId,
}

/// Reads an id with one copy. By way of a `String` there would be two, for every id of a log.
struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Arc<str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(text.into())
    }
}

/// Position in a session's log. Dense, starting at 1; 0 is "before everything".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub const ZERO: Seq = Seq(0);

    #[must_use]
    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Wall clock, milliseconds since 1970. For display; the order of events is [`Seq`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// New ids for one command, derived from a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreshIds {
    seed: u64,
    at: Millis,
}

impl FreshIds {
    pub fn new(seed: u64, at: Millis) -> Self {
        Self { seed, at }
    }

    /// The n-th id. It sorts by time like any UUIDv7.
    pub fn id(&self, n: u64) -> uuid::Uuid {
        let high = mix(self.seed ^ mix(n.wrapping_add(1)));
        let low = mix(high ^ self.seed);
        let mut random = [0u8; 10];
        let bytes = high.to_le_bytes().into_iter().chain(low.to_le_bytes());
        for (slot, byte) in random.iter_mut().zip(bytes) {
            *slot = byte;
        }
        let millis = u64::try_from(self.at.0).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

/// The finaliser of splitmix64: spreads a seed over all bits.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
