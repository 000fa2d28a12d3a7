//! The subcommands.

pub mod approvals;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod run;
pub mod serve;
pub mod sessions;
pub mod trust;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::compose::App;
use crate::exit::Usage;

pub async fn dispatch(cli: Cli, app: &App) -> anyhow::Result<ExitCode> {
    let Some(command) = cli.command else {
        let port =
            cli.a2a_port.ok_or_else(|| Usage("there is nothing to do: see --help".into()))?;
        return serve::share(port, cli.share, cli.session, app).await;
    };
    if cli.a2a_port.is_some() {
        let why = "--a2a-port shares a session by itself: leave the subcommand out";
        return Err(Usage(why.into()).into());
    }
    match command {
        Command::Run(args) => run::run(args, app).await,
        Command::Serve(args) => serve::serve(args, app).await,
        Command::Sessions(command) => sessions::run(command, app).await,
        Command::Approvals(command) => approvals::run(command, app).await,
        Command::Config(args) => config::run(args, app).await,
        Command::Trust(args) => trust::run(args, app).await,
        Command::Doctor(args) => doctor::run(args, app).await,
        Command::Completions(args) => completions::run(args, app).await,
    }
}
