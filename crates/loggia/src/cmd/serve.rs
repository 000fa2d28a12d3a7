//! `loggia serve` and `loggia --a2a-port`: serves sessions until stopped.

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
    self, Admission, Bound, Limits, Listen, ListenAddress, Shutdown, Stopped, Tls, TlsError,
    TlsFiles,
};
use loggia_server::state::{ClientLimits, Defaults, ServedSessions, Server};
use loggia_session::{Hub, Listing, Store, StoreError, hub};
use loggia_wire::CardFacts;
use loggia_wire::card::{AuthScheme, GrpcUrls, Skill};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::require_person::require_person;
use crate::cli::ApprovalMode;
use crate::cli::port;
use crate::clones;
use crate::compose::App;
use crate::config::{Config, Flags, Offers, ServerLimits, exposed};
use crate::exit::UsageError;
use crate::style::{one_line, say, shown};

#[derive(Args)]
pub struct ServeArgs {
    /// The port to listen on; 0 picks a free port
    #[arg(long, default_value_t = 41242, value_name = "PORT", value_parser = port)]
    #[arg(allow_negative_numbers = true)]
    pub port: u16,
    #[command(flatten)]
    pub share: ShareArgs,
    /// A directory in which clients may choose workspaces; can be repeated
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
}

/// Flags shared by `serve` and `--a2a-port`.
#[derive(Args, Default)]
#[command(next_help_heading = "Sharing")]
pub struct ShareArgs {
    /// The listen address: localhost, or any address with TLS and --require-token
    #[arg(long, default_value = "localhost", value_name = "ADDRESS")]
    pub listen: String,
    /// TLS certificate chain (PEM), server certificate first
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// TLS private key (PEM, without passphrase, readable by you only)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// The public URL of this server, if clients use another address
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// The public gRPC address `host:port`, if it differs from the HTTP address
    #[arg(long, value_name = "ADDRESS")]
    pub grpc_url: Option<String>,
    /// The public gRPC address for A2A 0.3; some clients expect `http://host:port`
    #[arg(long = "grpc-url-0.3", value_name = "ADDRESS")]
    pub grpc_url_03: Option<String>,
    /// The tenant in the agent card, which clients repeat in their requests
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Another host name of this server, `name` or `name:port`
    #[arg(long = "allowed-host", value_name = "HOST")]
    pub allowed_hosts: Vec<String>,
    /// Allow web pages of this origin, such as https://console.example
    #[arg(long = "allowed-origin", value_name = "ORIGIN")]
    pub allowed_origins: Vec<String>,
    /// Bearer tokens, one `name:token` or `token` per line; the file must be readable by you only
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Also require tokens from local clients: of --token-file or `loggia clients`
    #[arg(long)]
    pub require_token: bool,
    /// Admit processes of your user that the server cannot see, such as sshd for `ssh -L`, with a token
    #[arg(long)]
    pub allow_hidden_peers: bool,
    /// Accept the published sample client a2a-claude-client-123, on this machine only
    #[arg(long)]
    pub dev_credentials: bool,
    /// Let clients open sessions without approvals (autoExecute)
    #[arg(long)]
    pub allow_auto_execute: bool,
    /// Which actions are approved without asking
    #[arg(long, value_enum, value_name = "WHAT")]
    pub approve: Option<ApprovalMode>,
    /// The model: `PROVIDER/MODEL`, `offline` or `scripted:FILE` [env: LOGGIA_MODEL]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// How much the model thinks: none, minimal, low, medium, high, xhigh or max
    /// [env: LOGGIA_EFFORT]
    #[arg(long, value_name = "LEVEL")]
    pub effort: Option<String>,
}

/// Serves many sessions without a terminal.
pub async fn serve(args: ServeArgs, app: &App) -> anyhow::Result<ExitCode> {
    require_person("serve the sessions of this user")?;
    let config = configured(&args.share, app)?;
    let bound = bind(&args.share, args.port, &config)?;
    let setup = Setup::new(&args.share, config, app, "loggia serve").await?;
    setup.recover().await?;
    let mut roots = vec![app.workspace.clone()];
    for root in &args.roots {
        let found = root.canonicalize();
        roots.push(found.map_err(|error| usage(format!("--root {}: {error}", root.display())))?);
    }
    let reserved = app.reserved_paths(&setup.config)?;
    // The warning about the first root was printed when the configuration was loaded.
    for notice in roots.iter().skip(1).filter_map(|root| exposed(&reserved, root)) {
        say(&notice);
    }
    let message = [
        format!("Loggia serves sessions on {}", addresses(&bound)),
        format!("New sessions work in {}", shown(&app.workspace)),
    ];
    setup.run(bound, ServedSessions::Many, roots, &args.share, app, message).await
}

