//! `loggia` in a terminal: the terminal interface, shared with `--a2a-port`.

mod ask_trust;
pub(super) mod host;
mod share;

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use loggia_core::{Command, Millis, Origin, Seq, SessionName, Surface};
use loggia_server::serve::Bound;
use loggia_session::{LocalClient, SessionHandle};
use loggia_tui::theme::{Background, Depth, Theme};
use loggia_tui::{Exit, ShareFacts, Start};

use super::require_person::require_person;
use super::serve::{self, Setup, ShareArgs};
use crate::compose::App;
use crate::config::{Config, Keys, ThemeChoice};
use crate::exit::{FAILED, TERMINATED, UsageError};
use crate::style;
use host::{ChatHost, Commands, Connection, Sessions};
use share::Sharing;
use tokio::sync::{mpsc, watch};

/// Arguments of the terminal interface.
pub struct ChatArgs {
    pub port: Option<u16>,
    pub session: Option<String>,
    pub continue_last: bool,
    pub fullscreen: bool,
    pub name: Option<SessionName>,
    pub share: ShareArgs,
}

/// Whether a person can use this terminal.
pub fn is_possible(app: &App) -> bool {
    let dumb = app.environment.get("TERM").is_none_or(|term| term == "dumb");
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !dumb
}

pub async fn chat(args: ChatArgs, app: &App) -> anyhow::Result<ExitCode> {
    require_person("open a session in a terminal")?;
    // Ask first: the answer decides whether the project's configuration applies.
    if let Some(exit) = ask_trust::ask_trust(app).await? {
        return Ok(exit_code(exit));
    }
    let config = serve::configured(&args.share, app)?;
    let bind =
        |config: &Config| args.port.map(|port| serve::bind(&args.share, port, config)).transpose();
    let mut bound = bind(&config)?;
    let setup = Setup::new(&args.share, config, app, "loggia").await?;
    let (session, last) = (args.session.as_deref(), args.continue_last);
    let mut wanted = app.wanted_session(setup.store.as_ref(), session, last).await?;
    if wanted.is_none() {
        for line in app.explain_offline(&setup.config).await {
            writeln!(std::io::stdout(), "{}", style::printable(&line))?;
        }
    }
    let origin = Origin::new(Surface::Tui, format!("tui-{}", std::process::id()).as_str());
    let mut last;
    let mut name = args.name;
    let exit = loop {
        let settings = app.settings(&setup.config, setup.store.as_ref()).await?;
        let handle =
            app.open_session(&setup.hub, wanted.as_ref(), settings, &setup.config, &origin).await?;
        if let Some(name) = name.take() {
            handle.submit(Command::Name { name }, origin.clone()).await?;
        }
        last = handle.clone();
        let screen = ChatScreen { handle, origin: origin.clone(), fullscreen: args.fullscreen };
        match screen.run(&setup, bound.take(), &args.share, app).await? {
            Exit::Resume(session) => {
                wanted = Some(session);
                bound = bind(&setup.config)?;
            }
            exit => break exit,
        }
    };
    let session = last.id().clone();
    let turns = last.inspect(|session| session.summary().turns).await.unwrap_or(0);
    drop(last);
    setup.hub.stop().await;
    if exit == Exit::Asked && turns > 0 {
        let session = style::one_line(session.as_str());
        let go_on = format!("Resume with `loggia --continue` or `loggia --session {session}`.");
        writeln!(std::io::stdout(), "{go_on}")?;
    }
    Ok(exit_code(exit))
}

/// One session in the terminal interface.
struct ChatScreen {
    handle: SessionHandle,
    origin: Origin,
    fullscreen: bool,
}

