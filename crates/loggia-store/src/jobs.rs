//! The writer's jobs, inside the transaction that they share: acquire a session, append to it, delete it, change a
//! document. [`crate::writer`] commits the transaction.

use std::path::Path;
use std::sync::Arc;

use loggia_core::{Millis, Seq, SessionId};
use loggia_session::{Document, Lease, Owner, StoreError};
use rusqlite::{ErrorCode, OptionalExtension, Transaction, params};

use crate::append::AppendJob;
use crate::checksum::{self, Sum};
use crate::lease::{FIRST_EPOCH, Guard, LeaseState, Locks};
use crate::tasks;
use crate::writer::Job;

/// The outer error fails the whole group, the inner one refuses this job alone.
type Outcome<T> = Result<Result<T, StoreError>, rusqlite::Error>;

/// The result of a job. Only the kind that the job's reply carries is used.
pub enum JobResult {
    Lease(Lease),
    Replaced(bool),
    Nothing,
}

pub struct JobTransaction<'a> {
    pub transaction: &'a Transaction<'a>,
    pub path: &'a Path,
    pub locks: &'a Locks,
}

/// The row of a session as it is before an append.
struct SessionRow {
    row: i64,
    epoch: u64,
    head: Seq,
    sum: Vec<u8>,
}

impl JobTransaction<'_> {
    pub fn perform(&self, job: &mut Job) -> Outcome<JobResult> {
        match job {
            Job::Acquire { session, owner, .. } => self.acquire(session, owner),
            Job::Append { job, .. } => self.append(job),
            Job::Delete { lease, .. } => self.delete(&lease.session),
            Job::Put { document, .. } => {
                self.put(document)?;
                Ok(Ok(JobResult::Nothing))
            }
            Job::Replace { expected, document, .. } => self.replace(expected.as_ref(), document),
        }
    }

    fn acquire(&self, session: &SessionId, owner: &Owner) -> Outcome<JobResult> {
        let known: Option<(i64, Option<String>)> = self
            .transaction
            .prepare_cached("SELECT row, owner FROM sessions WHERE id = ?1")?
            .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        // If the commit fails, the lease is dropped with the results, and the lock with the lease.
        let Some((row, last_owner)) = known else {
            let inserted = self.insert(session, owner)?;
            return Ok(inserted.map(|(_, guard)| lease(session, FIRST_EPOCH, guard)));
        };
        let guard = match self.locks.take(row) {
            Ok(Some(guard)) => guard,
            Ok(None) => {
                let last_owner = last_owner.and_then(|owner| serde_json::from_str(&owner).ok());
                let unknown = || Owner { pid: 0, program: "unknown".into(), since: Millis(0) };
                let owner = last_owner.unwrap_or_else(unknown);
                return Ok(Err(StoreError::Busy { session: session.clone(), owner }));
            }
            Err(error) => return Ok(Err(error)),
        };
        let owner = serde_json::to_string(owner).unwrap_or_default();
        let epoch = self
            .transaction
            .prepare_cached(
                "UPDATE sessions SET epoch = epoch + 1, owner = ?2 WHERE row = ?1 RETURNING epoch",
            )?
            .query_row(params![row, owner], |row| row.get(0))?;
        Ok(Ok(lease(session, epoch, guard)))
    }

    /// Inserts a session without events, locked for its owner.
    fn insert(&self, session: &SessionId, owner: &Owner) -> Outcome<(SessionRow, Guard)> {
        let mut row: i64 = self
            .transaction
            .prepare_cached("SELECT coalesce(max(row), 0) + 1 FROM sessions")?
            .query_row([], |row| row.get(0))?;
        // A lease may still hold the lock of a row that was deleted or never committed.
        let guard = loop {
            match self.locks.take(row) {
                Ok(Some(guard)) => break guard,
                Ok(None) => row += 1,
                Err(error) => return Ok(Err(error)),
            }
        };
        let (owner, sum) =
            (serde_json::to_string(owner).unwrap_or_default(), checksum::origin(session));
        self.transaction
            .prepare_cached(
                "INSERT INTO sessions (row, id, epoch, owner, sum) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![row, session.as_str(), FIRST_EPOCH, owner, sum.as_slice()])?;
        let inserted = SessionRow { row, epoch: FIRST_EPOCH, head: Seq::ZERO, sum: sum.to_vec() };
        Ok(Ok((inserted, guard)))
    }

    fn append(&self, job: &mut AppendJob) -> Outcome<JobResult> {
        // The lease is held only here, not until the commit. Other processes cannot acquire the session before
        // the commit, because that needs a transaction of their own. A later acquire in this group must find the
        // session free if its owner has dropped the lease.
        let lease = job.lease.take();
        let found = match self.find(&job.session)? {
            Some(found) => found,
            None => match lease.as_deref().and_then(|lease| Some((lease, lease.creates()?))) {
                Some((lease, owner)) => match self.insert(&job.session, owner)? {
                    Ok((inserted, guard)) => {
                        lease.keep(guard);
                        inserted
                    }
                    Err(refused) => return Ok(Err(refused)),
                },
                None => return Ok(Err(StoreError::Unknown(job.session.clone()))),
            },
        };
        if (found.epoch, found.head) != (job.epoch, job.expected) {
            let (session, expected) = (job.session.clone(), job.expected);
            return Ok(Err(StoreError::Conflict { session, expected, found: found.head }));
        }
        let Ok(sum) = Sum::try_from(found.sum) else {
            let detail = "the checksum of its last event is not readable";
            return Ok(Err(self.corrupt(job, found.head, detail)));
        };
        self.write(found.row, sum, job)
    }

    fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, rusqlite::Error> {
        self.transaction
            .prepare_cached("SELECT row, epoch, head, sum FROM sessions WHERE id = ?1")?
            .query_row([session.as_str()], |row| {
                Ok(SessionRow {
                    row: row.get(0)?,
                    epoch: row.get(1)?,
                    head: Seq(row.get(2)?),
                    sum: row.get(3)?,
                })
            })
            .optional()
    }

    fn write(&self, row: i64, before: Sum, job: &AppendJob) -> Outcome<JobResult> {
        let (sums, last) = job.records.chain(before);
        let first = job.expected.next();
        if !sums.is_empty() {
            let inserted = self
                .transaction
                .prepare_cached(
                    "INSERT INTO events (session, seq, body, sum) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![row, first.0, job.records.body(), sums]);
            match inserted {
                // A damaged database. The other jobs of the group must not fail with this one.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    return Ok(Err(self.corrupt(job, first, "a record with its number exists")));
                }
                other => other?,
            };
        }
        let head = job.records.head().unwrap_or(job.expected);
        self.transaction
            .prepare_cached(
                "UPDATE sessions SET head = ?2, sum = ?3, updated = ?4, summary = ?5 WHERE row = ?1",
            )?
            .execute(params![row, head.0, last.as_slice(), job.updated.0, job.summary])?;
        for mark in &job.tasks {
            tasks::mark(self.transaction, row, mark)?;
        }
        job.documents.iter().try_for_each(|document| self.put(document))?;
        Ok(Ok(JobResult::Nothing))
    }

    fn corrupt(&self, job: &AppendJob, seq: Seq, detail: &str) -> StoreError {
        let (session, file) = (job.session.clone(), self.path.display().to_string());
        StoreError::Corrupt { session, seq, file, detail: detail.into() }
    }

    fn delete(&self, session: &SessionId) -> Outcome<JobResult> {
        for statement in [
            "DELETE FROM events WHERE session = (SELECT row FROM sessions WHERE id = ?1)",
            "DELETE FROM tasks WHERE session = (SELECT row FROM sessions WHERE id = ?1)",
            "DELETE FROM sessions WHERE id = ?1",
        ] {
            self.transaction.prepare_cached(statement)?.execute([session.as_str()])?;
        }
        Ok(Ok(JobResult::Nothing))
    }

    fn put(&self, document: &Document) -> Result<(), rusqlite::Error> {
        let Document { collection, key, value } = document;
        match value {
            Some(value) => {
                let sum = checksum::of(&[collection.as_bytes(), key.as_bytes(), value.as_bytes()]);
                self.transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO documents (collection, key, value, sum) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![collection, key, value, sum.as_slice()])?
            }
            None => self
                .transaction
                .prepare_cached("DELETE FROM documents WHERE collection = ?1 AND key = ?2")?
                .execute([collection, key])?,
        };
        Ok(())
    }

    fn replace(&self, expected: Option<&String>, document: &Document) -> Outcome<JobResult> {
        // The transaction is immediate: no other process writes between the comparison and the change.
        let found: Option<String> = self
            .transaction
            .prepare_cached("SELECT value FROM documents WHERE collection = ?1 AND key = ?2")?
            .query_row([&document.collection, &document.key], |row| row.get(0))
            .optional()?;
        let fits = found.as_ref() == expected;
        if fits {
            self.put(document)?;
        }
        Ok(Ok(JobResult::Replaced(fits)))
    }
}

fn lease(session: &SessionId, epoch: u64, guard: Guard) -> JobResult {
    JobResult::Lease(Lease::new(session.clone(), epoch, Arc::new(LeaseState::existing(guard))))
}
