//! Composition: builds the store, hub and agent from the environment and configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use loggia_agent::model::{registry, scripted};
use loggia_agent::tool::{self, ToolConfig, ToolSpec, Toolbox};
use loggia_agent::workspace::ReservedDirs;
use loggia_agent::{CommandFiles, CompactAt, NativeAgent};
use loggia_core::{
    Access, AgentName, Command, Event, ModelName, Origin, Seq, Session, SessionId, Settings,
    Workspace,
};
use loggia_models::Providers;
use loggia_server::auth::Clients;
use loggia_server::hook::PromptHook;
use loggia_server::hook::process::HookProgram;
use loggia_server::state::{CommandSource, ModelCheck};
use loggia_session::{Hub, Listed, Listing, NewSession, SessionHandle, Store, StoreError};
use loggia_store::SqliteStore;
use loggia_wire::card::Skill;
use loggia_wire::sdlc::types::Tool;

use crate::config::trust::Trust;
use crate::config::{Config, Environment, Flags, Loaded, Paths, secret_files};
use crate::exit::UsageError;
use crate::models::{self, FoundKey};
use crate::style::{Style, say};

/// The maximum number of sessions listed in an error.
const MOST_NAMED: usize = 8;

/// These libraries log whole messages and headers at debug level, including secrets.
const VERBOSE_TARGETS: [&str; 2] = ["tungstenite", "tokio_tungstenite"];

/// The guard program is this binary. The path works even if the file was replaced since the start.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// State shared by all subcommands.
pub struct App {
    pub environment: Environment,
    pub paths: Paths,
    pub workspace: PathBuf,
    pub style: Style,
    /// Custom commands from files.
    pub commands: Arc<CommandFiles>,
    /// The open-file limit for commands, if it differs from that of this process.
    files: Option<u64>,
}

/// Raises the open-file limit of this process to the maximum: a thousand readers need a thousand
/// files. Returns the previous limit for child processes, because some programs misbehave with a
/// high one.
pub fn open_many_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    current.filter(|_| current != maximum && setrlimit(Resource::Nofile, raised).is_ok())
}

/// Protects this process from its children: orphans of a call are reparented to it, and other
/// processes of the same user cannot read its memory and environment. An attached terminal stays
/// readable, because the server must see which process owns a connection.
pub fn protect_process(attaches: bool) {
    // Hardening only. Loggia works without it, and `doctor` reports what is missing.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let _ = nix::sys::prctl::set_dumpable(attaches);
    // Child processes find this process by name, whatever the file is called.
    let _ = nix::sys::prctl::set_name(c"loggia");
}

impl App {
    pub fn new(directory: Option<&Path>) -> anyhow::Result<Self> {
        let environment = Environment::read();
        let paths = Paths::new(&environment)?;
        let workspace = match directory {
            // The directory comes from the command line, so a wrong one is a usage error.
            Some(named) => named.canonicalize().map_err(|error| {
                UsageError(format!("cannot work in {}: {error}", named.display()))
            })?,
            None => Path::new(".").canonicalize().context("cannot work in this directory")?,
        };
        let style = Style::new(&environment);
        let commands = Arc::new(command_files(&paths));
        Ok(Self { environment, paths, workspace, style, commands, files: open_many_files() })
    }

    /// Starts debug logging if requested: to stderr, or to a file while the terminal interface is
    /// open.
    pub fn start_logging(&self, screen: bool, debug: bool) -> anyhow::Result<()> {
        let debug = debug.then_some("warn,loggia=debug");
        let Some(filter) = self.environment.get("LOGGIA_LOG").or(debug) else { return Ok(()) };
        // A more specific directive would override ours.
        let is_verbose = |directive: &&str| {
            VERBOSE_TARGETS.iter().any(|target| directive.trim().starts_with(target))
        };
        let asked: Vec<&str> =
            filter.split(',').filter(|directive| !is_verbose(directive)).collect();
        let mut filter = tracing_subscriber::EnvFilter::new(asked.join(","));
        for target in VERBOSE_TARGETS {
            filter = filter.add_directive(format!("{target}=warn").parse()?);
        }
        // Drop lines that cannot be written. The default reports them on stderr and panics if
        // stderr is closed.
        let subscriber =
            tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
        if screen {
            let path = self.paths.state.join("loggia.log");
            let file = private_log(&path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            subscriber.with_writer(Arc::new(file)).with_ansi(false).init();
        } else {
            subscriber.with_writer(std::io::stderr).with_ansi(self.style.color()).init();
        }
        Ok(())
    }

    pub fn load_config(&self, flags: &Flags) -> anyhow::Result<Loaded> {
        let loaded = crate::config::load(&self.environment, &self.paths, &self.workspace, flags)?;
        for notice in &loaded.notices {
            say(notice);
        }
        Ok(loaded)
    }

    pub fn open_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        let store = open_store(&self.paths.data)?;
        for finding in store.findings() {
            say(finding);
        }
        Ok(store)
    }

