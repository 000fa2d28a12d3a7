//! Places that no file tool enters, although they lie in a workspace: Loggia's own. What decides about
//! approvals, what other people's sessions hold, tokens, keys and credentials are not for a model to
//! read or to write.
//!
//! By real paths: every descriptor is asked where it leads before anything is read through it. A file
//! with several names is compared by what it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, fstat, statat};

use super::beneath::Links;
use super::{Kind, Place, Workspace, WorkspaceError, path_of};

/// Absolute, without links. A file can be one, too.
#[derive(Debug, Clone, Default)]
pub struct Walls {
    /// All of them: a file can have another name elsewhere.
    all: Arc<[PathBuf]>,
    /// Those that can be reached.
    below: Arc<[PathBuf]>,
}

impl Walls {
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let all: Arc<[PathBuf]> = paths.into_iter().collect();
        Self { below: all.clone(), all }
    }

    /// Those that can be reached from a directory. None: it lies behind one.
    pub(super) fn below(&self, directory: &Path) -> Option<Self> {
        if self.hide(directory) {
            return None;
        }
        let below = self.below.iter().filter(|wall| wall.starts_with(directory)).cloned();
        Some(Self { all: self.all.clone(), below: below.collect() })
    }

    pub(crate) fn hide(&self, path: &Path) -> bool {
        self.below.iter().any(|wall| path.starts_with(wall))
    }

    /// None can be reached by its name.
    pub(super) fn is_empty(&self) -> bool {
        self.below.is_empty()
    }

    /// Whether this file is one of them under another name: a hard link, or where a link to a secret leads by now (a
    /// certificate that was renewed).
    pub(super) fn is_one(&self, opened: impl AsFd) -> bool {
        let Ok(stat) = fstat(opened) else { return false };
        let same = |wall: &PathBuf| {
            let known = statat(CWD, wall, AtFlags::empty());
            known.is_ok_and(|known| (known.st_dev, known.st_ino) == (stat.st_dev, stat.st_ino))
        };
        FileType::from_raw_mode(stat.st_mode).is_file() && self.all.iter().any(same)
    }
}

impl Workspace {
    /// Whether what was opened under the name of a place may be used.
    pub(super) fn admit(&self, opened: &OwnedFd, place: &Place) -> Result<(), WorkspaceError> {
        if self.walls.is_one(opened) {
            return Err(walled(place));
        }
        if self.walls.is_empty() {
            return Ok(());
        }
        let real = match path_of(opened) {
            Some(path) => PathBuf::from(path),
            // Without /proc the real name is unknown; a place free of links is its own real name.
            None => {
                let plain =
                    self.resolver.open(self.root.as_fd(), place, OFlags::PATH, Links::Refuse);
                plain.map_err(|errno| self.explain(errno, place))?;
                self.path.join(place.as_str())
            }
        };
        if self.walls.hide(&real) { Err(walled(place)) } else { Ok(()) }
    }

    /// The same for a place that is free of links, and need not exist.
    pub(super) fn admit_name(&self, place: &Place) -> Result<(), WorkspaceError> {
        match self.walls.hide(&self.path.join(place.as_str())) {
            true => Err(walled(place)),
            false => Ok(()),
        }
    }
}

fn walled(place: &Place) -> WorkspaceError {
    WorkspaceError::new(
        Kind::Denied,
        format!(
            "`{place}` is one of Loggia's own files or directories: no tool reads or writes there, \
             change it yourself"
        ),
    )
}
