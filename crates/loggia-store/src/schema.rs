//! The tables as numbered steps, and the migration of an older database to the newest format. A released step never
//! changes; new ones are added after it.

mod old_journals;
mod old_notes;

use std::path::Path;

use loggia_session::StoreError;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::files::describe;

pub const STEPS: &[&str] = &[
    include_str!("../migrations/0001_sessions.sql"),
    include_str!("../migrations/0002_steps.sql"),
    include_str!("../migrations/0003_second_look.sql"),
    include_str!("../migrations/0004_notes.sql"),
    include_str!("../migrations/0005_journals.sql"),
    include_str!("../migrations/0006_no_journals.sql"),
];
const CURRENT: i64 = STEPS.len() as i64;
/// The format whose lists were completed from notes.
const WITH_NOTES: usize = 4;
/// The format whose tables were completed from journals.
const WITH_JOURNALS: usize = 5;

/// Migrates the database to the newest format in one transaction, or refuses a newer one. Returns sentences about data
/// that could not be migrated. The caller must have the exclusive lock: a process of an older version would continue to
/// write its journal.
pub fn migrate(connection: &mut Connection, path: &Path) -> Result<Vec<String>, StoreError> {
    let explain = |error| describe(error, path);
    connection.pragma_update(None, "journal_mode", "wal").map_err(explain)?;
    let found = version(connection).map_err(explain)?;
    if found > CURRENT {
        return Err(newer(found, path));
    }
    let mut findings = Vec::new();
    if found < CURRENT {
        // Synced: the journals are removed after the commit.
        connection.pragma_update(None, "synchronous", "FULL").map_err(explain)?;
        let immediate = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(immediate).map_err(explain)?;
        let done = usize::try_from(found).unwrap_or(0);
        for (number, step) in STEPS.iter().enumerate().skip(done) {
            findings.extend(import_into(number, &transaction, path)?);
            transaction.execute_batch(step).map_err(explain)?;
        }
        transaction.pragma_update(None, "user_version", CURRENT).map_err(explain)?;
        transaction.commit().map_err(explain)?;
    }
    // Also those that an earlier migration could not remove because it was killed.
    old_journals::remove(path);
    Ok(findings)
}

/// Moves data that the format with this number kept elsewhere into its tables.
fn import_into(
    number: usize,
    transaction: &Transaction<'_>,
    path: &Path,
) -> Result<Vec<String>, StoreError> {
    match number {
        WITH_NOTES => {
            let damaged = old_notes::apply(transaction).map_err(|error| describe(error, path))?;
            let file = path.display();
            let lost =
                format!("{file} held {damaged} damaged notes: the end of some sessions is lost");
            Ok(if damaged > 0 { vec![lost] } else { Vec::new() })
        }
        WITH_JOURNALS => old_journals::apply(transaction, path),
        _ => Ok(Vec::new()),
    }
}

/// For a database that another process has open: it must have the newest format already.
pub fn require_current(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    match version(connection).map_err(|error| describe(error, path))? {
        CURRENT => Ok(()),
        found if found > CURRENT => Err(newer(found, path)),
        found => Err(StoreError::Io(format!(
            "{} has format {found} and is in use by a process of an older Loggia; \
             stop that process and start again to migrate it to format {CURRENT}",
            path.display()
        ))),
    }
}

fn newer(found: i64, path: &Path) -> StoreError {
    StoreError::Newer { file: path.display().to_string(), found, known: CURRENT }
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}
