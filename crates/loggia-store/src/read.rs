//! Reading: a small pool of connections, and queries that verify their results. Nothing is written here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use loggia_core::{Envelope, Seq, SessionId, TaskId};
use loggia_session::{self as ports, StoreError};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::chain::{Chain, Extent, Row};
use crate::checksum;
use crate::files::{connect, describe};

/// Concurrent reads, and connections kept for them.
pub const READS: usize = 4;

pub struct Readers {
    path: PathBuf,
    /// A lock, not a task: held for a push or a pop.
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default() }
    }

    pub fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let result = work(&connection);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < READS {
            idle.push(connection);
        }
        result
    }
}

struct SessionRow {
    row: i64,
    head: Seq,
    sum: Vec<u8>,
}

/// By the index of the constraint on ids.
const BY_ID: &str = "SELECT row, head, sum FROM sessions \
                     INDEXED BY sqlite_autoindex_sessions_1 WHERE id = ?1";
const BY_ID_AGAIN: &str =
    "SELECT row, head, sum FROM sessions INDEXED BY sessions_again WHERE id = ?1";

fn find(
    connection: &Connection,
    path: &Path,
    session: &SessionId,
) -> Result<Option<SessionRow>, StoreError> {
    let look_up = |query: &str| -> Result<Option<SessionRow>, rusqlite::Error> {
        let mut statement = connection.prepare_cached(query)?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok(SessionRow { row: row.get(0)?, head: Seq(row.get(1)?), sum: row.get(2)? })
        };
        statement.query_row([session.as_str()], read).optional()
    };
    let explain = |error| describe(error, path);
    let found = look_up(BY_ID).map_err(explain)?;
    // A damaged index must not make a session look unknown. A second index is searched and not the whole table,
    // because every id that a client invents is looked up here.
    if found.is_none() && look_up(BY_ID_AGAIN).map_err(explain)?.is_some() {
        let detail = format!("session {session} is missing in an index");
        return Err(StoreError::Damaged { file: path.display().to_string(), detail });
    }
    Ok(found)
}

pub fn head(
    connection: &Connection,
    path: &Path,
    session: &SessionId,
) -> Result<Option<Seq>, StoreError> {
    // One read transaction: the session may be created between the two searches.
    let transaction = connection.unchecked_transaction().map_err(|error| describe(error, path))?;
    Ok(find(&transaction, path, session)?.map(|found| found.head))
}

/// How much a read takes.
#[derive(Clone, Copy)]
pub enum ReadLimit {
    /// Up to this many events.
    Events(usize),
    /// Whole rows, until they reach the size of a piece.
    Piece,
}

/// Bytes and events of a piece, whichever comes first: large enough to make the cost of finding a row small, and small
/// enough to be kept in memory for other readers ([`loggia_session::log`]).
const PIECE: (usize, usize) = (128 * 1024, 1024);

impl ReadLimit {
    fn wanted(self) -> u64 {
        match self {
            ReadLimit::Events(limit) => limit as u64,
            ReadLimit::Piece => u64::MAX,
        }
    }

    /// At the end of a row.
    fn is_enough(self, chain: &Chain<'_>) -> bool {
        let (events, bytes) = chain.found();
        let piece = bytes >= PIECE.0 || events >= PIECE.1;
        chain.is_whole() || (matches!(self, ReadLimit::Piece) && piece)
    }
}

pub fn events(
    connection: &Connection,
    path: &Path,
    session: &SessionId,
    after: Seq,
    limit: ReadLimit,
) -> Result<Vec<Arc<Envelope>>, StoreError> {
    // One read transaction: the head and the records must be of the same state.
    let transaction = connection.unchecked_transaction().map_err(|error| describe(error, path))?;
    let Some(SessionRow { row, head, sum }) = find(&transaction, path, session)? else {
        return Err(StoreError::Unknown(session.clone()));
    };
    if after > head {
        return Ok(Vec::new());
    }
    let extent = Extent { session, path, head, sum: &sum };
    let mut chain = Chain::new(extent, after, limit.wanted());
    let walked = match walk(&transaction, row, after, limit, &mut chain) {
        Ok(walked) => walked,
        Err(failure) => Err(damaged(describe(failure, path), session, after.next())),
    };
    let enough = limit.is_enough(&chain);
    chain.end(walked, enough)
}

