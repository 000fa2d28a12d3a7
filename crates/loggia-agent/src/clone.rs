//! Clones of repositories that sessions work in: created before the first turn, then kept or removed.
//!
//! The clone of the session `<name>` is the directory `<name>` below [`CloneConfig::directory`]. It is
//! created as `<name>.new` and renamed when it is complete, so a directory with the final name is always
//! complete. Next to it is `<name>.base`: Loggia's own git directory with the cloned commit, which is
//! independent of the clone's configuration. Before removal, directories are renamed to `<name>.gone-…`,
//! so that a partly removed one is not mistaken for a clone.
//!
//! Not here: which client may request which repository, sessions, storage.

mod changes;
mod clone_slots;
mod disk;
mod fetch;
mod git;
mod git_progress;
mod object_dirs;
mod source;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loggia_core::repository::{AllowedSources, RepositoryUrl, Scheme};
use loggia_core::{Artifact, Level, Part, Repository};
use loggia_session::{Turn, TurnOver};
use tokio::time::Instant;

pub use disk::{list_clones, remove_clone};
pub use source::{Lookup, SystemLookup};

use crate::workspace::{ReservedDirs, Workspace};
use clone_slots::{Busy, CloneSlots, SLOTS_PER_OWNER};
use git::Git;

/// The artifact with the agent's last reply.
pub const OUTPUT: &str = "output.txt";
/// The artifact with the changes in the clone.
pub const CHANGES: &str = "changes.patch";

/// Settings of clones. Not `Debug`: the environment contains secrets.
#[derive(Clone)]
pub struct CloneConfig {
    /// The directory of all clones.
    pub directory: PathBuf,
    /// A command line that runs [`crate::guard::main`].
    pub guard: Vec<OsString>,
    /// Loggia's environment. Only `PATH` of it is used.
    pub env: Vec<(OsString, OsString)>,
    pub sources: AllowedSources,
    /// Files with credentials, each for exactly one `host` or `host:port`.
    pub credentials: Vec<(String, PathBuf)>,
    /// Replaces the system's trusted certificates.
    pub ca_file: Option<PathBuf>,
    pub limits: CloneLimits,
    pub keep: CloneRetention,
    pub lookup: Arc<dyn Lookup>,
    /// Nothing is cloned from these directories.
    pub reserved: ReservedDirs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneLimits {
    /// For one clone, from the first connection to the last file.
    pub time: Duration,
    pub bytes: u64,
    pub files: u64,
    /// The clone fails if the remote sends less than this many bytes a second for `stall_time`.
    pub stall_bytes: u64,
    pub stall_time: Duration,
    /// For all clones together. A clone counts with its size when it was created.
    pub total_bytes: u64,
    pub count: u64,
}

impl Default for CloneLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(600),
            bytes: 2 << 30,
            files: 200_000,
            stall_bytes: 1024,
            stall_time: Duration::from_secs(30),
            total_bytes: 20 << 30,
            count: 64,
        }
    }
}

/// How long a clone stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneRetention {
    /// Until its session is deleted.
    Always,
    /// Until its session has been unused for this many days.
    Days(u64),
    /// Until the turn ends.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CloneError {
    /// The turn was cancelled.
    #[error("stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}

impl CloneError {
    fn failed(why: impl Into<String>) -> Self {
        CloneError::Failed(why.into())
    }
}

impl From<TurnOver> for CloneError {
    fn from(over: TurnOver) -> Self {
        match over {
            TurnOver::Stopped => CloneError::Stopped,
            TurnOver::Failed(why) => CloneError::Failed(why),
        }
    }
}

impl From<CloneError> for TurnOver {
    fn from(error: CloneError) -> Self {
        match error {
            CloneError::Stopped => TurnOver::Stopped,
            CloneError::Failed(why) => TurnOver::Failed(why),
        }
    }
}

/// The directories of one clone.
#[derive(Debug, Clone)]
struct ClonePaths {
    clone: PathBuf,
    /// The clone while it is created.
    new: PathBuf,
    base: PathBuf,
}

