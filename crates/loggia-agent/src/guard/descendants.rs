//! Finds and ends all descendants of this process, for machines without PID namespaces.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, getpid, kill_process};

use super::GRACE;
use super::cgroup::Cgroup;
use super::watch::Watched;

/// A process that cannot be killed for this long waits for a disk.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends TERM, then KILL until no descendant is left. As the reaper of orphans this process sees all
/// of them, including those that created a session.
pub(super) fn end(command: &mut Watched, cgroup: Option<&Cgroup>) {
    signal(Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while command.reap() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    // A process must not escape the KILL by forking.
    if let Some(cgroup) = cgroup {
        cgroup.forbid_forks();
    }
    let deadline = Instant::now() + KILL_TIMEOUT;
    while command.reap() && Instant::now() < deadline {
        signal(Signal::KILL);
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(signal: Signal) {
    for pid in descendants() {
        let _ = kill_process(pid, signal);
    }
}

fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, stat) in processes("stat") {
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            open.push(child);
        }
    }
    found
}

/// The name in parentheses may contain anything, so the fields start after the last parenthesis.
fn parent(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// The number of the user's threads, which the system compares with the process limit.
pub(super) fn threads_of_user() -> u64 {
    let user = geteuid().as_raw();
    processes("status")
        .filter(|(pid, _)| {
            fs::metadata(format!("/proc/{pid}")).is_ok_and(|file| file.uid() == user)
        })
        .filter_map(|(_, status)| {
            status
                .lines()
                .find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok())
        })
        .sum()
}

fn processes(file: &'static str) -> impl Iterator<Item = (i32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        // A program's name may not be UTF-8; only the numbers are used.
        let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        Some((pid, String::from_utf8_lossy(&bytes).into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::parent;

    #[test]
    fn a_program_cannot_forge_its_parent_with_its_name() {
        assert_eq!(parent("7 (sh) S 3 7 7 0"), Some(3));
        assert_eq!(parent("7 (a) S 1 (b) R 3 7"), Some(3));
        assert_eq!(parent("7 (sh"), None);
    }
}
