//! Whether a Loggia started this process, for commands that only a person may run.
//!
//! Nothing that the caller chooses is consulted: not the environment, not the name or path of the program.
//! The parents are read from `/proc`, which must be the kernel's: every file is on the same proc file
//! system and names the process that was asked for. The guard of a call sets a process name that the call
//! cannot change, and so does every Loggia. Inside a call's PID namespace the guard is the first process,
//! so orphans are below it, too.
//!
//! Not covered: a PID namespace that root made inside a call looks like a container. A command that runs
//! as root can bypass Loggia more easily anyway.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, openat, readlinkat};

use super::process::{GUARD, Process};

/// The process name of a Loggia.
pub const LOGGIA: &str = "loggia";

/// The initial PID namespace. The number is part of the kernel's interface (`linux/nsfs.h`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// More than the files of a process that are read here.
const LONGEST_FILE: u64 = 64 * 1024;

/// The origin of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ancestry {
    /// No Loggia is among its ancestors.
    Person,
    /// A Loggia: for a call, a hook or an editor.
    Loggia,
    /// It cannot be determined; with the reason.
    Unreadable(&'static str),
}

const NO_PROC: Ancestry = Ancestry::Unreadable("/proc is not mounted, or something else is there");
const NO_PARENTS: Ancestry = Ancestry::Unreadable("/proc does not show all of its parents");
const OWN_NAMESPACE: Ancestry = Ancestry::Unreadable(
    "it runs in a process namespace that an ordinary user made, and its parents are outside",
);

/// Reads the ancestors of this process.
pub fn ancestry() -> Ancestry {
    let Some(proc) = Proc::open() else { return NO_PROC };
    let Some(ourselves) = proc.ourselves() else { return NO_PROC };
    let Some(ancestors) = ourselves.ancestors_by(|pid| proc.process(pid)) else {
        return NO_PARENTS;
    };
    if ancestors.iter().any(|ancestor| proc.is_loggia(ancestor)) {
        return Ancestry::Loggia;
    }
    // A command can make a namespace inside its call's, where no guard is visible. It can map only its
    // own user into it; container engines map many.
    match proc.shows_all(ourselves.pid) || proc.maps_many_users() {
        true => Ancestry::Person,
        false => OWN_NAMESPACE,
    }
}

/// The kernel's own `/proc`.
struct Proc {
    directory: OwnedFd,
    device: u64,
}

impl Proc {
    fn open() -> Option<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let directory = rustix::fs::open("/proc", flags, Mode::empty()).ok()?;
        let kind = fstatfs(&directory).ok()?.f_type;
        let device = fstat(&directory).ok()?.st_dev;
        (kind == PROC_SUPER_MAGIC).then_some(Self { directory, device })
    }

    /// Reads a file, unless another file system is mounted over it.
    fn read(&self, path: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(self.directory.as_fd(), path, flags, Mode::empty()).ok()?;
        if fstat(&file).ok()?.st_dev != self.device {
            return None;
        }
        let mut bytes = Vec::new();
        File::from(file).take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn link(&self, path: &str) -> Option<String> {
        readlinkat(self.directory.as_fd(), path, Vec::new()).ok()?.into_string().ok()
    }

    fn process(&self, pid: u32) -> Option<Process> {
        Process::parse(pid, &self.read(&format!("{pid}/stat"))?)
    }

    /// By the `self` link: in the `/proc` of an outer namespace our pid is another one.
    fn ourselves(&self) -> Option<Process> {
        self.process(self.link("self")?.parse().ok()?)
    }

    /// Whether there is no outer PID namespace.
    fn shows_all(&self, ourselves: u32) -> bool {
        let namespace = self.link("self/ns/pid");
        ourselves == std::process::id() && namespace.as_deref() == Some(FIRST_NAMESPACE)
    }

    fn maps_many_users(&self) -> bool {
        let map = self.read("self/uid_map").unwrap_or_default();
        let count = |line: &str| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok();
        map.lines().filter_map(count).sum::<u64>() > 1
    }

    /// A guard, or a process of Loggia's name that is not known to be another program, such as a script
    /// of that name.
    fn is_loggia(&self, process: &Process) -> bool {
        match process.program.as_str() {
            GUARD => true,
            LOGGIA => !is_another_program(process.pid),
            _ => false,
        }
    }
}

/// False if that cannot be read, as for every Loggia of an ordinary user, and for a copy of Loggia.
fn is_another_program(pid: u32) -> bool {
    let other = format!("/proc/{pid}/exe");
    is_another_file(Path::new(&other), Path::new("/proc/self/exe")).unwrap_or(false)
}

fn is_another_file(one: &Path, other: &Path) -> Option<bool> {
    let (mut one, mut other) = (File::open(one).ok()?, File::open(other).ok()?);
    let facts = (one.metadata().ok()?, other.metadata().ok()?);
    if (facts.0.dev(), facts.0.ino()) == (facts.1.dev(), facts.1.ino()) {
        return Some(false);
    }
    if facts.0.len() != facts.1.len() {
        return Some(true);
    }
    let (mut here, mut there) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let length = one.read(&mut here).ok()?;
        let here = here.get(..length)?;
        let there = there.get_mut(..length)?;
        other.read_exact(there).ok()?;
        if here != there {
            return Some(true);
        }
        if length == 0 {
            return Some(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same_program_and_a_script_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("program"), "x".repeat(3_000_000)).unwrap();
        std::fs::copy(path("program"), path("copy")).unwrap();
        std::fs::write(path("script"), "#!/bin/sh\n").unwrap();
        std::fs::write(path("other"), "x".repeat(2_999_999) + "y").unwrap();
        let another = |name: &str| is_another_file(&path("program"), &path(name));
        assert_eq!(another("program"), Some(false));
        assert_eq!(another("copy"), Some(false));
        assert_eq!(another("script"), Some(true));
        assert_eq!(another("other"), Some(true));
        assert_eq!(another("missing"), None);
    }

    #[test]
    fn a_test_is_a_person() {
        assert_eq!(ancestry(), Ancestry::Person);
    }
}
