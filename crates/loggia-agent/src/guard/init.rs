//! The first process of a call's PID namespace. When it ends, the kernel ends everything else.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::watch::{Ending, Watched, any_ended};
use super::{GRACE, limits, namespace};

pub(super) fn init(command: &[OsString]) -> io::Result<u8> {
    let _ = rustix::process::setsid();
    namespace::mount_proc();
    let pipe = rustix::stdio::stdin();
    // Set after the last change of capabilities, which would clear it. If the guard died before this
    // line, its end of the pipe is closed.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if any_ended(&[pipe], None, Duration::ZERO)? {
        return Ok(super::FAILED);
    }
    limits::apply(limits::Processes::OwnNamespace);
    let mut command = Watched::start(command)?;
    let code = match command.wait(&[pipe])? {
        Ending::Exited(code) => code,
        Ending::PipeClosed => 128 + Signal::SIGTERM as u8,
    };
    // Every process in the namespace except this one.
    let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
    let deadline = Instant::now() + GRACE;
    while command.reap() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(code)
}

/// Describes this namespace, for `guard probe`.
pub(super) fn probe() -> io::Result<u8> {
    use std::io::Write;
    let own_proc = namespace::mount_proc();
    let first = rustix::process::getpid().as_raw_nonzero().get() == 1;
    let answer = if first && own_proc { "own_proc" } else { "shared_proc" };
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(u8::from(!first))
}
