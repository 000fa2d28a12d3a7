//! From the journals to the tables.
//!
//! Where each journal was read up to is in the database, changed in the transaction that also writes what
//! was read. So it does not matter who settles, its owner, another process or the next one after a crash,
//! and nothing can be taken twice or left out. It is done when a journal is long, before a session is acquired
//! or deleted, when somebody reads what may be behind, and when the store is closed.
//!
//! A slot is a journal's number and, far behind those of sessions, a byte of the lock file, which says whether
//! its process lives.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};

use super::entry::{Entry, Note};
use super::journal::{self, Damage, Frames, Generation};
use super::lease::{Guard, Locks};
use super::{io, tasks};
use crate::ports::StoreError;

/// The byte of slot 0; that of slot 1 is before it. The last one is [`super::kept`]'s.
const SLOTS: i64 = i64::MAX - 1;
/// Processes that have one database open and write.
const MOST: i64 = 1024;

/// Takes the lock of the first slot that no process has.
pub fn take_slot(locks: &Locks) -> Result<(i64, Guard), StoreError> {
    for slot in 1..=MOST {
        if let Some(guard) = locks.take(SLOTS - slot)? {
            return Ok((slot, guard));
        }
    }
    Err(StoreError::Io(format!("{MOST} processes write to this database already")))
}

/// How far a journal is in the tables.
struct Settled {
    slot: i64,
    generation: Generation,
    place: u64,
}

fn settled(connection: &Connection) -> Result<Vec<Settled>, rusqlite::Error> {
    let mut statement =
        connection.prepare_cached("SELECT slot, generation, place FROM journals ORDER BY slot")?;
    let rows = statement.query_map([], |row| {
        Ok(Settled { slot: row.get(0)?, generation: row.get(1)?, place: row.get(2)? })
    })?;
    rows.collect()
}

/// The end of the journal of the process that settles: it knows how much must be there.
#[derive(Clone, Copy)]
pub struct Own {
    pub slot: i64,
    pub end: u64,
}

/// The journals of one database.
pub struct Journals {
    directory: PathBuf,
}

type Outcome<T> = Result<Result<T, StoreError>, rusqlite::Error>;

impl Journals {
    pub fn beside(database: &Path) -> Self {
        Self { directory: database.parent().unwrap_or(Path::new("")).to_owned() }
    }

    pub fn path(&self, slot: i64) -> PathBuf {
        journal::path(&self.directory, slot)
    }

    /// Whether the tables are behind. What is asked for must be looked up later than this, not before: what
    /// is in a journal no more is in the tables by then.
    pub fn exist(&self, connection: &Connection) -> Outcome<bool> {
        for settled in settled(connection)? {
            match self.frames(&settled).and_then(|frames| match frames {
                Some(mut frames) => frames.begins(),
                None => Ok(false),
            }) {
                Ok(false) => {}
                Ok(true) => return Ok(Ok(true)),
                Err(error) => return Ok(Err(io(&self.path(settled.slot), &error))),
            }
        }
        Ok(Ok(false))
    }

    fn frames(&self, settled: &Settled) -> std::io::Result<Option<Frames>> {
        Frames::open(&self.path(settled.slot), settled.generation, settled.place)
    }