/// Shares one session without a terminal.
pub async fn share(
    port: u16,
    args: ShareArgs,
    session: Option<String>,
    app: &App,
) -> anyhow::Result<ExitCode> {
    require_person("share a session")?;
    let config = configured(&args, app)?;
    let bound = bind(&args, port, &config)?;
    let setup = Setup::new(&args, config, app, "loggia").await?;
    // Keeping the handle prevents the session from being closed when idle.
    let wanted = app.wanted_session(setup.store.as_ref(), session.as_deref(), false).await?;
    let settings = app.settings(&setup.config, setup.store.as_ref()).await?;
    let origin = Origin::new(Surface::Cli, "loggia");
    let shared =
        app.open_session(&setup.hub, wanted.as_ref(), settings, &setup.config, &origin).await?;
    let id = shared.id().clone();
    let message = [
        format!("Loggia shares session {} on {}", one_line(id.as_str()), addresses(&bound)),
        format!("It works in {}", shown(&app.workspace)),
    ];
    setup
        .run(bound, ServedSessions::Shared(id), vec![app.workspace.clone()], &args, app, message)
        .await
}

/// The configuration with the flags applied.
pub(super) fn configured(args: &ShareArgs, app: &App) -> anyhow::Result<Config> {
    let mode = args.approve.map(|approve| match approve {
        ApprovalMode::Ask => Mode::Ask,
        ApprovalMode::Edits => Mode::Edits,
        ApprovalMode::All => Mode::All,
        ApprovalMode::Plan => Mode::Plan,
    });
    let (model, effort) = (args.model.clone(), args.effort.clone());
    let mut config = app.load_config(&Flags { model, effort, mode })?.config;
    let message = exposed(&app.reserved_paths(&config)?, &app.workspace);
    config.tls.certificate = args.tls_cert.clone().or(config.tls.certificate);
    config.tls.key = args.tls_key.clone().or(config.tls.key);
    config.token_file.clone_from(&args.token_file);
    // Also check the files named by flags.
    let found = exposed(&app.reserved_paths(&config)?, &app.workspace);
    if let Some(notice) = found.filter(|notice| message.as_ref() != Some(notice)) {
        say(&notice);
    }
    app.check_model(&config)?;
    Ok(config)
}

pub(super) fn bind(args: &ShareArgs, port: u16, config: &Config) -> anyhow::Result<Bound> {
    let bound = listen(args, port, config)?;
    if args.dev_credentials {
        say(&format!("WARNING: {DEV_CREDENTIALS}"));
    }
    Ok(bound)
}

/// Like [`bind`], without printing to the terminal.
pub(super) fn listen(args: &ShareArgs, port: u16, config: &Config) -> anyhow::Result<Bound> {
    let address: ListenAddress = args.listen.parse().map_err(usage)?;
    if args.dev_credentials {
        refuse_public_credentials(args, address)?;
    }
    check_names(args)?;
    let tls = tls(config)?;
    let listen = Listen { address, port, authenticated: args.require_token, tls };
    serve::bind(listen).map_err(usage)
}

