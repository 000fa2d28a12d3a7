//! Answers that are not frames: the results of unary requests.

use loggia_core::{SessionId, TaskId};
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::intent::PushTarget;
use crate::project::update::ChatMessage;

/// The result of a send: a task, as [`Projector::snapshot`](crate::Projector::snapshot) gives it.
pub fn sent(dialect: Dialect, task: Value) -> Value {
    dialect.protocol().sent(task)
}

/// A direct answer without a task: the result of a send, or the only frame of a stream.
/// None where every answer is a task.
pub fn message(dialect: Dialect, session: &SessionId, id: &str, text: &str) -> Option<Value> {
    dialect.protocol().message(session, &ChatMessage::text(id, text))
}

/// A page of tasks, which only 1.0 defines. An empty token means that there is no next page.
pub fn page(tasks: Vec<Value>, next: Option<String>, page_size: usize, total_size: usize) -> Value {
    let next = next.unwrap_or_default();
    let mut page = json!({ "nextPageToken": next, "pageSize": page_size, "totalSize": total_size });
    page["tasks"] = Value::Array(tasks);
    page
}

/// A webhook as clients may see it: without its secrets.
pub fn push(dialect: Dialect, task: &TaskId, target: &PushTarget) -> Value {
    dialect.protocol().push_config(task, target)
}

pub fn pushes(dialect: Dialect, task: &TaskId, targets: &[PushTarget]) -> Value {
    let configs = targets.iter().map(|target| push(dialect, task, target));
    dialect.protocol().push_configs(configs.collect())
}

pub fn push_deleted(dialect: Dialect) -> Value {
    dialect.protocol().push_config_deleted()
}
