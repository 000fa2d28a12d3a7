//! The log as readers see it: a cursor, a watch of the head, and a read.
//!
//! There is no subscribe-then-snapshot, no queue to overflow, nothing to lose: a reader asks for
//! what comes after its cursor and waits if that is nothing yet. The newest events are served from
//! memory, the rest from the store, and nobody can tell which.

mod behind;
mod events;
mod tail;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use futures::Stream;
use loggia_core::{Envelope, Rule, Seq, SessionId};
use tokio::sync::watch;

use crate::hub::seats::Hold;
use crate::ports::{Store, StoreError};
use behind::Behind;
pub use events::Events;
pub use tail::TAIL;
use tail::Tail;

/// Events in one read.
pub const BATCH: usize = 256;

/// In one piece: it is handed to everybody who has anything to do with the session.
#[derive(Clone)]
pub struct Log(Arc<Read>);

struct Read {
    session: SessionId,
    store: Arc<dyn Store>,
    /// A lock, not a task: readers outnumber writes by far, and the guard lives for one clone.
    tail: RwLock<Tail>,
    behind: Behind,
    head: watch::Receiver<Seq>,
    /// Why the log grows no further, where a failed append is the reason.
    failure: OnceLock<StoreError>,
}

/// The writer's end: what it publishes is durable already.
pub(crate) struct Publisher {
    log: Log,
    head: watch::Sender<Seq>,
}

pub(crate) fn log(session: SessionId, store: Arc<dyn Store>, head: Seq) -> (Publisher, Log) {
    let (sender, head) = watch::channel(head);
    let (tail, behind) = (RwLock::default(), Behind::default());
    let failure = OnceLock::new();
    let log = Log(Arc::new(Read { session, store, tail, behind, head, failure }));
    (Publisher { log: log.clone(), head: sender }, log)
}

impl Publisher {
    pub fn publish(&self, events: &[Arc<Envelope>]) {
        let Some(last) = events.last() else { return };
        let old = self.log.0.tail.write().unwrap_or_else(PoisonError::into_inner).push(events);
        self.head.send_replace(last.seq);
        drop(old);
    }
}

impl Publisher {
    /// Says why nothing more will be published. The first reason counts.
    pub fn fail(&self, error: &StoreError) {
        let _ = self.log.0.failure.set(error.clone());
    }
}

impl Log {
    /// Why the log grows no further, where a failed append is the reason.
    pub fn failure(&self) -> Option<&StoreError> {
        self.0.failure.get()
    }

    pub fn head(&self) -> Seq {
        *self.0.head.borrow()
    }

    /// True when nothing will be published any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.head.has_changed().is_err()
    }

    pub(crate) async fn closed(&self) {
        let mut head = self.0.head.clone();
        while head.changed().await.is_ok() {}
    }

    /// Waits until the log has come so far; false if it never will.
    pub(crate) async fn reached(&self, seq: Seq) -> bool {
        self.head() >= seq || self.0.head.clone().wait_for(|head| *head >= seq).await.is_ok()
    }

    /// Up to [`BATCH`] events after `after`; empty only at the head.
    pub async fn read(&self, after: Seq) -> Result<Events, StoreError> {
        match self.newest_after(after) {
            Some(events) => Ok(events),
            None if after >= self.head() => Ok(Events::default()),
            None => self.0.behind.read(&*self.0.store, &self.0.session, after).await,
        }
    }

    fn newest_after(&self, after: Seq) -> Option<Events> {
        self.0.tail.read().unwrap_or_else(PoisonError::into_inner).after(after)
    }

    pub(crate) async fn remembered_rules(&self, workspace: &str) -> Result<Vec<Rule>, StoreError> {
        crate::hub::project_rules(self.0.store.as_ref(), workspace).await
    }

    /// Everything after `after`, then whatever comes, in order and without gaps.
    pub(crate) fn follow(&self, after: Seq, hold: Option<Arc<Hold>>) -> Follower {
        Follower { log: self.clone(), head: self.0.head.clone(), cursor: after, _hold: hold }
    }
}

/// One reader. Costs a cursor while it is behind, nothing while it sleeps.
pub struct Follower {
    log: Log,
    head: watch::Receiver<Seq>,
    cursor: Seq,
    /// Keeps the session from being closed.
    _hold: Option<Arc<Hold>>,
}

impl Follower {
    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    /// The next events, or None when the session has stopped and all of it was read.
    pub async fn next(&mut self) -> Result<Option<Events>, StoreError> {
        loop {
            let cursor = self.cursor;
            // The head is looked at before the wait, so a change in between wakes the wait.
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
