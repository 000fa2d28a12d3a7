//! The repository around a workspace: the directories from its root down to the workspace, for memory files
//! and for the name of the branch. Opened like a workspace, so no link leads out of it.
//!
//! Must not be given to tools: they see the workspace alone.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Stat, statat};

use crate::workspace::{ReservedDirs, Workspace, WorkspaceError, WorkspacePath};

const GIT: &str = ".git";
/// Bytes of a small file in `.git`.
const GIT_FILE: u64 = 4096;

/// How far from the workspace files may be read.
pub struct TreeLimits<'a> {
    /// Nothing above this directory is read.
    pub home: Option<&'a Path>,
    /// False if the session may learn nothing from outside its workspace.
    pub above_workspace: bool,
    pub reserved: &'a ReservedDirs,
}

pub struct RepositoryTree {
    root: Arc<Workspace>,
    /// The workspace, relative to the root.
    workspace: WorkspacePath,
}

impl RepositoryTree {
    /// The repository that the workspace is in; the workspace alone if there is none. Blocks.
    pub fn around(workspace: &Arc<Workspace>, limits: &TreeLimits<'_>) -> Self {
        let alone = || Self { root: workspace.clone(), workspace: WorkspacePath::root() };
        let Some(root) = find_root(workspace.path(), limits) else { return alone() };
        let Ok(opened) = Workspace::open_without(root, limits.reserved) else { return alone() };
        let below = opened.locate(&workspace.path().to_string_lossy());
        below.map_or_else(|_| alone(), |below| Self { root: Arc::new(opened), workspace: below })
    }

    /// All paths of the tree are relative to this directory.
    pub fn root(&self) -> &Workspace {
        &self.root
    }

    /// The directories from the root down to the workspace.
    pub fn directories(&self) -> Vec<WorkspacePath> {
        down_to(&self.workspace)
    }

    /// The directories on the way to a path of the workspace, and the path itself, below the workspace.
    pub fn below_workspace(&self, path: &WorkspacePath) -> Vec<WorkspacePath> {
        let whole = path.components().fold(self.workspace.clone(), |at, name| at.child(name));
        let above = self.workspace.components().count() + 1;
        down_to(&whole).into_iter().skip(above).collect()
    }

    /// A path as seen from the workspace: `src/AGENTS.md`, `../AGENTS.md`.
    pub fn display(&self, path: &WorkspacePath) -> String {
        let (from, to): (Vec<&str>, Vec<&str>) =
            (self.workspace.components().collect(), path.components().collect());
        let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let up = from.iter().skip(shared).map(|_| "..");
        let names: Vec<&str> = up.chain(to.iter().skip(shared).copied()).collect();
        names.join("/")
    }

    /// The branch, or the commit if no branch is checked out. None without a git directory in the tree.
    pub fn branch(&self) -> Option<String> {
        let head = self.root.locate(".git/HEAD").ok()?;
        let text = match self.read(&head, GIT_FILE) {
            Ok(bytes) => String::from_utf8(bytes).ok()?,
            Err(_) => self.linked_head()?,
        };
        branch_of(&text)
    }

    /// `HEAD` of a worktree, whose `.git` is a file with the path of the git directory.
    fn linked_head(&self) -> Option<String> {
        let link =
            String::from_utf8(self.read(&self.root.locate(GIT).ok()?, GIT_FILE).ok()?).ok()?;
        let directory = self.root.path().join(link.strip_prefix("gitdir:")?.trim());
        // The directory must name this one in return, so that a file cannot make others readable.
        let back = small_file(&directory.join("gitdir"))?;
        let same = Path::new(back.trim()).canonicalize().ok()? == self.root.path().join(GIT);
        if same { small_file(&directory.join("HEAD")) } else { None }
    }

    pub fn read(&self, path: &WorkspacePath, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        self.root.open_file(path)?.read_whole(path, limit)
    }
}

/// The nearest directory with a `.git`, from the workspace up.
fn find_root<'a>(workspace: &'a Path, limits: &TreeLimits<'_>) -> Option<&'a Path> {
    if !limits.above_workspace {
        return None;
    }
    let home = limits.home.and_then(|home| home.canonicalize().ok());
    for directory in workspace.ancestors() {
        let git = statat(CWD, directory.join(GIT), AtFlags::SYMLINK_NOFOLLOW);
        if let Ok(git) = git {
            return is_trusted(&git, directory, workspace).then_some(directory);
        }
        if home.as_deref() == Some(directory) {
            return None;
        }
    }
    None
}

/// Whether the repository belongs to this user or to the workspace's owner. Another user may create
/// `/tmp/.git`, which would make `/tmp/AGENTS.md` a memory file.
fn is_trusted(git: &Stat, directory: &Path, workspace: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let owner = |path: &Path| statat(CWD, path, AtFlags::empty()).map(|stat| stat.st_uid).ok();
    let trusted = |uid: u32| uid == user || owner(workspace) == Some(uid);
    trusted(git.st_uid) && owner(directory).is_some_and(trusted)
}

/// The directories on the way from the root to a path, both included.
fn down_to(path: &WorkspacePath) -> Vec<WorkspacePath> {
    let mut directories = vec![WorkspacePath::root()];
    for name in path.components() {
        let next = directories.last().map(|last| last.child(name));
        directories.extend(next);
    }
    directories
}

/// The start of a regular file.
fn small_file(path: &Path) -> Option<String> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(GIT_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn branch_of(head: &str) -> Option<String> {
    let head = head.trim();
    let name = match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => branch.to_owned(),
        None if head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            let commit: String = head.chars().take(12).collect();
            format!("no branch, commit {commit}")
        }
        None => return None,
    };
    Some(crate::workspace::shown(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_names_a_branch_or_a_commit() {
        let cases = [
            ("ref: refs/heads/fix/a b\n", Some("fix/a b")),
            ("ref: refs/heads/a\u{1b}[0m", Some("a\\u{1b}[0m")),
            ("0123456789abcdef0123456789abcdef01234567\n", Some("no branch, commit 0123456789ab")),
            ("secret=1\n", None),
            ("", None),
        ];
        for (head, expected) in cases {
            assert_eq!(branch_of(head).as_deref(), expected, "{head}");
        }
    }
}
