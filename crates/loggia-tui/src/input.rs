//! What the terminal says, one event after the other, with the time at which it was read.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// How long the thread behind a stream of events may take to notice that nobody wants them any more.
const LEAVING: Duration = Duration::from_millis(200);

/// Reading the terminal, on a thread of the runtime's and never on ours: from a terminal that is
/// gone, the reader reads nothing for ever without coming back, and we have to notice and leave.
pub struct Input {
    /// Bounded: when it is full the reader waits, and keys wait in the terminal.
    pub events: mpsc::Receiver<(Instant, io::Result<Event>)>,
    /// Dropped, it stops the reader.
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
            // The stream has a thread that waits for the terminal, and holds crossterm's only reader
            // meanwhile. It was told to go, and wakes this task when it has gone: whoever reads before
            // that could find the reader taken for ever.
            let _ = tokio::time::timeout(LEAVING, woken()).await;
        });
        Self { events, stop, task }
    }

    /// Returns when nobody reads any more, or where a terminal that is gone keeps the reader.
    pub async fn stop(self) {
        let Self { events, stop, task } = self;
        // Not waited for by the reader: nobody takes another event.
        drop((events, stop));
        let _ = tokio::time::timeout(Duration::from_secs(1), task).await;
    }
}

/// Until somebody wakes the task.
async fn woken() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
