//! Names of things. Every id is its own type, so that a task id cannot stand where a turn id belongs.
//!
//! Ids are opaque text: Loggia's own are UUIDv7, but clients may bring theirs (a client-made task
//! id, a model's call id). Nothing here makes randomness; [`Fresh`] spends a seed that came from
//! outside.

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
                from.deserialize_str(Text).map(Self)
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
    /// An address for clients: one or more turns.
    TaskId,
    /// From a started prompt to its end.
    TurnId,
    /// What a client asked the agent to do. Retrying with the same id changes nothing.
    PromptId,
    /// One use of one tool.
    CallId,
    /// A question about a call.
    ApprovalId,
    /// One reply of the model: its text, thoughts and calls share this id.
    MessageId,
    /// A remembered permission.
    RuleId,
    /// Who is connected: stable for one client's connection or run.
    ClientId,
}

/// The text of an id, copied once: every event of a log has some, and by way of a `String` it would be twice.
struct Text;

impl Visitor<'_> for Text {
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

/// Wall clock, milliseconds since 1970. For people to read; order comes from [`Seq`] alone.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// A supply of ids for one command: a seed from outside, spent in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fresh {
    seed: u64,
    at: Millis,
}

impl Fresh {
    pub fn new(seed: u64, at: Millis) -> Self {
        Self { seed, at }
    }

    /// The n-th id of this supply. Sorts by time like any UUIDv7.
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
