//! Supervises one command: every process that the command starts ends with the guard.
//!
//! The guard is the `loggia` binary, started as `loggia guard run <program> <arguments…>`. The binary
//! passes the arguments after `guard` to [`main`] before it starts any runtime or thread. The contract:
//!
//! - Its standard input is a pipe that Loggia holds open and never writes to. When it closes, because
//!   Loggia cancelled the call or died, every process of the call gets TERM, and KILL after [`GRACE`].
//! - When the command ends, processes that it left running are ended the same way. The guard's exit
//!   status is the command's, 128 + n for signal n; [`FAILED`] means that the guard itself failed.
//! - `--files=N` before the verb limits how many files the command may open, if Loggia itself may open
//!   more.
//! - Standard output, standard error and the environment are the command's. Loggia clears the
//!   environment before it starts the guard.
//!
//! The guard uses a PID namespace if it can: its first process (`guard init`) cannot be killed from
//! inside, and when it ends the kernel kills the rest. If namespaces are not permitted, the guard
//! becomes the reaper of all orphans and kills its descendants until none is left.
//!
//! Not here: tokio, the workspace, sessions, secrets.

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

/// The time between TERM and KILL.
pub const GRACE: Duration = Duration::from_millis(500);
/// The process name of a guard. It identifies the processes of a call; the call cannot change it.
pub const NAME: &str = "loggia-guard";
/// The exit status if the guard failed; the reason is on standard error.
pub const FAILED: u8 = 125;

/// The guard's exit status as a number: 128 + n if it was itself killed by signal n.
pub fn code(status: std::process::ExitStatus) -> u8 {
    watch::code(status)
}

/// How commands are contained on this machine, found by trying. For `loggia doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Processes of a call cannot outlive it, see Loggia or signal it.
    pub pid_namespace: bool,
    /// The namespace is inside a user namespace: setuid programs such as sudo have no effect.
    pub user_namespace: bool,
    /// `/proc` shows only the call's own processes.
    pub own_proc: bool,
    /// At most 256 processes, also for root.
    pub cgroup_pids: bool,
    /// At most 4 GiB of memory for all processes of a call together.
    pub cgroup_memory: bool,
    /// At most 256 processes, by resource limit. Does not apply to root.
    pub rlimit_processes: bool,
}

impl Probe {
    /// Reads the line that `guard probe` prints.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line.trim()).ok()
    }
}

/// Runs the guard. `arguments` are those after `guard`.
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
