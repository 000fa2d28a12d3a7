//! Counts the bytes that prompts take in memory: on their way to an actor, in a queue, or in the turn that runs.
//!
//! All sessions of a hub share one count, with a share for each principal, so that opening more sessions does not
//! give a client more memory. `loggia-core` limits the queue of a single session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loggia_core::{QueueBound, Session};

/// In bytes. A share holds several of the largest messages that a server accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BacklogLimits {
    /// For one principal, in all sessions.
    pub share: usize,
    /// For all principals together. Prompts of this process itself (a terminal) have a separate share.
    pub all: usize,
}

impl Default for BacklogLimits {
    fn default() -> Self {
        Self { share: 64 << 20, all: 192 << 20 }
    }
}

/// None: this process itself.
type Principal = Option<Arc<str>>;

#[derive(Default)]
pub(crate) struct Backlog {
    limits: BacklogLimits,
    /// A lock, not a task: held for a look-up, and a reservation returns its bytes in `drop`.
    used: Mutex<UsedBytes>,
}

#[derive(Default)]
struct UsedBytes {
    by: HashMap<Principal, usize>,
    /// Without the bytes of this process itself.
    all: usize,
}

impl UsedBytes {
    fn add(&mut self, by: &Principal, bytes: usize) {
        *self.by.entry(by.clone()).or_default() += bytes;
        self.all += if by.is_some() { bytes } else { 0 };
    }

    fn remove(&mut self, by: &Principal, bytes: usize) {
        self.all -= if by.is_some() { bytes } else { 0 };
        if let Some(used) = self.by.get_mut(by) {
            *used -= bytes;
            if *used == 0 {
                self.by.remove(by);
            }
        }
    }
}

impl Backlog {
    /// Memory for one more prompt, or the limit that is reached. A prompt larger than its share is accepted alone.
    pub fn reserve(self: &Arc<Self>, by: &Principal, bytes: usize) -> Result<Reserved, QueueBound> {
        let mut used = self.used();
        let own = used.by.get(by).copied().unwrap_or_default();
        if own > 0 && own + bytes > self.limits.share {
            return Err(QueueBound::ShareBytes);
        }
        if by.is_some() && used.all > 0 && used.all + bytes > self.limits.all {
            return Err(QueueBound::Bytes);
        }
        used.add(by, bytes);
        Ok(Reserved { backlog: self.clone(), by: by.clone(), bytes })
    }

    fn used(&self) -> MutexGuard<'_, UsedBytes> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of one prompt until its session counts it.
pub(crate) struct Reserved {
    backlog: Arc<Backlog>,
    by: Principal,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.backlog.used().remove(&self.by, self.bytes);
    }
}

/// The bytes of one open session. The queue of a log that is opened is counted even if it exceeds the limits.
pub(crate) struct Charge {
    backlog: Arc<Backlog>,
    charged: Vec<(Principal, usize)>,
}

impl Charge {
    pub fn new(backlog: &Arc<Backlog>) -> Self {
        Self { backlog: backlog.clone(), charged: Vec::new() }
    }

    pub fn set(&mut self, session: &Session) {
        let held = session.prompt_bytes().filter(|(_, bytes)| *bytes > 0);
        let now: Vec<_> = held.map(|(by, bytes)| (by.cloned(), bytes)).collect();
        if now == self.charged {
            return;
        }
        let before = std::mem::replace(&mut self.charged, now);
        let mut used = self.backlog.used();
        self.charged.iter().for_each(|(by, bytes)| used.add(by, *bytes));
        before.iter().for_each(|(by, bytes)| used.remove(by, *bytes));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut used = self.backlog.used();
        self.charged.iter().for_each(|(by, bytes)| used.remove(by, *bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Arc<Backlog> {
        let limits = BacklogLimits { share: 10, all: 15 };
        Arc::new(Backlog { limits, used: Mutex::default() })
    }

    #[test]
    fn each_principal_has_a_share_and_the_process_its_own() {
        let backlog = small();
        let (ann, bob) = (Some(Arc::from("ann")), Some(Arc::from("bob")));
        let first = backlog.reserve(&ann, 10).expect("a share");
        assert_eq!(backlog.reserve(&ann, 1).err(), Some(QueueBound::ShareBytes));
        assert_eq!(backlog.reserve(&bob, 6).err(), Some(QueueBound::Bytes));
        let second = backlog.reserve(&bob, 5).expect("the bytes that are left");
        let own = backlog.reserve(&None, 10).expect("the separate share");
        assert_eq!(backlog.reserve(&None, 1).err(), Some(QueueBound::ShareBytes));
        drop((first, second, own));
        let used = backlog.used();
        assert!(used.by.is_empty() && used.all == 0, "everything was given back");
    }

    #[test]
    fn a_prompt_larger_than_a_share_is_accepted_alone() {
        let backlog = small();
        let ann = Some(Arc::from("ann"));
        let large = backlog.reserve(&ann, 40).expect("nothing else is reserved");
        assert_eq!(backlog.reserve(&ann, 1).err(), Some(QueueBound::ShareBytes));
        drop(large);
        assert!(backlog.reserve(&ann, 1).is_ok());
    }
}
