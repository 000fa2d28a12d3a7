//! Replaces a file atomically: it has either the complete new content or the old content.
//!
//! The digest of the version that was shown is compared right before the rename, on a descriptor, so
//! only the version that a person approved is replaced.
//!
//! Extended attributes and access control lists of the old file are not kept.

use std::fs::File;
use std::io::Write;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, fsync, linkat, mkdirat, openat,
    renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::resolver::{Links, open_single};
use super::{Kind, OpenFile, Workspace, WorkspaceError, WorkspacePath, io_error, regular};

/// The largest file that is edited. Its old and new content are stored in the log.
pub const EDIT_LIMIT: u64 = 2 * 1024 * 1024;

/// The current content of a file.
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
    /// The file at a path without links; None if there is none.
    pub fn version(&self, path: &WorkspacePath) -> Result<Option<Version>, WorkspaceError> {
        let Some((parent, name)) = path.split() else {
            return Err(WorkspaceError::new(Kind::NotAFile, "the workspace itself is not a file"));
        };
        self.check_not_reserved_path(path)?;
        match self.open_real_directory(&parent) {
            Ok(directory) => self.version_in(&directory, name, path),
            Err(error) if error.kind == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn version_in(
        &self,
        directory: &OwnedFd,
        name: &str,
        path: &WorkspacePath,
    ) -> Result<Option<Version>, WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match open_single(directory.as_fd(), name, flags) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.explain(errno, path)),
        };
        self.check_not_reserved(&fd, path)?;
        let stat = regular(&fd, path)?;
        if stat.st_mode & 0o222 == 0 {
            let message = format!("`{path}` is marked read-only: make it writable first");
            return Err(WorkspaceError::new(Kind::ReadOnly, message));
        }
        let mut file = OpenFile { file: File::from(fd), size: stat.st_size.unsigned_abs() };
        let bytes = file.read_whole(path, EDIT_LIMIT)?;
        Ok(Some(Version {
            digest: digest(&bytes),
            bytes,
            // A write clears the set-user-id bit and similar ones, as usual.
            mode: Mode::from_raw_mode(stat.st_mode & 0o777),
            owner: (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)),
        }))
    }

    /// Fails unless the file still has this digest.
    pub fn is_still(&self, path: &WorkspacePath, digest: &str) -> Result<(), WorkspaceError> {
        let now = self.version(path)?;
        match now.is_some_and(|now| now.digest == digest) {
            true => Ok(()),
            false => Err(changed_since(path)),
        }
    }

    /// Replaces the version with `old_digest` by `new`. An empty digest means that the file does not
    /// exist; missing directories are created. Any other state is `changed_since_approval`.
    pub fn replace(
        &self,
        path: &WorkspacePath,
        old_digest: &str,
        new: &[u8],
    ) -> Result<(), WorkspaceError> {
        self.check()?;
        let Some((parent, name)) = path.split() else {
            return Err(WorkspaceError::new(Kind::NotAFile, "the workspace itself is not a file"));
        };
        self.check_not_reserved_path(path)?;
        let directory = if old_digest.is_empty() {
            self.make_directories(&parent)
        } else {
            self.open_real_directory(&parent)
        };
        let directory = directory.map_err(|error| changed(error, path))?;
        let old = self.approved_version(&directory, name, path, old_digest)?;
        let temporary = TemporaryFile::write(&directory, path, old.as_ref(), new)?;
        self.approved_version(&directory, name, path, old_digest)?;
        temporary.rename_to(name, path, old.is_some())
    }

    /// The version that was shown; fails if the file has changed since.
    fn approved_version(
        &self,
        directory: &OwnedFd,
        name: &str,
        path: &WorkspacePath,
        old_digest: &str,
    ) -> Result<Option<Version>, WorkspaceError> {
        let now = self.version_in(directory, name, path).map_err(|error| changed(error, path))?;
        let now_digest = now.as_ref().map_or("", |version| version.digest.as_str());
        if now_digest == old_digest { Ok(now) } else { Err(changed_since(path)) }
    }

    fn make_directories(&self, path: &WorkspacePath) -> Result<OwnedFd, WorkspaceError> {
        let mut held = self.directory(&WorkspacePath::root(), Links::Refuse)?;
        for name in path.components() {
            match mkdirat(&held, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.explain(errno, path)),
            }
            let opened = open_single(held.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY);
            held = opened.map_err(|errno| self.explain(errno, path))?;
        }
        Ok(held)
    }
}

fn changed_since(path: &WorkspacePath) -> WorkspaceError {
    WorkspaceError::new(
        Kind::ChangedSinceApproval,
        format!("`{path}` changed after this was approved: read it and try again"),
    )
}

/// Errors that mean that the path no longer leads to the file that was shown.
fn changed(error: WorkspaceError, path: &WorkspacePath) -> WorkspaceError {
    match error.kind {
        Kind::NotFound | Kind::Symlink | Kind::NotAFile | Kind::NotADirectory | Kind::TooLarge => {
            changed_since(path)
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

/// The new content in a temporary file, removed on drop unless it was renamed.
pub(super) struct TemporaryFile<'a> {
    directory: &'a OwnedFd,
    name: String,
}

impl<'a> TemporaryFile<'a> {
    pub(super) fn write(
        directory: &'a OwnedFd,
        path: &WorkspacePath,
        old: Option<&Version>,
        new: &[u8],
    ) -> Result<Self, WorkspaceError> {
        let name = format!(".loggia-{}", uuid::Uuid::now_v7().simple());
        // A private file must never be readable for others; a new file follows the umask.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(directory, &name, flags, mode).map_err(|errno| unwritable(errno, path))?;
        let temporary = Self { directory, name };
        let mut file = File::from(fd);
        file.write_all(new).map_err(|error| io_error(error, path))?;
        if let Some(old) = old {
            // Only root may change the owner; for other users the owner is already correct.
            let _ = fchown(&file, Some(old.owner.0), Some(old.owner.1));
            fchmod(&file, old.mode).map_err(|errno| io_error(errno, path))?;
        }
        fsync(&file).map_err(|errno| io_error(errno, path))?;
        Ok(temporary)
    }

    pub(super) fn rename_to(
        self,
        name: &str,
        path: &WorkspacePath,
        replaces: bool,
    ) -> Result<(), WorkspaceError> {
        let from = self.name.as_str();
        let renamed = if replaces {
            renameat(self.directory, from, self.directory, name)
        } else {
            match renameat_with(self.directory, from, self.directory, name, RenameFlags::NOREPLACE)
            {
                // Some file systems do not support that. A hard link never replaces a file either.
                Err(Errno::INVAL) => {
                    linkat(self.directory, from, self.directory, name, AtFlags::empty())
                }
                done => done,
            }
        };
        match renamed {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::ISDIR | Errno::NOTDIR) => return Err(changed_since(path)),
            Err(errno) => return Err(io_error(errno, path)),
        }
        // Makes the rename durable. Errors are ignored: some file systems cannot sync a directory.
        let _ = fsync(self.directory);
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        // After a rename the name no longer exists; no other process creates such a name.
        let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}

fn unwritable(errno: Errno, path: &WorkspacePath) -> WorkspaceError {
    match errno {
        Errno::ROFS => {
            WorkspaceError::new(Kind::ReadOnly, format!("`{path}` is on a read-only file system"))
        }
        Errno::ACCESS | Errno::PERM => {
            let message = format!("the system does not allow writing in the directory of `{path}`");
            WorkspaceError::new(Kind::Denied, message)
        }
        other => io_error(other, path),
    }
}
