//! Notes of format 4: changes to the lists of sessions and tasks that were not in these lists yet when the process was
//! killed. They are read once, when such a database is migrated; nothing writes notes.

use loggia_core::SessionId;
use loggia_session::Owner;
use rusqlite::{Transaction, params};
use serde::Deserialize;

use super::old_journals::OldTaskMark;
use crate::checksum::{self, Sum};
use crate::tasks;

#[derive(Deserialize)]
struct Note {
    id: SessionId,
    #[serde(default)]
    begun: Option<(u64, Owner)>,
    head: u64,
    updated: i64,
    summary: String,
    #[serde(default)]
    tasks: Vec<OldTaskMark>,
}

/// Applies all notes to the lists. Returns how many were damaged; their content is lost.
pub fn apply(transaction: &Transaction<'_>) -> Result<usize, rusqlite::Error> {
    let mut damaged = 0;
    let mut statement = transaction.prepare("SELECT session, body FROM notes ORDER BY place")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let session: i64 = row.get(0)?;
        let Some((sum, note)) = row.get_ref(1)?.as_blob().ok().and_then(|body| read(session, body))
        else {
            damaged += 1;
            continue;
        };
        if let Some((epoch, owner)) = &note.begun {
            let owner = serde_json::to_string(owner).unwrap_or_default();
            transaction
                .prepare_cached("INSERT OR IGNORE INTO sessions (row, id, epoch, owner, sum) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![session, note.id.as_str(), epoch, owner, sum.as_slice()])?;
        }
        transaction
            .prepare_cached("UPDATE sessions SET head = ?2, sum = ?3, updated = ?4, summary = ?5 WHERE row = ?1")?
            .execute(params![session, note.head, sum.as_slice(), note.updated, note.summary])?;
        for mark in note.tasks {
            tasks::mark(transaction, session, &mark.into())?;
        }
    }
    Ok(damaged)
}

/// A note is its own checksum, the checksum of the session's last record, and a JSON object.
fn read(session: i64, body: &[u8]) -> Option<(Sum, Note)> {
    let (own, rest) = body.split_first_chunk::<{ size_of::<Sum>() }>()?;
    if checksum::of(&[&session.to_le_bytes(), rest]) != *own {
        return None;
    }
    let (sum, note) = rest.split_first_chunk::<{ size_of::<Sum>() }>()?;
    Some((*sum, serde_json::from_slice(note).ok()?))
}
