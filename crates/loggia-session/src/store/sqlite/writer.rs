//! The one thread that writes: takes what is waiting, commits it together, answers everybody.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use loggia_core::{Durability, Envelope, Millis, Seq, SessionId};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use tokio::sync::{mpsc, oneshot};

use super::kept::{self, Changing};
use super::lease::{FreshRows, Locks};
use super::{describe, read, tasks};
use crate::index::TaskMark;
use crate::ports::{Append, Document, Lease, Owner, StoreError};
use crate::store::checksum::{self, Sum};

/// Jobs that may wait. Full: the session's writer waits, and with it its agent.
const INBOX: usize = 1024;
/// Jobs committed together at most.
const GROUP: usize = 256;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub enum Job {
    /// A new owner of a session, which is made if nobody knows it. Locked here, by the thread that
    /// also records it: one way to the writer and one commit, not two.
    Acquire {
        session: SessionId,
        owner: Owner,
        reply: Reply<Lease>,
    },
    Append {
        job: AppendJob,
        reply: Reply<()>,
    },
    Delete {
        row: i64,
        reply: Reply<()>,
    },
    Put {
        document: Document,
        reply: Reply<()>,
    },
    Replace {
        expected: Option<String>,
        document: Document,
        reply: Reply<bool>,
    },
}

/// An append with its records encoded by the caller, so that the one writer only writes.
pub struct AppendJob {
    row: i64,
    epoch: u64,
    session: SessionId,
    /// Who owns the session that this append makes.
    begins: Option<Owner>,
    expected: Seq,
    records: Records,
    durability: Durability,
    updated: i64,
    summary: String,
    tasks: Vec<TaskMark>,
    documents: Vec<Document>,
}

impl AppendJob {
    pub fn encode(lease: &Lease, append: &Append) -> Result<Self, StoreError> {
        let encode = |error: serde_json::Error| StoreError::Io(error.to_string());
        Ok(Self {
            row: lease.row,
            epoch: lease.epoch,
            session: lease.session.clone(),
            begins: lease.begins.clone().filter(|_| append.expected == Seq::ZERO),
            expected: append.expected,
            records: Records::encode(&append.events).map_err(encode)?,
            durability: append.durability,
            updated: append.summary.updated.0,
            summary: serde_json::to_string(&append.summary).map_err(encode)?,
            tasks: append.tasks.clone(),
            documents: append.documents.clone(),
        })
    }

    pub fn documents(&self) -> &[Document] {
        &self.documents
    }
}

/// The records of an append as they stand in the file: a line each.
struct Records {
    body: Vec<u8>,
    /// The number of each, and where its line ends.
    ends: Vec<(Seq, usize)>,
}

impl Records {
    fn encode(events: &[Arc<Envelope>]) -> Result<Self, serde_json::Error> {
        let (mut body, mut ends) = (Vec::with_capacity(1024), Vec::with_capacity(events.len()));
        for envelope in events {
            if !body.is_empty() {
                body.push(read::END_OF_RECORD);
            }
            serde_json::to_writer(&mut body, envelope.as_ref())?;
            ends.push((envelope.seq, body.len()));
        }
        Ok(Self { body, ends })
    }

    fn iter(&self) -> impl Iterator<Item = (Seq, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(seq, end)| {
            let line = self.body.get(start..*end).unwrap_or_default();
            start = end + 1;
            (*seq, line)
        })
    }
}

/// Where sessions find their row and its lock.
pub struct Places {
    pub locks: Locks,
    pub rows: Arc<FreshRows>,
}

pub struct Writer {
    /// None only while dropping.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(
        connection: Connection,
        path: PathBuf,
        places: Places,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(INBOX);
        let thread = std::thread::Builder::new()
            .name("loggia-store".into())
            .spawn(move || run(connection, &path, &places, inbox))
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub async fn send(&self, job: Job) -> Result<(), StoreError> {
        let stopped = || StoreError::Io("the database writer has stopped".into());
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(job).await.map_err(|_| stopped())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It finishes what it was given, then closes the file in order.
            let _ = thread.join();
        }
    }
}

fn run(mut connection: Connection, path: &Path, places: &Places, mut inbox: mpsc::Receiver<Job>) {
    let mut synchronous = None;
    let mut group = Vec::with_capacity(GROUP);
    while let Some(first) = inbox.blocking_recv() {
        group.push(first);
        while group.len() < GROUP
            && let Ok(next) = inbox.try_recv()
        {
            group.push(next);
        }
        let durability = group.iter().map(durability).max().unwrap_or(Durability::Stream);
        commit(&mut connection, path, places, &mut group, durability, &mut synchronous);
    }
}

