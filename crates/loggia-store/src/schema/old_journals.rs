//! Journals of format 5: files beside the database that held appends before these were in the tables. They are read
//! once, when such a database is migrated; nothing writes journals.
//!
//! Each process had one journal, `loggia.journal-N`. It is a sequence of *blocks*. A block is a header (magic, generation,
//! its own offset, the length of its content, a CRC-32 over all of it) and then the appends of one write. The table
//! `journals` names the current generation of each journal and the offset up to which the tables have it. A block is
//! valid if it has that generation, stands at its own offset, and its CRC fits. A killed process may leave an
//! incomplete last block, which it had acknowledged to no client.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use loggia_core::{Millis, SessionId, TaskId, TaskState};
use loggia_session::{Owner, StoreError, TaskMark};
use memchr::memmem;
use rusqlite::{ErrorCode, Transaction, params};
use serde::Deserialize;

use crate::checksum::Sum;
use crate::files::{describe, io};
use crate::tasks;

const NAME: &str = "loggia.journal-";
const MAGIC: [u8; 8] = *b"loggia\x01\n";
type Generation = [u8; 16];
/// Magic, generation, offset, length, CRC-32.
const HEADER: usize = 8 + size_of::<Generation>() + 8 + 8 + 4;
/// The part of a header that is known before it is read.
const KNOWN: usize = 8 + size_of::<Generation>() + 8;
/// Bytes in which the known part may differ and still be taken for a damaged block. The header of another
/// generation differs in most of them.
const MISTAKEN: usize = 4;

/// Applies all journals to the tables. Returns sentences about what is lost. A damaged journal is also kept as
/// `loggia.journal-N-damaged`; one that cannot be read fails the migration.
pub fn apply(transaction: &Transaction<'_>, database: &Path) -> Result<Vec<String>, StoreError> {
    let explain = |error| describe(error, database);
    let (mut findings, mut files) = (Vec::new(), Vec::new());
    for (slot, generation, offset) in journals(transaction).map_err(explain)? {
        let path = database.with_file_name(format!("{NAME}{slot}"));
        match std::fs::read(&path) {
            Ok(bytes) => files.push((path, bytes, generation, offset)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                findings.push(format!("{} is missing: its last appends are lost", path.display()));
            }
            Err(error) => return Err(io(&path, &error)),
        }
    }
    let mut appends = Vec::new();
    for (path, bytes, generation, offset) in &files {
        let mut journal = Journal { bytes, generation: *generation, offset: *offset };
        if let Some(damage) = journal.read(&mut appends) {
            set_aside(path).map_err(|error| io(path, &error))?;
            findings.push(format!("{} {damage}", path.display()));
        }
    }
    // A session may have moved from one process to another, and back.
    appends.sort_by_key(|append: &OldAppend<'_>| append.first);
    for append in appends {
        let (session, first) = (append.note.id.clone(), append.first);
        match append.apply(transaction) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                let file = database.display();
                findings
                    .push(format!("{file} has event {first} of session {session} twice: {error}"));
            }
            other => other.map_err(explain)?,
        }
    }
    Ok(findings)
}

