//! How many webhooks there may be: of a task, at work for a principal, at work for all.
//!
//! Many requests come at once, so nothing is counted that could change before it is acted on:
//! registrations of one task come one after another, and one that is not at work yet counts as if it
//! were.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loggia_core::TaskId;
use loggia_wire::{Condition, WireError};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Inner;
use super::record::{Key, Registration};

/// Tasks that change their webhooks at the same time; two of them may share a line.
const LINES: usize = 64;

/// One after another, for each task.
pub(super) struct Turns {
    lines: [Semaphore; LINES],
    chance: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        let lines = std::array::from_fn(|_| Semaphore::new(1));
        Self { lines, chance: RandomState::new() }
    }
}

impl Turns {
    /// It is the task's turn until this is dropped.
    pub async fn of(&self, task: &TaskId) -> Option<SemaphorePermit<'_>> {
        let line = self.chance.hash_one(task.as_str()) % LINES as u64;
        // Neither fails: there is such a line, and none is ever closed.
        self.lines.get(usize::try_from(line).ok()?)?.acquire().await.ok()
    }
}

/// Webhooks that are going to be at work, and whose.
#[derive(Default)]
pub(super) struct Promises {
    /// A lock, not a task: held for a count. Taken before that of the workers.
    made: Mutex<BTreeMap<u64, (Key, String)>>,
}

impl Promises {
    fn made(&self) -> MutexGuard<'_, BTreeMap<u64, (Key, String)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the webhooks at work, for one that has not been started. To be kept until it is.
pub(super) struct Promise {
    outbox: Arc<Inner>,
    number: u64,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.outbox.promises.made().remove(&self.number);
    }
}

impl Inner {
    /// A place for a webhook whose task has this many others. In the task's turn.
    pub(super) fn make_room(
        self: &Arc<Self>,
        new: &Registration,
        others: usize,
    ) -> Result<Promise, WireError> {
        let refused = |why| Err(Condition::TooManyWebhooks { why }.into());
        if others >= self.options.most_per_task {
            return refused("the task has as many as it may have: delete one");
        }
        let mut made = self.promises.made();
        let workers = self.workers();
        // One that was started counts once, while its promise is still there.
        let waiting = made.values().filter(|(key, _)| !workers.contains_key(key));
        let (mut all, mut own) = (0, 0);
        let at_work = workers.values().map(|running| &running.principal);
        for principal in at_work.chain(waiting.map(|(_, principal)| principal)) {
            all += 1;
            own += usize::from(*principal == new.principal);
        }
        drop(workers);
        if own >= self.options.most_per_principal || all >= self.options.most {
            return refused("too many are at work: try again when some tasks are over");
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        made.insert(number, (new.key(), new.principal.clone()));
        Ok(Promise { outbox: self.clone(), number })
    }
}
