//! One owner per session, across processes: a byte-range lock on one file, a byte a session.
//!
//! The kernel drops the lock with its process, however that ends, so a lease needs no time-out and
//! no heartbeat. Open-file-description locks, because the classic ones vanish when any other
//! descriptor of the file is closed.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::io;
use crate::ports::StoreError;

/// The byte that says "this database is open"; sessions have the bytes from 1 on.
const PRESENCE: i64 = 0;

#[derive(Clone)]
pub struct Locks {
    shared: Arc<Shared>,
    path: PathBuf,
}

struct Shared {
    file: File,
    /// Locks of one file description do not exclude each other, so this process keeps its own list.
    /// A lock, not a task: held for one insert or remove.
    held: Mutex<HashSet<i64>>,
}

pub struct Guard {
    shared: Arc<Shared>,
    row: i64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Unlocking can only fail for a bad descriptor, which cannot be while `file` lives.
        let _ = change(&self.shared.file, libc::F_UNLCK, self.row);
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.row);
    }
}

impl Locks {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(|error| io(path, &error))?;
        let shared = Arc::new(Shared { file, held: Mutex::default() });
        Ok(Self { shared, path: path.to_owned() })
    }

    /// True when no other process has this database open. Holds everybody else off until `join`.
    pub fn alone(&self) -> Result<bool, StoreError> {
        self.locked(change(&self.shared.file, libc::F_WRLCK, PRESENCE))
    }

    /// Says that this process has the database open, beside others.
    pub fn join(&self) -> Result<(), StoreError> {
        // Another process may be checking right now; it takes milliseconds.
        let wait = FcntlArg::F_OFD_SETLKW(&region(libc::F_RDLCK, PRESENCE));
        self.locked(fcntl(&self.shared.file, wait).map(drop)).map(drop)
    }

    /// The lock of one session, or None while somebody else has it.
    pub fn take(&self, row: i64) -> Result<Option<Guard>, StoreError> {
        let mut held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(&row) || !self.locked(change(&self.shared.file, libc::F_WRLCK, row))? {
            return Ok(None);
        }
        held.insert(row);
        Ok(Some(Guard { shared: self.shared.clone(), row }))
    }

    /// The locks of a whole block at once, or false while another process has one of them.
    fn take_block(&self, first: i64) -> Result<bool, StoreError> {
        let block = libc::flock { l_len: BLOCK, ..region(libc::F_WRLCK, first) };
        self.locked(fcntl(&self.shared.file, FcntlArg::F_OFD_SETLK(&block)).map(drop))
    }

    /// The lock of a session in such a block, from now on its own.
    fn give(&self, row: i64) -> Guard {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner).insert(row);
        Guard { shared: self.shared.clone(), row }
    }

    /// What is written in the file, and locks of no session, are for [`super::kept`].
    pub fn file(&self) -> &File {
        &self.shared.file
    }

    pub fn explain(&self, error: &std::io::Error) -> StoreError {
        io(&self.path, error)
    }

    fn locked(&self, outcome: Result<(), Errno>) -> Result<bool, StoreError> {
        match outcome {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(error) => Err(self.explain(&error.into())),
        }
    }
}

/// Rows of one block, its own included.
const BLOCK: i64 = 256;

/// Rows for sessions that are not in the database yet: later ones are larger, so that what is
/// written together lies together. They are neighbours, because the kernel keeps locks of
/// neighbours as one, and looks through all locks of the file whenever one is taken or given back;
/// and the locks of a block are taken together.
#[derive(Default)]
pub struct FreshRows {
    /// A lock, not a task: held for one system call at most.
    block: Mutex<Option<Block>>,
}

/// The first row is no session's: who holds it may give out the others.
struct Block {
    first: Guard,
    given: i64,
}

impl FreshRows {
    /// A row that nobody has, with its lock.
    pub fn take(&self, locks: &Locks) -> Result<(i64, Guard), StoreError> {
        let mut current = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        let block = match current.as_mut().filter(|block| block.given + 1 < BLOCK) {
            Some(block) => block,
            None => {
                let last = current.as_ref().map_or(0, |block| block.first.row);
                current.insert(Block::take(locks, last)?)
            }
        };
        block.given += 1;
        let row = block.first.row + block.given;
        Ok((row, locks.give(row)))
    }
}

impl Block {
    /// A block begins with the time, so it can only be that of somebody who took one in this very
    /// millisecond and still has it. This process knows its `last` one: its own locks let it pass.
    fn take(locks: &Locks, last: i64) -> Result<Self, StoreError> {
        let mut least = last.saturating_add(BLOCK);
        loop {
            let (time, random) = uuid::Uuid::now_v7().as_u64_pair();
            // 48 bits of time; of the 15 that are left, seven tell processes apart.
            let first = (time >> 16) << 15 | (random & 0x7f) << 8;
            let first = i64::try_from(first & (i64::MAX as u64)).unwrap_or_default();
            let first = first.max(least);
            if locks.take_block(first)? {
                return Ok(Self { first: locks.give(first), given: 0 });
            }
            // A clock that was set back must not come to the same one again and again.
            least = first.saturating_add(BLOCK);
        }
    }
}

fn change(file: &File, kind: i32, offset: i64) -> Result<(), Errno> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&region(kind, offset))).map(drop)
}

pub fn region(kind: i32, offset: i64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: 0, // from the start of the file
        l_start: offset,
        l_len: 1,
        l_pid: 0,
    }
}
