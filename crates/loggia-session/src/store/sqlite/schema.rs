//! The tables, as numbered steps. A released step never changes; a new one is added behind it.

use std::path::Path;

use rusqlite::Connection;

use super::{describe, old_notes};
use crate::ports::StoreError;

pub const STEPS: &[&str] = &[
    include_str!("../../../migrations/0001_sessions.sql"),
    include_str!("../../../migrations/0002_steps.sql"),
    include_str!("../../../migrations/0003_second_look.sql"),
    include_str!("../../../migrations/0004_notes.sql"),
    include_str!("../../../migrations/0005_journals.sql"),
];
/// The format in which the tables learned from notes.
const NOTES: usize = 4;

/// Brings the file to the newest format in one transaction, or refuses one from the future. Returns a sentence about
/// what could not be taken over.
pub fn migrate(connection: &mut Connection, path: &Path) -> Result<Option<String>, StoreError> {
    let known = STEPS.len() as i64;
    let explain = |error| describe(error, path);
    connection.pragma_update(None, "journal_mode", "wal").map_err(explain)?;
    let found = version(connection).map_err(explain)?;
    if found > known {
        return Err(StoreError::Newer { file: path.display().to_string(), found, known });
    }
    if found == known {
        return Ok(None);
    }
    let migrate = || -> Result<usize, rusqlite::Error> {
        let mut damaged = 0;
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        // Somebody else may have migrated while this one waited for the lock.
        let done = usize::try_from(version(&transaction)?).unwrap_or(0);
        for (number, step) in STEPS.iter().enumerate().skip(done) {
            if number == NOTES {
                damaged = old_notes::learn(&transaction)?;
            }
            transaction.execute_batch(step)?;
        }
        transaction.pragma_update(None, "user_version", known)?;
        transaction.commit()?;
        Ok(damaged)
    };
    let mut migrate = migrate;
    let damaged = migrate().map_err(explain)?;
    Ok((damaged > 0).then(|| {
        let file = path.display();
        format!("{file} held {damaged} damaged notes: the end of some sessions is lost")
    }))
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}
