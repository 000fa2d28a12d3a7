//! The fold of a session's log into frames, shared by all readers of one view.
//!
//! A [`Projection`] follows the log, encodes each frame once, keeps the newest frames in memory and does not know its
//! readers. A reader further behind folds the log itself until it has caught up; frames are deterministic, so it gets
//! the same ones.
//!
//! A projection does not keep its session open, and ends with it. A [`ProjectionReader`] does keep it open.

mod cache;
mod frames;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use loggia_core::{Seq, SessionId, TaskId, TaskState, TaskView};
use loggia_session::{Follower, HubError, SessionHandle};
use loggia_wire::{Condition, Frame, FrameId, Projector, View, WireError};
use tokio::sync::watch;

pub(crate) use cache::Projections;
pub use frames::{EncodedFrame, Frames};

use crate::state::{hub_error, stopped};
use frames::{BatchSize, fold_to};

/// Frames in memory, at most.
const TAIL_FRAMES: usize = 8192;
const TAIL_BYTES: usize = 8 * 1024 * 1024;
/// After an event of this size the tasks are weighed again.
const LARGE: usize = 64 * 1024;

pub struct Projection {
    session: SessionId,
    /// Of the opening of the session that is followed.
    epoch: u64,
    view: View,
    fold: Mutex<Fold>,
    /// The last event folded in. Closed when the session has stopped.
    head: watch::Receiver<Seq>,
    weight: AtomicUsize,
}

struct Fold {
    projector: Projector,
    tail: VecDeque<Arc<EncodedFrame>>,
    bytes: usize,
    /// The weight of the tasks when a large event last came.
    tasks_weight: usize,
    /// The newest frame that is no longer in the tail.
    dropped: FrameId,
}

impl Fold {
    fn push(&mut self, encoded: EncodedFrame) {
        self.bytes += encoded.size();
        self.tail.push_back(Arc::new(encoded));
        while self.tail.len() > TAIL_FRAMES || (self.bytes > TAIL_BYTES && self.tail.len() > 1) {
            if let Some(oldest) = self.tail.pop_front() {
                self.bytes -= oldest.size();
                self.dropped = oldest.id;
            }
        }
    }
}

impl Projection {
    pub fn start(handle: &SessionHandle, view: View) -> Arc<Self> {
        let (sender, head) = watch::channel(Seq::ZERO);
        let projector = Projector::new(handle.id().clone(), view).trimming();
        let (tail, dropped) = (VecDeque::new(), FrameId::default());
        let fold = Mutex::new(Fold { projector, tail, bytes: 0, tasks_weight: 0, dropped });
        let follower = handle.follow_while_open(Seq::ZERO);
        let (session, epoch) = (handle.id().clone(), handle.epoch());
        let weight = AtomicUsize::new(0);
        let projection = Arc::new(Self { session, epoch, view, fold, head, weight });
        tokio::spawn(drive(Arc::downgrade(&projection), follower, sender));
        projection
    }

    pub fn view(&self) -> View {
        self.view
    }

    pub fn is_stopped(&self) -> bool {
        self.head.has_changed().is_err()
    }

    /// Waits until everything up to `seq` is folded in. False if the session stopped before.
    pub async fn reach(&self, seq: Seq) -> bool {
        self.head.clone().wait_for(|head| *head >= seq).await.is_ok()
    }

    /// Approximate bytes in memory: the frames, and the tasks that are not over.
    pub fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    pub fn with_projector<T>(&self, read: impl FnOnce(&Projector) -> T) -> T {
        read(&self.fold().projector)
    }

    /// Reads a task whose contents are complete. None if they were trimmed, or if there is no such task.
    pub(crate) fn with_task<T>(
        &self,
        task: &TaskId,
        read: impl FnOnce(&Projector, &TaskView) -> T,
    ) -> Option<T> {
        let fold = self.fold();
        let view = fold.projector.tasks().get(task).filter(|view| !view.trimmed)?;
        Some(read(&fold.projector, view))
    }

    fn fold(&self) -> MutexGuard<'_, Fold> {
        self.fold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames after `cursor` from memory, or None if some of them were dropped.
    fn newest_after(&self, cursor: FrameId) -> Option<Vec<Arc<EncodedFrame>>> {
        let fold = self.fold();
        if cursor < fold.dropped {
            return None;
        }
        let first = fold.tail.partition_point(|frame| frame.id <= cursor);
        let mut size = BatchSize::default();
        let fits = |frame: &&Arc<EncodedFrame>| size.add(frame);
        Some(fold.tail.range(first..).take_while(fits).cloned().collect())
    }
}

