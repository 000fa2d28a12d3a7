//! The frames of one request, read from a projection. `loggia-wire` decides which they are and where they end.

use std::sync::Arc;

use loggia_core::{Question, Seq, SessionId, TaskId};
use loggia_session::{Ack, HubError};
use loggia_wire::{
    Answered, Condition, FrameId, Projector, Subscription, TaskStream, View, WireError,
};

use crate::guard::{BytePermit, ByteShares};
use crate::projection::{EncodedFrame, Frames, ProjectionReader};
use crate::state::{hub_error, stopped};

/// Where the stream of a message starts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StreamStart {
    /// With the frames of the accepted prompt, which contain the task.
    Prompt,
    /// With the task as it is now.
    Now,
    /// Where the stream before the answer ended. An answer that was given before gets the same stream again.
    Answer(Question),
    /// With the task as the answer left it, then as after an answer.
    TaskThenAnswer(Question),
}

impl StreamStart {
    pub(super) fn of_answer(view: View, ack: &Ack, to: Question) -> Self {
        let repeated = ack.seq == ack.after;
        match view.answer_opens_with_task() && !repeated {
            true => StreamStart::TaskThenAnswer(to),
            false => StreamStart::Answer(to),
        }
    }
}

/// The frames of one task, from its first frame to the end that the request asked for.
pub struct TaskFrames {
    opening: Option<Arc<EncodedFrame>>,
    frames: Frames,
    stream: TaskStream,
    /// The task was already over when the reader came: no frame follows this event.
    closes_at: Option<Seq>,
}

impl TaskFrames {
    /// The stream of a message that was acknowledged with `ack`.
    pub(super) async fn of_message(
        reader: &ProjectionReader,
        task: &TaskId,
        ack: &Ack,
        start: StreamStart,
    ) -> Result<Self, WireError> {
        let frames = reader.frames(FrameId { seq: ack.after, k: u32::MAX });
        let stream = TaskStream::of_message(task.clone());
        let mut this = Self { opening: None, frames, stream, closes_at: None };
        if start != StreamStart::Prompt {
            reader.reached(ack.seq).await?;
        }
        match start {
            StreamStart::Prompt => {}
            StreamStart::Now => this.open_with_task(reader, task).await?,
            StreamStart::Answer(to) => this.continue_after(reader, task, ack, &to).await?,
            StreamStart::TaskThenAnswer(to) => {
                this.continue_after(reader, task, ack, &to).await?;
                let mut opening = reader.beginning(task, ack.seq).await?;
                // A reader that resumes after it has seen none of the frames that follow.
                opening.id = this.frames.cursor();
                this.opening = Some(Arc::new(EncodedFrame::new(this.session(), opening)));
                this.stream = this.stream.with_opening_at(ack.seq);
            }
        }
        Ok(this)
    }

    /// The stream of a subscription. `resume` is the last frame that the reader has seen.
    pub(super) async fn of_subscription(
        reader: &ProjectionReader,
        task: &TaskId,
        resume: Option<FrameId>,
    ) -> Result<Self, WireError> {
        reader.reached(reader.handle().head()).await?;
        let (start, closes_at, head) = reader.with_projector(|projector| {
            let start = projector.subscription(task, resume);
            (start, ended_at(projector, task), projector.head())
        });
        let stream = TaskStream::of_subscription(task.clone());
        match start? {
            Subscription::After(seen) => {
                let (frames, stream) = (reader.frames(seen), stream.resumed(head));
                Ok(Self { opening: None, frames, stream, closes_at })
            }
            Subscription::Now => {
                let (opening, frames) = reader.opening(task).await?;
                Ok(Self { opening: Some(opening), frames, stream, closes_at: None })
            }
        }
    }

    async fn open_with_task(
        &mut self,
        reader: &ProjectionReader,
        task: &TaskId,
    ) -> Result<(), WireError> {
        let (opening, frames) = reader.opening(task).await?;
        (self.opening, self.frames) = (Some(opening), frames);
        Ok(())
    }

    /// Continues where the stream before an answer ended.
    async fn continue_after(
        &mut self,
        reader: &ProjectionReader,
        task: &TaskId,
        ack: &Ack,
        to: &Question,
    ) -> Result<(), WireError> {
        match reader.with_projector(|projector| projector.answered(to)) {
            Some(Answered { after, seq }) => {
                self.frames = reader.frames(after);
                self.stream = TaskStream::of_message(task.clone()).continued(seq);
            }
            // Given too long ago to be remembered.
            None if ack.seq == ack.after => self.open_with_task(reader, task).await?,
            None => {}
        }
        self.closes_at = reader.with_projector(|projector| ended_at(projector, task));
        Ok(())
    }

    /// Counts large events for this principal from now on.
    pub(super) fn count(&mut self, replies: &ByteShares, principal: &Arc<str>) {
        self.frames.count(replies, principal);
    }

    /// The permit of the last frames, if they are counted already.
    pub fn permit(&self) -> Option<Arc<BytePermit>> {
        self.frames.permit()
    }

    pub fn session(&self) -> &SessionId {
        self.frames.handle().id()
    }

    /// The next frames of the task; None at the end. An error ends the stream.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<EncodedFrame>>>, WireError> {
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
                if self.frames.is_over_limit() {
                    return Err(Condition::Busy.into());
                }
                return Err(stopped(self.frames.handle()));
            };
            batch.retain(|frame| self.stream.takes(&frame.task, frame.mark()));
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// The last event, if the task is over: no frame follows it.
fn ended_at(projector: &Projector, task: &TaskId) -> Option<Seq> {
    let over = projector.tasks().get(task).is_some_and(|view| view.state.is_over());
    over.then(|| projector.head())
}
