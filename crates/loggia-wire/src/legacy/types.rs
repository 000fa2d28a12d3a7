//! The objects of the legacy service: the members of A2A 0.1 and of the services built on it, together. The state is in
//! `state` and in `status.state`, with the agent's message beside each.

use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub session_id: String,
    pub state: &'static str,
    pub status: TaskStatus,
    pub message: Message,
    /// The parameters of the request.
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
    pub state: &'static str,
    pub message: Message,
    pub timestamp: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatusUpdateEvent {
    pub id: String,
    pub session_id: String,
    pub state: &'static str,
    pub status: TaskStatus,
    pub message: Message,
    /// With the last event of a task, for clients that read no other event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    pub r#final: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskArtifactUpdateEvent {
    pub id: String,
    pub artifact: Artifact,
}

/// A whole artifact, or a chunk of one. Chunks of one artifact have the same index.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub name: String,
    pub mime_type: String,
    pub parts: Vec<Value>,
    pub index: usize,
    pub append: bool,
    pub last_chunk: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    pub role: &'static str,
    pub parts: Vec<Value>,
}
