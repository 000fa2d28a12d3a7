//! `loggia serve` and `loggia --a2a-port`: sessions on the wire, until told to stop.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use loggia_core::{AgentName, Mode, Origin, Session, SessionId, Settings, Surface};
use loggia_server::auth::{
    AuthOptions, Authenticator, Code, OAuth, SampleClient, Scopes, TokenFile,
};
use loggia_server::guard::{Guard, GuardOptions, Host, HostPort, StreamLimits, read_origin};
use loggia_server::http;
use loggia_server::presence::Presence;
use loggia_server::push::PushOptions;
use loggia_server::serve::{
    self, Bound, Door, Limits, Listen, ListenAddress, Shutdown, Stopped, Tls, TlsError, TlsFiles,
};
use loggia_server::state::{ClientLimits, Defaults, Server, Shape};
use loggia_session::{Hub, SessionHandle, StoreError, hub};
use loggia_store::SqliteStore;
use loggia_wire::CardFacts;
use loggia_wire::card::{AuthScheme, GrpcUrls, Skill};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::by_hand::only_by_hand;
use crate::cli::Pass;
use crate::cli::port;
use crate::clones;
use crate::compose::{self, App};
use crate::config::{Config, Flags, Offers, ServerLimits, exposed};
use crate::exit::Usage;
use crate::style::{one_line, say, shown};

#[derive(Args)]
pub struct ServeArgs {
    /// The port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 41242, value_name = "PORT", value_parser = port)]
    #[arg(allow_negative_numbers = true)]
    pub port: u16,
    #[command(flatten)]
    pub share: ShareArgs,
    /// A directory below which clients may choose their workspace; may be given several times
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
}

