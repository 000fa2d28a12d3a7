//! S1's schemas: the same fields, order and spelling.

use loggia_core::{CallFailure, Choice, Details, Output};
use serde::Serialize;
use serde_json::{Map, Value};

/// A whole call, in every update.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCall {
    pub tool_call_id: String,
    pub status: ToolCallStatus,
    pub tool_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub input_parameters: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation_request: Option<ConfirmationRequest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolCallStatus {
    Pending,
    Executing,
    Succeeded,
    Failed,
    Cancelled,
}

impl ToolCallStatus {
    /// For the ids of messages.
    pub fn word(self) -> &'static str {
        match self {
            ToolCallStatus::Pending => "pending",
            ToolCallStatus::Executing => "executing",
            ToolCallStatus::Succeeded => "succeeded",
            ToolCallStatus::Failed => "failed",
            ToolCallStatus::Cancelled => "cancelled",
        }
    }
}

/// Exactly one of the three.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutput {
    Text(String),
    Diff(FileDiff),
    StructuredData(Value),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorDetails {
    pub message: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfirmationRequest {
    pub options: Vec<ConfirmationOption>,
    #[serde(flatten)]
    pub details: ConfirmationDetails,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfirmationOption {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationDetails {
    ExecuteDetails { command: String, working_directory: String },
    FileEditDetails(FileDiff),
    McpDetails { server_name: String, tool_name: String },
    GenericDetails { description: String },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileDiff {
    pub file_name: String,
    pub file_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_content: Option<String>,
    pub new_content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formatted_diff: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentThought {
    pub subject: String,
    pub description: String,
}

impl From<&loggia_core::FileDiff> for FileDiff {
    fn from(diff: &loggia_core::FileDiff) -> Self {
        let name = diff.path.rsplit('/').next().unwrap_or_default();
        Self {
            file_name: name.to_owned(),
            file_path: diff.absolute_path.clone(),
            old_content: diff.old.clone(),
            new_content: diff.new.clone(),
            formatted_diff: Some(diff.unified.clone()),
        }
    }
}

impl From<&Details> for ConfirmationDetails {
    fn from(details: &Details) -> Self {
        match details {
            Details::Execute { command, directory } => Self::ExecuteDetails {
                command: command.clone(),
                working_directory: directory.clone(),
            },
            Details::Edit(diff) => Self::FileEditDetails(diff.into()),
            Details::Mcp { server, tool } => {
                Self::McpDetails { server_name: server.clone(), tool_name: tool.clone() }
            }
            Details::Question { text, .. } | Details::Generic { text } => {
                Self::GenericDetails { description: text.clone() }
            }
        }
    }
}

impl ConfirmationRequest {
    pub fn new(choices: &[Choice], details: &Details) -> Self {
        let options = choices.iter().map(|choice| ConfirmationOption {
            id: choice.id.0.clone(),
            name: choice.name.clone(),
            description: choice.description.clone(),
        });
        Self { options: options.collect(), details: details.into() }
    }
}

impl From<&Output> for ToolOutput {
    /// The diff of a changed file; otherwise the text; structured data only if there is no text.
    fn from(output: &Output) -> Self {
        match (&output.diff, &output.data) {
            (Some(diff), _) => Self::Diff(diff.into()),
            (None, Some(data)) if output.text.is_empty() => Self::StructuredData(object(data)),
            (None, _) => Self::Text(output.text.clone()),
        }
    }
}

impl From<&CallFailure> for ErrorDetails {
    fn from(failure: &CallFailure) -> Self {
        Self {
            message: failure.message.clone(),
            kind: Some(failure.kind.clone()),
            status_code: failure.code,
        }
    }
}

/// A `Struct` is an object; any other value is wrapped in one.
pub fn object(value: &Value) -> Value {
    match value {
        Value::Object(_) => value.clone(),
        Value::Null => Value::Object(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Value::Object(Map::from_iter([("value".to_owned(), value.clone())]))
        }
    }
}
