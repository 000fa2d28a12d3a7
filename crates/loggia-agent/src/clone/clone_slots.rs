//! Limits how many clones run at the same time, and how many of them belong to one owner, so that a
//! client whose remotes hang does not block the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Clones that run at the same time.
const SLOTS: usize = 4;
pub const SLOTS_PER_OWNER: usize = SLOTS / 2;

pub struct CloneSlots {
    all: Arc<Semaphore>,
    /// An owner has an entry while one of its clones runs or waits.
    by_owner: Mutex<HashMap<Option<String>, Weak<Semaphore>>>,
}

/// The right to run one clone, released on drop.
pub struct CloneSlot {
    _owner: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Which limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    Owner,
    All,
}

/// The slots that one owner can use.
pub struct OwnerSlots {
    owner: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl CloneSlots {
    pub fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(SLOTS)), by_owner: Mutex::default() }
    }

    pub fn of(&self, owner: Option<&str>) -> OwnerSlots {
        let mut by_owner = self.by_owner.lock().unwrap_or_else(PoisonError::into_inner);
        by_owner.retain(|_, slots| slots.strong_count() > 0);
        let entry = by_owner.entry(owner.map(str::to_owned)).or_default();
        let owner = entry.upgrade().unwrap_or_else(|| {
            let created = Arc::new(Semaphore::new(SLOTS_PER_OWNER));
            *entry = Arc::downgrade(&created);
            created
        });
        OwnerSlots { owner, all: self.all.clone() }
    }
}

impl OwnerSlots {
    /// The limit that [`Self::acquire`] would have to wait for.
    pub fn busy(&self) -> Option<Busy> {
        match (self.owner.available_permits(), self.all.available_permits()) {
            (0, _) => Some(Busy::Owner),
            (_, 0) => Some(Busy::All),
            (_, _) => None,
        }
    }

    /// Acquires the owner's slot first: while a clone waits for it, it holds no slot of the others. The
    /// semaphores are never closed, so this always succeeds.
    pub async fn acquire(&self) -> Option<CloneSlot> {
        let owner = self.owner.clone().acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(CloneSlot { _owner: owner, _all: all })
    }
}
