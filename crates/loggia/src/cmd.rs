//! The subcommands.

pub mod approvals;
pub mod attach;
pub mod chat;
pub mod clients;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod keys;
pub mod man;
pub mod models;
pub mod pair;
mod require_person;
pub mod run;
pub mod serve;
pub mod sessions;
pub mod trust;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::compose::App;
use crate::exit::UsageError;

pub async fn dispatch(cli: Cli, app: &App) -> anyhow::Result<ExitCode> {
    let Some(command) = cli.command else { return without_command(cli, app).await };
    if cli.session.is_some() || cli.continue_last || cli.fullscreen || cli.name.is_some() {
        let why = "--session, --continue, --name and --fullscreen are for the terminal interface: omit the \
                   subcommand, or put them after it";
        return Err(UsageError(why.into()).into());
    }
    if cli.a2a_port.is_some() {
        let why = "--a2a-port works without a subcommand: omit it";
        return Err(UsageError(why.into()).into());
    }
    match command {
        Command::Run(args) => run::run(args, app).await,
        Command::Serve(args) => serve::serve(args, app).await,
        Command::Attach(args) => attach::attach(args, app).await,
        Command::Sessions(command) => sessions::run(command, app).await,
        Command::Approvals(command) => approvals::run(command, app).await,
        Command::Clients(command) => clients::run(command, app).await,
        Command::Pair(args) => pair::run(args, app).await,
        Command::Models(args) => models::run(args, app).await,
        Command::Keys(command) => keys::run(command, app).await,
        Command::Config(args) => config::run(args, app).await,
        Command::Trust(args) => trust::run(args, app).await,
        Command::Doctor(args) => doctor::run(args, app).await,
        Command::Man(args) => man::run(args, app).await,
        Command::Completions(args) => completions::run(args, app).await,
    }
}

/// Opens the terminal interface if there is a terminal, otherwise shares the session without one.
async fn without_command(cli: Cli, app: &App) -> anyhow::Result<ExitCode> {
    if chat::is_possible(app) {
        let args = chat::ChatArgs {
            port: cli.a2a_port,
            session: cli.session,
            continue_last: cli.continue_last,
            fullscreen: cli.fullscreen,
            name: cli.name.as_deref().map(sessions::session_name).transpose()?,
            share: cli.share,
        };
        return chat::chat(args, app).await;
    }
    let why =
        "a terminal is needed to open a session: --help lists the commands that work without one";
    let port = cli.a2a_port.ok_or_else(|| UsageError(why.into()))?;
    if cli.continue_last || cli.fullscreen || cli.name.is_some() {
        return Err(UsageError("--continue, --name and --fullscreen need a terminal".into()).into());
    }
    serve::share(port, cli.share, cli.session, app).await
}
