//! The one directory tree that file tools may touch.
//!
//! A workspace is a directory descriptor, not a path. Every file is opened below that descriptor in
//! one step ([`beneath`]), so neither a symbolic link nor a rename at the wrong moment leads out.
//! Everything here blocks: tools call it from blocking threads.
//!
//! What must not be here: tools, permits, approvals, models.

mod absent;
mod beneath;
mod error;
mod place;
mod shared;
mod walk;
mod walls;
mod write;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, fstatfs, open, readlinkat, statat,
};
use rustix::io::Errno;

use absent::Absent;
use beneath::{Links, Resolver};
pub use error::{WorkspaceError, WorkspaceErrorKind, shown};
pub use place::Place;
pub use shared::OpenWorkspaces;
pub use walk::{Entry, WalkEnd, WalkLimits, Walked};
pub use walls::Walls;
pub use write::{EDIT_LIMIT, Version, digest};

use WorkspaceErrorKind as Kind;

/// procfs. Its files look regular and are not files: `/proc/self/environ` in a workspace of `/`.
const PROC: i64 = 0x9fa0;

pub struct Workspace {
    /// Absolute, without links: what people are shown.
    path: PathBuf,
    /// As it was given, for absolute paths that use that name; the same as `path` if it was relative.
    given: PathBuf,
    root: OwnedFd,
    device: u64,
    inode: u64,
    resolver: Resolver,
    /// What of it is not for tools.
    walls: Walls,
    absent: Absent,
}

/// A regular file, open for reading.
pub struct OpenFile {
    pub file: File,
    pub size: u64,
}

impl Workspace {
    /// Opens a directory as a workspace. It stays the same directory until this value is dropped,
    /// whatever happens to its path.
    pub fn open(path: &Path) -> Result<Self, WorkspaceError> {
        Self::open_behind(path, &Walls::default())
    }

    /// The same, without what lies behind the walls.
    pub fn open_behind(path: &Path, walls: &Walls) -> Result<Self, WorkspaceError> {
        let given = path;
        let gone = |why: String| {
            let path = shown(&given.to_string_lossy());
            WorkspaceError::new(
                Kind::WorkspaceGone,
                format!("can not open the workspace {path}: {why}"),
            )
        };
        let path = given.canonicalize().map_err(|error| gone(error.to_string()))?;
        if path.to_str().is_none() {
            return Err(gone("its path is not UTF-8".into()));
        }
        let Some(walls) = walls.below(&path) else {
            return Err(gone("Loggia keeps its own files there, work in another directory".into()));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&path, flags, Mode::empty()).map_err(|errno| gone(errno.to_string()))?;
        let stat = fstat(&root).map_err(|errno| gone(errno.to_string()))?;
        let resolver = Resolver::detect(root.as_fd());
        let given = if given.is_absolute() { given.to_owned() } else { path.clone() };
        let (device, inode) = (stat.st_dev, stat.st_ino);
        let absent = Absent::of(&root);
        Ok(Self { path, given, root, device, inode, resolver, walls, absent })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For people: the absolute path of a place.
    pub fn absolute(&self, place: &Place) -> String {
        let path = if place.is_root() { self.path.clone() } else { self.path.join(place.as_str()) };
        path.to_string_lossy().into_owned()
    }

    /// Reads a path as a tool was given it: relative to the workspace, or absolute and inside it.
    pub fn locate(&self, text: &str) -> Result<Place, WorkspaceError> {
        place::locate(text, &[&self.path, &self.given])
    }

    /// Does the workspace's path still lead to the directory that was opened? Asked before each
    /// operation: nobody wants a file in a directory that was deleted or moved away.
    pub fn check(&self) -> Result<(), WorkspaceError> {
        let now = statat(CWD, &self.path, AtFlags::empty());
        let why = match now {
            Ok(stat) if self.is(&stat) => return Ok(()),
            Ok(_) => "another directory is in its place",
            Err(Errno::NOENT | Errno::NOTDIR) => "it was deleted or moved",
            Err(_) => "it can not be reached",
        };
        let path = self.path.display();
        Err(WorkspaceError::new(
            Kind::WorkspaceGone,
            format!(
                "the workspace {path} is gone: {why}. Put it back, or start a session elsewhere"
            ),
        ))
    }

    /// Whether the directory itself has no entry of these names, whatever it would be.
    pub fn lacks(&self, names: &'static [&'static str]) -> bool {
        self.absent.are(self.root.as_fd(), names)
    }

    /// Whether this is what opening the path would give.
    fn is_at(&self, path: &Path) -> bool {
        let leads_here = || statat(CWD, path, AtFlags::empty()).is_ok_and(|stat| self.is(&stat));
        self.given == path && self.check().is_ok() && (self.path == path || leads_here())
    }

    fn is(&self, stat: &Stat) -> bool {
        stat.st_dev == self.device && stat.st_ino == self.inode
    }

    /// Opens a regular file for reading. Links are followed as long as they stay inside.
    pub fn open_file(&self, place: &Place) -> Result<OpenFile, WorkspaceError> {
        self.check()?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = self.resolver.open(self.root.as_fd(), place, flags, Links::Follow);
        let fd = opened.map_err(|errno| self.explain(errno, place))?;
        self.admit(&fd, place)?;
        let stat = regular(&fd, place)?;
        Ok(OpenFile { file: File::from(fd), size: stat.st_size.unsigned_abs() })
    }

