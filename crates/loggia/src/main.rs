//! The binary: flags, configuration, composition. Contains no logic of the other crates.

#[macro_use]
mod output;

mod cli;
mod clones;
mod cmd;
mod compose;
mod config;
mod exit;
mod models;
mod remote;
mod style;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::compose::App;

/// A turn allocates thousands of small values on several threads. With the system allocator this
/// takes a fifth of a served turn's time (docs/contributing/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // The guard of a call must start in a few milliseconds and must not start a runtime.
    if arguments.next().is_some_and(|first| first == "guard") {
        return loggia_agent::guard::main(arguments);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::report_usage(&error),
    };
    match start(cli) {
        Ok(code) => code,
        Err(error) => exit::explain(&error),
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    compose::protect_process(matches!(cli.command, Some(cli::Command::Attach(_))));
    let app = App::new(cli.directory.as_deref())?;
    let screen = matches!(cli.command, None | Some(cli::Command::Attach(_)));
    app.start_logging(screen && cmd::chat::is_possible(&app), cli.debug)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(cmd::dispatch(cli, &app));
    // A thread blocked on the terminal would keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    code
}
