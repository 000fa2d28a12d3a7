//! The one thread that writes: takes what is waiting, commits it together, answers everybody.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use loggia_core::{Durability, Millis, Seq, SessionId};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use tokio::sync::{mpsc, oneshot};

use super::append::{AppendJob, Held, Last, Undo};
use super::checkpoint::Checkpoints;
use super::kept::{self, Changing};
use super::lease::{FreshRows, Locks};
use super::{describe, notes};
use crate::ports::{Document, Lease, Owner, StoreError};
use crate::store::checksum;

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
        job: Box<AppendJob>,
        reply: Reply<()>,
    },
    /// Brings the lists of sessions and tasks up to date.
    Learn {
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
        mut connection: Connection,
        path: PathBuf,
        places: Places,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(INBOX);
        let checkpoints = Checkpoints::of(&mut connection, &path);
        let checkpoints = checkpoints.map_err(|error| describe(error, &path))?;
        let thread = std::thread::Builder::new()
            .name("loggia-store".into())
            .spawn(move || run(connection, checkpoints, &path, &places, inbox))
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

fn run(
    connection: Connection,
    mut checkpoints: Checkpoints,
    path: &Path,
    places: &Places,
    mut inbox: mpsc::Receiver<Job>,
) {
    let file = path.display().to_string();
    let mut desk = Desk { connection, path, file, places, synchronous: None, notes: 0 };
    let mut group = Vec::with_capacity(GROUP);
    while let Some(first) = inbox.blocking_recv() {
        group.push(first);
        while group.len() < GROUP
            && let Ok(next) = inbox.try_recv()
        {
            group.push(next);
        }
        desk.commit(&mut group);
        checkpoints.go_on(&desk.connection);
    }
    // So that the next one finds nothing to do. It goes on from the notes if this fails. Who left none
    // has no reason to wait for whoever writes now.
    if desk.notes > 0 {
        let (reply, _) = oneshot::channel();
        desk.commit(&mut vec![Job::Learn { reply }]);
    }
}

/// Where the thread works.
struct Desk<'a> {
    connection: Connection,
    path: &'a Path,
    /// The same for sentences.
    file: String,
    places: &'a Places,
    synchronous: Option<Durability>,
    /// Notes that were left here since the lists last learned.
    notes: usize,
}

fn durability(job: &Job) -> Durability {
    match job {
        Job::Append { job, .. } => job.durability,
        Job::Put { .. } | Job::Replace { .. } | Job::Delete { .. } => Durability::Decision,
        // A lost owner or an empty session costs nothing: the first append makes it count.
        Job::Acquire { .. } => Durability::Stream,
        // Nothing new is said by it.
        Job::Learn { .. } => Durability::Stream,
    }
}

impl Desk<'_> {
    /// Commits a group and answers its jobs. A job that is refused (a lost lease) writes nothing and
    /// leaves the others alone; an error of the database fails them all.
    fn commit(&mut self, group: &mut Vec<Job>) {
        let changing =
            group.iter().any(kept::changes_kept).then(|| Changing::begin(&self.places.locks));
        let changing = match changing.transpose() {
            Ok(changing) => changing,
            Err(error) => return fail(group, &error),
        };
        let mut undo = Undo::default();
        let worked = self.work(group, &mut undo);
        // Before the answers: whoever has one finds everybody reading anew.
        drop(changing);
        match worked {
            Ok(results) => {
                group.drain(..).zip(results).for_each(|(job, result)| answer(job, result));
            }
            Err(error) => {
                undo.all();
                fail(group, &describe(error, self.path));
            }
        }
    }

    fn work(
        &mut self,
        group: &mut [Job],
        undo: &mut Undo,
    ) -> Result<Vec<Result<Done, StoreError>>, rusqlite::Error> {
        let durability = group.iter().map(durability).max().unwrap_or(Durability::Stream);
        if self.synchronous != Some(durability) {
            let level = match durability {
                Durability::Decision => "FULL",
                Durability::Stream => "NORMAL",
            };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.synchronous = Some(durability);
        }
        let immediate = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(immediate)?;
        let mut results = Vec::with_capacity(group.len());
        for job in group.iter_mut() {
            results.push(perform(&transaction, &self.file, self.places, job, undo)?);
            self.notes += usize::from(matches!(job, Job::Append { .. }));
        }
        if self.notes >= notes::MANY {
            self.notes = 0;
            if let Err(damage) = notes::learn(&transaction, &self.file)? {
                // No reason to refuse what is to be written: whoever reads is told.
                tracing::warn!("{damage}");
            }
        }
        transaction.commit()?;
        Ok(results)
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
        Job::Append { reply, .. }
        | Job::Learn { reply }
        | Job::Delete { reply, .. }
        | Job::Put { reply, .. } => {
            let _ = reply.send(result.map(|_| ()));
        }
    }
}

fn perform(
    transaction: &Transaction<'_>,
    file: &str,
    places: &Places,
    job: &mut Job,
    undo: &mut Undo,
) -> Result<Result<Done, StoreError>, rusqlite::Error> {
    // What changes the lists must find them up to date.
    if matches!(job, Job::Acquire { .. } | Job::Learn { .. } | Job::Delete { .. })
        && let Err(damage) = notes::learn(transaction, file)?
    {
        return Ok(Err(damage));
    }
    match job {
        Job::Acquire { session, owner, .. } => acquire(transaction, file, places, session, owner),
        Job::Append { job, .. } => {
            let written = job.write(transaction, file, undo)?;
            if written.is_ok() {
                for document in &job.documents {
                    put(transaction, document)?;
                }
            }
            Ok(written.map(|()| Done::Nothing))
        }
        Job::Learn { .. } => Ok(Ok(Done::Nothing)),
        Job::Delete { row, .. } => {
            for statement in [
                "DELETE FROM events WHERE session = ?1",
                "DELETE FROM tasks WHERE session = ?1",
                "DELETE FROM sessions WHERE row = ?1",
            ] {
                transaction.prepare_cached(statement)?.execute([*row])?;
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
    file: &str,
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
    let (epoch, head, sum) = transaction
        .prepare_cached(
            "UPDATE sessions SET epoch = epoch + 1, owner = ?2 WHERE row = ?1
             RETURNING epoch, head, sum",
        )?
        .query_row(params![row, owner], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let last = Last::read(session, Seq(head), sum, file);
    Ok(last.map(|last| {
        let held = Held::existing(guard, last);
        Done::Lease(Lease::new(session.clone(), epoch, row, Arc::new(held)))
    }))
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
