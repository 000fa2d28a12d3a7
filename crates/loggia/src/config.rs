//! Loads the configuration from all sources.
//!
//! Later sources override earlier ones: built-in values, the user's `config.toml`, the project's
//! `.loggia/config.toml`, environment variables, flags. Lists are merged instead, so that a command
//! denied anywhere stays denied. A project file may only restrict until a person trusts its
//! directory ([`trust`]). The origin of each value is recorded.
//!
//! This module does not implement or display the values and has no other sources: no `.env` file,
//! no file of another tool, nothing from the network.

pub mod clones;
mod document;
mod draft;
mod environment;
mod error;
mod key;
pub mod key_file;
mod nearest;
mod paths;
pub mod providers;
pub mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use loggia_agent::CompactAt;
use loggia_agent::model::offline;
use loggia_core::{Effort, Limits, Mode, OnTimeout, Prices, Rule, Seconds, Timeout};

use clones::ClonesConfig;
use document::{Entry, InvalidEntry, InvalidKind};
use draft::Draft;
use key_file::{KeyFile, StoredKeys};
use providers::{UserProvider, exposed_key};
use trust::Trust;

pub use document::{PROJECT_FILE, project_settings};
pub use environment::Environment;
pub use error::ConfigError;
pub use key::KEYS;
pub use paths::Paths;

use crate::models::{self, KeyOrigin};
use crate::style::one_line;

/// The environment variables of all keys.
pub fn variables() -> impl Iterator<Item = String> {
    KEYS.iter().filter_map(key::Key::variable)
}

/// The effective values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub model: String,
    /// None: the model's own default.
    pub effort: Option<Effort>,
    /// From `[providers]`, by name.
    pub providers: BTreeMap<String, UserProvider>,
    /// Keys that `loggia keys` stored.
    pub stored_keys: StoredKeys,
    /// Certificates for the providers' servers.
    pub ca_file: Option<PathBuf>,
    /// What the command line said.
    pub flags: Flags,
    /// The model is `offline` because no other one was chosen and no key is there.
    pub is_demo: bool,
    pub mode: Mode,
    /// From `[commands]` of all sources, with ids `config-1`, `config-2`, …
    pub rules: Vec<Rule>,
    pub limits: Limits,
    pub approvals: ApprovalsConfig,
    /// Compact the context when this percentage of the model's window is used; 0 turns it off.
    pub compact_at: u8,
    pub server: ServerLimits,
    pub tls: TlsConfig,
    /// From the flag `--token-file`.
    pub token_file: Option<PathBuf>,
    pub clones: ClonesConfig,
    /// Private hosts that clients may use as webhooks.
    pub webhook_hosts: Vec<String>,
    pub offers: Offers,
    /// Whether local processes that the server cannot see may connect with a token.
    pub allow_hidden_peers: bool,
    /// Environment variables passed to commands in addition to the default ones.
    pub pass_env: Vec<String>,
    pub shell: Option<PathBuf>,
    pub hooks: Hooks,
    pub keys: Keys,
    /// Token prices.
    pub prices: Prices,
    pub theme: ThemeChoice,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: offline::NAME.to_owned(),
            effort: None,
            providers: BTreeMap::new(),
            stored_keys: StoredKeys::new(),
            ca_file: None,
            flags: Flags::default(),
            is_demo: false,
            mode: Mode::default(),
            rules: Vec::new(),
            limits: Limits::default(),
            approvals: ApprovalsConfig::default(),
            compact_at: CompactAt::default().percent,
            server: ServerLimits::default(),
            tls: TlsConfig::default(),
            token_file: None,
            clones: ClonesConfig::default(),
            webhook_hosts: Vec::new(),
            offers: Offers::default(),
            allow_hidden_peers: false,
            pass_env: Vec::new(),
            shell: None,
            hooks: Hooks { prompt_submit: None, seconds: 30 },
            keys: Keys::default(),
            prices: Prices::default(),
            theme: ThemeChoice::default(),
        }
    }
}