    /// A directory to list or to work in.
    pub fn open_directory(&self, place: &Place) -> Result<OwnedFd, WorkspaceError> {
        self.directory(place, Links::Follow)
    }

    /// The same, but the place must be free of links: what was shown is what is opened.
    pub fn open_real_directory(&self, place: &Place) -> Result<OwnedFd, WorkspaceError> {
        self.directory(place, Links::Refuse)
    }

    fn directory(&self, place: &Place, links: Links) -> Result<OwnedFd, WorkspaceError> {
        self.check()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = self.resolver.open(self.root.as_fd(), place, flags, links);
        let opened = opened.map_err(|errno| self.explain(errno, place))?;
        self.admit(&opened, place)?;
        Ok(opened)
    }

    /// Where a directory really is, every link on the way worked out. A person must see the real
    /// path: a link named `docs` may lead to `.git/hooks`.
    pub fn real_directory(&self, place: &Place) -> Result<Place, WorkspaceError> {
        let fd = self.open_directory(place)?;
        self.name_of(&fd, place)
    }

    /// The real place of a file that is to be written, which need not exist yet.
    pub fn real_file(&self, place: &Place) -> Result<Place, WorkspaceError> {
        let Some((parent, name)) = place.split() else {
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
        // A dangling link also looks missing; it must not be written through later.
        if missing.last().is_some_and(|name| beneath::is_symlink(fd.as_fd(), name)) {
            return Err(self.explain(Errno::LOOP, place));
        }
        let real = self.name_of(&fd, &ancestor)?;
        let real = missing.iter().rev().fold(real, |place, name| place.child(name));
        self.admit_name(&real)?;
        Ok(real)
    }

    fn name_of(&self, fd: &OwnedFd, place: &Place) -> Result<Place, WorkspaceError> {
        if self.resolver == Resolver::Stepwise {
            return Ok(place.clone());
        }
        let (Some(root), Some(path)) = (path_of(&self.root), path_of(fd)) else {
            // Without /proc the real name is unknown; a place free of links is its own real name.
            self.open_real_directory(place)?;
            return Ok(place.clone());
        };
        place::locate(&path, &[Path::new(&root)])
    }

    /// The sentence for an errno that opening a place gave.
    fn explain(&self, errno: Errno, place: &Place) -> WorkspaceError {
        let (kind, message) = match errno {
            Errno::XDEV => {
                (Kind::OutsideWorkspace, format!("`{place}` leads outside the workspace"))
            }
            Errno::LOOP => (
                Kind::Symlink,
                format!(
                    "`{place}` is or passes through a symbolic link: name the file it stands for"
                ),
            ),
            Errno::NOENT => (Kind::NotFound, format!("there is no `{place}` in the workspace")),
            Errno::NOTDIR => {
                (Kind::NotADirectory, format!("`{place}`, or a part of it, is not a directory"))
            }
            Errno::ISDIR => (Kind::NotAFile, format!("`{place}` is a directory, not a file")),
            Errno::NXIO | Errno::NODEV => {
                (Kind::NotAFile, format!("`{place}` is a socket or a device, not a file"))
            }
            Errno::NAMETOOLONG => (Kind::InvalidPath, format!("the name `{place}` is too long")),
            Errno::ACCESS | Errno::PERM => {
                (Kind::Denied, format!("the system does not allow to open `{place}`"))
            }
            Errno::ROFS => (Kind::ReadOnly, format!("`{place}` is on a read-only file system")),
            other => (Kind::Io, format!("can not open `{place}`: {}", std::io::Error::from(other))),
        };
        WorkspaceError::new(kind, message)
    }
}

/// The path a descriptor leads to right now, as the kernel knows it.
fn path_of(fd: &OwnedFd) -> Option<String> {
    use std::os::fd::AsRawFd;
    let link = readlinkat(CWD, format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()).ok()?;
    link.into_string().ok()
}

/// Anything but a regular file could block for ever, never end, or do something when read.
fn regular(fd: &OwnedFd, place: &Place) -> Result<Stat, WorkspaceError> {
    let stat = fstat(fd).map_err(|errno| io_error(errno, place))?;
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            if fstatfs(fd).is_ok_and(|system| system.f_type == PROC) {
                "a window into the kernel"
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
        format!("`{place}` is {what}, not a regular file: only regular files are read or written"),
    ))
}

fn io_error(error: impl Into<std::io::Error>, place: &Place) -> WorkspaceError {
    WorkspaceError::new(Kind::Io, format!("`{place}`: {}", error.into()))
}

impl OpenFile {
    /// The whole content, unless it is more than `limit` bytes. The size is not believed: a file
    /// may grow while it is read.
    pub fn read_whole(&mut self, place: &Place, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        let too_large = |size: u64| {
            let message = format!("`{place}` has {size} bytes, at most {limit} are handled here");
            WorkspaceError::new(Kind::TooLarge, message)
        };
        if self.size > limit {
            return Err(too_large(self.size));
        }
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| io_error(error, place))?;
        if bytes.len() as u64 > limit { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
    }
}

#[cfg(test)]
#[path = "workspace/tests.rs"]
mod tests;