/// A projection together with a handle that keeps its session open.
#[derive(Clone)]
pub struct ProjectionReader {
    projection: Arc<Projection>,
    handle: SessionHandle,
}

impl std::ops::Deref for ProjectionReader {
    type Target = Projection;

    fn deref(&self) -> &Projection {
        &self.projection
    }
}

impl ProjectionReader {
    pub fn new(projection: Arc<Projection>, handle: SessionHandle) -> Self {
        Self { projection, handle }
    }

    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// Waits until everything up to `seq` is folded in.
    pub(crate) async fn reached(&self, seq: Seq) -> Result<(), WireError> {
        if self.reach(seq).await { Ok(()) } else { Err(stopped(&self.handle)) }
    }

    /// Waits until a task is over or asks, with everything up to `seq` folded in.
    pub(crate) async fn settled(&self, task: &TaskId, seq: Seq) -> Result<(), WireError> {
        let settled = |projector: &Projector| {
            let state = projector.tasks().get(task).map(|view| view.state);
            let settled = |state: TaskState| state == TaskState::InputRequired || state.is_over();
            projector.head() >= seq && state.is_some_and(settled)
        };
        let mut head = self.head.clone();
        loop {
            head.mark_unchanged();
            if self.with_projector(settled) {
                return Ok(());
            }
            if head.changed().await.is_err() {
                return if self.with_projector(settled) {
                    Ok(())
                } else {
                    Err(stopped(&self.handle))
                };
            }
        }
    }

    /// The task as it is now, and the frames after exactly this state.
    pub(crate) async fn opening(
        &self,
        task: &TaskId,
    ) -> Result<(Arc<EncodedFrame>, Frames), WireError> {
        let (now, head) = self.with_projector(|projector| {
            let trimmed = projector.tasks().get(task).is_some_and(|view| view.trimmed);
            ((!trimmed).then(|| projector.opening(task)), projector.head())
        });
        let frame = match now {
            Some(now) => now,
            None => self.fold_to(head).await?.opening(task),
        };
        let frame = frame.ok_or(Condition::TaskNotFound)?;
        let frames = self.frames(frame.id);
        Ok((Arc::new(EncodedFrame::new(&self.session, frame)), frames))
    }

    /// The task as an event left it, as the first frame of a stream that continues from there.
    pub(crate) async fn beginning(&self, task: &TaskId, seq: Seq) -> Result<Frame, WireError> {
        let now = self.with_task(task, |now, _| (now.head() == seq).then(|| now.beginning(task)));
        let frame = match now.flatten() {
            Some(now) => now,
            None => self.fold_to(seq).await?.beginning(task),
        };
        frame.ok_or_else(|| Condition::TaskNotFound.into())
    }

    async fn fold_to(&self, seq: Seq) -> Result<Projector, WireError> {
        let folded = Box::pin(fold_to(&self.handle, self.view, seq)).await;
        let folded = folded.map_err(|error| hub_error(HubError::Store(error)))?;
        folded.ok_or_else(|| stopped(&self.handle))
    }

    /// The first frames for a reader that follows the whole session from now on, and the place after which it continues.
    pub fn joining(&self) -> (Vec<EncodedFrame>, FrameId) {
        let (frames, last) =
            self.with_projector(|projector| (projector.joining(), projector.last()));
        let encoded = frames.into_iter().map(|frame| EncodedFrame::new(&self.session, frame));
        (encoded.collect(), last)
    }

    /// All frames after `after`, then new ones as they come.
    pub fn frames(&self, after: FrameId) -> Frames {
        Frames::new(self.clone(), after)
    }
}

/// Follows the log until the session stops or the projection is dropped.
async fn drive(projection: Weak<Projection>, mut follower: Follower, head: watch::Sender<Seq>) {
    loop {
        let events = tokio::select! {
            // The projection holds a receiver, so this means that it is gone, too.
            () = head.closed() => return,
            events = follower.next() => match events {
                Ok(Some(events)) => events,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "a projection stops: its log cannot be read");
                    return;
                }
            },
        };
        let Some(projection) = projection.upgrade() else { return };
        {
            let mut fold = projection.fold();
            let mut large = false;
            for envelope in &events {
                large |= envelope.approx_bytes() > LARGE;
                for frame in fold.projector.project(envelope) {
                    fold.push(EncodedFrame::new(&projection.session, frame));
                }
            }
            // Weighing all tasks after each small event would cost more than the event.
            if large {
                fold.tasks_weight = fold.projector.tasks().iter().map(TaskView::approx_bytes).sum();
            }
            projection.weight.store(fold.bytes + fold.tasks_weight, Ordering::Relaxed);
        }
        head.send_replace(follower.cursor());
    }
}
