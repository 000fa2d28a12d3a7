//! The objects of the SDLC specification: the same fields, order and spelling.

use loggia_core::CustomCommands;
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::{GetAllSlashCommandsResponse, SlashCommand, SlashCommandArgument};
use crate::devtool::schema::ToolCallStatus;

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Event {
    ToolCallConfirmation {
        tool_call_id: String,
        tool_name: String,
        input_parameters: Value,
        confirmation_request: ConfirmationRequest,
    },
    ToolCallUpdate {
        tool_call_id: String,
        tool_name: String,
        status: ToolCallStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        input_parameters: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    TextContent {
        text: String,
        /// The chunks of one reply have one id.
        message_id: String,
    },
    StateChange {
        task_state: &'static str,
        task_id: String,
        context_id: String,
        timestamp: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    AgentSettings {
        workspace_path: String,
        auto_execute: bool,
    },
    Thought {
        subject: String,
        description: String,
    },
    Citation {
        title: String,
        uri: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfirmationRequest {
    pub title: String,
    pub prompt: String,
    #[serde(rename = "type")]
    pub kind: Severity,
}

/// How carefully a person should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    Warning,
    Danger,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskMetadata {
    pub id: String,
    pub context_id: String,
    pub task_state: &'static str,
    pub model: String,
    pub mcp_servers: Vec<Value>,
    /// Before [`super::metadata`] puts the tools here: the names of the allowed tools, or null for all.
    pub available_tools: Option<Vec<String>>,
}

/// A tool of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of its input.
    pub parameters: Value,
}

impl Tool {
    pub fn shown(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "parameterSchema": self.parameters,
        })
    }
}

/// The answer to `GET /listCommands`: every command with its full name.
pub fn commands(custom: &CustomCommands) -> Value {
    json!({ "commands": tree("", &GetAllSlashCommandsResponse::all(custom).commands) })
}

fn tree(above: &str, commands: &[SlashCommand]) -> Vec<Value> {
    let argument = |argument: &SlashCommandArgument| {
        json!({
            "name": argument.name,
            "description": argument.description,
            "isRequired": argument.is_required,
        })
    };
    let command = |command: &SlashCommand| {
        let name = format!("{above}{}", command.name);
        json!({
            "name": name,
            "description": command.description,
            "arguments": command.arguments.iter().map(argument).collect::<Vec<Value>>(),
            "subCommands": tree(&format!("{name} "), &command.sub_commands),
        })
    };
    commands.iter().map(command).collect()
}
