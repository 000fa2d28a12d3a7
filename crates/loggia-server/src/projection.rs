//! Frames for many readers: projected once, encoded once, read by cursor.
//!
//! One [`Projection`] serves all readers of a session that share a view. It follows the log, keeps
//! the newest frames in memory and never knows its readers. A reader that is further behind gets a
//! projector of its own until it has caught up; frames are deterministic, so nobody can tell.
//!
//! A reader comes when it likes, but in a crowd it takes its turn ([`crate::pacer`]).
//!
//! A projection that nobody reads does not keep its session open, and ends with it. Whoever reads
//! has a [`Reading`], and that does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use loggia_core::{Envelope, Seq, SessionId, TaskId, TaskView};
use loggia_session::{Follower, SessionHandle, StoreError};
use loggia_wire::{End, Frame, FrameId, Mark, Projector, View, context};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::guard::{BytePermit, ByteShares, SMALL};
use crate::pacer::Pacer;

/// What the tail holds at most.
const TAIL_FRAMES: usize = 8192;
const TAIL_BYTES: usize = 8 * 1024 * 1024;
/// Frames handed to a reader at once: what a reader that stalls keeps from being freed.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 16 * 1024;
/// An event after which the tasks are weighed.
const LARGE: usize = 64 * 1024;

/// A frame as it goes out, shared by all who get it.
#[derive(Debug)]
pub struct Encoded {
    pub id: FrameId,
    pub task: TaskId,
    /// JSON, the `result` of a response.
    pub body: Bytes,
    pub ends: Option<End>,
    /// Contained in every later snapshot of the task.
    pub stays: bool,
    /// The whole task, not an update of it.
    pub whole: bool,
    /// The frame as a follower of the session gets it on a WebSocket: the same text for all of
    /// them, and the only one in memory; `body` is a piece of it.
    pub followed: Utf8Bytes,
    /// The frame as gRPC has it, once somebody has asked for that.
    pub protobuf: OnceLock<Bytes>,
}

impl Encoded {
    pub fn new(session: &SessionId, frame: Frame) -> Self {
        let Frame { id, task, body, ends, stays, whole: is_task } = frame;
        let before = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/event\",\"params\":\
             {{\"contextId\":{},\"seq\":{},\"id\":\"{id}\",\"event\":",
            Value::from(context::shown(session)),
            id.seq
        );
        let from = before.len();
        let followed = Utf8Bytes::from(format!("{before}{body}}}}}"));
        let whole = Bytes::from(followed.clone());
        let body = whole.slice(from..whole.len() - 2);
        let protobuf = OnceLock::new();
        Self { id, task, body, ends, stays, whole: is_task, followed, protobuf }
    }

    /// What a stream decides by.
    pub fn mark(&self) -> Mark {
        Mark { id: self.id, ends: self.ends, stays: self.stays, whole: self.whole }
    }

    fn size(&self) -> usize {
        self.followed.len()
    }
}

pub struct Projection {
    session: SessionId,
    /// The opening of the session that is followed.
    epoch: u64,
    view: View,
    /// A lock, not a task: held while a batch is folded or a few pointers are cloned.
    fold: Mutex<Fold>,
    /// The last event folded in. Closed when the session has stopped.
    head: watch::Receiver<Seq>,
    weight: AtomicUsize,
    /// The line of everybody who reads this session, in whatever view.
    pacer: Arc<Pacer>,
}

struct Fold {
    projector: Projector,
    tail: VecDeque<Arc<Encoded>>,
    bytes: usize,
    /// What the tasks weighed when a large event last came.
    open: usize,
    /// The newest frame that is no longer in the tail.
    dropped: FrameId,
}

