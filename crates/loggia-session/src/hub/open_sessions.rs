//! The sessions that are open in this process, and which of them may be closed.
//!
//! An open session costs memory and a lease, so an idle one is closed: its actor stops, its log stays, and the
//! next request for it opens it again. A session is *idle* while it has no open turn, no waiting prompts, an
//! empty inbox, and no handle or follower outside the hub.
//!
//! No client is given a session that is about to close. Handles are given out under the same lock under which an
//! actor asks whether it may close ([`Registration::check_idle`]). A command in the inbox had a handle behind it, and
//! the actor looks at its inbox under that lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use loggia_core::SessionId;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::handle::{ActorAddress, Control, InUse, SessionHandle};
use crate::ports::StoreError;

/// When an idle session is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePolicy {
    /// After this time without use.
    pub after: Duration,
    /// At once when more sessions than this are idle: the one that has been idle longest first.
    pub most: usize,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self { after: Duration::from_secs(60), most: 512 }
    }
}

pub(crate) struct OpenSessions {
    limits: IdlePolicy,
    /// A lock, not a task: held for a few look-ups, never across an await.
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    open: HashMap<SessionId, OpenSession>,
    opening: HashMap<SessionId, Weak<OpeningLock>>,
    /// The idle sessions, the one that has been idle longest first.
    idle: BTreeMap<u64, SessionId>,
    last_idle: u64,
    /// Sessions that stopped because an append failed, until they are opened again.
    failures: HashMap<SessionId, StoreError>,
}

/// Failures that are remembered. Beyond, an interrupted turn is reported without the reason.
const FAILURES: usize = 1024;

struct OpenSession {
    address: Arc<ActorAddress>,
    in_use: Weak<InUse>,
    idle: Option<IdleSession>,
}

#[derive(Clone, Copy)]
struct IdleSession {
    /// Its key in [`Table::idle`].
    order: u64,
    until: Instant,
}

/// The result of a look-up.
pub(crate) enum Found {
    Open(SessionHandle),
    /// Free for the next owner when this actor is gone.
    Closing(Arc<ActorAddress>),
    Closed(Arc<OpeningLock>),
}

/// Callers that want the same closed session wait here for one opening.
pub(crate) struct OpeningLock {
    sessions: Weak<OpenSessions>,
    session: SessionId,
    /// Held by the caller that opens the session. There is one.
    pub permit: Semaphore,
}

impl Drop for OpeningLock {
    fn drop(&mut self) {
        let Some(sessions) = self.sessions.upgrade() else { return };
        let mut table = sessions.table();
        // Another caller may have made a new lock since the last reference to this one was dropped.
        if table.opening.get(&self.session).is_some_and(|lock| lock.strong_count() == 0) {
            table.opening.remove(&self.session);
        }
    }
}

