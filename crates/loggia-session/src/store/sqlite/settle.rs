//! From the journals to the tables.
//!
//! Where each journal was read up to is in the database, changed in the transaction that also writes what
//! was read. So it does not matter who settles, its owner, another process or the next one after a crash,
//! and nothing can be taken twice or left out. It is done when a journal is long, before a session is acquired
//! or deleted, when somebody reads what may be behind, and when the store is closed.
//!
//! A slot is a journal's number and, far behind those of sessions, a byte of the lock file, which says whether
//! its process lives.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::apply::apply;
use super::entry::{Entry, Note};
use super::io;
use super::journal::{self, Damage, Generation, Journal, Sheets};
use super::lease::{Guard, Locks};
use crate::ports::StoreError;

/// The byte of slot 0; that of slot 1 is before it. The last one is [`super::kept`]'s.
const SLOTS: i64 = i64::MAX - 1;
/// Processes that have one database open and write.
const MOST: i64 = 1024;

/// Bytes of a journal that are in memory while it is settled, and the rest of a sheet.
const AT_A_TIME: u64 = 1024 * 1024;

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
    pub generation: Generation,
    pub end: u64,
}

impl Own {
    fn is(&self, settled: &Settled) -> bool {
        (self.slot, self.generation) == (settled.slot, settled.generation)
    }
}

/// The journals of one database.
pub struct Journals {
    directory: PathBuf,
}

/// What became of it.
#[derive(Default)]
pub struct Settling {
    /// There may be more than was asked for.
    pub more: bool,
    /// Up to where the tables have the own journal.
    pub own: Option<u64>,
    /// Journals of others that could not be read, each with the reason.
    unreadable: Vec<(i64, StoreError)>,
}

impl Settling {
    /// For somebody who must not go on without what one of them may hold.
    pub fn of_all(self) -> Result<(), StoreError> {
        self.unreadable.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The same for one of them.
    pub fn of_slot(&self, slot: i64) -> Result<(), StoreError> {
        let found = self.unreadable.iter().find(|(unreadable, _)| *unreadable == slot);
        found.map_or(Ok(()), |(_, error)| Err(error.clone()))
    }
}

type Outcome<T> = Result<Result<T, StoreError>, rusqlite::Error>;

impl Journals {
    pub fn beside(database: &Path) -> Self {
        Self { directory: database.parent().unwrap_or(Path::new("")).to_owned() }
    }

    pub fn path(&self, slot: i64) -> PathBuf {
        journal::path(&self.directory, slot)
    }

    /// Takes a slot that no process has and that none left anything in, and opens its journal.
    pub fn take_slot(
        &self,
        transaction: &Transaction<'_>,
        locks: &Locks,
        generation: Generation,
    ) -> Outcome<(i64, Guard, Journal)> {
        let taken: Vec<i64> = settled(transaction)?.iter().map(|settled| settled.slot).collect();
        let mut refused = None;
        for slot in (1..=MOST).filter(|slot| !taken.contains(slot)) {
            let guard = match locks.take(SLOTS - slot) {
                Ok(Some(guard)) => guard,
                Ok(None) => continue,
                Err(error) => return Ok(Err(error)),
            };
            let path = self.path(slot);
            match Journal::open(&path, generation) {
                Ok(journal) => return Ok(Ok((slot, guard, journal))),
                // Somebody else's, who is gone without a row.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    refused.get_or_insert(io(&path, &error));
                }
                Err(error) => return Ok(Err(io(&path, &error))),
            }
        }
        let many = || StoreError::Io(format!("{MOST} processes write to this database already"));
        Ok(Err(refused.unwrap_or_else(many)))
    }

    /// Whether the tables are behind. What is asked for must be looked up later than this, not before: what
    /// is in a journal no more is in the tables by then.
    pub fn exist(&self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let more = |Settled { slot, generation, place }: &Settled| {
            journal::begins(&self.path(*slot), generation, *place)
        };
        // What cannot be read is for whoever settles to say.
        Ok(settled(connection)?.iter().any(|settled| more(settled).unwrap_or(true)))
    }

    fn sheets(&self, settled: &Settled) -> std::io::Result<Option<Sheets>> {
        Sheets::open(&self.path(settled.slot), settled.generation, settled.place)
    }

    /// Brings the tables up to date, or by about so many bytes of each journal closer to it: then there may be
    /// more. A journal of others that cannot be read keeps nobody from the rest.
    pub fn settle(
        &self,
        transaction: &Transaction<'_>,
        own: Option<Own>,
        most: Option<u64>,
    ) -> Outcome<Settling> {
        let mut settling = Settling::default();
        for settled in settled(transaction)? {
            let until = settled.place.saturating_add(most.unwrap_or(u64::MAX));
            let own = own.filter(|own| own.is(&settled));
            // What is behind the end of the own one is being written.
            let until = own.map_or(until, |own| own.end.min(until));
            let path = self.path(settled.slot);
            let place = match (self.settle_one(transaction, &settled, own.is_none(), until)?, own) {
                (Ok(place), Some(own)) if place < own.end.min(until) => {
                    return Ok(Err(damaged(&path, place)));
                }
                (Ok(place), _) => place,
                (Err(error), Some(_)) => return Ok(Err(io(&path, &error))),
                (Err(error), None) => {
                    tracing::warn!("{} cannot be read: {error}", path.display());
                    settling.unreadable.push((settled.slot, io(&path, &error)));
                    continue;
                }
            };
            settling.more |= place >= until && own.is_none_or(|own| place < own.end);
            settling.own = settling.own.or(own.map(|_| place));
        }
        Ok(Ok(settling))
    }

