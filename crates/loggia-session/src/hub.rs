//! Finds and opens sessions. An open session has one actor, however often it is opened.

pub mod open_sessions;

use std::sync::Arc;

use crate::actor::{Actor, Ports, now};
use crate::backlog::Backlog;
use crate::batch::{RULES, rule_key};
use crate::handle::{ActorAddress, SessionHandle, SubmitError};
use crate::ports::{Agent, Document, Lease, Listed, Owner, Principals, Store, StoreError};
use loggia_core::{
    AgentName, Command, Envelope, Origin, Rule, Seq, Session, SessionId, Settings, TaskId,
    Workspace,
};

pub use open_sessions::IdlePolicy;
use open_sessions::{Found, OpenSessions};

pub struct Hub {
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    principals: Option<Arc<dyn Principals>>,
    program: String,
    pid: u32,
    sessions: Arc<OpenSessions>,
    backlog: Arc<Backlog>,
}

/// The workspace, settings and agent of a new session.
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

/// Which session a caller wants: an existing one, one that may exist, or one with a new id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenMode {
    Existing,
    Named,
    Fresh,
}

impl Hub {
    /// `program` names this process to other processes that want the same session.
    pub fn new(store: Arc<dyn Store>, agent: Arc<dyn Agent>, program: impl Into<String>) -> Self {
        let (program, pid) = (program.into(), std::process::id());
        let (sessions, backlog) = (OpenSessions::new(IdlePolicy::default()), Arc::default());
        Self { store, agent, principals: None, program, pid, sessions, backlog }
    }

    /// Sets the port that says whether the principal of a rule still exists. Call it before the first session is
    /// opened.
    #[must_use]
    pub fn with_principals(mut self, principals: Arc<dyn Principals>) -> Self {
        self.principals = Some(principals);
        self
    }

    /// Sets when idle sessions are closed. Call it before the first session is opened.
    #[must_use]
    pub fn with_idle(mut self, idle: IdlePolicy) -> Self {
        self.sessions = OpenSessions::new(idle);
        self
    }

