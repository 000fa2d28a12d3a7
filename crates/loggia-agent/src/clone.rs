//! Copies of repositories that sessions work in: made before the model is asked, kept or removed.
//!
//! A copy of the session `<name>` is the directory `<name>` below [`CloneConfig::directory`]. It is
//! made as `<name>.new` and gets its name when it is complete, so whatever bears the name needs no
//! second look, and whatever does not is a leftover. Beside it lies `<name>.base`: a git directory of
//! ours that knows the cloned commit and nothing of what the copy's own configuration says. What is
//! to go is renamed first, to `<name>.gone-…`: nobody can take half of it for something else.
//!
//! What must not be here: which client may ask for what, sessions, storage.

mod borrowed;
mod changes;
mod disk;
mod fetch;
mod git;
mod hear;
mod lanes;
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

pub use disk::{copies, remove_copy};
pub use source::{Lookup, SystemLookup};

use crate::workspace::{Walls, Workspace};
use git::Git;
use lanes::{Full, Lanes, OWN_PLACES};

/// The agent's own words, as a file.
pub const OUTPUT: &str = "output.txt";
/// What the work has changed in the copy, as a file.
pub const CHANGES: &str = "changes.patch";

/// How copies are made on this machine. Not `Debug`: the environment holds secrets.
#[derive(Clone)]
pub struct CloneConfig {
    /// Where they are kept.
    pub directory: PathBuf,
    /// Program and arguments that end in [`crate::guard::main`].
    pub guard: Vec<OsString>,
    /// The environment to pick from: only the way to programs is kept.
    pub env: Vec<(OsString, OsString)>,
    pub sources: AllowedSources,
    /// Files with credentials, each for exactly one `host` or `host:port`.
    pub credentials: Vec<(String, PathBuf)>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub limits: CloneLimits,
    pub keep: Keep,
    pub lookup: Arc<dyn Lookup>,
    /// Nothing is cloned from there.
    pub walls: Walls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneLimits {
    /// Of one copy, from the first connection to the last file.
    pub time: Duration,
    pub bytes: u64,
    pub files: u64,
    /// A remote that sends less than this many bytes a second for so long is given up.
    pub stall_bytes: u64,
    pub stall_time: Duration,
    /// Of all copies together, as large as they were when they were made.
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

/// How long a copy stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Until its session is deleted.
    Always,
    /// Until its session has not been used for so many days.
    Days(u64),
    /// Until the turn ends.
    Never,
}

/// Why there is no copy.
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

/// The places of one copy.
#[derive(Debug, Clone)]
struct Places {
    copy: PathBuf,
    /// The copy while it is made.
    new: PathBuf,
    base: PathBuf,
}

impl Places {
    fn of(copy: &Path) -> Self {
        let beside = |ending: &str| {
            let mut name = copy.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Self { copy: copy.to_owned(), new: beside(".new"), base: beside(".base") }
    }
}

/// One copy while it is made.
struct Job<'a> {
    turn: &'a Turn,
    repository: &'a Repository,
    places: Places,
    deadline: Instant,
    /// What it may take: its own limit, or what is left of the limit of all.
    bytes: u64,
}

pub struct Clones {
    config: CloneConfig,
    git: Option<Git>,
    lanes: Lanes,
    /// Held while room for one more is looked for and taken, by a thread that may block.
    room: Arc<Mutex<()>>,
}

impl Clones {
    pub fn new(config: CloneConfig) -> Self {
        let git = Git::find(&config.guard, &config.env);
        Self { config, git, lanes: Lanes::new(), room: Arc::default() }
    }

    /// Makes the copy unless it is there. Leaves nothing behind where that fails.
    pub(crate) async fn prepare(
        &self,
        turn: &Turn,
        path: &str,
        repository: &Repository,
    ) -> Result<(), TurnOver> {
        let places = Places::of(Path::new(path));
        if disk::is_directory(&places.copy).await {
            return Ok(());
        }
        let made = self.make(turn, repository, places.clone()).await;
        if made.is_err() {
            disk::remove(&places.copy).await;
        }
        Ok(made?)
    }

    async fn make(
        &self,
        turn: &Turn,
        repository: &Repository,
        places: Places,
    ) -> Result<(), CloneError> {
        let git = self.git()?;
        let url = repository.address().map_err(|why| refused("address", why))?;
        repository.named_revision().map_err(|why| refused("revision", why))?;
        self.config.sources.admit(&url).map_err(|why| refused("address", why))?;
        disk::check_name(repository.directory.as_deref())?;
        let lane = self.lanes.of(turn.context().owner.as_deref());
        if let Some(full) = lane.full() {
            turn.notice(Level::Info, waits(full)).await?;
        }
        let _place = tokio::select! {
            biased; // a cancelled turn does not wait for its place
            () = turn.stop().cancelled() => return Err(CloneError::Stopped),
            place = lane.place() => place,
        };
        self.not_from_behind_walls(&url).await?;
        let bytes = self.take_room(&places).await?;
        let deadline = Instant::now() + self.config.limits.time;
        let job = Job { turn, repository, places, deadline, bytes };
        self.fetch(git, &url, &job).await
    }