/// The timeout of approval questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApprovalsConfig {
    /// None: no timeout.
    pub timeout: Option<Seconds>,
    pub on_timeout: OnTimeout,
}

impl ApprovalsConfig {
    pub fn policy(self) -> Option<Timeout> {
        self.timeout.map(|after| Timeout { after, then: self.on_timeout })
    }
}

/// The key bindings of the composer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keys {
    #[default]
    Plain,
    Vim,
}

impl Keys {
    pub const ALL: [Self; 2] = [Keys::Plain, Keys::Vim];

    pub fn name(self) -> &'static str {
        match self {
            Keys::Plain => "plain",
            Keys::Vim => "vim",
        }
    }
}

/// The terminal background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThemeChoice {
    /// As reported by the terminal.
    #[default]
    Auto,
    Light,
    Dark,
}

impl ThemeChoice {
    pub const ALL: [Self; 3] = [ThemeChoice::Auto, ThemeChoice::Light, ThemeChoice::Dark];

    pub fn name(self) -> &'static str {
        match self {
            ThemeChoice::Auto => "auto",
            ThemeChoice::Light => "light",
            ThemeChoice::Dark => "dark",
        }
    }
}

/// User programs that Loggia runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// Checks every message from a client: a program and its arguments.
    pub prompt_submit: Option<Vec<String>>,
    /// Timeout of a hook.
    pub seconds: u64,
}

/// Limits and timeouts of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    pub connections: u64,
    /// Per local user or token.
    pub streams: u64,
    /// Per remote token.
    pub remote_streams: u64,
    pub stall_seconds: u64,
    pub idle_seconds: u64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let (connections, streams, remote_streams) = (4_096, 4_096, 256);
        Self { connections, streams, remote_streams, stall_seconds: 30, idle_seconds: 75 }
    }
}

/// Absolute paths of the TLS files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsConfig {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// Optional server features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    pub streaming: bool,
    pub push: bool,
    pub extended_card: bool,
}

impl Default for Offers {
    fn default() -> Self {
        Self { streaming: true, push: true, extended_card: true }
    }
}

/// Configuration set by the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flags {
    pub model: Option<String>,
    pub effort: Option<String>,
    pub mode: Option<Mode>,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSource {
    BuiltIn,
    File {
        path: PathBuf,
        line: usize,
    },
    Variable(String),
    Flag(&'static str),
    /// The provider of this key.
    Key(KeyOrigin),
}

impl fmt::Display for ValueSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSource::BuiltIn => out.write_str("built-in"),
            ValueSource::File { path, line } => write!(out, "{}:{line}", path.display()),
            ValueSource::Variable(name) => write!(out, "environment {name}"),
            ValueSource::Flag(name) => write!(out, "flag {name}"),
            ValueSource::Key(origin) => write!(out, "key in {}", origin.describe()),
        }
    }
}

#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// By key; a rule by its id, a list element as `shell.pass_env.NAME`.
    pub origins: BTreeMap<String, ValueSource>,
    /// Warnings for the user, safe to print.
    pub notices: Vec<String>,
    /// What the project file would set if it were trusted. None if part of the file is invalid,
    /// because then it cannot be trusted.
    pub untrusted: Option<Vec<UntrustedSetting>>,
}

/// A setting that takes effect only once its file is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedSetting {
    pub key: &'static str,
    pub line: usize,
    /// The value as written in the file, unsafe to print.
    pub written: String,
}

