//! The guard itself. It runs outside the namespace, watches Loggia, and cannot be reached by the call.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, kill_process, pidfd_open};

use super::cgroup::Cgroup;
use super::namespace::{self, Namespace};
use super::watch::{Ending, Watched, any_ended, code};
use super::{GRACE, Probe, descendants, limits};

/// How long the guard waits for the namespace's first process before it kills it.
const INIT_TIMEOUT: Duration = GRACE.saturating_add(Duration::from_millis(150));

pub(super) fn run(command: &[OsString]) -> io::Result<u8> {
    // Detach from the terminal: Loggia handles Ctrl-C.
    let _ = rustix::process::setsid();
    // The thread that started this process may have blocked signals.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    let loggia = getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    // Two signs of Loggia's end: a command running as root could hold the pipe open from outside, but it
    // cannot keep a dead Loggia alive.
    let mut signs = vec![rustix::stdio::stdin()];
    signs.extend(loggia.as_ref().map(|process| process.as_fd()));
    let cgroup = Cgroup::join();
    let done = match namespace::enter() {
        Ok(Some(_)) => run_in_namespace(command, &signs),
        Ok(None) => run_as_reaper(command, &signs, cgroup.as_ref()),
        Err(error) => Err(error),
    };
    if let Some(cgroup) = cgroup {
        cgroup.leave();
    }
    done
}

fn run_in_namespace(command: &[OsString], signs: &[BorrowedFd<'_>]) -> io::Result<u8> {
    let mut init = Command::new("/proc/self/exe");
    init.args(["guard", "init"]).args(command).stdin(Stdio::piped());
    let mut init = init.spawn()?;
    let inner_pipe = init.stdin.take();
    let pid = Pid::from_child(&init);
    let handle: OwnedFd = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        if any_ended(signs, Some(handle.as_fd()), Duration::from_secs(3600))? {
            drop(inner_pipe);
            if !any_ended(&[handle.as_fd()], None, INIT_TIMEOUT)? {
                kill_process(pid, Signal::KILL)?;
            }
            break;
        }
        if any_ended(&[handle.as_fd()], None, Duration::ZERO)? {
            break;
        }
    }
    Ok(code(init.wait()?))
}

/// Without a namespace: every orphan becomes a child of this process, and all descendants are killed.
fn run_as_reaper(
    command: &[OsString],
    signs: &[BorrowedFd<'_>],
    cgroup: Option<&Cgroup>,
) -> io::Result<u8> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    limits::apply(limits::Processes::AllOfUser);
    let mut command = Watched::start(command)?;
    let code = match command.wait(signs)? {
        Ending::Exited(code) => code,
        Ending::PipeClosed => 128 + nix::sys::signal::Signal::SIGTERM as u8,
    };
    if command.reap() {
        descendants::end(&mut command, cgroup);
    }
    Ok(code)
}

/// Tries each kind of containment once and prints the result.
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