    /// How far it is in the tables then.
    fn settle_one(
        &self,
        transaction: &Transaction<'_>,
        settled: &Settled,
        foreign: bool,
        until: u64,
    ) -> Result<std::io::Result<u64>, rusqlite::Error> {
        let mut sheets = match self.sheets(settled) {
            Ok(Some(sheets)) => sheets,
            Ok(None) => return Ok(Ok(settled.place)),
            Err(error) => return Ok(Err(error)),
        };
        let mut place = settled.place;
        // As much as is in memory at a time.
        while place < until {
            let contents = match contents(&mut sheets, foreign, until.min(place + AT_A_TIME)) {
                Ok(read) => read,
                Err(error) => return Ok(Err(error)),
            };
            let (mut appends, before) = (Vec::new(), place);
            for (content, end) in &contents {
                let Some(entries) = entries(content) else { break };
                appends.extend(entries);
                place = *end;
            }
            if place == before {
                break;
            }
            apply(transaction, appends)?;
            transaction
                .prepare_cached("UPDATE journals SET place = ?2 WHERE slot = ?1")?
                .execute(params![settled.slot, place])?;
            if place < sheets.place() {
                break; // something else than appends follows
            }
        }
        Ok(Ok(place))
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
        for slot in settled(connection).map_err(explain)?.into_iter().map(|settled| settled.slot) {
            let Some(guard) = locks.take(SLOTS - slot)? else { continue };
            // Once more, now that it is locked: another process may have had it in between.
            let rows = settled(connection).map_err(explain)?;
            if let Some(settled) = rows.iter().find(|settled| settled.slot == slot) {
                let (is_readable, damage) = match self.damage(settled) {
                    Ok(damage) => (true, damage),
                    Err(error) => {
                        let file = self.path(slot);
                        (false, Some(format!("{} cannot be read: {error}", file.display())))
                    }
                };
                left.push(LeftBehind { slot, damage, is_readable, _guard: guard });
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
        let mut take_over = || -> Outcome<Vec<&LeftBehind>> {
            connection.pragma_update(None, "synchronous", "FULL")?; // before the files go
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let settling = match self.settle(&transaction, None, None)? {
                Ok(settling) => settling,
                Err(error) => return Ok(Err(error)),
            };
            let is_done =
                |left: &&LeftBehind| left.is_readable && settling.of_slot(left.slot).is_ok();
            let done: Vec<_> = left.iter().filter(is_done).collect();
            for left in &done {
                self.end(&transaction, left.slot)?;
            }
            transaction.commit()?;
            Ok(Ok(done))
        };
        for left in take_over().map_err(explain)?? {
            let path = self.path(left.slot);
            // What could not be taken over is kept, whatever became of the copy.
            let _ = match left.damage {
                Some(_) => std::fs::rename(&path, journal::aside(&path)),
                None => std::fs::remove_file(&path),
            };
        }
        Ok(())
    }

    /// A sentence about the damage, if something may be lost by it.
    fn damage(&self, settled: &Settled) -> std::io::Result<Option<String>> {
        let path = self.path(settled.slot);
        let Some(mut sheets) = self.sheets(settled)? else {
            return Ok(Some(format!("{} is gone: what was only there is lost", path.display())));
        };
        let (file, mut place) = (path.display(), sheets.place());
        while let Some(content) = sheets.next()? {
            if entries(&content).is_none() {
                let what = format!("{file} holds something else than appends at byte {place}");
                return Ok(Some(format!("{what}: it and what was written after it are lost")));
            }
            place = sheets.place();
        }
        Ok(sheets.damage()?.map(|damage| match damage {
            Damage::InBetween => {
                format!("{file} is damaged at byte {place}: what was written after it is lost")
            }
            Damage::AtTheEnd => format!(
                "{file} ends at byte {place} in something that is not whole: it was being written \
                     when its process ended, or it is damaged"
            ),
        }))
    }
}

pub struct LeftBehind {
    slot: i64,
    pub damage: Option<String>,
    /// Otherwise it stays for somebody who can read it.
    is_readable: bool,
    _guard: Guard,
}

impl LeftBehind {
    pub fn is_damaged(&self) -> bool {
        self.is_readable && self.damage.is_some()
    }
}

fn damaged(path: &Path, place: u64) -> StoreError {
    let detail = format!("it is damaged at byte {place}");
    StoreError::Damaged { file: path.display().to_string(), detail }
}

/// The next sheets, each with where it ends. What others wrote may have been written this very moment: then it is
/// synced before anybody sees it.
fn contents(
    sheets: &mut Sheets,
    foreign: bool,
    until: u64,
) -> std::io::Result<Vec<(Vec<u8>, u64)>> {
    let mut contents = Vec::new();
    while sheets.place() < until
        && let Some(content) = sheets.next()?
    {
        contents.push((content, sheets.place()));
    }
    if foreign && !contents.is_empty() {
        sheets.sync()?;
    }
    Ok(contents)
}

/// The entries of a sheet, if all of them can be read.
fn entries(content: &[u8]) -> Option<Vec<(Entry<'_>, Note)>> {
    let (mut rest, mut entries) = (content, Vec::new());
    while !rest.is_empty() {
        let entry = Entry::read(&mut rest)?;
        let note = serde_json::from_slice(entry.note).ok()?;
        entries.push((entry, note));
    }
    Some(entries)
}
