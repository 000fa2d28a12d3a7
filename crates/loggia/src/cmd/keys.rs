//! `loggia keys`: stores the keys of model providers. A key is never an argument, because every user can
//! read the process list, and never printed.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use loggia_models::providers::BUILT_IN;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::require_person::require_person;
use crate::cli::KeysCommand;
use crate::compose::App;
use crate::config::key_file::{KeyFile, MAX_KEY, parse_key};
use crate::config::{Config, Flags};
use crate::exit::{FAILED, INTERRUPTED, UsageError};
use crate::models::KeyOrigin;
use crate::style::{json_text, one_line, say};

pub async fn run(command: KeysCommand, app: &App) -> anyhow::Result<ExitCode> {
    require_person("read or change the keys of model providers")?;
    let config = app.load_config(&Flags::default())?.config;
    let file = KeyFile::new(&app.paths);
    match command {
        KeysCommand::Set { provider } => {
            known(&provider, &config)?;
            let Some(text) = read_key(&provider).await? else {
                return Ok(ExitCode::from(INTERRUPTED));
            };
            let key = parse_key(&text).map_err(|why| UsageError(why.to_owned()))?;
            file.set(&provider, key)?;
            say(&format!("the key of {provider} is in {}", file.path().display()));
            if let Some(KeyOrigin::Variable(name)) =
                app.find_key(&provider, &config).map(|key| key.origin)
            {
                say(&format!("the environment variable {name} is set, and is used instead"));
            }
            Ok(ExitCode::SUCCESS)
        }
        KeysCommand::List { json } => list(json, &config, app),
        KeysCommand::Remove { provider } => match file.remove(&provider)? {
            true => {
                say(&format!("the key of {} is removed", one_line(&provider)));
                Ok(ExitCode::SUCCESS)
            }
            false => {
                say(&format!("there is no stored key of {}", one_line(&provider)));
                Ok(ExitCode::from(FAILED))
            }
        },
    }
}

fn known(provider: &str, config: &Config) -> Result<(), UsageError> {
    let built_in = BUILT_IN.iter().map(|known| known.name);
    let names: Vec<&str> = built_in.chain(config.providers.keys().map(String::as_str)).collect();
    if names.contains(&provider) {
        return Ok(());
    }
    let provider = one_line(provider);
    Err(UsageError(format!(
        "there is no provider `{provider}`: there are {}, and those of [providers.NAME] in config.toml",
        names.join(", ")
    )))
}

fn list(as_json: bool, config: &Config, app: &App) -> anyhow::Result<ExitCode> {
    let mut names: Vec<&str> = BUILT_IN.iter().map(|known| known.name).collect();
    names.extend(config.providers.keys().chain(config.stored_keys.keys()).map(String::as_str));
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let mut out = std::io::stdout().lock();
    for name in names {
        let Some(key) = app.find_key(name, config) else { continue };
        let origin = key.origin.describe();
        match as_json {
            true => {
                let line = json!({ "provider": name, "origin": origin }).to_string();
                writeln!(out, "{}", json_text(&line))?;
            }
            false => writeln!(out, "{:<12} {origin}", one_line(name))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the key from a terminal without showing it, or from a pipe. None: interrupted.
async fn read_key(provider: &str) -> anyhow::Result<Option<String>> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        let mut text = String::new();
        input.lock().take(MAX_KEY as u64 + 2).read_to_string(&mut text)?;
        return Ok(Some(text));
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let hidden = Hidden::new()?;
    eprint!("Key of {provider} (it is not shown): ");
    std::io::stderr().flush()?;
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let read = tokio::select! {
        line = line => Some(line??),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    drop(hidden);
    eprintln!();
    Ok(read)
}

/// A terminal without echo, until this is dropped.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn new() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHOE | LocalModes::ECHOK);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}