    /// The guard that commands run under.
    pub fn guard(&self) -> Vec<OsString> {
        let mut guard = vec![OWN_PROGRAM.into(), "guard".into()];
        guard.extend(self.files.map(|files| format!("--files={files}").into()));
        guard
    }

    fn tools(&self, config: &Config) -> Toolbox {
        tool::builtin(ToolConfig {
            guard: self.guard(),
            pass_env: config.pass_env.clone(),
            shell: config.shell.clone(),
            env: self.environment.child_environment(&config.pass_env),
        })
    }

    /// The tools in the format of the tool listing.
    pub fn tool_facts(&self, config: &Config) -> Vec<Tool> {
        let fact = |spec: ToolSpec| Tool {
            name: spec.name,
            description: spec.description,
            parameters: spec.parameters,
        };
        self.tools(config).specs().iter().cloned().map(fact).collect()
    }

    /// The tools as skills of the agent card.
    pub fn tool_skills(&self, config: &Config) -> Vec<Skill> {
        let skill = |spec: ToolSpec| Skill {
            id: spec.name.clone(),
            name: spec.name,
            description: spec.description,
            tags: vec!["tool".into(), access_word(spec.access).into()],
            examples: Vec::new(),
        };
        self.tools(config).specs().iter().cloned().map(skill).collect()
    }

    pub fn hub(
        &self,
        store: Arc<dyn Store>,
        config: &Config,
        program: &str,
    ) -> anyhow::Result<Hub> {
        let (tools, reserved) =
            (self.tools(config), ReservedDirs::new(self.reserved_paths(config)?));
        let reserved = reserved.with_list(secret_files::list(&self.paths));
        let agent = NativeAgent::new(tools, self.workspace.clone())
            .with_user_memory(self.paths.config.join("AGENTS.md"))
            .with_home(self.environment.get_os("HOME").map(PathBuf::from))
            .with_commands(self.commands.clone())
            .with_prices(models::prices(&config.prices))
            .with_providers(self.providers(config))
            .with_compaction(CompactAt { percent: config.compact_at })
            .with_clones(self.clones(config, reserved.clone()))
            .with_reserved_dirs(reserved);
        let clients = Arc::new(Clients::new(store.clone()));
        Ok(Hub::new(store, Arc::new(agent), program).with_principals(clients))
    }

    /// Paths that neither tools nor clients may use.
    pub fn reserved_paths(&self, config: &Config) -> anyhow::Result<Vec<PathBuf>> {
        Ok(crate::config::reserved_paths(&self.environment, &self.paths, config)?)
    }

    /// The custom commands, for the server.
    pub fn command_source(&self) -> CommandSource {
        let commands = self.commands.clone();
        Arc::new(move |workspace: &Path| commands.list(workspace))
    }

    /// The configured prompt hook. It gets the same environment as commands.
    pub fn prompt_hook(&self, config: &Config) -> Option<Arc<dyn PromptHook>> {
        let command = config.hooks.prompt_submit.clone()?;
        let environment = self.environment.child_environment(&config.pass_env);
        let time = Duration::from_secs(config.hooks.seconds);
        Some(Arc::new(HookProgram::new(command, environment, time)))
    }

    /// The settings of a session in this workspace: configuration and saved project rules.
    pub async fn settings(&self, config: &Config, store: &dyn Store) -> anyhow::Result<Settings> {
        let remembered = loggia_session::hub::project_rules(store, &self.workspace_text()?).await?;
        Ok(Settings {
            model: ModelName(registry::absolute(&config.model, &self.workspace)),
            effort: config.effort,
            mode: config.mode,
            rules: config.rules.iter().cloned().chain(remembered).collect(),
            tools: None,
            unattended: false,
            timeout: config.approvals.policy(),
            limits: config.limits.clone(),
        })
    }