fn journals(
    transaction: &Transaction<'_>,
) -> Result<Vec<(i64, Generation, usize)>, rusqlite::Error> {
    let mut statement =
        transaction.prepare("SELECT slot, generation, place FROM journals ORDER BY slot")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// Removes journals whose content is in the tables.
pub fn remove(database: &Path) {
    let Some(files) = database.parent().and_then(|directory| directory.read_dir().ok()) else {
        return;
    };
    for file in files.flatten() {
        let name = file.file_name();
        let slot = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if slot.is_some_and(|slot| slot.parse::<u64>().is_ok()) {
            // A journal that stays is not read again, and removed at the next opening.
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// Gives the file a second name, under which it stays when the journals are removed.
fn set_aside(path: &Path) -> std::io::Result<()> {
    let mut aside = path.to_owned().into_os_string();
    aside.push("-damaged");
    let aside = PathBuf::from(aside);
    match std::fs::hard_link(path, &aside) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        // A file system without links.
        Err(_) => std::fs::copy(path, &aside).map(drop),
        Ok(()) => Ok(()),
    }
}

struct Journal<'a> {
    bytes: &'a [u8],
    generation: Generation,
    offset: usize,
}

impl<'a> Journal<'a> {
    /// Reads the valid blocks in order. Returns what is wrong with the rest, if anything is.
    fn read(&mut self, appends: &mut Vec<OldAppend<'a>>) -> Option<String> {
        while let Some(content) = self.block(self.offset) {
            let Some(read) = OldAppend::read_all(content) else {
                let (offset, rest) = (self.offset, "it and what was written after it are lost");
                return Some(format!("has an unreadable block at byte {offset}: {rest}"));
            };
            appends.extend(read);
            self.offset += HEADER + content.len();
        }
        self.damage()
    }

    /// The content of the block at an offset, if a valid one is there.
    fn block(&self, offset: usize) -> Option<&'a [u8]> {
        let (header, rest) = self.bytes.get(offset..)?.split_first_chunk::<HEADER>()?;
        let length = header.strip_prefix(self.known(offset).as_slice())?.first_chunk()?;
        let content = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let (summed, expected) = header.split_last_chunk::<4>()?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(summed);
        sum.update(&[0; 4]);
        sum.update(content);
        (sum.finalize() == u32::from_le_bytes(*expected)).then_some(content)
    }

    /// How the header of a block at this offset begins.
    fn known(&self, offset: usize) -> [u8; KNOWN] {
        let mut known = [0; KNOWN];
        let offset = (offset as u64).to_le_bytes();
        let parts = MAGIC.iter().chain(&self.generation).chain(&offset);
        known.iter_mut().zip(parts).for_each(|(byte, part)| *byte = *part);
        known
    }

    /// What is at the current offset, where no valid block is, if that is not simply the end.
    fn damage(&self) -> Option<String> {
        let (rest, offset) = (self.bytes.get(self.offset..)?, self.offset);
        let wanted = [&MAGIC[..], &self.generation].concat();
        let mut later = memmem::find_iter(rest, &wanted).filter(|distance| *distance > 0);
        if later.any(|distance| self.block(offset + distance).is_some()) {
            return Some(format!("is damaged at byte {offset}: what was written after it is lost"));
        }
        let known = self.known(offset);
        let found = rest.get(..KNOWN)?;
        let differing = found.iter().zip(&known).filter(|(found, known)| found != known).count();
        (differing <= MISTAKEN).then(|| {
            let reason = "its process ended while writing it, or it is damaged";
            format!("ends at byte {offset} with an incomplete block: {reason}")
        })
    }
}

/// One append in a block.
struct OldAppend<'a> {
    row: i64,
    /// The number of the first record.
    first: u64,
    /// The checksum of the session's last record.
    sum: Sum,
    note: Note,
    summary: &'a str,
    body: &'a [u8],
    sums: &'a [u8],
}

/// How an append left its session.
#[derive(Deserialize)]
struct Note {
    id: SessionId,
    epoch: u64,
    /// The owner that created the session with this append.
    #[serde(default)]
    begun: Option<Owner>,
    head: u64,
    updated: i64,
    #[serde(default)]
    tasks: Vec<OldTaskMark>,
}

#[derive(Deserialize)]
pub struct OldTaskMark {
    task: TaskId,
    state: TaskState,
    updated: i64,
    #[serde(default)]
    principal: Option<String>,
}

impl From<OldTaskMark> for TaskMark {
    fn from(mark: OldTaskMark) -> Self {
        let OldTaskMark { task, state, updated, principal } = mark;
        Self { task, state, updated: Millis(updated), principal }
    }
}

impl<'a> OldAppend<'a> {
    fn read_all(content: &'a [u8]) -> Option<Vec<Self>> {
        let (mut rest, mut appends) = (content, Vec::new());
        while !rest.is_empty() {
            appends.push(Self::read(&mut rest)?);
        }
        Some(appends)
    }

    fn read(from: &mut &'a [u8]) -> Option<Self> {
        let (row, first) = (i64::from_le_bytes(*array(from)?), u64::from_le_bytes(*array(from)?));
        let sum = *array(from)?;
        let note = serde_json::from_slice(part(from)?).ok()?;
        let summary = std::str::from_utf8(part(from)?).ok()?;
        Some(Self { row, first, sum, note, summary, body: part(from)?, sums: part(from)? })
    }

    fn apply(self, transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
        let Self { row, first, sum, note, summary, body, sums } = self;
        if !body.is_empty() {
            transaction
                .prepare_cached(
                    "INSERT INTO events (session, seq, body, sum) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![row, first, body, sums])?;
        }
        let owner = note.begun.as_ref().and_then(|owner| serde_json::to_string(owner).ok());
        let (id, sum) = (note.id.as_str(), sum.as_slice());
        transaction
            .prepare_cached(
                "INSERT INTO sessions (row, id, epoch, owner, head, sum, updated, summary)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (row) DO UPDATE SET epoch = max(epoch, excluded.epoch),
                     head = excluded.head, sum = excluded.sum, updated = excluded.updated,
                     summary = excluded.summary
                 WHERE excluded.head >= head",
            )?
            .execute(params![row, id, note.epoch, owner, note.head, sum, note.updated, summary])?;
        note.tasks.into_iter().try_for_each(|mark| tasks::mark(transaction, row, &mark.into()))
    }
}

fn array<'a, const N: usize>(from: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (array, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(array)
}

fn part<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(u64::from_le_bytes(*array(from)?)).ok()?;
    let (part, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(part)
}

#[cfg(test)]
#[path = "old_journals_tests.rs"]
mod tests;