fn durability(job: &Job) -> Durability {
    match job {
        Job::Append { job, .. } => job.durability,
        Job::Put { .. } | Job::Replace { .. } | Job::Delete { .. } => Durability::Decision,
        // A lost owner or an empty session costs nothing: the first append makes it count.
        Job::Acquire { .. } => Durability::Stream,
    }
}

/// Commits a group and answers its jobs. A job that is refused (a lost lease) writes nothing and
/// leaves the others alone; an error of the database fails them all.
fn commit(
    connection: &mut Connection,
    path: &Path,
    places: &Places,
    group: &mut Vec<Job>,
    durability: Durability,
    synchronous: &mut Option<Durability>,
) {
    let changing = group.iter().any(kept::changes_kept).then(|| Changing::begin(&places.locks));
    let changing = match changing.transpose() {
        Ok(changing) => changing,
        Err(error) => return fail(group, &error),
    };
    let mut work = || -> Result<Vec<Result<Done, StoreError>>, rusqlite::Error> {
        if *synchronous != Some(durability) {
            let level = match durability {
                Durability::Decision => "FULL",
                Durability::Stream => "NORMAL",
            };
            connection.pragma_update(None, "synchronous", level)?;
            *synchronous = Some(durability);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut results = Vec::with_capacity(group.len());
        for job in group.iter() {
            results.push(perform(&transaction, path, places, job)?);
        }
        transaction.commit()?;
        Ok(results)
    };
    let worked = work();
    // Before the answers: whoever has one finds everybody reading anew.
    drop(changing);
    match worked {
        Ok(results) => {
            group.drain(..).zip(results).for_each(|(job, result)| answer(job, result));
        }
        Err(error) => fail(group, &describe(error, path)),
    }
}

fn fail(group: &mut Vec<Job>, error: &StoreError) {
    for job in group.drain(..) {
        answer(job, Err(error.clone()));
    }
}

/// What a job found out; only the reply's own kind is looked at.
enum Done {
    Lease(Lease),
    Replaced(bool),
    Nothing,
}

fn answer(job: Job, result: Result<Done, StoreError>) {
    // Whoever asked may have gone; the work is done all the same.
    match job {
        Job::Acquire { reply, .. } => {
            let _ = reply.send(result.and_then(|done| match done {
                Done::Lease(lease) => Ok(lease),
                Done::Replaced(_) | Done::Nothing => {
                    Err(StoreError::Io("no lease was made".into()))
                }
            }));
        }
        Job::Replace { reply, .. } => {
            let _ = reply.send(result.map(|done| matches!(done, Done::Replaced(true))));
        }
        Job::Append { reply, .. } | Job::Delete { reply, .. } | Job::Put { reply, .. } => {
            let _ = reply.send(result.map(|_| ()));
        }
    }
}

fn perform(
    transaction: &Transaction<'_>,
    path: &Path,
    places: &Places,
    job: &Job,
) -> Result<Result<Done, StoreError>, rusqlite::Error> {
    match job {
        Job::Acquire { session, owner, .. } => acquire(transaction, places, session, owner),
        Job::Append { job, .. } => append(transaction, path, job),
        Job::Delete { row, .. } => {
            for statement in [
                "DELETE FROM events WHERE session = ?1",
                "DELETE FROM tasks WHERE session = ?1",
                "DELETE FROM sessions WHERE row = ?1",
            ] {
                transaction.prepare_cached(statement)?.execute([row])?;
            }
            Ok(Ok(Done::Nothing))
        }
        Job::Put { document, .. } => {
            put(transaction, document)?;
            Ok(Ok(Done::Nothing))
        }
        Job::Replace { expected, document, .. } => {
            // The transaction is immediate: no other process writes between the look and the change.
            let found: Option<String> = transaction
                .prepare_cached("SELECT value FROM documents WHERE collection = ?1 AND key = ?2")?
                .query_row([&document.collection, &document.key], |row| row.get(0))
                .optional()?;
            let fits = found == *expected;
            if fits {
                put(transaction, document)?;
            }
            Ok(Ok(Done::Replaced(fits)))
        }
    }
}

fn acquire(
    transaction: &Transaction<'_>,
    places: &Places,
    session: &SessionId,
    owner: &Owner,
) -> Result<Result<Done, StoreError>, rusqlite::Error> {
    let known: Option<(i64, Option<String>)> = transaction
        .prepare_cached("SELECT row, owner FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // Should the commit fail, the lease goes with its answer, and the lock with the lease.
    let taken = match &known {
        Some((row, _)) => places.locks.take(*row).map(|guard| guard.map(|guard| (*row, guard))),
        None => places.rows.take(&places.locks).map(Some),
    };
    let (row, guard) = match taken {
        Ok(Some(taken)) => taken,
        Ok(None) => {
            let last = known.and_then(|(_, owner)| serde_json::from_str(&owner?).ok());
            let unknown = || Owner { pid: 0, program: "unknown".into(), since: Millis(0) };
            let owner = last.unwrap_or_else(unknown);
            return Ok(Err(StoreError::Busy { session: session.clone(), owner }));
        }
        Err(error) => return Ok(Err(error)),
    };
    if known.is_none() {
        transaction
            .prepare_cached("INSERT INTO sessions (row, id, sum) VALUES (?1, ?2, ?3)")?
            .execute(params![row, session.as_str(), checksum::origin(session).as_slice()])?;
    }
    let owner = serde_json::to_string(owner).unwrap_or_default();
    let epoch: u64 = transaction
        .prepare_cached(
            "UPDATE sessions SET epoch = epoch + 1, owner = ?2 WHERE row = ?1 RETURNING epoch",
        )?
        .query_row(params![row, owner], |row| row.get(0))?;
    Ok(Ok(Done::Lease(Lease::new(session.clone(), epoch, row, Box::new(guard)))))
}

fn append(
    transaction: &Transaction<'_>,
    path: &Path,
    job: &AppendJob,
) -> Result<Result<Done, StoreError>, rusqlite::Error> {
    if let Some(owner) = &job.begins {
        let owner = serde_json::to_string(owner).unwrap_or_default();
        let chained = Chained::new(checksum::origin(&job.session), job);
        let made = transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO sessions (row, id, epoch, owner, head, sum, updated, summary)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                job.row,
                job.session.as_str(),
                job.epoch,
                owner,
                chained.head.0,
                chained.sum.as_slice(),
                job.updated,
                job.summary
            ])?;
        if made == 1 {
            return write(transaction, job, &chained);
        }
        // Already there: then this is no beginning, and what follows says so.
    }
    let state: Option<(u64, u64, Vec<u8>)> = transaction
        .prepare_cached("SELECT epoch, head, sum FROM sessions WHERE row = ?1 AND id = ?2")?
        .query_row(params![job.row, job.session.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((epoch, head, sum)) = state else {
        return Ok(Err(StoreError::Unknown(job.session.clone())));
    };
    if epoch != job.epoch || Seq(head) != job.expected {
        let (session, expected) = (job.session.clone(), job.expected);
        return Ok(Err(StoreError::Conflict { session, expected, found: Seq(head) }));
    }
    let Ok(sum) = Sum::try_from(sum) else {
        return Ok(Err(StoreError::Corrupt {
            session: job.session.clone(),
            seq: Seq(head),
            file: path.display().to_string(),
            detail: "the sum of its last event is not readable".into(),
        }));
    };
    let chained = Chained::new(sum, job);
    transaction
        .prepare_cached(
            "UPDATE sessions SET head = ?2, sum = ?3, updated = ?4, summary = ?5 WHERE row = ?1",
        )?
        .execute(params![
            job.row,
            chained.head.0,
            chained.sum.as_slice(),
            job.updated,
            job.summary
        ])?;
    write(transaction, job, &chained)
}

/// The records of an append as links of the session's chain.
struct Chained {
    sums: Vec<u8>,
    /// Of the last record.
    head: Seq,
    sum: Sum,
}

impl Chained {
    fn new(before: Sum, job: &AppendJob) -> Self {
        let sums = Vec::with_capacity(job.records.ends.len() * before.len());
        let mut chained = Self { sums, head: job.expected, sum: before };
        for (seq, record) in job.records.iter() {
            chained.head = seq;
            chained.sum = checksum::next(&chained.sum, seq, record);
            chained.sums.extend(chained.sum);
        }
        chained
    }
}

/// Everything of an append but the session's own row.
fn write(
    transaction: &Transaction<'_>,
    job: &AppendJob,
    chained: &Chained,
) -> Result<Result<Done, StoreError>, rusqlite::Error> {
    if let Some((first, _)) = job.records.ends.first() {
        transaction
            .prepare_cached("INSERT INTO events (session, seq, body, sum) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![job.row, first.0, job.records.body, chained.sums])?;
    }
    for mark in &job.tasks {
        tasks::mark(transaction, job.row, mark)?;
    }
    for document in &job.documents {
        put(transaction, document)?;
    }
    Ok(Ok(Done::Nothing))
}

fn put(transaction: &Transaction<'_>, document: &Document) -> Result<(), rusqlite::Error> {
    let Document { collection, key, value } = document;
    match value {
        Some(value) => {
            let sum = checksum::of(&[collection.as_bytes(), key.as_bytes(), value.as_bytes()]);
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO documents (collection, key, value, sum) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![collection, key, value, sum.as_slice()])?
        }
        None => transaction
            .prepare_cached("DELETE FROM documents WHERE collection = ?1 AND key = ?2")?
            .execute([collection, key])?,
    };
    Ok(())
}
