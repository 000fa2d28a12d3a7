//! Lifecycle of repository clones: configuration, client policy and cleanup.
//!
//! A clone belongs to the session whose workspace it is. A clone of an idle session is removed
//! after the configured time. The log keeps its name, and the next turn of the session clones the
//! repository again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loggia_agent::clone::{self, CloneConfig, CloneRetention, Clones, SystemLookup};
use loggia_agent::workspace::ReservedDirs;
use loggia_core::repository::clone_name;
use loggia_core::{Event, Millis, Seq, SessionId, Workspace};
use loggia_server::clones::ClonePolicy;
use loggia_session::{Store, StoreError};

use crate::compose::App;
use crate::config::Config;

/// Interval of the cleanup while a server runs.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// An incomplete clone older than this is abandoned: no clone may take that long.
const STALE: Duration = Duration::from_secs(48 * 60 * 60);
const DAY: u64 = 24 * 60 * 60 * 1000;

impl App {
    pub fn clones_directory(&self, config: &Config) -> PathBuf {
        config.clones.directory.clone().unwrap_or_else(|| self.paths.state.join("clones"))
    }

    pub fn clones(&self, config: &Config, reserved: ReservedDirs) -> Arc<Clones> {
        let clones = &config.clones;
        Arc::new(Clones::new(CloneConfig {
            directory: self.clones_directory(config),
            guard: self.guard(),
            env: self.environment.child_environment(&[]),
            sources: clones.sources.clone(),
            credentials: clones.credentials.clone(),
            ca_file: clones.ca_file.clone(),
            limits: clones.limits,
            keep: clones.keep,
            lookup: Arc::new(SystemLookup),
            reserved,
        }))
    }

    /// Limits on the clones that clients may request.
    pub fn clone_policy(&self, config: &Config) -> ClonePolicy {
        ClonePolicy {
            directory: self.clones_directory(config),
            sources: config.clones.sources.clone(),
            count: config.clones.limits.count,
        }
    }
}

/// Removes unused clones once an hour.
pub async fn run_cleanup(store: Arc<dyn Store>, directory: PathBuf, keep: CloneRetention) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if let Err(error) = sweep(store.as_ref(), &directory, keep, STALE).await {
            tracing::warn!(%error, "cannot clean up repository clones");
        }
    }
}

/// Removes clones whose session has been idle long enough, and incomplete clones older than
/// `stale`. Returns how many were removed. A complete clone without a known session is kept: it may
/// belong to another Loggia installation.
pub async fn sweep(
    store: &dyn Store,
    directory: &Path,
    keep: CloneRetention,
    stale: Duration,
) -> Result<usize, StoreError> {
    let directory = directory.to_owned();
    let find = move || clone::list_clones(&directory).unwrap_or_default();
    let clones = tokio::task::spawn_blocking(find).await.unwrap_or_default();
    if clones.is_empty() {
        return Ok(0);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    let sessions: HashMap<PathBuf, SessionUse> = store
        .list(usize::MAX)
        .await?
        .into_iter()
        .map(|listed| {
            let summary = listed.summary;
            (summary.workspace.into(), SessionUse { busy: summary.busy, last: summary.updated })
        })
        .collect();
    let remove = move || {
        let done = clones.iter().filter(|path| {
            let left = clone::left_at(path).map(|left| left.elapsed().unwrap_or_default());
            is_done(sessions.get(*path), left, keep, now, stale)
        });
        done.filter(|path| clone::remove_clone(path).is_ok()).count()
    };
    Ok(tokio::task::spawn_blocking(remove).await.unwrap_or(0))
}

struct SessionUse {
    busy: bool,
    last: Millis,
}

/// `left` is the age of an incomplete clone, None for a complete one.
fn is_done(
    session: Option<&SessionUse>,
    left: Option<Duration>,
    keep: CloneRetention,
    now: Millis,
    stale: Duration,
) -> bool {
    let Some(session) = session else { return left.is_some_and(|left| left >= STALE) };
    if session.busy {
        return false;
    }
    let rested = u64::try_from(now.0.saturating_sub(session.last.0)).unwrap_or(0);
    match (left, keep) {
        (Some(left), _) => left >= stale,
        (None, CloneRetention::Always) => false,
        (None, CloneRetention::Never) => true,
        (None, CloneRetention::Days(days)) => rested >= days.saturating_mul(DAY),
    }
}

/// The clone that a session works in. Call it before the session is deleted.
pub async fn clone_of(store: &dyn Store, id: &SessionId) -> Option<PathBuf> {
    let first = store.read(id, Seq::ZERO, 1).await.ok()?;
    let Event::SessionOpened { workspace: Workspace::Clone { path, .. }, .. } =
        &first.first()?.event
    else {
        return None;
    };
    let path = PathBuf::from(path);
    // Remove only a directory that is named after the session, whatever path the log contains.
    let own = path.file_name().and_then(|name| name.to_str()) == Some(&clone_name(id));
    (own && path.is_absolute()).then_some(path)
}

pub async fn remove(clone: Option<PathBuf>) -> std::io::Result<()> {
    let Some(path) = clone else { return Ok(()) };
    let removed = tokio::task::spawn_blocking(move || clone::remove_clone(&path)).await;
    removed.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_clone_is_removed_as_configured() {
        let now = Millis(100 * DAY as i64);
        let used =
            |busy: bool, days: i64| SessionUse { busy, last: Millis(now.0 - days * DAY as i64) };
        let (idle, busy) = (used(false, 0), used(true, 99));
        let (young, old) = (Some(Duration::from_secs(1)), Some(STALE));
        let (always, never, week) =
            (CloneRetention::Always, CloneRetention::Never, CloneRetention::Days(7));
        let table = [
            (None, always, Some(&used(false, 99)), false),
            (None, never, Some(&idle), true),
            (None, never, Some(&busy), false),
            (None, week, Some(&used(false, 6)), false),
            (None, week, Some(&used(false, 7)), true),
            (None, week, Some(&busy), false),
            // The clock was set back.
            (None, week, Some(&used(false, -8)), false),
            // The clone of another installation.
            (None, never, None, false),
            (young, always, None, false),
            (old, always, None, true),
            (young, always, Some(&idle), false),
            (old, always, Some(&idle), true),
            (old, always, Some(&busy), false),
        ];
        for (row, (left, keep, session, done)) in table.into_iter().enumerate() {
            assert_eq!(is_done(session, left, keep, now, STALE), done, "row {row}");
        }
        // Before a server starts listening, no clone can be in progress.
        assert!(is_done(Some(&idle), young, always, now, Duration::ZERO));
        assert!(!is_done(None, young, always, now, Duration::ZERO));
    }
}