impl OpenSessions {
    pub fn new(limits: IdlePolicy) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default() })
    }

    pub fn find(self: &Arc<Self>, session: &SessionId) -> Found {
        let mut table = self.table();
        let Table { open, opening, idle, .. } = &mut *table;
        match open.get_mut(session) {
            Some(open) if !open.address.is_stopped() => Found::Open(open.handle(idle)),
            Some(open) if !open.address.is_gone() => Found::Closing(open.address.clone()),
            Some(_) | None => {
                let waiting = opening.get(session).and_then(Weak::upgrade);
                Found::Closed(waiting.unwrap_or_else(|| {
                    let (sessions, permit) = (Arc::downgrade(self), Semaphore::new(1));
                    let new = Arc::new(OpeningLock { sessions, session: session.clone(), permit });
                    opening.insert(session.clone(), Arc::downgrade(&new));
                    new
                }))
            }
        }
    }

    pub fn is_closed(&self, session: &SessionId) -> bool {
        self.address(session).is_none_or(|address| address.is_gone())
    }

    /// Registers a session. Its actor runs after this, so that it finds its entry.
    pub fn insert(&self, address: Arc<ActorAddress>) -> SessionHandle {
        let session = address.id.clone();
        let mut open = OpenSession { address, in_use: Weak::new(), idle: None };
        let mut table = self.table();
        let handle = open.handle(&mut table.idle);
        // An actor that is gone may not have removed its entry yet.
        let replaced = table.open.insert(session, open);
        table.end_idle(replaced.as_ref());
        drop(table);
        drop(replaced);
        handle
    }

    pub fn address(&self, session: &SessionId) -> Option<Arc<ActorAddress>> {
        self.table().open.get(session).map(|open| open.address.clone())
    }

    pub fn addresses(&self) -> Vec<Arc<ActorAddress>> {
        self.table().open.values().map(|open| open.address.clone()).collect()
    }

    pub fn count(&self) -> usize {
        self.table().open.len()
    }

    /// Why this session last stopped in this process, if an append failed.
    pub fn failure_of(&self, session: &SessionId) -> Option<StoreError> {
        self.table().failures.get(session).cloned()
    }

    pub fn forget_failure(&self, session: &SessionId) {
        self.table().failures.remove(session);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenSession {
    /// A handle for a client, which keeps the session from being idle.
    fn handle(&mut self, idle: &mut BTreeMap<u64, SessionId>) -> SessionHandle {
        if let Some(was_idle) = self.idle.take() {
            idle.remove(&was_idle.order);
        }
        let in_use = self.in_use.upgrade().unwrap_or_else(|| {
            let new = Arc::new(InUse::new(self.address.clone()));
            self.in_use = Arc::downgrade(&new);
            new
        });
        SessionHandle { in_use }
    }
}

/// The answer to an actor that has nothing to do.
pub(crate) enum IdleCheck {
    /// A client uses the session, or the inbox holds a command.
    Wait,
    /// The session is idle. The actor asks again at this time.
    Idle(Instant),
    /// The session is closing: its inbox takes no more commands.
    Close,
}

/// An actor's entry in the table. Removed when this is dropped.
pub(crate) struct Registration {
    sessions: Weak<OpenSessions>,
    session: SessionId,
    /// Tells this opening of the session from the next one.
    address: Weak<ActorAddress>,
}

impl Registration {
    pub fn new(sessions: &Arc<OpenSessions>, address: &Arc<ActorAddress>) -> Self {
        let (sessions, session) = (Arc::downgrade(sessions), address.id.clone());
        Self { sessions, session, address: Arc::downgrade(address) }
    }

    /// Asked by an actor without an open turn and without waiting prompts.
    pub fn check_idle(&self, inbox: &mut mpsc::Receiver<Box<Control>>) -> IdleCheck {
        let Some(sessions) = self.sessions.upgrade() else { return IdleCheck::Wait };
        let (limits, now) = (sessions.limits, Instant::now());
        let mut table = sessions.table();
        let Some(own) = table.open.get(&self.session).filter(|open| self.is(open)) else {
            return IdleCheck::Wait;
        };
        if own.in_use.strong_count() > 0 || !inbox.is_empty() {
            return IdleCheck::Wait;
        }
        if own.idle.is_none() {
            table.begin_idle(&self.session, now + limits.after);
            if table.idle.len() > limits.most {
                table.close_longest_idle(now);
            }
        }
        match table.open.get(&self.session).and_then(|own| own.idle) {
            Some(idle) if idle.until > now => IdleCheck::Idle(idle.until),
            Some(_) | None => {
                inbox.close();
                IdleCheck::Close
            }
        }
    }

    /// The session stops because an append failed.
    pub fn failed(&self, error: &StoreError) {
        let Some(sessions) = self.sessions.upgrade() else { return };
        let mut table = sessions.table();
        if table.failures.len() < FAILURES {
            table.failures.insert(self.session.clone(), error.clone());
        }
    }

    fn is(&self, open: &OpenSession) -> bool {
        std::ptr::eq(Arc::as_ptr(&open.address), self.address.as_ptr())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(sessions) = self.sessions.upgrade() else { return };
        let mut table = sessions.table();
        if !table.open.get(&self.session).is_some_and(|open| self.is(open)) {
            return;
        }
        let open = table.open.remove(&self.session);
        table.end_idle(open.as_ref());
        // Not under the lock: the events that the session held in memory may be freed with it.
        drop(table);
        drop(open);
    }
}

impl Table {
    fn begin_idle(&mut self, session: &SessionId, until: Instant) {
        let Some(open) = self.open.get_mut(session) else { return };
        self.last_idle += 1;
        open.idle = Some(IdleSession { order: self.last_idle, until });
        self.idle.insert(self.last_idle, session.clone());
    }

    /// For an entry that was removed.
    fn end_idle(&mut self, removed: Option<&OpenSession>) {
        if let Some(idle) = removed.and_then(|open| open.idle) {
            self.idle.remove(&idle.order);
        }
    }

    /// Lets the session that has been idle longest close now.
    fn close_longest_idle(&mut self, now: Instant) {
        let Some((_, session)) = self.idle.pop_first() else { return };
        let Some(open) = self.open.get_mut(&session) else { return };
        if let Some(idle) = &mut open.idle {
            idle.until = now;
        }
        open.address.check_idle();
    }
}
