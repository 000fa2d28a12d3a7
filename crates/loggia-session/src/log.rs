//! The log as readers see it: a cursor, a watch of the head, and a read.
//!
//! There is no subscription with a snapshot, no queue to overflow and nothing to lose: a reader asks for the events
//! after its cursor and waits if there are none yet. The newest events come from memory, the others from the store;
//! a reader cannot tell which.

mod catch_up;
mod events;
mod tail;

use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

use futures::Stream;
use loggia_core::{Envelope, Rule, Seq, SessionId};
use tokio::sync::watch;

use crate::handle::InUse;
use crate::ports::{Store, StoreError};
use catch_up::CatchUp;
pub use events::Events;
pub use tail::TAIL;
use tail::Tail;

/// Events in one read.
pub const BATCH: usize = 256;

#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    session: SessionId,
    store: Arc<dyn Store>,
    /// A lock, not a task: reads far outnumber writes, and the guard lives for one clone.
    tail: RwLock<Tail>,
    catch_up: CatchUp,
    head: watch::Receiver<Seq>,
    /// Why nothing more is published, if an append failed.
    failure: OnceLock<StoreError>,
}

/// The actor's side. Events are durable before they are published.
pub(crate) struct Publisher {
    log: Log,
    head: watch::Sender<Seq>,
}

pub(crate) fn log(session: SessionId, store: Arc<dyn Store>, head: Seq) -> (Publisher, Log) {
    let (sender, head) = watch::channel(head);
    let (tail, catch_up) = (RwLock::default(), CatchUp::default());
    let failure = OnceLock::new();
    let log = Log(Arc::new(Shared { session, store, tail, catch_up, head, failure }));
    (Publisher { log: log.clone(), head: sender }, log)
}

impl Publisher {
    pub fn publish(&self, events: &[Arc<Envelope>]) {
        let Some(last) = events.last() else { return };
        let old = self.log.tail_mut().push(events);
        self.head.send_replace(last.seq);
        drop(old);
    }

    /// Records why nothing more will be published. The first reason is kept.
    pub fn fail(&self, error: &StoreError) {
        let _ = self.log.0.failure.set(error.clone());
    }
}

impl Log {
    /// Why nothing more is published, if an append failed.
    pub fn failure(&self) -> Option<&StoreError> {
        self.0.failure.get()
    }

    pub fn head(&self) -> Seq {
        *self.0.head.borrow()
    }

    /// True when the actor is gone, so that nothing more will be published.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.head.has_changed().is_err()
    }

    pub(crate) async fn closed(&self) {
        let mut head = self.0.head.clone();
        while head.changed().await.is_ok() {}
    }

    /// Waits until the log has reached `seq`. False: the actor is gone before that.
    pub(crate) async fn reached(&self, seq: Seq) -> bool {
        self.head() >= seq || self.0.head.clone().wait_for(|head| *head >= seq).await.is_ok()
    }

    /// Up to [`BATCH`] events after `after`; empty only at the head.
    pub async fn read(&self, after: Seq) -> Result<Events, StoreError> {
        match self.newest_after(after) {
            Some(events) => Ok(events),
            None if after >= self.head() => Ok(Events::default()),
            None => self.0.catch_up.read(&*self.0.store, &self.0.session, after).await,
        }
    }

    fn newest_after(&self, after: Seq) -> Option<Events> {
        self.0.tail.read().unwrap_or_else(PoisonError::into_inner).after(after)
    }

    pub(crate) async fn remembered_rules(&self, workspace: &str) -> Result<Vec<Rule>, StoreError> {
        crate::hub::project_rules(self.0.store.as_ref(), workspace).await
    }

    /// All events after `after`, then new ones, in order and without gaps.
    pub(crate) fn follow(&self, after: Seq, in_use: Option<Arc<InUse>>) -> Follower {
        Follower { log: self.clone(), head: self.0.head.clone(), cursor: after, _in_use: in_use }
    }

    /// Frees events that an idle session need not keep. They are read from the store instead.
    pub(crate) fn release_memory(&self) {
        let released = self.tail_mut().release();
        drop(released);
        self.0.catch_up.clear();
    }

    fn tail_mut(&self) -> RwLockWriteGuard<'_, Tail> {
        self.0.tail.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One reader. It has a cursor and no queue.
pub struct Follower {
    log: Log,
    head: watch::Receiver<Seq>,
    cursor: Seq,
    /// Keeps the session open.
    _in_use: Option<Arc<InUse>>,
}

impl Follower {
    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    /// The next events, or None when the session has stopped and every event was read.
    pub async fn next(&mut self) -> Result<Option<Events>, StoreError> {
        loop {
            let cursor = self.cursor;
            // `wait_for` checks the head first, so that a change before the wait is not missed.
            let open = self.head.wait_for(|head| *head > cursor).await.is_ok();
            let events = self.log.read(cursor).await?;
            if let Some(last) = events.last() {
                self.cursor = last.seq;
                return Ok(Some(events));
            }
            if !open {
                return Ok(None);
            }
        }
    }

    pub fn into_stream(self) -> impl Stream<Item = Result<Arc<Envelope>, StoreError>> + Send {
        use futures::StreamExt;
        futures::stream::unfold(Some(self), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(Some(events)) => {
                    let events = futures::stream::iter(events.into_iter().map(Ok));
                    Some((events.left_stream(), Some(follower)))
                }
                Ok(None) => None,
                Err(error) => Some((futures::stream::iter([Err(error)]).right_stream(), None)),
            }
        })
        .flatten()
    }
}
