//! What is not in memory any more: read from the store, together with all others who are at the same place.
//!
//! A crowd that fell behind costs one read a block, not one each. Whoever comes from anywhere gets a small block, soon;
//! whoever has read a block to its end gets what the store likes to give at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use loggia_core::{Envelope, Seq, SessionId};
use tokio::sync::OnceCell;

use super::{BATCH, Events};
use crate::ports::{Store, StoreError};

/// A block that weighs more is not remembered: a few of the largest messages are not kept for readers who may not come.
const LARGE: usize = 1024 * 1024;

/// Blocks that are remembered, for the others who fell behind together with one.
const BLOCKS: usize = 2;

#[derive(Default)]
pub struct Behind {
    /// A lock, not a task: held for a look at a few entries.
    blocks: Mutex<VecDeque<Block>>,
}

#[derive(Clone)]
struct Block {
    /// It begins behind this event.
    after: Seq,
    events: Arc<OnceCell<Arc<Vec<Arc<Envelope>>>>>,
}

impl Block {
    fn new(after: Seq) -> Self {
        Self { after, events: Arc::default() }
    }

    /// The last event in it, as soon as it has been read.
    fn last(&self) -> Option<Seq> {
        let events = self.events.get()?;
        Some(Seq(self.after.0 + events.len() as u64))
    }

    fn is_large(&self) -> bool {
        let weight = |events: &Vec<Arc<Envelope>>| -> usize {
            events.iter().map(|envelope| envelope.approx_bytes()).sum()
        };
        self.events.get().is_some_and(|events| weight(events) > LARGE)
    }

    /// One that is being read may hold it or not.
    fn may_hold_what_follows(&self, after: Seq) -> bool {
        let end = self.last().unwrap_or(Seq(self.after.0 + BATCH as u64));
        self.after <= after && after < end
    }

    /// Up to [`BATCH`] events after `after`, as far as it holds them.
    async fn read(
        &self,
        store: &dyn Store,
        session: &SessionId,
        after: Seq,
    ) -> Result<Events, StoreError> {
        // Never a number of events: a hundred of the largest messages would be in memory at once.
        let read = || async { store.read_on(session, self.after).await.map(Arc::new) };
        let events = self.events.get_or_try_init(read).await?;
        let skip = usize::try_from(after.0.saturating_sub(self.after.0)).unwrap_or(usize::MAX);
        Ok(Events::of(events, skip, BATCH))
    }
}

impl Behind {
    /// Up to [`BATCH`] events after `after`, of which there is one.
    pub async fn read(
        &self,
        store: &dyn Store,
        session: &SessionId,
        after: Seq,
    ) -> Result<Events, StoreError> {
        let found = self.read_block(&self.around(after), store, session, after).await?;
        if !found.is_empty() {
            return Ok(found);
        }
        // It ended sooner than was to be expected.
        self.read_block(&self.from(after), store, session, after).await
    }

    async fn read_block(
        &self,
        block: &Block,
        store: &dyn Store,
        session: &SessionId,
        after: Seq,
    ) -> Result<Events, StoreError> {
        let read = block.read(store, session, after).await;
        if read.is_err() || block.is_large() {
            // What lies before it may be damaged, and what is behind it be good: nobody else is to come here.
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks.retain(|other| !Arc::ptr_eq(&other.events, &block.events));
        }
        read
    }

    /// The block in which this reader is.
    fn around(&self, after: Seq) -> Block {
        // Readers that come from anywhere meet at round numbers, and the others where a block ended.
        let round = Seq(after.0 - after.0 % BATCH as u64);
        let begin = |blocks: &VecDeque<Block>| {
            let ended = |block: &Block| {
                block.last().is_some_and(|last| last == after || block.after == round)
            };
            Block::new(if blocks.iter().any(ended) { after } else { round })
        };
        self.block(|block| block.may_hold_what_follows(after), begin)
    }

    /// The one that begins where it is.
    fn from(&self, after: Seq) -> Block {
        let begins = |block: &Block| block.after == after && block.may_hold_what_follows(after);
        self.block(begins, |_| Block::new(after))
    }

    fn block(
        &self,
        is_it: impl Fn(&Block) -> bool,
        begin: impl FnOnce(&VecDeque<Block>) -> Block,
    ) -> Block {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = blocks.iter().find(|block| is_it(block)) {
            return block.clone();
        }
        let block = begin(&blocks);
        if blocks.len() == BLOCKS {
            blocks.pop_front();
        }
        blocks.push_back(block.clone());
        block
    }
}
