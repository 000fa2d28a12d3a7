//! From the write-ahead log into the database, beside the thread that writes.
//!
//! SQLite would do it in the commit that makes the log long enough: some ten milliseconds in which every
//! session waits. Here a thread of its own copies while others commit. It can never be done, because
//! more is written meanwhile, and a log that is never copied to its end is never begun anew; so what is
//! left then, which is little, is copied by the one who writes.

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

pub struct Checkpoints {
    path: PathBuf,
    /// Frames in the log, as the last commit left it.
    frames: Arc<AtomicU64>,
    /// How many there were when the thread was last asked to copy them.
    asked: u64,
    /// How many there were when the log was last copied to its end.
    finished: u64,
    /// How often the thread was asked since the log is full.
    rounds: u32,
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
        Ok(Self { path: path.to_owned(), frames, asked: 0, finished: 0, rounds: 0, beside: None })
    }

    /// After a commit, once everybody has been answered.
    pub fn go_on(&mut self, connection: &Connection) {
        let frames = self.frames.load(Ordering::Relaxed);
        if frames < self.asked {
            // It was begun anew.
            (self.asked, self.finished, self.rounds) = (0, 0, 0);
        }
        if self.beside.as_ref().is_some_and(Beside::is_at_work) {
            return;
        }
        // All that was asked for, or a reader holds it back.
        let moved = |beside: &Beside| beside.moved() >= self.asked;
        // If somebody read when it was last at its end, it went on all the same.
        let full = frames >= FULL.max(self.finished + MANY);
        let closing = full && self.rounds < ROUNDS;
        if frames - self.asked >= if closing { FEW } else { MANY } {
            self.asked = frames;
            self.rounds += u32::from(closing);
            let beside = self.beside.take().or_else(|| Beside::start(self.path.clone()));
            self.beside = beside.filter(Beside::ask);
        } else if full && self.asked > self.finished && self.beside.as_ref().is_some_and(moved) {
            copy(connection);
            (self.asked, self.finished, self.rounds) = (frames, frames, 0);
        }
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
    moved: AtomicU64,
}

impl Beside {
    fn start(path: PathBuf) -> Option<Self> {
        let (asks, asked) = sync_channel(1);
        let progress = Arc::<Progress>::default();
        let shown = progress.clone();
        let thread = std::thread::Builder::new().name("loggia-copy".into());
        let thread = thread.spawn(move || run(&path, asked, &shown));
        // Without it the log grows until there is a thread again.
        let thread = thread.inspect_err(|error| tracing::warn!("no thread to copy: {error}")).ok();
        Some(Self { asks: Some(asks), progress, thread: Some(thread?) })
    }

    /// False: it has ended.
    fn ask(&self) -> bool {
        self.progress.at_work.store(true, Ordering::Relaxed);
        self.asks.as_ref().is_some_and(|asks| asks.try_send(()).is_ok())
    }

    fn is_at_work(&self) -> bool {
        self.progress.at_work.load(Ordering::Acquire)
    }

    fn moved(&self) -> u64 {
        self.progress.moved.load(Ordering::Relaxed)
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

fn run(path: &Path, asked: Receiver<()>, progress: &Progress) {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let connection = connection.inspect_err(|error| tracing::warn!("nothing is copied: {error}"));
    if let Ok(connection) = connection {
        while asked.recv().is_ok() {
            let moved = copy(&connection).unwrap_or_default();
            progress.moved.store(moved, Ordering::Relaxed);
            progress.at_work.store(false, Ordering::Release);
        }
    }
    // Who asks next finds nobody, and begins anew.
    drop(asked);
    progress.at_work.store(false, Ordering::Release);
}

/// Copies what nobody holds back, and says how many frames are in the database now.
fn copy(connection: &Connection) -> Option<u64> {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2));
    // The log holds it as well as the database would; the next attempt comes by itself.
    copied.inspect_err(|error| tracing::debug!("the log was not copied: {error}")).ok()
}
