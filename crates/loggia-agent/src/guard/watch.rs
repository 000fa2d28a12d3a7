//! Starts the command and waits for what ends it: its own end, or a cut leash.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, wait};

/// How long an orphan stays unreaped at most.
const REAP: Duration = Duration::from_millis(50);

pub(super) enum Ending {
    /// The command ended by itself.
    Exited(u8),
    /// The leash was cut.
    Cut,
}

pub(super) struct Watched {
    pid: Pid,
    handle: OwnedFd,
    code: Option<u8>,
}

impl Watched {
    /// Starts the command as a process group of its own, with nothing to read.
    pub(super) fn start(command: &[OsString]) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::other("there is no command to run"));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).process_group(0);
        let started = command.spawn();
        let child = started.map_err(|error| {
            io::Error::other(format!("can not start {}: {error}", program.to_string_lossy()))
        })?;
        let pid = Pid::from_child(&child);
        Ok(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty())?, code: None })
    }

    /// Waits for the command's end or for one of the leashes, and reaps orphans meanwhile.
    pub(super) fn wait(&mut self, leashes: &[BorrowedFd<'_>]) -> io::Result<Ending> {
        loop {
            self.reap();
            if let Some(code) = self.code {
                return Ok(Ending::Exited(code));
            }
            if any_closed(leashes, Some(self.handle.as_fd()), REAP)? {
                return Ok(Ending::Cut);
            }
        }
    }

    /// Collects whatever has ended. True while children are left.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == self.pid {
                        self.code = Some(code(ExitStatus::from_raw(status.as_raw())));
                    }
                }
                Ok(None) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// 128 + n for signal n, as shells have it.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(i32::from(super::FAILED))).unwrap_or(u8::MAX)
}

/// Waits until a leash closes (true), or `also` has something to say, or the time is over (false).
/// A leash is a pipe that nobody writes to or a process; either becomes ready once, at its end.
pub(super) fn any_closed(
    leashes: &[BorrowedFd<'_>],
    also: Option<BorrowedFd<'_>>,
    patience: Duration,
) -> io::Result<bool> {
    let timeout = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    let mut watched: Vec<PollFd<'_>> = leashes
        .iter()
        .chain(also.iter())
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    match poll(&mut watched, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(watched.iter().take(leashes.len()).any(|leash| !leash.revents().is_empty()))
}
