//! `loggia trust`: trusts a directory's configuration, or revokes that.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::require_person::require_person;
use crate::compose::App;
use crate::config::trust::{Trust, TrustState};
use crate::config::{PROJECT_FILE, project_settings};
use crate::style::one_line;

#[derive(Args)]
#[command(after_help = "Until a directory is trusted, its .loggia/config.toml may only restrict:
deny commands, choose a stricter mode, lower limits. Its command files
are ignored. Trust applies to exactly that directory, not to its parents or
subdirectories. `loggia` in a terminal asks once if there is something to trust.")]
pub struct TrustArgs {
    /// The directory; the current one by default
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Revoke the trust, or ask about the directory again
    #[arg(long, conflicts_with = "list")]
    pub revoke: bool,
    /// List the trusted directories and the permanently refused ones
    #[arg(long, conflicts_with = "directory")]
    pub list: bool,
}

pub async fn run(args: TrustArgs, app: &App) -> anyhow::Result<ExitCode> {
    let trust = Trust::new(&app.paths);
    let said = if args.list {
        listed(&trust.list()?, &trust.refused()?, &trust)
    } else {
        require_person("change which directories are trusted")?;
        let directory = match &args.directory {
            Some(directory) => app.workspace.join(directory),
            None => app.workspace.clone(),
        };
        if args.revoke { revoke(&trust, &directory)? } else { agree(&trust, &directory)? }
    };
    std::io::stdout().lock().write_all(said.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn listed(trusted: &[PathBuf], refused: &[PathBuf], trust: &Trust) -> String {
    if trusted.is_empty() && refused.is_empty() {
        let file = one_line(&trust.file().display().to_string());
        return format!("No directory is trusted; {file} would list them.\n");
    }
    let shown = |path: &PathBuf| one_line(&path.display().to_string());
    let trusted = trusted.iter().map(|path| shown(path) + "\n");
    let refused = refused.iter().map(|path| shown(path) + "  (never: not asked about)\n");
    trusted.chain(refused).collect()
}

fn revoke(trust: &Trust, directory: &Path) -> anyhow::Result<String> {
    let shown = one_line(&directory.display().to_string());
    Ok(match trust.revoke(directory)? {
        TrustState::Trusted => format!("{shown} is no longer trusted.\n"),
        TrustState::Refused => format!("{shown} is not trusted; Loggia will ask about it again.\n"),
        TrustState::Nothing => bail!(
            "{shown} is not trusted, so there is nothing to revoke: see `loggia trust --list`"
        ),
    })
}

/// The file is parsed first, so that an invalid file is never trusted.
fn agree(trust: &Trust, directory: &Path) -> anyhow::Result<String> {
    let mut keys: Vec<(&str, usize)> = Vec::new();
    for entry in project_settings(directory)? {
        let (key, _) = entry.found.map_err(|invalid| invalid.error)?;
        if keys.last().is_none_or(|(name, _)| *name != key.name) {
            keys.push((key.name, entry.line));
        }
    }
    let directory = trust.trust(directory)?;
    let shown = one_line(&directory.display().to_string());
    let mut said = format!("{shown} is now trusted.\n");
    if keys.is_empty() {
        let _ = writeln!(said, "It has no {PROJECT_FILE}; one that is added later will apply.");
    } else {
        let _ = writeln!(said, "Its {PROJECT_FILE} sets:");
        for (name, line) in keys {
            let _ = writeln!(said, "  {name} (line {line})");
        }
        let _ =
            writeln!(said, "`loggia config` shows the values; `loggia trust --revoke` undoes it.");
    }
    Ok(said)
}
