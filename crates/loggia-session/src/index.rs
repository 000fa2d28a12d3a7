//! The index of tasks: what a list needs to know of every task without folding a log.
//!
//! It is derived from the log and written with it, in one append. Not here: how a store keeps it,
//! and what a task looks like to anybody.

use loggia_core::{Millis, SessionId, TaskId, TaskState};

/// A task as one step left it. A step carries marks for the tasks whose status it changed, and for
/// no others: a word of a stream is no change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMark {
    pub task: TaskId,
    pub state: TaskState,
    /// When the status last changed: the state, the prompts, or the open questions.
    pub updated: Millis,
    /// Whose session it is.
    pub principal: Option<String>,
}

/// Which tasks are wanted. Everything that is None admits every task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskQuery {
    pub session: Option<SessionId>,
    /// Tasks in sessions of this principal.
    pub principal: Option<String>,
    pub state: Option<TaskState>,
    /// Changed at this moment or later.
    pub since: Option<Millis>,
    /// Only what comes behind this place.
    pub after: Option<TaskPlace>,
    pub limit: usize,
}

/// A task's place in the list: the last changed first, and no two at the same place.
///
/// A page begins behind a place, not at a number, so it stays right while tasks change. A task
/// that changes moves to the front: whoever pages on does not meet it a second time, and meets
/// every task that did not change exactly once (as long as the clock does not go back). What moved
/// meanwhile is found by asking anew with `since`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskPlace {
    pub updated: Millis,
    pub task: TaskId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTask {
    pub place: TaskPlace,
    pub session: SessionId,
    pub state: TaskState,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskPage {
    pub tasks: Vec<ListedTask>,
    /// How many tasks the query admits on all pages together.
    pub total: u64,
    /// There is something behind the last one.
    pub more: bool,
}

impl TaskPage {
    /// A page of tasks that are in any order, of which there may be one more than wanted.
    pub fn of(mut tasks: Vec<ListedTask>, total: u64, limit: usize) -> Self {
        tasks.sort_by(|a, b| b.place.cmp(&a.place));
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        Self { tasks, total, more }
    }
}