impl ClonePaths {
    fn of(clone: &Path) -> Self {
        let with_suffix = |suffix: &str| {
            let mut name = clone.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        Self { clone: clone.to_owned(), new: with_suffix(".new"), base: with_suffix(".base") }
    }
}

/// One clone while it is created.
struct Job<'a> {
    turn: &'a Turn,
    repository: &'a Repository,
    paths: ClonePaths,
    deadline: Instant,
    /// The limit for this clone, or the rest of the limit for all clones.
    bytes: u64,
}

pub struct Clones {
    config: CloneConfig,
    git: Option<Git>,
    slots: CloneSlots,
    /// Held by a blocking thread while it checks the limits and reserves a directory.
    reservation: Arc<Mutex<()>>,
}

impl Clones {
    pub fn new(config: CloneConfig) -> Self {
        let git = Git::find(&config.guard, &config.env);
        Self { config, git, slots: CloneSlots::new(), reservation: Arc::default() }
    }

    /// Creates the clone unless it exists. Leaves nothing behind if that fails.
    pub(crate) async fn prepare(
        &self,
        turn: &Turn,
        path: &str,
        repository: &Repository,
    ) -> Result<(), TurnOver> {
        let paths = ClonePaths::of(Path::new(path));
        if disk::is_directory(&paths.clone).await {
            return Ok(());
        }
        let created = self.create(turn, repository, paths.clone()).await;
        if created.is_err() {
            disk::remove(&paths.clone).await;
        }
        Ok(created?)
    }

    async fn create(
        &self,
        turn: &Turn,
        repository: &Repository,
        paths: ClonePaths,
    ) -> Result<(), CloneError> {
        let git = self.git()?;
        let url = repository.address().map_err(|why| refused("address", why))?;
        repository.named_revision().map_err(|why| refused("revision", why))?;
        self.config.sources.admit(&url).map_err(|why| refused("address", why))?;
        disk::check_name(repository.directory.as_deref())?;
        let slots = self.slots.of(turn.context().owner.as_deref());
        if let Some(busy) = slots.busy() {
            turn.notice(Level::Info, waiting(busy)).await?;
        }
        let _slot = tokio::select! {
            biased; // a cancelled turn does not wait for a slot
            () = turn.stop().cancelled() => return Err(CloneError::Stopped),
            slot = slots.acquire() => slot,
        };
        self.check_not_reserved(&url).await?;
        let bytes = self.reserve(&paths).await?;
        let deadline = Instant::now() + self.config.limits.time;
        let job = Job { turn, repository, paths, deadline, bytes };
        self.fetch(git, &url, &job).await
    }

    /// A local repository must not refer to objects in reserved directories.
    async fn check_not_reserved(&self, url: &RepositoryUrl) -> Result<(), CloneError> {
        if url.scheme != Scheme::File {
            return Ok(());
        }
        let (path, reserved) = (PathBuf::from(&url.path), self.config.reserved.clone());
        let check = move || {
            let directories = object_dirs::find(&path)?;
            Ok::<_, std::io::Error>(directories.iter().any(|path| reserved.contains(path)))
        };
        let checked = tokio::task::spawn_blocking(check).await.map_err(std::io::Error::other);
        match checked.and_then(|checked| checked) {
            Ok(false) => Ok(()),
            Ok(true) => Err(CloneError::failed(
                "the repository uses objects in Loggia's own directories: name another one",
            )),
            Err(error) => Err(CloneError::failed(format!(
                "the object directories of the repository cannot be read: {error}"
            ))),
        }
    }

    /// Removes the remains of an earlier attempt and reserves a directory. Returns the limit in bytes.
    async fn reserve(&self, paths: &ClonePaths) -> Result<u64, CloneError> {
        disk::remove(&paths.clone).await;
        let limits = &self.config.limits;
        let directory = &self.config.directory;
        let used = disk::reserve(&self.reservation, directory, &paths.new, limits.bytes).await?;
        if used.count >= limits.count {
            return Err(CloneError::failed(format!(
                "{} repositories are already cloned here, which is the limit \
                 (server.clones.count): delete sessions that are done",
                used.count
            )));
        }
        let left = limits.total_bytes.saturating_sub(used.bytes);
        match left {
            0 => Err(CloneError::failed(
                "the repositories cloned here use all the disk space they may \
                 (server.clones.total_bytes): delete sessions that are done",
            )),
            left => Ok(left.min(limits.bytes)),
        }
    }