impl Fold {
    fn push(&mut self, encoded: Encoded) {
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
    pub fn start(handle: &SessionHandle, view: View, pacer: Arc<Pacer>) -> Arc<Self> {
        let (sender, head) = watch::channel(Seq::ZERO);
        let projector = Projector::new(handle.id().clone(), view).trimming();
        let (tail, dropped) = (VecDeque::new(), FrameId::default());
        let fold = Fold { projector, tail, bytes: 0, open: 0, dropped };
        let follower = handle.follow_while_open(Seq::ZERO);
        let (session, epoch) = (handle.id().clone(), handle.epoch());
        let fold = Mutex::new(fold);
        let projection =
            Arc::new(Self { session, epoch, view, fold, head, weight: AtomicUsize::new(0), pacer });
        tokio::spawn(drive(Arc::downgrade(&projection), follower, sender));
        projection
    }

    pub fn view(&self) -> View {
        self.view
    }

    pub fn pacer(&self) -> &Arc<Pacer> {
        &self.pacer
    }

    pub fn is_stopped(&self) -> bool {
        self.head.has_changed().is_err()
    }

    /// Whether this is a fold of what the handle leads to, and not of an opening before it.
    pub fn serves(&self, handle: &SessionHandle) -> bool {
        self.epoch == handle.epoch() && self.session == *handle.id() && !self.is_stopped()
    }

    /// Waits until everything up to `seq` is folded in. False if the session stopped before.
    pub async fn reach(&self, seq: Seq) -> bool {
        self.head.clone().wait_for(|head| *head >= seq).await.is_ok()
    }

    /// About how much memory it takes, in bytes: its frames, and the tasks that are not over.
    pub fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// Looks at the folded tasks.
    pub fn look<T>(&self, look: impl FnOnce(&Projector) -> T) -> T {
        look(&self.fold().projector)
    }

    fn fold(&self) -> MutexGuard<'_, Fold> {
        self.fold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames after `cursor` from memory, or None if some of them are no longer there.
    fn newest_after(&self, cursor: FrameId) -> Option<Vec<Arc<Encoded>>> {
        let fold = self.fold();
        if cursor < fold.dropped {
            return None;
        }
        let first = fold.tail.partition_point(|frame| frame.id <= cursor);
        let mut room = Room::default();
        let fits = |frame: &&Arc<Encoded>| room.takes(frame);
        Some(fold.tail.range(first..).take_while(fits).cloned().collect())
    }
}

/// What a stream of a task begins with.
pub enum Opened {
    Whole(Box<Encoded>, Frames),
    /// Not all of the task is in memory: it is to be read from the log, up to this event.
    Trimmed(Seq),
    Absent,
}

/// A projection in the hands of somebody who keeps its session open.
#[derive(Clone)]
pub struct Reading {
    projection: Arc<Projection>,
    handle: SessionHandle,
}

impl std::ops::Deref for Reading {
    type Target = Projection;

    fn deref(&self) -> &Projection {
        &self.projection
    }
}

impl Reading {
    pub fn new(projection: Arc<Projection>, handle: SessionHandle) -> Self {
        Self { projection, handle }
    }

    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// The task as it is now, and the frames that come after exactly this state.
    pub fn opening(&self, task: &TaskId) -> Opened {
        let fold = self.fold();
        if fold.projector.tasks().get(task).is_some_and(|view| view.trimmed) {
            return Opened::Trimmed(fold.projector.head());
        }
        let Some(frame) = fold.projector.opening(task) else { return Opened::Absent };
        let frames = self.frames(frame.id);
        drop(fold);
        Opened::Whole(Box::new(Encoded::new(&self.session, frame)), frames)
    }

    /// What a reader that follows the whole session from now on is told first, and the frames that come after exactly
    /// this state.
    pub fn joining(&self) -> (Vec<Encoded>, FrameId) {
        let fold = self.fold();
        let (frames, last) = (fold.projector.joining(), fold.projector.last());
        drop(fold);
        (frames.into_iter().map(|frame| Encoded::new(&self.session, frame)).collect(), last)
    }

    /// All frames after `after`, then whatever comes.
    pub fn frames(&self, after: FrameId) -> Frames {
        let (projection, head) = (self.clone(), self.head.clone());
        let (turn, own, counting, crowded) = (None, None, None, false);
        Frames { projection, head, cursor: after, turn, own, counting, crowded }
    }
}

/// Follows the log for as long as somebody holds the projection.
async fn drive(projection: Weak<Projection>, mut follower: Follower, head: watch::Sender<Seq>) {
    loop {
        let events = tokio::select! {
            // No reader is left when every receiver is gone, the projection's own included.
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
                    fold.push(Encoded::new(&projection.session, frame));
                }
            }
            // Most events are small, and what they add to open tasks is weighed with the next large one.
            if large {
                fold.open = fold.projector.tasks().iter().map(TaskView::approx_bytes).sum();
            }
            projection.weight.store(fold.bytes + fold.open, Ordering::Relaxed);
        }
        head.send_replace(follower.cursor());
    }
}

/// One reader of a projection. While it sleeps it costs a cursor.
pub struct Frames {
    projection: Reading,
    head: watch::Receiver<Seq>,
    cursor: FrameId,
    /// Not before this moment.
    turn: Option<Instant>,
    own: Option<Box<Own>>,
    /// Where large events count that this reader has read for itself, and for whom.
    counting: Option<(ByteShares, Arc<str>)>,
    /// There was no room for them for too long.
    crowded: bool,
}

/// A reader's own fold, while it is behind what memory holds.
struct Own {
    projector: Projector,
    follower: Follower,
    /// Read and not yet folded. Each by itself: a reader that stands still keeps no others in memory.
    events: VecDeque<Arc<Envelope>>,
    /// Of the largest block that was read.
    counted: Option<Arc<BytePermit>>,
    weight: usize,
}

