//! Bounds the bytes of large requests and replies in memory, for each principal and in all.
//!
//! A request waits for its bytes for a while, and is refused if they do not become free.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::keyed_semaphores::KeyedSemaphores;

/// Smaller ones are not counted: their number is bounded by the connections.
pub const SMALL: usize = 64 * 1024;

/// Bytes of one permit.
const UNIT: usize = 1024;

/// How long a request waits for its bytes.
const WAIT: Duration = Duration::from_secs(10);

/// Bytes of one principal, and of all together.
#[derive(Debug, Clone, Copy)]
pub struct ByteLimits {
    pub share: usize,
    pub all: usize,
}

impl Default for ByteLimits {
    fn default() -> Self {
        Self { share: 24 << 20, all: 48 << 20 }
    }
}

/// Clones share the counts.
#[derive(Clone)]
pub struct ByteShares {
    limits: ByteLimits,
    all: Arc<Semaphore>,
    each: Arc<KeyedSemaphores>,
}

/// Bytes that are counted until this is dropped.
#[must_use = "the bytes are free again as soon as the permit is dropped"]
pub struct BytePermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl ByteShares {
    pub fn new(limits: ByteLimits) -> Self {
        let all = Arc::new(Semaphore::new(limits.all / UNIT));
        let each = Arc::new(KeyedSemaphores::new(limits.share / UNIT));
        Self { limits, all, each }
    }

    /// Waits for a permit; None after a timeout. More bytes than a share count as the whole share.
    pub async fn acquire(&self, principal: &Arc<str>, bytes: usize) -> Option<BytePermit> {
        let units = self.units(bytes);
        let acquiring = async {
            // The principal's share first: a principal that waits for its own bytes takes none from others.
            let own = self.each.of(principal).acquire_many_owned(units).await.ok()?;
            let all = self.all.clone().acquire_many_owned(units).await.ok()?;
            Some(BytePermit { _own: own, _all: all })
        };
        tokio::time::timeout(WAIT, acquiring).await.ok()?
    }

    /// The same without waiting.
    pub fn try_acquire(&self, principal: &Arc<str>, bytes: usize) -> Option<BytePermit> {
        let units = self.units(bytes);
        let own = self.each.of(principal).try_acquire_many_owned(units).ok()?;
        let all = self.all.clone().try_acquire_many_owned(units).ok()?;
        Some(BytePermit { _own: own, _all: all })
    }

    fn units(&self, bytes: usize) -> u32 {
        let units = (bytes.min(self.limits.share) / UNIT).max(1);
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

impl Default for ByteShares {
    fn default() -> Self {
        Self::new(ByteLimits::default())
    }
}

/// The permits of one request: for its body until it is handed on, and for its reply until that is sent.
#[derive(Default)]
pub struct Load {
    /// Locks, not tasks: held to put a permit in or to take it out.
    body: Mutex<Option<BytePermit>>,
    /// Several for a batch of calls.
    replies: Mutex<Vec<BytePermit>>,
}

impl Load {
    pub(crate) fn hold_body(&self, permit: Option<BytePermit>) {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// Called when the body is no longer in memory, or is counted elsewhere.
    pub(crate) fn release_body(&self) {
        self.hold_body(None);
    }

    pub(crate) fn hold_reply(&self, permit: BytePermit) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).push(permit);
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Load").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_principal_waits_for_its_own_bytes_only() {
        let shares = ByteShares::new(ByteLimits { share: 100 * UNIT, all: 150 * UNIT });
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let held = shares.acquire(&ann, 1_000 * UNIT).await.expect("a whole share");
        assert!(shares.acquire(&ann, 1).await.is_none(), "its share is taken");
        let other = shares.acquire(&bob, 50 * UNIT).await.expect("the rest");
        assert!(shares.acquire(&bob, UNIT).await.is_none(), "nothing is left");
        let waiting = shares.acquire(&bob, UNIT);
        let freed = async {
            tokio::time::sleep(WAIT / 2).await;
            drop(held);
        };
        assert!(tokio::join!(waiting, freed).0.is_some(), "it came in time");
        drop(other);
        assert_eq!(shares.all.available_permits(), 150);
    }
}
