//! The command line as people type it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cmd;

/// A coding agent whose one live session is open on every side.
#[derive(Parser)]
#[command(
    name = "loggia",
    version,
    max_term_width = 100,
    after_help = "Examples:
  loggia                                             a session in this terminal
  loggia run \"write hello.txt: hi\"                  one turn, asking before it writes
  loggia run --approve edits \"write hello.txt: hi\"  file edits pass without a question
  loggia run - < steps.txt                           the prompt from a file or a pipe
  loggia run --continue \"run cargo test\"            go on where you left off
  loggia --a2a-port 1234                             the same, shared on localhost
  loggia attach localhost:1234                       that session, in another terminal
  loggia doctor                                      what works on this machine

Exit codes: 0 done, 1 failed, 2 usage, 3 approval needed and nobody to ask, 4 refused,
130 interrupted, 141 output closed, 143 terminated. More in docs/reference/configuration.md."
)]
pub struct Cli {
    /// Work in this directory instead of the current one
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Say what happens inside: on stderr, or in loggia.log of the state directory beside a screen
    #[arg(long, global = true)]
    pub debug: bool,
    /// Share one session on this port of localhost; 0 picks a free one
    #[arg(long, value_name = "PORT", help_heading = "Sharing", value_parser = port)]
    #[arg(allow_negative_numbers = true)]
    pub a2a_port: Option<u16>,
    /// Go on in this session (its name, its id or the beginning of that) instead of a new one
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
    pub session: Option<String>,
    /// Go on in the last session of this directory
    #[arg(long = "continue", short = 'c')]
    pub continue_last: bool,
    /// Call the session this, to find it by
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
    /// Run one turn here and show it as it happens
    Run(RunArgs),
    /// Serve sessions to clients on this machine
    Serve(cmd::serve::ServeArgs),
    /// Open a session that runs elsewhere in this terminal
    Attach(cmd::attach::AttachArgs),
    /// List, name, show, export or delete sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List or revoke what is always allowed in this project
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Register clients that get tokens for their secret, and take them back
    #[command(subcommand)]
    Clients(ClientsCommand),
    /// Make a one-time code that lets one device in
    Pair(cmd::pair::PairArgs),
    /// Show the configuration and where each value comes from
    Config(cmd::config::ConfigArgs),
    /// Trust a directory's own .loggia/config.toml, or stop trusting it
    Trust(cmd::trust::TrustArgs),
    /// Check what works on this machine
    Doctor(cmd::doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(cmd::completions::CompletionsArgs),
    /// Print the manual page, or write one for every command
    Man(cmd::man::ManArgs),
}

#[derive(Args)]
pub struct RunArgs {
    /// What to do; what is piped in goes below it, `-` or nothing waits for that; `/help` shows the commands
    pub prompt: Vec<String>,
    /// What passes without a question
    #[arg(long, value_enum, value_name = "WHAT")]
    pub approve: Option<Approve>,
    /// How to print the turn
    #[arg(long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    pub output: OutputFormat,
    /// Go on in this session (its name, its id or the beginning of that)
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
    pub session: Option<String>,
    /// Go on in the last session of this directory
    #[arg(long = "continue", short = 'c')]
    pub continue_last: bool,
    /// The model: `offline` or `scripted:FILE` [env: LOGGIA_MODEL]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Print the agent's words only
    #[arg(long, short = 'q')]
    pub quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approve {
    /// Ask before edits and commands (default)
    Ask,
    /// File edits pass, commands ask
    Edits,
    /// Everything passes
    All,
    /// Read only: whatever would change something is refused
    Plan,
    /// Ask nobody: whatever would need an answer is refused, and the agent goes on (exit code 4)
    None,
}

/// What passes in a shared session; there, somebody may always come and answer.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pass {
    /// Ask before edits and commands (default)
    Ask,
    /// File edits pass, commands ask
    Edits,
    /// Everything passes
    All,
    /// Read only: whatever would change something is refused
    Plan,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The agent's words on stdout, what it does on stderr
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object a line, as it happens
    StreamJson,
}

#[derive(Subcommand)]
pub enum SessionsCommand {
    /// The newest sessions first
    List {
        /// How many at most
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// Sessions of every directory, not only of this one
        #[arg(long)]
        all: bool,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Print a session as a transcript
    Show {
        /// The session's name, its id or the beginning of that
        session: String,
    },
    /// Write a session to a file or to stdout
    Export {
        /// The session's name, its id or the beginning of that
        session: String,
        /// Markdown for people, jsonl for the log as it is
        #[arg(long, value_enum, default_value_t = ExportFormat::Markdown)]
        format: ExportFormat,
        /// Where to; a file that exists is not overwritten
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Call a session something, to find it by
    Rename {
        /// The session's name, its id or the beginning of that
        session: String,
        /// What it is called from now on
        name: String,
    },
    /// Remove sessions and their logs for good
    Delete {
        /// Ids, in full
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
    /// Register a client and print its secret, this once
    Add {
        /// The client's name, which is also its client_id
        name: String,
        /// What it may do, of read, prompt, approve and admin
        #[arg(long, value_delimiter = ',', default_value = "read,prompt", value_name = "SCOPES")]
        scope: Vec<String>,
        /// What passes without a question in its sessions; beyond that it needs the scope approve
        #[arg(long, value_enum, value_name = "WHAT")]
        allow: Option<Allow>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Who is registered
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Give a client a new secret; the old one and its tokens end at once
    Rotate {
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Take a client back; its secret and its tokens end at once
    Revoke { name: String },
    /// Sign tokens with a new key from now on; nobody is logged out
    RotateKeys {
        /// End every token there is: for when somebody may have seen the keys
        #[arg(long)]
        at_once: bool,
    },
}

/// What passes for a client that cannot be asked.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// File edits
    Edits,
    /// Everything
    All,
}

#[derive(Subcommand)]
pub enum ApprovalsCommand {
    /// What was answered with "always in this project"
    List,
    /// Ask again from now on
    Revoke {
        /// Rule ids as `list` shows them
        #[arg(required = true)]
        rules: Vec<String>,
    },
}

/// A port, or a sentence about what one is.
pub fn port(text: &str) -> Result<u16, &'static str> {
    text.parse().map_err(|_| "a port is a number from 0 to 65535")
}
