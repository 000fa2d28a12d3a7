//! Reads terminal events with their time.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// How long the thread of an event stream may take to stop.
const LEAVING: Duration = Duration::from_millis(200);

/// Reads the terminal in a separate task: reading from a closed terminal can block forever, and the
/// interface must still notice it and exit.
pub struct Input {
    /// Bounded: when it is full the reader waits, and keys wait in the terminal.
    pub events: mpsc::Receiver<(Instant, io::Result<Event>)>,
    /// Dropping it stops the reader.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Input {
    pub fn start() -> Self {
        let (sender, events) = mpsc::channel(64);
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut stream = EventStream::new();
            loop {
                let event = tokio::select! {
                    biased;
                    _ = &mut stopped => break,
                    event = stream.next() => event,
                };
                let Some(event) = event else { return };
                if sender.send((Instant::now(), event)).await.is_err() {
                    return;
                }
            }
            drop(stream);
            // The stream's thread holds crossterm's only reader. It was told to stop and wakes this
            // task when it has. A read before that could block forever.
            let _ = tokio::time::timeout(LEAVING, woken()).await;
        });
        Self { events, stop, task }
    }

    /// Returns when the reader has stopped, or after a timeout if a closed terminal blocks it.
    pub async fn stop(self) {
        let Self { events, stop, task } = self;
        // Dropped first: a full channel must not block the reader.
        drop((events, stop));
        let _ = tokio::time::timeout(Duration::from_secs(1), task).await;
    }
}

/// Completes when the task is woken.
async fn woken() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
