//! The one directory tree that file tools may touch.
//!
//! A workspace is a directory descriptor, not a path. Every file is opened below that descriptor in
//! one step ([`resolver`]), so neither a symbolic link nor a concurrent rename leads out of it.
//! Everything here blocks: tools call it from blocking threads.
//!
//! Not here: tools, permits, approvals, models.

mod error;
mod path;
mod reserved_dirs;
mod resolver;
mod walk;
mod write;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, fstatfs, open, readlinkat, statat,
};
use rustix::io::Errno;

pub use error::{WorkspaceError, WorkspaceErrorKind, shown};
pub use path::WorkspacePath;
pub use reserved_dirs::ReservedDirs;
use resolver::{Links, Resolver};
pub use walk::{Entry, WalkEnd, WalkLimits, Walked};
pub use write::{EDIT_LIMIT, Version, digest};

use WorkspaceErrorKind as Kind;

/// The magic number of procfs. Its files look regular but expose kernel state, such as
/// `/proc/self/environ` in a workspace at `/`.
const PROC: i64 = 0x9fa0;

pub struct Workspace {
    /// Absolute, without symbolic links. Shown to people.
    path: PathBuf,
    /// The path that was opened. Absolute paths may start with it. The same as `path` if it was relative.
    given: PathBuf,
    root: OwnedFd,
    device: u64,
    inode: u64,
    resolver: Resolver,
    reserved: ReservedDirs,
}

/// A regular file, open for reading.
pub struct OpenFile {
    pub file: File,
    pub size: u64,
}

impl Workspace {
    /// Opens a directory as a workspace. The value refers to that directory even if its path changes.
    pub fn open(path: &Path) -> Result<Self, WorkspaceError> {
        Self::open_without(path, &ReservedDirs::default())
    }