/// What still fits into a batch.
#[derive(Default)]
struct Room {
    frames: usize,
    bytes: usize,
}

impl Room {
    /// A batch is never empty, however large its first frame.
    fn takes(&mut self, frame: &Encoded) -> bool {
        let takes = !self.is_full();
        self.frames += 1;
        self.bytes += frame.size();
        takes
    }

    fn is_full(&self) -> bool {
        self.frames >= BATCH || self.bytes >= BATCH_BYTES
    }
}

/// A batch into which no more fitted.
fn is_whole(frames: &[Arc<Encoded>]) -> bool {
    let mut room = Room::default();
    frames.iter().for_each(|frame| _ = room.takes(frame));
    room.is_full()
}

impl Frames {
    pub fn projection(&self) -> &Reading {
        &self.projection
    }

    /// Large events count for this principal from now on.
    pub fn count(&mut self, replies: &ByteShares, principal: &Arc<str>) {
        self.counting = Some((replies.clone(), principal.clone()));
    }

    /// What the frames count that were given last, if this reader has read large events for itself.
    pub fn counted(&self) -> Option<Arc<BytePermit>> {
        self.own.as_ref()?.counted.clone()
    }

    /// Whether it ended because there was no room for large events.
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// The last frame that was given to this reader.
    pub fn cursor(&self) -> FrameId {
        self.cursor
    }

    /// Whether everything up to `seq` was given to this reader.
    pub fn has_all_up_to(&self, seq: Seq) -> bool {
        let folded = *self.head.borrow() >= seq;
        folded && self.projection.newest_after(self.cursor).is_some_and(|rest| rest.is_empty())
    }

    /// The next frames, in order; None when the session has stopped and all of it was given, or if there is no room
    /// for them.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Encoded>>>, StoreError> {
        if let Some(turn) = self.turn {
            tokio::time::sleep_until(turn).await;
            self.turn = None;
        }
        loop {
            // Marked as seen before the look: whatever is folded after the look wakes the wait.
            // The other way round, a fold between look and mark would be waited for in vain.
            self.head.mark_unchanged();
            if let Some(frames) = self.projection.newest_after(self.cursor) {
                self.own = None;
                if let Some(last) = frames.last() {
                    self.cursor = last.id;
                    // Whoever has more to get would get it in as many pieces later.
                    self.turn =
                        if is_whole(&frames) { None } else { self.projection.pacer.again() };
                    return Ok(Some(frames));
                }
                if self.head.changed().await.is_err() {
                    let rest = self.projection.newest_after(self.cursor).unwrap_or_default();
                    self.cursor = rest.last().map_or(self.cursor, |last| last.id);
                    return Ok((!rest.is_empty()).then_some(rest));
                }
                continue;
            }
            let frames = self.replay().await?;
            match frames {
                Some(frames) if frames.is_empty() => {}
                Some(frames) => return Ok(Some(frames)),
                None => return Ok(None),
            }
        }
    }

    /// One batch of frames folded by this reader itself. Empty: only frames that it has seen.
    async fn replay(&mut self) -> Result<Option<Vec<Arc<Encoded>>>, StoreError> {
        let projection = &self.projection;
        let session = projection.handle.id();
        let begin = |counted, weight| {
            let projector = Projector::new(session.clone(), projection.view).trimming();
            let follower = projection.handle.follow(Seq::ZERO);
            Box::new(Own { projector, follower, events: VecDeque::new(), counted, weight })
        };
        let own = self.own.get_or_insert_with(|| begin(None, SMALL));
        if own.events.is_empty() {
            let Some(events) = own.follower.next().await? else { return Ok(None) };
            own.events.extend(events);
            let weight = own.events.iter().map(|envelope| envelope.approx_bytes()).sum();
            if weight > own.weight
                && let Some((replies, principal)) = &self.counting
            {
                own.counted = None;
                own.counted = replies.try_acquire(principal, weight).map(Arc::new);
                own.weight = weight;
                if own.counted.is_none() {
                    // Nothing of it stays in memory while it waits: it is read once more.
                    self.own = None;
                    let counted = replies.acquire(principal, weight).await.map(Arc::new);
                    self.crowded = counted.is_none();
                    if self.crowded {
                        return Ok(None);
                    }
                    self.own = Some(begin(counted, weight));
                    return Ok(Some(Vec::new()));
                }
            }
        }
        let (mut frames, mut room) = (Vec::new(), Room::default());
        while !room.is_full()
            && let Some(envelope) = own.events.pop_front()
        {
            for frame in own.projector.resume(&envelope, self.cursor) {
                let encoded = Encoded::new(session, frame);
                room.takes(&encoded);
                frames.push(Arc::new(encoded));
            }
        }
        self.cursor = frames.last().map_or(self.cursor, |last| last.id);
        Ok(Some(frames))
    }
}
