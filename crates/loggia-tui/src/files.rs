//! Fuzzy file search while the workspace is being walked. One thread walks and one matches; both
//! block when idle.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use nucleo::pattern::{CaseMatching, Normalization};
use nucleo::{Config, Nucleo};
use tokio::sync::mpsc;

use crate::app::Msg;
use crate::composer::completion::FILES;
use crate::host::Host;

/// Maximum number of files.
const LIMIT: u32 = 200_000;
/// Interval of result updates during the walk.
const REFRESH: Duration = Duration::from_millis(50);

pub struct FileFinder {
    /// Bounded: only the newest query matters, and the thread drains the others.
    queries: SyncSender<String>,
}

impl FileFinder {
    pub fn start(host: Arc<dyn Host>, results: mpsc::Sender<Msg>) -> Self {
        let (queries, asked) = sync_channel(64);
        let nucleo = Nucleo::new(Config::DEFAULT.match_paths(), Arc::new(|| {}), Some(1), 1);
        let injector = nucleo.injector();
        let walked = Arc::new(AtomicBool::new(false));
        let done = walked.clone();
        // Do not join the threads: the walk may hang on a dead network drive, and both hold only
        // memory.
        std::thread::spawn(move || {
            host.files(&mut |path| {
                let count = injector.push(path, |path, columns| {
                    if let Some(column) = columns.first_mut() {
                        *column = path.as_str().into();
                    }
                });
                if count < LIMIT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            done.store(true, Ordering::Release);
        });
        std::thread::spawn(move || answer(nucleo, &asked, &results, &walked));
        Self { queries }
    }

    /// The result arrives as a message. A query is dropped if the channel is full, because a newer
    /// one follows.
    pub fn ask(&self, query: &str) {
        let _ = self.queries.try_send(query.to_owned());
    }
}

fn answer(
    mut nucleo: Nucleo<String>,
    asked: &Receiver<String>,
    results: &mpsc::Sender<Msg>,
    walked: &AtomicBool,
) {
    let mut next = asked.recv().ok();
    while let Some(mut query) = next.take() {
        loop {
            match asked.try_recv() {
                Ok(newer) => query = newer,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let (case, normal) = (CaseMatching::Smart, Normalization::Smart);
        nucleo.pattern.reparse(0, &query, case, normal, false);
        let mut told: Option<Vec<String>> = None;
        loop {
            let complete = walked.load(Ordering::Acquire);
            let status = nucleo.tick(10);
            if !status.running {
                let snapshot = nucleo.snapshot();
                let count = snapshot.matched_item_count().min(FILES as u32);
                let found: Vec<String> =
                    snapshot.matched_items(..count).map(|item| item.data.clone()).collect();
                if told.as_ref() != Some(&found) {
                    told = Some(found.clone());
                    let answer = Msg::Files { query: query.clone(), found };
                    if results.blocking_send(answer).is_err() {
                        return;
                    }
                }
            }
            let wait = if complete && !status.running { None } else { Some(REFRESH) };
            let newer = match wait {
                None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(_) if status.running => asked.recv_timeout(Duration::ZERO),
                Some(wait) => asked.recv_timeout(wait),
            };
            match newer {
                Ok(newer) => {
                    next = Some(newer);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
