//! A control group for one call: the only limit on the number of processes that applies to root.
//!
//! Best effort: if no control group can be created, the call runs without one, and `guard probe` reports
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::limits;

const PREFIX: &str = "loggia-guard-";

pub(super) struct Cgroup {
    directory: PathBuf,
    /// The group that this process was in before, and returns to.
    home: PathBuf,
}

/// A directory in which a group may be created.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    home: PathBuf,
    parent: PathBuf,
}

impl Cgroup {
    /// Creates a group and moves this process into it.
    pub(super) fn join() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        candidates(&groups, &mounts).into_iter().find_map(Self::create)
    }

    fn create(candidate: Candidate) -> Option<Self> {
        let Candidate { home, parent } = candidate;
        remove_leftovers(&parent);
        let directory = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&directory).ok()?;
        let group = Self { directory, home };
        // One more than the limit of the command, because this process is in the group too.
        let limited = group.set("pids.max", limits::PROCESSES + 1).is_ok();
        let _ = group.set("memory.max", limits::MEMORY);
        if limited && group.set("cgroup.procs", std::process::id().into()).is_ok() {
            return Some(group);
        }
        let _ = fs::remove_dir(&group.directory);
        None
    }

    pub(super) fn limits_memory(&self) -> bool {
        let limit = fs::read_to_string(self.directory.join("memory.max"));
        limit.is_ok_and(|text| text.trim() == limits::MEMORY.to_string())
    }

    pub(super) fn forbid_forks(&self) {
        let _ = self.set("pids.max", 0);
    }

    /// Leaves the group and removes it. Ended processes need a moment to leave it.
    pub(super) fn leave(self) {
        let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
        for _ in 0..50 {
            match fs::remove_dir(&self.directory) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(()) | Err(_) => return,
            }
        }
    }

    fn set(&self, file: &str, value: u64) -> std::io::Result<()> {
        fs::write(self.directory.join(file), value.to_string())
    }
}

/// Removes the groups of guards that were killed.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Version 1: below this process's group of the `pids` hierarchy. Version 2: next to this process's
/// group, because a group with processes cannot also have limited groups below it.
fn candidates(groups: &str, mounts: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        if controllers.split(',').any(|name| name == "pids") {
            if let Some(home) = mounted(mounts, "cgroup", Some("pids"), path) {
                found.push(Candidate { parent: home.clone(), home });
            }
        } else if controllers.is_empty()
            && let Some(home) = mounted(mounts, "cgroup2", None, path)
        {
            let above = home.parent().filter(|_| path != "/").unwrap_or(&home).to_owned();
            found.push(Candidate { home, parent: above });
        }
    }
    found
}

/// The directory of a group: `id parent major:minor root mount-point options … - type source super`.
fn mounted(mounts: &str, kind: &str, controller: Option<&str>, group: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let matches = right.next()? == kind
            && controller.is_none_or(|name| {
                right.nth(1).is_some_and(|options| options.split(',').any(|option| option == name))
            });
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let below = Path::new(group).strip_prefix(root).ok()?;
        matches.then(|| Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(home: &str, parent: &str) -> Candidate {
        Candidate { home: home.into(), parent: parent.into() }
    }

    #[test]
    fn version_1_groups_are_created_below_the_own_group() {
        let groups = "9:name=systemd:/\n8:pids:/a/b\n0::/\n";
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n";
        assert_eq!(
            candidates(groups, mounts),
            [candidate("/sys/fs/cgroup/pids/a/b", "/sys/fs/cgroup/pids/a/b")]
        );
    }

    #[test]
    fn version_2_groups_are_created_next_to_the_own_group() {
        let mounts = "31 25 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            candidates("0::/user.slice/app.scope\n", mounts),
            [candidate("/sys/fs/cgroup/user.slice/app.scope", "/sys/fs/cgroup/user.slice")]
        );
        assert_eq!(candidates("0::/\n", mounts), [candidate("/sys/fs/cgroup", "/sys/fs/cgroup")]);
    }

    #[test]
    fn a_group_outside_the_mount_is_not_used() {
        let mounts = "31 25 0:27 /other /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(candidates("0::/mine\n", mounts), []);
    }
}
