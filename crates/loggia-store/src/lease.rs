//! One owner per session, across processes: a byte-range lock on one file, one byte for each session row.
//!
//! The kernel releases the lock when its process ends, however it ends, so a lease needs no timeout and no
//! heartbeat. These are open-file-description locks, because classic POSIX locks vanish when the process
//! closes any other descriptor of the file.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use loggia_session::{Owner, StoreError};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::files::io;

/// The byte that says "this database is open"; session rows have the bytes from 1 on.
const PRESENCE: i64 = 0;

/// The epoch of the owner that creates a session.
pub const FIRST_EPOCH: u64 = 1;

/// The store's part of a lease. The session is locked as long as this exists.
pub struct LeaseState {
    /// The owner of a new session, which its first append inserts. None for a session that has a row.
    creates: Option<Owner>,
    /// None until a new session has a row. A lock, not a task: held for one assignment.
    guard: Mutex<Option<Guard>>,
}

impl LeaseState {
    pub fn new(owner: Owner) -> Self {
        Self { creates: Some(owner), guard: Mutex::default() }
    }

    pub fn existing(guard: Guard) -> Self {
        Self { creates: None, guard: Mutex::new(Some(guard)) }
    }

    pub fn creates(&self) -> Option<&Owner> {
        self.creates.as_ref()
    }

    /// Keeps the lock of a session that was just inserted.
    pub fn keep(&self, guard: Guard) {
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    }
}

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

/// The lock of one session row, released on drop.
pub struct Guard {
    shared: Arc<Shared>,
    row: i64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Unlocking fails only for a bad descriptor, and `file` is open.
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

    /// True if no other process has this database open. Other processes then cannot open it until `share`.
    pub fn lock_exclusively(&self) -> Result<bool, StoreError> {
        self.locked(change(&self.shared.file, libc::F_WRLCK, PRESENCE))
    }

    /// Marks the database as open in this process, beside others. Waits for a process with an exclusive lock.
    pub fn share(&self) -> Result<(), StoreError> {
        let wait = FcntlArg::F_OFD_SETLKW(&region(libc::F_RDLCK, PRESENCE));
        self.locked(fcntl(&self.shared.file, wait).map(drop)).map(drop)
    }

    /// The lock of one session row, or None while another lease holds it.
    pub fn take(&self, row: i64) -> Result<Option<Guard>, StoreError> {
        let mut held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(&row) || !self.locked(change(&self.shared.file, libc::F_WRLCK, row))? {
            return Ok(None);
        }
        held.insert(row);
        Ok(Some(Guard { shared: self.shared.clone(), row }))
    }

    fn locked(&self, outcome: Result<(), Errno>) -> Result<bool, StoreError> {
        match outcome {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(error) => Err(io(&self.path, &error.into())),
        }
    }
}

fn change(file: &File, kind: i32, offset: i64) -> Result<(), Errno> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&region(kind, offset))).map(drop)
}

fn region(kind: i32, offset: i64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: 0, // from the start of the file
        l_start: offset,
        l_len: 1,
        l_pid: 0,
    }
}