    fn new_session(&self, settings: Settings) -> anyhow::Result<NewSession> {
        Ok(NewSession {
            workspace: Workspace::Local { path: self.workspace_text()? },
            settings,
            agent: AgentName("loggia".into()),
        })
    }

    /// The session that the command line names: by text, or the last one of this workspace.
    pub async fn wanted_session(
        &self,
        store: &dyn Store,
        text: Option<&str>,
        last: bool,
    ) -> anyhow::Result<Option<SessionId>> {
        Ok(match text {
            Some(text) => Some(find_session(store, text).await?),
            None if last => Some(last_session(store, &self.workspace_text()?).await?),
            None => None,
        })
    }

    /// Resumes a session, or starts a new one with these settings. A resumed session keeps its model, its
    /// effort and its mode, unless the command line says otherwise.
    pub async fn open_session(
        &self,
        hub: &Hub,
        wanted: Option<&SessionId>,
        settings: Settings,
        config: &Config,
        origin: &Origin,
    ) -> anyhow::Result<SessionHandle> {
        let Some(id) = wanted else {
            return Ok(hub.create(self.new_session(settings)?, origin.clone()).await?);
        };
        let handle = hub.open(id).await?;
        let opened = |session: &Session| {
            let opened = session.opened()?;
            Some((opened.workspace.clone(), opened.settings.clone()))
        };
        let Some((workspace, before)) = handle.inspect(opened).await? else { return Ok(handle) };
        if workspace.path() != self.workspace_text()? {
            let at = workspace.path();
            let why =
                format!("session {id} works in {at}: go there, or use `loggia -C {at} run …`");
            return Err(UsageError(why).into());
        }
        let settings = self.kept(before, settings, config);
        handle.submit(Command::Configure { settings }, origin.clone()).await?;
        Ok(handle)
    }

    /// The settings of a resumed session. Says why if its model cannot be kept.
    fn kept(&self, before: Settings, mut settings: Settings, config: &Config) -> Settings {
        let Flags { model, effort, mode } = &config.flags;
        if mode.is_none() {
            settings.mode = before.mode;
        }
        if effort.is_none() {
            settings.effort = before.effort;
        }
        if model.is_some() || settings.model == before.model {
            return settings;
        }
        match registry::check(&before.model.0, &self.workspace, &self.providers(config)) {
            Ok(()) => settings.model = before.model,
            Err(error) => say(&format!(
                "this session used the model {}, which cannot be used now: {error}; it continues with {}",
                before.model, settings.model
            )),
        }
        settings
    }

    /// The providers of models.
    pub fn providers(&self, config: &Config) -> Providers {
        models::providers(config, &self.environment, &self.paths)
    }

    /// The key of a provider.
    pub fn find_key(&self, provider: &str, config: &Config) -> Option<FoundKey> {
        let user = config.providers.get(provider);
        models::find_key(provider, user, &self.environment, &config.stored_keys)
    }

    /// Whether a client may have a model. Scripts are files of this machine, so they are not for clients.
    pub fn model_check(&self, config: &Config) -> ModelCheck {
        let (providers, directory) = (self.providers(config), self.workspace.clone());
        Arc::new(move |name: &str| {
            if name.trim_start().starts_with(scripted::PREFIX) {
                return Err("a client cannot choose a script as its model".to_owned());
            }
            registry::check(name, &directory, &providers).map_err(|error| error.to_string())
        })
    }

    /// Fails if the configured model cannot be opened. No network. Blocks on the file system.
    pub fn check_model(&self, config: &Config) -> anyhow::Result<()> {
        let checked = registry::check(&config.model, &self.workspace, &self.providers(config));
        checked.map_err(|error| UsageError(error.to_string()).into())
    }

    /// Two lines for a person who chose no model and has no key: what the offline model is, and how to get
    /// another one. Empty otherwise.
    pub async fn explain_offline(&self, config: &Config) -> Vec<String> {
        if !config.is_demo {
            return Vec::new();
        }
        let running = self.providers(config).local_servers().await;
        let next = match running.first() {
            Some((_, model)) => {
                format!(
                    "For a model: `--model {model}` on this machine, or `loggia keys set anthropic`."
                )
            }
            None => {
                "For a model: `loggia keys set anthropic`, or `--model NAME` (`loggia models`)."
                    .to_owned()
            }
        };
        vec!["this is the offline demo: it follows steps such as `say hi`".to_owned(), next]
    }

