//! What a session needs from outside: a place for its log, and somebody to do the work.
//!
//! Each trait's contract is written here and tested by one suite for every implementation.

use std::any::Any;
use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Durability, Envelope, Millis, Seq, SessionId, Summary, TaskId};
use serde::{Deserialize, Serialize};

use crate::index::{TaskMark, TaskPage, TaskQuery};
use crate::log::BATCH;
use crate::turn::Turn;

/// Keeps logs, and small documents beside them.
///
/// - `append` is all or nothing, and durable when it returns: a decision survives power loss, a
///   stream event survives the process.
/// - `append` refuses a wrong `expected` head and a lease that is no longer held.
/// - At most one lease per session exists at a time, across processes; it ends with its process.
/// - `tasks` says of each task what its last mark said; the first session of a task keeps it.
/// - `read` returns events in order, without gaps, and never one whose bytes are not the bytes that
///   were appended.
pub trait Store: Send + Sync + 'static {
    /// The right to write a session, which is created if nobody knows it.
    fn acquire(
        &self,
        session: &SessionId,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Lease, StoreError>>;
    /// The same for a session that nobody can know yet, under an id of its own. It exists from its first append
    /// on.
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
    /// Events after `after`, as many as are well read at once; none only at the head. For whoever reads on from
    /// where this ends.
    fn read_on(
        &self,
        session: &SessionId,
        after: Seq,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        self.read(session, after, BATCH)
    }
    fn head(&self, session: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>>;
    fn locate(&self, task: &TaskId) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>>;
    /// Tasks as the steps' marks left them, the last changed first. Needs no lease.
    fn tasks(&self, query: TaskQuery) -> BoxFuture<'_, Result<TaskPage, StoreError>>;
    /// Sessions, the most recently changed first.
    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Listed>, StoreError>>;
    /// Removes a session and everything about it.
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
    /// The same, if what is there now is still `expected`; says whether it was. For documents that
    /// several processes change.
    fn replace(
        &self,
        expected: Option<String>,
        document: Document,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
}

/// The right to write one session. Dropping it gives the right back.
pub struct Lease {
    pub session: SessionId,
    /// Grows with every owner; an append under an older epoch is refused.
    pub epoch: u64,
    /// Keeps other owners out while it lives: a file lock, an entry in a set. Its type belongs to the store.
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

/// Who holds a lease, in words for whoever comes second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    pub program: String,
    pub since: Millis,
}

/// One atomic step of a session.
pub struct Append {
    /// The head this step was decided on.
    pub expected: Seq,
    pub events: Vec<Arc<Envelope>>,
    pub durability: Durability,
    pub summary: Summary,
    /// Tasks whose status this step changes, each once.
    pub tasks: Vec<TaskMark>,
    /// Documents that must change together with the log.
    pub documents: Vec<Document>,
}

/// A small named value; None removes it.
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
    /// Who last held it; alive or not is for `acquire` to say.
    pub owner: Option<Owner>,
}

/// What goes wrong with storage. A variant exists where somebody acts differently.
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

/// Does the work of a turn.
///
/// - Keeps no state that is not in the log: run again on the same history, it goes on from there.
/// - Returns promptly once the turn's token is cancelled, and leaves no process behind.
pub trait Agent: Send + Sync + 'static {
    /// Called when the prompt and the start of the turn are durable.
    fn run(&self, turn: Turn) -> BoxFuture<'_, Result<(), TurnOver>>;
}

/// Knows who can still be a client. Without one, every principal counts as known.
pub trait Principals: Send + Sync + 'static {
    /// Whether this principal still exists. False, if that cannot be found out.
    fn knows<'a>(&'a self, principal: &'a str) -> BoxFuture<'a, bool>;
}

/// Why an agent stopped before its turn was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnOver {
    /// Cancelled, or the session is going away. The log already says so, or will.
    #[error("the turn was stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}
