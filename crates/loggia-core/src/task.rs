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

impl Session {
    /// accepted → submitted, turn started → working, open question → input-required, ended → outcome.
    /// A task whose next prompt waits when its turn ends stays working.
    pub fn task_state(&self, task: &TaskId) -> Option<TaskState> {
        let known = self.tasks.get(task)?;
        if let Some(turn) = self.turn().filter(|turn| turn.task == *task) {
            let asked = turn.calls.iter().any(|call| call.approval.is_some());
            return Some(if asked { TaskState::InputRequired } else { TaskState::Working });
        }
        Some(match known.last {
            Some(ended) if known.waiting == 0 => ended,
            // Between two of its turns.
            Some(_) | None if known.at_work => TaskState::Working,
            Some(_) | None => TaskState::Submitted,
        })
    }
}
