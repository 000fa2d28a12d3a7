//! Whose clone may run now: so many at the same time, and of one owner's at most half of them, so
//! that a client whose remotes hang keeps nobody else waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Copies that are made at the same time; others wait.
const PLACES: usize = 4;
/// Of them, those of one owner's sessions.
pub const OWN_PLACES: usize = PLACES / 2;

pub struct Lanes {
    common: Arc<Semaphore>,
    /// By owner, as long as one of theirs runs or waits.
    own: Mutex<HashMap<Option<String>, Weak<Semaphore>>>,
}

/// A clone that may run; given back when dropped.
pub struct Place {
    _own: OwnedSemaphorePermit,
    _common: OwnedSemaphorePermit,
}

/// What a clone that can not start has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    Own,
    Common,
}

/// The way to a place.
pub struct Lane {
    own: Arc<Semaphore>,
    common: Arc<Semaphore>,
}

impl Lanes {
    pub fn new() -> Self {
        Self { common: Arc::new(Semaphore::new(PLACES)), own: Mutex::default() }
    }

    pub fn of(&self, owner: Option<&str>) -> Lane {
        let mut lanes = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|_, lane| lane.strong_count() > 0);
        let slot = lanes.entry(owner.map(str::to_owned)).or_default();
        let own = slot.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(Semaphore::new(OWN_PLACES));
            *slot = Arc::downgrade(&fresh);
            fresh
        });
        Lane { own, common: self.common.clone() }
    }
}

impl Lane {
    /// Whether a place would have to be waited for, and whose fault that is.
    pub fn full(&self) -> Option<Full> {
        match (self.own.available_permits(), self.common.available_permits()) {
            (0, _) => Some(Full::Own),
            (_, 0) => Some(Full::Common),
            (_, _) => None,
        }
    }

    /// One's own turn first: who waits for that takes nobody's place. None: nothing starts any more.
    pub async fn place(&self) -> Option<Place> {
        let own = self.own.clone().acquire_owned().await.ok()?;
        let common = self.common.clone().acquire_owned().await.ok()?;
        Some(Place { _own: own, _common: common })
    }
}