impl ChatScreen {
    async fn run(
        self,
        setup: &Setup,
        bound: Option<Bound>,
        args: &ShareArgs,
        app: &App,
    ) -> anyhow::Result<Exit> {
        let (facts, share) = watch::channel(ShareFacts::default());
        let (present, others) = watch::channel(Vec::new());
        let (handle, origin) = (self.handle.clone(), self.origin.clone());
        let mut sharing =
            Sharing { setup, args, app, handle, origin, facts, present, serving: None };
        if let Some(bound) = bound {
            let told = format!("Loggia shares this session on {}", serve::addresses(&bound));
            serve::warn_localhost_name(&bound, args);
            sharing.start(bound).await?;
            writeln!(std::io::stdout(), "{}", style::printable(&told))?;
        }
        // One request at a time: the person waits for the answer.
        let (requests, mut received) = mpsc::channel(1);
        let problem = watch::channel(String::new()).1;
        let connection =
            Connection { me: None, share, present: others, problem, requests: Some(requests) };
        let commands = Commands::Here(app.commands.clone());
        let sessions = Sessions { store: setup.store.clone(), hub: setup.hub.clone() };
        let host = Arc::new(ChatHost::new(app, Some(sessions), commands, connection));
        let (me, head) = (self.origin.clone(), self.handle.head());
        let start =
            Start { fullscreen: self.fullscreen, ..start(app, &setup.config, me, head, &host) };
        let client = Arc::new(LocalClient::new(self.handle, self.origin));
        let exit = tokio::select! {
            exit = loggia_tui::run(client, host, start) => exit,
            never = sharing.handle(&mut received) => match never {},
        };
        sharing.stop().await;
        exit.map_err(|error| UsageError(error.to_string()).into())
    }
}

/// Builds the initial state of the terminal interface.
pub(super) fn start(app: &App, config: &Config, me: Origin, head: Seq, host: &ChatHost) -> Start {
    let theme = theme(app, config.theme);
    Start {
        me,
        head,
        opened: now(),
        history: loggia_tui::Host::history(host),
        fullscreen: false,
        vim: config.keys == Keys::Vim,
        size: (80, 24),
        reflows: reflows(app),
        asks_background: theme.background == Background::Unknown
            && theme.depth != Depth::None
            && supports_queries(app),
        theme,
        prices: crate::models::prices(&config.prices),
    }
}

pub(super) fn exit_code(exit: Exit) -> ExitCode {
    match exit {
        Exit::Asked | Exit::Resume(_) => ExitCode::SUCCESS,
        Exit::Terminated | Exit::HungUp => ExitCode::from(TERMINATED),
        Exit::Stopped(why) => {
            style::say(&why);
            ExitCode::from(FAILED)
        }
    }
}

fn facts(bound: &Bound, args: &ShareArgs) -> ShareFacts {
    let public = serve::public_url(bound, args);
    let socket = public.replacen("http", "ws", 1);
    // Processes of the same user need no token, unless all clients do.
    let token = if args.require_token { " --token-file FILE" } else { "" };
    ShareFacts {
        attach: Some(format!("loggia attach {public}{token}")),
        urls: vec![format!("{public}/.well-known/agent-card.json"), format!("{socket}/ws")],
        code: Some(public),
        token: match (&args.token_file, args.dev_credentials) {
            (_, true) => Some(format!("WARNING: {}.", serve::DEV_CREDENTIALS)),
            (Some(path), false) => {
                let who =
                    if args.require_token { "Clients need" } else { "Other users' clients need" };
                Some(format!("{who} a token from {}.", path.display()))
            }
            (None, false) => args
                .require_token
                .then(|| "Clients need a token: /share code, or see `loggia clients`.".to_owned()),
        },
        invitation: None,
    }
}

fn now() -> Millis {
    Millis(jiff::Timestamp::now().as_millisecond())
}

/// The colours of the terminal as far as supported; none with `NO_COLOR`.
fn theme(app: &App, choice: ThemeChoice) -> Theme {
    let get = |name| app.environment.get(name);
    let depth = Depth::detect(get("NO_COLOR").is_some(), get("TERM"), get("COLORTERM"));
    let background = match choice {
        ThemeChoice::Light => Background::Light,
        ThemeChoice::Dark => Background::Dark,
        ThemeChoice::Auto => {
            let said = get("COLORFGBG").and_then(Background::from_colorfgbg);
            said.unwrap_or(Background::Unknown)
        }
    };
    Theme::new(depth, background)
}

/// Some terminals print queries that they do not support. Those are not queried.
fn supports_queries(app: &App) -> bool {
    let term = app.environment.get("TERM").unwrap_or_default();
    let inside = app.environment.get("TMUX").is_some();
    let prints = ["linux", "vt", "eterm", "cons", "sun"].iter().any(|name| term.starts_with(name));
    !prints && (inside || !term.starts_with("screen"))
}

/// Whether the terminal wraps long rows when it gets narrower. Only a few old ones cut them.
fn reflows(app: &App) -> bool {
    let term = app.environment.get("TERM").unwrap_or_default();
    let inside = app.environment.get("TMUX").is_some();
    let classic = app.environment.get("XTERM_VERSION").is_some()
        || ["linux", "rxvt", "vt100", "st"].iter().any(|name| term.starts_with(name));
    inside || !classic
}