    pub fn workspace_text(&self) -> anyhow::Result<String> {
        let text = self.workspace.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            UsageError(format!(
                "{} is not valid UTF-8: work in another directory",
                self.workspace.display()
            ))
            .into()
        })
    }
}

/// Opens the log file with permissions for its owner only, whatever the umask and its earlier mode.
/// Fails if the permissions cannot be set.
fn private_log(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
    let private = std::fs::Permissions::from_mode;
    if let Some(directory) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        std::fs::set_permissions(directory, private(0o700))?;
    }
    let mut options = std::fs::File::options();
    let flags = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let file = options.create(true).append(true).mode(0o600).custom_flags(flags).open(path)?;
    file.set_permissions(private(0o600))?;
    Ok(file)
}

/// The user's commands, and those of trusted projects.
fn command_files(paths: &Paths) -> CommandFiles {
    let trust = Trust::new(paths);
    CommandFiles::new(paths.config.join("commands"), move |workspace| {
        trust.is_trusted(workspace).unwrap_or_else(|error| {
            tracing::warn!("cannot read the trust list: {error}");
            false
        })
    })
}

fn access_word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Session => "session",
        Access::Edit => "edit",
        Access::Execute => "execute",
        Access::Ask => "ask",
        Access::Other => "other",
    }
}

/// Opens the store in a data directory. Blocks. Only this function names the kind of store.
pub fn open_store(data: &Path) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqliteStore::open(data)?))
}

/// Finds the one session with this id, id prefix or name.
pub async fn find_session(store: &dyn Store, text: &str) -> anyhow::Result<SessionId> {
    let exact = SessionId::from(text);
    if store.head(&exact).await?.is_some() {
        return Ok(exact);
    }
    let called = text.trim().to_lowercase();
    let fits = |listed: &Listed| {
        let name = listed.summary.name.as_deref().unwrap_or_default().to_lowercase();
        !called.is_empty() && (listed.session.as_str().starts_with(text) || name == called)
    };
    let mut found = store.list(usize::MAX).await?;
    found.retain(fits);
    let why = match found.as_slice() {
        [one] => return Ok(one.session.clone()),
        [] => format!("there is no session `{text}`: see `loggia sessions list`"),
        many => {
            let ids = many.iter().take(MOST_NAMED).map(|listed| listed.session.as_str());
            let more = many.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let ids = ids.collect::<Vec<_>>().join(", ");
            format!("more than one session matches `{text}`: {ids}{more}; give one of the ids")
        }
    };
    Err(UsageError(why).into())
}

/// The sessions of a workspace, newest first, and the damage that may hide others.
pub async fn sessions_of(store: &dyn Store, workspace: &str) -> anyhow::Result<Listing> {
    let Listing { sessions, mut damage } = store.list_readable(usize::MAX).await?;
    let is_here = |listed: &Listed| listed.summary.workspace == workspace;
    let (here, elsewhere): (Vec<_>, Vec<_>) = sessions.into_iter().partition(is_here);
    // A summary has no checksum, but its log has one. A directory that does not exist may be a
    // damaged path.
    for listed in elsewhere.iter().filter(|listed| !Path::new(&listed.summary.workspace).exists()) {
        let first = store.read(&listed.session, Seq::ZERO, 1).await.unwrap_or_default();
        let opened = first.first().map(|envelope| &envelope.event);
        if let Some(Event::SessionOpened { workspace: logged, .. }) = opened
            && logged.path() == workspace
        {
            let detail =
                format!("the list contains a wrong directory for session {}", listed.session);
            let file = store.location();
            damage.get_or_insert(StoreError::Damaged { file, detail });
        }
    }
    Ok(Listing { sessions: here, damage })
}

/// The newest session of a workspace.
async fn last_session(store: &dyn Store, workspace: &str) -> anyhow::Result<SessionId> {
    let Listing { sessions, damage } = sessions_of(store, workspace).await?;
    if let Some(damage) = damage {
        return Err(damage.into());
    }
    let last = sessions.into_iter().find(|listed| !listed.summary.closed);
    last.map(|listed| listed.session).ok_or_else(|| {
        UsageError("there is no session in this directory yet: start one without --continue".into())
            .into()
    })
}
