//! Encoded frames, and a reader's cursor over them.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use loggia_core::{Envelope, Seq, SessionId, TaskId};
use loggia_session::{Follower, SessionHandle, StoreError};
use loggia_wire::{End, Frame, FrameId, Mark, Projector, View, context};
use serde_json::Value;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::ProjectionReader;
use crate::guard::{BytePermit, ByteShares, SMALL};

/// Frames handed to a reader at once. A reader that stalls keeps them from being freed.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 16 * 1024;

/// An encoded frame, shared by all its readers.
#[derive(Debug)]
pub struct EncodedFrame {
    pub id: FrameId,
    pub task: TaskId,
    /// JSON, the `result` of a response.
    pub body: Bytes,
    pub ends: Option<End>,
    /// Contained in every later snapshot of the task.
    pub is_in_snapshot: bool,
    /// The whole task, not an update of it.
    pub whole: bool,
    /// The notification for followers of the session on a WebSocket. The text is the same for all of them, and `body` is
    /// a slice of it.
    pub notification: Utf8Bytes,
    /// The frame as a protocol buffer, once a gRPC client has read it.
    pub protobuf: OnceLock<Bytes>,
}

impl EncodedFrame {
    pub fn new(session: &SessionId, frame: Frame) -> Self {
        let Frame { id, task, body, ends, is_in_snapshot, whole } = frame;
        let before = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/event\",\"params\":\
             {{\"contextId\":{},\"seq\":{},\"id\":\"{id}\",\"event\":",
            Value::from(context::shown(session)),
            id.seq
        );
        let from = before.len();
        let notification = Utf8Bytes::from(format!("{before}{body}}}}}"));
        let text = Bytes::from(notification.clone());
        let body = text.slice(from..text.len() - 2);
        Self {
            id,
            task,
            body,
            ends,
            is_in_snapshot,
            whole,
            notification,
            protobuf: OnceLock::new(),
        }
    }

    pub fn mark(&self) -> Mark {
        Mark {
            id: self.id,
            ends: self.ends,
            is_in_snapshot: self.is_in_snapshot,
            whole: self.whole,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.notification.len()
    }
}

/// What a batch holds so far.
#[derive(Default)]
pub(super) struct BatchSize {
    frames: usize,
    bytes: usize,
}

impl BatchSize {
    /// Whether the frame fits. The first one always does, however large.
    pub(super) fn add(&mut self, frame: &EncodedFrame) -> bool {
        let fits = !self.is_full();
        self.frames += 1;
        self.bytes += frame.size();
        fits
    }

    fn is_full(&self) -> bool {
        self.frames >= BATCH || self.bytes >= BATCH_BYTES
    }
}

/// One reader's cursor over a projection. It costs nothing else until the reader falls behind the frames in memory.
pub struct Frames {
    reader: ProjectionReader,
    head: watch::Receiver<Seq>,
    cursor: FrameId,
    /// While this reader is behind the frames in memory.
    catch_up: Option<Box<CatchUp>>,
    /// Where and for which principal large events are counted that this reader reads from the store.
    counting: Option<(ByteShares, Arc<str>)>,
    /// The reader ended because its large events could not be counted in time.
    over_limit: bool,
}

/// A fold of the log by one reader.
pub(super) struct CatchUp {
    projector: Projector,
    follower: Follower,
    /// Events that are read and not yet folded, one by one: a reader that stalls keeps no others in memory.
    events: VecDeque<Arc<Envelope>>,
    /// For the largest block of events so far.
    permit: Option<Arc<BytePermit>>,
    weight: usize,
}

impl CatchUp {
    fn new(handle: &SessionHandle, view: View) -> Self {
        let projector = Projector::new(handle.id().clone(), view).trimming();
        let follower = handle.follow(Seq::ZERO);
        Self { projector, follower, events: VecDeque::new(), permit: None, weight: SMALL }
    }
}

impl Frames {
    pub(super) fn new(reader: ProjectionReader, after: FrameId) -> Self {
        let head = reader.head.clone();
        let (catch_up, counting, over_limit) = (None, None, false);
        Self { reader, head, cursor: after, catch_up, counting, over_limit }
    }

    pub fn handle(&self) -> &SessionHandle {
        self.reader.handle()
    }

