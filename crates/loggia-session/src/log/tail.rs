//! The newest events, in memory: blocks that readers share instead of copying what is in them.
//!
//! Small appends are joined into blocks here, at the writer, so that a reader who is behind gets them in one piece.

use std::collections::VecDeque;
use std::sync::Arc;

use loggia_core::{Envelope, Seq};

use super::{BATCH, Events};

/// How many of the newest events stay in memory, if they are small.
pub const TAIL: usize = 4096;
/// What they weigh at most, about, unless one append weighs more.
const TAIL_BYTES: usize = 2 * 1024 * 1024;
/// A block that weighs this much is full: a reader that stands still keeps all of the one that it was given.
const BLOCK_BYTES: usize = 128 * 1024;

#[derive(Default)]
pub struct Tail {
    /// The last one grows. None is empty.
    blocks: VecDeque<Block>,
    /// Events of all blocks, and what they weigh.
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

    /// Takes as many as fit, and returns the others.
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
            // Somebody is reading it: it stays as it is for them, and goes on in a copy.
            None => self.events = Arc::new([self.events.as_slice(), taken].concat()),
        }
        rest
    }
}

impl Tail {
    /// Returns what is too old now: to be dropped when nobody waits for the tail any more.
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

    /// By whole blocks. Of events that are small, no fewer than [`TAIL`] are left.
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

    /// Up to [`BATCH`] events after `after`; none where it ends. None: it is behind all that is here.
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
