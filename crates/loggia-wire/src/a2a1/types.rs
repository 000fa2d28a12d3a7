//! The shapes of A2A 1.0 as its protocol file has them, in their JSON form: camelCase, names of
//! enums in full, no discriminator but the member itself.
//!
//! They borrow what they say. Members stand in the order of their names, so that what is written down
//! at once reads like what was a value before.

use loggia_core::{Part, TaskState};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::intent::PushTarget;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact<'a>>>,
    pub context_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Message<'a>>>,
    pub id: &'a str,
    pub status: TaskStatus<'a>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStatus<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message<'a>>,
    pub state: State,
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
pub enum StreamResponse<'a> {
    Task(Task<'a>),
    Message(Message<'a>),
    StatusUpdate(TaskStatusUpdateEvent<'a>),
    ArtifactUpdate(TaskArtifactUpdateEvent<'a>),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatusUpdateEvent<'a> {
    pub context_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    pub status: TaskStatus<'a>,
    pub task_id: &'a str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskArtifactUpdateEvent<'a> {
    pub append: bool,
    pub artifact: Artifact<'a>,
    pub context_id: &'a str,
    pub last_chunk: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    pub task_id: &'a str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact<'a> {
    pub artifact_id: &'a str,
    pub name: &'a str,
    pub parts: Parts<'a>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message<'a> {
    /// Only on a message that answers by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<&'a str>,
    pub message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<&'a Value>,
    pub parts: Parts<'a>,
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Role {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// Parts as the log has them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parts<'a>(pub &'a [Part]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.iter().map(Written))
    }
}

struct Written<'a>(&'a Part);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut out = out.serialize_map(None)?;
        match self.0 {
            Part::Text { text } => out.serialize_entry("text", text)?,
            Part::Data { data } => out.serialize_entry("data", data)?,
            Part::File { name, media_type, base64, uri } => {
                if let Some(name) = name {
                    out.serialize_entry("filename", name)?;
                }
                if let Some(media_type) = media_type {
                    out.serialize_entry("mediaType", media_type)?;
                }
                match (base64, uri) {
                    (Some(bytes), _) => out.serialize_entry("raw", bytes)?,
                    (None, Some(uri)) => out.serialize_entry("url", uri)?,
                    (None, None) => {}
                }
            }
        }
        out.end()
    }
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
            TaskState::Rejected => State::Rejected,
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
