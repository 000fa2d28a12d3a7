//! The newest events, in memory, in blocks that readers share instead of copying the events.
//!
//! Small appends are joined into blocks here, by the actor, so that a reader that is behind gets many events at once.

use std::collections::VecDeque;
use std::sync::Arc;

use loggia_core::{Envelope, Seq};

use super::{BATCH, Events};

/// The number of newest events that stay in memory, if they are small.
pub const TAIL: usize = 4096;
/// About the most bytes that stay in memory, unless one append has more.
const TAIL_BYTES: usize = 2 * 1024 * 1024;
/// A block of this many bytes is full. A reader that stands still keeps its whole block in memory.
const BLOCK_BYTES: usize = 128 * 1024;
/// About the most bytes that an idle session keeps in memory.
const IDLE_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub struct Tail {
    /// The last one grows. No block is empty.
    blocks: VecDeque<Block>,
    /// Sums over all blocks.
    events: usize,
    bytes: usize,
}

pub struct Block {
    first: Seq,
    events: Arc<Vec<Arc<Envelope>>>,
    bytes: usize,
}

impl Block {
    fn is_full(&self) -> bool {
        self.events.len() >= BATCH || self.bytes >= BLOCK_BYTES
    }

    /// Takes as many events as fit, and returns the others.
    fn take<'a>(&mut self, events: &'a [Arc<Envelope>]) -> &'a [Arc<Envelope>] {
        let mut taken = 0;
        for envelope in events.iter().take(BATCH.saturating_sub(self.events.len())) {
            if self.bytes >= BLOCK_BYTES {
                break;
            }
            self.bytes += envelope.approx_bytes();
            taken += 1;
        }
        let (taken, rest) = events.split_at(taken);
        match Arc::get_mut(&mut self.events) {
            Some(own) => own.extend_from_slice(taken),
            // A reader holds the block, so that it must not change.
            None => self.events = Arc::new([self.events.as_slice(), taken].concat()),
        }
        rest
    }
}

impl Tail {
    /// Returns the blocks that are too old now. The caller drops them when it has released the lock.
    #[must_use]
    pub fn push(&mut self, events: &[Arc<Envelope>]) -> Vec<Block> {
        self.events += events.len();
        let mut rest = events;
        while let Some(next) = rest.first() {
            if self.blocks.back().is_none_or(Block::is_full) {
                let block = Block { first: next.seq, events: Arc::default(), bytes: 0 };
                self.blocks.push_back(block);
            }
            let Some(last) = self.blocks.back_mut() else { break };
            let before = last.bytes;
            rest = last.take(rest);
            self.bytes += last.bytes - before;
        }
        self.shorten()
    }

    /// Removes whole blocks. Of small events, at least [`TAIL`] are left.
    fn shorten(&mut self) -> Vec<Block> {
        let mut old = Vec::new();
        while self.blocks.len() > 1
            && let Some(first) = self.blocks.front()
            && (self.bytes > TAIL_BYTES || self.events - first.events.len() >= TAIL)
        {
            self.events -= first.events.len();
            self.bytes -= first.bytes;
            old.extend(self.blocks.pop_front());
        }
        old
    }

    /// Removes everything if that is too much for an idle session. Returns the removed blocks.
    #[must_use]
    pub fn release(&mut self) -> VecDeque<Block> {
        match self.bytes > IDLE_BYTES {
            true => std::mem::take(self).blocks,
            false => VecDeque::new(),
        }
    }

    /// Up to [`BATCH`] events after `after`, empty at the end. None: the events are older than the tail.
    pub fn after(&self, after: Seq) -> Option<Events> {
        let next = after.next();
        let later = self.blocks.partition_point(|block| block.first <= next);
        let block = self.blocks.get(later.checked_sub(1)?)?;
        let skip = usize::try_from(next.0 - block.first.0).unwrap_or(usize::MAX);
        Some(Events::of(&block.events, skip, BATCH))
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
