//! The stream of one request: which frames of a session are in it, and where it ends.
//!
//! All bindings write the same streams. A stream has at most one whole task, as its first frame, and updates
//! after it, because clients keep one task for each stream.

use loggia_core::{Seq, TaskId};

use crate::project::{End, Frame, FrameId};

/// The properties of a frame by which a stream selects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub id: FrameId,
    pub ends: Option<End>,
    /// Contained in every later snapshot of the task.
    pub is_in_snapshot: bool,
    /// The whole task, not an update of it.
    pub whole: bool,
}

impl Frame {
    pub fn mark(&self) -> Mark {
        Mark {
            id: self.id,
            ends: self.ends,
            is_in_snapshot: self.is_in_snapshot,
            whole: self.whole,
        }
    }
}

/// Where a subscription to a task begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscription {
    /// With the task as it is now.
    Now,
    /// After this frame, without a task first.
    After(FrameId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The task is over or waits for an answer, which gets its own stream.
    QuestionOrEnd,
    /// The task is over.
    End,
}

/// The stream of one request about one task.
#[derive(Debug, Clone)]
pub struct TaskStream {
    task: TaskId,
    until: Until,
    /// A whole task may be the next frame.
    takes_task: bool,
    /// Frames up to here do not end the stream: the task has continued since.
    ends_after: Seq,
    /// The opening contains everything that stays in the task up to here.
    opening_head: Seq,
    over: bool,
}

impl TaskStream {
    /// Of a message: until the task is over or waits for an answer.
    pub fn of_message(task: TaskId) -> Self {
        let (ends_after, opening_head) = (Seq::ZERO, Seq::ZERO);
        Self {
            task,
            until: Until::QuestionOrEnd,
            takes_task: true,
            ends_after,
            opening_head,
            over: false,
        }
    }

    /// Of a subscription: until the task is over.
    pub fn of_subscription(task: TaskId) -> Self {
        Self { until: Until::End, ..Self::of_message(task) }
    }

    /// The same for a reader that has seen part of it. Frames up to the event `head` do not end it.
    #[must_use]
    pub fn resumed(self, head: Seq) -> Self {
        Self { ends_after: head, ..self }
    }

    /// The stream of an answer, which continues the stream before it. `answer` is the event of the answer.
    #[must_use]
    pub fn continued(self, answer: Seq) -> Self {
        Self { takes_task: false, ends_after: answer, ..self }
    }

    /// The opening, which is sent first, contains everything that stays in the task up to the event `opening_head`.
    #[must_use]
    pub fn with_opening_at(self, opening_head: Seq) -> Self {
        Self { opening_head, ..self }
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Accepts the opening, which was made for this stream.
    pub fn open(&mut self, opening: Mark) {
        self.takes_task = false;
        self.over = self.is_end(opening);
    }

    /// Whether the next frame of the session is in this stream.
    pub fn takes(&mut self, task: &TaskId, frame: Mark) -> bool {
        let seq = frame.id.seq;
        let shown = frame.is_in_snapshot && seq <= self.opening_head;
        // A question that was answered since must not end the stream.
        let overtaken = frame.ends == Some(End::InputRequired)
            && self.until == Until::QuestionOrEnd
            && seq <= self.ends_after;
        let second = frame.whole && !self.takes_task;
        if self.over || *task != self.task || shown || overtaken || second {
            return false;
        }
        self.takes_task = false;
        self.over = self.is_end(frame);
        true
    }

    fn is_end(&self, frame: Mark) -> bool {
        if frame.id.seq <= self.ends_after {
            return false;
        }
        match (frame.ends, self.until) {
            (None, _) | (Some(End::InputRequired), Until::End) => false,
            (Some(End::InputRequired | End::Terminal), Until::QuestionOrEnd)
            | (Some(End::Terminal), Until::End) => true,
        }
    }
}
