//! Errors of paths and of the workspace itself: a stable kind and a message.

/// Code matches on the kind; people and models read the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WorkspaceError {
    pub kind: WorkspaceErrorKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceErrorKind {
    InvalidPath,
    OutsideWorkspace,
    WorkspaceGone,
    NotFound,
    Symlink,
    NotAFile,
    NotADirectory,
    NotText,
    TooLarge,
    ReadOnly,
    Denied,
    ChangedSinceApproval,
    /// An I/O error, such as a full disk.
    Io,
}

impl WorkspaceErrorKind {
    /// The stable name that programs see.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidPath => "invalid_path",
            Self::OutsideWorkspace => "outside_workspace",
            Self::WorkspaceGone => "workspace_gone",
            Self::NotFound => "not_found",
            Self::Symlink => "symlink",
            Self::NotAFile => "not_a_file",
            Self::NotADirectory => "not_a_directory",
            Self::NotText => "not_text",
            Self::TooLarge => "too_large",
            Self::ReadOnly => "read_only",
            Self::Denied => "denied",
            Self::ChangedSinceApproval => "changed_since_approval",
            Self::Io => "io",
        }
    }
}

impl WorkspaceError {
    pub fn new(kind: WorkspaceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// Untrusted text for a message: control characters escaped, cut after 200 characters.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut out = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == LONGEST {
            out.push('…');
            break;
        }
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}