pub fn load(
    environment: &Environment,
    paths: &Paths,
    workspace: &Path,
    flags: &Flags,
) -> Result<Loaded, ConfigError> {
    let mut draft = Draft::built_in();
    let user_file = user_file(environment, paths)?;
    for Entry { line, found, .. } in document::user_settings(&user_file.path, user_file.required)? {
        let (key, setting) = found.map_err(|invalid| invalid.error)?;
        draft.put(key, &setting, ValueSource::File { path: user_file.path.clone(), line });
    }
    add_project(&mut draft, paths, workspace)?;
    add_environment(&mut draft, environment)?;
    add_flags(&mut draft, flags)?;
    let Loaded { mut config, mut origins, mut notices, untrusted } = draft.finish();
    config.flags = flags.clone();
    match KeyFile::new(paths).read() {
        Ok(keys) => config.stored_keys = keys,
        Err(error) => notices.push(error.to_string()),
    }
    keep_keys_from_commands(&config, &origins)?;
    notices.extend(config.providers.iter().filter_map(|(name, of)| exposed_key(name, of)));
    choose_model(&mut config, &mut origins, environment);
    notices.extend(exposed(&reserved_paths(environment, paths, &config)?, workspace));
    Ok(Loaded { config, origins, notices, untrusted })
}

/// Without a configured model, a person who has a key gets a model of its provider.
fn choose_model(
    config: &mut Config,
    origins: &mut BTreeMap<String, ValueSource>,
    environment: &Environment,
) {
    if origins.get("model") != Some(&ValueSource::BuiltIn) {
        return;
    }
    let chosen = models::default_model(&config.providers, environment, &config.stored_keys);
    config.is_demo = chosen.is_none();
    if let Some((model, key)) = chosen {
        config.model = model;
        origins.insert("model".to_owned(), ValueSource::Key(key));
    }
}

/// The user's own variables with keys are not passed to commands either.
fn keep_keys_from_commands(
    config: &Config,
    origins: &BTreeMap<String, ValueSource>,
) -> Result<(), ConfigError> {
    let secret = config.providers.iter().find_map(|(name, provider)| {
        let variable = provider.key_env.as_ref()?;
        config.pass_env.contains(variable).then_some((name, variable))
    });
    let Some((name, variable)) = secret else { return Ok(()) };
    let origin = origins.get(&format!("shell.pass_env.{variable}"));
    let origin = origin.map_or(String::new(), |origin| format!("{origin}: "));
    Err(ConfigError::new(format!(
        "{origin}shell.pass_env: `{variable}` is never passed to commands: it holds the key of the \
         provider {name}; take it off the list"
    )))
}

/// Loggia's own files and directories and the configured secret files, with links resolved. Tools
/// and clients may not use them.
pub fn reserved_paths(
    environment: &Environment,
    paths: &Paths,
    config: &Config,
) -> Result<Vec<PathBuf>, ConfigError> {
    let user_file = user_file(environment, paths)?.path;
    let own = [&paths.config, &paths.data, &paths.state, &user_file];
    let own = own.into_iter().chain(&config.clones.directory).map(PathBuf::as_path);
    let mut reserved_paths: Vec<PathBuf> = own.map(paths::real).collect();
    let credentials = config.clones.credentials.iter().map(|(_, file)| file);
    for secret in credentials.chain(&config.tls.key).chain(&config.token_file) {
        // Relative paths are relative to the directory in which Loggia was started.
        let secret = std::path::absolute(secret).unwrap_or_else(|_| secret.clone());
        reserved_paths.push(paths::real(&secret));
        // For a link, also reserve the link itself, so that it cannot be replaced by another file.
        if let (Some(parent), Some(name)) = (secret.parent(), secret.file_name()) {
            reserved_paths.push(paths::real(parent).join(name));
        }
    }
    reserved_paths.sort();
    reserved_paths.dedup();
    Ok(reserved_paths)
}

/// A warning if commands in a directory can reach Loggia's own files. Tools are kept out of them,
/// commands are not.
pub fn exposed(reserved_paths: &[PathBuf], directory: &Path) -> Option<String> {
    let shown = directory.display();
    if let Some(path) = reserved_paths.iter().find(|path| directory.starts_with(path)) {
        let path = path.display();
        return Some(one_line(&format!(
            "{shown} is inside Loggia's own directory {path}: sessions cannot work there, use a \
             project directory instead."
        )));
    }
    let is_inner = |path: &PathBuf| {
        reserved_paths.iter().any(|other| path != other && path.starts_with(other))
    };
    let found = reserved_paths.iter().filter(|path| path.starts_with(directory) && !is_inner(path));
    let found: Vec<String> = found.map(|path| path.display().to_string()).collect();
    let names = (!found.is_empty()).then(|| found.join(", "))?;
    Some(one_line(&format!(
        "Loggia's own files are inside the workspace {shown}: {names}. Tools cannot use them, \
         but commands can: a project directory is safer."
    )))
}

