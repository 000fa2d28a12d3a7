//! The guard proper, outside the namespace: it watches Loggia, and nothing in the call can reach it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, kill_process, pidfd_open};

use super::cgroup::Cgroup;
use super::namespace::{self, Namespace};
use super::watch::{Ending, Watched, any_closed, code};
use super::{GRACE, Probe, descendants, limits};

/// After the namespace's own grace the guard does not wait for its first process any longer.
const BACKSTOP: Duration = GRACE.saturating_add(Duration::from_millis(150));

pub(super) fn run(command: &[OsString]) -> io::Result<u8> {
    // Away from the terminal: Ctrl-C there is for Loggia to handle.
    let _ = rustix::process::setsid();
    // Whatever the thread that started us had blocked, the command gets its signals.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    let loggia = getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    // Two leashes: a command running as root could hold our pipe open from outside, but it can
    // not keep a dead Loggia alive.
    let mut leashes = vec![rustix::stdio::stdin()];
    leashes.extend(loggia.as_ref().map(|process| process.as_fd()));
    let cgroup = Cgroup::join();
    let done = match namespace::enter() {
        Ok(Some(_)) => contained(command, &leashes),
        Ok(None) => reaped(command, &leashes, cgroup.as_ref()),
        Err(error) => Err(error),
    };
    if let Some(cgroup) = cgroup {
        cgroup.leave();
    }
    done
}

fn contained(command: &[OsString], leashes: &[BorrowedFd<'_>]) -> io::Result<u8> {
    let mut init = Command::new("/proc/self/exe");
    init.args(["guard", "init"]).args(command).stdin(Stdio::piped());
    let mut init = init.spawn()?;
    let inner_leash = init.stdin.take();
    let pid = Pid::from_child(&init);
    let handle: OwnedFd = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        if any_closed(leashes, Some(handle.as_fd()), Duration::from_secs(3600))? {
            drop(inner_leash);
            if !any_closed(&[handle.as_fd()], None, BACKSTOP)? {
                kill_process(pid, Signal::KILL)?;
            }
            break;
        }
        if any_closed(&[handle.as_fd()], None, Duration::ZERO)? {
            break;
        }
    }
    Ok(code(init.wait()?))
}

/// Without a namespace: every orphan becomes our child, and all descendants are killed.
fn reaped(
    command: &[OsString],
    leashes: &[BorrowedFd<'_>],
    cgroup: Option<&Cgroup>,
) -> io::Result<u8> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    limits::apply(limits::Processes::Shared);
    let mut command = Watched::start(command)?;
    let code = match command.wait(leashes)? {
        Ending::Exited(code) => code,
        Ending::Cut => 128 + nix::sys::signal::Signal::SIGTERM as u8,
    };
    if command.reap() {
        descendants::end(&mut command, cgroup);
    }
    Ok(code)
}

/// Tries everything once and prints what works.
pub(super) fn probe() -> io::Result<u8> {
    let mut found = Probe::default();
    let cgroup = Cgroup::join();
    found.cgroup_pids = cgroup.is_some();
    found.cgroup_memory = cgroup.as_ref().is_some_and(Cgroup::limits_memory);
    found.rlimit_processes = !rustix::process::geteuid().is_root();
    if let Some(kind) = namespace::enter()? {
        let mut init = Command::new("/proc/self/exe");
        let answer = init.args(["guard", "init-probe"]).stdin(Stdio::null()).output()?;
        found.pid_namespace = answer.status.success();
        found.own_proc = answer.stdout.starts_with(b"own_proc");
        found.user_namespace = kind == Namespace::User;
    }
    if let Some(cgroup) = cgroup {
        cgroup.leave();
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&found)?)?;
    Ok(0)
}
