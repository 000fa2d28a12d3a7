//! The store: one log, one lease, and a cache that a power cut empties.

use std::sync::Arc;

use loggia_core::{Durability, Envelope, Seq};

#[derive(Default)]
pub struct Disk {
    pub log: Vec<Arc<Envelope>>,
    /// How much of the log a power cut cannot take.
    pub synced: usize,
    /// The lease: only the node that acquired this epoch may append.
    pub epoch: u64,
    /// Where each append ended: an append is there as a whole or not at all.
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
        // One decision in it, and the append waits for the disk, and with it all before it.
        if events.iter().any(|it| it.event.durability() == Durability::Decision) {
            self.synced = self.log.len();
        }
        Ok(())
    }

    /// Appends after the last sync that a power cut could take.
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
