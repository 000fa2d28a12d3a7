//! The legacy task service: `tasks/send` and its family, as A2A 0.1 and the services built on it write
//! them. Clients choose the ids of their tasks, poll for results, and cannot answer questions.
//!
//! It is one more dialect of the same log: a prompt keeps the request of its client ([`request`]), a digest leads from
//! the client's task id to the task ([`name`]), and every answer is a projection. No table of names and no state outside
//! of the log belongs here.

pub mod card;
pub mod decode;
pub mod name;
mod project;
pub mod request;
pub mod schema;
pub mod words;

use loggia_core::{SessionId, Surface, TaskArtifact, TaskId, TaskView};
use serde_json::{Value, json};

use crate::a2a;
use crate::dialect::Extension;
use crate::intent::{DecodedRequest, PushTarget};
use crate::project::snapshot::TaskSnapshot;
use crate::project::update::{ArtifactChunk, ChatMessage, FrameContext, StatusChange};
use crate::protocol::Protocol;
use crate::read::Read;
use crate::refuse::{MISSING, Violation, WireError};
pub use decode::{DecodeOptions, TaskIds, decode, decode_bare};

pub(crate) struct Legacy;

/// The name of `tasks/sendSubscribe` in python-a2a.
pub(crate) const STREAM: &str = "tasks/stream";

/// Methods that name an existing task.
pub(crate) fn names_task(method: &str) -> bool {
    is_shared(method) || method.starts_with("tasks/pushNotification/")
}

/// Methods that A2A 0.3 has under the same names. The task tells which protocol is meant.
pub fn is_shared(method: &str) -> bool {
    ["tasks/get", "tasks/cancel", "tasks/resubscribe"].contains(&method)
}

impl Protocol for Legacy {
    fn is_a2a(&self) -> bool {
        false
    }

    fn version_name(&self) -> &'static str {
        "0.1"
    }

    /// It is older than the header.
    fn has_version_header(&self) -> bool {
        false
    }

    /// Without the shared ones.
    fn methods(&self) -> &'static [&'static str] {
        &[
            "tasks/send",
            "tasks/sendSubscribe",
            STREAM,
            "tasks/pushNotification/set",
            "tasks/pushNotification/get",
        ]
    }

    fn streaming_methods(&self) -> &'static [&'static str] {
        &["tasks/sendSubscribe", STREAM]
    }

    /// Its calls are decoded by [`decode()`], because the task ids in them depend on the client.
    fn decode(&self, _: &str, _: &Value, _: Extension) -> Read<DecodedRequest> {
        Err(WireError::MethodNotFound)
    }

    fn surface(&self) -> Surface {
        Surface::Legacy
    }

    /// `Invalid params: 'id' is required.`
    fn error_message(&self, error: &WireError) -> String {
        match error {
            WireError::Invalid(Violation { field, why }) => {
                let why = if why == MISSING { "is required" } else { why };
                format!("Invalid params: '{field}' {why}.")
            }
            other => other.to_string(),
        }
    }

    fn task(&self, task: TaskSnapshot<'_>) -> Value {
        project::task(&task)
    }

    fn task_frame(&self, task: TaskSnapshot<'_>) -> Value {
        project::task_frame(task)
    }

    fn continued_task_frame(&self, mut frame: Value) -> Value {
        if let Some(last) = frame.get_mut("final") {
            *last = false.into();
        }
        frame
    }

    fn status_frame(&self, at: &FrameContext<'_>, task: &TaskView, status: &StatusChange) -> Value {
        project::status_frame(at, task, status)
    }

    fn artifact_frame(
        &self,
        _: &FrameContext<'_>,
        task: &TaskView,
        chunk: &ArtifactChunk,
    ) -> Value {
        project::artifact_frame(task, chunk)
    }

    /// Artifacts are numbered in the order in which they came, and listed so.
    fn artifacts<'a>(&self, task: &'a TaskView) -> Vec<&'a TaskArtifact> {
        task.artifacts.iter().collect()
    }

    fn message(&self, _: &SessionId, _: &ChatMessage) -> Option<Value> {
        None
    }

    /// A task has one webhook, which needs no id.
    fn push_config(&self, task: &TaskId, target: &PushTarget) -> Value {
        let config = a2a::push_config(&PushTarget { id: None, ..target.clone() });
        json!({ "id": task, "pushNotificationConfig": config })
    }

    fn has_client_task_ids(&self) -> bool {
        true
    }

    fn client_task_id<'a>(&self, task: &'a TaskView) -> Option<&'a str> {
        request::client_task_id(task)
    }
}
