//! The processes of this machine as `/proc` shows them: which sockets they hold, and their parents.
//!
//! Knows no policy. Everything here may be out of date a moment later. Where that could hide that a
//! process is a tool, it is read again, and a value that keeps changing is None.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The process name of every call's guard. A command cannot change it.
pub const GUARD: &str = "loggia-guard";

/// The most ancestors of a process. Ends the walk if concurrent changes make it circular.
const MOST_ANCESTORS: usize = 4_096;
/// How often the walk starts again when a parent exits meanwhile.
const ATTEMPTS: usize = 4;

/// Bytes of `/proc/PID/stat`: 52 fields, all but one of them numbers.
const LONGEST_STAT: usize = 2048;

/// One line of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: u32,
    pub parent: u32,
    pub program: String,
    /// Start time. Together with the pid it is unique until the next boot.
    started: u64,
}

impl Process {
    /// One system call reads the whole file, so the fields are of the same moment.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let mut stat = [0; LONGEST_STAT];
        let read = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(stat.get(..read)?))
    }

    /// The name can contain parentheses, so fields are counted from the last one.
    pub(super) fn parse(pid: u32, stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(')')?;
        let (number, program) = head.split_once('(')?;
        // A different pid: the file of another process is mounted over this one.
        number.trim().parse().ok().filter(|number: &u32| *number == pid)?;
        let mut fields = rest.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { pid, parent, program: program.to_owned(), started })
    }

    /// The ancestors from the parent up. Each is confirmed by reading the child again afterwards: while
    /// the child names the parent, the parent's pid cannot have been reused. None if the process itself
    /// has exited.
    pub(crate) fn ancestors(&self) -> Option<Vec<Self>> {
        self.ancestors_by(Self::read)
    }

    /// The same, with another way of reading one process.
    pub(super) fn ancestors_by(&self, read: impl Fn(u32) -> Option<Self>) -> Option<Vec<Self>> {
        (0..ATTEMPTS).find_map(|_| {
            let now = read(self.pid).filter(|now| now.started == self.started)?;
            now.walk(&read)
        })
    }

    /// True as well if the user cannot be read.
    fn may_be_of(&self, uid: u32) -> bool {
        // The kernel shows the effective user as the owner of this directory, of processes that hide
        // their descriptors too.
        let owner = fs::metadata(format!("/proc/{}", self.pid)).map(|found| found.uid());
        owner.map_or(true, |owner| owner == uid)
    }

    fn walk(&self, read: impl Fn(u32) -> Option<Self>) -> Option<Vec<Self>> {
        let mut ancestors: Vec<Self> = Vec::new();
        let mut child = self.clone();
        // Parent 0 is the kernel, or a process outside of our PID namespace: no Loggia below us.
        while child.parent != 0 && ancestors.len() < MOST_ANCESTORS {
            let parent = read(child.parent);
            if read(child.pid).as_ref() != Some(&child) {
                return None;
            }
            match parent {
                Some(parent) => {
                    ancestors.push(parent.clone());
                    child = parent;
                }
                // With `hidepid`, /proc does not show processes of other users. None of them is a guard.
                None => return is_of_another_user(child.parent).then_some(ancestors),
            }
        }
        (child.parent == 0).then_some(ancestors)
    }
}

/// Whether the kernel refuses to signal this process because it is not ours. A process of our own
/// user that /proc does not show is not one of these.
fn is_of_another_user(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
}

/// All processes, read once.
pub(crate) struct Processes {
    /// Sorted by pid.
    all: Vec<Process>,
}

impl Processes {
    pub(crate) fn read() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| number(&entry.file_name())).collect();
        pids.sort_unstable();
        Self { all: pids.into_iter().filter_map(Process::read).collect() }
    }

    /// Whether a call of this user runs: its guard, or another child of a process that `is_loggia`.
    pub(crate) fn any_call(&self, uid: u32, is_loggia: impl Fn(&Process) -> bool) -> bool {
        let loggias =
            self.all.iter().filter(|process| is_loggia(process) && process.may_be_of(uid));
        let loggias: HashSet<u32> = loggias.map(|process| process.pid).collect();
        let is_call = |process: &Process| {
            loggias.contains(&process.parent) || process.program == GUARD && process.may_be_of(uid)
        };
        self.all.iter().any(is_call)
    }

    /// The pids of all processes below this one.
    fn descendants(&self, of: u32) -> HashSet<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for process in &self.all {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let mut found = HashSet::new();
        let mut open = vec![of];
        while let Some(parent) = open.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                found.insert(child);
                open.push(child);
            }
        }
        found
    }

    /// The processes that hold each of these sockets: all descendants of `us` that do, and at least one
    /// other process if there is one. Other processes are searched only as far as needed; `us`, which
    /// has the most descriptors, is searched last.
    pub(crate) fn holders(&self, wanted: &HashSet<u32>, us: u32) -> HashMap<u32, Vec<&Process>> {
        let below = self.descendants(us);
        let mut found: HashMap<u32, Vec<&Process>> = HashMap::new();
        for process in self.all.iter().filter(|process| below.contains(&process.pid)) {
            find_sockets(process, wanted, &mut found);
        }
        let others = self.all.iter().rev().filter(|process| !below.contains(&process.pid));
        let (ourselves, others): (Vec<_>, Vec<_>) = others.partition(|process| process.pid == us);
        for process in others.into_iter().chain(ourselves) {
            if found.len() == wanted.len() {
                break;
            }
            find_sockets(process, wanted, &mut found);
        }
        found
    }
}

fn find_sockets<'a>(
    process: &'a Process,
    wanted: &HashSet<u32>,
    found: &mut HashMap<u32, Vec<&'a Process>>,
) {
    let entries = fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let inode = socket_inode(target.as_os_str()).filter(|inode| wanted.contains(inode));
        let Some(inode) = inode else { continue };
        let holders = found.entry(inode).or_default();
        if holders.last().is_none_or(|last| last.pid != process.pid) {
            holders.push(process);
        }
    }
}

/// `socket:[4711]`
fn socket_inode(target: &OsStr) -> Option<u32> {
    let number = target.as_bytes().strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn number(name: &OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_can_contain_parentheses() {
        let stat = "17 (a) R 1 (b c) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 2222 23";
        let process = Process::parse(17, stat).unwrap();
        assert_eq!((process.parent, process.started), (4, 2222));
        assert_eq!(process.program, "a) R 1 (b c");
        for broken in
            ["", "17 (a", "17 (a) R", "17 (a) R x", "17 (a) R 4 5", &stat.replacen("17", "18", 1)]
        {
            assert_eq!(Process::parse(17, broken), None, "{broken:?}");
        }
    }

    #[test]
    fn our_ancestors_end_at_the_first_process() {
        let ourselves = Process::read(std::process::id()).unwrap();
        let ancestors = ourselves.ancestors().unwrap();
        assert_eq!(ancestors.first().map(|parent| parent.pid), Some(ourselves.parent));
        assert_eq!(ancestors.last().map(|last| last.parent), Some(0));
        let earlier = Process { started: ourselves.started - 1, ..ourselves };
        assert_eq!(earlier.ancestors(), None, "a later process of the same number is another");
    }
}
