//! Starts the command and waits for its end or for Loggia's.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, wait};

/// How often orphans are reaped.
const REAP_INTERVAL: Duration = Duration::from_millis(50);

pub(super) enum Ending {
    /// The command ended by itself.
    Exited(u8),
    /// Loggia closed its pipe or ended.
    PipeClosed,
}

pub(super) struct Watched {
    pid: Pid,
    handle: OwnedFd,
    code: Option<u8>,
}

impl Watched {
    /// Starts the command in a new process group, with empty standard input.
    pub(super) fn start(command: &[OsString]) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::other("there is no command to run"));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).process_group(0);
        let started = command.spawn();
        let child = started.map_err(|error| {
            io::Error::other(format!("cannot start {}: {error}", program.to_string_lossy()))
        })?;
        let pid = Pid::from_child(&child);
        Ok(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty())?, code: None })
    }

    /// Waits for the command's end or for one of the `signs`, and reaps orphans meanwhile.
    pub(super) fn wait(&mut self, signs: &[BorrowedFd<'_>]) -> io::Result<Ending> {
        loop {
            self.reap();
            if let Some(code) = self.code {
                return Ok(Ending::Exited(code));
            }
            if any_ended(signs, Some(self.handle.as_fd()), REAP_INTERVAL)? {
                return Ok(Ending::PipeClosed);
            }
        }
    }

    /// Reaps all children that have ended. True if children are left.
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

/// 128 + n for signal n, as in shells.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(i32::from(super::FAILED))).unwrap_or(u8::MAX)
}

/// Waits until one of `signs` ends (true), or until `also` is ready or the timeout is over (false). A
/// sign is a pipe without writes or a process; both become ready once, at their end.
pub(super) fn any_ended(
    signs: &[BorrowedFd<'_>],
    also: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> io::Result<bool> {
    let timespec = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let mut watched: Vec<PollFd<'_>> = signs
        .iter()
        .chain(also.iter())
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    match poll(&mut watched, Some(&timespec)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(watched.iter().take(signs.len()).any(|sign| !sign.revents().is_empty()))
}