    /// The number of sessions that are open in this process.
    pub fn open_count(&self) -> usize {
        self.sessions.count()
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub async fn create(&self, new: NewSession, origin: Origin) -> Result<SessionHandle, HubError> {
        self.create_named(None, new, origin).await
    }

    /// A new session that its first command opens, in the same append. Without a command it is never opened and
    /// never listed.
    pub async fn begin(&self, new: NewSession, origin: Origin) -> Result<SessionHandle, HubError> {
        let lease = self.store.begin(self.owner()).await?;
        // A new session has nothing to recover.
        let (address, actor) = self.actor(Session::default(), lease);
        Ok(self.run(address, actor.opening_with(new.into_command(), origin)))
    }

    /// A new session under a name that a client chose. Refused as already open if the name is taken.
    pub async fn create_named(
        &self,
        name: Option<SessionId>,
        new: NewSession,
        origin: Origin,
    ) -> Result<SessionHandle, HubError> {
        let mode = if name.is_some() { OpenMode::Named } else { OpenMode::Fresh };
        let id = name.unwrap_or_else(|| SessionId::from(uuid::Uuid::now_v7()));
        let handle = self.handle(&id, mode).await?;
        handle.submit(new.into_command(), origin).await?;
        Ok(handle)
    }

    /// Opens an existing session, and recovers it if its last owner died.
    pub async fn open(&self, id: &SessionId) -> Result<SessionHandle, HubError> {
        self.handle(id, OpenMode::Existing).await
    }

    pub async fn locate(&self, task: &TaskId) -> Result<Option<SessionId>, HubError> {
        Ok(self.store.locate(task).await?)
    }

    pub async fn list(&self, limit: usize) -> Result<Vec<Listed>, HubError> {
        Ok(self.store.list(limit).await?)
    }

    /// Removes a session. Fails if another process has it open.
    pub async fn delete(&self, id: &SessionId) -> Result<(), HubError> {
        if self.store.head(id).await?.is_none() {
            return Err(StoreError::Unknown(id.clone()).into());
        }
        if let Some(address) = self.sessions.address(id) {
            address.stop().await;
        }
        let lease = self.store.acquire(id, self.owner()).await?;
        Ok(self.store.delete(lease).await?)
    }

    /// Stops every session of this process and waits for the actors. The logs stay as they are.
    pub async fn stop(&self) {
        let addresses = self.sessions.addresses();
        // Concurrently: each actor may have to wait for its agent.
        futures::future::join_all(addresses.iter().map(|address| address.stop())).await;
    }

    async fn handle(&self, id: &SessionId, mode: OpenMode) -> Result<SessionHandle, HubError> {
        loop {
            match self.sessions.find(id) {
                Found::Open(handle) => return Ok(handle),
                // Opened again from its log when it is closed. This also repairs a failed session.
                Found::Closing(address) => address.gone().await,
                Found::Closed(opening) => {
                    let _permit = opening.permit.acquire().await;
                    // The caller before may have opened it. If that failed, this one tries again.
                    if self.sessions.is_closed(id) {
                        // Boxed: most sessions are open, and every caller's future would be as large.
                        return Box::pin(self.start(id, mode)).await;
                    }
                }
            }
        }
    }

    async fn start(&self, id: &SessionId, mode: OpenMode) -> Result<SessionHandle, HubError> {
        let head = match mode {
            OpenMode::Fresh => None,
            OpenMode::Existing | OpenMode::Named => self.store.head(id).await?,
        };
        if head.is_none() && mode == OpenMode::Existing {
            return Err(StoreError::Unknown(id.clone()).into());
        }
        let lease = self.store.acquire(id, self.owner()).await?;
        let mut session = Session::default();
        if head.is_some() {
            fold(self.store.as_ref(), id, |envelope| session.apply(envelope)).await?;
        }
        let (address, mut actor) = self.actor(session, lease);
        let failure = self.sessions.failure_of(id);
        actor.recover(failure.as_ref()).await?;
        self.sessions.forget_failure(id);
        Ok(self.run(address, actor))
    }

    fn actor(&self, session: Session, lease: Lease) -> (Arc<ActorAddress>, Actor) {
        let (store, agent) = (self.store.clone(), self.agent.clone());
        let ports = Ports { store, agent, principals: self.principals.clone() };
        Actor::new(session, lease, ports, &self.sessions, &self.backlog)
    }

    /// Registers the session before its actor starts, so that look-ups find it.
    fn run(&self, address: Arc<ActorAddress>, actor: Actor) -> SessionHandle {
        let handle = self.sessions.insert(address);
        tokio::spawn(actor.run());
        handle
    }

    fn owner(&self) -> Owner {
        Owner { pid: self.pid, program: self.program.clone(), since: now() }
    }
}

/// Reads a whole log in order. Needs no lease, because a log only grows. If the log is damaged, every event before
/// the damage has been visited when the error is returned.
pub async fn fold(
    store: &dyn Store,
    id: &SessionId,
    mut visit: impl FnMut(&Envelope),
) -> Result<Seq, StoreError> {
    let mut after = Seq::ZERO;
    loop {
        let events = store.read_chunk(id, after).await?;
        let Some(last) = events.last() else { return Ok(after) };
        after = last.seq;
        events.iter().for_each(|envelope| visit(envelope));
    }
}

/// The rules that are remembered for a workspace. Always read from the store: another process may change them, and a
/// new session must not start with a rule that was revoked or without one that denies.
pub async fn project_rules(store: &dyn Store, workspace: &str) -> Result<Vec<Rule>, StoreError> {
    let documents = store.documents(RULES, &rule_key(workspace, "")).await?;
    Ok(documents.iter().filter_map(|(_, value)| serde_json::from_str(value).ok()).collect())
}

/// Forgets one remembered rule. Open sessions revoke it before their next call.
pub async fn forget_rule(store: &dyn Store, workspace: &str, rule: &str) -> Result<(), StoreError> {
    let key = rule_key(workspace, rule);
    store.put(Document { collection: RULES.to_owned(), key, value: None }).await
}
