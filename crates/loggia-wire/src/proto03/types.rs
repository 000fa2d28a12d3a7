//! The shapes of A2A 0.3 as its protocol file has them, in their JSON form: what is written, and
//! nothing that is only read.

use loggia_core::TaskState;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::a2a1::types::Role;
use crate::a2a03::types::PushNotificationConfig;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub context_id: String,
    pub status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Message>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStatus {
    pub state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    pub timestamp: String,
}

/// With two l in *cancelled*, where everything else of A2A has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum State {
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELLED")]
    Canceled,
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
}

/// Exactly one member: what a stream carries, and what a send gives back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    Task(Task),
    Message(Message),
    StatusUpdate(TaskStatusUpdateEvent),
    ArtifactUpdate(TaskArtifactUpdateEvent),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatusUpdateEvent {
    pub task_id: String,
    pub context_id: String,
    pub status: TaskStatus,
    pub r#final: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskArtifactUpdateEvent {
    pub task_id: String,
    pub context_id: String,
    pub artifact: Artifact,
    pub append: bool,
    pub last_chunk: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub artifact_id: String,
    pub name: String,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub message_id: String,
    /// Only on a message that answers by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    pub role: Role,
    pub content: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    #[serde(flatten)]
    pub part: PartContent,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PartContent {
    Text(String),
    File(FilePart),
    Data(DataPart),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilePart {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_with_uri: Option<String>,
    /// Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_with_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataPart {
    pub data: Value,
}

/// `tasks/ID/pushNotificationConfigs/ID` and what is found there.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushNotificationConfig {
    pub name: String,
    pub push_notification_config: PushNotificationConfig,
}

impl From<TaskState> for State {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Submitted => State::Submitted,
            TaskState::Working => State::Working,
            TaskState::InputRequired => State::InputRequired,
            TaskState::Completed => State::Completed,
            TaskState::Failed => State::Failed,
            TaskState::Canceled => State::Canceled,
            TaskState::Rejected => State::Rejected,
        }
    }
}

impl From<&loggia_core::Part> for Part {
    fn from(part: &loggia_core::Part) -> Self {
        let plain = |part| Part { part, metadata: None };
        match part {
            loggia_core::Part::Text { text } => plain(PartContent::Text(text.clone())),
            loggia_core::Part::File { name, media_type, base64, uri } => {
                plain(PartContent::File(FilePart {
                    file_with_uri: uri.clone(),
                    file_with_bytes: base64.clone(),
                    mime_type: media_type.clone(),
                    name: name.clone(),
                }))
            }
            loggia_core::Part::Data { data } if data.is_object() => {
                plain(PartContent::Data(DataPart { data: data.clone() }))
            }
            // As in JSON-RPC: 0.3 knows objects only, and what is wrapped says so.
            loggia_core::Part::Data { data } => Part {
                part: PartContent::Data(DataPart { data: json!({ "value": data }) }),
                metadata: Some(json!({ "data_part_compat": true })),
            },
        }
    }
}