/// Checks the values that are copied to the agent card.
fn check_names(args: &ShareArgs) -> anyhow::Result<()> {
    if let Some(url) = args.public_url.as_deref() {
        check_public(url)?;
    }
    // Addresses without a scheme; some 0.3 clients need one.
    let has_port = |url: &str| HostPort::parse(url).is_some_and(|host| host.port.is_some());
    let is_text = |url: &str| !url.contains(char::is_whitespace) && !url.is_empty();
    let v1 = args.grpc_url.as_deref().filter(|url| !has_port(url) || !is_text(url));
    let v03 = args.grpc_url_03.as_deref().filter(|url| !is_text(url));
    for (flag, url) in [("--grpc-url", v1), ("--grpc-url-0.3", v03)] {
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
    // Do not print the URL: it may contain a password.
    if authority.contains('@') {
        return Err(usage(
            "--public-url: the agent card is public, so the URL must not contain a user or password; an address \
             such as https://box.example",
        ));
    }
    if url.contains(['?', '#']) {
        return Err(usage(format!(
            "--public-url {url}: paths are appended to it, so it must not contain `?` or `#`; an address such \
             as https://box.example/loggia"
        )));
    }
    let letter = |letter: char| letter.is_whitespace() || letter.is_control();
    if HostPort::parse(authority).is_none() || url.contains(letter) {
        return Err(usage(format!("--public-url {url}: an address such as https://box.example")));
    }
    Ok(())
}

/// The certificate of the flags or the configuration. A certificate without its key is an error.
fn tls(config: &Config) -> anyhow::Result<Option<Tls>> {
    match (config.tls.certificate.clone(), config.tls.key.clone()) {
        (Some(certificate), Some(key)) => {
            Tls::load(TlsFiles { certificate, key }).map(Some).map_err(usage)
        }
        (Some(_), None) => Err(usage("--tls-cert needs the certificate's key: --tls-key FILE")),
        (None, Some(_)) => Err(usage("--tls-key needs the key's certificate: --tls-cert FILE")),
        (None, None) => Ok(None),
    }
}

/// The sample secret is public, so it must not work for other machines.
fn refuse_public_credentials(args: &ShareArgs, address: ListenAddress) -> anyhow::Result<()> {
    let named = args.allowed_hosts.iter().chain(&public_host(args)).any(|host| {
        let host = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
        !["localhost", "127.0.0.1", "[::1]"].contains(&host)
    });
    if address.is_loopback() && !named {
        return Ok(());
    }
    Err(usage(
        "--dev-credentials accepts a published secret: listen on localhost only, without another \
         host name, or register a client with `loggia clients add`",
    ))
}

fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    UsageError(error.to_string()).into()
}

pub(super) fn addresses(bound: &Bound) -> String {
    let scheme = scheme(bound);
    let urls = bound.addresses().iter().map(|address| format!("{scheme}://{address}"));
    urls.collect::<Vec<_>>().join(" and ")
}

fn scheme(bound: &Bound) -> &'static str {
    if bound.tls().is_some() { "https" } else { "http" }
}

/// The public URL: the configured one, or one derived from the listen address.
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

/// Warns if the agent card would contain localhost although the server is reachable from elsewhere.
pub(super) fn warn_localhost_name(bound: &Bound, args: &ShareArgs) {
    let everywhere = bound.addresses().iter().any(|address| address.ip().is_unspecified());
    if everywhere && args.public_url.is_none() && args.allowed_hosts.is_empty() {
        say(&format!(
            "the agent card contains localhost, which other machines cannot reach: set \
             --public-url https://NAME:{}",
            bound.port()
        ));
    }
}

