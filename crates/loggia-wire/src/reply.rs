//! Answers that are not frames: what a unary request gets, per dialect.

use loggia_core::{SessionId, TaskId};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::intent::PushTarget;
use crate::project::update::{Said, value_of};
use crate::{a2a1, a2a03, legacy, proto03};

/// The result of a send: a task, as [`Projector::snapshot`](crate::Projector::snapshot) gives it.
pub fn sent(dialect: Dialect, task: Value) -> Value {
    match dialect {
        Dialect::A2a03 | Dialect::Legacy | Dialect::Sdlc | Dialect::Coder => task,
        // Moved, not written anew as the macro would.
        Dialect::Proto03 | Dialect::A2a1 => {
            Value::Object(Map::from_iter([("task".to_owned(), task)]))
        }
    }
}

/// A direct answer without a task: the result of a send, or the only frame of a stream.
/// None where every answer is a task.
pub fn message(dialect: Dialect, session: &SessionId, id: &str, text: &str) -> Option<Value> {
    let said = Said::text(id, text);
    Some(match dialect {
        Dialect::Sdlc => value_of(&crate::sdlc::types::Event::TextContent {
            text: text.to_owned(),
            message_id: id.to_owned(),
        }),
        Dialect::A2a03 | Dialect::Coder => {
            let message = a2a03::project::message(&said);
            value_of(&a2a03::types::Message { context_id: Some(session.to_string()), ..message })
        }
        Dialect::Proto03 => {
            let message = proto03::project::message(&said);
            let context_id = Some(session.to_string());
            let message = proto03::types::Message { context_id, ..message };
            value_of(&proto03::types::StreamResponse::Message(message))
        }
        Dialect::A2a1 => {
            let message = a2a1::project::message(&said);
            let context_id = Some(session.as_str());
            let message = a2a1::types::Message { context_id, ..message };
            value_of(&a2a1::types::StreamResponse::Message(message))
        }
        Dialect::Legacy => return None,
    })
}

/// A page of tasks; 1.0 alone says how one looks. An empty token says that there is no next page.
pub fn page(tasks: Vec<Value>, next: Option<String>, page_size: usize, total_size: usize) -> Value {
    let next_page_token = next.unwrap_or_default();
    value_of(&a2a1::types::ListTasksResponse { tasks, next_page_token, page_size, total_size })
}

/// A callback as clients may see it: without its secrets.
pub fn push(dialect: Dialect, task: &TaskId, target: &PushTarget) -> Value {
    match dialect {
        Dialect::A2a03 | Dialect::Sdlc | Dialect::Coder => {
            value_of(&a2a03::types::TaskPushNotificationConfig {
                task_id: task.to_string(),
                push_notification_config: a2a03::types::PushNotificationConfig::shown(target),
            })
        }
        Dialect::Proto03 => {
            let config = target.id.as_deref().unwrap_or_default();
            value_of(&proto03::types::TaskPushNotificationConfig {
                name: format!("tasks/{task}/pushNotificationConfigs/{config}"),
                push_notification_config: a2a03::types::PushNotificationConfig::shown(target),
            })
        }
        Dialect::A2a1 => {
            value_of(&a2a1::types::TaskPushNotificationConfig::shown(task.as_str(), target))
        }
        Dialect::Legacy => value_of(&legacy::types::TaskPushNotificationConfig {
            id: task.to_string(),
            // There is one for each task, so it needs no name.
            push_notification_config: a2a03::types::PushNotificationConfig {
                id: None,
                ..a2a03::types::PushNotificationConfig::shown(target)
            },
        }),
    }
}

pub fn pushes(dialect: Dialect, task: &TaskId, targets: &[PushTarget]) -> Value {
    let configs: Vec<Value> = targets.iter().map(|target| push(dialect, task, target)).collect();
    match dialect {
        Dialect::A2a03 | Dialect::Legacy | Dialect::Sdlc | Dialect::Coder => Value::Array(configs),
        Dialect::Proto03 | Dialect::A2a1 => json!({ "configs": configs, "nextPageToken": "" }),
    }
}

pub fn push_deleted(dialect: Dialect) -> Value {
    match dialect {
        Dialect::A2a03 | Dialect::Legacy | Dialect::Sdlc | Dialect::Coder => Value::Null,
        Dialect::Proto03 | Dialect::A2a1 => Value::Object(Map::new()),
    }
}
