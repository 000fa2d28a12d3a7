//! Finds and opens sessions. One open session is one actor; asking twice gives the same handle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use loggia_core::{
    AgentName, Command, Envelope, Origin, Rule, Seq, Session, SessionId, Settings, TaskId,
    Workspace,
};
use tokio::sync::OnceCell;

use crate::actor::{Actor, now};
use crate::batch::{RULES, rule_key};
use crate::handle::{SessionHandle, SubmitError};
use crate::log::BATCH;
use crate::ports::{Agent, Document, Listed, Owner, Store, StoreError};

pub struct Hub {
    store: Arc<dyn Store>,
    agent: Arc<dyn Agent>,
    program: String,
    /// Guarded by a lock, not owned by a task: it is held for a look-up, never across an await.
    /// The cell makes two openers of one session wait for one opening.
    open: Mutex<HashMap<SessionId, Arc<OnceCell<SessionHandle>>>>,
}

/// What a new session starts with.
pub struct NewSession {
    pub workspace: Workspace,
    pub settings: Settings,
    pub agent: AgentName,
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
        Self { store, agent, program: program.into(), open: Mutex::default() }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub async fn create(&self, new: NewSession, origin: Origin) -> Result<SessionHandle, HubError> {
        self.create_named(None, new, origin).await
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
        let NewSession { workspace, settings, agent } = new;
        handle.submit(Command::Open { workspace, settings, agent }, origin).await?;
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
        let cell = self.opened().remove(id);
        if let Some(handle) = cell.as_ref().and_then(|cell| cell.get()) {
            handle.stop().await;
        }
        let lease = self.store.acquire(id, self.owner()).await?;
        Ok(self.store.delete(lease).await?)
    }

    /// Stops every session of this process; their logs stay as they are.
    pub async fn stop(&self) {
        let cells: Vec<_> = self.opened().drain().map(|(_, cell)| cell).collect();
        // All at once: each may have to wait for its agent.
        let handles = cells.iter().filter_map(|cell| cell.get());
        futures::future::join_all(handles.map(SessionHandle::stop)).await;
    }

    async fn handle(&self, id: &SessionId, wanted: Wanted) -> Result<SessionHandle, HubError> {
        let cell = loop {
            let stopped = {
                let mut open = self.opened();
                let cell = open.entry(id.clone()).or_default();
                match cell.get().filter(|handle| handle.is_stopped()) {
                    None => break cell.clone(),
                    // Opened anew from its log: that is how a failure is repaired.
                    Some(handle) if handle.is_gone() => {
                        *cell = Arc::default();
                        break cell.clone();
                    }
                    Some(handle) => handle.clone(),
                }
            };
            stopped.gone().await;
        };
        let opened = cell.get_or_try_init(|| self.start(id, wanted)).await.cloned();
        if opened.is_err() {
            let mut open = self.opened();
            drop(cell);
            // Somebody else may be about to open it: then the cell has to stay where it is found.
            let unused =
                |known: &Arc<OnceCell<_>>| known.get().is_none() && Arc::strong_count(known) == 1;
            if open.get(id).is_some_and(unused) {
                open.remove(id);
            }
        }
        opened
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
        Ok(Actor::start(session, lease, self.store.clone(), self.agent.clone()).await?)
    }

    fn owner(&self) -> Owner {
        Owner { pid: std::process::id(), program: self.program.clone(), since: now() }
    }

    fn opened(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<SessionId, Arc<OnceCell<SessionHandle>>>> {
        self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
        let events = store.read(id, after, BATCH).await?;
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

/// Forgets one remembered rule. Sessions that are open keep theirs until they are opened again.
pub async fn forget_rule(store: &dyn Store, workspace: &str, rule: &str) -> Result<(), StoreError> {
    let key = rule_key(workspace, rule);
    store.put(Document { collection: RULES.to_owned(), key, value: None }).await
}