/// What `serve` and `--a2a-port` have in common.
#[derive(Args, Default)]
#[command(next_help_heading = "Sharing")]
pub struct ShareArgs {
    /// Where to listen: localhost, or with TLS and --require-token an address of this machine
    #[arg(long, default_value = "localhost", value_name = "ADDRESS")]
    pub listen: String,
    /// Encrypt with this certificate: PEM, the server's own first, then those above it
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key: PEM without a passphrase; only you may read the file
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// How clients reach this server, where that is not where it listens
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// How gRPC clients reach it, `host:port`, where that is not where HTTP clients do
    #[arg(long, value_name = "ADDRESS")]
    pub grpc_url: Option<String>,
    /// The same for A2A 0.3, some of whose clients want `http://host:port`
    #[arg(long = "grpc-url-0.3", value_name = "ADDRESS")]
    pub grpc_url_03: Option<String>,
    /// The tenant that the card names; clients put it into their requests
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// A further name for this server in requests, `name` or `name:port`
    #[arg(long = "allowed-host", value_name = "HOST")]
    pub allowed_hosts: Vec<String>,
    /// An origin whose web pages may use this server, such as https://console.example
    #[arg(long = "allowed-origin", value_name = "ORIGIN")]
    pub allowed_origins: Vec<String>,
    /// Bearer tokens, one a line, `name:token` or `token`; only you may read the file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Local clients need a token, too: one of --token-file, or of `loggia clients`
    #[arg(long)]
    pub require_token: bool,
    /// Let in the published sample client a2a-claude-client-123; on this machine only
    #[arg(long)]
    pub dev_credentials: bool,
    /// Let clients open sessions in which nothing asks (autoExecute)
    #[arg(long)]
    pub allow_auto_execute: bool,
    /// What passes without a question
    #[arg(long, value_enum, value_name = "WHAT")]
    pub approve: Option<Pass>,
    /// The model: `offline` or `scripted:FILE` [env: LOGGIA_MODEL]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// Many sessions, without a terminal.
pub async fn serve(args: ServeArgs, app: &App) -> anyhow::Result<ExitCode> {
    only_by_hand("serve the sessions of this user")?;
    let config = configured(&args.share, app)?;
    let bound = bind(&args.share, args.port, &config)?;
    let setup = Setup::new(&args.share, config, app, "loggia serve").await?;
    setup.recover().await?;
    let mut roots = vec![app.workspace.clone()];
    for root in &args.roots {
        let found = root.canonicalize();
        roots.push(found.map_err(|error| usage(format!("--root {}: {error}", root.display())))?);
    }
    let walls = app.walls(&setup.config)?;
    // What there is to say about the first was said when the configuration was read.
    for notice in roots.iter().skip(1).filter_map(|root| exposed(&walls, root)) {
        say(&notice);
    }
    let told = [
        format!("Loggia serves sessions on {}", addresses(&bound)),
        format!("New sessions work in {}", shown(&app.workspace)),
    ];
    setup.run(bound, Shape::Many, roots, &args.share, app, told).await
}

/// The one session of this process.
pub async fn share(
    port: u16,
    args: ShareArgs,
    session: Option<String>,
    app: &App,
) -> anyhow::Result<ExitCode> {
    only_by_hand("share a session")?;
    let config = configured(&args, app)?;
    let bound = bind(&args, port, &config)?;
    let setup = Setup::new(&args, config, app, "loggia").await?;
    // Held until the end: the shared session is not closed for being idle.
    let shared = setup.session(session, app).await?;
    let id = shared.id().clone();
    let told = [
        format!("Loggia shares session {} on {}", one_line(id.as_str()), addresses(&bound)),
        format!("It works in {}", shown(&app.workspace)),
    ];
    setup.run(bound, Shape::Shared(id), vec![app.workspace.clone()], &args, app, told).await
}

/// What the configuration says, with the flags laid over it.
pub(super) fn configured(args: &ShareArgs, app: &App) -> anyhow::Result<Config> {
    let mode = args.approve.map(|pass| match pass {
        Pass::Ask => Mode::Ask,
        Pass::Edits => Mode::Edits,
        Pass::All => Mode::All,
        Pass::Plan => Mode::Plan,
    });
    let mut config = app.load_config(&Flags { model: args.model.clone(), mode })?.config;
    let told = exposed(&app.walls(&config)?, &app.workspace);
    config.tls.certificate = args.tls_cert.clone().or(config.tls.certificate);
    config.tls.key = args.tls_key.clone().or(config.tls.key);
    config.token_file.clone_from(&args.token_file);
    // Files that only the flags name.
    let found = exposed(&app.walls(&config)?, &app.workspace);
    if let Some(notice) = found.filter(|notice| told.as_ref() != Some(notice)) {
        say(&notice);
    }
    loggia_agent::model::registry::open(&config.model, &app.workspace).map_err(usage)?;
    Ok(config)
}

pub(super) fn bind(args: &ShareArgs, port: u16, config: &Config) -> anyhow::Result<Bound> {
    let bound = listen(args, port, config)?;
    if args.dev_credentials {
        say(&format!("WARNING: {DEV_CREDENTIALS}"));
    }
    Ok(bound)
}

/// The same without a word: where the terminal is a screen.
pub(super) fn listen(args: &ShareArgs, port: u16, config: &Config) -> anyhow::Result<Bound> {
    let address: ListenAddress = args.listen.parse().map_err(usage)?;
    if args.dev_credentials {
        only_here(args, address)?;
    }
    check_names(args)?;
    let tls = tls(config)?;
    let listen = Listen { address, port, authenticated: args.require_token, tls };
    serve::bind(listen).map_err(usage)
}

/// What goes into the card as it is.
fn check_names(args: &ShareArgs) -> anyhow::Result<()> {
    if let Some(url) = args.public_url.as_deref() {
        check_public(url)?;
    }
    // Names without a scheme; some clients of 0.3 want one.
    let has_port = |url: &str| HostPort::parse(url).is_some_and(|host| host.port.is_some());
    if let Some(url) = args.grpc_url.as_deref().filter(|url| !has_port(url)) {
        return Err(usage(format!("--grpc-url `{url}`: an address such as box.example:443")));
    }
    for (flag, url) in [("--grpc-url", &args.grpc_url), ("--grpc-url-0.3", &args.grpc_url_03)] {
        let url = url.as_deref().filter(|url| url.contains(char::is_whitespace) || url.is_empty());
        if let Some(url) = url {
            return Err(usage(format!("{flag} `{url}`: an address such as box.example:443")));
        }
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if let Some(tenant) = args.tenant.as_deref().filter(|tenant| !tenant.chars().all(plain)) {
        let why = "letters, digits and -_. only, since it is a part of paths";
        return Err(usage(format!("--tenant {tenant}: {why}")));
    }
    Ok(())
}

fn check_public(url: &str) -> anyhow::Result<()> {
    let Some((_, authority)) = public_authority(url) else {
        return Err(usage(format!("--public-url {url}: an address such as https://box.example")));
    };
    // Not repeated: what is before the sign may be a password.
    if authority.contains('@') {
        return Err(usage(
            "--public-url: the card is for everybody, so no user and no password in it; an address \
             such as https://box.example",
        ));
    }
    if url.contains(['?', '#']) {
        return Err(usage(format!(
            "--public-url {url}: paths are put behind it, so no `?` and no `#` in it; an address such \
             as https://box.example/loggia"
        )));
    }
    let letter = |letter: char| letter.is_whitespace() || letter.is_control();
    if HostPort::parse(authority).is_none() || url.contains(letter) {
        return Err(usage(format!("--public-url {url}: an address such as https://box.example")));
    }
    Ok(())
}

/// The certificate of the flags, or of the configuration. One without its key is a mistake.
fn tls(config: &Config) -> anyhow::Result<Option<Tls>> {
    let (certificate, key) = (config.tls.certificate.clone(), config.tls.key.clone());
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Tls::load(TlsFiles { certificate, key }).map(Some).map_err(usage)
        }
        (Some(_), None) => Err(usage("--tls-cert needs the certificate's key: --tls-key FILE")),
        (None, Some(_)) => Err(usage("--tls-key needs the key's certificate: --tls-cert FILE")),
        (None, None) => Ok(None),
    }
}