/// Selects the row that contains the record `after`, and the rows behind it. The checksum of that record starts the
/// chain. Its row is read even if no record after it is wanted, to find records that do not belong there.
const ROWS: &str = "SELECT seq, body, sum FROM events
     WHERE session = ?1 AND seq <= ?3 AND seq >=
         coalesce((SELECT max(seq) FROM events WHERE session = ?1 AND seq <= ?2), 0)
     ORDER BY seq";

fn walk(
    connection: &Connection,
    row: i64,
    after: Seq,
    limit: ReadLimit,
    chain: &mut Chain<'_>,
) -> Result<Result<(), StoreError>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(ROWS)?;
    let mut rows = statement.query(params![row, after.0, chain.last().0])?;
    while let Some(row) = rows.next()? {
        let (first, body, sums) = (Seq(row.get(0)?), row.get_ref(1)?, row.get_ref(2)?);
        let row = Row { first, body: body.as_blob()?, sums: sums.as_blob()? };
        if let Err(error) = chain.take(&row) {
            return Ok(Err(error));
        }
        if limit.is_enough(chain) {
            break;
        }
    }
    Ok(Ok(()))
}

fn damaged(error: StoreError, session: &SessionId, seq: Seq) -> StoreError {
    match error {
        StoreError::Damaged { file, detail } => {
            StoreError::Corrupt { session: session.clone(), seq, file, detail }
        }
        other => other,
    }
}

pub fn locate(
    connection: &Connection,
    path: &Path,
    task: &TaskId,
) -> Result<Option<SessionId>, StoreError> {
    connection
        .prepare_cached(
            "SELECT sessions.id FROM tasks JOIN sessions ON sessions.row = tasks.session WHERE task = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row([task.as_str()], |row| row.get::<_, String>(0))
                .optional()
        })
        .map(|found| found.map(SessionId::new))
        .map_err(|error| describe(error, path))
}

/// The readable sessions, the most recently changed first, and the damage to the others.
///
/// The table is read from end to end and compared with an index of the ids. An index that has lost an
/// entry, a page that has lost a row and a row that cannot be read are all noticed.
pub fn list(
    connection: &Connection,
    path: &Path,
    limit: usize,
) -> Result<ports::Listing, StoreError> {
    // One read transaction, so that table and index are of the same state.
    let transaction = connection.unchecked_transaction().map_err(|error| describe(error, path))?;
    let mut wrong = Vec::new();
    let (mut found, mut ids) = (Vec::new(), Vec::new());
    if let Err(error) = table(&transaction, &mut found, &mut ids, &mut wrong) {
        wrong.push(only_damage(error, path)?);
    }
    match indexed(&transaction) {
        Ok(indexed) => {
            ids.sort_unstable();
            let missing = indexed.iter().find(|id| ids.binary_search(id).is_err());
            let unknown = ids.iter().find(|id| indexed.binary_search(id).is_err());
            wrong.extend(missing.map(|id| format!("session {id} is in an index only")));
            wrong.extend(unknown.map(|id| format!("session {id} is missing in an index")));
        }
        Err(error) => wrong.push(only_damage(error, path)?),
    }
    let newest = |listed: &(i64, ports::Listed)| (listed.0, listed.1.session.clone());
    found.sort_by_cached_key(|listed| std::cmp::Reverse(newest(listed)));
    let sessions = found.into_iter().map(|(_, listed)| listed).take(limit).collect();
    let damage = wrong.first().map(|first| {
        let detail = format!("the list of sessions may not be complete ({first})");
        StoreError::Damaged { file: path.display().to_string(), detail }
    });
    Ok(ports::Listing { sessions, damage })
}

/// The damage in words. Other errors end the read.
fn only_damage(error: rusqlite::Error, path: &Path) -> Result<String, StoreError> {
    match describe(error, path) {
        StoreError::Damaged { detail, .. } => Ok(detail),
        other => Err(other),
    }
}

/// Every row, until one cannot be reached.
fn table(
    connection: &Connection,
    found: &mut Vec<(i64, ports::Listed)>,
    ids: &mut Vec<String>,
    wrong: &mut Vec<String>,
) -> Result<(), rusqlite::Error> {
    let query = "SELECT id, head, summary, owner, updated FROM sessions NOT INDEXED";
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = match row.get::<_, String>(0) {
            Ok(id) => id,
            Err(error) => {
                wrong.push(format!("the id of a session cannot be read: {error}"));
                continue;
            }
        };
        ids.push(id.clone());
        match listed(row, &id) {
            Ok(listed) => found.extend(listed),
            Err(why) => wrong.push(format!("session {id} cannot be read: {why}")),
        }
    }
    Ok(())
}