/// The components of a server.
pub(super) struct Setup {
    pub store: Arc<dyn Store>,
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
        let hub = app.hub(store.clone(), &config, program)?.with_principals(oauth.clone());
        let hub = Arc::new(hub);
        Ok(Self { store, hub, config, oauth })
    }

    /// Creates a one-time code for this server.
    pub async fn offer(&self, scopes: Scopes) -> anyhow::Result<Code> {
        Ok(self.oauth.offer(scopes).await?)
    }

    pub async fn withdraw(&self) {
        if let Err(error) = self.oauth.withdraw().await {
            tracing::warn!("cannot revoke the one-time code, which expires by itself: {error}");
        }
    }

    /// Opens the sessions that a crash interrupted, so that the interruption is recorded before the
    /// first request.
    async fn recover(&self) -> anyhow::Result<()> {
        let Listing { sessions, damage } = self.store.list_readable(usize::MAX).await?;
        damage.iter().for_each(|damage| say(&damage.to_string()));
        for busy in sessions.iter().filter(|listed| listed.summary.busy) {
            if busy.summary.waiting_for_answer && self.is_for_a_terminal(&busy.session).await {
                continue;
            }
            if let Err(error) = self.hub.open(&busy.session).await {
                say(&error.to_string());
            }
        }
        Ok(())
    }

    /// Whether the session waits for an answer at a terminal: no client opened it and it has no
    /// timeout. Opening it here would lock out the terminal, and no client could answer.
    async fn is_for_a_terminal(&self, id: &SessionId) -> bool {
        let mut session = Session::default();
        let folded = hub::fold(&*self.store, id, |envelope| session.apply(envelope)).await;
        let opened = session.opened().filter(|_| folded.is_ok());
        opened.is_some_and(|opened| opened.principal.is_none() && opened.settings.timeout.is_none())
    }

    async fn run(
        self,
        bound: Bound,
        sessions: ServedSessions,
        roots: Vec<PathBuf>,
        args: &ShareArgs,
        app: &App,
        message: [String; 2],
    ) -> anyhow::Result<ExitCode> {
        warn_localhost_name(&bound, args);
        let serving = self.serving(bound, sessions, roots, args, app, say).await?;
        // Scripts wait for this line before they connect. A closed stdout does not stop the server.
        let _ = writeln!(std::io::stdout(), "{}", message.join("\n"));
        serving.until_signalled(&self.hub).await?;
        self.hub.stop().await;
        Ok(ExitCode::SUCCESS)
    }

    /// Starts the server. `tell` reports messages to the operator.
    pub async fn serving(
        &self,
        bound: Bound,
        sessions: ServedSessions,
        roots: Vec<PathBuf>,
        args: &ShareArgs,
        app: &App,
        tell: fn(&str),
    ) -> anyhow::Result<Serving> {
        // Without the saved rules of this workspace: each session loads those of its own workspace
        // when it starts.
        let settings = app.settings(&self.config, self.store.as_ref()).await?;
        let settings = Settings { rules: self.config.rules.clone(), ..settings };
        let defaults = Defaults {
            settings,
            workspace: app.workspace.clone(),
            roots,
            reserved_dirs: app.reserved_paths(&self.config)?,
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
        let server = Server::new(self.hub.clone(), sessions, defaults, facts);
        let server = server.with_limits(clients).with_hook(hook);
        let server = if offers.push { server.with_push(push) } else { server };
        let server = server.with_commands(app.command_source());
        let server = server.with_clones(app.clone_policy(&self.config));
        let server = Arc::new(server.with_oauth(self.oauth.clone()));
        let (directory, keep) = (app.clones_directory(&self.config), self.config.clones.keep);
        clones::sweep(self.store.as_ref(), &directory, keep, Duration::ZERO).await?;
        let clone_cleanup = tokio::spawn(clones::run_cleanup(self.store.clone(), directory, keep));
        let resumed = tokio::spawn({
            let server = server.clone();
            async move { server.resume_push().await }
        });
        let encrypted = bound.tls().is_some();
        let options = GuardOptions { encrypted, ..guard_options(args)? };
        let guard = Guard::new(bound.addresses(), options);
        let admission =
            Admission::new(guard, authenticator(args, &self.config, self.oauth.clone())?)
                .rendering(http::refusal);
        let shutdown = Shutdown::default();
        let connections = tokio::runtime::Builder::new_multi_thread()
            .thread_name("connections")
            .enable_all()
            .build()?;
        let certificate_watch = bound.tls().cloned().map(|tls| tokio::spawn(watch(tls, tell)));
        let routes = admission.protect(http::router(server.clone()));
        let listening = connections.spawn(serve::serve(bound, routes, limits, shutdown.clone()));
        let connections = Some(connections);
        Ok(Serving {
            server,
            connections,
            listening,
            resumed,
            clone_cleanup,
            certificate_watch,
            shutdown,
        })
    }
}

/// Reloads the certificate when its files change and reports the result.
async fn watch(tls: Tls, tell: fn(&str)) {
    let report = |changed: Result<String, TlsError>| match changed {
        Ok(news) => tell(&news),
        Err(error) => tell(&format!("{error}; keeping the current certificate")),
    };
    tls.watch(report).await;
}

