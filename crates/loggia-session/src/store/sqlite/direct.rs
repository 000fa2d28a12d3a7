//! Jobs that are done in the tables at once, in a transaction that they share: a session is acquired or deleted,
//! documents change, and appends that a journal cannot take.

use std::sync::Arc;

use loggia_core::{Millis, Seq, SessionId};
use rusqlite::{OptionalExtension, Transaction, params};

use super::append::{Held, Last};
use super::settle::{Journals, Own, Settling};
use super::writer::{Done, Job, Places};
use crate::ports::{Document, Lease, Owner, StoreError};
use crate::store::checksum;

/// What a job is done with.
pub struct Direct<'a> {
    pub transaction: &'a Transaction<'a>,
    /// The database for sentences.
    pub file: &'a str,
    pub places: &'a Places,
    pub journals: &'a Journals,
    pub own: Option<Own>,
}

type Outcome<T> = Result<Result<T, StoreError>, rusqlite::Error>;

impl Direct<'_> {
    pub fn settle(&self) -> Outcome<Settling> {
        self.journals.settle(self.transaction, self.own, None)
    }

    pub fn perform(&self, job: &Job, changed: &mut Vec<Arc<Held>>) -> Outcome<Done> {
        let transaction = self.transaction;
        match job {
            Job::Acquire { session, owner, .. } => self.acquire(session, owner),
            Job::Append { job, .. } => {
                let held = match job.write(transaction, self.file)? {
                    Ok(held) => held,
                    Err(refused) => return Ok(Err(refused)),
                };
                changed.extend(held);
                for document in &job.documents {
                    put(transaction, document)?;
                }
                Ok(Ok(Done::Nothing))
            }
            Job::Delete { lease, .. } => {
                for statement in [
                    "DELETE FROM events WHERE session = ?1",
                    "DELETE FROM tasks WHERE session = ?1",
                    "DELETE FROM sessions WHERE row = ?1",
                ] {
                    transaction.prepare_cached(statement)?.execute([lease.row])?;
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
                    .prepare_cached(
                        "SELECT value FROM documents WHERE collection = ?1 AND key = ?2",
                    )?
                    .query_row([&document.collection, &document.key], |row| row.get(0))
                    .optional()?;
                let fits = found == *expected;
                if fits {
                    put(transaction, document)?;
                }
                Ok(Ok(Done::Replaced(fits)))
            }
            Job::Prepare => Ok(Ok(Done::Nothing)),
        }
    }

    fn acquire(&self, session: &SessionId, owner: &Owner) -> Outcome<Done> {
        let (transaction, places) = (self.transaction, self.places);
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
        match known {
            // Once more, now that it is locked: its last owner may have written until then. Who cannot read a
            // journal does not know where the session ends.
            Some(_) => {
                if let Err(error) = self.settle()?.and_then(Settling::of_all) {
                    return Ok(Err(error));
                }
            }
            None => {
                transaction
                    .prepare_cached("INSERT INTO sessions (row, id, sum) VALUES (?1, ?2, ?3)")?
                    .execute(params![
                        row,
                        session.as_str(),
                        checksum::origin(session).as_slice()
                    ])?;
            }
        }
        let owner = serde_json::to_string(owner).unwrap_or_default();
        let (epoch, head, sum) = transaction
            .prepare_cached(
                "UPDATE sessions SET epoch = epoch + 1, owner = ?2 WHERE row = ?1
                 RETURNING epoch, head, sum",
            )?
            .query_row(params![row, owner], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let last = Last::read(session, Seq(head), sum, self.file);
        Ok(last.map(|last| {
            let held = Held::existing(guard, last);
            Done::Lease(Lease::new(session.clone(), epoch, row, Arc::new(held)))
        }))
    }
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
