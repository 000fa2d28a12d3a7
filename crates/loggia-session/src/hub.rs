//! Finds and opens sessions. One open session is one actor; asking twice gives the same handle.

pub mod seats;

use std::sync::Arc;

use crate::actor::bed::Bed;
use crate::actor::{Actor, Ports, now};
use crate::backlog::{Backlog, BacklogLimits};
use crate::batch::{RULES, rule_key};
use crate::handle::{Line, SessionHandle, SubmitError};
use crate::ports::{Agent, Document, Lease, Listed, Owner, Principals, Store, StoreError};
use loggia_core::{
    AgentName, Command, Envelope, Origin, Rule, Seq, Session, SessionId, Settings, TaskId,
    Workspace,
};

pub use seats::Idle;
use seats::{Claim, Presence, Seats};

pub struct Hub {
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    principals: Option<Arc<dyn Principals>>,
    program: String,
    pid: u32,
    seats: Arc<Seats>,
    backlog: Arc<Backlog>,
}

/// What a new session starts with.
#[derive(Clone)]
pub struct NewSession {
    pub workspace: Workspace,
    pub settings: Settings,
    pub agent: AgentName,
}

impl NewSession {
    fn into_command(self) -> Command {
        let Self { workspace, settings, agent } = self;
        Command::Open { workspace, settings, agent }
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// Which session is meant: one that exists, one that may, one whose id nobody can have used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Existing,
    Named,
    Fresh,
}

impl Hub {
    /// `program` is how this process introduces itself to others that want the same session.
    pub fn new(store: Arc<dyn Store>, agent: Arc<dyn Agent>, program: impl Into<String>) -> Self {
        let (program, pid) = (program.into(), std::process::id());
        let backlog = Backlog::new(BacklogLimits::default());
        let seats = Seats::new(Idle::default());
        Self { store, agent, principals: None, program, pid, seats, backlog }
    }

    /// How much memory the prompts of all sessions may take. For a hub that has opened none yet.
    #[must_use]
    pub fn limiting_backlog(mut self, limits: BacklogLimits) -> Self {
        self.backlog = Backlog::new(limits);
        self
    }

    /// Who can say whether the principal behind a rule still exists. For a hub that has opened no
    /// session yet.
    #[must_use]
    pub fn asking(mut self, principals: Arc<dyn Principals>) -> Self {
        self.principals = Some(principals);
        self
    }

    /// When sessions that nobody uses are closed. For a hub that has opened none yet.
    #[must_use]
    pub fn closing_idle(mut self, idle: Idle) -> Self {
        self.seats = Seats::new(idle);
        self
    }

