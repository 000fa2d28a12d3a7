//! One command under its guard: starts it, reads its output, ends it.
//!
//! The guard watches a pipe that this value holds open. When the value is dropped, the guard kills
//! everything that the command started.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};

/// A large pipe means fewer context switches if the command prints a lot.
const PIPE_BYTES: usize = 1024 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;
/// A guard needs at most about 0.65 s. If it takes longer, a process is stuck in the kernel.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait for a guard that was killed.
const KILL_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Captured {
    /// Standard output and standard error, in one stream.
    OutputAndErrors,
    /// Standard output. Standard error is discarded.
    Output,
}

pub(crate) struct Running {
    guard: Child,
    /// The guard ends everything when this closes.
    guard_pipe: Option<ChildStdin>,
    output: Receiver,
    chunk: Vec<u8>,
}

impl Running {
    /// Starts `command` in `directory`. A descriptor cannot be replaced by another directory.
    pub(crate) fn start(
        guard: &[OsString],
        command: &[OsString],
        environment: &[(OsString, OsString)],
        directory: &OwnedFd,
        captured: Captured,
    ) -> io::Result<Self> {
        let Some((program, arguments)) = guard.split_first() else {
            return Err(io::Error::other("no guard program is configured"));
        };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let _ = fcntl_setpipe_size(&reader, PIPE_BYTES);
        let mut process = Command::new(program);
        process
            .args(arguments)
            .arg("run")
            .args(command)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))
            .stdin(Stdio::piped())
            .stderr(match captured {
                Captured::OutputAndErrors => Stdio::from(writer.try_clone()?),
                Captured::Output => Stdio::null(),
            })
            .stdout(Stdio::from(writer));
        let mut guard = process.spawn()?;
        let guard_pipe = guard.stdin.take();
        // `process` holds the writing ends of the pipe, which must close when the guard ends.
        drop(process);
        let output = Receiver::from_owned_fd(reader)?;
        Ok(Self { guard, guard_pipe, output, chunk: vec![0; CHUNK_BYTES] })
    }

    /// The next output, or None at its end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let count = self.output.read(&mut self.chunk).await?;
        Ok(self.chunk.get(..count).filter(|bytes| !bytes.is_empty()))
    }

    /// How the command ended. Call it after the end of the output.
    pub(crate) async fn status(&mut self) -> io::Result<ExitStatus> {
        self.guard.wait().await
    }

    /// Ends the command and everything it started. `rest` gets the remaining output.
    pub(crate) async fn end(&mut self, mut rest: impl FnMut(&[u8])) {
        self.guard_pipe = None;
        let gone = async {
            while let Ok(Some(bytes)) = self.next().await {
                rest(bytes);
            }
            let _ = self.guard.wait().await;
        };
        if tokio::time::timeout(END_TIMEOUT, gone).await.is_err() {
            let _ = self.guard.start_kill();
            let _ = tokio::time::timeout(KILL_TIMEOUT, self.guard.wait()).await;
        }
    }
}
