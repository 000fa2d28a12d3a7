//! The one thread that writes. It takes the jobs that are waiting, commits them in one transaction, and answers
//! each of them. [`crate::jobs`] performs the jobs.
//!
//! The transaction is synced if one of its jobs must survive power loss. SQLite copies its write-ahead log into
//! the database during the commit that finds it 1,000 pages long.

use std::path::PathBuf;
use std::thread::JoinHandle;

use loggia_core::{Durability, SessionId};
use loggia_session::{Document, Lease, Owner, StoreError};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::append::AppendJob;
use crate::files::describe;
use crate::jobs::{JobResult, JobTransaction};
use crate::lease::Locks;

/// Length of the queue. When the queue is full, the sending session waits.
const INBOX: usize = 1024;
/// Jobs committed together at most.
const GROUP: usize = 256;

pub type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub enum Job {
    /// Makes a new owner of a session; an unknown session is created.
    Acquire {
        session: SessionId,
        owner: Owner,
        reply: Reply<Lease>,
    },
    Append {
        job: Box<AppendJob>,
        reply: Reply<()>,
    },
    Delete {
        /// Held until the session is deleted, so that no other owner writes it meanwhile.
        lease: Lease,
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

impl Job {
    fn durability(&self) -> Durability {
        match self {
            // An owner does not outlive its process, so losing the row in a power cut loses nothing.
            Job::Acquire { .. } => Durability::Stream,
            Job::Append { job, .. } => job.durability(),
            Job::Delete { .. } | Job::Put { .. } | Job::Replace { .. } => Durability::Decision,
        }
    }
}

pub fn stopped() -> StoreError {
    StoreError::Io("the database writer has stopped".into())
}

pub struct Writer {
    /// None only while dropping.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(connection: Connection, path: PathBuf, locks: Locks) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(INBOX);
        let mut writer = WriterLoop { connection, path, locks, synchronous: None };
        let thread = std::thread::Builder::new()
            .name("loggia-store".into())
            .spawn(move || writer.run(inbox))
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub async fn send(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(job).await.map_err(|_| stopped())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // The thread finishes the jobs in its queue, then closes the database.
            let _ = thread.join();
        }
    }
}

struct WriterLoop {
    connection: Connection,
    path: PathBuf,
    locks: Locks,
    /// The level that the connection is set to.
    synchronous: Option<Durability>,
}

impl WriterLoop {
    fn run(&mut self, mut inbox: mpsc::Receiver<Job>) {
        let mut group = Vec::with_capacity(GROUP);
        while let Some(first) = inbox.blocking_recv() {
            group.push(first);
            while group.len() < GROUP
                && let Ok(next) = inbox.try_recv()
            {
                group.push(next);
            }
            self.commit(&mut group);
        }
    }

    /// Commits jobs in one transaction and answers them. A refused job (a lost lease) writes nothing and leaves
    /// the others alone; an error of the database fails them all.
    fn commit(&mut self, group: &mut Vec<Job>) {
        let mut results = Vec::with_capacity(group.len());
        match self.transact(group, &mut results) {
            Ok(()) => group.drain(..).zip(results).for_each(|(job, result)| answer(job, result)),
            Err(error) => {
                let error = describe(error, &self.path);
                drop(results); // releases the locks of leases that were not committed
                group.drain(..).for_each(|job| answer(job, Err(error.clone())));
            }
        }
    }

    fn transact(
        &mut self,
        group: &mut [Job],
        results: &mut Vec<Result<JobResult, StoreError>>,
    ) -> Result<(), rusqlite::Error> {
        let durability = group.iter().map(Job::durability).max().unwrap_or(Durability::Stream);
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
        let jobs =
            JobTransaction { transaction: &transaction, path: &self.path, locks: &self.locks };
        for job in group {
            results.push(jobs.perform(job)?);
        }
        transaction.commit()
    }
}

fn answer(job: Job, result: Result<JobResult, StoreError>) {
    // The caller may have been dropped; its job is done anyway.
    match job {
        Job::Acquire { reply, .. } => {
            let _ = reply.send(result.and_then(|done| match done {
                JobResult::Lease(lease) => Ok(lease),
                JobResult::Replaced(_) | JobResult::Nothing => {
                    Err(StoreError::Io("no lease was made".into()))
                }
            }));
        }
        Job::Replace { reply, .. } => {
            let _ = reply.send(result.map(|done| matches!(done, JobResult::Replaced(true))));
        }
        Job::Delete { lease, reply } => {
            drop(lease); // before the answer: the caller may acquire the session again
            let _ = reply.send(result.map(drop));
        }
        Job::Append { reply, .. } | Job::Put { reply, .. } => {
            let _ = reply.send(result.map(drop));
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
