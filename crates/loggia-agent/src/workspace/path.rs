//! A path inside the workspace, checked lexically.
//!
//! Must not access the disk. The kernel checks that the path really stays inside, on the descriptor
//! that is then used.

use std::path::{Component, Path};

use super::error::{WorkspaceError, WorkspaceErrorKind, shown};

/// Relative, `/` between components, no `.`, no `..`. Empty means the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

impl WorkspacePath {
    pub fn root() -> Self {
        Self(String::new())
    }

    /// The workspace itself is `.`.
    pub fn as_str(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The directory and the last name; None for the workspace itself.
    pub fn split(&self) -> Option<(WorkspacePath, &str)> {
        match self.0.rsplit_once('/') {
            Some((parent, name)) => Some((WorkspacePath(parent.to_owned()), name)),
            None if self.0.is_empty() => None,
            None => Some((WorkspacePath::root(), &self.0)),
        }
    }

    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }
}

impl std::fmt::Display for WorkspacePath {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&shown(self.as_str()))
    }
}

/// Parses a path that a tool was given. `roots` are the absolute paths of the workspace.
pub(super) fn locate(text: &str, roots: &[&Path]) -> Result<WorkspacePath, WorkspaceError> {
    check_syntax(text)?;
    // The message omits the workspace's path: people on other machines may read it.
    let outside = || {
        WorkspaceError::new(
            WorkspaceErrorKind::OutsideWorkspace,
            format!("`{}` is outside the workspace: name a path inside it", shown(text)),
        )
    };
    let given = Path::new(text);
    let parts = normal(given).ok_or_else(outside)?;
    if !given.is_absolute() {
        return Ok(WorkspacePath(parts.join("/")));
    }
    // Whole components are compared: `/w/app-secret` does not start with `/w/app`.
    for root in roots {
        let root: Vec<&str> = normal(root).ok_or_else(outside)?;
        if let Some(rest) = parts.strip_prefix(root.as_slice()) {
            return Ok(WorkspacePath(rest.join("/")));
        }
    }
    Err(outside())
}

/// Rejects paths that cannot name a file in the workspace.
fn check_syntax(text: &str) -> Result<(), WorkspaceError> {
    let invalid = |why: String| Err(WorkspaceError::new(WorkspaceErrorKind::InvalidPath, why));
    if text.is_empty() {
        return invalid("the path is empty: name a file or directory in the workspace".into());
    }
    if text.contains('\0') {
        return invalid(format!(
            "`{}` contains a NUL character: no file has such a name",
            shown(text)
        ));
    }
    if text.len() > 4096 {
        return invalid(format!("the path has {} bytes; the limit is 4096", text.len()));
    }
    if text.contains("://") || text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("file:"))
    {
        return invalid(format!("`{}` is an address: give a path instead", shown(text)));
    }
    if text == "~" || text.starts_with("~/") {
        return invalid(format!(
            "`{}`: `~` is not expanded, give a path in the workspace",
            shown(text)
        ));
    }
    Ok(())
}

/// The components with `.` and `..` resolved; None if `..` leads above the start.
fn normal(path: &Path) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(parts)
}
