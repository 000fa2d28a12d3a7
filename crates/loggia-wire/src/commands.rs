//! Slash commands on the wire: the command tree of the development-tool extension, and the immediate answer to
//! running one.

use loggia_core::{CustomCommand, CustomCommands, slash};
use serde::Serialize;

pub const GET: &str = "commands/get";
pub const EXECUTE: &str = "command/execute";
pub(crate) const METHODS: &[&str] = &[GET, EXECUTE];

/// The answer to `commands/get`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GetAllSlashCommandsResponse {
    pub commands: Vec<SlashCommand>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SlashCommand {
    pub name: String,
    pub description: String,
    pub arguments: Vec<SlashCommandArgument>,
    pub sub_commands: Vec<SlashCommand>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SlashCommandArgument {
    pub name: String,
    pub description: String,
    pub is_required: bool,
}

impl GetAllSlashCommandsResponse {
    /// The tree of built-in commands and custom ones.
    pub fn all(custom: &CustomCommands) -> Self {
        let own = slash::COMMANDS.iter().map(SlashCommand::from);
        Self { commands: own.chain(custom.commands.iter().map(SlashCommand::from)).collect() }
    }
}

impl From<&slash::SlashCommand> for SlashCommand {
    fn from(command: &slash::SlashCommand) -> Self {
        let argument = |argument: &slash::Argument| SlashCommandArgument {
            name: argument.name.to_owned(),
            description: argument.description.to_owned(),
            is_required: argument.required,
        };
        Self {
            name: command.name.to_owned(),
            description: command.description.to_owned(),
            arguments: command.arguments.iter().map(argument).collect(),
            sub_commands: command.sub_commands.iter().map(SlashCommand::from).collect(),
        }
    }
}

impl From<&CustomCommand> for SlashCommand {
    fn from(command: &CustomCommand) -> Self {
        let argument = SlashCommandArgument {
            name: "arguments".to_owned(),
            description: command.hint.clone().unwrap_or_default(),
            is_required: false,
        };
        Self {
            name: command.name.clone(),
            description: command.description.clone(),
            arguments: vec![argument],
            sub_commands: Vec::new(),
        }
    }
}

/// The answer to `command/execute`. The output comes as frames of the task that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecuteSlashCommandResponse {
    /// The task of this execution.
    pub execution_id: String,
    pub status: CommandExecutionStatus,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CommandExecutionStatus {
    Started,
    FailedToStart,
    AwaitingShellConfirmation,
    AwaitingActionConfirmation,
}
