//! Resource limits of a call, inherited by every process that it starts.
//!
//! They apply to each process. Limits for all processes together need a control group.

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use super::descendants;

pub(super) const PROCESSES: u64 = 256;
pub(super) const MEMORY: u64 = 4 << 30;
const FILE_SIZE: u64 = 8 << 30;

/// Which processes the system counts against the limit.
pub(super) enum Processes {
    /// Those of the call's own user namespace.
    OwnNamespace,
    /// All processes of the user, so the number of running ones is added to the limit.
    AllOfUser,
}

/// Best effort: if a limit cannot be set, the system's limit stays.
pub(super) fn apply(processes: Processes) {
    // When memory runs out, the kernel kills the command before Loggia.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    set(Resource::Core, 0);
    set(Resource::Fsize, FILE_SIZE);
    // The address space is not limited: Node reserves more than this for WebAssembly without using it.
    set(Resource::Data, MEMORY);
    if !geteuid().is_root() {
        let running = match processes {
            Processes::OwnNamespace => 0,
            Processes::AllOfUser => descendants::threads_of_user(),
        };
        set(Resource::Nproc, running + PROCESSES);
    }
}

/// Limits how many files a process may open. It can raise the limit up to Loggia's own.
pub(super) fn files(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(maximum.unwrap_or(u64::MAX).min(files));
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

fn set(resource: Resource, limit: u64) {
    let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(limit);
    let _ = setrlimit(resource, Rlimit { current: Some(allowed), maximum: Some(allowed) });
}