/// A secret that everybody can read must not be good for anything that others can reach.
fn only_here(args: &ShareArgs, address: ListenAddress) -> anyhow::Result<()> {
    let named = args.allowed_hosts.iter().chain(&public_host(args)).any(|host| {
        let host = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
        !["localhost", "127.0.0.1", "[::1]"].contains(&host)
    });
    if address.is_loopback() && !named {
        return Ok(());
    }
    Err(usage(
        "--dev-credentials lets everybody in who can reach this server: listen on localhost, under \
         no other name, or register a client with `loggia clients add`",
    ))
}

fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    Usage(error.to_string()).into()
}

pub(super) fn addresses(bound: &Bound) -> String {
    let scheme = scheme(bound);
    let urls = bound.addresses().iter().map(|address| format!("{scheme}://{address}"));
    urls.collect::<Vec<_>>().join(" and ")
}

fn scheme(bound: &Bound) -> &'static str {
    if bound.tls().is_some() { "https" } else { "http" }
}

/// How clients reach this server: as told, or as far as that follows from where it listens.
pub(super) fn public_url(bound: &Bound, args: &ShareArgs) -> String {
    let own = || format!("{}://{}", scheme(bound), own_name(bound, args));
    args.public_url.clone().unwrap_or_else(own).trim_end_matches('/').to_owned()
}

fn own_name(bound: &Bound, args: &ShareArgs) -> HostPort {
    let port = bound.port();
    let localhost = || HostPort { host: Host::Name("localhost".into()), port: Some(port) };
    let Some(address) = bound.addresses().first().map(SocketAddr::ip) else { return localhost() };
    match address {
        address if address.is_loopback() => localhost(),
        address if address.is_unspecified() => {
            let named = args.allowed_hosts.first().and_then(|host| HostPort::parse(host));
            let named = named.map(|host| HostPort { port: host.port.or(Some(port)), ..host });
            named.unwrap_or_else(localhost)
        }
        address => HostPort::at(address, port),
    }
}

