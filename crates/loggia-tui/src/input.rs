//! What the terminal says, one event after the other, with the time at which it was read.

use std::io;
use std::time::Instant;

use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Reading the terminal, on a thread of the runtime's and never on ours: from a terminal that is
/// gone, the reader reads nothing for ever without coming back, and we have to notice and leave.
pub struct Input {
    /// Bounded: when it is full the reader waits, and keys wait in the terminal.
    pub events: mpsc::Receiver<(Instant, io::Result<Event>)>,
    task: JoinHandle<()>,
}

impl Input {
    pub fn start() -> Self {
        let (sender, events) = mpsc::channel(64);
        let task = tokio::spawn(async move {
            let mut stream = EventStream::new();
            while let Some(event) = stream.next().await {
                if sender.send((Instant::now(), event)).await.is_err() {
                    return;
                }
            }
        });
        Self { events, task }
    }

    /// Returns when nobody reads any more.
    pub async fn stop(mut self) {
        self.task.abort();
        // That it was cut short is what was wanted.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.task.abort();
    }
}
