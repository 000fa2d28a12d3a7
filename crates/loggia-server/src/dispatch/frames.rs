//! The frames of one request, read from a projection. Which they are, and where they end, is the wire's to say.

use std::sync::Arc;

use loggia_core::{Seq, SessionId};
use loggia_session::HubError;
use loggia_wire::{Condition, TaskStream, WireError};

use crate::guard::{BytePermit, ByteShares};
use crate::projection::{Encoded, Frames};
use crate::state::{hub_error, stopped};

/// The frames of one task, from an opening to the end that the request asked for.
pub struct TaskFrames {
    pub(super) opening: Option<Arc<Encoded>>,
    pub(super) frames: Frames,
    pub(super) stream: TaskStream,
    /// The task was over already when the reader came: nothing more comes after this event.
    pub(super) closes_at: Option<Seq>,
}

impl TaskFrames {
    pub(super) fn new(frames: Frames, stream: TaskStream) -> Self {
        Self { opening: None, frames, stream, closes_at: None }
    }

    /// Large events count for this principal from now on.
    pub(super) fn count(&mut self, replies: &ByteShares, principal: &Arc<str>) {
        self.frames.count(replies, principal);
    }

    /// What the frames count that were given last, if they do so already.
    pub fn counted(&self) -> Option<Arc<BytePermit>> {
        self.frames.counted()
    }

    pub fn session(&self) -> &SessionId {
        self.frames.projection().handle().id()
    }

    /// The next frames of the task; None at the end. An error ends the stream.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Encoded>>>, WireError> {
        if let Some(opening) = self.opening.take() {
            self.stream.open(opening.mark());
            return Ok(Some(vec![opening]));
        }
        while !self.stream.is_over() {
            if self.closes_at.is_some_and(|seq| self.frames.has_all_up_to(seq)) {
                return Ok(None);
            }
            let batch = self.frames.next().await;
            let batch = batch.map_err(|error| hub_error(HubError::Store(error)))?;
            let Some(mut batch) = batch else {
                if self.frames.is_crowded() {
                    return Err(Condition::Busy.into());
                }
                return Err(stopped(self.frames.projection().handle()));
            };
            batch.retain(|frame| self.stream.takes(&frame.task, frame.mark()));
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}