/// A session as a list shows it; None for one that has not begun.
fn listed(row: &rusqlite::Row<'_>, id: &str) -> Result<Option<(i64, ports::Listed)>, String> {
    let read = || -> Result<(u64, Option<String>, Option<String>, i64), rusqlite::Error> {
        Ok((row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    };
    let (head, summary, owner, updated) = read().map_err(|error| error.to_string())?;
    let Some(summary) = summary else {
        return if head == 0 { Ok(None) } else { Err("it has no summary".to_owned()) };
    };
    let listed = ports::Listed {
        session: SessionId::new(id),
        head: Seq(head),
        summary: serde_json::from_str(&summary).map_err(|error| error.to_string())?,
        owner: owner.and_then(|owner| serde_json::from_str(&owner).ok()),
    };
    Ok(Some((updated, listed)))
}

/// All ids of the index that belongs to the constraint on ids, in order.
fn indexed(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let query = "SELECT id FROM sessions INDEXED BY sqlite_autoindex_sessions_1 ORDER BY id";
    let mut statement = connection.prepare_cached(query)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

pub fn document(
    connection: &Connection,
    path: &Path,
    collection: &str,
    key: &str,
) -> Result<Option<String>, StoreError> {
    let exactly = "SELECT key, value, sum FROM documents WHERE collection = ?1 AND key = ?2";
    let found = verified(connection, path, exactly, collection, key)?;
    Ok(found.into_iter().next().map(|(_, value)| value))
}

pub fn documents(
    connection: &Connection,
    path: &Path,
    collection: &str,
    prefix: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    let beginning = "SELECT key, value, sum FROM documents
        WHERE collection = ?1 AND substr(key, 1, length(?2)) = ?2 ORDER BY key";
    verified(connection, path, beginning, collection, prefix)
}

fn verified(
    connection: &Connection,
    path: &Path,
    query: &str,
    collection: &str,
    key: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    let query = || -> Result<Vec<(String, String, Vec<u8>)>, rusqlite::Error> {
        let mut statement = connection.prepare_cached(query)?;
        let rows = statement
            .query_map([collection, key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    };
    let found = query().map_err(|error| describe(error, path))?;
    let verified = found.into_iter().map(|(key, value, sum)| {
        let expected = checksum::of(&[collection.as_bytes(), key.as_bytes(), value.as_bytes()]);
        if expected.as_slice() == sum {
            return Ok((key, value));
        }
        Err(StoreError::Damaged {
            file: path.display().to_string(),
            detail: format!("the checksum of {collection} `{key}` does not match"),
        })
    });
    verified.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// Two index searches, and no scan of the table.
    #[test]
    fn an_unknown_id_costs_two_index_searches() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let mut connection = Connection::open(&path).unwrap();
        schema::migrate(&mut connection, &path).unwrap();
        let plan = |query: &str| -> String {
            let explain = format!("EXPLAIN QUERY PLAN {query}");
            connection.query_row(&explain, ["x"], |row| row.get(3)).unwrap()
        };
        let found = [BY_ID, BY_ID_AGAIN].map(plan);
        assert_eq!(
            found,
            [
                "SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (id=?)",
                "SEARCH sessions USING INDEX sessions_again (id=?)",
            ]
        );
    }

    /// A file of the first format gets the second index, filled.
    #[test]
    fn an_older_file_is_brought_up_to_date() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let mut connection = Connection::open(&path).unwrap();
        let first = include_str!("../migrations/0001_sessions.sql");
        connection.execute_batch(first).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        let insert = "INSERT INTO sessions (id, sum) VALUES ('s', x'00')";
        connection.execute(insert, []).unwrap();
        schema::migrate(&mut connection, &path).unwrap();
        let row = |query: &str| connection.query_row(query, ["s"], |row| row.get::<_, i64>(0));
        assert_eq!((row(BY_ID), row(BY_ID_AGAIN)), (Ok(1), Ok(1)));
    }
}