    /// Counts large events for this principal from now on.
    pub fn count(&mut self, replies: &ByteShares, principal: &Arc<str>) {
        self.counting = Some((replies.clone(), principal.clone()));
    }

    /// The permit of the last batch, if this reader has read large events itself.
    pub fn permit(&self) -> Option<Arc<BytePermit>> {
        self.catch_up.as_ref()?.permit.clone()
    }

    /// Whether the reader ended because its large events could not be counted in time.
    pub fn is_over_limit(&self) -> bool {
        self.over_limit
    }

    /// The last frame that was given to this reader.
    pub fn cursor(&self) -> FrameId {
        self.cursor
    }

    /// Whether everything up to `seq` was given to this reader.
    pub fn has_all_up_to(&self, seq: Seq) -> bool {
        let folded = *self.head.borrow() >= seq;
        folded && self.reader.newest_after(self.cursor).is_some_and(|rest| rest.is_empty())
    }

    /// The next frames, in order. None when the session has stopped and all frames were given, or when large events
    /// could not be counted in time.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<EncodedFrame>>>, StoreError> {
        loop {
            // Marked as seen before reading: a fold between reading and marking would not wake this reader.
            self.head.mark_unchanged();
            if let Some(frames) = self.reader.newest_after(self.cursor) {
                self.catch_up = None;
                if let Some(last) = frames.last() {
                    self.cursor = last.id;
                    return Ok(Some(frames));
                }
                if self.head.changed().await.is_err() {
                    let rest = self.reader.newest_after(self.cursor).unwrap_or_default();
                    self.cursor = rest.last().map_or(self.cursor, |last| last.id);
                    return Ok((!rest.is_empty()).then_some(rest));
                }
                continue;
            }
            match self.catch_up().await? {
                Some(frames) if frames.is_empty() => {}
                Some(frames) => return Ok(Some(frames)),
                None => return Ok(None),
            }
        }
    }

    /// One batch that this reader folds itself. Empty if it has seen all of its frames.
    async fn catch_up(&mut self) -> Result<Option<Vec<Arc<EncodedFrame>>>, StoreError> {
        let (handle, view) = (self.reader.handle(), self.reader.view());
        let own = self.catch_up.get_or_insert_with(|| Box::new(CatchUp::new(handle, view)));
        if own.events.is_empty() {
            let Some(events) = own.follower.next().await? else { return Ok(None) };
            own.events.extend(events);
            let weight = own.events.iter().map(|envelope| envelope.approx_bytes()).sum();
            if weight > own.weight
                && let Some((replies, principal)) = &self.counting
            {
                own.permit = None;
                own.permit = replies.try_acquire(principal, weight).map(Arc::new);
                own.weight = weight;
                if own.permit.is_none() {
                    // Dropped while it waits, and read again afterwards.
                    self.catch_up = None;
                    let permit = replies.acquire(principal, weight).await.map(Arc::new);
                    self.over_limit = permit.is_none();
                    if self.over_limit {
                        return Ok(None);
                    }
                    let again = CatchUp { permit, weight, ..CatchUp::new(handle, view) };
                    self.catch_up = Some(Box::new(again));
                    return Ok(Some(Vec::new()));
                }
            }
        }
        let (mut frames, mut size) = (Vec::new(), BatchSize::default());
        while !size.is_full()
            && let Some(envelope) = own.events.pop_front()
        {
            for frame in own.projector.resume(&envelope, self.cursor) {
                let encoded = EncodedFrame::new(handle.id(), frame);
                size.add(&encoded);
                frames.push(Arc::new(encoded));
            }
        }
        self.cursor = frames.last().map_or(self.cursor, |last| last.id);
        Ok(Some(frames))
    }
}

/// Folds the log up to an event and no further: a task as it was then.
pub(super) async fn fold_to(
    handle: &SessionHandle,
    view: View,
    seq: Seq,
) -> Result<Option<Projector>, StoreError> {
    let mut projector = Projector::new(handle.id().clone(), view);
    let mut follower = handle.follow(Seq::ZERO);
    while projector.head() < seq {
        let Some(events) = follower.next().await? else { return Ok(None) };
        let wanted = events.iter().take_while(|envelope| envelope.seq <= seq);
        wanted.for_each(|envelope| projector.fold(envelope));
    }
    Ok(Some(projector))
}
