//! The stream of one request: which frames of a session are in it, and where it ends.
//!
//! Every binding writes the same streams, so what a stream holds is decided here once. A stream carries at most one
//! whole task, as its first frame, and updates after it: clients keep one task for each stream.

use loggia_core::{Seq, TaskId};

use crate::project::{End, Frame, FrameId};

/// What a stream decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub id: FrameId,
    pub ends: Option<End>,
    /// Contained in every later snapshot of the task.
    pub stays: bool,
    /// The whole task, not an update of it.
    pub whole: bool,
}

impl Frame {
    pub fn mark(&self) -> Mark {
        Mark { id: self.id, ends: self.ends, stays: self.stays, whole: self.whole }
    }
}

/// Where a subscription to a task begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscription {
    /// With the task as it is now.
    Now,
    /// After this frame, without a task in front.
    After(FrameId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The task is over or asks: the answer opens the next stream.
    Settled,
    /// The task is over.
    Over,
}

/// The stream of one request about one task.
#[derive(Debug, Clone)]
pub struct TaskStream {
    task: TaskId,
    until: Until,
    /// A whole task may be the next frame.
    takes_task: bool,
    /// Ends up to here are past: the task has gone on since.
    past: Seq,
    /// What stays in a task is in the opening up to here.
    shown: Seq,
    over: bool,
}

impl TaskStream {
    /// Of a message: until the task is over or asks.
    pub fn of_message(task: TaskId) -> Self {
        let (past, shown) = (Seq::ZERO, Seq::ZERO);
        Self { task, until: Until::Settled, takes_task: true, past, shown, over: false }
    }

    /// Of a subscription: until the task is over.
    pub fn of_subscription(task: TaskId) -> Self {
        Self { until: Until::Over, ..Self::of_message(task) }
    }

    /// The same where the reader has seen part of it. What ended up to the event `head` has not ended it.
    #[must_use]
    pub fn resumed(self, head: Seq) -> Self {
        Self { past: head, ..self }
    }

    /// The stream of an answer, given by the event `answer`, which continues the stream before it.
    #[must_use]
    pub fn continued(self, answer: Seq) -> Self {
        Self { takes_task: false, past: answer, ..self }
    }

    /// An opening is sent in front that contains what stays up to the event `shown`.
    #[must_use]
    pub fn showing(self, shown: Seq) -> Self {
        Self { shown, ..self }
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Takes the opening, which was made for this stream.
    pub fn open(&mut self, opening: Mark) {
        self.takes_task = false;
        self.over = self.is_end(opening);
    }

    /// Whether the next frame of the session is in this stream.
    pub fn takes(&mut self, task: &TaskId, frame: Mark) -> bool {
        let seq = frame.id.seq;
        let shown = frame.stays && seq <= self.shown;
        // A question that a later answer has overtaken would be taken for the end.
        let overtaken = frame.ends == Some(End::InputRequired)
            && self.until == Until::Settled
            && seq <= self.past;
        let second = frame.whole && !self.takes_task;
        if self.over || *task != self.task || shown || overtaken || second {
            return false;
        }
        self.takes_task = false;
        self.over = self.is_end(frame);
        true
    }

    fn is_end(&self, frame: Mark) -> bool {
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
