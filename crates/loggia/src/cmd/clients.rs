//! `loggia clients`: registers and revokes API clients. A running server sees each change with its
//! next request.

use std::io::Write;
use std::process::ExitCode;

use loggia_core::Millis;
use loggia_server::auth::{Client, ClientError, Clients, Grant, KeyError, Keys, OldTokens, Secret};
use serde_json::json;

use super::require_person::require_person;
use crate::cli::{Allow, ClientsCommand};
use crate::compose::App;
use crate::exit::UsageError;
use crate::style::{self, one_line};

pub async fn run(command: ClientsCommand, app: &App) -> anyhow::Result<ExitCode> {
    let store = app.open_store()?;
    let clients = Clients::new(store.clone());
    match command {
        ClientsCommand::Add { name, scope, allow, json } => {
            require_person("register a client")?;
            let scopes = scope.join(" ").parse().map_err(|error| UsageError(format!("{error}")))?;
            let grant = match allow {
                None => Grant::None,
                Some(Allow::Edits) => Grant::Edits,
                Some(Allow::All) => Grant::All,
            };
            let secret = clients.add(&name, scopes, grant).await.map_err(explained)?;
            show(&name, &secret, json)?;
        }
        ClientsCommand::Rotate { name, json } => {
            require_person("be given a client's secret")?;
            let secret = clients.rotate(&name).await.map_err(explained)?;
            show(&name, &secret, json)?;
        }
        ClientsCommand::Revoke { name } => {
            require_person("revoke a client")?;
            clients.revoke(&name).await.map_err(explained)?;
            let name = one_line(&name);
            writeln!(std::io::stdout(), "revoked: {name}; its tokens are no longer valid")?;
        }
        ClientsCommand::List { json } => list(&clients.list().await?, json)?,
        ClientsCommand::RotateKeys { at_once } => {
            require_person("rotate the signing keys")?;
            let old = if at_once { OldTokens::End } else { OldTokens::Stay };
            Keys::new(store).rotate(old).await.map_err(keys_explained)?;
            writeln!(
                std::io::stdout(),
                "{}",
                match old {
                    OldTokens::Stay =>
                        "new tokens are signed with a new key; existing tokens stay valid until they expire",
                    OldTokens::End =>
                        "new tokens are signed with a new key; existing tokens are invalid",
                }
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The secret is shown only here.
fn show(name: &str, secret: &Secret, json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let secret = secret.reveal();
    if json {
        let line = json!({ "client_id": name, "client_secret": secret });
        return writeln!(out, "{}", style::json_line(&line));
    }
    writeln!(out, "client_id:     {}", one_line(name))?;
    writeln!(out, "client_secret: {secret}")?;
    eprintln!("Keep the secret: it is not shown again.");
    Ok(())
}

fn list(clients: &[Client], json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if clients.is_empty() && !json {
        eprintln!("There are no clients: register one with `loggia clients add NAME`.");
    }
    let width = clients.iter().map(|client| client.name.len()).max().unwrap_or_default();
    for Client { name, scopes, grant, created, changed, until, .. } in clients {
        if json {
            let (created, changed) = (time(*created), time(*changed));
            let mut line = json!({
                "client_id": name, "scope": scopes.to_string(), "allow": grant.to_string(),
                "created": created, "secret_since": changed,
            });
            if let Some(until) = until {
                line["until"] = json!(time(*until));
            }
            writeln!(out, "{}", style::json_line(&line))?;
        } else {
            let (name, since) = (one_line(name), time(*changed));
            let until = until.map(|until| format!("  until {}", time(until))).unwrap_or_default();
            writeln!(out, "{name:width$}  {scopes}  allow {grant}  secret since {since}{until}")?;
        }
    }
    Ok(())
}

fn time(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0).map(|time| time.to_string()).unwrap_or_default()
}

/// An error that the user can fix is a usage error; others are failures.
fn explained(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Store(error) => error.into(),
        ClientError::NoRandomness(_) | ClientError::Contended => error.into(),
        ClientError::Name
        | ClientError::Sample(_)
        | ClientError::Taken(_)
        | ClientError::Unknown(_)
        | ClientError::NoScope
        | ClientError::TooMany => UsageError(error.to_string()).into(),
    }
}

fn keys_explained(error: KeyError) -> anyhow::Error {
    match error {
        KeyError::Store(error) => error.into(),
        KeyError::TooMany => UsageError(error.to_string()).into(),
        KeyError::Contended | KeyError::Unreadable | KeyError::NoRandomness(_) => error.into(),
    }
}
