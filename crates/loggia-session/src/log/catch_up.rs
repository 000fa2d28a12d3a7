//! Reads events that are no longer in memory. Readers at the same position share one read of the store.
//!
//! Blocks start at multiples of [`BATCH`], so that readers at close positions get the same block. A reader that has
//! finished a block continues where the block ended; a block with many bytes ends before the next multiple.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loggia_core::{Envelope, Seq, SessionId};
use tokio::sync::OnceCell;

use super::{BATCH, Events};
use crate::ports::{Store, StoreError};

/// A block with more bytes is not kept: the readers that share it may never come.
const LARGE: usize = 1024 * 1024;

/// Blocks that are kept for other readers.
const BLOCKS: usize = 2;

#[derive(Default)]
pub struct CatchUp {
    /// A lock, not a task: held for a look at a few entries.
    blocks: Mutex<VecDeque<Arc<Block>>>,
}

/// The events of one read of the store.
struct Block {
    after: Seq,
    events: OnceCell<Arc<Vec<Arc<Envelope>>>>,
}

impl Block {
    /// The last event, once the block has been read.
    fn last(&self) -> Option<Seq> {
        let events = self.events.get()?;
        Some(Seq(self.after.0 + events.len() as u64))
    }

    /// A block that is still being read may turn out to end sooner.
    fn may_contain_next(&self, after: Seq) -> bool {
        let end = self.last().unwrap_or(Seq(self.after.0 + BATCH as u64));
        self.after <= after && after < end
    }
}

impl CatchUp {
    /// Up to [`BATCH`] events after `after`. The log must hold at least one.
    pub async fn read(
        &self,
        store: &dyn Store,
        session: &SessionId,
        after: Seq,
    ) -> Result<Events, StoreError> {
        let events = self.read_block(self.block_around(after), store, session, after).await?;
        if !events.is_empty() {
            return Ok(events);
        }
        // The block ended sooner than expected.
        self.read_block(self.block_from(after), store, session, after).await
    }

    async fn read_block(
        &self,
        block: Arc<Block>,
        store: &dyn Store,
        session: &SessionId,
        after: Seq,
    ) -> Result<Events, StoreError> {
        let read = || async {
            // Limited by bytes, not by events: a hundred of the largest messages must not be in memory at once.
            let read = store.read_chunk(session, block.after).await;
            let weigh = |events: &Vec<Arc<Envelope>>| -> usize {
                events.iter().map(|envelope| envelope.approx_bytes()).sum()
            };
            // After an error the next reader starts at its own position: only the events before it may be damaged.
            if read.as_ref().map_or(true, |events| weigh(events) > LARGE) {
                self.blocks().retain(|kept| !Arc::ptr_eq(kept, &block));
            }
            read.map(Arc::new)
        };
        let events = block.events.get_or_try_init(read).await?;
        let skip = usize::try_from(after.0.saturating_sub(block.after.0)).unwrap_or(usize::MAX);
        Ok(Events::of(events, skip, BATCH))
    }

    /// A block that may contain the event after `after`.
    fn block_around(&self, after: Seq) -> Arc<Block> {
        let mut blocks = self.blocks();
        if let Some(block) = blocks.iter().find(|block| block.may_contain_next(after)) {
            return block.clone();
        }
        let continues = blocks.iter().any(|block| block.last() == Some(after));
        let aligned = Seq(after.0 - after.0 % BATCH as u64);
        start(&mut blocks, if continues { after } else { aligned })
    }

    /// A block that starts with the event after `after`.
    fn block_from(&self, after: Seq) -> Arc<Block> {
        let mut blocks = self.blocks();
        let starts = |block: &&Arc<Block>| block.after == after && block.may_contain_next(after);
        blocks.iter().find(starts).cloned().unwrap_or_else(|| start(&mut blocks, after))
    }

    /// Drops the kept blocks.
    pub fn clear(&self) {
        self.blocks().clear();
    }

    fn blocks(&self) -> MutexGuard<'_, VecDeque<Arc<Block>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(blocks: &mut VecDeque<Arc<Block>>, after: Seq) -> Arc<Block> {
    let block = Arc::new(Block { after, events: OnceCell::new() });
    if blocks.len() == BLOCKS {
        blocks.pop_front();
    }
    blocks.push_back(block.clone());
    block
}
