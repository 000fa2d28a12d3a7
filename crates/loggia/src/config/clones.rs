//! The values of `[server.clones]`: which repositories may be cloned, and for how long.

use std::path::PathBuf;

use loggia_agent::clone::{CloneLimits, CloneRetention};
use loggia_core::repository::{AllowedSources, RepositoryUrl, Scheme};

use super::Config;
use super::error::shortened;
use super::key::absolute_path;

const MOST_DAYS: u64 = 3650;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClonesConfig {
    /// None: `clones` in the state directory.
    pub directory: Option<PathBuf>,
    pub sources: AllowedSources,
    pub credentials: Vec<(String, PathBuf)>,
    pub ca_file: Option<PathBuf>,
    pub keep: CloneRetention,
    pub limits: CloneLimits,
}

impl Default for ClonesConfig {
    fn default() -> Self {
        Self {
            directory: None,
            sources: AllowedSources::default(),
            credentials: Vec::new(),
            ca_file: None,
            keep: CloneRetention::Days(7),
            limits: CloneLimits::default(),
        }
    }
}

pub fn keep_text(keep: CloneRetention) -> String {
    match keep {
        CloneRetention::Always => "always".to_owned(),
        CloneRetention::Days(days) => format!("days:{days}"),
        CloneRetention::Never => "never".to_owned(),
    }
}

pub fn keep(config: &Config) -> Option<String> {
    Some(keep_text(config.clones.keep))
}

pub fn set_keep(config: &mut Config, text: &str) -> Result<(), String> {
    let days = text.strip_prefix("days:").and_then(|days| days.parse().ok());
    config.clones.keep = match (text, days) {
        ("always", _) => CloneRetention::Always,
        ("never", _) => CloneRetention::Never,
        (_, Some(days)) if (1..=MOST_DAYS).contains(&days) => CloneRetention::Days(days),
        (_, Some(_) | None) => {
            let text = shortened(text);
            return Err(format!(
                "`{text}` is not a valid rule: write `always`, `never` or `days:30`"
            ));
        }
    };
    Ok(())
}

pub fn scheme(text: &str) -> Result<Scheme, String> {
    Scheme::parse(text).ok_or_else(|| {
        format!(
            "there is no scheme `{}`: write `https`, `ssh`, `file`, or for this machine only \
             `http` or `git`",
            shortened(text)
        )
    })
}

/// `host` or `host:port`.
pub fn host(text: &str) -> Result<String, String> {
    let no_host =
        || format!("`{}` is not a valid host: write `host` or `host:port`", shortened(text));
    let url = RepositoryUrl::parse(&format!("https://{text}/x")).map_err(|_| no_host())?;
    match url.path == "/x" {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(no_host()),
    }
}

pub fn credentials(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("write `host=/full/path/of/a/file`")?;
    Ok((host(name)?, absolute_path(file, "/etc/loggia/credentials")?))
}
