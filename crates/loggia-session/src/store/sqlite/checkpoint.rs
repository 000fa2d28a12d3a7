//! From the write-ahead log into the database, beside the thread that writes.
//!
//! SQLite would do it in the commit that makes the log long enough: some ten milliseconds in which every
//! session waits. Here a thread of its own copies, and sees the copies to the disk, while others commit. It can
//! never be done, because more is written meanwhile, and a log that is never copied to its end is never
//! begun anew; so what is left then, which is little, is copied by the one who writes.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, OpenFlags};

use super::connect;

/// So many frames, of a page each, are worth a copy.
const MANY: u64 = 1000;
/// Beyond so many the log is to begin anew.
const FULL: u64 = 4000;
/// More than so many are not left to the one who writes, if the thread can get there in so many rounds.
const FEW: u64 = 128;
const ROUNDS: u32 = 4;
/// After so many more it is tried again, if somebody read at the moment when it could have begun anew.
const AGAIN: u64 = 512;
/// So many are for the one who writes, whatever the thread does.
const TOO_MANY: u64 = 4 * FULL;

pub struct Checkpoints {
    path: PathBuf,
    /// Frames in the log, as the last commit left it.
    frames: Arc<AtomicU64>,
    plan: Plan,
    beside: Option<Beside>,
}

impl Checkpoints {
    /// For the connection that writes, which leaves it to this from now on.
    pub fn of(connection: &mut Connection, path: &Path) -> Result<Self, rusqlite::Error> {
        let frames = Arc::<AtomicU64>::default();
        let told = frames.clone();
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            told.store(u64::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { path: path.to_owned(), frames, plan: Plan::default(), beside: None })
    }

    /// After a commit, once everybody has been answered.
    pub fn go_on(&mut self, connection: &Connection) {
        if self.beside.as_ref().is_some_and(Beside::is_at_work) {
            return;
        }
        let copied = self.beside.as_ref().map_or(0, Beside::copied);
        match self.plan.next(self.frames.load(Ordering::Relaxed), copied) {
            Move::Wait => {}
            Move::Ask => {
                let beside = self.beside.take().or_else(|| Beside::start(self.path.clone()));
                self.beside = beside.filter(Beside::ask);
            }
            Move::Finish => drop(copy(connection)),
        }
    }
}

/// When to do what, by how long the log is.
#[derive(Default)]
struct Plan {
    /// Frames when the thread was last asked to copy them.
    asked: u64,
    /// Frames when the log was last copied to its end.
    finished: u64,
    /// How often the thread was asked since the log is full.
    rounds: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Move {
    Wait,
    Ask,
    Finish,
}

impl Plan {
    /// The thread rests, or there is none; so many frames are in the database by its doing.
    fn next(&mut self, frames: u64, copied: u64) -> Move {
        if frames < self.asked {
            *self = Self::default(); // it was begun anew
        }
        let left = frames - self.asked;
        let full = frames >= FULL.max(self.finished + AGAIN);
        let closing = full && self.rounds < ROUNDS;
        // Otherwise a reader holds it back, or it does not work.
        let got_there = self.asked > self.finished && copied >= self.asked;
        if frames >= self.finished + TOO_MANY || full && got_there && (left < FEW || !closing) {
            *self = Self { asked: frames, finished: frames, rounds: 0 };
            return Move::Finish;
        }
        if left < if closing { FEW } else { MANY } {
            return Move::Wait;
        }
        self.asked = frames;
        self.rounds += u32::from(closing);
        Move::Ask
    }
}

/// The thread, which begins when there is something to do for the first time.
struct Beside {
    /// None only while dropping.
    asks: Option<SyncSender<()>>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Progress {
    at_work: AtomicBool,
    copied: AtomicU64,
}

impl Beside {
    fn start(path: PathBuf) -> Option<Self> {
        let (asks, asked) = sync_channel(1);
        let progress = Arc::<Progress>::default();
        let shown = progress.clone();
        let thread = std::thread::Builder::new().name("loggia-copy".into());
        let thread = thread.spawn(move || run(&path, &asked, &shown));
        // Without it the one who writes copies, when there are too many.
        let thread = thread.inspect_err(|error| tracing::warn!("no thread to copy: {error}")).ok();
        Some(Self { asks: Some(asks), progress, thread: Some(thread?) })
    }

    /// False: it has ended.
    fn ask(&self) -> bool {
        self.progress.at_work.store(true, Ordering::Relaxed);
        self.asks.as_ref().is_some_and(|asks| asks.try_send(()).is_ok())
    }

    fn is_at_work(&self) -> bool {
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        self.progress.at_work.load(Ordering::Acquire) && !ended
    }

    fn copied(&self) -> u64 {
        self.progress.copied.load(Ordering::Relaxed)
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

fn run(path: &Path, asked: &Receiver<()>, progress: &Progress) {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let connection = connection.inspect_err(|error| tracing::warn!("nothing is copied: {error}"));
    let Ok(connection) = connection else { return };
    // SQLite leaves the sync to whoever copies the end. Never closed, see `create_private`.
    let database = File::open(path).ok().map(ManuallyDrop::new);
    while asked.recv().is_ok() {
        let copied = copy(&connection).unwrap_or_default();
        if let Some(database) = &database {
            // What fails here fails there as well, and is said by `copy`.
            let _ = database.sync_data();
        }
        progress.copied.store(copied, Ordering::Relaxed);
        progress.at_work.store(false, Ordering::Release);
    }
}

/// Copies what nobody holds back, and says how many frames are in the database now.
fn copy(connection: &Connection) -> Option<u64> {
    let copied =
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(2));
    // Nothing is lost by it: the log holds it as well as the database would, and is copied later.
    let copied = copied.inspect_err(|error| tracing::warn!("the log was not copied: {error}"));
    u64::try_from(copied.ok()?).ok() // less than none: another process is about it
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