    /// Brings the tables up to date, or by about so many bytes of each journal closer to it.
    pub fn settle(
        &self,
        transaction: &Transaction<'_>,
        own: Option<Own>,
        most: Option<u64>,
    ) -> Outcome<()> {
        for settled in settled(transaction)? {
            let until = settled.place.saturating_add(most.unwrap_or(u64::MAX));
            let own = own.filter(|own| own.slot == settled.slot);
            if let Err(error) = self.settle_one(transaction, &settled, own, until)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn settle_one(
        &self,
        transaction: &Transaction<'_>,
        settled: &Settled,
        own: Option<Own>,
        until: u64,
    ) -> Outcome<()> {
        let path = self.path(settled.slot);
        // What is behind the end of the own one is being written.
        let until = own.map_or(until, |own| own.end.min(until));
        let (contents, place) = match self.contents(settled, own.is_none(), until) {
            Ok(read) => read,
            Err(error) => return Ok(Err(io(&path, &error))),
        };
        if own.is_some() && place < until {
            return Ok(Err(damaged(&path, place)));
        }
        if contents.is_empty() {
            return Ok(Ok(()));
        }
        let entries: Option<Vec<_>> =
            contents.iter().flat_map(|content| entries(content)).collect();
        let Some(entries) = entries else { return Ok(Err(damaged(&path, settled.place))) };
        apply(transaction, entries)?;
        transaction
            .prepare_cached("UPDATE journals SET place = ?2 WHERE slot = ?1")?
            .execute(params![settled.slot, place])?;
        Ok(Ok(()))
    }

    /// What the tables do not have yet, and where it ends. What others wrote may have been written this very
    /// moment: then it is synced before anybody sees it.
    fn contents(
        &self,
        settled: &Settled,
        foreign: bool,
        until: u64,
    ) -> std::io::Result<(Vec<Vec<u8>>, u64)> {
        let Some(mut frames) = self.frames(settled)? else {
            return Ok((Vec::new(), settled.place));
        };
        let mut contents = Vec::new();
        while frames.place() < until
            && let Some(content) = frames.next()?
        {
            contents.push(content);
        }
        if foreign && !contents.is_empty() {
            frames.sync()?;
        }
        Ok((contents, frames.place()))
    }

    /// A journal that begins anew: everything before is in the tables, in this transaction or earlier ones.
    pub fn begin(
        &self,
        transaction: &Transaction<'_>,
        slot: i64,
        generation: &Generation,
    ) -> Result<(), rusqlite::Error> {
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO journals (slot, generation, place) VALUES (?1, ?2, 0)",
            )?
            .execute(params![slot, generation])?;
        Ok(())
    }

    /// The slot is nobody's any more, in this transaction. Then its file may go.
    pub fn end(&self, transaction: &Transaction<'_>, slot: i64) -> Result<(), rusqlite::Error> {
        transaction.prepare_cached("DELETE FROM journals WHERE slot = ?1")?.execute([slot])?;
        Ok(())
    }

    /// The journals of processes that are gone, each with its lock, and what is wrong with them.
    pub fn left_behind(
        &self,
        connection: &Connection,
        locks: &Locks,
    ) -> Result<Vec<LeftBehind>, StoreError> {
        let explain = |error| super::describe(error, &self.directory.join(super::DATABASE));
        let mut left = Vec::new();
        for settled in settled(connection).map_err(explain)? {
            if let Some(guard) = locks.take(SLOTS - settled.slot)? {
                let damage = self.damage(&settled);
                left.push(LeftBehind { slot: settled.slot, damage, _guard: guard });
            }
        }
        Ok(left)
    }

    /// Puts what was left behind into the tables, as far as it is good, and takes it away.
    pub fn take_over(
        &self,
        connection: &mut Connection,
        left: &[LeftBehind],
    ) -> Result<(), StoreError> {
        if left.is_empty() {
            return Ok(());
        }
        let explain = |error| super::describe(error, &self.directory.join(super::DATABASE));
        let mut take_over = || -> Outcome<()> {
            connection.pragma_update(None, "synchronous", "FULL")?; // before the files go
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if let Err(error) = self.settle(&transaction, None, None)? {
                return Ok(Err(error));
            }
            for left in left {
                self.end(&transaction, left.slot)?;
            }
            transaction.commit()?;
            Ok(Ok(()))
        };
        take_over().map_err(explain)??;
        for left in left {
            let _ = std::fs::remove_file(self.path(left.slot));
        }
        Ok(())
    }

    /// A sentence about the damage, if something may be lost by it.
    fn damage(&self, settled: &Settled) -> Option<String> {
        let path = self.path(settled.slot);
        let look = || -> std::io::Result<Option<String>> {
            let Some(mut frames) = self.frames(settled)? else {
                return Ok(Some(format!(
                    "{} is gone: what was only there is lost",
                    path.display()
                )));
            };
            while frames.next()?.is_some() {}
            let (file, place) = (path.display(), frames.place());
            Ok(frames.damage()?.map(|damage| match damage {
                Damage::InBetween => {
                    format!("{file} is damaged at byte {place}: what was written after it is lost")
                }
                Damage::AtTheEnd => format!(
                    "{file} ends at byte {place} in something that is not whole: it was being written \
                     when its process ended, or it is damaged"
                ),
            }))
        };
        look().unwrap_or_else(|error| Some(format!("{} cannot be read: {error}", path.display())))
    }
}

pub struct LeftBehind {
    pub slot: i64,
    pub damage: Option<String>,
    _guard: Guard,
}

fn damaged(path: &Path, place: u64) -> StoreError {
    let detail = format!("it is damaged at byte {place}");
    StoreError::Damaged { file: path.display().to_string(), detail }
}

/// The entries of a frame; None in the place of one that cannot be read, which is the last.
fn entries(content: &[u8]) -> impl Iterator<Item = Option<(Entry<'_>, Note)>> {
    let mut rest = Some(content);
    std::iter::from_fn(move || {
        let mut from = rest.take().filter(|rest| !rest.is_empty())?;
        let entry = Entry::read(&mut from)
            .and_then(|entry| Some((serde_json::from_slice(entry.note).ok()?, entry)))
            .map(|(note, entry)| (entry, note));
        rest = entry.is_some().then_some(from);
        Some(entry)
    })
}

/// Writes appends into the log, and into the lists what has changed by all of them together.
pub fn apply<'a>(
    transaction: &Transaction<'_>,
    entries: impl IntoIterator<Item = (Entry<'a>, Note)>,
) -> Result<(), rusqlite::Error> {
    // Only the last word about a session counts, but for who made it, and for its tasks.
    let (mut last, mut places) = (Vec::<(Entry<'_>, Note)>::new(), HashMap::new());
    for (entry, mut note) in entries {
        log(transaction, &entry)?;
        for marked in std::mem::take(&mut note.tasks) {
            tasks::mark(transaction, entry.row, &marked.into())?;
        }
        let place = *places.entry(entry.row).or_insert(last.len());
        match last.get_mut(place) {
            Some((kept, earlier)) => {
                note.begun = note.begun.or(earlier.begun.take());
                (*kept, *earlier) = (entry, note);
            }
            None => last.push((entry, note)),
        }
    }
    last.iter().try_for_each(|(entry, note)| list(transaction, entry, note))
}

fn log(transaction: &Transaction<'_>, entry: &Entry<'_>) -> Result<(), rusqlite::Error> {
    if entry.body.is_empty() {
        return Ok(());
    }
    let inserted = transaction
        .prepare_cached("INSERT INTO events (session, seq, body, sum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![entry.row, entry.first, entry.body, entry.sums]);
    unless_taken(inserted, entry)
}

/// What is there stays. It cannot be there: only its owner writes a session. But a journal that cannot be settled
/// would keep everybody else's appends out of the tables, too.
fn unless_taken(
    inserted: Result<usize, rusqlite::Error>,
    entry: &Entry<'_>,
) -> Result<(), rusqlite::Error> {
    match inserted {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            let (row, first) = (entry.row, entry.first);
            tracing::error!(row, first, %error, "a journal holds what the log has from elsewhere");
            Ok(())
        }
        other => other.map(drop),
    }
}

fn list(
    transaction: &Transaction<'_>,
    entry: &Entry<'_>,
    note: &Note,
) -> Result<(), rusqlite::Error> {
    let Note { id, epoch, begun, head, updated, .. } = note;
    let owner = begun.as_ref().and_then(|owner| serde_json::to_string(owner).ok());
    // The row is there but for a session that begins with this; and for one whose owner was recorded, as
    // that is, without a sync, before the power went.
    let listed = transaction
        .prepare_cached(
            "INSERT INTO sessions (row, id, epoch, owner, head, sum, updated, summary)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (row) DO UPDATE SET epoch = max(epoch, excluded.epoch), head = excluded.head,
                 sum = excluded.sum, updated = excluded.updated, summary = excluded.summary",
        )?
        .execute(params![
            entry.row,
            id.as_str(),
            epoch,
            owner,
            head,
            entry.sum.as_slice(),
            updated,
            entry.summary
        ]);
    unless_taken(listed, entry)
}
