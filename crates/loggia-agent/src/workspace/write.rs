//! Replaces one file at once: either the whole new content is there or the old one still is.
//!
//! The version that was shown is pinned by the digest of its bytes. It is compared right before
//! the rename, on a descriptor, so what a person approved is what is replaced.
//!
//! Extended attributes and access control lists of the old file are not carried over.

use std::fs::File;
use std::io::Write;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, fsync, linkat, mkdirat, openat,
    renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::beneath::{Links, single};
use super::{Kind, OpenFile, Place, Workspace, WorkspaceError, io_error, regular};

/// The largest file that is edited. Its content goes whole into the log, twice.
pub const EDIT_LIMIT: u64 = 2 * 1024 * 1024;

/// A file as it is now.
pub struct Version {
    pub bytes: Vec<u8>,
    pub digest: String,
    mode: Mode,
    owner: (Uid, Gid),
}

/// Hex SHA-256.
pub fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Workspace {
    /// What is at a real place, free of links; None where there is nothing.
    pub fn version(&self, place: &Place) -> Result<Option<Version>, WorkspaceError> {
        let Some((parent, name)) = place.split() else {
            return Err(WorkspaceError::new(Kind::NotAFile, "the workspace itself is not a file"));
        };
        self.admit_name(place)?;
        match self.open_real_directory(&parent) {
            Ok(directory) => self.version_in(&directory, name, place),
            Err(error) if error.kind == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn version_in(
        &self,
        directory: &OwnedFd,
        name: &str,
        place: &Place,
    ) -> Result<Option<Version>, WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match single(directory.as_fd(), name, flags) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.explain(errno, place)),
        };
        self.admit(&fd, place)?;
        let stat = regular(&fd, place)?;
        if stat.st_mode & 0o222 == 0 {
            let message = format!("`{place}` is marked read-only: make it writable first");
            return Err(WorkspaceError::new(Kind::ReadOnly, message));
        }
        let mut file = OpenFile { file: File::from(fd), size: stat.st_size.unsigned_abs() };
        let bytes = file.read_whole(place, EDIT_LIMIT)?;
        Ok(Some(Version {
            digest: digest(&bytes),
            bytes,
            // Set-user-id and the like do not survive a write, here as elsewhere.
            mode: Mode::from_raw_mode(stat.st_mode & 0o777),
            owner: (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)),
        }))
    }

    /// Whether the file is still the version with this digest.
    pub fn is_still(&self, place: &Place, digest: &str) -> Result<(), WorkspaceError> {
        let now = self.version(place)?;
        match now.is_some_and(|now| now.digest == digest) {
            true => Ok(()),
            false => Err(changed_since(place)),
        }
    }

    /// Puts `new` where the version with `old_digest` is; an empty digest means nothing is there
    /// yet, and missing directories are made. Anything else there: `changed_since_approval`.
    pub fn replace(
        &self,
        place: &Place,
        old_digest: &str,
        new: &[u8],
    ) -> Result<(), WorkspaceError> {
        self.check()?;
        let Some((parent, name)) = place.split() else {
            return Err(WorkspaceError::new(Kind::NotAFile, "the workspace itself is not a file"));
        };
        self.admit_name(place)?;
        let directory = if old_digest.is_empty() {
            self.make_directories(&parent)
        } else {
            self.open_real_directory(&parent)
        };
        let directory = directory.map_err(|error| changed(error, place))?;
        let old = self.pinned(&directory, name, place, old_digest)?;
        let scratch = Scratch::write(&directory, place, old.as_ref(), new)?;
        self.pinned(&directory, name, place, old_digest)?;
        scratch.rename_to(name, place, old.is_some())
    }

    /// The version that was shown, or an error.
    fn pinned(
        &self,
        directory: &OwnedFd,
        name: &str,
        place: &Place,
        old_digest: &str,
    ) -> Result<Option<Version>, WorkspaceError> {
        let now = self.version_in(directory, name, place).map_err(|error| changed(error, place))?;
        let now_digest = now.as_ref().map_or("", |version| version.digest.as_str());
        if now_digest == old_digest { Ok(now) } else { Err(changed_since(place)) }
    }

    fn make_directories(&self, place: &Place) -> Result<OwnedFd, WorkspaceError> {
        let mut held = self.directory(&Place::root(), Links::Refuse)?;
        for name in place.components() {
            match mkdirat(&held, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.explain(errno, place)),
            }
            let opened = single(held.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY);
            held = opened.map_err(|errno| self.explain(errno, place))?;
        }
        Ok(held)
    }
}