/// Where everybody can come, the card must not say localhost.
pub(super) fn note_name(bound: &Bound, args: &ShareArgs) {
    let everywhere = bound.addresses().iter().any(|address| address.ip().is_unspecified());
    if everywhere && args.public_url.is_none() && args.allowed_hosts.is_empty() {
        say(&format!(
            "the card says localhost, where clients elsewhere do not come: name this server with \
             --public-url https://NAME:{}",
            bound.port()
        ));
    }
}

/// Everything behind the door.
pub(super) struct Setup {
    pub store: Arc<SqliteStore>,
    pub hub: Arc<Hub>,
    pub config: Config,
    oauth: Arc<OAuth>,
}

impl Setup {
    pub async fn new(
        args: &ShareArgs,
        config: Config,
        app: &App,
        program: &str,
    ) -> anyhow::Result<Self> {
        let store = app.open_store()?;
        let oauth = oauth(args, store.clone()).await?;
        let hub = app.hub(store.clone(), &config, program)?.asking(oauth.clone());
        let hub = Arc::new(hub);
        Ok(Self { store, hub, config, oauth })
    }

    /// A one-time code for this very server.
    pub async fn offer(&self, scopes: Scopes) -> anyhow::Result<Code> {
        Ok(self.oauth.offer(scopes).await?)
    }

    pub async fn withdraw(&self) {
        if let Err(error) = self.oauth.withdraw().await {
            tracing::warn!("the one-time code ends by itself: {error}");
        }
    }

    /// What a crash cut short is recorded as such before anybody asks.
    async fn recover(&self) -> anyhow::Result<()> {
        let (listed, damage) = self.store.list_readable(usize::MAX).await?;
        damage.iter().for_each(|damage| say(&damage.to_string()));
        for busy in listed.iter().filter(|listed| listed.summary.busy) {
            if busy.summary.waiting_for_answer && self.is_for_a_terminal(&busy.session).await {
                continue;
            }
            if let Err(error) = self.hub.open(&busy.session).await {
                say(&error.to_string());
            }
        }
        Ok(())
    }

    /// Whether a question waits for a person at a terminal: in a session that no client of a server opened, and
    /// without a time-out. Opened here, it would keep the terminal out, and no client could answer it.
    async fn is_for_a_terminal(&self, id: &SessionId) -> bool {
        let mut session = Session::default();
        let folded = hub::fold(&*self.store, id, |envelope| session.apply(envelope)).await;
        let opened = session.opened().filter(|_| folded.is_ok());
        opened.is_some_and(|opened| opened.principal.is_none() && opened.settings.timeout.is_none())
    }

    async fn session(&self, wanted: Option<String>, app: &App) -> anyhow::Result<SessionHandle> {
        let settings = app.settings(&self.config, self.store.as_ref()).await?;
        let origin = Origin::new(Surface::Cli, "loggia");
        let handle = match wanted {
            Some(text) => {
                let id = compose::find_session(self.store.as_ref(), &text).await?;
                let handle = self.hub.open(&id).await?;
                super::run::same_workspace(&handle, app).await?;
                handle.submit(loggia_core::Command::Configure { settings }, origin).await?;
                handle
            }
            None => self.hub.create(app.new_session(settings)?, origin).await?,
        };
        Ok(handle)
    }

    async fn run(
        self,
        bound: Bound,
        shape: Shape,
        roots: Vec<PathBuf>,
        args: &ShareArgs,
        app: &App,
        told: [String; 2],
    ) -> anyhow::Result<ExitCode> {
        note_name(&bound, args);
        let serving = self.serving(bound, shape, roots, args, app, say).await?;
        // Whoever waits for this line may come: nothing can be wrong with the flags any more. That
        // nobody reads it does not end a server.
        let _ = writeln!(std::io::stdout(), "{}", told.join("\n"));
        serving.until_signalled(&self.hub).await?;
        self.hub.stop().await;
        Ok(ExitCode::SUCCESS)
    }

