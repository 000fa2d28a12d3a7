//! What Loggia is told to do, put together from every place where it can be said.
//!
//! Later wins: built-in values, the user's `config.toml`, the project's `.loggia/config.toml`, the
//! environment, flags. Lists grow over the layers instead, so that a command denied anywhere stays
//! denied. A project's file may only restrict until a person trusts its directory ([`trust`]).
//! Every value remembers where it came from.
//!
//! What must not be here: what the values do, how they are shown, and any other source: no `.env`
//! file, no file of another tool, nothing from a network.

pub mod clones;
mod document;
mod draft;
mod environment;
mod error;
mod key;
mod nearest;
mod paths;
pub mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use loggia_core::{Limits, Mode, OnTimeout, Prices, Rule, Seconds, Timeout};

use clones::ClonesConfig;
use document::{Entry, Mistake, MistakeKind};
use draft::Draft;
use key::KEYS;
use trust::Trust;

pub use document::{PROJECT_FILE, project_settings};
pub use environment::Environment;
pub use error::ConfigError;
pub use paths::Paths;

use crate::style::one_line;

/// The variables that keys can be set by.
pub fn variables() -> impl Iterator<Item = String> {
    KEYS.iter().filter_map(key::Key::variable)
}

/// Effective values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub model: String,
    pub mode: Mode,
    /// From `[commands]` of every layer, with ids `config-1`, `config-2`, …
    pub rules: Vec<Rule>,
    pub limits: Limits,
    pub approvals: ApprovalsConfig,
    /// How much of the model's window may be full, in percent; 0: it is not looked at.
    pub compact_at: u8,
    pub server: ServerLimits,
    pub tls: TlsConfig,
    /// Of the flag `--token-file`.
    pub token_file: Option<PathBuf>,
    pub clones: ClonesConfig,
    /// Hosts of a private network that clients may name as webhooks.
    pub webhook_hosts: Vec<String>,
    pub offers: Offers,
    /// Variables that commands get beside the few that they always get.
    pub pass_env: Vec<String>,
    pub shell: Option<PathBuf>,
    pub hooks: Hooks,
    pub keys: Keys,
    /// What tokens cost.
    pub prices: Prices,
    pub theme: ThemeChoice,
}

/// What becomes of questions that nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApprovalsConfig {
    /// None: they wait.
    pub timeout: Option<Seconds>,
    pub on_timeout: OnTimeout,
}

impl ApprovalsConfig {
    pub fn policy(self) -> Option<Timeout> {
        self.timeout.map(|after| Timeout { after, then: self.on_timeout })
    }
}

/// What keys mean where prompts are written.
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

/// What the terminal's background is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThemeChoice {
    /// What the terminal says.
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

/// Programs of the user that Loggia asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// Looks at every message from outside: a program and its arguments.
    pub prompt_submit: Option<Vec<String>>,
    /// How long a hook may take.
    pub seconds: u64,
}

/// What the server lets clients hold and how long it waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    pub connections: u64,
    /// Of one user or token on this machine.
    pub streams: u64,
    /// Of one token elsewhere.
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

/// What the server encrypts with, as full paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsConfig {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// What a server offers beyond what every one must.
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

/// What the command line may set.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    pub model: Option<String>,
    pub mode: Option<Mode>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    File { path: PathBuf, line: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => out.write_str("built-in"),
            Origin::File { path, line } => write!(out, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(out, "environment {name}"),
            Origin::Flag(name) => write!(out, "flag {name}"),
        }
    }
}

#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// By key; a rule by its id, a passed variable as `shell.pass_env.NAME`.
    pub origins: BTreeMap<String, Origin>,
    /// What was ignored and why: sentences for the user, safe to print.
    pub notices: Vec<String>,
    /// What the project's file would set, were it trusted; None where not all of it is understood,
    /// and so cannot be agreed to.
    pub kept_back: Option<Vec<KeptBack>>,
}

