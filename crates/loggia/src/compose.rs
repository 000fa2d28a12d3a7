//! Puts the crates together: environment and paths into a store, a hub and an agent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use loggia_agent::tool::{self, ToolConfig, ToolSpec, Toolbox};
use loggia_agent::workspace::ReservedDirs;
use loggia_agent::{CommandFiles, CompactAt, NativeAgent};
use loggia_core::{Access, AgentName, Event, ModelName, Seq, SessionId, Settings, Workspace};
use loggia_server::auth::Clients;
use loggia_server::hook::PromptHook;
use loggia_server::hook::process::HookProgram;
use loggia_server::state::CommandSource;
use loggia_session::{Hub, Listed, NewSession, Store, StoreError};
use loggia_store::SqliteStore;
use loggia_wire::card::Skill;
use loggia_wire::sdlc::types::Tool;

use crate::config::trust::Trust;
use crate::config::{Config, Environment, Flags, Loaded, Paths};
use crate::exit::Usage;
use crate::style::{Style, say};

/// Sessions that an error names.
const MOST_NAMED: usize = 8;

/// Libraries that write every message and header down as it is, secrets included, when they are asked
/// to say everything.
const WORDY: [&str; 2] = ["tungstenite", "tokio_tungstenite"];

/// The program a child runs as its guard: this very binary, even if the file was replaced since.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// What every subcommand starts from.
pub struct App {
    pub environment: Environment,
    pub paths: Paths,
    pub workspace: PathBuf,
    pub style: Style,
    /// Commands that people wrote in files.
    pub commands: Arc<CommandFiles>,
    /// How many files a command may open, where that is not what this process may.
    files: Option<u64>,
}

/// Lets this process open as many files as the system permits: a thousand readers are a thousand
/// files. Gives back the limit that was, for the commands it starts: some programs take a high one
/// badly.
pub fn open_many_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    current.filter(|_| current != maximum && setrlimit(Resource::Nofile, raised).is_ok())
}

/// Keeps what this process holds from the processes it starts: orphans of a call come back to it,
/// and its memory and environment cannot be read by other processes of the same user. An attached
/// screen stays visible: a server must see which process holds a connection.
pub fn protect_process(attaches: bool) {
    // These are refinements; without them Loggia still works, and `doctor` says what is missing.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let _ = nix::sys::prctl::set_dumpable(attaches);
    // Whatever the file is called: processes below this one are known by the name.
    let _ = nix::sys::prctl::set_name(c"loggia");
}

impl App {
    pub fn new(directory: Option<&Path>) -> anyhow::Result<Self> {
        let environment = Environment::read();
        let paths = Paths::new(&environment)?;
        let workspace = match directory {
            // Named on the command line, so that is where the mistake is.
            Some(named) => named
                .canonicalize()
                .map_err(|error| Usage(format!("cannot work in {}: {error}", named.display())))?,
            None => Path::new(".").canonicalize().context("cannot work in this directory")?,
        };
        let style = Style::new(&environment);
        let commands = Arc::new(command_files(&paths));
        Ok(Self { environment, paths, workspace, style, commands, files: open_many_files() })
    }

    /// Diagnostics only when asked for: on stderr, or in a file where the screen is in use.
    pub fn start_logging(&self, screen: bool, debug: bool) -> anyhow::Result<()> {
        let debug = debug.then_some("warn,loggia=debug");
        let Some(filter) = self.environment.get("LOGGIA_LOG").or(debug) else { return Ok(()) };
        // A narrower directive would win over ours.
        let is_wordy =
            |directive: &&str| WORDY.iter().any(|target| directive.trim().starts_with(target));
        let asked: Vec<&str> = filter.split(',').filter(|directive| !is_wordy(directive)).collect();
        let mut filter = tracing_subscriber::EnvFilter::new(asked.join(","));
        for target in WORDY {
            filter = filter.add_directive(format!("{target}=warn").parse()?);
        }
        // A line that cannot be written is dropped. Reported on stderr, as it would be otherwise, it panics where that is
        // closed, in the middle of a request.
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

    pub fn open_store(&self) -> anyhow::Result<Arc<SqliteStore>> {
        let store = SqliteStore::open(&self.paths.data)?;
        for finding in store.findings() {
            say(finding);
        }
        Ok(Arc::new(store))
    }

    /// The program that commands run under.
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

    /// The tools as a client may ask about them.
    pub fn tool_facts(&self, config: &Config) -> Vec<Tool> {
        let fact = |spec: ToolSpec| Tool {
            name: spec.name,
            description: spec.description,
            parameters: spec.parameters,
        };
        self.tools(config).specs().iter().cloned().map(fact).collect()
    }

    /// The tools as an agent card shows them.
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
        store: Arc<SqliteStore>,
        config: &Config,
        program: &str,
    ) -> anyhow::Result<Hub> {
        let (tools, walls) = (self.tools(config), ReservedDirs::new(self.walls(config)?));
        let agent = NativeAgent::new(tools, self.workspace.clone())
            .with_user_memory(self.paths.config.join("AGENTS.md"))
            .with_commands(self.commands.clone())
            .with_prices(config.prices.clone())
            .with_compaction(CompactAt { percent: config.compact_at })
            .with_clones(self.clones(config, walls.clone()))
            .with_reserved_dirs(walls);
        let clients = Arc::new(Clients::new(store.clone()));
        Ok(Hub::new(store, Arc::new(agent), program).asking(clients))
    }

