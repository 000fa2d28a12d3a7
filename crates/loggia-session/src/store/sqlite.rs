//! The embedded store: one SQLite file, one writer thread, a few readers.
//!
//! Appends of all sessions meet in the writer thread and are written in groups, to a journal beside the
//! database first ([`journal`]). A group that holds a decision is synced, so that it survives power loss; a
//! group of stream events is not, which survives the process. The tables learn many of them at once, and at
//! the latest before somebody can ask and find them behind ([`settle`]). Records are chained by checksums, and
//! every read verifies what it returns.

mod append;
mod apply;
mod chain;
mod direct;
mod entry;
mod journal;
mod kept;
mod lease;
mod old_notes;
mod pen;
mod read;
mod schema;
mod settle;
mod tables;
mod tasks;
mod wal;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use loggia_core::{Envelope, Seq, SessionId, TaskId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, oneshot};

use crate::index::{TaskPage, TaskQuery};
use crate::ports::{Append, Document, Lease, Listed, Owner, Store, StoreError};
use append::{AppendJob, Held};
use kept::{Kept, Mark};
use lease::{FreshRows, Locks};
use read::{Amount, READS, Readers};
use settle::{Journals, LeftBehind};
use tables::Tables;
use writer::{Job, Places, Writer};

const DATABASE: &str = "loggia.db";
/// How long a statement waits for another program's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Copies of damaged files that are kept; the first ones matter most.
const KEPT_COPIES: usize = 4;

pub struct SqliteStore {
    inner: Arc<Inner>,
    /// Reads at a time. The others wait their turn: a thread and a connection for each would cost
    /// more than the wait.
    reads: Arc<Semaphore>,
    writer: Writer,
    locks: Locks,
    rows: Arc<FreshRows>,
    kept: Kept,
    /// What was wrong with the files when they were opened, in sentences.
    findings: Vec<String>,
}

/// What is answered while nothing can be written, and so nothing learned.
enum Otherwise {
    Fail,
    /// Better an older list than none.
    Older,
}

struct Inner {
    path: PathBuf,
    tables: Arc<Tables>,
    readers: Readers,
    copied: AtomicBool,
    /// A read that nobody waits for any more may end after the store. Until then the database is open.
    _presence: Locks,
}

impl Inner {
    /// The first damage that is met is worth a copy of the files.
    fn keep_if_damaged<T>(&self, result: &Result<T, StoreError>) {
        if let Err(StoreError::Corrupt { .. } | StoreError::Damaged { .. }) = result
            && !self.copied.swap(true, Ordering::Relaxed)
        {
            keep_copy(&self.path);
        }
    }
}

impl SqliteStore {
    /// Opens or creates `loggia.db` in a directory that only its owner may enter.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        make_private(directory)?;
        let path = directory.join(DATABASE);
        let locks = Locks::open(&directory.join("loggia.lock"))?;
        let mut findings = Vec::new();
        // Alone, the write-ahead log stands still and can be checked before SQLite reads it: SQLite
        // itself would silently end the log at the first damaged frame.
        if locks.alone()?
            && let Some(damage) = wal::examine(&path)
        {
            let copy = keep_copy(&path);
            findings.push(format!("{damage}{}", copy_sentence(copy.as_deref())));
        }
        locks.join()?;
        create_private(&path)?;
        let mut connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        findings.extend(schema::migrate(&mut connection, &path)?);
        let journals = Journals::beside(&path);
        let left = journals.left_behind(&connection, &locks)?;
        // One copy of all, and none where there is nothing to copy.
        let copy = left.iter().any(LeftBehind::is_damaged).then(|| keep_copy(&path)).flatten();
        for left in &left {
            let copy = copy.as_deref().filter(|_| left.is_damaged());
            findings.extend(left.damage.as_ref().map(|damage| match copy {
                Some(_) => format!("{damage}{}", copy_sentence(copy)),
                None => damage.clone(),
            }));
        }
        if let Err(error) = journals.take_over(&mut connection, &left) {
            // It stays where it is, and is settled by whoever needs it.
            tracing::warn!("what another process left in its journal: {error}");
        }
        let tables = Arc::new(Tables::new(connection, &path)?);
        let inner = Arc::new(Inner {
            tables: tables.clone(),
            readers: Readers::new(path.clone()),
            copied: AtomicBool::new(false),
            _presence: locks.clone(),
            path,
        });
        let rows = Arc::<FreshRows>::default();
        let places = Places { locks: locks.clone(), rows: rows.clone() };
        let writer = Writer::start(tables, &inner.path, places)?;
        let reads = Arc::new(Semaphore::new(READS));
        Ok(Self { inner, reads, writer, locks, rows, kept: Kept::default(), findings })
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// For a program that will append, and has others waiting for it then: the journal is made now, beside
    /// whatever else happens.
    pub fn prepare(&self) {
        self.writer.prepare();
    }