/// A setting of a file that nobody trusts yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBack {
    pub key: &'static str,
    pub line: usize,
    /// As it is written there, unsafe to print.
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
        let (key, setting) = found.map_err(|mistake| mistake.error)?;
        draft.put(key, setting, Origin::File { path: user_file.path.clone(), line });
    }
    add_project(&mut draft, paths, workspace)?;
    add_environment(&mut draft, environment)?;
    add_flags(&mut draft, flags)?;
    let Loaded { config, origins, mut notices, kept_back } = draft.finish();
    notices.extend(exposed(&walls(environment, paths, &config)?, workspace));
    Ok(Loaded { config, origins, notices, kept_back })
}

/// Loggia's own files and directories, and files with secrets that it was given, free of links: no tool
/// enters them and no client works there.
pub fn walls(
    environment: &Environment,
    paths: &Paths,
    config: &Config,
) -> Result<Vec<PathBuf>, ConfigError> {
    let user_file = user_file(environment, paths)?.path;
    let own = [&paths.config, &paths.data, &paths.state, &user_file];
    let own = own.into_iter().chain(&config.clones.directory).map(PathBuf::as_path);
    let mut walls: Vec<PathBuf> = own.map(paths::real).collect();
    let credentials = config.clones.credentials.iter().map(|(_, file)| file);
    for secret in credentials.chain(&config.tls.key).chain(&config.token_file) {
        // A relative path is one of the directory that Loggia was started in.
        let secret = std::path::absolute(secret).unwrap_or_else(|_| secret.clone());
        walls.push(paths::real(&secret));
        // Where it is a link, the link as well: another file must not be put in its place.
        if let (Some(parent), Some(name)) = (secret.parent(), secret.file_name()) {
            walls.push(paths::real(parent).join(name));
        }
    }
    walls.sort();
    walls.dedup();
    Ok(walls)
}

/// What whoever works in a directory could reach of Loggia's own, in a sentence. Tools stay out of it;
/// commands do not.
pub fn exposed(walls: &[PathBuf], directory: &Path) -> Option<String> {
    let shown = directory.display();
    if let Some(wall) = walls.iter().find(|wall| directory.starts_with(wall)) {
        let wall = wall.display();
        return Some(one_line(&format!(
            "{shown} is inside of Loggia's own files in {wall}: no session can work there, take a \
             project's directory instead."
        )));
    }
    let is_inner =
        |wall: &PathBuf| walls.iter().any(|other| wall != other && wall.starts_with(other));
    let found = walls.iter().filter(|wall| wall.starts_with(directory) && !is_inner(wall));
    let found: Vec<String> = found.map(|wall| wall.display().to_string()).collect();
    let names = (!found.is_empty()).then(|| found.join(", "))?;
    Some(one_line(&format!(
        "Loggia's own files lie inside of {shown}, where sessions work: {names}. Tools stay out of \
         them, but a command can reach them: a project's directory is safer."
    )))
}

pub struct UserFile {
    pub path: PathBuf,
    /// It was named by the user, so it has to exist.
    pub required: bool,
}

/// The user's own file: `LOGGIA_CONFIG`, or `config.toml` in the configuration directory.
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
        let origin = Origin::File { path: path.clone(), line };
        match found {
            Ok((key, setting)) if trusted || draft.restricts(&setting) => {
                draft.put(key, setting, origin);
            }
            Ok((_, setting)) if draft.is_already(&setting) => {}
            Ok((key, _)) => need_trust.push(KeptBack { key: key.name, line, written }),
            Err(mistake) if trusted => return Err(mistake.error),
            Err(Mistake { kind: MistakeKind::Unknown { name }, .. }) => {
                unknown_keys.push((name, origin));
            }
            Err(Mistake { kind: MistakeKind::Value, error }) => wrong.push(error.to_string()),
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
            draft.put(key, setting, Origin::Variable(name.clone()));
        }
    }
    draft.note_misspelled(environment);
    Ok(())
}

fn add_flags(draft: &mut Draft, flags: &Flags) -> Result<(), ConfigError> {
    let said = [
        ("model", "--model", flags.model.clone()),
        ("mode", "--approve", flags.mode.map(|mode| mode.name().to_owned())),
    ];
    for (name, flag, value) in said {
        let (Some(key), Some(value)) = (key::find(name), value) else { continue };
        let settings = key
            .read_text(&value)
            .map_err(|reason| ConfigError::new(format!("{flag}: {reason}")))?;
        for setting in settings {
            draft.put(key, setting, Origin::Flag(flag));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
