//! Where a writer rests that has nothing to do.
//!
//! A writer has a task only while it has something to wait for: an open turn, a prompt that waits.
//! Otherwise it lies here, and costs no task, no timer and no wake-up. Whoever has something for it
//! puts that into its inbox and looks whether it rests; if it does, the step is done by the one who
//! came, in their own task ([`Stepping`]), and if the step begins something that lasts, the writer
//! gets a task in the runtime that sessions live in.
//!
//! Nothing is lost in between: a message is put into the inbox before the bed is looked at, and a
//! writer lies down only while it sees its inbox empty, under the same lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::Actor;
use crate::boxed::boxed;

pub(crate) struct Bed {
    /// A lock, not a task: held for a look at what waits.
    writer: Mutex<Option<Box<Actor>>>,
    /// Where sessions live.
    home: Handle,
}

impl Bed {
    /// Called inside the runtime that the session is to live in.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { writer: Mutex::default(), home: Handle::current() })
    }

    pub fn home(&self) -> &Handle {
        &self.home
    }

    pub fn is_taken(&self) -> bool {
        self.writer().is_some()
    }

    /// The writer, if it rests. Whoever has it must let it go on, or end it.
    pub fn take(&self) -> Option<Box<Actor>> {
        self.writer().take()
    }

    /// Lets a writer lie down, or work where it has something to do.
    pub fn settle(self: &Arc<Self>, writer: Box<Actor>) {
        let mut bed = self.writer();
        if writer.is_at_rest() {
            *bed = Some(writer);
            return;
        }
        drop(bed);
        self.go_on(Box::pin(writer.run()));
    }

    /// Gives a resting writer a task, because of what is in its inbox.
    pub fn rouse(self: &Arc<Self>) {
        if let Some(writer) = self.take() {
            self.go_on(Box::pin(writer.run()));
        }
    }

    /// Does the step of a resting writer for what is in its inbox. Returns when it is done, or at
    /// once where the writer is awake.
    pub async fn step(self: &Arc<Self>) {
        if let Some(writer) = self.take() {
            Stepping { bed: self.clone(), work: Some(boxed(|| writer.step())) }.await;
        }
    }

    fn go_on(self: &Arc<Self>, work: Work) {
        let bed = self.clone();
        self.home.spawn(async move {
            if let Some(writer) = work.await {
                let presence = writer.presence().place();
                bed.settle(writer);
                presence.is_resting();
            }
        });
    }

    fn writer(&self) -> MutexGuard<'_, Option<Box<Actor>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's work, which gives it back unless it has ended.
type Work = BoxFuture<'static, Option<Box<Actor>>>;

/// One step of a writer, done by somebody else. If they leave, it goes on without them; if it
/// panics, the writer ends and they are told that the session has stopped, as everybody is.
struct Stepping {
    bed: Arc<Bed>,
    work: Option<Work>,
}

impl Future for Stepping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { bed, work: working } = &mut *self;
        let Some(work) = working else { return Poll::Ready(()) };
        // What it spawns and waits for is at home.
        let _home = bed.home.enter();
        let stepped = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        let Ok(Poll::Pending) = stepped else {
            *working = None;
            if let Ok(Poll::Ready(Some(writer))) = stepped {
                bed.settle(writer);
            }
            return Poll::Ready(());
        };
        Poll::Pending
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.bed.go_on(work);
        }
    }
}
