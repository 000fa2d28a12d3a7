//! Clones a repository: downloads it, checks its size, checks it out, and renames it to its final name.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use loggia_core::Level;
use loggia_core::repository::{RepositoryUrl, Revision, Scheme};
use tokio::time::Instant;

use super::git::{Call, Git, OLDEST, Until, cannot_run};
use super::git_progress::GitProgress;
use super::{CloneError, ClonePaths, Clones, Job, disk, source};
use crate::child::{Captured, Running};
use crate::guard;

/// How often the growing clone is measured.
const MEASURE_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes of a short output.
const SHORT_OUTPUT: usize = 4096;
/// Bytes of the list of files. A path may have 4 KiB.
const FILE_LIST: usize = 256 << 20;

/// The size of a commit's files.
struct TreeSize {
    files: u64,
    bytes: u64,
}

impl Job<'_> {
    fn until(&self) -> Until<'_> {
        let timeout_message = "the repository could not be cloned within the time limit";
        Until { stop: self.turn.stop(), deadline: self.deadline, timeout_message }
    }
}

impl Clones {
    pub(super) async fn fetch(
        &self,
        git: &Git,
        url: &RepositoryUrl,
        job: &Job<'_>,
    ) -> Result<(), CloneError> {
        let until = job.until();
        self.check_version(git, &until).await?;
        let remote = until.run(source::call_for_remote(&self.config, url)).await?;
        let revision = job.repository.named_revision().unwrap_or_default();
        job.turn.notice(Level::Info, opening(url, job)).await?;
        self.download(git, url, revision, &remote, job).await?;
        let new = &job.paths.new;
        let inner = new.join(".git");
        let wanted = match revision {
            Some(Revision::Commit(commit)) => format!("{commit}^{{commit}}"),
            Some(Revision::Name(_)) | None => "HEAD^{commit}".to_owned(),
        };
        let call = Call::new(["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]);
        let found = git.output(&call.within(&inner, new), new, &until, SHORT_OUTPUT).await?;
        let commit = found.text();
        if found.code != 0 || commit.is_empty() {
            return Err(CloneError::failed(
                "the repository has no commit to work on: it is empty, or there is no git \
                 repository at its address. Check the address",
            ));
        }
        let tree = self.measure_tree(git, job, &inner, &commit, &until).await?;
        self.check_out(git, job, &inner, revision, &commit).await?;
        let bytes = disk::measure(new).await.0;
        let (paths, directory) = (job.paths.clone(), job.repository.directory.clone());
        let cloned = commit.clone();
        let finish = move || finish(&paths, directory.as_deref(), &cloned, bytes);
        let finished = tokio::task::spawn_blocking(finish).await;
        finished.unwrap_or_else(|_| Err(CloneError::failed("interrupted")))?;
        let short: String = commit.chars().take(12).collect();
        let text = format!("Cloned commit {short}: {} files, {}", tree.files, size(bytes));
        // The clone is complete even if the notice cannot be written.
        let _ = job.turn.notice(Level::Info, text).await;
        Ok(())
    }

    async fn check_version(&self, git: &Git, until: &Until<'_>) -> Result<(), CloneError> {
        let directory = &self.config.directory;
        let version =
            git.output(&Call::new(["version"]), directory, until, SHORT_OUTPUT).await?.text();
        let numbers = version.strip_prefix("git version ").unwrap_or_default();
        let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        match found >= OLDEST {
            true => Ok(()),
            false => Err(CloneError::failed(format!(
                "a repository cannot be cloned here: git must be version {}.{} or newer",
                OLDEST.0, OLDEST.1
            ))),
        }
    }

    /// Runs the calls that contact the remote.
    async fn download(
        &self,
        git: &Git,
        url: &RepositoryUrl,
        revision: Option<Revision<'_>>,
        remote: &Call,
        job: &Job<'_>,
    ) -> Result<(), CloneError> {
        let mut clone = remote.clone();
        let flags = [
            "clone",
            "--progress",
            "--no-checkout",
            "--no-recurse-submodules",
            "--template=",
            "--single-branch",
            "--no-tags",
            "--no-local",
            "--origin=origin",
        ];
        clone.arguments.extend(flags.map(Into::into));
        if job.repository.shallow {
            clone.arguments.push("--depth=1".into());
        }
        if let Some(Revision::Name(name)) = revision {
            clone.arguments.push(format!("--branch={name}").into());
        }
        let target = job.paths.new.clone().into_os_string();
        clone.arguments.extend(["--".into(), url.to_string().into(), target]);
        self.run_with_progress(git, &clone, job, Some(url)).await?;
        if let Some(Revision::Commit(commit)) = revision {
            let mut fetch = remote.clone();
            let flags = ["fetch", "--progress", "--no-tags", "--no-recurse-submodules"];
            fetch.arguments.extend(flags.map(Into::into));
            if job.repository.shallow {
                fetch.arguments.push("--depth=1".into());
            }
            fetch.arguments.extend(["--end-of-options", "origin", commit].map(Into::into));
            let new = &job.paths.new;
            self.run_with_progress(git, &fetch.within(&new.join(".git"), new), job, Some(url))
                .await?;
        }
        Ok(())
    }

    /// Counts the commit's files and bytes before they are checked out.
    async fn measure_tree(
        &self,
        git: &Git,
        job: &Job<'_>,
        inner: &Path,
        commit: &str,
        until: &Until<'_>,
    ) -> Result<TreeSize, CloneError> {
        let call =
            Call::new(["ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", commit]);
        let call = call.within(inner, &job.paths.new);
        let started = git.start(&call, &job.paths.new, Captured::Output);
        let mut running = started.map_err(|error| cannot_run(&error))?;
        let limit = self.config.limits.files;
        let used = disk::measure(inner).await.0;
        let counted = until.run(count(&mut running, limit, job.bytes, used));
        let counted = counted.await;
        running.end(|_| {}).await;
        counted
    }

    async fn check_out(
        &self,
        git: &Git,
        job: &Job<'_>,
        inner: &Path,
        revision: Option<Revision<'_>>,
        commit: &str,
    ) -> Result<(), CloneError> {
        let mut call = Call::new(["checkout", "--force", "--progress", "--no-recurse-submodules"]);
        match revision {
            Some(Revision::Commit(_)) => {
                call.arguments.extend(["--detach", commit].map(Into::into))
            }
            Some(Revision::Name(_)) | None => call.arguments.push("HEAD".into()),
        }
        call.arguments.push("--".into());
        self.run_with_progress(git, &call.within(inner, &job.paths.new), job, None).await
    }

    /// Runs one call to its end, reports its progress and ends it if it exceeds a limit. `url` is the
    /// remote, if the call uses it.
    async fn run_with_progress(
        &self,
        git: &Git,
        call: &Call,
        job: &Job<'_>,
        url: Option<&RepositoryUrl>,
    ) -> Result<(), CloneError> {
        let started = git.start(call, &self.config.directory, Captured::OutputAndErrors);
        let mut running = started.map_err(|error| cannot_run(&error))?;
        let mut progress = GitProgress::new();
        let until = job.until();
        let watched = until.run(async {
            self.watch(&mut running, &mut progress, job, url).await?;
            running.status().await.map_err(|error| cannot_run(&error))
        });
        let status = match watched.await {
            Ok(status) => status,
            Err(error) => {
                running.end(|_| {}).await;
                return Err(error);
            }
        };
        match guard::code(status) {
            0 => Ok(()),
            _ => Err(CloneError::failed(format!(
                "the repository could not be cloned: {}",
                progress.failure_reason()
            ))),
        }
    }

    async fn watch(
        &self,
        running: &mut Running,
        progress: &mut GitProgress,
        job: &Job<'_>,
        url: Option<&RepositoryUrl>,
    ) -> Result<(), CloneError> {
        let limits = &self.config.limits;
        let mut throughput = Throughput::new(limits.stall_time);
        let mut measure = tokio::time::interval(MEASURE_INTERVAL);
        measure.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                bytes = running.next() => match bytes.map_err(|error| cannot_run(&error))? {
                    Some(bytes) => progress.push(bytes),
                    None => return Ok(()),
                },
                _ = measure.tick(), if url.is_some() => {
                    let (bytes, files) = disk::measure(&job.paths.new).await;
                    if bytes > job.bytes {
                        return Err(too_large(job.bytes));
                    }
                    if files > limits.files {
                        return Err(too_many(limits.files));
                    }
                    let least = limits.stall_bytes.saturating_mul(limits.stall_time.as_secs());
                    let grown = throughput.record(Instant::now(), bytes.saturating_add(progress.bytes));
                    if progress.waits_for_remote() && grown.is_some_and(|grown| grown < least) {
                        return Err(CloneError::failed(format!(
                            "the repository's host is too slow: it sent less than {} bytes a \
                             second for {} s",
                            limits.stall_bytes,
                            limits.stall_time.as_secs()
                        )));
                    }
                }
            }
            if let Some(report) = progress.take_report(Instant::now()) {
                job.turn.notice(Level::Info, report).await?;
            }
        }
    }
}

