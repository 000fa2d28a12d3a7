//! Directories and files that no file tool may use even if they are in a workspace: Loggia's own. They
//! contain the settings for approvals, other people's sessions, tokens, keys and credentials.
//!
//! Real paths are compared: every descriptor is asked for its path before anything is read through it.
//! A file with several names is compared by device and inode.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, fstat, statat};

use super::resolver::Links;
use super::{Kind, Workspace, WorkspaceError, WorkspacePath, path_of};

/// Absolute paths without links. A path may also be a file.
#[derive(Debug, Clone, Default)]
pub struct ReservedDirs {
    /// All paths. A file outside the workspace can be hard-linked into it.
    all: Arc<[PathBuf]>,
    /// The paths inside the workspace.
    inside: Arc<[PathBuf]>,
    /// A file with further paths, one per line.
    list: Option<Arc<Path>>,
}

impl ReservedDirs {
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let all: Arc<[PathBuf]> = paths.into_iter().collect();
        Self { inside: all.clone(), all, list: None }
    }

    /// Also the paths in a file, one per line. Other processes add to it, so every workspace that is opened
    /// reads it again.
    #[must_use]
    pub fn with_list(self, list: PathBuf) -> Self {
        Self { list: Some(list.into()), ..self }
    }

    /// For a workspace at `directory`. None if the directory itself is reserved.
    pub(super) fn below(&self, directory: &Path) -> io::Result<Option<Self>> {
        if self.contains(directory) {
            return Ok(None);
        }
        let all: Vec<PathBuf> = self.all.iter().cloned().chain(self.listed()?).collect();
        let inside = all.iter().filter(|path| path.starts_with(directory)).cloned();
        Ok(Some(Self { inside: inside.collect(), all: all.into(), list: None }))
    }

    fn listed(&self) -> io::Result<Vec<PathBuf>> {
        let read = self.list.as_deref().map(std::fs::read);
        let bytes = match read {
            None => return Ok(Vec::new()),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Some(read) => read?,
        };
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| PathBuf::from(OsStr::from_bytes(line))).collect())
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.inside.iter().any(|reserved| path.starts_with(reserved))
    }

    /// Whether no reserved path is inside the workspace.
    pub(super) fn is_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// Whether this file is a reserved file under another name: a hard link, or the current target of
    /// a link such as a renewed certificate.
    pub(super) fn is_reserved_file(&self, opened: impl AsFd) -> bool {
        let Ok(stat) = fstat(opened) else { return false };
        let same = |path: &PathBuf| {
            let reserved = statat(CWD, path, AtFlags::empty());
            reserved.is_ok_and(|found| (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino))
        };
        FileType::from_raw_mode(stat.st_mode).is_file() && self.all.iter().any(same)
    }
}

impl Workspace {
    /// Fails if the descriptor that was opened for a path leads to a reserved file or directory.
    pub(super) fn check_not_reserved(
        &self,
        opened: &OwnedFd,
        path: &WorkspacePath,
    ) -> Result<(), WorkspaceError> {
        if self.reserved.is_reserved_file(opened) {
            return Err(reserved_error(path));
        }
        if self.reserved.is_empty() {
            return Ok(());
        }
        let real = match path_of(opened) {
            Some(path) => PathBuf::from(path),
            // Without /proc the real path is unknown, but a path without links is its own real path.
            None => {
                let plain =
                    self.resolver.open(self.root.as_fd(), path, OFlags::PATH, Links::Refuse);
                plain.map_err(|errno| self.explain(errno, path))?;
                self.path.join(path.as_str())
            }
        };
        if self.reserved.contains(&real) { Err(reserved_error(path)) } else { Ok(()) }
    }

    /// The same for a path without links, which need not exist.
    pub(super) fn check_not_reserved_path(
        &self,
        path: &WorkspacePath,
    ) -> Result<(), WorkspaceError> {
        match self.reserved.contains(&self.path.join(path.as_str())) {
            true => Err(reserved_error(path)),
            false => Ok(()),
        }
    }
}

fn reserved_error(path: &WorkspacePath) -> WorkspaceError {
    WorkspaceError::new(
        Kind::Denied,
        format!(
            "`{path}` is one of Loggia's own files or directories, which tools cannot read or \
             write: change it yourself"
        ),
    )
}
