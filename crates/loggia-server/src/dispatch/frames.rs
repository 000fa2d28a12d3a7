//! What a reader of one task gets of a session's frames, and where it ends.

use std::sync::Arc;

use loggia_core::{Seq, SessionId, TaskId};
use loggia_session::HubError;
use loggia_wire::{End, WireError};

use crate::projection::{Encoded, Frames};
use crate::state::{hub_error, stopped};

/// The frames of one task, from an opening to the end that the request asked for.
pub struct TaskFrames {
    pub(super) opening: Option<Arc<Encoded>>,
    pub(super) frames: Frames,
    pub(super) task: TaskId,
    pub(super) until: Until,
    pub(super) over: bool,
    /// The task was over already when the reader came: nothing more comes after this event.
    pub(super) closes_at: Option<Seq>,
    /// What ended up to here is past: the task has gone on since, or it is over at `closes_at`.
    pub(super) past: Seq,
    /// What stays in a task is in the opening up to here.
    pub(super) shown: Seq,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The task is over or asks: the answer opens the next stream.
    Settled,
    /// The task is over.
    Over,
}

impl TaskFrames {
    pub fn session(&self) -> &SessionId {
        self.frames.projection().handle().id()
    }

    /// The next frames of the task; None at the end. An error ends the stream.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Encoded>>>, WireError> {
        if let Some(opening) = self.opening.take() {
            self.over = self.ends(&opening);
            return Ok(Some(vec![opening]));
        }
        while !self.over {
            if self.closes_at.is_some_and(|seq| self.frames.has_all_up_to(seq)) {
                return Ok(None);
            }
            let batch = self.frames.next().await;
            let batch = batch.map_err(|error| hub_error(HubError::Store(error)))?;
            let Some(batch) = batch else {
                return Err(stopped(self.frames.projection().handle()));
            };
            let mut mine = Vec::new();
            for frame in batch {
                if !self.is_new(&frame) {
                    continue;
                }
                self.over = self.ends(&frame);
                mine.push(frame);
                if self.over {
                    break;
                }
            }
            if !mine.is_empty() {
                return Ok(Some(mine));
            }
        }
        Ok(None)
    }

    fn is_new(&self, frame: &Encoded) -> bool {
        let seq = frame.id.seq;
        let shown = frame.stays && seq <= self.shown;
        // A question that ends nothing any more, where it would be taken for the end.
        let asked = frame.ends == Some(End::InputRequired) && self.until == Until::Settled;
        frame.task == self.task && !shown && !(asked && seq <= self.past)
    }

    fn ends(&self, frame: &Encoded) -> bool {
        if frame.id.seq <= self.past {
            return false;
        }
        match (frame.ends, self.until) {
            (None, _) | (Some(End::InputRequired), Until::Over) => false,
            (Some(End::InputRequired | End::Terminal), Until::Settled)
            | (Some(End::Terminal), Until::Over) => true,
        }
    }
}