    /// Starts the server; `tell` is for what its operator should know.
    pub async fn serving(
        &self,
        bound: Bound,
        shape: Shape,
        roots: Vec<PathBuf>,
        args: &ShareArgs,
        app: &App,
        tell: fn(&str),
    ) -> anyhow::Result<Serving> {
        // What a workspace remembers is read when a session begins: it may be taken back by then,
        // and another workspace remembers something else.
        let settings = app.settings(&self.config, self.store.as_ref()).await?;
        let settings = Settings { rules: self.config.rules.clone(), ..settings };
        let defaults = Defaults {
            settings,
            workspace: app.workspace.clone(),
            roots,
            reserved_dirs: app.walls(&self.config)?,
            agent: AgentName("loggia".into()),
            tools: app.tool_facts(&self.config),
            auto_execute: args.allow_auto_execute,
        };
        let offers = self.config.offers;
        let facts = facts(&bound, args, offers, app.tool_skills(&self.config));
        let (limits, clients) = limits(&self.config.server);
        let hook = app.prompt_hook(&self.config);
        let push = PushOptions {
            own_ports: vec![bound.port()],
            private_hosts: self.config.webhook_hosts.clone(),
            ..PushOptions::default()
        };
        let server = Server::new(self.hub.clone(), shape, defaults, facts);
        let server = server.limiting(clients).with_hook(hook);
        let server = if offers.push { server.with_push(push) } else { server };
        let server = server.commanded(app.command_source());
        let server = server.cloning(app.clone_policy(&self.config));
        let server = Arc::new(server.with_oauth(self.oauth.clone()));
        let (directory, keep) = (app.clones_directory(&self.config), self.config.clones.keep);
        clones::sweep(self.store.as_ref(), &directory, keep, Duration::ZERO).await?;
        let tended = tokio::spawn(clones::tend(self.store.clone(), directory, keep));
        let resumed = tokio::spawn({
            let server = server.clone();
            async move { server.resume_push().await }
        });
        let encrypted = bound.tls().is_some();
        let options = GuardOptions { encrypted, ..guard_options(args)? };
        let guard = Guard::new(bound.addresses(), options);
        let door =
            Door::new(guard, authenticator(args, self.oauth.clone())?).rendering(http::refusal);
        let shutdown = Shutdown::default();
        let connections = tokio::runtime::Builder::new_multi_thread()
            .thread_name("connections")
            .enable_all()
            .build()?;
        let watched = bound.tls().cloned().map(|tls| tokio::spawn(watch(tls, tell)));
        let routes = door.around(http::router(server.clone()));
        let listening = connections.spawn(serve::serve(bound, routes, limits, shutdown.clone()));
        let connections = Some(connections);
        Ok(Serving { server, connections, listening, resumed, tended, watched, shutdown })
    }
}

/// Keeps the certificate as its files are, and says what becomes of a change.
async fn watch(tls: Tls, tell: fn(&str)) {
    let report = |changed: Result<String, TlsError>| match changed {
        Ok(news) => tell(&news),
        Err(error) => tell(&format!("{error}; the certificate in use stays")),
    };
    tls.watch(report).await;
}

