//! The shapes of the task service: what A2A 0.1 writes, and what services built on it write, in
//! one. The state stands in `state` and in `status.state`, the agent's word beside each.

use serde::Serialize;
use serde_json::{Value, json};

use crate::a2a03::types::{File, PushNotificationConfig, Role, State};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub session_id: String,
    pub state: State,
    pub status: TaskStatus,
    pub message: Message,
    /// What was sent, word for word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Message>>,
    pub created_at: String,
    pub updated_at: String,
    /// Only in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#final: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStatus {
    pub state: State,
    pub message: Message,
    pub timestamp: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatusUpdateEvent {
    pub id: String,
    pub session_id: String,
    pub state: State,
    pub status: TaskStatus,
    pub message: Message,
    /// With the last event of a task, for whoever reads no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    pub r#final: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskArtifactUpdateEvent {
    pub id: String,
    pub artifact: Artifact,
}

/// A whole artifact, or a piece of one: pieces belong together by their index.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub name: String,
    pub mime_type: String,
    pub parts: Vec<Part>,
    pub index: usize,
    pub append: bool,
    pub last_chunk: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum Part {
    Text { text: String },
    File { file: File },
    Data { data: Value },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushNotificationConfig {
    pub id: String,
    pub push_notification_config: PushNotificationConfig,
}

impl From<&loggia_core::Part> for Part {
    fn from(part: &loggia_core::Part) -> Self {
        match part {
            loggia_core::Part::Text { text } => Part::Text { text: text.clone() },
            loggia_core::Part::File { name, media_type, base64, uri } => Part::File {
                file: File {
                    name: name.clone(),
                    mime_type: media_type.clone(),
                    bytes: base64.clone(),
                    uri: uri.clone(),
                },
            },
            // 0.1 knows objects only.
            loggia_core::Part::Data { data } if data.is_object() => {
                Part::Data { data: data.clone() }
            }
            loggia_core::Part::Data { data } => Part::Data { data: json!({ "value": data }) },
        }
    }
}