/// The bytes received during the last `time`.
struct Throughput {
    time: Duration,
    samples: VecDeque<(Instant, u64)>,
}

impl Throughput {
    fn new(time: Duration) -> Self {
        Self { time, samples: VecDeque::new() }
    }

    /// Adds a sample and returns the growth over `time`; None before `time` has passed.
    fn record(&mut self, now: Instant, sum: u64) -> Option<u64> {
        self.samples.push_back((now, sum));
        let old = now.checked_sub(self.time)?;
        while self.samples.get(1).is_some_and(|(at, _)| *at <= old) {
            self.samples.pop_front();
        }
        let (at, before) = self.samples.front()?;
        // The size shrinks when git combines received files.
        (*at <= old).then(|| sum.saturating_sub(*before))
    }
}

/// `used` of the `bytes` are already on the disk.
async fn count(
    running: &mut Running,
    files: u64,
    bytes: u64,
    used: u64,
) -> Result<TreeSize, CloneError> {
    let mut tree = TreeSize { files: 0, bytes: 0 };
    let mut entry: Vec<u8> = Vec::new();
    let mut read = 0;
    while let Some(more) = running.next().await.map_err(|error| cannot_run(&error))? {
        read += more.len();
        for byte in more {
            if *byte != 0 {
                entry.push(*byte);
                continue;
            }
            tree.files += 1;
            tree.bytes = tree.bytes.saturating_add(size_of(&entry));
            entry.clear();
        }
        if tree.files > files || read > FILE_LIST {
            return Err(too_many(files));
        }
        if tree.bytes.saturating_add(used) > bytes {
            return Err(too_large(bytes));
        }
    }
    match guard::code(running.status().await.map_err(|error| cannot_run(&error))?) {
        0 => Ok(tree),
        _ => Err(CloneError::failed("the repository is damaged: its files cannot be listed")),
    }
}

