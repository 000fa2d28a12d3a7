//! The index of tasks, which lists read instead of folding logs.
//!
//! It is derived from the log and written in the same append. How a store keeps it, and how a task is shown, is not
//! decided here.

use loggia_core::{Millis, SessionId, TaskId, TaskState};

/// A task's row of the index after one step. A step has marks for the tasks whose status it changed. Stream events
/// change no status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMark {
    pub task: TaskId,
    pub state: TaskState,
    /// When the status last changed: the state, the prompts, or the open questions.
    pub updated: Millis,
    /// The principal that the session belongs to.
    pub principal: Option<String>,
}

/// Which tasks are wanted. A filter that is None admits every task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskQuery {
    pub session: Option<SessionId>,
    /// Tasks in sessions of this principal.
    pub principal: Option<String>,
    pub state: Option<TaskState>,
    /// Changed at this time or later.
    pub since: Option<Millis>,
    /// Only tasks after this position.
    pub after: Option<TaskPosition>,
    pub limit: usize,
}

/// A task's position in the list: the last changed first, and no two at the same position.
///
/// A page begins after a position, not at an offset, so that it stays correct while tasks change. A task that changes
/// moves to the front. A client that reads page after page gets every unchanged task exactly once (unless the clock
/// goes back), and finds the tasks that moved meanwhile with `since`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskPosition {
    pub updated: Millis,
    pub task: TaskId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTask {
    pub position: TaskPosition,
    pub session: SessionId,
    pub state: TaskState,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskPage {
    pub tasks: Vec<ListedTask>,
    /// The number of tasks on all pages.
    pub total: u64,
    /// There is a next page.
    pub more: bool,
}

impl TaskPage {
    /// Makes a page of tasks in any order. A surplus task says that there is a next page.
    pub fn of(mut tasks: Vec<ListedTask>, total: u64, limit: usize) -> Self {
        tasks.sort_by(|a, b| b.position.cmp(&a.position));
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        Self { tasks, total, more }
    }
}
