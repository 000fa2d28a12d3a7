//! Opens a path without ever leaving the workspace. The kernel resolves the path below a directory
//! descriptor and refuses to leave it, so there is no gap between check and use.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

use super::path::WorkspacePath;

/// What to do at a symbolic link that stays inside the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Refuse,
}

/// How paths are resolved on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolver {
    /// `openat2`, Linux 5.6 and newer.
    Kernel,
    /// One component at a time, for kernels and containers without `openat2`. Follows no links.
    Stepwise,
}

impl Resolver {
    /// Tries `openat2` once. Some containers answer "not permitted" to unknown system calls.
    pub(super) fn detect(root: BorrowedFd<'_>) -> Self {
        match open_beneath(root, ".", OFlags::PATH | OFlags::DIRECTORY, Links::Refuse) {
            Err(Errno::NOSYS | Errno::PERM) => Self::Stepwise,
            Ok(_) | Err(_) => Self::Kernel,
        }
    }

    pub(super) fn open(
        self,
        root: BorrowedFd<'_>,
        path: &WorkspacePath,
        flags: OFlags,
        links: Links,
    ) -> Result<OwnedFd, Errno> {
        match self {
            Self::Kernel => open_beneath(root, path.as_str(), flags, links),
            Self::Stepwise => open_stepwise(root, path, flags),
        }
    }
}

fn open_beneath(
    root: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    // EAGAIN: something was renamed during the resolution. Rare, but an attacker can cause it.
    for _ in 0..64 {
        match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

fn open_stepwise(
    root: BorrowedFd<'_>,
    path: &WorkspacePath,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::DIRECTORY;
    let Some((parent, name)) = path.split() else { return open_single(root, ".", flags) };
    let mut held = open_single(root, ".", step)?;
    for component in parent.components() {
        held = open_single(held.as_fd(), component, step)?;
    }
    open_single(held.as_fd(), name, flags)
}

/// Opens one name in one directory. A symbolic link is ELOOP.
pub(super) fn open_single(
    directory: BorrowedFd<'_>,
    name: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let opened = openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    match opened {
        // With O_DIRECTORY the kernel reports a link as "not a directory".
        Err(Errno::NOTDIR) if is_symlink(directory, name) => Err(Errno::LOOP),
        done => done,
    }
}

pub(super) fn is_symlink(directory: BorrowedFd<'_>, name: &str) -> bool {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}
