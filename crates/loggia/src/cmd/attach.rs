//! `loggia attach URL`: the terminal interface for a session in another process.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use loggia_core::SessionId;
use loggia_core::shell::quoted;
use loggia_tui::{ShareFacts, Start};
use tokio::sync::watch;

use super::chat;
use super::chat::host::{self, ChatHost, Commands, Connection};
use super::require_person::require_person;
use crate::compose::App;
use crate::config::Flags;
use crate::exit::UsageError;
use crate::remote::{Address, RemoteClient};

/// Read at most this much of a token file.
const TOKEN_LIMIT: u64 = 16 * 1024;

/// How long the first frame waits for the list of connected clients.
const PRESENCE: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct AttachArgs {
    /// The address of the shared session: `http://localhost:1234`, `localhost:1234` or
    /// `https://box.example`
    #[arg(value_name = "URL")]
    pub url: String,
    /// The session to open if the server has several
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// The one-time code shown by `/share code` or `loggia pair`
    #[arg(long, value_name = "CODE", conflicts_with = "token_file")]
    pub code: Option<String>,
    /// A file whose first line is `token` or `name:token`
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Verify https with the CA certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Allow sending the token unencrypted over the network
    #[arg(long)]
    pub insecure: bool,
    /// The name shown to other clients
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Use the whole screen instead of the terminal's own scrollback
    #[arg(long)]
    pub fullscreen: bool,
}

pub async fn attach(args: AttachArgs, app: &App) -> anyhow::Result<ExitCode> {
    require_person("attach to a session")?;
    if !chat::is_possible(app) {
        let why = "a terminal is needed to show the session";
        return Err(UsageError(why.into()).into());
    }
    let config = app.load_config(&Flags::default())?.config;
    // The QR code contains the code in the fragment of the URL.
    let (url, code) = match (args.url.split_once("#code="), args.code) {
        (Some(_), Some(_)) => {
            let why = "there are two codes, one of them in the address: pass only one";
            return Err(UsageError(why.into()).into());
        }
        (Some((url, code)), None) => (url.to_owned(), Some(code.to_owned())),
        (None, code) => (args.url, code),
    };
    let mut address = Address {
        url: url.clone(),
        token: args.token_file.as_deref().map(read_token).transpose()?,
        session: args.session.as_deref().map(SessionId::from),
        name: args.name,
        authorities: args.ca_file,
        registered: None,
    };
    if !args.insecure {
        address.refuse_plaintext(address.token.is_some() || code.is_some())?;
    }
    let token = match (&args.token_file, &code) {
        (Some(_), _) => "You used a token; other clients may need their own.",
        (None, Some(_)) => "You used a one-time code; other clients need their own.",
        (None, None) => "You needed no token; clients of other users may need one.",
    };
    if let Some(code) = code {
        address.redeem(&code).await?;
    }
    let client = RemoteClient::connect(address).await?;
    let share = ShareFacts {
        urls: vec![url.clone()],
        attach: Some(format!("loggia attach {}", quoted(&url))),
        code: Some(url),
        token: Some(token.into()),
        invitation: None,
    };
    // Wait for the first list, so that clients already connected are not reported as new.
    let _ =
        tokio::time::timeout(PRESENCE, client.present.clone().wait_for(|here| !here.is_empty()))
            .await;
    let connection = Connection {
        me: Some(client.you.clone()),
        share: watch::channel(share).1,
        present: host::others(client.present.clone(), Some(client.you.clone())),
        problem: client.problem.clone(),
        requests: None,
    };
    let commands = Commands::Elsewhere(client.custom.clone());
    let host = Arc::new(ChatHost::new(app, None, commands, connection));
    let me = client.you.borrow().clone();
    let start = chat::start(app, &config, me, client.head, &host);
    let start = Start { fullscreen: args.fullscreen, ..start };
    let exit = loggia_tui::run(Arc::new(client), host, start).await;
    Ok(chat::exit_code(exit.map_err(|error| UsageError(error.to_string()))?))
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let at = || format!("the token file {}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(at)?;
    file.take(TOKEN_LIMIT).read_to_string(&mut text).with_context(at)?;
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let first = first.ok_or_else(|| UsageError(format!("{} holds no token", path.display())))?;
    Ok(first.split_once(':').map_or(first, |(_, token)| token).to_owned())
}
