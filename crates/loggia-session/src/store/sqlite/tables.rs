//! The tables, and the thread that keeps them up to date while the writer goes on with the journal.
//!
//! It settles what was appended, and copies SQLite's own log into the database when that is long. Both take
//! milliseconds, in which every session would wait if the writer did it. It can do neither alone: a journal
//! begins anew when the writer says so, and a log that others write to all the time is never copied to its end.
//!
//! What many sessions append at once costs the tables a quarter of all that it costs. While nobody asks them, they
//! learn when the writer rests, or when it is much.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loggia_core::Durability;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rustix::process::setpriority_process;

use super::pen::LONGEST;
use super::settle::{Journals, Own};
use super::{BUSY_TIMEOUT, connect, describe};
use crate::ports::StoreError;

/// So many frames of SQLite's log, of a page each, are worth a copy.
const WORTH_A_COPY: u64 = 1000;
/// Beyond so many it is copied while nobody of this process writes, so that it can begin anew.
const FULL: u64 = 4000;
/// Bytes of journals that are settled at a time: whoever else needs the tables waits so long.
const PIECE: u64 = 512 * 1024;
/// Bytes that take longer than a few milliseconds.
const FAR: u64 = 1024 * 1024;
/// Bytes that the tables may be behind by while nobody asks them: who asks first waits for as many.
const MUCH: u64 = 32 * 1024 * 1024;
/// Somebody who has asked asks again.
const ASKING: Duration = Duration::from_secs(60);
/// A writer that has written nothing for so long rests.
const REST: Duration = Duration::from_millis(20);

/// Long enough for somebody who was woken to take a lock.
const TURN: Duration = Duration::from_millis(1);

/// How long the thread beside the writer waits for another program's lock.
const SHORT: Duration = Duration::from_millis(50);

pub struct Tables {
    path: PathBuf,
    pub journals: Journals,
    /// A lock, not a task: held for a transaction by the writer, or by the thread beside it.
    writing: Mutex<Writing>,
    /// How many wait for it.
    waiting: AtomicUsize,
    /// A lock, not a task: held for a look.
    standing: Mutex<Standing>,
    /// Frames in SQLite's log, as the last commit left it.
    frames: Arc<AtomicU64>,
    /// Frames when it was last copied, as far as nobody held it back.
    tried: AtomicU64,
}

/// How far things are.
#[derive(Default)]
struct Standing {
    /// The journal that the writer has open, up to where it is written.
    own: Option<Own>,
    /// Up to where the tables have it.
    learned: u64,
    /// When somebody last found the tables behind.
    asked: Option<Instant>,
}

struct Writing {
    connection: Connection,
    synchronous: Option<Durability>,
}

impl Tables {
    pub fn new(mut connection: Connection, path: &Path) -> Result<Self, StoreError> {
        let frames = Arc::<AtomicU64>::default();
        let told = frames.clone();
        let hooked = connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            told.store(u64::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        }));
        hooked.map_err(|error| describe(error, path))?;
        let writing = Mutex::new(Writing { connection, synchronous: None });
        let (path, journals) = (path.to_owned(), Journals::beside(path));
        Ok(Self {
            path,
            journals,
            writing,
            waiting: AtomicUsize::new(0),
            standing: Mutex::default(),
            frames,
            tried: AtomicU64::new(0),
        })
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn own(&self) -> Option<Own> {
        self.standing().own
    }

    pub fn set_own(&self, own: Option<Own>) {
        let mut standing = self.standing();
        if own.map(|own| own.generation) != standing.own.map(|own| own.generation) {
            standing.learned = 0;
        }
        standing.own = own;
    }

    /// Bytes of the own journal that the tables do not have.
    pub fn behind(&self) -> u64 {
        let standing = self.standing();
        standing.own.map_or(0, |own| own.end.saturating_sub(standing.learned))
    }

    /// Whether to bring them up to date takes more than a moment.
    pub fn are_far_behind(&self) -> bool {
        self.behind() > FAR
    }

    /// Somebody needs the tables as they are to be, and may do so again.
    pub fn note_asked(&self) {
        self.standing().asked = Some(Instant::now());
    }

    fn may_wait(&self) -> bool {
        let asked = self.standing().asked;
        may_wait(asked.map(|asked| asked.elapsed()), self.behind())
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        writing
    }

    /// Between two pieces: whoever waits for the lock is woken by now, and slower than the next look at it.
    fn let_others(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(TURN);
        }
    }

    /// What `work` does is committed unless it is refused. Then, and before anybody else comes, `after`.
    pub fn transact<T, A>(
        &self,
        durability: Durability,
        patience: Duration,
        work: impl FnOnce(&Transaction<'_>) -> Result<Result<T, StoreError>, rusqlite::Error>,
        after: impl FnOnce(T) -> A,
    ) -> Result<A, StoreError> {
        let mut writing = self.writing();
        let transact = || -> Result<Result<A, StoreError>, rusqlite::Error> {
            let Writing { connection, synchronous } = &mut *writing;
            connection.busy_timeout(patience)?;
            if *synchronous != Some(durability) {
                let level = match durability {
                    Durability::Decision => "FULL",
                    Durability::Stream => "NORMAL",
                };
                connection.pragma_update(None, "synchronous", level)?;
                *synchronous = Some(durability);
            }
            let immediate = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(immediate)?;
            match work(&transaction)? {
                Ok(done) => {
                    transaction.commit()?;
                    Ok(Ok(after(done)))
                }
                Err(refused) => Ok(Err(refused)),
            }
        };
        transact().map_err(|error| describe(error, &self.path))?
    }

    /// Whether SQLite's log is long.
    pub fn are_worth_copying(&self) -> bool {
        let frames = self.frames.load(Ordering::Relaxed);
        let tried = self.tried.load(Ordering::Relaxed);
        frames >= WORTH_A_COPY && (frames < tried || frames >= tried + WORTH_A_COPY)
    }

    /// Brings the tables up to date with everything that was written before this.
    pub fn catch_up(&self) -> Result<(), StoreError> {
        let (own, mut beside) = (self.own(), None);
        // More than a journal is ever long: whoever goes on writing to one does not keep this from its end.
        for _ in 0..2 * LONGEST / PIECE {
            if !self.settle(own, BUSY_TIMEOUT)? {
                break;
            }
            if self.frames.load(Ordering::Relaxed) >= FULL {
                self.copy_if_worth(&mut beside); // nobody else can, as long as this goes on
            }
            self.let_others();
        }
        Ok(())
    }

    /// Brings the tables closer to what the journals say, by a piece of each. Nothing new is said by it, so it
    /// need not be on the disk: the journals are. True: there may be more.
    fn settle(&self, own: Option<Own>, patience: Duration) -> Result<bool, StoreError> {
        let settle =
            |transaction: &Transaction<'_>| self.journals.settle(transaction, own, Some(PIECE));
        self.transact(Durability::Stream, patience, settle, |settling| {
            let mut standing = self.standing();
            let (now, then) = (standing.own, own);
            // Unless it has begun anew.
            if now.map(|own| own.generation) == then.map(|own| own.generation) {
                standing.learned = standing.learned.max(settling.own.unwrap_or_default());
            }
            settling.more
        })
    }

    pub fn copy_if_worth(&self, beside: &mut Option<Connection>) {
        if self.are_worth_copying() {
            self.copy(beside);
        }
    }

    /// From SQLite's log into the database. SQLite would do it in a commit, in which everybody waits.
    fn copy(&self, beside: &mut Option<Connection>) {
        let frames = self.frames.load(Ordering::Relaxed);
        self.tried.store(frames, Ordering::Relaxed);
        if beside.is_none() {
            let connected = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE);
            *beside = connected.inspect_err(|error| tracing::warn!("{error}")).ok();
        }
        beside.as_ref().map(copy);
        // The log is not begun anew, because somebody wrote to it all the time.
        if self.frames.load(Ordering::Relaxed) >= FULL {
            copy(&self.writing().connection);
        }
    }
}

