//! The processes of this machine as `/proc` shows them: who holds a socket, and who started whom.
//!
//! Knows no policy. Everything here may be out of date a moment later; where that could turn a
//! tool into a stranger it is read again, and what does not hold still is nothing.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The name that the guard of every call gives itself. A command cannot change it.
pub const GUARD: &str = "loggia-guard";

/// Longer chains of parents do not occur; a circle, from a read in between, does end.
const LONGEST_LINE: usize = 4_096;
/// Parents that exit while their line is read make it start again, so many times.
const ATTEMPTS: usize = 4;

/// Bytes of 52 fields, which are numbers but for the name.
const LONGEST_STAT: usize = 2048;

/// One line of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: u32,
    pub parent: u32,
    pub program: String,
    /// With the id, names a process for all time.
    started: u64,
}

impl Process {
    /// In one read, which the kernel answers as a whole: a look at all processes is made of these.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let mut stat = [0; LONGEST_STAT];
        let read = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(stat.get(..read)?))
    }

    /// The name in parentheses may hold anything, so fields count from the last one.
    pub(super) fn parse(pid: u32, stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(')')?;
        let (number, program) = head.split_once('(')?;
        // Another number: the file of another process is mounted over this one.
        number.trim().parse().ok().filter(|number: &u32| *number == pid)?;
        let mut fields = rest.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { pid, parent, program: program.to_owned(), started })
    }

    /// The ancestors from the parent up, each confirmed: while the child names it, a parent lives,
    /// so what was read of it in between is its own and not that of a later process of that number.
    /// Nothing if the process itself has gone.
    pub(crate) fn ancestors(&self) -> Option<Vec<Self>> {
        self.ancestors_by(Self::read)
    }

    /// The same, with another way of reading one process.
    pub(super) fn ancestors_by(&self, read: impl Fn(u32) -> Option<Self>) -> Option<Vec<Self>> {
        (0..ATTEMPTS).find_map(|_| {
            let now = read(self.pid).filter(|now| now.started == self.started)?;
            now.line(&read)
        })
    }

    fn line(&self, read: impl Fn(u32) -> Option<Self>) -> Option<Vec<Self>> {
        let mut line: Vec<Self> = Vec::new();
        let mut child = self.clone();
        // Parent 0 is the kernel, or a process outside of our PID namespace: no Loggia below us.
        while child.parent != 0 && line.len() < LONGEST_LINE {
            let parent = read(child.parent);
            if read(child.pid).as_ref() != Some(&child) {
                return None;
            }
            match parent {
                Some(parent) => {
                    line.push(parent.clone());
                    child = parent;
                }
                // With `hidepid`, /proc leaves out the processes of other users. None is a guard.
                None => return is_of_another_user(child.parent).then_some(line),
            }
        }
        (child.parent == 0).then_some(line)
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
    /// Newest last, as numbers go.
    all: Vec<Process>,
}

impl Processes {
    pub(crate) fn read() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| number(&entry.file_name())).collect();
        pids.sort_unstable();
        Self { all: pids.into_iter().filter_map(Process::read).collect() }
    }

    /// Whether a call of any Loggia runs: a process below one that `is_loggia`, or a guard.
    pub(crate) fn any_call(&self, is_loggia: impl Fn(&Process) -> bool) -> bool {
        let loggias = self.all.iter().filter(|process| is_loggia(process));
        let loggias: HashSet<u32> = loggias.map(|process| process.pid).collect();
        let is_call =
            |process: &Process| process.program == GUARD || loggias.contains(&process.parent);
        self.all.iter().any(is_call)
    }

    /// The processes below this one.
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

    /// Who holds each of these sockets: all descendants of `us` that do, and at least one other if
    /// there is one. The rest of the machine is searched only as far as needed, and we ourselves,
    /// with all our connections, last.
    pub(crate) fn holders(&self, wanted: &HashSet<u32>, us: u32) -> HashMap<u32, Vec<&Process>> {
        let below = self.descendants(us);
        let mut found: HashMap<u32, Vec<&Process>> = HashMap::new();
        for process in self.all.iter().filter(|process| below.contains(&process.pid)) {
            note(process, wanted, &mut found);
        }
        let others = self.all.iter().rev().filter(|process| !below.contains(&process.pid));
        let (ourselves, others): (Vec<_>, Vec<_>) = others.partition(|process| process.pid == us);
        for process in others.into_iter().chain(ourselves) {
            if found.len() == wanted.len() {
                break;
            }
            note(process, wanted, &mut found);
        }
        found
    }
}

fn note<'a>(
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
    fn names_may_hold_anything() {
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
    fn our_own_line_leads_to_the_first_process() {
        let ourselves = Process::read(std::process::id()).unwrap();
        let line = ourselves.ancestors().unwrap();
        assert_eq!(line.first().map(|parent| parent.pid), Some(ourselves.parent));
        assert_eq!(line.last().map(|last| last.parent), Some(0));
        let earlier = Process { started: ourselves.started - 1, ..ourselves };
        assert_eq!(earlier.ancestors(), None, "a later process of the same number is another");
    }
}
