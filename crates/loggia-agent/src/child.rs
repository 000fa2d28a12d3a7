//! One command under its guard: starts it, passes its output on, ends it.
//!
//! The guard lives as long as this value's leash. Dropping it at any moment is enough: the guard
//! then kills everything the command started.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};

/// Fewer switches between the command and Loggia when much is printed.
const PIPE: usize = 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// A guard needs about 0.65 s at most. If it takes longer something is stuck in the kernel.
const PATIENCE: Duration = Duration::from_secs(3);
/// For output that is still in the pipe when the guard has gone.
const REST: Duration = Duration::from_millis(200);

/// What of a command is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// What it prints and what it complains about, in one stream.
    Both,
    /// What it prints; its complaints are dropped.
    Output,
}

pub(crate) struct Running {
    guard: Child,
    leash: Option<ChildStdin>,
    output: Receiver,
    chunk: Vec<u8>,
}

impl Running {
    /// Starts `command` in `directory`, which is held by a descriptor: nobody can swap it.
    pub(crate) fn start(
        guard: &[OsString],
        command: &[OsString],
        environment: &[(OsString, OsString)],
        directory: &OwnedFd,
        heard: Heard,
    ) -> io::Result<Self> {
        let Some((program, arguments)) = guard.split_first() else {
            return Err(io::Error::other("no guard program is configured"));
        };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let _ = fcntl_setpipe_size(&reader, PIPE);
        let mut process = Command::new(program);
        process
            .args(arguments)
            .arg("run")
            .args(command)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))
            .stdin(Stdio::piped())
            .stderr(match heard {
                Heard::Both => Stdio::from(writer.try_clone()?),
                Heard::Output => Stdio::null(),
            })
            .stdout(Stdio::from(writer));
        let mut guard = process.spawn()?;
        let leash = guard.stdin.take();
        // `process` still holds the writing ends; the pipe must end with the guard.
        drop(process);
        let output = Receiver::from_owned_fd(reader)?;
        Ok(Self { guard, leash, output, chunk: vec![0; CHUNK] })
    }

    /// The next output, or None when there will be no more.
    pub(crate) async fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let count = self.output.read(&mut self.chunk).await?;
        Ok(self.chunk.get(..count).filter(|bytes| !bytes.is_empty()))
    }

    /// After the last output: how the command ended.
    pub(crate) async fn status(&mut self) -> io::Result<ExitStatus> {
        self.guard.wait().await
    }

    /// Ends everything now. What is still printed goes to `rest`.
    pub(crate) async fn end(&mut self, mut rest: impl FnMut(&[u8])) {
        self.leash = None;
        let gone = async {
            while let Ok(Some(bytes)) = self.next().await {
                rest(bytes);
            }
            let _ = self.guard.wait().await;
        };
        if tokio::time::timeout(PATIENCE, gone).await.is_err() {
            let _ = self.guard.start_kill();
            let _ = tokio::time::timeout(REST, self.guard.wait()).await;
        }
    }
}