    fn git(&self) -> Result<&Git, CloneError> {
        self.git.as_ref().ok_or_else(|| {
            CloneError::failed("a repository cannot be cloned here: git is not installed")
        })
    }

    /// At the end of a turn: publishes the result, and removes the clone if it is not kept.
    pub(crate) async fn conclude(&self, turn: &Turn, path: &str, reply: Option<&str>) {
        let paths = ClonePaths::of(Path::new(path));
        // A cancelled turn has no result; its changes stay in the clone.
        if !turn.stop().is_cancelled() {
            let _ = self.publish(turn, &paths, reply).await;
        }
        if self.config.keep == CloneRetention::Never {
            disk::remove(&paths.clone).await;
        }
    }

    async fn publish(
        &self,
        turn: &Turn,
        paths: &ClonePaths,
        reply: Option<&str>,
    ) -> Result<(), TurnOver> {
        if !disk::is_directory(&paths.clone).await {
            return Ok(());
        }
        if let Some(text) = reply.filter(|text| !text.trim().is_empty()) {
            turn.publish(artifact(OUTPUT, Part::Text { text: text.to_owned() })).await?;
        }
        let found = match &self.git {
            Some(git) => changes::find(git, paths, turn.stop()).await,
            None => Err(CloneError::failed("git is not installed")),
        };
        match found {
            Ok(changes) => {
                if let Some(note) = changes.note {
                    turn.notice(Level::Warning, note).await?;
                }
                turn.publish(artifact(CHANGES, patch(&changes.patch))).await
            }
            Err(CloneError::Stopped) => Err(TurnOver::Stopped),
            Err(CloneError::Failed(why)) => {
                let text = format!("the changes to the repository could not be read: {why}");
                turn.notice(Level::Warning, text.clone()).await?;
                // Readers of the patch get the reason too.
                turn.publish(artifact(CHANGES, patch(format!("# {text}\n").as_bytes()))).await
            }
        }
    }
}

/// Opens the directory of a clone that a session works in.
pub(crate) fn open(path: &str, repository: &Repository) -> Result<Workspace, TurnOver> {
    Ok(disk::open(Path::new(path), repository.directory.as_deref())?)
}

fn waiting(busy: Busy) -> String {
    match busy {
        Busy::Owner => format!(
            "Waiting until one of your other repositories has been cloned: {SLOTS_PER_OWNER} at a time"
        ),
        Busy::All => "Waiting until other repositories have been cloned".to_owned(),
    }
}

fn patch(bytes: &[u8]) -> Part {
    Part::File {
        name: Some(CHANGES.to_owned()),
        media_type: Some("text/x-diff".to_owned()),
        base64: Some(STANDARD.encode(bytes)),
        uri: None,
    }
}

fn artifact(name: &str, part: Part) -> Artifact {
    let (id, name) = (name.to_owned(), name.to_owned());
    Artifact { id, name, parts: vec![part], append: false, last: true }
}

fn refused(what: &str, why: &str) -> CloneError {
    CloneError::failed(format!("the repository's {what} {why}"))
}

/// When an incomplete clone last changed; None for a complete one. One whose removal has begun counts as
/// infinitely old. Blocks.
pub fn left_at(path: &Path) -> Option<std::time::SystemTime> {
    let paths = ClonePaths::of(path);
    if disk::exists(&paths.clone) {
        return None;
    }
    let changed = |path: &Path| path.symlink_metadata().and_then(|found| found.modified()).ok();
    let last = [changed(&paths.new), changed(&paths.base)].into_iter().flatten().max();
    Some(last.unwrap_or(std::time::SystemTime::UNIX_EPOCH))
}
