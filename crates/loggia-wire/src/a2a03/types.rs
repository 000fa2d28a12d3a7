//! The shapes of A2A 0.3 as its `types.ts` has them: what is written, and nothing that is only
//! read.

use loggia_core::TaskState;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::intent::PushTarget;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename = "task")]
pub struct Task {
    pub id: String,
    pub context_id: String,
    pub status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Message>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStatus {
    pub state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    pub timestamp: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Canceled,
    Failed,
    Rejected,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename = "status-update")]
pub struct TaskStatusUpdateEvent {
    pub task_id: String,
    pub context_id: String,
    pub status: TaskStatus,
    pub r#final: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename = "artifact-update")]
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
#[serde(rename_all = "camelCase", tag = "kind", rename = "message")]
pub struct Message {
    pub message_id: String,
    pub role: Role,
    pub parts: Vec<Part>,
    /// Only on a message that answers by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Agent,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Part {
    Text {
        text: String,
    },
    File {
        file: File,
    },
    Data {
        data: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
}

/// Bytes or an address.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushNotificationConfig {
    pub task_id: String,
    pub push_notification_config: PushNotificationConfig,
}

/// Without the token and the credentials: they are for the webhook alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PushNotificationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Authentication {
    pub schemes: Vec<String>,
}

impl State {
    /// For protocols that know six states: what was rejected has failed there.
    pub fn of_six(state: TaskState) -> Self {
        match state {
            TaskState::Rejected => State::Failed,
            known => known.into(),
        }
    }
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
            loggia_core::Part::Data { data } => object_part(data),
        }
    }
}

/// 0.3 knows objects only. What came in as something else is wrapped, and says so in the way the
/// Python SDK does.
fn object_part(data: &Value) -> Part {
    match data.is_object() {
        true => Part::Data { data: data.clone(), metadata: None },
        false => Part::Data {
            data: json!({ "value": data }),
            metadata: Some(json!({ "data_part_compat": true })),
        },
    }
}

impl PushNotificationConfig {
    pub fn shown(target: &PushTarget) -> Self {
        Self {
            id: target.id.clone(),
            url: target.url.clone(),
            authentication: target
                .scheme
                .as_ref()
                .map(|scheme| Authentication { schemes: vec![scheme.clone()] }),
        }
    }
}
