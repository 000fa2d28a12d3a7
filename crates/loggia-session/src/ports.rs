//! The ports of a session: the store that keeps its log, and the agent that works on its turns.
//!
//! Each trait's contract is written here. One test suite checks every implementation of [`Store`].

use std::any::Any;
use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Durability, Envelope, Millis, Seq, SessionId, Summary, TaskId};
use serde::{Deserialize, Serialize};

use crate::index::{TaskMark, TaskPage, TaskQuery};
use crate::log::BATCH;
use crate::turn::Turn;

/// Keeps logs and small documents.
///
/// - `append` is all or nothing, and durable when it returns: a decision survives power loss, a
///   stream event survives the process.
/// - `append` refuses a wrong `expected` head and a lease that is no longer held.
/// - At most one lease of a session exists at a time, across processes. It ends with its process.
/// - `tasks` returns each task as its last mark describes it. A task belongs to the first session that marked it.
/// - `read` returns events in order and without gaps, and only events whose bytes are those that were appended.
pub trait Store: Send + Sync + 'static {
    /// Acquires the right to write a session. Creates the session if it does not exist.
    fn acquire(
        &self,
        session: &SessionId,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Lease, StoreError>>;
    /// The same for a new session with a new id. It exists from its first append.
    fn begin(&self, owner: Owner) -> BoxFuture<'_, Result<Lease, StoreError>> {
        self.acquire(&SessionId::from(uuid::Uuid::now_v7()), owner)
    }
    fn append(&self, lease: &Lease, append: Append) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Up to `limit` events after `after`.
    fn read(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>>;
    /// As many events after `after` as the store reads at once. Empty only at the head. For reading a log from end
    /// to end.
    fn read_chunk(
        &self,
        session: &SessionId,
        after: Seq,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        self.read(session, after, BATCH)
    }
    fn head(&self, session: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>>;
    fn locate(&self, task: &TaskId) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>>;
    /// The index of tasks, the last changed first. Needs no lease.
    fn tasks(&self, query: TaskQuery) -> BoxFuture<'_, Result<TaskPage, StoreError>>;
    /// The readable sessions, the most recently changed first, and the damage that may hide others. For lists that
    /// are shown to a person together with the damage; other callers need all sessions ([`Store::list`]).
    fn list_readable(&self, limit: usize) -> BoxFuture<'_, Result<Listing, StoreError>>;
    /// The same, but fails if a session may be missing.
    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Listed>, StoreError>> {
        Box::pin(async move {
            match self.list_readable(limit).await? {
                Listing { sessions, damage: None } => Ok(sessions),
                Listing { damage: Some(damage), .. } => Err(damage),
            }
        })
    }
    /// Removes a session with its events, tasks and rows.
    fn delete(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>>;

    fn document(
        &self,
        collection: &str,
        key: &str,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>>;
    /// Documents whose key starts with `prefix`, by key.
    fn documents(
        &self,
        collection: &str,
        prefix: &str,
    ) -> BoxFuture<'_, Result<Vec<(String, String)>, StoreError>>;
    fn put(&self, document: Document) -> BoxFuture<'_, Result<(), StoreError>>;
    /// The same, but only if the current value is `expected`. Returns whether it was. For documents that several
    /// processes change.
    fn replace(
        &self,
        expected: Option<String>,
        document: Document,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Describes where the data is, for messages.
    fn location(&self) -> String;
    /// Damage found while opening, each a sentence for the user.
    fn findings(&self) -> &[String];
    /// Checks all data. Slow if there is much of it.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// The right to write one session. Released when it is dropped.
pub struct Lease {
    pub session: SessionId,
    /// Grows with every owner. An append with an older epoch is refused.
    pub epoch: u64,
    /// Keeps other owners out while it exists. Its type belongs to the store: a file lock, an entry in a set.
    guard: Arc<dyn Any + Send + Sync>,
}

impl Lease {
    pub fn new(session: SessionId, epoch: u64, guard: Arc<dyn Any + Send + Sync>) -> Self {
        Self { session, epoch, guard }
    }

    pub fn guard(&self) -> Arc<dyn Any + Send + Sync> {
        self.guard.clone()
    }
}

/// The holder of a lease, shown to a process that wants the same session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    pub program: String,
    pub since: Millis,
}

/// The events of one step with the rows that they change. Atomic.
pub struct Append {
    /// The head that the step was decided on.
    pub expected: Seq,
    pub events: Vec<Arc<Envelope>>,
    pub durability: Durability,
    pub summary: Summary,
    /// The tasks whose status the step changes, each once.
    pub tasks: Vec<TaskMark>,
    /// Documents that must change together with the log.
    pub documents: Vec<Document>,
}

/// A small named value. None removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub collection: String,
    pub key: String,
    pub value: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub session: SessionId,
    pub head: Seq,
    pub summary: Summary,
    /// The last holder. `acquire` says whether it still holds the session.
    pub owner: Option<Owner>,
}

/// A list of sessions. With damage, sessions may be missing from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    pub sessions: Vec<Listed>,
    pub damage: Option<StoreError>,
}

/// A storage error. Callers treat each variant differently.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    #[error("session {session} is in use by process {} ({})", owner.pid, owner.program)]
    Busy { session: SessionId, owner: Owner },
    #[error("there is no session {0}")]
    Unknown(SessionId),
    #[error(
        "session {session} moved on without this process (at event {found}, expected {expected})"
    )]
    Conflict { session: SessionId, expected: Seq, found: Seq },
    #[error("{file} is damaged at event {seq} of session {session}: {detail}")]
    Corrupt { session: SessionId, seq: Seq, file: String, detail: String },
    #[error("{file} is damaged: {detail}")]
    Damaged { file: String, detail: String },
    #[error("another program holds the database {file} locked")]
    Locked { file: String },
    #[error("no space left for {file}")]
    Full { file: String },
    #[error("{file} was written by a newer Loggia (format {found}, this one knows {known})")]
    Newer { file: String, found: i64, known: i64 },
    #[error("{0}")]
    Io(String),
}

/// Works on turns.
///
/// - Keeps no state that is not in the log: run again on the same history, it continues from there.
/// - Returns promptly once the turn's token is cancelled, and leaves no process behind.
pub trait Agent: Send + Sync + 'static {
    /// Called when the prompt and the start of the turn are durable.
    fn run(&self, turn: Turn) -> BoxFuture<'_, Result<(), TurnOver>>;
}

/// Knows the principals. Without this port, every principal counts as known.
pub trait Principals: Send + Sync + 'static {
    /// Whether this principal still exists. False if it cannot be determined.
    fn knows<'a>(&'a self, principal: &'a str) -> BoxFuture<'a, bool>;
}

/// Why an agent stopped before its turn was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnOver {
    /// Cancelled, or the session stops.
    #[error("the turn was stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}
