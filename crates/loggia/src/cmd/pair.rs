//! `loggia pair`: creates a one-time code for all servers of this user. A running server sees it
//! with its next request.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use loggia_core::Millis;
use loggia_server::auth::{CODE_LIFE, Pairing, PairingError, Scopes};
use loggia_tui::Invitation;
use serde_json::json;

use super::require_person::require_person;
use crate::compose::App;
use crate::exit::UsageError;
use crate::style::{json_line, printable};

#[derive(Args)]
#[command(after_help = "Examples:
  loggia pair https://box.example:41242     a code, and a QR code with it
  loggia pair --scope read                  for a device that only looks")]
pub struct PairArgs {
    /// The server's address for the device, shown with the code and in the QR code
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SCOPES",
        help = format!("The device's scopes: {}", Scopes::CLIENT.names().join(", "))
    )]
    pub scope: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: PairArgs, app: &App) -> anyhow::Result<ExitCode> {
    require_person("pair a device")?;
    let scopes = scopes(&args.scope.join(" "))?;
    let now = Millis(jiff::Timestamp::now().as_millisecond());
    let pairing = Pairing::anywhere(app.open_store()?);
    let code = pairing.offer(scopes, now).await.map_err(explained)?.reveal();
    let mut out = std::io::stdout().lock();
    if args.json {
        let (scope, expires_in) = (scopes.to_string(), CODE_LIFE.as_secs());
        let url = args.url.as_deref().map(|url| link(url, &code));
        let line = json!({ "code": code, "scope": scope, "expires_in": expires_in, "url": url });
        writeln!(out, "{}", json_line(&line))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Invitation { code, terms, command } =
        invitation(args.url.as_deref().unwrap_or("URL"), code, scopes);
    writeln!(out, "code: {code}")?;
    writeln!(out, "{terms}\n{}", printable(&command))?;
    let drawn = args.url.filter(|_| std::io::stdout().is_terminal());
    let drawn = drawn.and_then(|url| loggia_tui::qr_code(&link(&url, &code)));
    for line in drawn.unwrap_or_default() {
        writeln!(out, "{line}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses scopes; none means the default scopes of a user's own device.
pub(super) fn scopes(text: &str) -> Result<Scopes, UsageError> {
    if text.trim().is_empty() {
        return Ok(Scopes::CLIENT);
    }
    text.parse().map_err(|error| UsageError(format!("{error}")))
}

/// The instructions for the other device.
pub(super) fn invitation(url: &str, code: String, scopes: Scopes) -> Invitation {
    let minutes = CODE_LIFE.as_secs() / 60;
    let terms = format!("It pairs one device within {minutes} minutes, for: {scopes}.");
    let command = format!("loggia attach {url} --code {code}");
    Invitation { code, terms, command }
}

/// The address with the code as its fragment, which is never sent to a server.
pub(super) fn link(url: &str, code: &str) -> String {
    format!("{}/#code={code}", url.trim_end_matches('/'))
}

/// An error that the user can fix is a usage error; others are failures.
fn explained(error: PairingError) -> anyhow::Error {
    match error {
        PairingError::NoScope | PairingError::Admin => UsageError(error.to_string()).into(),
        PairingError::Store(error) => error.into(),
        PairingError::Contended | PairingError::NoRandomness(_) => error.into(),
    }
}