    /// The same, without the reserved directories.
    pub fn open_without(path: &Path, reserved: &ReservedDirs) -> Result<Self, WorkspaceError> {
        let given = path;
        let gone = |why: String| {
            let path = shown(&given.to_string_lossy());
            WorkspaceError::new(
                Kind::WorkspaceGone,
                format!("cannot open the workspace {path}: {why}"),
            )
        };
        let path = given.canonicalize().map_err(|error| gone(error.to_string()))?;
        if path.to_str().is_none() {
            return Err(gone("its path is not UTF-8".into()));
        }
        let unread = |error| gone(format!("Loggia's list of secret files cannot be read: {error}"));
        let Some(reserved) = reserved.below(&path).map_err(unread)? else {
            return Err(gone("Loggia keeps its own files there, work in another directory".into()));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&path, flags, Mode::empty()).map_err(|errno| gone(errno.to_string()))?;
        let stat = fstat(&root).map_err(|errno| gone(errno.to_string()))?;
        let resolver = Resolver::detect(root.as_fd());
        let given = if given.is_absolute() { given.to_owned() } else { path.clone() };
        let (device, inode) = (stat.st_dev, stat.st_ino);
        Ok(Self { path, given, root, device, inode, resolver, reserved })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path, for people.
    pub fn absolute(&self, path: &WorkspacePath) -> String {
        let full = if path.is_root() { self.path.clone() } else { self.path.join(path.as_str()) };
        full.to_string_lossy().into_owned()
    }

    /// Parses a path that a tool was given: relative to the workspace, or absolute and inside it.
    pub fn locate(&self, text: &str) -> Result<WorkspacePath, WorkspaceError> {
        path::locate(text, &[&self.path, &self.given])
    }

    /// The same for an optional path; the default is the workspace itself.
    pub fn locate_or_root(&self, text: Option<&str>) -> Result<WorkspacePath, WorkspaceError> {
        text.map_or_else(|| Ok(WorkspacePath::root()), |text| self.locate(text))
    }

    /// Fails if the workspace's path no longer leads to the directory that was opened. Called before
    /// each operation, so that no file is written into a directory that was deleted or moved.
    pub fn check(&self) -> Result<(), WorkspaceError> {
        let now = statat(CWD, &self.path, AtFlags::empty());
        let why = match now {
            Ok(stat) if (stat.st_dev, stat.st_ino) == (self.device, self.inode) => return Ok(()),
            Ok(_) => "another directory is in its place",
            Err(Errno::NOENT | Errno::NOTDIR) => "it was deleted or moved",
            Err(_) => "it cannot be reached",
        };
        let path = self.path.display();
        Err(WorkspaceError::new(
            Kind::WorkspaceGone,
            format!(
                "the workspace {path} is gone: {why}. Put it back, or start a session elsewhere"
            ),
        ))
    }

    /// Opens a regular file for reading. Follows links that stay inside the workspace.
    pub fn open_file(&self, path: &WorkspacePath) -> Result<OpenFile, WorkspaceError> {
        self.check()?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = self.resolver.open(self.root.as_fd(), path, flags, Links::Follow);
        let fd = opened.map_err(|errno| self.explain(errno, path))?;
        self.check_not_reserved(&fd, path)?;
        let stat = regular(&fd, path)?;
        Ok(OpenFile { file: File::from(fd), size: stat.st_size.unsigned_abs() })
    }

    /// A directory to list or to work in.
    pub fn open_directory(&self, path: &WorkspacePath) -> Result<OwnedFd, WorkspaceError> {
        self.directory(path, Links::Follow)
    }

    /// The same, but the path must not contain links, so that it opens the directory that was shown.
    pub fn open_real_directory(&self, path: &WorkspacePath) -> Result<OwnedFd, WorkspaceError> {
        self.directory(path, Links::Refuse)
    }

    fn directory(&self, path: &WorkspacePath, links: Links) -> Result<OwnedFd, WorkspaceError> {
        self.check()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = self.resolver.open(self.root.as_fd(), path, flags, links);
        let opened = opened.map_err(|errno| self.explain(errno, path))?;
        self.check_not_reserved(&opened, path)?;
        Ok(opened)
    }

    /// The path of a directory with all links resolved. A person must see the real path, because a link
    /// named `docs` may lead to `.git/hooks`.
    pub fn real_directory(&self, path: &WorkspacePath) -> Result<WorkspacePath, WorkspaceError> {
        let fd = self.open_directory(path)?;
        self.name_of(&fd, path)
    }

    /// The path of a file to write with all links resolved. The file need not exist.
    pub fn real_file(&self, path: &WorkspacePath) -> Result<WorkspacePath, WorkspaceError> {
        let Some((parent, name)) = path.split() else {
            return Err(WorkspaceError::new(Kind::NotAFile, "the workspace itself is not a file"));
        };
        let mut missing: Vec<String> = vec![name.to_owned()];
        let mut ancestor = parent;
        let fd = loop {
            match self.open_directory(&ancestor) {
                Ok(fd) => break fd,
                Err(error) if error.kind == Kind::NotFound => {
                    let Some((above, name)) = ancestor.split() else { return Err(error) };
                    missing.push(name.to_owned());
                    ancestor = above;
                }
                Err(error) => return Err(error),
            }
        };
        // A dangling link also looks missing, and must not be written through later.
        if missing.last().is_some_and(|name| resolver::is_symlink(fd.as_fd(), name)) {
            return Err(self.explain(Errno::LOOP, path));
        }
        let real = self.name_of(&fd, &ancestor)?;
        let real = missing.iter().rev().fold(real, |path, name| path.child(name));
        self.check_not_reserved_path(&real)?;
        Ok(real)
    }

    fn name_of(&self, fd: &OwnedFd, path: &WorkspacePath) -> Result<WorkspacePath, WorkspaceError> {
        if self.resolver == Resolver::Stepwise {
            return Ok(path.clone());
        }
        let (Some(root), Some(real)) = (path_of(&self.root), path_of(fd)) else {
            // Without /proc the real path is unknown, but a path without links is its own real path.
            self.open_real_directory(path)?;
            return Ok(path.clone());
        };
        path::locate(&real, &[Path::new(&root)])
    }

    /// The message for an error of opening a path.
    fn explain(&self, errno: Errno, path: &WorkspacePath) -> WorkspaceError {
        let (kind, message) = match errno {
            Errno::XDEV => {
                (Kind::OutsideWorkspace, format!("`{path}` leads outside the workspace"))
            }
            Errno::LOOP => (
                Kind::Symlink,
                format!(
                    "`{path}` is or passes through a symbolic link: name the file that it points to"
                ),
            ),
            Errno::NOENT => (Kind::NotFound, format!("there is no `{path}` in the workspace")),
            Errno::NOTDIR => {
                (Kind::NotADirectory, format!("`{path}`, or a part of it, is not a directory"))
            }
            Errno::ISDIR => (Kind::NotAFile, format!("`{path}` is a directory, not a file")),
            Errno::NXIO | Errno::NODEV => {
                (Kind::NotAFile, format!("`{path}` is a socket or a device, not a file"))
            }
            Errno::NAMETOOLONG => (Kind::InvalidPath, format!("the name `{path}` is too long")),
            Errno::ACCESS | Errno::PERM => {
                (Kind::Denied, format!("the system does not allow opening `{path}`"))
            }
            Errno::ROFS => (Kind::ReadOnly, format!("`{path}` is on a read-only file system")),
            other => (Kind::Io, format!("cannot open `{path}`: {}", std::io::Error::from(other))),
        };
        WorkspaceError::new(kind, message)
    }
}

/// The current path of a descriptor, as the kernel reports it.
fn path_of(fd: &OwnedFd) -> Option<String> {
    use std::os::fd::AsRawFd;
    let link = readlinkat(CWD, format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()).ok()?;
    link.into_string().ok()
}

/// Fails unless it is a regular file. Reading anything else could block, never end or have an effect.
fn regular(fd: &OwnedFd, path: &WorkspacePath) -> Result<Stat, WorkspaceError> {
    let stat = fstat(fd).map_err(|errno| io_error(errno, path))?;
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            if fstatfs(fd).is_ok_and(|system| system.f_type == PROC) {
                "a view of kernel state"
            } else {
                return Ok(stat);
            }
        }
        FileType::Directory => "a directory",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        FileType::Unknown => "something unknown",
    };
    Err(WorkspaceError::new(
        Kind::NotAFile,
        format!("`{path}` is {what}, not a regular file: only regular files are read or written"),
    ))
}

fn io_error(error: impl Into<std::io::Error>, path: &WorkspacePath) -> WorkspaceError {
    WorkspaceError::new(Kind::Io, format!("`{path}`: {}", error.into()))
}

impl OpenFile {
    /// The whole content, unless it has more than `limit` bytes. The limit is checked again while
    /// reading, because a file may grow.
    pub fn read_whole(
        &mut self,
        path: &WorkspacePath,
        limit: u64,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let too_large = |size: u64| {
            let message = format!("`{path}` has {size} bytes; the limit is {limit}");
            WorkspaceError::new(Kind::TooLarge, message)
        };
        if self.size > limit {
            return Err(too_large(self.size));
        }
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| io_error(error, path))?;
        if bytes.len() as u64 > limit { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
    }
}

#[cfg(test)]
#[path = "workspace/tests.rs"]
mod tests;