    /// What is Loggia's own, and neither a tool's nor a client's.
    pub fn walls(&self, config: &Config) -> anyhow::Result<Vec<PathBuf>> {
        Ok(crate::config::walls(&self.environment, &self.paths, config)?)
    }

    /// Commands from files, for the wire.
    pub fn command_source(&self) -> CommandSource {
        let commands = self.commands.clone();
        Arc::new(move |workspace: &Path| commands.list(workspace))
    }

    /// Who looks at messages from outside, if somebody is configured to. It sees what commands see.
    pub fn prompt_hook(&self, config: &Config) -> Option<Arc<dyn PromptHook>> {
        let command = config.hooks.prompt_submit.clone()?;
        let environment = self.environment.child_environment(&config.pass_env);
        let time = Duration::from_secs(config.hooks.seconds);
        Some(Arc::new(HookProgram::new(command, environment, time)))
    }

    /// The settings of a session that works here: configuration, and what the project remembers.
    pub async fn settings(&self, config: &Config, store: &dyn Store) -> anyhow::Result<Settings> {
        let remembered = loggia_session::hub::project_rules(store, &self.workspace_text()?).await?;
        Ok(Settings {
            model: ModelName(absolute_model(&config.model, &self.workspace)),
            mode: config.mode,
            rules: config.rules.iter().cloned().chain(remembered).collect(),
            tools: None,
            unattended: false,
            timeout: config.approvals.policy(),
            limits: config.limits.clone(),
        })
    }

    pub fn new_session(&self, settings: Settings) -> anyhow::Result<NewSession> {
        Ok(NewSession {
            workspace: Workspace::Local { path: self.workspace_text()? },
            settings,
            agent: AgentName("loggia".into()),
        })
    }

    pub fn workspace_text(&self) -> anyhow::Result<String> {
        let text = self.workspace.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Usage(format!(
                "{} is not valid UTF-8: work in another directory",
                self.workspace.display()
            ))
            .into()
        })
    }
}

/// The file that diagnostics are added to: its owner's alone, whatever the umask and whatever it was
/// before. One that cannot be made so is not written to.
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

/// A script's path is the caller's; the session may be continued from elsewhere.
pub fn absolute_model(name: &str, workspace: &Path) -> String {
    match name.strip_prefix("scripted:").map(str::trim) {
        Some(path) if !path.is_empty() => format!("scripted:{}", workspace.join(path).display()),
        _ => name.to_owned(),
    }
}

/// Those of the user, and those of a project that is trusted.
fn command_files(paths: &Paths) -> CommandFiles {
    let trust = Trust::new(paths);
    CommandFiles::new(paths.config.join("commands"), move |workspace| {
        trust.is_trusted(workspace).unwrap_or_else(|error| {
            tracing::warn!("whom to trust is not known: {error}");
            false
        })
    })
}

/// What a tool touches, for people.
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

/// The one session with this id, or whose id begins so, or that is called so.
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
            format!("more than one session fits `{text}`: {ids}{more}; give one of the ids")
        }
    };
    Err(Usage(why).into())
}

/// The sessions of a workspace, the newest first, and what is wrong if there may be others.
pub async fn sessions_of(
    store: &SqliteStore,
    workspace: &str,
) -> anyhow::Result<(Vec<Listed>, Option<StoreError>)> {
    let (listed, mut damage) = store.list_readable(usize::MAX).await?;
    let is_here = |listed: &Listed| listed.summary.workspace == workspace;
    let (here, elsewhere): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_here);
    // A summary has no checksum, its log has. A directory that does not exist may be a damaged name.
    for listed in elsewhere.iter().filter(|listed| !Path::new(&listed.summary.workspace).exists()) {
        let first = store.read(&listed.session, Seq::ZERO, 1).await.unwrap_or_default();
        let opened = first.first().map(|envelope| &envelope.event);
        if let Some(Event::SessionOpened { workspace: logged, .. }) = opened
            && logged.path() == workspace
        {
            let detail = format!("the list says a wrong directory of session {}", listed.session);
            let file = store.path().display().to_string();
            damage.get_or_insert(StoreError::Damaged { file, detail });
        }
    }
    Ok((here, damage))
}

/// The newest session of a workspace.
pub async fn last_session(store: &SqliteStore, workspace: &str) -> anyhow::Result<SessionId> {
    let (listed, damage) = sessions_of(store, workspace).await?;
    if let Some(damage) = damage {
        return Err(damage.into());
    }
    let last = listed.into_iter().find(|listed| !listed.summary.closed);
    last.map(|listed| listed.session).ok_or_else(|| {
        Usage("there is no session in this directory yet: start one without --continue".into())
            .into()
    })
}
