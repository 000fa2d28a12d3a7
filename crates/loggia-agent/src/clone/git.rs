//! Runs git for Loggia itself. All such calls go through here.
//!
//! Git reads no configuration of the user or the machine, never prompts, and runs no program that a
//! repository configures: no hook, monitor, filter, pager or transport helper. A call runs under the
//! guard, so every process that it starts ends with it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::CloneError;
use crate::child::{Captured, Running};
use crate::guard;

/// The first version with `http.curloptResolve`, which pins the address of a host.
pub(super) const OLDEST: (u32, u32) = (2, 37);

const OPTIONS: &[&str] = &[
    "protocol.allow=never",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=true",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.askPass=/bin/false",
    "core.pager=cat",
    "core.untrackedCache=false",
    "submodule.recurse=false",
    "credential.helper=",
    "http.followRedirects=false",
    "http.proxy=",
    "http.sslVerify=true",
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    "diff.external=",
    "transfer.bundleURI=false",
    "fetch.uriProtocols=",
    "promisor.acceptFromServer=none",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS", "/bin/false"),
    ("GIT_LFS_SKIP_SMUDGE", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Keeps git away from files with passwords in the home directory.
    ("HOME", "/nonexistent"),
    // Git's messages are parsed.
    ("LC_ALL", "C"),
];

pub(super) struct Git {
    guard: Vec<OsString>,
    program: PathBuf,
    path: OsString,
}

/// The arguments of one call.
#[derive(Default, Clone)]
pub(super) struct Call {
    /// Additional options, `name=value`.
    pub options: Vec<String>,
    pub environment: Vec<(OsString, OsString)>,
    /// The allowed transport, as git names it; empty for none.
    pub protocol: &'static str,
    pub arguments: Vec<OsString>,
}

impl Call {
    pub fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { arguments, ..Self::default() }
    }

    /// Sets the git directory and the work tree.
    #[must_use]
    pub fn within(mut self, directory: &Path, tree: &Path) -> Self {
        self.set("GIT_DIR", directory);
        self.set("GIT_WORK_TREE", tree);
        self
    }

    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.push((name.into(), value.into()));
    }
}

impl Git {
    /// None if git is not installed.
    pub fn find(guard: &[OsString], env: &[(OsString, OsString)]) -> Option<Self> {
        let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        // A relative entry could make a file of a repository the program.
        let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        let program =
            absolute.map(|directory| directory.join("git")).find(|program| program.is_file())?;
        Some(Self { guard: guard.to_vec(), program, path })
    }

    pub fn start(&self, call: &Call, directory: &Path, captured: Captured) -> io::Result<Running> {
        let mut command: Vec<OsString> = vec![self.program.clone().into()];
        let options = OPTIONS.iter().map(|option| (*option).to_owned());
        for option in options.chain(call.options.iter().cloned()) {
            command.extend(["-c".into(), option.into()]);
        }
        command.extend(call.arguments.iter().cloned());
        let mut environment: Vec<(OsString, OsString)> =
            ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())).collect();
        environment.push(("PATH".into(), self.path.clone()));
        environment.push(("GIT_ALLOW_PROTOCOL".into(), call.protocol.into()));
        environment.extend(call.environment.iter().cloned());
        if !environment.iter().any(|(name, _)| name == "GIT_SSH_COMMAND") {
            environment.push(("GIT_SSH_COMMAND".into(), "/bin/false".into()));
        }
        let directory = open_directory(directory)?;
        Running::start(&self.guard, &command, &environment, &directory, captured)
    }

    /// Runs a call and returns up to `limit` bytes of its output.
    pub async fn output(
        &self,
        call: &Call,
        directory: &Path,
        until: &Until<'_>,
        limit: usize,
    ) -> Result<GitOutput, CloneError> {
        let started = self.start(call, directory, Captured::Output);
        let mut running = started.map_err(|error| cannot_run(&error))?;
        let mut bytes = Vec::new();
        let read = async {
            loop {
                match running.next().await.map_err(|error| cannot_run(&error))? {
                    Some(more) => bytes.extend_from_slice(more),
                    None => return Ok(true),
                }
                if bytes.len() > limit {
                    return Ok(false);
                }
            }
        };
        match until.run(read).await {
            Ok(true) => {
                let status =
                    until.run(async { running.status().await.map_err(|error| cannot_run(&error)) });
                let code = guard::code(status.await?);
                Ok(GitOutput { bytes, code, complete: true })
            }
            Ok(false) => {
                running.end(|_| {}).await;
                bytes.truncate(limit);
                Ok(GitOutput { bytes, code: 0, complete: false })
            }
            Err(error) => {
                running.end(|_| {}).await;
                Err(error)
            }
        }
    }
}

pub(super) struct GitOutput {
    pub bytes: Vec<u8>,
    pub code: u8,
    /// False if the output exceeded the limit.
    pub complete: bool,
}

impl GitOutput {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim().to_owned()
    }
}

/// The limits of an operation: cancellation and a deadline.
pub(super) struct Until<'a> {
    pub stop: &'a CancellationToken,
    pub deadline: Instant,
    /// The error message after the deadline.
    pub timeout_message: &'static str,
}

impl Until<'_> {
    pub async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, CloneError>>,
    ) -> Result<T, CloneError> {
        tokio::select! {
            biased; // cancellation has priority
            () = self.stop.cancelled() => Err(CloneError::Stopped),
            () = tokio::time::sleep_until(self.deadline) => Err(CloneError::failed(self.timeout_message)),
            done = work => done,
        }
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

pub(super) fn cannot_run(error: &io::Error) -> CloneError {
    CloneError::failed(format!("git could not be run: {error}"))
}
