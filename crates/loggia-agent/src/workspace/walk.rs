//! Walks the workspace: sorted, bounded, by descriptors, never through a symbolic link.
//!
//! Each directory is opened by name in its parent's descriptor, so a directory that becomes a link
//! during the walk is skipped. The `ignore` crate's walker does not do that; only its rules are used.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use tokio_util::sync::CancellationToken;

use super::{ReservedDirs, Workspace, WorkspaceError, WorkspacePath};

/// Deeper directories are counted but not entered, because each level holds a descriptor open.
const DEEPEST: usize = 100;
/// Bytes of an ignore file that are read.
const IGNORE_FILE: u64 = 256 * 1024;

pub struct WalkLimits {
    pub entries: usize,
    pub deadline: Instant,
    pub stop: CancellationToken,
}

/// One file or link. Directories are entered and not passed to the visitor.
pub struct Entry<'a> {
    /// Relative to the start of the walk.
    pub path: &'a Path,
    pub kind: FileType,
    directory: BorrowedFd<'a>,
    name: &'a CStr,
    reserved: &'a ReservedDirs,
}

impl Entry<'_> {
    /// The file itself, if it is still a regular file.
    pub fn open(&self) -> Option<File> {
        open_regular(self.directory, self.name).filter(|file| !self.reserved.is_reserved_file(file))
    }
}

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkEnd {
    Complete,
    /// The visitor stopped the walk.
    ByVisitor,
    Entries,
    Time,
    Stopped,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Walked {
    pub end: WalkEnd,
    /// Directories that were not entered: not allowed, or too deep.
    pub skipped: usize,
}

impl Workspace {
    /// Visits every file below `start` that no ignore file excludes. `.git` is never entered.
    pub fn walk(
        &self,
        start: &WorkspacePath,
        limits: &WalkLimits,
        visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<Walked, WorkspaceError> {
        let first = self.open_directory(start)?;
        // Links are followed on the way to the start, but not below it.
        let real = match self.reserved.is_empty() {
            true => PathBuf::new(),
            false => self.path.join(self.name_of(&first, start)?.as_str()),
        };
        let (reserved, ignores) = (&self.reserved, Ignores::default());
        let mut walk = Walk { limits, visit, seen: 0, skipped: 0, ignores, reserved, real };
        // Ignore rules of the directories above the start also apply.
        let mut above = WorkspacePath::root();
        for name in start.components() {
            if let Ok(fd) = self.open_directory(&above) {
                walk.ignores.push(fd.as_fd(), PathBuf::from(above.as_str()));
            }
            above = above.child(name);
        }
        let from = PathBuf::from(start.as_str());
        let end = match walk.directory(first, &from, Path::new(""), 0) {
            ControlFlow::Break(end) => end,
            ControlFlow::Continue(()) => WalkEnd::Complete,
        };
        Ok(Walked { end, skipped: walk.skipped })
    }

    /// Whether an ignore file excludes this file, or a directory above it.
    pub fn excludes(&self, file: &WorkspacePath) -> bool {
        let mut ignores = Ignores::default();
        let mut above = WorkspacePath::root();
        let names: Vec<&str> = file.components().collect();
        for (index, name) in names.iter().enumerate() {
            if let Ok(fd) = self.open_directory(&above) {
                ignores.push(fd.as_fd(), PathBuf::from(above.as_str()));
            }
            above = above.child(name);
            let is_directory = index + 1 < names.len();
            if *name == ".git" || ignores.exclude(Path::new(above.as_str()), is_directory) {
                return true;
            }
        }
        false
    }
}

struct Walk<'a> {
    limits: &'a WalkLimits,
    visit: &'a mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    seen: usize,
    skipped: usize,
    ignores: Ignores,
    reserved: &'a ReservedDirs,
    /// The real path of the start, if there are reserved directories.
    real: PathBuf,
}

/// Rules from the workspace down. The last matching rule applies.
#[derive(Default)]
struct Ignores(Vec<(PathBuf, Gitignore)>);

impl Walk<'_> {
    fn directory(
        &mut self,
        fd: OwnedFd,
        start: &Path,
        path: &Path,
        depth: usize,
    ) -> ControlFlow<WalkEnd> {
        let here = start.join(path);
        let outer = self.ignores.0.len();
        self.ignores.push(fd.as_fd(), here.clone());
        for (name, kind) in self.entries(fd.as_fd())? {
            let name_path = OsStr::from_bytes(name.to_bytes());
            if self.ignores.exclude(&here.join(name_path), kind == FileType::Directory) {
                continue;
            }
            let path = path.join(name_path);
            if self.reserved.contains(&self.real.join(&path)) {
                self.skipped += usize::from(kind == FileType::Directory);
                continue;
            }
            if kind != FileType::Directory {
                let (directory, reserved) = (fd.as_fd(), self.reserved);
                let entry = Entry { path: &path, kind, directory, name: &name, reserved };
                if (self.visit)(&entry).is_break() {
                    return ControlFlow::Break(WalkEnd::ByVisitor);
                }
                self.spend(0)?;
            } else if name.to_bytes() != b".git" {
                match open_directory(fd.as_fd(), &name).filter(|_| depth < DEEPEST) {
                    Some(child) => self.directory(child, start, &path, depth + 1)?,
                    None => self.skipped += 1,
                }
            }
        }
        self.ignores.0.truncate(outer);
        ControlFlow::Continue(())
    }

    /// Sorted by name, so that the result does not depend on the file system's order.
    fn entries(&mut self, fd: BorrowedFd<'_>) -> ControlFlow<WalkEnd, Vec<(CString, FileType)>> {
        let mut entries = Vec::new();
        if let Ok(directory) = Dir::read_from(fd) {
            for entry in directory.map_while(Result::ok) {
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                self.spend(1)?;
                entries.push((name.to_owned(), kind_of(fd, name, entry.file_type())));
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        ControlFlow::Continue(entries)
    }

    fn spend(&mut self, entries: usize) -> ControlFlow<WalkEnd> {
        self.seen += entries;
        if self.seen > self.limits.entries {
            return ControlFlow::Break(WalkEnd::Entries);
        }
        if self.limits.stop.is_cancelled() {
            return ControlFlow::Break(WalkEnd::Stopped);
        }
        if Instant::now() > self.limits.deadline {
            return ControlFlow::Break(WalkEnd::Time);
        }
        ControlFlow::Continue(())
    }
}

impl Ignores {
    fn push(&mut self, fd: BorrowedFd<'_>, directory: PathBuf) {
        // Later files override earlier ones, as in ripgrep.
        let exclude = || {
            let git = open_directory(fd, c".git")?;
            let inner = open_directory(git.as_fd(), c"info")?;
            open_regular(inner.as_fd(), c"exclude")
        };
        let files = [exclude(), open_regular(fd, c".gitignore"), open_regular(fd, c".ignore")];
        for file in files.into_iter().flatten() {
            let mut text = String::new();
            if file.take(IGNORE_FILE).read_to_string(&mut text).is_err() {
                continue;
            }
            let mut builder = GitignoreBuilder::new(".");
            for line in text.lines() {
                // A line that is not a valid pattern is ignored.
                let _ = builder.add_line(None, line);
            }
            if let Ok(rules) = builder.build() {
                self.0.push((directory.clone(), rules));
            }
        }
    }

    fn exclude(&self, path: &Path, is_directory: bool) -> bool {
        for (directory, rules) in self.0.iter().rev() {
            let relative = path.strip_prefix(directory).unwrap_or(path);
            match rules.matched(relative, is_directory) {
                ignore::Match::None => {}
                ignore::Match::Ignore(_) => return true,
                ignore::Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

/// Some file systems do not report the kind of a directory entry.
fn kind_of(fd: BorrowedFd<'_>, name: &CStr, kind: FileType) -> FileType {
    if kind != FileType::Unknown {
        return kind;
    }
    statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn open_directory(fd: BorrowedFd<'_>, name: &CStr) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(fd, name, flags, Mode::empty()).ok()
}

fn open_regular(fd: BorrowedFd<'_>, name: &CStr) -> Option<File> {
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(fd, name, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| File::from(file))
}