/// `<mode> blob <id> <size>\t<path>`; a submodule's size is a dash.
fn size_of(entry: &[u8]) -> u64 {
    let head = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
    let size = std::str::from_utf8(head).ok().and_then(|head| head.split(' ').next_back());
    size.and_then(|size| size.parse().ok()).unwrap_or(0)
}

fn too_large(limit: u64) -> CloneError {
    CloneError::failed(format!(
        "the repository is too large: the limit is {} (server.clones.bytes, or the rest of \
         server.clones.total_bytes). A shallow clone is smaller",
        size(limit)
    ))
}

fn too_many(limit: u64) -> CloneError {
    CloneError::failed(format!("the repository has more than {limit} files (server.clones.files)"))
}

fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

fn opening(url: &RepositoryUrl, job: &Job<'_>) -> String {
    let from = match url.scheme {
        // Clients must not learn a path of this machine.
        Scheme::File => "a repository of this machine".to_owned(),
        Scheme::Https | Scheme::Ssh | Scheme::Http | Scheme::Git => url.to_string(),
    };
    let revision = job.repository.revision.as_ref();
    let at = revision.map(|name| format!(" at {name}")).unwrap_or_default();
    format!("Cloning {from}{at}")
}

/// The last steps, after which the clone is complete. Blocks.
fn finish(
    paths: &ClonePaths,
    directory: Option<&str>,
    commit: &str,
    bytes: u64,
) -> Result<(), CloneError> {
    disk::open(&paths.new, directory).map(drop)?;
    let finished = create_base(paths, commit, bytes).and_then(|()| {
        disk::make_durable(&paths.new)?;
        // Renamed last, so that a clone with its final name is complete even after a power failure.
        fs::rename(&paths.new, &paths.clone)?;
        disk::make_name_durable(&paths.clone)
    });
    finished.map_err(|error| {
        CloneError::failed(format!(
            "the clone of the repository could not be renamed to its final name: {error}"
        ))
    })
}

/// A git directory that uses the clone's objects and nothing else of it.
fn create_base(paths: &ClonePaths, commit: &str, bytes: u64) -> io::Result<()> {
    let base = &paths.base;
    for directory in ["objects/info", "refs"] {
        fs::create_dir_all(base.join(directory))?;
    }
    let config = match commit.len() {
        64 => "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n",
        _ => "[core]\n\trepositoryformatversion = 0\n",
    };
    let objects = paths.clone.join(".git/objects");
    let objects = objects.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?;
    fs::write(base.join("config"), config)?;
    fs::write(base.join("objects/info/alternates"), format!("{objects}\n"))?;
    fs::write(base.join(disk::SIZE), bytes.to_string())?;
    fs::write(base.join("HEAD"), format!("{commit}\n"))
}
