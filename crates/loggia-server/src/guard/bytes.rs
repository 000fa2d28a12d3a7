//! How many bytes of large requests and replies are in memory at a time: of each principal, and of all.
//!
//! A request waits for its bytes, for a while, and is refused if they do not become free. Knows names and numbers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Up to here nothing is counted: there are no more of them than connections.
pub const SMALL: usize = 64 * 1024;

/// What is counted at once.
const UNIT: usize = 1024;

/// How long a request waits for its bytes.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// A lock, not a task: held for one look-up. An entry lives while a permit of its principal does.
    each: Arc<Mutex<HashMap<Arc<str>, Weak<Semaphore>>>>,
}

/// Bytes that are counted until this is dropped.
#[must_use = "the bytes are free again as soon as the permit is dropped"]
pub struct BytePermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
    /// Keeps the principal's count.
    _share: Arc<Semaphore>,
}

impl ByteShares {
    pub fn new(limits: ByteLimits) -> Self {
        let all = Arc::new(Semaphore::new(limits.all / UNIT));
        Self { limits, all, each: Arc::default() }
    }

    /// Room for so many bytes; None if there was none for too long. What is larger than a share takes all of it.
    pub async fn acquire(&self, principal: &Arc<str>, bytes: usize) -> Option<BytePermit> {
        let share = self.share(principal);
        let units = self.units(bytes);
        let acquiring = async {
            // Its own share first: a principal that waits for itself takes nothing from others.
            let own = share.clone().acquire_many_owned(units).await.ok()?;
            let all = self.all.clone().acquire_many_owned(units).await.ok()?;
            Some((own, all))
        };
        let (own, all) = tokio::time::timeout(PATIENCE, acquiring).await.ok()??;
        Some(BytePermit { _own: own, _all: all, _share: share })
    }

    /// The same without waiting.
    pub fn try_acquire(&self, principal: &Arc<str>, bytes: usize) -> Option<BytePermit> {
        let share = self.share(principal);
        let units = self.units(bytes);
        let own = share.clone().try_acquire_many_owned(units).ok()?;
        let all = self.all.clone().try_acquire_many_owned(units).ok()?;
        Some(BytePermit { _own: own, _all: all, _share: share })
    }

    fn units(&self, bytes: usize) -> u32 {
        let units = (bytes.min(self.limits.share) / UNIT).max(1);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    fn share(&self, principal: &Arc<str>) -> Arc<Semaphore> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = each.get(principal).and_then(Weak::upgrade) {
            return share;
        }
        each.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.limits.share / UNIT));
        each.insert(principal.clone(), Arc::downgrade(&share));
        share
    }
}

impl Default for ByteShares {
    fn default() -> Self {
        Self::new(ByteLimits::default())
    }
}

/// What one request holds: its body until it is handed on, and its reply until that is sent.
#[derive(Default)]
pub struct Load {
    /// Locks, not tasks: held to put a permit in or to take it out.
    body: Mutex<Option<BytePermit>>,
    /// Several where one request holds several calls.
    replies: Mutex<Vec<BytePermit>>,
}

impl Load {
    pub(crate) fn hold_body(&self, permit: Option<BytePermit>) {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// The body is not in memory any more, or is counted elsewhere.
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
    async fn one_waits_for_itself_and_others_go_on() {
        let shares = ByteShares::new(ByteLimits { share: 100 * UNIT, all: 150 * UNIT });
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let held = shares.acquire(&ann, 1_000 * UNIT).await.expect("all of a share");
        assert!(shares.acquire(&ann, 1).await.is_none(), "for its own bytes in vain");
        let other = shares.acquire(&bob, 50 * UNIT).await.expect("what is left");
        assert!(shares.acquire(&bob, UNIT).await.is_none(), "nothing is left at all");
        let waiting = shares.acquire(&bob, UNIT);
        let freed = async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(held);
        };
        assert!(tokio::join!(waiting, freed).0.is_some(), "it came in time");
        drop(other);
        assert_eq!(shares.all.available_permits(), 150);
    }
}