/// Over when requests have had a moment to end by themselves after the signal to stop.
async fn patience(shutdown: &Shutdown) {
    shutdown.graceful.cancelled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn limits(configured: &ServerLimits) -> (Limits, ClientLimits) {
    let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let silence = Duration::from_secs(configured.idle_seconds);
    let streams =
        StreamLimits { remote: count(configured.remote_streams), local: count(configured.streams) };
    let limits = Limits {
        connections: count(configured.connections),
        idle_time: silence,
        stall_time: Duration::from_secs(configured.stall_seconds),
        ..Limits::default()
    };
    (limits, ClientLimits { streams, silence })
}

/// A server at work.
pub struct Serving {
    server: Arc<Server>,
    /// Serves all connections: an event wakes every follower of its session, and the session that writes the next event
    /// must not queue behind them. None only in `drop`: dropping a runtime inside of another one panics.
    connections: Option<Runtime>,
    listening: JoinHandle<Stopped>,
    resumed: JoinHandle<Result<(), StoreError>>,
    /// Looks after copies of repositories; stopped when the server goes.
    tended: JoinHandle<()>,
    /// Looks after the certificate's files; stopped likewise.
    watched: Option<JoinHandle<()>>,
    shutdown: Shutdown,
}

impl Serving {
    pub fn presence(&self) -> &Presence {
        self.server.presence()
    }

    /// Until a signal says so, or the listener fails.
    async fn until_signalled(mut self, hub: &Hub) -> anyhow::Result<()> {
        let shutdown = self.shutdown.clone();
        let listening = &mut self.listening;
        let ending = async {
            tokio::select! {
                stopped = &mut *listening => return stopped,
                () = patience(&shutdown) => {}
            }
            // Who waits for the end of a turn waits no longer: it is cut now, and they are told.
            hub.stop().await;
            listening.await
        };
        tokio::select! {
            stopped = ending => {
                let stopped = stopped?;
                if stopped.cut > 0 {
                    say(&format!("{} connections were cut", stopped.cut));
                }
            }
            error = stop_on_signals(shutdown.clone()) => error?,
        }
        self.leave().await;
        Ok(())
    }

    /// Tells everybody who is connected, and gives them a moment to hear it.
    pub async fn stop(mut self) {
        self.shutdown.graceful.cancel();
        self.shutdown.now.cancel();
        // It cannot fail but by a panic, which was reported where it happened.
        let _ = (&mut self.listening).await;
        self.leave().await;
    }

    async fn leave(mut self) {
        if let Ok(Err(error)) = (&mut self.resumed).await {
            say(&format!("push notifications of an earlier run were not sent: {error}"));
        }
        self.server.stop_push().await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tended.abort();
        if let Some(watched) = &self.watched {
            watched.abort();
        }
        if let Some(connections) = self.connections.take() {
            connections.shutdown_background();
        }
    }
}

/// The first signal stops in order, the second at once. Never returns but with an error: the server
/// ends by itself once it is told.
async fn stop_on_signals(shutdown: Shutdown) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    for token in [&shutdown.graceful, &shutdown.now] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        token.cancel();
    }
    std::future::pending().await
}

fn guard_options(args: &ShareArgs) -> anyhow::Result<GuardOptions> {
    let host = |text: &String| {
        HostPort::parse(text)
            .ok_or_else(|| usage(format!("`{text}` is no host: --allowed-host name:port")))
    };
    let allowed_hosts = args.allowed_hosts.iter().map(host).collect::<Result<Vec<_>, _>>()?;
    let allowed_hosts = allowed_hosts.into_iter().chain(public_hosts(args)).collect();
    let origin = |text: &String| {
        read_origin(text).ok_or_else(|| {
            let why = "one origin as browsers write it, such as https://console.example, without a \
                       path, and not all of them";
            usage(format!("`{text}` is no origin: --allowed-origin takes {why}"))
        })
    };
    let allowed_origins = args.allowed_origins.iter().map(origin).collect::<Result<_, _>>()?;
    let forms = vec![http::TOKEN.to_owned()];
    Ok(GuardOptions { allowed_hosts, allowed_origins, forms, ..GuardOptions::default() })
}

/// The host of the public URL, and its port if it names one.
fn public_host(args: &ShareArgs) -> Option<String> {
    let (_, authority) = public_authority(args.public_url.as_deref()?)?;
    Some(authority.to_owned())
}

