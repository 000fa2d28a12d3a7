//! The shipped server's records, with its spelling, as far as clients read them. Its stored state is left out, and so
//! are the description and the schemas of a tool, which it repeats with every event; the metadata route has them.

use serde::Serialize;
use serde_json::Value;

/// A whole call, in every update.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub request: Request,
    pub status: ToolStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation_details: Option<ConfirmationDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    pub tool: ToolName,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub call_id: String,
    pub name: String,
    pub args: Value,
    pub display: Display,
    pub is_client_initiated: bool,
    #[serde(rename = "prompt_id")]
    pub prompt_id: String,
    pub trace_id: String,
    pub scheduler_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Display {
    pub name: String,
    pub description: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Scheduled,
    AwaitingApproval,
    Executing,
    Success,
    Error,
    Cancelled,
}

impl ToolStatus {
    /// For the ids of messages.
    pub fn word(self) -> &'static str {
        match self {
            ToolStatus::Scheduled => "scheduled",
            ToolStatus::AwaitingApproval => "awaiting-approval",
            ToolStatus::Executing => "executing",
            ToolStatus::Success => "success",
            ToolStatus::Error => "error",
            ToolStatus::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolName {
    pub name: String,
    pub display_name: String,
    /// `edit`, `execute`, `read`, ….
    pub kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ConfirmationDetails {
    Edit {
        title: String,
        file_name: String,
        file_path: String,
        file_diff: String,
        original_content: String,
        new_content: String,
    },
    Exec {
        title: String,
        command: String,
        root_command: String,
        root_commands: Vec<String>,
    },
    Mcp {
        title: String,
        server_name: String,
        tool_name: String,
        tool_display_name: String,
        tool_args: Value,
    },
    Info {
        title: String,
        prompt: String,
        urls: Vec<String>,
    },
    AskUser {
        title: String,
        questions: Vec<AskedQuestion>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AskedQuestion {
    pub question: String,
    pub header: String,
    /// `choice` or `text`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub options: Vec<QuestionOption>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuestionOption {
    pub label: String,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    pub call_id: String,
    pub response_parts: Vec<Value>,
    /// A text, or a changed file.
    pub result_display: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    pub content_length: usize,
}
