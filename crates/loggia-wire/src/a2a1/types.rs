//! The shapes of A2A 1.0 as its protocol file has them, in their JSON form: camelCase, names of
//! enums in full, no discriminator but the member itself.

use loggia_core::TaskState;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::intent::PushTarget;

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
    #[serde(rename = "TASK_STATE_CANCELED")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
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
    pub parts: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Role {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    #[serde(flatten)]
    pub content: Option<PartContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PartContent {
    Text(String),
    /// Base64.
    Raw(String),
    Url(String),
    Data(Value),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTasksResponse {
    pub tasks: Vec<Value>,
    pub next_page_token: String,
    pub page_size: usize,
    pub total_size: usize,
}

/// Without the token and the credentials: they are for the webhook alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushNotificationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub task_id: String,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<AuthenticationInfo>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuthenticationInfo {
    pub scheme: String,
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
        }
    }
}

impl From<&loggia_core::Part> for Part {
    fn from(part: &loggia_core::Part) -> Self {
        match part {
            loggia_core::Part::Text { text } => {
                Part { content: Some(PartContent::Text(text.clone())), ..Part::default() }
            }
            loggia_core::Part::File { name, media_type, base64, uri } => Part {
                content: match (base64, uri) {
                    (Some(bytes), _) => Some(PartContent::Raw(bytes.clone())),
                    (None, uri) => uri.clone().map(PartContent::Url),
                },
                filename: name.clone(),
                media_type: media_type.clone(),
            },
            loggia_core::Part::Data { data } => {
                Part { content: Some(PartContent::Data(data.clone())), ..Part::default() }
            }
        }
    }
}

impl TaskPushNotificationConfig {
    pub fn shown(task: &str, target: &PushTarget) -> Self {
        Self {
            id: target.id.clone(),
            task_id: task.to_owned(),
            url: target.url.clone(),
            authentication: target.scheme.clone().map(|scheme| AuthenticationInfo { scheme }),
        }
    }
}