/// The same in every way that clients write it: on the usual port of the URL's own scheme, which need
/// not be the one that is listened with, some name the port and some do not.
fn public_hosts(args: &ShareArgs) -> Vec<HostPort> {
    let public = args.public_url.as_deref().and_then(public_authority);
    let Some((usual, authority)) = public else { return Vec::new() };
    match HostPort::parse(authority) {
        Some(named) if named.port.is_none_or(|port| port == usual) => {
            [None, Some(usual)].map(|port| HostPort { port, ..named.clone() }).into()
        }
        named => named.into_iter().collect(),
    }
}

/// The usual port of a URL's scheme, and its host as it is written there.
fn public_authority(url: &str) -> Option<(u16, &str)> {
    let (usual, rest) = match url.split_once("://")? {
        ("https", rest) => (443, rest),
        ("http", rest) => (80, rest),
        _ => return None,
    };
    Some((usual, rest.split(['/', '?', '#']).next().unwrap_or(rest)))
}

async fn oauth(args: &ShareArgs, store: Arc<SqliteStore>) -> anyhow::Result<Arc<OAuth>> {
    let sample = match args.dev_credentials {
        true => SampleClient::On,
        false => SampleClient::Off,
    };
    let made = tokio::task::spawn_blocking(move || OAuth::new(store, sample)).await?;
    let oauth = Arc::new(made?);
    if args.require_token && args.token_file.is_none() && !oauth.has_clients().await? {
        eprintln!(
            "loggia: nobody has a token yet: let a device in with `loggia pair`, register a client with \
             `loggia clients add NAME`, or name a --token-file"
        );
    }
    Ok(oauth)
}

/// On every screen that such a server has.
pub(super) const DEV_CREDENTIALS: &str = "--dev-credentials: the published sample client \
     a2a-claude-client-123 is let in; everything of your user on this machine can use it";

fn authenticator(args: &ShareArgs, oauth: Arc<OAuth>) -> anyhow::Result<Authenticator> {
    let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let options = AuthOptions {
        public: paths(http::PUBLIC),
        proving: paths(&[http::TOKEN]),
        token_always: paths(http::TOKEN_ALWAYS),
        require_token: args.require_token,
        ..AuthOptions::default()
    };
    let authenticator = Authenticator::new(options).with(oauth);
    Ok(match &args.token_file {
        Some(path) => authenticator.with(TokenFile::read(path).map_err(usage)?),
        None => authenticator,
    })
}

fn facts(bound: &Bound, args: &ShareArgs, offers: Offers, tools: Vec<Skill>) -> CardFacts {
    let public_url = public_url(bound, args);
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    CardFacts {
        name: "Loggia".into(),
        description: "A coding agent whose one live session is open on every side.".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        grpc: grpc_urls(args, &public_url),
        public_url,
        tenant: args.tenant.clone().filter(|tenant| !tenant.is_empty()),
        documentation_url: None,
        streaming: offers.streaming,
        push: false,
        extended_card: offers.extended_card,
        auth: if args.require_token { vec![AuthScheme::Bearer] } else { Vec::new() },
        input_modes: text(&["text/plain"]),
        output_modes: text(&["text/plain", "application/json"]),
        skills: vec![Skill {
            id: "code_generation".into(),
            name: "Code Generation".into(),
            description:
                "Reads, writes and runs code in one workspace, asking before it changes anything."
                    .into(),
            tags: text(&["code", "development", "programming"]),
            examples: text(&["write hello.txt: hi"]),
        }],
        tools,
    }
}

/// As told, or as it follows from how HTTP clients reach the server.
fn grpc_urls(args: &ShareArgs, public_url: &str) -> Option<GrpcUrls> {
    let own = GrpcUrls::of(public_url);
    let v1 = args.grpc_url.clone().or_else(|| own.map(|own| own.v1))?;
    Some(GrpcUrls { v03: args.grpc_url_03.clone().unwrap_or_else(|| v1.clone()), v1 })
}