    /// How many sessions are open in this process.
    pub fn open_count(&self) -> usize {
        self.seats.count()
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub async fn create(&self, new: NewSession, origin: Origin) -> Result<SessionHandle, HubError> {
        self.create_named(None, new, origin).await
    }

    /// A new session that is opened by the first command it is given: both are one step, and
    /// durable together. One that is given none is never opened, and in no list.
    pub async fn begin(&self, new: NewSession, origin: Origin) -> Result<SessionHandle, HubError> {
        let lease = self.store.begin(self.owner()).await?;
        // What nobody had before has nothing to recover.
        let (line, actor) = self.actor(Session::default(), lease);
        Ok(self.seat(line, actor.opening_with(new.into_command(), origin)))
    }

    /// A new session under a name that a client chose. Refused as already open if there is one.
    pub async fn create_named(
        &self,
        name: Option<SessionId>,
        new: NewSession,
        origin: Origin,
    ) -> Result<SessionHandle, HubError> {
        let wanted = if name.is_some() { Wanted::Named } else { Wanted::Fresh };
        let id = name.unwrap_or_else(|| SessionId::from(uuid::Uuid::now_v7()));
        let handle = self.handle(&id, wanted).await?;
        handle.submit(new.into_command(), origin).await?;
        Ok(handle)
    }

    /// Opens a session that exists, recovering it if its last owner died.
    pub async fn open(&self, id: &SessionId) -> Result<SessionHandle, HubError> {
        self.handle(id, Wanted::Existing).await
    }

    pub async fn locate(&self, task: &TaskId) -> Result<Option<SessionId>, HubError> {
        Ok(self.store.locate(task).await?)
    }

    pub async fn list(&self, limit: usize) -> Result<Vec<Listed>, HubError> {
        Ok(self.store.list(limit).await?)
    }

    /// Removes a session. One that somebody works in is not removed.
    pub async fn delete(&self, id: &SessionId) -> Result<(), HubError> {
        if self.store.head(id).await?.is_none() {
            return Err(StoreError::Unknown(id.clone()).into());
        }
        if let Some(line) = self.seats.remove(id) {
            line.stop().await;
        }
        let lease = self.store.acquire(id, self.owner()).await?;
        Ok(self.store.delete(lease).await?)
    }

    /// Stops every session of this process; their logs stay as they are.
    pub async fn stop(&self) {
        let lines = self.seats.remove_all();
        // All at once: each may have to wait for its agent.
        futures::future::join_all(lines.iter().map(|line| line.stop())).await;
    }

    async fn handle(&self, id: &SessionId, wanted: Wanted) -> Result<SessionHandle, HubError> {
        loop {
            let door = match self.seats.claim(id) {
                Claim::Open(handle) => return Ok(handle),
                // Opened anew from its log: that is how a failure is repaired.
                Claim::Leaving(line) => {
                    line.gone().await;
                    continue;
                }
                Claim::Absent(door) => door,
            };
            let _opening = door.enter().await;
            // Whoever was here first may have opened it; if that failed, this one tries itself.
            if self.seats.is_absent(id) {
                // Boxed: mostly it is open, and the request of everybody who asks would be as large.
                return Box::pin(self.start(id, wanted)).await;
            }
        }
    }

    async fn start(&self, id: &SessionId, wanted: Wanted) -> Result<SessionHandle, HubError> {
        let head = match wanted {
            Wanted::Fresh => None,
            Wanted::Existing | Wanted::Named => self.store.head(id).await?,
        };
        if head.is_none() && wanted == Wanted::Existing {
            return Err(StoreError::Unknown(id.clone()).into());
        }
        let lease = self.store.acquire(id, self.owner()).await?;
        let mut session = Session::default();
        if head.is_some() {
            fold(self.store.as_ref(), id, |envelope| session.apply(envelope)).await?;
        }
        let (line, mut actor) = self.actor(session, lease);
        let failure = self.seats.failure_of(id);
        actor.recover(failure.as_ref()).await?;
        self.seats.forget_failure(id);
        Ok(self.seat(line, actor))
    }

    fn actor(&self, session: Session, lease: Lease) -> (Line, Box<Actor>) {
        let bed = Bed::new();
        let presence = Presence::new(&self.seats, lease.session.clone(), &bed);
        let (store, agent) = (self.store.clone(), self.agent.clone());
        let ports = Ports { store, agent, principals: self.principals.clone() };
        Actor::new(session, lease, ports, bed, presence, &self.backlog)
    }

    /// Known first, then at work or at rest: a writer is found at its seat.
    fn seat(&self, line: Line, actor: Box<Actor>) -> SessionHandle {
        let bed = line.bed.clone();
        let handle = self.seats.sit(line);
        bed.settle(actor);
        handle
    }

    fn owner(&self) -> Owner {
        Owner { pid: self.pid, program: self.program.clone(), since: now() }
    }
}

/// Reads a whole log in order. Needs no lease: a log only grows. On damage, everything before the
/// damage has been visited when the error comes.
pub async fn fold(
    store: &dyn Store,
    id: &SessionId,
    mut visit: impl FnMut(&Envelope),
) -> Result<Seq, StoreError> {
    let mut after = Seq::ZERO;
    loop {
        let events = store.read_on(id, after).await?;
        let Some(last) = events.last() else { return Ok(after) };
        after = last.seq;
        events.iter().for_each(|envelope| visit(envelope));
    }
}

/// The rules remembered for a workspace.
pub async fn project_rules(store: &dyn Store, workspace: &str) -> Result<Vec<Rule>, StoreError> {
    let documents = store.documents(RULES, &rule_key(workspace, "")).await?;
    Ok(documents.iter().filter_map(|(_, value)| serde_json::from_str(value).ok()).collect())
}

/// Forgets one remembered rule. Sessions that are open take it back before their next call.
pub async fn forget_rule(store: &dyn Store, workspace: &str, rule: &str) -> Result<(), StoreError> {
    let key = rule_key(workspace, rule);
    store.put(Document { collection: RULES.to_owned(), key, value: None }).await
}
