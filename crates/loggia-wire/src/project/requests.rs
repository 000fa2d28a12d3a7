//! Where the streams of the latest prompts and answers begin.

use std::collections::{HashMap, VecDeque};

use loggia_core::{
    ApprovalId, CallId, Envelope, Event, Origin, PromptId, Question, Seq, Surface, TaskId,
};

use super::frame::FrameId;

/// How many prompts, and how many answers, are remembered.
const REMEMBERED: usize = 256;

/// Where the stream of an answer continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Where the stream before it ended.
    pub after: FrameId,
    /// The event of the answer.
    pub seq: Seq,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    waiting: HashMap<TaskId, WaitingTask>,
    /// Each with the frame after which its stream begins.
    prompts: VecDeque<(PromptId, FrameId)>,
    answers: VecDeque<(ApprovalId, CallId, Answered)>,
}

/// A task that waits for an answer.
#[derive(Debug, Clone, Copy)]
struct WaitingTask {
    /// Where the stream of its latest request ended.
    since: FrameId,
    /// A client has answered, and the stream of the answer has not ended.
    answered: bool,
}

impl Requests {
    pub fn prompted_after(&self, prompt: &PromptId) -> Option<FrameId> {
        self.prompts.iter().rev().find(|(id, _)| id == prompt).map(|(_, after)| *after)
    }

    pub fn answered(&self, to: &Question) -> Option<Answered> {
        let named = |(approval, call, _): &&(ApprovalId, CallId, Answered)| to.is(call, approval);
        self.answers.iter().rev().find(named).map(|(_, _, answered)| *answered)
    }

    /// Records a frame that ends the streams of requests because the task waits for an answer. Of several such
    /// frames, the first one ends them.
    pub fn ended_at(&mut self, task: &TaskId, id: FrameId) {
        let before = self.waiting.get(task).filter(|waiting| !waiting.answered);
        let since = before.map_or(id, |waiting| waiting.since);
        self.waiting.insert(task.clone(), WaitingTask { since, answered: false });
    }

    /// Records where the stream of this request begins.
    pub fn apply(&mut self, task: &TaskId, envelope: &Envelope) {
        let before = FrameId { seq: Seq(envelope.seq.0.saturating_sub(1)), k: u32::MAX };
        match &envelope.event {
            Event::PromptAccepted { prompt, .. } => {
                remember(&mut self.prompts, (prompt.clone(), before));
            }
            Event::ApprovalAnswered { approval, call, .. } => {
                let after = self.waiting.get_mut(task).map_or(before, |waiting| {
                    waiting.answered |= is_by_client(&envelope.origin);
                    waiting.since
                });
                let answered = Answered { after, seq: envelope.seq };
                remember(&mut self.answers, (approval.clone(), call.clone(), answered));
            }
            Event::TurnEnded { .. } => drop(self.waiting.remove(task)),
            _ => {}
        }
    }
}

fn remember<T>(items: &mut VecDeque<T>, item: T) {
    items.push_back(item);
    if items.len() > REMEMBERED {
        items.pop_front();
    }
}

/// Whether an event is by a client that may read its outcome as a stream. An answer from a terminal or from a timeout
/// opens no stream.
pub(super) fn is_by_client(origin: &Origin) -> bool {
    match origin.surface {
        Surface::A2a | Surface::Sdlc | Surface::Legacy => true,
        Surface::Cli
        | Surface::Tui
        | Surface::Acp
        | Surface::Web
        | Surface::Agent
        | Surface::Policy
        | Surface::System => false,
    }
}