    /// Damage found while opening, each a sentence for the user.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// SQLite's own check of the whole file; slow on a large one.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.read_with(|connection, path| {
            let verdict: String = connection
                .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
                .map_err(|error| describe(error, path))?;
            match verdict.as_str() {
                "ok" => Ok(()),
                _ => Err(StoreError::Damaged { file: path.display().to_string(), detail: verdict }),
            }
        })
        .await
    }

    async fn read_with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = self.inner.clone();
        let turn = self.reads.clone().acquire_owned().await;
        let turn = turn.map_err(|error| StoreError::Io(error.to_string()))?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn; // until the work is done, also if nobody waits for it any more
            let result = inner.readers.with(|connection| work(connection, &inner.path));
            inner.keep_if_damaged(&result);
            result
        });
        done.await.map_err(|error| StoreError::Io(error.to_string()))?
    }

    /// The same where journals may hold more. If what the tables say is not enough, and they are behind, they
    /// learn, and are asked again.
    async fn read_settled<T: Send + 'static>(
        &self,
        look: impl Fn(&Connection, &Path) -> Result<T, StoreError> + Send + 'static,
        is_enough: impl FnOnce(&Result<T, StoreError>) -> bool + Send + 'static,
        otherwise: Otherwise,
    ) -> Result<T, StoreError> {
        let tables = self.inner.tables.clone();
        let read = self.read_with(move |connection, path| {
            // Before the look: what is written later had not happened when this was asked.
            let behind =
                tables.journals.exist(connection).map_err(|error| describe(error, path))?;
            let found = look(connection, path);
            if !behind || is_enough(&found) {
                return found;
            }
            tables.note_asked();
            match (tables.catch_up(), otherwise) {
                (Ok(()), _) => {
                    tables.copy_if_worth(&mut None); // who only reads has nobody else to do it
                    look(connection, path)
                }
                (Err(StoreError::Full { .. } | StoreError::Locked { .. }), Otherwise::Older) => {
                    found
                }
                (Err(error), _) => Err(error),
            }
        });
        read.await
    }

    /// For a job that the writer does in the tables: what they are behind by is learned before, or everybody else
    /// would wait for it, too.
    async fn write_in_tables<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        if self.inner.tables.are_far_behind() {
            let tables = self.inner.tables.clone();
            let caught_up = self.read_with(move |_, _| {
                tables.note_asked();
                // By somebody else, while this one waited for its turn.
                if tables.are_far_behind() { tables.catch_up() } else { Ok(()) }
            });
            // Whatever goes wrong is met, and said, by the writer again.
            let _ = caught_up.await;
        }
        self.write(job).await
    }

    async fn write<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.writer.send(job(reply)).await?;
        answer.await.map_err(|_| StoreError::Io("the database writer has stopped".into()))?
    }
}

impl Store for SqliteStore {
    fn acquire(
        &self,
        session: &SessionId,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let session = session.clone();
        let job = |reply| Job::Acquire { session, owner, reply };
        Box::pin(async move { self.write_in_tables(job).await })
    }

