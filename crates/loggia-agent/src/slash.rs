//! Runs the slash commands that `loggia_core::slash` parses.
//!
//! A command is a turn: its text is the agent's, and its changes are calls that need a permit. No model
//! sees it. A command that waited for an approval when Loggia stopped resumes its call.
//!
//! Must not contain the names, arguments and help of the commands, which every front end needs.

mod approvals;
mod compact;
mod init;
mod memory;
mod model;
mod name;
mod project_scan;
mod report;

use loggia_core::slash::{self, Slash, SlashError};
use loggia_core::{CallOutcome, CustomCommands, Level};
use loggia_session::{Turn, TurnOver};

use crate::native::NativeAgent;

pub async fn run(agent: &NativeAgent, turn: &Turn, command: Slash) -> Result<(), TurnOver> {
    match command {
        Slash::Help { about } if about.is_empty() => {
            say(turn, help(&agent.custom(turn).await?)).await
        }
        Slash::Help { about } => say(turn, slash::explain(&about)).await,
        // The turn loop expands a custom command; this is reached only if its file is missing.
        Slash::Custom { name, .. } | Slash::HelpCustom { name } => {
            say(turn, agent.custom(turn).await?.explain(&name)).await
        }
        Slash::About => say(turn, report::about(turn.context())).await,
        Slash::Tools => say(turn, report::tools(agent.tools())).await,
        Slash::Stats => report::stats(agent, turn).await,
        Slash::ApprovalsList => approvals::list(turn).await,
        Slash::ApprovalsRevoke { rule } => approvals::revoke(turn, &rule).await,
        Slash::Init => init::init(agent, turn).await,
        Slash::MemoryShow => memory::show(agent, turn).await,
        Slash::MemoryList => memory::list(agent, turn).await,
        Slash::MemoryAdd { text } => memory::add(agent, turn, &text).await,
        Slash::Compact { focus } => compact::compact(agent, turn, focus.as_deref()).await,
        Slash::Clear => compact::clear(turn).await,
        Slash::Name { name } => name::name(turn, name.as_deref()).await,
        Slash::Model { name } => model::model(agent, turn, name.as_deref()).await,
        Slash::Effort { level } => model::effort(turn, level.as_deref()).await,
    }
}

/// Explains why a line is not a command.
pub async fn explain(
    turn: &Turn,
    custom: &CustomCommands,
    error: &SlashError,
) -> Result<(), TurnOver> {
    let text = format!(
        "{error}.\n\n{}\n\nTo send a message that begins with a slash, put a space before it.",
        custom.overview()
    );
    say(turn, text).await?;
    Err(TurnOver::Failed(error.to_string()))
}

fn help(custom: &CustomCommands) -> String {
    format!(
        "{}\n\nTo send a message that begins with a slash, put a space before it.",
        custom.overview()
    )
}

async fn say(turn: &Turn, text: impl Into<String>) -> Result<(), TurnOver> {
    turn.say(&turn.message(), text).await
}

/// Reports the outcome of a command's call.
async fn conclude(turn: &Turn, outcome: CallOutcome, after: &str) -> Result<(), TurnOver> {
    match outcome {
        CallOutcome::Succeeded { output } => {
            say(turn, format!("{}. {after}", output.text.trim_end())).await
        }
        CallOutcome::Cancelled { reason } => {
            say(turn, format!("Nothing was done: {reason}.")).await
        }
        CallOutcome::Failed { failure } => Err(TurnOver::Failed(failure.message)),
    }
}

/// Reports a problem that does not stop the command.
async fn warn(turn: &Turn, text: String) -> Result<(), TurnOver> {
    turn.notice(Level::Warning, text).await
}
