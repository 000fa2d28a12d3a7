//! Opens what a place names without ever leaving the workspace: the kernel resolves the path below
//! a directory descriptor and refuses to leave it, so there is no moment between check and use.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

use super::place::Place;

/// What happens at a symbolic link that stays inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Refuse,
}

/// How paths are resolved here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolver {
    /// `openat2`, Linux 5.6 and newer.
    Kernel,
    /// Component by component, for kernels and containers without `openat2`. Follows no link at all.
    Stepwise,
}

impl Resolver {
    /// Tries it once: some containers answer "not permitted" to system calls they do not know.
    pub(super) fn detect(root: BorrowedFd<'_>) -> Self {
        match kernel(root, ".", OFlags::PATH | OFlags::DIRECTORY, Links::Refuse) {
            Err(Errno::NOSYS | Errno::PERM) => Self::Stepwise,
            Ok(_) | Err(_) => Self::Kernel,
        }
    }

    pub(super) fn open(
        self,
        root: BorrowedFd<'_>,
        place: &Place,
        flags: OFlags,
        links: Links,
    ) -> Result<OwnedFd, Errno> {
        match self {
            Self::Kernel => kernel(root, place.as_str(), flags, links),
            Self::Stepwise => stepwise(root, place, flags),
        }
    }
}

fn kernel(root: BorrowedFd<'_>, path: &str, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    // EAGAIN: something was renamed while the kernel looked. Rare, but an attacker can cause it.
    for _ in 0..64 {
        match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

fn stepwise(root: BorrowedFd<'_>, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::DIRECTORY;
    let Some((parent, name)) = place.split() else { return single(root, ".", flags) };
    let mut held = single(root, ".", step)?;
    for component in parent.components() {
        held = single(held.as_fd(), component, step)?;
    }
    single(held.as_fd(), name, flags)
}

/// One name in one directory; a symbolic link is ELOOP.
pub(super) fn single(
    directory: BorrowedFd<'_>,
    name: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let opened = openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    match opened {
        // With O_DIRECTORY the kernel calls a link "not a directory"; people need the better word.
        Err(Errno::NOTDIR) if is_symlink(directory, name) => Err(Errno::LOOP),
        done => done,
    }
}

pub(super) fn is_symlink(directory: BorrowedFd<'_>, name: &str) -> bool {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}