    /// Needs no way to the writer: the lock alone makes it ours, and the first append the row.
    fn begin(&self, owner: Owner) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let begun = self.rows.take(&self.locks).map(|(row, guard)| {
            let session = SessionId::from(uuid::Uuid::now_v7());
            Lease::new(session, 1, row, Arc::new(Held::begun(guard, owner)))
        });
        Box::pin(std::future::ready(begun))
    }

    fn append(&self, lease: &Lease, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        let job = AppendJob::encode(lease, append);
        Box::pin(async move {
            let job = Box::new(job?);
            match job.journaled().is_some() {
                true => self.write(|reply| Job::Append { job, reply }).await,
                false => Box::pin(self.write_in_tables(|reply| Job::Append { job, reply })).await,
            }
        })
    }

    fn read(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        let session = session.clone();
        let look = move |connection: &Connection, path: &Path| {
            read::events(connection, path, &session, after, Amount::Events(limit))
        };
        // A log only grows: what is there, and as much as was wanted, stays so.
        let is_enough = move |found: &Result<Vec<_>, _>| match found {
            Ok(events) => events.len() >= limit,
            Err(error) => !matches!(error, StoreError::Unknown(_)),
        };
        Box::pin(self.read_settled(look, is_enough, Otherwise::Fail))
    }

    fn read_on(
        &self,
        session: &SessionId,
        after: Seq,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        let session = session.clone();
        let look = move |connection: &Connection, path: &Path| {
            read::events(connection, path, &session, after, Amount::Piece)
        };
        let is_enough = |found: &Result<Vec<_>, _>| match found {
            Ok(events) => !events.is_empty(),
            Err(error) => !matches!(error, StoreError::Unknown(_)),
        };
        Box::pin(self.read_settled(look, is_enough, Otherwise::Fail))
    }

    fn head(&self, session: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>> {
        let session = session.clone();
        let look =
            move |connection: &Connection, path: &Path| read::head(connection, path, &session);
        Box::pin(self.read_settled(look, Result::is_err, Otherwise::Fail))
    }

    fn locate(&self, task: &TaskId) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        let task = task.clone();
        let look =
            move |connection: &Connection, path: &Path| read::locate(connection, path, &task);
        Box::pin(self.read_settled(look, |found| !matches!(found, Ok(None)), Otherwise::Fail))
    }

    fn tasks(&self, query: TaskQuery) -> BoxFuture<'_, Result<TaskPage, StoreError>> {
        let look =
            move |connection: &Connection, path: &Path| tasks::page(connection, path, &query);
        Box::pin(self.read_settled(look, Result::is_err, Otherwise::Fail))
    }

    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<Listed>, StoreError>> {
        let look = move |connection: &Connection, path: &Path| read::list(connection, path, limit);
        Box::pin(self.read_settled(look, Result::is_err, Otherwise::Older))
    }

    fn delete(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.write_in_tables(|reply| Job::Delete { lease, reply }).await })
    }

    fn document(
        &self,
        collection: &str,
        key: &str,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let (collection, key) = (collection.to_owned(), key.to_owned());
        Box::pin(
            self.read_with(move |connection, path| {
                read::document(connection, path, &collection, &key)
            }),
        )
    }

    fn documents(
        &self,
        collection: &str,
        prefix: &str,
    ) -> BoxFuture<'_, Result<Vec<(String, String)>, StoreError>> {
        let (collection, prefix) = (collection.to_owned(), prefix.to_owned());
        let mark = Mark::now(&self.locks).filter(|_| kept::is_kept(&collection));
        if let Some(list) = mark.and_then(|mark| self.kept.get(mark, &collection, &prefix)) {
            return Box::pin(std::future::ready(Ok(list)));
        }
        Box::pin(async move {
            let wanted = (collection.clone(), prefix.clone());
            let read = self.read_with(move |connection, path| {
                read::documents(connection, path, &wanted.0, &wanted.1)
            });
            let list = read.await?;
            if let Some(mark) = mark.filter(|mark| Mark::now(&self.locks) == Some(*mark)) {
                self.kept.keep(mark, collection, prefix, list.clone());
            }
            Ok(list)
        })
    }

    fn put(&self, document: Document) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.write(|reply| Job::Put { document, reply }).await })
    }

    fn replace(
        &self,
        expected: Option<String>,
        document: Document,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(
            async move { self.write(|reply| Job::Replace { expected, document, reply }).await },
        )
    }
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    let open = || -> Result<Connection, rusqlite::Error> {
        let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        // Else it would look at the values of some statements, and prepare these anew for other values.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    open().map_err(|error| describe(error, path))
}

/// SQLite's error as the sentence a user can act on.
fn describe(error: rusqlite::Error, path: &Path) -> StoreError {
    use rusqlite::ErrorCode;
    let file = path.display().to_string();
    match &error {
        // A value of another kind than was written, or tables that are not ours.
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
        _ => StoreError::Io(format!("{file}: {error}")),
    }
}

fn io(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full { file: path.display().to_string() },
        _ => StoreError::Io(format!("{}: {error}", path.display())),
    }
}

fn make_private(directory: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(|error| io(directory, &error))
}

/// Makes the database's file. One that exists is not even opened: a process that closes any
/// descriptor of a file loses all its POSIX locks on it, those of SQLite's connections too.
fn create_private(path: &Path) -> Result<(), StoreError> {
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

/// Puts the files aside as they are, for whoever wants to rescue more than Loggia can.
fn keep_copy(path: &Path) -> Option<PathBuf> {
    let kept = path.parent()?.join("damaged");
    make_private(&kept).ok()?;
    if std::fs::read_dir(&kept).ok()?.count() >= KEPT_COPIES {
        return None;
    }
    let directory = kept.join(crate::actor::now().0.to_string());
    make_private(&directory).ok()?;
    for file in std::fs::read_dir(path.parent()?).ok()?.flatten() {
        let name = file.file_name();
        if name.to_str().is_some_and(is_worth_a_copy) {
            // One that is gone meanwhile needs no copy.
            let _ = copy(&file.path(), &directory.join(&name));
        }
    }
    Some(directory)
}

fn is_worth_a_copy(name: &str) -> bool {
    [DATABASE, "loggia.db-wal"].contains(&name) || name.starts_with(journal::NAME)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut source, mut target) = (File::open(from)?, create(to)?);
    let copied = std::io::copy(&mut source, &mut target);
    // Never closed, see `create_private`. It happens a few times in a damaged database's life.
    std::mem::forget(source);
    copied.map(drop)
}

fn copy_sentence(copy: Option<&Path>) -> String {
    copy.map_or(String::new(), |copy| format!("; a copy is kept in {}", copy.display()))
}
