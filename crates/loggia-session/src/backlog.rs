//! How many bytes the prompts of open sessions take: on their way to an actor, in a queue, or in the turn that runs.
//!
//! One count for all sessions of a hub, with a share for each principal, so that opening more sessions does not give
//! a client more memory. What a single session's queue may hold is decided in `loggia-core`. Knows names and numbers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loggia_core::{QueueBound, Session};

/// In bytes. A share holds several of the largest messages that a server accepts.
#[derive(Debug, Clone, Copy)]
pub struct BacklogLimits {
    /// Of one principal, in all sessions.
    pub share: usize,
    /// Of all principals together. Prompts of this process itself (a terminal) have a share of their own beside it.
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
    /// A lock, not a task: held for a look-up, and a reservation gives its bytes back in `drop`.
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    by: HashMap<Principal, usize>,
    /// Without those of this process itself.
    all: usize,
}

impl Held {
    fn add(&mut self, by: &Principal, bytes: usize) {
        *self.by.entry(by.clone()).or_default() += bytes;
        self.all += if by.is_some() { bytes } else { 0 };
    }

    fn remove(&mut self, by: &Principal, bytes: usize) {
        self.all -= if by.is_some() { bytes } else { 0 };
        if let Some(held) = self.by.get_mut(by) {
            *held -= bytes;
            if *held == 0 {
                self.by.remove(by);
            }
        }
    }
}

impl Backlog {
    pub fn new(limits: BacklogLimits) -> Arc<Self> {
        Arc::new(Self { limits, held: Mutex::default() })
    }

    /// Room for one more prompt, or which bound is reached.
    pub fn reserve(self: &Arc<Self>, by: &Principal, bytes: usize) -> Result<Reserved, QueueBound> {
        let mut held = self.held();
        let own = held.by.get(by).copied().unwrap_or_default();
        if own > 0 && own + bytes > self.limits.share {
            return Err(QueueBound::ShareBytes);
        }
        if by.is_some() && held.all > 0 && held.all + bytes > self.limits.all {
            return Err(QueueBound::Bytes);
        }
        held.add(by, bytes);
        Ok(Reserved { backlog: self.clone(), by: by.clone(), bytes })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for one prompt until its session counts it.
pub(crate) struct Reserved {
    backlog: Arc<Backlog>,
    by: Principal,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.backlog.held().remove(&self.by, self.bytes);
    }
}

/// What one open session holds. A log that is opened with a long queue is counted, whatever the limits are.
pub(crate) struct Charge {
    backlog: Arc<Backlog>,
    held: Vec<(Principal, usize)>,
}

impl Charge {
    pub fn new(backlog: &Arc<Backlog>) -> Self {
        Self { backlog: backlog.clone(), held: Vec::new() }
    }

    pub fn set(&mut self, session: &Session) {
        let held = session.prompt_bytes().filter(|(_, bytes)| *bytes > 0);
        let fresh: Vec<_> = held.map(|(by, bytes)| (by.cloned(), bytes)).collect();
        if fresh == self.held {
            return;
        }
        let before = std::mem::replace(&mut self.held, fresh);
        let mut held = self.backlog.held();
        self.held.iter().for_each(|(by, bytes)| held.add(by, *bytes));
        before.iter().for_each(|(by, bytes)| held.remove(by, *bytes));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut held = self.backlog.held();
        self.held.iter().for_each(|(by, bytes)| held.remove(by, *bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_a_share_and_the_process_its_own() {
        let backlog = Backlog::new(BacklogLimits { share: 10, all: 15 });
        let (ann, bob) = (Some(Arc::from("ann")), Some(Arc::from("bob")));
        let first = backlog.reserve(&ann, 10).expect("a share");
        assert_eq!(backlog.reserve(&ann, 1).err(), Some(QueueBound::ShareBytes));
        assert_eq!(backlog.reserve(&bob, 6).err(), Some(QueueBound::Bytes));
        let second = backlog.reserve(&bob, 5).expect("what is left");
        let own = backlog.reserve(&None, 10).expect("beside what clients hold");
        assert_eq!(backlog.reserve(&None, 1).err(), Some(QueueBound::ShareBytes));
        drop((first, second, own));
        let held = backlog.held();
        assert!(held.by.is_empty() && held.all == 0, "everything was given back");
    }

    #[test]
    fn a_prompt_larger_than_a_share_is_taken_alone() {
        let backlog = Backlog::new(BacklogLimits { share: 10, all: 15 });
        let ann = Some(Arc::from("ann"));
        let large = backlog.reserve(&ann, 40).expect("nothing else is held");
        assert_eq!(backlog.reserve(&ann, 1).err(), Some(QueueBound::ShareBytes));
        drop(large);
        assert!(backlog.reserve(&ann, 1).is_ok());
    }
}
