//! What the lists of sessions and tasks have yet to learn.
//!
//! The lists are derived from the log. To write them with every append would change a page of each of
//! their eight trees for a few bytes, so an append leaves a note instead, in the same transaction and at
//! the end of one table, and the lists learn many notes at once: when there are [`MANY`], before a
//! session is acquired or deleted, when somebody reads what may be behind, and when the store is closed.
//! It does not matter who does it. The notes are in the file, so another process, or the next one after
//! a crash, goes on where this one stopped.

use std::collections::HashMap;

use loggia_core::{Millis, Seq, SessionId, TaskId, TaskState};
use rusqlite::{Connection, Transaction, params};
use serde::{Deserialize, Serialize};

use super::tasks;
use crate::index::TaskMark;
use crate::ports::{Owner, StoreError};
use crate::store::checksum::{self, Sum};

/// Notes that one process leaves before it brings the lists up to date.
pub const MANY: usize = 128;

/// How one append left its session.
#[derive(Serialize, Deserialize)]
pub struct Note {
    pub id: SessionId,
    /// Who made the session with this append, and under which epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<(u64, Owner)>,
    pub head: u64,
    pub updated: i64,
    /// As it is kept: a JSON text.
    pub summary: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Marked>,
}

#[derive(Serialize, Deserialize)]
pub struct Marked {
    task: TaskId,
    state: TaskState,
    updated: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
}

impl From<TaskMark> for Marked {
    fn from(mark: TaskMark) -> Self {
        let TaskMark { task, state, updated, principal } = mark;
        Self { task, state, updated: updated.0, principal }
    }
}

impl From<Marked> for TaskMark {
    fn from(marked: Marked) -> Self {
        let Marked { task, state, updated, principal } = marked;
        Self { task, state, updated: Millis(updated), principal }
    }
}

/// A note with the row and the last sum of its session.
type Noted = (i64, Sum, Note);

/// Whether the lists are behind.
pub fn exist(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM notes)")?;
    statement.query_row([], |row| row.get(0))
}

/// Leaves the note of an append. `sum` is that of the session's last record.
pub fn leave(
    transaction: &Transaction<'_>,
    session: i64,
    sum: &Sum,
    note: &Note,
) -> Result<(), rusqlite::Error> {
    let mut body = Vec::with_capacity(1024);
    body.extend(Sum::default());
    body.extend(sum);
    serde_json::to_writer(&mut body, note)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    if let Some((own, rest)) = body.split_first_chunk_mut::<{ size_of::<Sum>() }>() {
        *own = own_sum(session, rest);
    }
    transaction
        .prepare_cached("INSERT INTO notes (session, body) VALUES (?1, ?2)")?
        .execute(params![session, body])?;
    Ok(())
}

fn own_sum(session: i64, rest: &[u8]) -> Sum {
    checksum::of(&[&session.to_le_bytes(), rest])
}

/// A note and the sum of its session's last record, if it is what was written.
fn read(session: i64, body: &[u8]) -> Option<(Sum, Note)> {
    let (own, rest) = body.split_first_chunk::<{ size_of::<Sum>() }>()?;
    if own_sum(session, rest) != *own {
        return None;
    }
    let (sum, note) = rest.split_first_chunk::<{ size_of::<Sum>() }>()?;
    Some((*sum, serde_json::from_slice(note).ok()?))
}

/// The last thing that was noted about a session, for a reader that must not be behind.
pub fn about(
    connection: &Connection,
    session: i64,
    file: &str,
) -> Result<Result<Option<(Seq, Sum)>, StoreError>, rusqlite::Error> {
    // The newest are few, and at the end of one table: nothing else leads to them.
    let mut statement = connection
        .prepare_cached("SELECT body FROM notes WHERE session = ?1 ORDER BY place DESC LIMIT 1")?;
    let mut rows = statement.query([session])?;
    let Some(row) = rows.next()? else { return Ok(Ok(None)) };
    let noted = read(session, row.get_ref(0)?.as_blob()?).ok_or_else(|| damaged(file));
    Ok(noted.map(|(sum, note)| Some((Seq(note.head), sum))))
}

/// Brings the lists up to date.
pub fn learn(
    transaction: &Transaction<'_>,
    file: &str,
) -> Result<Result<(), StoreError>, rusqlite::Error> {
    let notes = match all(transaction)? {
        Some(notes) if notes.is_empty() => return Ok(Ok(())),
        Some(notes) => notes,
        None => return Ok(Err(damaged(file))),
    };
    // Only the last word about a session counts, but for who made it, and for its tasks.
    let (mut last, mut places) = (Vec::<Noted>::new(), HashMap::new());
    for (session, sum, mut note) in notes {
        for marked in std::mem::take(&mut note.tasks) {
            tasks::mark(transaction, session, &marked.into())?;
        }
        let place = *places.entry(session).or_insert(last.len());
        match last.get_mut(place) {
            Some((_, kept, earlier)) => {
                note.begun = note.begun.or(earlier.begun.take());
                (*kept, *earlier) = (sum, note);
            }
            None => last.push((session, sum, note)),
        }
    }
    for (session, sum, note) in &last {
        learn_one(transaction, *session, sum, note)?;
    }
    transaction.prepare_cached("DELETE FROM notes")?.execute([])?;
    Ok(Ok(()))
}

/// Every note in the order of writing, or None if one is not what was written.
fn all(connection: &Connection) -> Result<Option<Vec<Noted>>, rusqlite::Error> {
    let mut statement =
        connection.prepare_cached("SELECT session, body FROM notes ORDER BY place")?;
    let mut rows = statement.query([])?;
    let mut notes = Vec::new();
    while let Some(row) = rows.next()? {
        let session = row.get(0)?;
        let Some((sum, note)) = read(session, row.get_ref(1)?.as_blob()?) else {
            return Ok(None);
        };
        notes.push((session, sum, note));
    }
    Ok(Some(notes))
}

fn damaged(file: &str) -> StoreError {
    let detail = "a note for the lists of sessions and tasks does not match its checksum";
    StoreError::Damaged { file: file.to_owned(), detail: detail.to_owned() }
}

fn learn_one(
    transaction: &Transaction<'_>,
    session: i64,
    sum: &Sum,
    note: &Note,
) -> Result<(), rusqlite::Error> {
    let Note { id, begun, head, updated, summary, .. } = note;
    match begun {
        Some((epoch, owner)) => {
            let owner = serde_json::to_string(owner).unwrap_or_default();
            transaction
                .prepare_cached(
                    "INSERT OR IGNORE INTO sessions (row, id, epoch, owner, head, sum, updated, summary)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![session, id.as_str(), epoch, owner, head, sum.as_slice(), updated, summary])?
        }
        None => transaction
            .prepare_cached(
                "UPDATE sessions SET head = ?2, sum = ?3, updated = ?4, summary = ?5 WHERE row = ?1",
            )?
            .execute(params![session, head, sum.as_slice(), updated, summary])?,
    };
    Ok(())
}
