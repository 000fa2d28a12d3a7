//! Resource limits of a call, inherited by everything it starts.
//!
//! They hold for each process, not for all together; that takes a control group.

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use super::descendants;

pub(super) const PROCESSES: u64 = 256;
pub(super) const MEMORY: u64 = 4 << 30;
const FILE_SIZE: u64 = 8 << 30;

/// Whose processes the system counts against the limit.
pub(super) enum Processes {
    /// Those of the call's own user namespace.
    Counted,
    /// All of the user's, so that what runs already is added.
    Shared,
}

/// Best effort: a limit that can not be set leaves the system's own.
pub(super) fn apply(processes: Processes) {
    // When memory runs out, the command goes first, not Loggia.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    set(Resource::Core, 0);
    set(Resource::Fsize, FILE_SIZE);
    // Not the address space: Node reserves more than this for WebAssembly and never uses it.
    set(Resource::Data, MEMORY);
    if !geteuid().is_root() {
        let running = match processes {
            Processes::Counted => 0,
            Processes::Shared => descendants::threads_of_user(),
        };
        set(Resource::Nproc, running + PROCESSES);
    }
}

/// How many files a process may open; it may still raise that as far as Loggia could.
pub(super) fn files(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(maximum.unwrap_or(u64::MAX).min(files));
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

fn set(resource: Resource, limit: u64) {
    let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(limit);
    let _ = setrlimit(resource, Rlimit { current: Some(allowed), maximum: Some(allowed) });
}
