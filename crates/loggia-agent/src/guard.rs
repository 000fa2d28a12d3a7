//! Holds the leash of one shell command: whatever the command starts is dead when the guard is.
//!
//! The guard is the `loggia` binary called again as `loggia guard run <program> <arguments…>`. The
//! binary hands everything after its argument `guard` to [`main`] before any runtime or thread
//! starts. The contract:
//!
//! - Its standard input is a pipe that Loggia holds open and never writes to. When it closes, because
//!   Loggia cancelled or died, every process of the call gets TERM and [`GRACE`] later KILL.
//! - When the command ends, what it left running is ended the same way. The guard's exit status is
//!   the command's, 128 + n for signal n; [`FAILED`] means that the guard itself failed.
//! - `--files=N` before the verb is how many files the command may open, where Loggia itself may
//!   open more.
//! - Standard output and error are the command's. The environment is the command's, too: Loggia
//!   clears it before it starts the guard.
//!
//! First choice is a PID namespace: its first process (`guard init`) can not be killed from inside,
//! and when it ends the kernel kills the rest. Where namespaces are not permitted the guard becomes
//! the reaper of all orphans and kills its descendants until none is left.
//!
//! What must not be here: tokio, the workspace, sessions, secrets.

mod cgroup;
mod descendants;
mod init;
mod limits;
mod namespace;
mod run;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Between TERM and KILL.
pub const GRACE: Duration = Duration::from_millis(500);
/// What a guard is called, whatever its program is: by this, a process is known to be a call's. The
/// call can not change it.
pub const NAME: &str = "loggia-guard";
/// The guard could not do its work; the reason is on standard error.
pub const FAILED: u8 = 125;

/// The guard's exit status as a number: 128 + n if it was itself killed by signal n.
pub fn code(status: std::process::ExitStatus) -> u8 {
    watch::code(status)
}

/// What contains a command on this machine, found out by trying. For `loggia doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Processes of a call can not outlive it, see Loggia or signal it.
    pub pid_namespace: bool,
    /// The namespace was made inside a user namespace: setuid programs such as sudo have no effect.
    pub user_namespace: bool,
    /// `/proc` shows the call's own processes only.
    pub own_proc: bool,
    /// At most 256 processes, also for root.
    pub cgroup_pids: bool,
    /// At most 4 GiB of memory for all processes of a call together.
    pub cgroup_memory: bool,
    /// At most 256 processes, by resource limit. Does not bind root.
    pub rlimit_processes: bool,
}

impl Probe {
    /// Reads the line that `guard probe` prints.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line.trim()).ok()
    }
}

/// The guard's whole life. `arguments` are those after the word `guard`.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let _ = rustix::thread::set_name(c"loggia-guard");
    let mut arguments = arguments.into_iter();
    let mut verb = arguments.next().unwrap_or_default();
    if let Some(files) = verb.to_str().and_then(|text| text.strip_prefix("--files=")) {
        files.parse().into_iter().for_each(limits::files);
        verb = arguments.next().unwrap_or_default();
    }
    let rest: Vec<OsString> = arguments.collect();
    let done = match verb.to_str() {
        Some("run") => run::run(&rest),
        Some("init") => init::init(&rest),
        Some("probe") => run::probe(),
        Some("init-probe") => init::probe(),
        _ => Err(std::io::Error::other("expected `run <program> …` or `probe`")),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "loggia guard: {error}");
            ExitCode::from(FAILED)
        }
    }
}
