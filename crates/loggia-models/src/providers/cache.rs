//! Lists of models, kept in memory and on disk for a day. No key is in them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::protocol::ModelFacts;

/// A list is asked for again after this time.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);
/// A larger file is not ours.
const LARGEST: u64 = 16 * 1024 * 1024;

/// What a provider listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedList {
    /// Another address is another list.
    pub base_url: String,
    /// Seconds since 1970.
    at: u64,
    pub models: Vec<ModelFacts>,
}

impl CachedList {
    pub fn new(base_url: &str, models: Vec<ModelFacts>) -> Self {
        Self { base_url: base_url.to_owned(), at: now(), models }
    }

    pub fn is_fresh(&self) -> bool {
        now().checked_sub(self.at).is_some_and(|age| age < FRESH.as_secs())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn file(directory: &Path, provider: &str) -> PathBuf {
    directory.join(format!("{provider}.json"))
}

/// None if there is none that can be used. Blocks.
pub fn read(directory: &Path, provider: &str, base_url: &str) -> Option<CachedList> {
    let path = file(directory, provider);
    let size = path.metadata().ok()?.len();
    let text = (size <= LARGEST).then(|| std::fs::read(path).ok())??;
    let list: CachedList = serde_json::from_slice(&text).ok()?;
    (list.base_url == base_url && list.is_fresh()).then_some(list)
}

/// A list that cannot be written is asked for again. Blocks.
pub fn write(directory: &Path, provider: &str, list: &CachedList) {
    let written = || {
        std::fs::create_dir_all(directory)?;
        let fresh = directory.join(format!(".{provider}.{}", std::process::id()));
        std::fs::write(&fresh, serde_json::to_vec(list)?)?;
        std::fs::rename(fresh, file(directory, provider))
    };
    if let Err(error) = written() {
        tracing::debug!("the list of models of {provider} cannot be kept: {error}");
    }
}