/// Completes one second after the shutdown signal, so that requests can finish.
async fn grace_period(shutdown: &Shutdown) {
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

/// A running server.
pub struct Serving {
    server: Arc<Server>,
    /// Serves all connections: an event wakes every follower of its session, and the session that writes the next event
    /// must not queue behind them. None only in `drop`: dropping a runtime inside of another one panics.
    connections: Option<Runtime>,
    listening: JoinHandle<Stopped>,
    resumed: JoinHandle<Result<(), StoreError>>,
    /// Cleans up repository clones; aborted on drop.
    clone_cleanup: JoinHandle<()>,
    /// Watches the certificate files; aborted on drop.
    certificate_watch: Option<JoinHandle<()>>,
    shutdown: Shutdown,
}

impl Serving {
    pub fn presence(&self) -> &Presence {
        self.server.presence()
    }

    /// Runs until a signal arrives or the listener fails.
    async fn until_signalled(mut self, hub: &Hub) -> anyhow::Result<()> {
        let shutdown = self.shutdown.clone();
        let listening = &mut self.listening;
        let ending = async {
            tokio::select! {
                stopped = &mut *listening => return stopped,
                () = grace_period(&shutdown) => {}
            }
            // Interrupt running turns, so that clients waiting for them get a result.
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
        self.finish().await;
        Ok(())
    }

    /// Stops the server and waits until its connections are closed.
    pub async fn stop(mut self) {
        self.shutdown.graceful.cancel();
        self.shutdown.now.cancel();
        // It can only fail by a panic, which is already reported.
        let _ = (&mut self.listening).await;
        self.finish().await;
    }

    async fn finish(mut self) {
        if let Ok(Err(error)) = (&mut self.resumed).await {
            say(&format!("push notifications of an earlier run could not be resumed: {error}"));
        }
        self.server.stop_push().await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.clone_cleanup.abort();
        if let Some(certificate_watch) = &self.certificate_watch {
            certificate_watch.abort();
        }
        if let Some(connections) = self.connections.take() {
            connections.shutdown_background();
        }
    }
}

/// The first signal shuts down gracefully, the second immediately. Returns only on an error.
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
            .ok_or_else(|| usage(format!("`{text}` is not a valid host: --allowed-host name:port")))
    };
    let allowed_hosts = args.allowed_hosts.iter().map(host).collect::<Result<Vec<_>, _>>()?;
    let allowed_hosts = allowed_hosts.into_iter().chain(public_hosts(args)).collect();
    let origin = |text: &String| {
        read_origin(text).ok_or_else(|| {
            let why = "one origin as sent by browsers, such as https://console.example, without a \
                       path or wildcard";
            usage(format!("`{text}` is not a valid origin: --allowed-origin takes {why}"))
        })
    };
    let allowed_origins = args.allowed_origins.iter().map(origin).collect::<Result<_, _>>()?;
    let forms = vec![http::TOKEN.to_owned()];
    Ok(GuardOptions { allowed_hosts, allowed_origins, forms, ..GuardOptions::default() })
}

/// The host of the public URL, with its port if it has one.
fn public_host(args: &ShareArgs) -> Option<String> {
    let (_, authority) = public_authority(args.public_url.as_deref()?)?;
    Some(authority.to_owned())
}

/// All host headers for the public URL. For the default port of its scheme, clients may or may not
/// send the port.
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

/// The default port of a URL's scheme, and its authority.
fn public_authority(url: &str) -> Option<(u16, &str)> {
    let (usual, rest) = match url.split_once("://")? {
        ("https", rest) => (443, rest),
        ("http", rest) => (80, rest),
        _ => return None,
    };
    Some((usual, rest.split(['/', '?', '#']).next().unwrap_or(rest)))
}

async fn oauth(args: &ShareArgs, store: Arc<dyn Store>) -> anyhow::Result<Arc<OAuth>> {
    let sample = match args.dev_credentials {
        true => SampleClient::On,
        false => SampleClient::Off,
    };
    let made = tokio::task::spawn_blocking(move || OAuth::new(store, sample)).await?;
    let oauth = Arc::new(made?);
    if args.require_token && args.token_file.is_none() && !oauth.has_clients().await? {
        eprintln!(
            "loggia: no client has a token yet: pair a device with `loggia pair`, register a client with \
             `loggia clients add NAME`, or name a --token-file"
        );
    }
    Ok(oauth)
}

/// Shown wherever such a server prints a warning.
pub(super) const DEV_CREDENTIALS: &str = "--dev-credentials: the published sample client \
     a2a-claude-client-123 is accepted; any process of your user on this machine can use it";

fn authenticator(
    args: &ShareArgs,
    config: &Config,
    oauth: Arc<OAuth>,
) -> anyhow::Result<Authenticator> {
    let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let options = AuthOptions {
        public: paths(http::PUBLIC),
        token_endpoints: paths(&[http::TOKEN]),
        token_always: paths(http::TOKEN_ALWAYS),
        require_token: args.require_token,
        allow_hidden_peers: args.allow_hidden_peers || config.allow_hidden_peers,
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
        description:
            "A coding agent you can share: one live session in several terminals, editors and \
                      scripts."
                .into(),
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

/// The configured gRPC addresses, or ones derived from the public URL.
fn grpc_urls(args: &ShareArgs, public_url: &str) -> Option<GrpcUrls> {
    let own = GrpcUrls::of(public_url);
    let v1 = args.grpc_url.clone().or_else(|| own.map(|own| own.v1))?;
    Some(GrpcUrls { v03: args.grpc_url_03.clone().unwrap_or_else(|| v1.clone()), v1 })
}