    /// A repository of this machine holds its commits itself, or has them from where they may be had.
    async fn not_from_behind_walls(&self, url: &RepositoryUrl) -> Result<(), CloneError> {
        if url.scheme != Scheme::File {
            return Ok(());
        }
        let (path, walls) = (PathBuf::from(&url.path), self.config.walls.clone());
        let look = move || {
            let places = borrowed::places(&path)?;
            Ok::<_, std::io::Error>(places.iter().any(|place| walls.hide(place)))
        };
        let looked = tokio::task::spawn_blocking(look).await.map_err(std::io::Error::other);
        match looked.and_then(|looked| looked) {
            Ok(false) => Ok(()),
            Ok(true) => Err(CloneError::failed(
                "the repository has its commits from Loggia's own directories: name another one",
            )),
            Err(error) => Err(CloneError::failed(format!(
                "it can not be said where the repository has its commits: {error}"
            ))),
        }
    }

    /// Removes what an earlier attempt left, and takes a place among the copies.
    async fn take_room(&self, places: &Places) -> Result<u64, CloneError> {
        disk::remove(&places.copy).await;
        let limits = &self.config.limits;
        let directory = &self.config.directory;
        let taken = disk::take(&self.room, directory, &places.new, limits.bytes).await?;
        if taken.count >= limits.count {
            return Err(CloneError::failed(format!(
                "{} repositories are cloned here already, and no more are allowed \
                 (server.clones.count): delete sessions that are done",
                taken.count
            )));
        }
        let left = limits.total_bytes.saturating_sub(taken.bytes);
        match left {
            0 => Err(CloneError::failed(
                "the repositories cloned here take all the room that they may \
                 (server.clones.total_bytes): delete sessions that are done",
            )),
            left => Ok(left.min(limits.bytes)),
        }
    }

    fn git(&self) -> Result<&Git, CloneError> {
        self.git.as_ref().ok_or_else(|| {
            CloneError::failed("a repository can not be cloned here: git is not installed")
        })
    }

    /// At the end of a turn: what came out of it, and whether the copy stays.
    pub(crate) async fn conclude(&self, turn: &Turn, path: &str, words: Option<&str>) {
        let places = Places::of(Path::new(path));
        // A cancelled turn has no results; whatever it did stays in the copy.
        if !turn.stop().is_cancelled() {
            let _ = self.publish(turn, &places, words).await;
        }
        if self.config.keep == Keep::Never {
            disk::remove(&places.copy).await;
        }
    }

    async fn publish(
        &self,
        turn: &Turn,
        places: &Places,
        words: Option<&str>,
    ) -> Result<(), TurnOver> {
        if !disk::is_directory(&places.copy).await {
            return Ok(());
        }
        if let Some(words) = words.filter(|words| !words.trim().is_empty()) {
            turn.publish(artifact(OUTPUT, Part::Text { text: words.to_owned() })).await?;
        }
        let found = match &self.git {
            Some(git) => changes::find(git, places, turn.stop()).await,
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
                // Said where it is looked for, too.
                turn.publish(artifact(CHANGES, patch(format!("# {text}\n").as_bytes()))).await
            }
        }
    }
}

/// The directory of a copy that a session works in.
pub(crate) fn open(path: &str, repository: &Repository) -> Result<Workspace, TurnOver> {
    Ok(disk::open(Path::new(path), repository.directory.as_deref())?)
}

fn waits(full: Full) -> String {
    match full {
        Full::Own => format!(
            "Waiting until one of your other repositories has been cloned: {OWN_PLACES} at a time"
        ),
        Full::Common => "Waiting until other repositories have been cloned".to_owned(),
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

/// When something was last done for a copy that is not complete; None for one that is. What was to
/// go already is as old as can be. Blocks.
pub fn left_at(path: &Path) -> Option<std::time::SystemTime> {
    let places = Places::of(path);
    if disk::exists(&places.copy) {
        return None;
    }
    let changed = |path: &Path| path.symlink_metadata().and_then(|found| found.modified()).ok();
    let last = [changed(&places.new), changed(&places.base)].into_iter().flatten().max();
    Some(last.unwrap_or(std::time::SystemTime::UNIX_EPOCH))
}
