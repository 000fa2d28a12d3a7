//! The embedded store: one SQLite database, one writer thread, a few read connections.
//!
//! It implements the port [`loggia_session::Store`]. The writer thread commits the appends of all sessions in
//! groups ([`writer`]). Events, session rows, task rows and documents change in the same transaction, so a
//! reader never sees one without the others. A group that holds a decision is synced before it is
//! acknowledged and survives power loss; a group of stream events survives the process. Records are chained by
//! checksums, and every read verifies its result ([`chain`]).
//!
//! This crate contains no decisions about a session, no actors and no protocols. Another database is another
//! crate that implements the same port and passes the same contract tests.

mod append;
mod chain;
mod checksum;
mod files;
mod jobs;
mod lease;
mod read;
mod schema;
mod tasks;
mod wal;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use loggia_core::{Envelope, Seq, SessionId, TaskId};
use loggia_session::{
    Append, Document, Lease, Listing, Owner, Store, StoreError, TaskPage, TaskQuery,
};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, oneshot};

use append::AppendJob;
use lease::{LeaseState, Locks};
use read::{READS, ReadLimit, Readers};
use writer::{Job, Writer};

pub struct SqliteStore {
    shared: Arc<Shared>,
    /// Limits concurrent reads. A waiting read costs less than another thread and connection.
    reads: Arc<Semaphore>,
    writer: Writer,
    /// Damage found while opening, in sentences.
    findings: Vec<String>,
}

struct Shared {
    path: PathBuf,
    readers: Readers,
    /// A copy of the damaged files exists already.
    copied: AtomicBool,
    /// Keeps the database marked as open: a cancelled read may end after the store is dropped.
    _presence: Locks,
}

impl Shared {
    /// Copies the files when a read finds damage for the first time.
    fn copy_if_damaged<T>(&self, result: &Result<T, StoreError>) {
        if let Err(StoreError::Corrupt { .. } | StoreError::Damaged { .. }) = result
            && !self.copied.swap(true, Ordering::Relaxed)
        {
            files::keep_copy(&self.path);
        }
    }
}

impl SqliteStore {
    /// Opens or creates `loggia.db` in a directory that only its owner may enter.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        files::make_private(directory)?;
        let path = directory.join(files::DATABASE);
        let locks = Locks::open(&directory.join("loggia.lock"))?;
        let mut findings = Vec::new();
        // Another process may check or migrate the database right now: then wait for it.
        let exclusive = locks.lock_exclusively()? || {
            locks.share()?;
            locks.lock_exclusively()?
        };
        let open = || files::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let connection = if exclusive {
            // Only now the write-ahead log stands still. It is checked before SQLite opens it, because SQLite
            // silently ends it at the first damaged frame.
            if let Some(damage) = wal::examine(&path) {
                let copy = files::keep_copy(&path);
                findings.push(format!("{damage}{}", files::copy_sentence(copy.as_deref())));
            }
            files::create_private(&path)?;
            let mut connection = open()?;
            findings.extend(schema::migrate(&mut connection, &path)?);
            locks.share()?;
            connection
        } else {
            let connection = open()?;
            schema::require_current(&connection, &path)?;
            connection
        };
        let shared = Arc::new(Shared {
            readers: Readers::new(path.clone()),
            copied: AtomicBool::new(false),
            _presence: locks.clone(),
            path: path.clone(),
        });
        let writer = Writer::start(connection, path, locks)?;
        Ok(Self { shared, reads: Arc::new(Semaphore::new(READS)), writer, findings })
    }

    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    async fn read_with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        let permit = self.reads.clone().acquire_owned().await;
        let permit = permit.map_err(|error| StoreError::Io(error.to_string()))?;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit; // held until the read ends, also if its caller was cancelled
            let result = shared.readers.with(|connection| work(connection, &shared.path));
            shared.copy_if_damaged(&result);
            result
        });
        done.await.map_err(|error| StoreError::Io(error.to_string()))?
    }

    async fn write<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.writer.send(job(reply)).await?;
        answer.await.map_err(|_| writer::stopped())?
    }
}

impl Store for SqliteStore {
    fn acquire(
        &self,
        session: &SessionId,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let session = session.clone();
        Box::pin(async move { self.write(|reply| Job::Acquire { session, owner, reply }).await })
    }

    /// Writes nothing: no other process can know the new id. The first append inserts the session and locks it.
    fn begin(&self, owner: Owner) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let session = SessionId::from(uuid::Uuid::now_v7());
        let lease = Lease::new(session, lease::FIRST_EPOCH, Arc::new(LeaseState::new(owner)));
        Box::pin(std::future::ready(Ok(lease)))
    }

    fn append(&self, lease: &Lease, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        let job = AppendJob::encode(lease, append);
        Box::pin(async move {
            let job = Box::new(job?);
            self.write(|reply| Job::Append { job, reply }).await
        })
    }

    fn read(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        let session = session.clone();
        Box::pin(self.read_with(move |connection, path| {
            read::events(connection, path, &session, after, ReadLimit::Events(limit))
        }))
    }

    fn read_chunk(
        &self,
        session: &SessionId,
        after: Seq,
    ) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        let session = session.clone();
        Box::pin(self.read_with(move |connection, path| {
            read::events(connection, path, &session, after, ReadLimit::Piece)
        }))
    }

    fn head(&self, session: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>> {
        let session = session.clone();
        Box::pin(self.read_with(move |connection, path| read::head(connection, path, &session)))
    }

    fn locate(&self, task: &TaskId) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        let task = task.clone();
        Box::pin(self.read_with(move |connection, path| read::locate(connection, path, &task)))
    }

    fn tasks(&self, query: TaskQuery) -> BoxFuture<'_, Result<TaskPage, StoreError>> {
        Box::pin(self.read_with(move |connection, path| tasks::page(connection, path, &query)))
    }

    fn list_readable(&self, limit: usize) -> BoxFuture<'_, Result<Listing, StoreError>> {
        Box::pin(async move {
            let found =
                self.read_with(move |connection, path| read::list(connection, path, limit)).await?;
            if let Some(damage) = &found.damage {
                self.shared.copy_if_damaged(&Err::<(), _>(damage.clone()));
            }
            Ok(found)
        })
    }

    fn delete(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.write(|reply| Job::Delete { lease, reply }).await })
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
        Box::pin(self.read_with(move |connection, path| {
            read::documents(connection, path, &collection, &prefix)
        }))
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

    fn location(&self) -> String {
        self.shared.path.display().to_string()
    }

    fn findings(&self) -> &[String] {
        &self.findings
    }

    /// SQLite's own check of the whole file, indexes included.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.read_with(|connection, path| {
            let verdict: String = connection
                .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
                .map_err(|error| files::describe(error, path))?;
            match verdict.as_str() {
                "ok" => Ok(()),
                _ => Err(StoreError::Damaged { file: path.display().to_string(), detail: verdict }),
            }
        }))
    }
}