pub struct UserFile {
    pub path: PathBuf,
    /// The user named the file, so it must exist.
    pub required: bool,
}

/// The user's configuration file: `LOGGIA_CONFIG`, or `config.toml` in the configuration directory.
pub fn user_file(environment: &Environment, paths: &Paths) -> Result<UserFile, ConfigError> {
    let Some(named) = environment.get_os("LOGGIA_CONFIG") else {
        return Ok(UserFile { path: paths.config.join("config.toml"), required: false });
    };
    paths::absolute("LOGGIA_CONFIG", named).map(|path| UserFile { path, required: true })
}

fn add_project(draft: &mut Draft, paths: &Paths, workspace: &Path) -> Result<(), ConfigError> {
    let path = workspace.join(PROJECT_FILE);
    let entries = match project_settings(workspace) {
        Ok(entries) if entries.is_empty() => return Ok(()),
        Ok(entries) => entries,
        Err(error) if Trust::new(paths).is_trusted(workspace)? => return Err(error),
        Err(error) => {
            draft.note_untrusted(&path, Vec::new(), Vec::new(), vec![error.to_string()]);
            return Ok(());
        }
    };
    let trusted = Trust::new(paths).is_trusted(workspace)?;
    let (mut need_trust, mut unknown_keys, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for Entry { line, written, found } in entries {
        let origin = ValueSource::File { path: path.clone(), line };
        match found {
            Ok((key, setting)) if key.is_users_only(&setting) => {
                wrong.push(format!("{origin}: set `{}` in your own file.", key.name));
            }
            Ok((key, setting)) if trusted || draft.restricts(key, &setting) => {
                draft.put(key, &setting, origin);
            }
            Ok((key, setting)) if draft.is_already(key, &setting) => {}
            Ok((key, _)) => need_trust.push(UntrustedSetting { key: key.name, line, written }),
            Err(invalid) if trusted => return Err(invalid.error),
            Err(InvalidEntry { kind: InvalidKind::Unknown { name }, .. }) => {
                unknown_keys.push((name, origin));
            }
            Err(InvalidEntry { kind: InvalidKind::Value, error }) => wrong.push(error.to_string()),
        }
    }
    draft.note_untrusted(&path, need_trust, unknown_keys, wrong);
    Ok(())
}

fn add_environment(draft: &mut Draft, environment: &Environment) -> Result<(), ConfigError> {
    for key in KEYS {
        let Some(name) = key.variable() else { continue };
        let Some(value) = environment.get_os(&name) else { continue };
        let refuse = |reason: String| ConfigError::new(format!("{name}: {reason}"));
        let text = value.to_str().ok_or_else(|| refuse("it is not valid UTF-8".into()))?;
        for setting in key.read_text(text).map_err(refuse)? {
            draft.put(key, &setting, ValueSource::Variable(name.clone()));
        }
    }
    draft.note_misspelled(environment);
    Ok(())
}

fn add_flags(draft: &mut Draft, flags: &Flags) -> Result<(), ConfigError> {
    let said = [
        ("model", "--model", flags.model.clone()),
        ("effort", "--effort", flags.effort.clone()),
        ("mode", "--approve", flags.mode.map(|mode| mode.name().to_owned())),
    ];
    for (name, flag, value) in said {
        let (Some(key), Some(value)) = (key::find(name), value) else { continue };
        let settings = key
            .read_text(&value)
            .map_err(|reason| ConfigError::new(format!("{flag}: {reason}")))?;
        for setting in settings {
            draft.put(key, &setting, ValueSource::Flag(flag));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