fn changed_since(place: &Place) -> WorkspaceError {
    WorkspaceError::new(
        Kind::ChangedSinceApproval,
        format!(
            "`{place}` is no longer what was shown when this was approved: read it and try again"
        ),
    )
}

/// Something else at the place than what was shown is a change, whatever it is.
fn changed(error: WorkspaceError, place: &Place) -> WorkspaceError {
    match error.kind {
        Kind::NotFound | Kind::Symlink | Kind::NotAFile | Kind::NotADirectory | Kind::TooLarge => {
            changed_since(place)
        }
        Kind::InvalidPath
        | Kind::OutsideWorkspace
        | Kind::WorkspaceGone
        | Kind::NotText
        | Kind::ReadOnly
        | Kind::Denied
        | Kind::ChangedSinceApproval
        | Kind::Io => error,
    }
}

/// The new content under a name of its own, removed again unless it is renamed.
pub(super) struct Scratch<'a> {
    directory: &'a OwnedFd,
    name: String,
}

impl<'a> Scratch<'a> {
    pub(super) fn write(
        directory: &'a OwnedFd,
        place: &Place,
        old: Option<&Version>,
        new: &[u8],
    ) -> Result<Self, WorkspaceError> {
        let name = format!(".loggia-{}", uuid::Uuid::now_v7().simple());
        // A private file must not be readable for a moment; a new file follows the umask.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(directory, &name, flags, mode).map_err(|errno| unwritable(errno, place))?;
        let scratch = Self { directory, name };
        let mut file = File::from(fd);
        file.write_all(new).map_err(|error| io_error(error, place))?;
        if let Some(old) = old {
            // Only root may give files away; for everybody else the owner is right already.
            let _ = fchown(&file, Some(old.owner.0), Some(old.owner.1));
            fchmod(&file, old.mode).map_err(|errno| io_error(errno, place))?;
        }
        fsync(&file).map_err(|errno| io_error(errno, place))?;
        Ok(scratch)
    }

    pub(super) fn rename_to(
        self,
        name: &str,
        place: &Place,
        replaces: bool,
    ) -> Result<(), WorkspaceError> {
        let from = self.name.as_str();
        let renamed = if replaces {
            renameat(self.directory, from, self.directory, name)
        } else {
            match renameat_with(self.directory, from, self.directory, name, RenameFlags::NOREPLACE)
            {
                // Not every file system can do that; a hard link also never replaces.
                Err(Errno::INVAL) => {
                    linkat(self.directory, from, self.directory, name, AtFlags::empty())
                }
                done => done,
            }
        };
        match renamed {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::ISDIR | Errno::NOTDIR) => return Err(changed_since(place)),
            Err(errno) => return Err(io_error(errno, place)),
        }
        // The name is durable only once its directory is; a file system that can not is let off.
        let _ = fsync(self.directory);
        Ok(())
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // After a rename the name is gone already, and nobody else makes such a name.
        let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}

fn unwritable(errno: Errno, place: &Place) -> WorkspaceError {
    match errno {
        Errno::ROFS => {
            WorkspaceError::new(Kind::ReadOnly, format!("`{place}` is on a read-only file system"))
        }
        Errno::ACCESS | Errno::PERM => {
            let message = format!("the system does not allow to write next to `{place}`");
            WorkspaceError::new(Kind::Denied, message)
        }
        other => io_error(other, place),
    }
}
