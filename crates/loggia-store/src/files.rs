//! The files of the database: a private directory, connections, copies of damaged files, and SQLite's errors as
//! sentences. No SQL of ours is here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loggia_session::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub const DATABASE: &str = "loggia.db";
pub const WRITE_AHEAD_LOG: &str = "loggia.db-wal";
/// How long a statement waits for another program's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Copies of damaged files that are kept. The first copies matter most.
const KEPT_COPIES: usize = 4;

pub fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    let open = || -> Result<Connection, rusqlite::Error> {
        let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        // Without this, SQLite inspects bound values and prepares some statements again for other values.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    open().map_err(|error| describe(error, path))
}

/// SQLite's error as a sentence that a user can act on.
pub fn describe(error: rusqlite::Error, path: &Path) -> StoreError {
    use rusqlite::ErrorCode;
    let file = path.display().to_string();
    match &error {
        // A value of another type than was written, or tables that are not ours.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::SqlInputError { .. } => {
            return StoreError::Damaged { file, detail: error.to_string() };
        }
        _ => {}
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { file },
        Some(ErrorCode::DiskFull) => StoreError::Full { file },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { file, detail: error.to_string() }
        }
        // SQLite cannot make its own files there, and says no more than that it failed.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if is_full(path) => {
            StoreError::Full { file }
        }
        _ => StoreError::Io(format!("{file}: {error}")),
    }
}

/// Whether the disk has no room for the files that SQLite makes beside a database.
fn is_full(path: &Path) -> bool {
    const NEEDED: u64 = 64 * 1024;
    let directory = path.parent().unwrap_or(path);
    nix::sys::statvfs::statvfs(directory)
        .is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() < NEEDED)
}

pub fn io(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full { file: path.display().to_string() },
        _ => StoreError::Io(format!("{}: {error}", path.display())),
    }
}

pub fn make_private(directory: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(|error| io(directory, &error))
}

/// Creates the database file. An existing file is not even opened: when a process closes any descriptor of a
/// file, it loses all its POSIX locks on that file, those of SQLite's connections too.
pub fn create_private(path: &Path) -> Result<(), StoreError> {
    match create(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(io(path, &error)),
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Copies the damaged files, so that other programs can recover more than Loggia can.
pub fn keep_copy(path: &Path) -> Option<PathBuf> {
    let kept = path.parent()?.join("damaged");
    make_private(&kept).ok()?;
    if std::fs::read_dir(&kept).ok()?.count() >= KEPT_COPIES {
        return None;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let directory = kept.join(now.as_millis().to_string());
    make_private(&directory).ok()?;
    for name in [DATABASE, WRITE_AHEAD_LOG] {
        // A closed database has no write-ahead log.
        let _ = copy(&path.with_file_name(name), &directory.join(name));
    }
    Some(directory)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut source, mut target) = (File::open(from)?, create(to)?);
    let copied = std::io::copy(&mut source, &mut target);
    // Never closed, see `create_private`. This happens a few times in the life of a damaged database.
    std::mem::forget(source);
    copied.map(drop)
}

pub fn copy_sentence(copy: Option<&Path>) -> String {
    copy.map_or(String::new(), |copy| format!("; a copy is kept in {}", copy.display()))
}
