//! What `[server.clones]` says: which repositories may be cloned, how, and for how long.

use std::path::PathBuf;

use loggia_agent::clone::{CloneLimits, Keep};
use loggia_core::repository::{AllowedSources, RepositoryUrl, Scheme};
use serde_json::{Value, json};

use super::error::shortened;
use super::key::Setting;

const MOST_DAYS: u64 = 3650;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClonesConfig {
    /// None: `clones` in the state directory.
    pub directory: Option<PathBuf>,
    pub sources: AllowedSources,
    pub credentials: Vec<(String, PathBuf)>,
    pub ca_file: Option<PathBuf>,
    pub keep: Keep,
    pub limits: CloneLimits,
}

impl Default for ClonesConfig {
    fn default() -> Self {
        Self {
            directory: None,
            sources: AllowedSources::default(),
            credentials: Vec::new(),
            ca_file: None,
            keep: Keep::Days(7),
            limits: CloneLimits::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloneSetting {
    Directory(PathBuf),
    Scheme(Scheme),
    Host(String),
    PrivateHost(String),
    Credentials(String, PathBuf),
    CaFile(PathBuf),
    Keep(Keep),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneLimit {
    Count,
    Seconds,
    Bytes,
    Files,
    TotalBytes,
    StallSeconds,
    StallBytes,
}

impl CloneLimit {
    pub fn most(self) -> u64 {
        match self {
            CloneLimit::Count => 1 << 20,
            CloneLimit::Seconds | CloneLimit::StallSeconds => 24 * 60 * 60,
            CloneLimit::Files => 1 << 30,
            CloneLimit::Bytes | CloneLimit::TotalBytes | CloneLimit::StallBytes => 1 << 50,
        }
    }
}

impl ClonesConfig {
    /// Takes a setting in. An element of a list has a name of its own.
    pub fn put(&mut self, setting: CloneSetting) -> Option<String> {
        let add = |list: &mut Vec<String>, host: String| {
            if !list.contains(&host) {
                list.push(host.clone());
            }
            Some(host)
        };
        match setting {
            CloneSetting::Directory(path) => self.directory = Some(path),
            CloneSetting::CaFile(path) => self.ca_file = Some(path),
            CloneSetting::Keep(keep) => self.keep = keep,
            CloneSetting::Scheme(scheme) => {
                if !self.sources.schemes.contains(&scheme) {
                    self.sources.schemes.push(scheme);
                }
                return Some(scheme.name().to_owned());
            }
            CloneSetting::Host(host) => return add(&mut self.sources.hosts, host),
            CloneSetting::PrivateHost(host) => return add(&mut self.sources.private_hosts, host),
            CloneSetting::Credentials(host, file) => {
                self.credentials.retain(|(known, _)| *known != host);
                self.credentials.push((host.clone(), file));
                return Some(host);
            }
        }
        None
    }

    /// Whether the setting says what holds anyway.
    pub fn is_already(&self, setting: &CloneSetting) -> bool {
        let mut changed = self.clone();
        changed.put(setting.clone());
        changed == *self
    }

    pub fn limit(&self, limit: CloneLimit) -> u64 {
        let limits = &self.limits;
        match limit {
            CloneLimit::Count => limits.count,
            CloneLimit::Seconds => limits.time.as_secs(),
            CloneLimit::Bytes => limits.bytes,
            CloneLimit::Files => limits.files,
            CloneLimit::TotalBytes => limits.total_bytes,
            CloneLimit::StallSeconds => limits.stall_time.as_secs(),
            CloneLimit::StallBytes => limits.stall_bytes,
        }
    }

    pub fn set_limit(&mut self, limit: CloneLimit, value: u64) {
        let limits = &mut self.limits;
        match limit {
            CloneLimit::Count => limits.count = value,
            CloneLimit::Seconds => limits.time = std::time::Duration::from_secs(value),
            CloneLimit::Bytes => limits.bytes = value,
            CloneLimit::Files => limits.files = value,
            CloneLimit::TotalBytes => limits.total_bytes = value,
            CloneLimit::StallSeconds => limits.stall_time = std::time::Duration::from_secs(value),
            CloneLimit::StallBytes => limits.stall_bytes = value,
        }
    }

    /// Every value with its key, and the name of its element where it is one of a list.
    pub fn rows(&self) -> Vec<(&'static str, Option<String>, Value)> {
        let Self { directory, sources, credentials, ca_file, keep, .. } = self;
        let path = |path: &PathBuf| json!(path.to_string_lossy());
        let mut rows = Vec::new();
        let single = |key, value| (key, None, value);
        rows.extend(directory.as_ref().map(|it| single("server.clones.directory", path(it))));
        for scheme in &sources.schemes {
            let name = scheme.name();
            rows.push(("server.clones.schemes", Some(name.to_owned()), json!(name)));
        }
        for (key, hosts) in [
            ("server.clones.hosts", &sources.hosts),
            ("server.clones.private_hosts", &sources.private_hosts),
        ] {
            rows.extend(hosts.iter().map(|host| (key, Some(host.clone()), json!(host))));
        }
        for (host, file) in credentials {
            let value = json!(format!("{host}={}", file.display()));
            rows.push(("server.clones.credentials", Some(host.clone()), value));
        }
        rows.extend(ca_file.as_ref().map(|it| single("server.clones.ca_file", path(it))));
        rows.push(single("server.clones.keep", json!(keep_text(*keep))));
        for (key, limit) in [
            ("server.clones.count", CloneLimit::Count),
            ("server.clones.seconds", CloneLimit::Seconds),
            ("server.clones.bytes", CloneLimit::Bytes),
            ("server.clones.files", CloneLimit::Files),
            ("server.clones.total_bytes", CloneLimit::TotalBytes),
            ("server.clones.stall_seconds", CloneLimit::StallSeconds),
            ("server.clones.stall_bytes", CloneLimit::StallBytes),
        ] {
            rows.push(single(key, json!(self.limit(limit))));
        }
        rows
    }
}

pub fn keep_text(keep: Keep) -> String {
    match keep {
        Keep::Always => "always".to_owned(),
        Keep::Days(days) => format!("days:{days}"),
        Keep::Never => "never".to_owned(),
    }
}

fn full_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.is_absolute() && !text.contains(char::is_control) {
        true => Ok(path),
        false => Err(format!("`{}` is not a full path: write one", shortened(text))),
    }
}

pub fn read_directory(text: &str) -> Result<Setting, String> {
    full_path(text).map(|path| Setting::Clones(CloneSetting::Directory(path)))
}

pub fn read_ca_file(text: &str) -> Result<Setting, String> {
    full_path(text).map(|path| Setting::Clones(CloneSetting::CaFile(path)))
}

pub fn read_scheme(text: &str) -> Result<Setting, String> {
    let scheme = Scheme::parse(text).ok_or_else(|| {
        format!(
            "there is no scheme `{}`: write `https`, `ssh`, `file`, or for this machine only \
             `http` or `git`",
            shortened(text)
        )
    })?;
    Ok(Setting::Clones(CloneSetting::Scheme(scheme)))
}

/// `host` or `host:port`, as in an address.
fn host(text: &str) -> Result<String, String> {
    let no_host = || format!("`{}` is no host: write `host` or `host:port`", shortened(text));
    let url = RepositoryUrl::parse(&format!("https://{text}/x")).map_err(|_| no_host())?;
    match url.path == "/x" {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(no_host()),
    }
}

pub fn read_host(text: &str) -> Result<Setting, String> {
    host(text).map(|host| Setting::Clones(CloneSetting::Host(host)))
}

pub fn read_private_host(text: &str) -> Result<Setting, String> {
    host(text).map(|host| Setting::Clones(CloneSetting::PrivateHost(host)))
}

pub fn read_credentials(text: &str) -> Result<Setting, String> {
    let (name, file) = text.split_once('=').ok_or("write `host=/full/path/of/a/file`")?;
    let file = full_path(file)?;
    Ok(Setting::Clones(CloneSetting::Credentials(host(name)?, file)))
}

pub fn read_keep(text: &str) -> Result<Setting, String> {
    let days = text.strip_prefix("days:").and_then(|days| days.parse().ok());
    let keep = match (text, days) {
        ("always", _) => Keep::Always,
        ("never", _) => Keep::Never,
        (_, Some(days)) if (1..=MOST_DAYS).contains(&days) => Keep::Days(days),
        (_, Some(_) | None) => {
            let text = shortened(text);
            return Err(format!("`{text}` is no rule: write `always`, `never` or `days:30`"));
        }
    };
    Ok(Setting::Clones(CloneSetting::Keep(keep)))
}