/// Whether nobody needs the tables, so that they may learn later: how long ago somebody did, and how many bytes
/// they are behind.
fn may_wait(asked: Option<Duration>, behind: u64) -> bool {
    asked.is_none_or(|ago| ago > ASKING) && behind < MUCH
}

/// The thread.
pub struct Beside {
    /// None only while dropping.
    asks: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    pub fn start(tables: Arc<Tables>) -> Result<Self, StoreError> {
        let (asks, asked) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("loggia-tables".into())
            .spawn(move || run(&tables, &asked))
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { asks: Some(asks), thread: Some(thread) })
    }

    /// There is something to do. If it has been told already, once is enough.
    pub fn ask(&self) {
        if let Some(asks) = &self.asks {
            let _ = asks.try_send(());
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(tables: &Tables, asked: &Receiver<()>) {
    give_way();
    // Another connection than the one that writes, which goes on meanwhile.
    let mut beside = None;
    while asked.recv().is_ok() && wait_for_rest(tables, asked, &mut beside) {
        let mut more = true;
        while more {
            // Others may wait for another program; whoever waits for this thread would, too.
            more = tables.settle(tables.own(), SHORT).unwrap_or_else(|error| {
                // Whoever needs it is told. It stays in the journal until then.
                tracing::warn!("the tables could not be brought up to date: {error}");
                false
            });
            tables.copy_if_worth(&mut beside);
            tables.let_others();
        }
    }
}

/// Until the writer rests, or for as long as the tables may wait. False: there is no writer any more.
fn wait_for_rest(tables: &Tables, asked: &Receiver<()>, beside: &mut Option<Connection>) -> bool {
    while tables.may_wait() {
        tables.copy_if_worth(beside);
        let before = tables.behind();
        match asked.recv_timeout(REST) {
            Err(RecvTimeoutError::Timeout) if tables.behind() == before => break,
            Err(RecvTimeoutError::Disconnected) => return false,
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
    true
}

/// What this thread does can wait; sessions and their clients are waiting already. Not by much, because now and
/// then somebody needs the tables that it has in hand.
fn give_way() {
    const NICE: i32 = 10;
    // Of the calling thread alone, on Linux. Refused, it is as important as the others.
    let _ = setpriority_process(None, NICE);
}

/// Copies what nobody holds back.
fn copy(connection: &Connection) {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    // Nothing is lost by it: the log holds it as well as the database would, and is copied later.
    if let Err(error) = copied {
        tracing::warn!("the log was not copied: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_nobody_asks_may_wait() {
        let ago = |seconds| Some(Duration::from_secs(seconds));
        for (asked, behind, wanted) in [
            (None, 0, true),
            (None, MUCH - 1, true),
            (None, MUCH, false),
            (ago(0), 0, false),
            (ago(59), 0, false),
            (ago(61), 0, true),
            (ago(61), MUCH, false),
        ] {
            assert_eq!(may_wait(asked, behind), wanted, "{asked:?}, {behind} bytes");
        }
    }
}
