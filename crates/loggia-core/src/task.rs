//! The task state that clients see. It is derived from the session and never stored.

pub mod view;

use serde::{Deserialize, Serialize};

use crate::event::{Screening, TurnOutcome};
use crate::id::TaskId;
use crate::session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

impl TaskState {
    pub fn of_screening(screening: &Screening) -> Self {
        match screening {
            Screening::Rejected { .. } => TaskState::Rejected,
            Screening::Answered { .. } => TaskState::Completed,
        }
    }

    pub fn of_outcome(outcome: &TurnOutcome) -> Self {
        match outcome {
            TurnOutcome::Completed => TaskState::Completed,
            TurnOutcome::Failed { .. } | TurnOutcome::Interrupted => TaskState::Failed,
            TurnOutcome::Cancelled => TaskState::Canceled,
        }
    }

    pub fn is_over(self) -> bool {
        match self {
            TaskState::Completed
            | TaskState::Failed
            | TaskState::Canceled
            | TaskState::Rejected => true,
            TaskState::Submitted | TaskState::Working | TaskState::InputRequired => false,
        }
    }
}

/// The part of a task that its state depends on. Both folds of the log, [`Session`] and [`view::Tasks`],
/// keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TaskProgress {
    /// Prompts of this task that wait or run.
    waiting: usize,
    /// The state after its last prompt.
    last: Option<TaskState>,
    /// A turn of it has started, and since then a prompt of it was always waiting or running.
    at_work: bool,
}

impl TaskProgress {
    pub fn accept_prompt(&mut self) {
        self.waiting += 1;
    }

    pub fn start_turn(&mut self) {
        self.at_work = true;
    }

    pub fn finish_prompt(&mut self, state: TaskState) {
        self.waiting = self.waiting.saturating_sub(1);
        self.last = Some(state);
        self.at_work &= self.waiting > 0;
    }

    /// Whether it was opened and has no message yet.
    pub fn is_ready(&self) -> bool {
        self.waiting == 0 && self.last.is_none()
    }

    /// `asked`: whether a question is open; None if no turn of the task is open.
    pub fn state(&self, asked: Option<bool>) -> TaskState {
        match (asked, self.last) {
            (Some(true), _) => TaskState::InputRequired,
            (Some(false), _) => TaskState::Working,
            (None, Some(ended)) if self.waiting == 0 => ended,
            // Between two of its turns.
            (None, _) if self.at_work => TaskState::Working,
            (None, _) => TaskState::Submitted,
        }
    }
}

impl Session {
    /// accepted → submitted, turn started → working, open question → input-required, ended → outcome.
    /// A task whose next prompt waits when its turn ends stays working.
    pub fn task_state(&self, task: &TaskId) -> Option<TaskState> {
        let known = self.tasks.get(task)?;
        let turn = self.turn().filter(|turn| turn.task == *task);
        let asked = turn.map(|turn| turn.calls.iter().any(|call| call.approval.is_some()));
        Some(known.progress.state(asked))
    }
}
