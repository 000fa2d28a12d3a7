//! The command-line interface.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use loggia_server::auth::Scopes;

use crate::cmd;

/// A coding agent you can share: one live session in several terminals, editors and scripts.
#[derive(Parser)]
#[command(
    name = "loggia",
    version,
    max_term_width = 100,
    after_help = "Examples:
  loggia                                             open a session in this terminal
  loggia run \"write hello.txt: hi\"                  one turn, asks before it writes
  loggia run --approve edits \"write hello.txt: hi\"  file edits are approved
  loggia run - < steps.txt                           the prompt from a file or a pipe
  loggia run --continue \"run cargo test\"            continue the last session
  loggia --a2a-port 1234                             open a session and share it on localhost
  loggia attach localhost:1234                       open that session in another terminal
  loggia keys set anthropic                          store a key, then use its models
  loggia --model openai/gpt-6.1-sol                  choose a model
  loggia doctor                                      check this machine

Exit codes: 0 done, 1 failed, 2 usage, 3 approval needed but no terminal, 4 refused without
a person, 130 interrupted, 141 output closed, 143 terminated. More in
docs/reference/configuration.md."
)]
pub struct Cli {
    /// Work in this directory instead of the current one
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Write debug logs to stderr, or to loggia.log in the state directory while a terminal
    /// interface is open
    #[arg(long, global = true)]
    pub debug: bool,
    /// Share the session on this localhost port; 0 picks a free port
    #[arg(long, value_name = "PORT", help_heading = "Sharing", value_parser = port)]
    #[arg(allow_negative_numbers = true)]
    pub a2a_port: Option<u16>,
    /// Resume this session (name, id or id prefix) instead of starting a new one
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
    pub session: Option<String>,
    /// Resume the last session in this directory
    #[arg(long = "continue", short = 'c')]
    pub continue_last: bool,
    /// Name the session
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Use the whole screen instead of the terminal's own scrollback
    #[arg(long)]
    pub fullscreen: bool,
    #[command(flatten)]
    pub share: cmd::serve::ShareArgs,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run one turn and print it as it happens
    Run(RunArgs),
    /// Serve sessions to clients
    Serve(cmd::serve::ServeArgs),
    /// Open a shared session in this terminal
    Attach(cmd::attach::AttachArgs),
    /// List, show, export, rename or delete sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List or revoke the permanent approvals of this project
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Register, list and revoke API clients
    #[command(subcommand)]
    Clients(ClientsCommand),
    /// Create a one-time code to pair a device
    Pair(cmd::pair::PairArgs),
    /// List the models of the providers
    Models(cmd::models::ModelsArgs),
    /// Store, list or remove the keys of model providers
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Show the configuration and where each value comes from
    Config(cmd::config::ConfigArgs),
    /// Trust a directory's own .loggia/config.toml, or stop trusting it
    Trust(cmd::trust::TrustArgs),
    /// Check that Loggia works on this machine
    Doctor(cmd::doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(cmd::completions::CompletionsArgs),
    /// Print the manual page, or write one for every command
    Man(cmd::man::ManArgs),
}

#[derive(Args)]
pub struct RunArgs {
    /// The prompt. Piped input is appended; `-` or no prompt reads stdin. `/help` lists the
    /// commands
    pub prompt: Vec<String>,
    /// Which actions are approved without asking
    #[arg(long, value_enum, value_name = "WHAT")]
    pub approve: Option<Approve>,
    /// The output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    pub output: OutputFormat,
    /// Resume this session (name, id or id prefix)
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
    pub session: Option<String>,
    /// Resume the last session in this directory
    #[arg(long = "continue", short = 'c')]
    pub continue_last: bool,
    /// The model: `PROVIDER/MODEL`, `offline` or `scripted:FILE` [env: LOGGIA_MODEL]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// How much the model thinks: none, minimal, low, medium, high, xhigh or max
    /// [env: LOGGIA_EFFORT]
    #[arg(long, value_name = "LEVEL")]
    pub effort: Option<String>,
    /// Print only the agent's text
    #[arg(long, short = 'q')]
    pub quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approve {
    /// Ask before edits and commands (default)
    Ask,
    /// Approve file edits, ask before commands
    Edits,
    /// Approve everything
    All,
    /// Read only: reject every change
    Plan,
    /// Never ask: reject what needs an approval and continue (exit code 4)
    None,
}

/// The approval modes of a shared session. `none` is missing because a client can answer at any
/// time.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ApprovalMode {
    /// Ask before edits and commands (default)
    Ask,
    /// Approve file edits, ask before commands
    Edits,
    /// Approve everything
    All,
    /// Read only: reject every change
    Plan,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The agent's text on stdout, its actions on stderr
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object per line, as it happens
    StreamJson,
}

#[derive(Subcommand)]
pub enum SessionsCommand {
    /// List sessions, newest first
    List {
        /// The maximum number of sessions
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// Include the sessions of all directories
        #[arg(long)]
        all: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Print a session as a transcript
    Show {
        /// Session name, id or id prefix
        session: String,
    },
    /// Write a session to a file or stdout
    Export {
        /// Session name, id or id prefix
        session: String,
        /// `markdown` for reading, `jsonl` for the raw event log
        #[arg(long, value_enum, default_value_t = ExportFormat::Markdown)]
        format: ExportFormat,
        /// The output file; an existing file is not overwritten
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Rename a session
    Rename {
        /// Session name, id or id prefix
        session: String,
        /// The new name
        name: String,
    },
    /// Delete sessions and their logs permanently
    Delete {
        /// Full session ids
        #[arg(required = true)]
        sessions: Vec<String>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    Markdown,
    Jsonl,
}

#[derive(Subcommand)]
pub enum ClientsCommand {
    /// Register a client and print its secret once
    Add {
        /// The client's name, also used as its client_id
        name: String,
        #[arg(
            long,
            value_delimiter = ',',
            default_value = "read,prompt",
            value_name = "SCOPES",
            help = format!("The client's scopes: {}", Scopes::ALL.names().join(", "))
        )]
        scope: Vec<String>,
        /// Approve these actions in its sessions without asking; others need the scope approve
        #[arg(long, value_enum, value_name = "WHAT")]
        allow: Option<Allow>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the registered clients
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Replace a client's secret; the old secret and its tokens stop working immediately
    Rotate {
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Revoke a client; its secret and tokens stop working immediately
    Revoke { name: String },
    /// Replace the token signing key; existing tokens stay valid
    RotateKeys {
        /// Also invalidate all existing tokens, in case the keys were leaked
        #[arg(long)]
        at_once: bool,
    },
}

/// Actions that are approved for a client that cannot answer questions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// File edits
    Edits,
    /// Everything
    All,
}

#[derive(Subcommand)]
pub enum KeysCommand {
    /// Store a key, typed or pasted without being shown, or piped in
    Set {
        /// The provider: anthropic, openai, gemini, …
        provider: String,
    },
    /// List the providers that have a key, and where it is; keys are never shown
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Remove a stored key
    Remove {
        /// The provider of the key
        provider: String,
    },
}

#[derive(Subcommand)]
pub enum ApprovalsCommand {
    /// List the rules saved by "always in this project"
    List,
    /// Delete rules, so that Loggia asks again
    Revoke {
        /// Rule ids as printed by `list`
        #[arg(required = true)]
        rules: Vec<String>,
    },
}

/// Parses a port, with an error that explains the range.
pub fn port(text: &str) -> Result<u16, &'static str> {
    text.parse().map_err(|_| "a port is a number from 0 to 65535")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use loggia_agent::model::registry;

    use super::*;

    #[test]
    fn the_help_of_every_model_flag_names_all_models() {
        let command = Cli::command();
        let all = command.get_subcommands().chain([&command]);
        let flags =
            all.flat_map(clap::Command::get_arguments).filter(|flag| flag.get_id() == "model");
        let help: Vec<String> = flags
            .map(|flag| flag.get_help().map(ToString::to_string).unwrap_or_default())
            .collect();
        assert!(
            help.len() > 1 && help.iter().all(|text| text.contains(registry::NAMES)),
            "{help:?}"
        );
    }
}
