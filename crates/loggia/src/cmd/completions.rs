//! `loggia completions`: shell completion scripts.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::compose::App;

#[derive(Args)]
#[command(after_help = "Examples:
  loggia completions bash > ~/.local/share/bash-completion/completions/loggia
  loggia completions zsh > ~/.zfunc/_loggia
  loggia completions fish > ~/.config/fish/completions/loggia.fish")]
pub struct CompletionsArgs {
    /// The shell to complete in
    #[arg(value_enum)]
    pub shell: Shell,
}

pub async fn run(args: CompletionsArgs, _app: &App) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loggia", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
