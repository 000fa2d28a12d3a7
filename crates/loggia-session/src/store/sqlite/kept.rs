//! Documents that every new session asks for and that hardly ever change, kept in memory and still
//! true when another process changes them.
//!
//! A mark in the lock file says which state of them is the current one. Whoever changes one says so
//! before the commit, and makes a new mark after it; a mark is never used twice. What was read under
//! a mark that still stands is what the database holds. A process that dies in between leaves
//! *changing* behind: then everybody reads the database until the next change is done.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use uuid::Uuid;

use super::lease::{Locks, region};
use super::writer::Job;
use crate::batch::RULES;
use crate::ports::{Document, StoreError};

/// The byte that is locked from *changing* to the new mark; far behind those of sessions.
const CHANGING: i64 = i64::MAX;
/// Lists that are kept; they are read again when there are more.
const LISTS: usize = 256;

pub fn is_kept(collection: &str) -> bool {
    collection == RULES
}

pub fn changes_kept(job: &Job) -> bool {
    let kept = |document: &Document| is_kept(&document.collection);
    match job {
        Job::Append { job, .. } => job.documents.iter().any(kept),
        Job::Put { document, .. } | Job::Replace { document, .. } => kept(document),
        Job::Acquire { .. } | Job::Delete { .. } | Job::Prepare => false,
    }
}

/// A state of all kept documents, across processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(Uuid);

/// The first byte of the lock file, followed by the mark. An empty file is the first mark.
const SETTLED: u8 = 0;
const IN_CHANGE: u8 = 1;
const LENGTH: usize = 17;

impl Mark {
    /// The one that stands, or None while somebody changes a document.
    pub fn now(locks: &Locks) -> Option<Self> {
        let mut bytes = [0; LENGTH];
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match locks.file().read_at(rest, read as u64).ok()? {
                0 => break,
                count => read += count,
            }
        }
        let [state, mark @ ..] = bytes;
        (state == SETTLED).then_some(Self(Uuid::from_bytes(mark)))
    }

    fn write(locks: &Locks, state: u8) -> std::io::Result<()> {
        let mut bytes = [state; LENGTH];
        let [_, mark @ ..] = &mut bytes;
        *mark = Uuid::now_v7().into_bytes();
        locks.file().write_all_at(&bytes, 0)
    }
}

/// Kept documents are being changed; over, with a new mark, when it is dropped.
pub struct Changing<'a> {
    locks: &'a Locks,
}

impl<'a> Changing<'a> {
    /// Waits for another process that does the same.
    pub fn begin(locks: &'a Locks) -> Result<Self, StoreError> {
        let wait = FcntlArg::F_OFD_SETLKW(&region(libc::F_WRLCK, CHANGING));
        fcntl(locks.file(), wait).map_err(|error| locks.explain(&error.into()))?;
        let changing = Self { locks };
        Mark::write(locks, IN_CHANGE).map_err(|error| locks.explain(&error))?;
        Ok(changing)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // Not written: *changing* stays, and everybody reads the database.
        let _ = Mark::write(self.locks, SETTLED);
        let _ = fcntl(self.locks.file(), FcntlArg::F_OFD_SETLK(&region(libc::F_UNLCK, CHANGING)));
    }
}

type List = Vec<(String, String)>;

/// What was read, each with the mark under which it was.
#[derive(Default)]
pub struct Kept {
    /// A lock, not a task: held for one look-up.
    lists: Mutex<HashMap<(String, String), (Mark, List)>>,
}

impl Kept {
    pub fn get(&self, mark: Mark, collection: &str, prefix: &str) -> Option<List> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_under, list) = lists.get(&(collection.to_owned(), prefix.to_owned()))?;
        (*read_under == mark).then(|| list.clone())
    }

    /// For a list that was read while `mark` stood, from before the read until after it.
    pub fn keep(&self, mark: Mark, collection: String, prefix: String, list: List) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.len() >= LISTS {
            lists.clear();
        }
        lists.insert((collection, prefix), (mark, list));
    }
}
