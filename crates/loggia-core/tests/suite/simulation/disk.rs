//! The store: one log, one lease, and a write cache that a power cut loses.

use std::sync::Arc;

use loggia_core::{Durability, Envelope, Seq};

#[derive(Default)]
pub struct Disk {
    pub log: Vec<Arc<Envelope>>,
    /// The length of the log that survives a power cut.
    pub synced: usize,
    /// The lease: only the node that acquired this epoch may append.
    pub epoch: u64,
    /// The end of each append: appends are atomic.
    appends: Vec<usize>,
}

#[derive(Debug, PartialEq)]
pub struct LostLease;

impl Disk {
    pub fn acquire(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    pub fn append(
        &mut self,
        epoch: u64,
        expected: Seq,
        events: &[Arc<Envelope>],
    ) -> Result<(), LostLease> {
        if epoch != self.epoch || expected.0 != self.log.len() as u64 {
            return Err(LostLease);
        }
        self.log.extend(events.iter().cloned());
        self.appends.push(self.log.len());
        // An append with a decision is synced, and everything before it, too.
        if events.iter().any(|it| it.event.durability() == Durability::Decision) {
            self.synced = self.log.len();
        }
        Ok(())
    }

    /// Appends after the last sync, which a power cut could lose.
    pub fn unsynced(&self) -> Vec<usize> {
        self.appends.iter().copied().filter(|end| *end >= self.synced).collect()
    }

    /// Everything after `end` was only in the cache.
    pub fn power_cut(&mut self, end: usize) -> Vec<Arc<Envelope>> {
        self.appends.retain(|append| *append <= end);
        self.synced = self.synced.min(end);
        self.log.split_off(end)
    }
}
