//! One use of one tool: its details, its state and its outcome.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::Part;

/// What a call can change. The policy decides by this, never by the name of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads the workspace, changes nothing.
    Read,
    /// Changes the session only: a plan, an artifact.
    Session,
    /// Changes files in the workspace.
    Edit,
    /// Runs a program.
    Execute,
    /// Asks a person a question.
    Ask,
    /// Anything else, such as a tool of an MCP server.
    Other,
}

impl Access {
    /// Whether a call of this kind can change something outside the session.
    pub fn changes(self) -> bool {
        match self {
            Access::Edit | Access::Execute | Access::Other => true,
            Access::Read | Access::Session | Access::Ask => false,
        }
    }
}

/// The preview that a person sees before deciding: a pure function of the call's input. The tool runs
/// exactly these details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Details {
    Execute {
        command: String,
        directory: String,
    },
    Edit(FileDiff),
    Mcp {
        server: String,
        tool: String,
    },
    Question {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
    },
    Generic {
        text: String,
    },
}

/// A file before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Relative to the workspace, with `/`.
    pub path: String,
    pub absolute_path: String,
    /// None: the file does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    pub new: String,
    /// Unified diff, for people.
    pub unified: String,
    /// SHA-256 of the old bytes, empty for a new file: the version that the person saw. Not the hash of
    /// `old`, which is decoded text: the bytes include a byte-order mark and CRLF.
    #[serde(default)]
    pub old_digest: String,
    /// An edit of such a file always needs a person (`.git/hooks`, CI files, …).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
}

impl FileDiff {
    /// Whether the file already has the new content.
    pub fn changes_nothing(&self) -> bool {
        self.old.as_deref() == Some(self.new.as_str())
    }

    /// The change from `old` to `new`, with its unified diff.
    pub fn between(path: &str, absolute_path: &str, old: Option<&str>, new: &str) -> Self {
        Self {
            path: path.to_owned(),
            absolute_path: absolute_path.to_owned(),
            old: old.map(str::to_owned),
            new: new.to_owned(),
            unified: unified(path, old, new),
            old_digest: String::new(),
            protected: crate::protected::protects_file(path, absolute_path),
        }
    }

    /// The same file, the same pinned version, another new content.
    #[must_use]
    pub fn with_new(&self, new: &str) -> Self {
        Self {
            new: new.to_owned(),
            unified: unified(&self.path, self.old.as_deref(), new),
            ..self.clone()
        }
    }
}

/// Up to this many changed lines, the shortest diff is computed. Its cost is quadratic.
const MAX_FINE_DIFF_LINES: usize = 4000;

fn unified(path: &str, old: Option<&str>, new: &str) -> String {
    let from = if old.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let to = format!("b/{path}");
    let old = old.unwrap_or_default();
    let (before, after): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let prefix = before.iter().zip(&after).take_while(same).count();
    let suffix = before.iter().rev().zip(after.iter().rev()).take_while(same).count();
    let suffix = suffix.min(before.len().min(after.len()) - prefix);
    if before.len() + after.len() - 2 * (prefix + suffix) > MAX_FINE_DIFF_LINES {
        return coarse_diff(&from, &to, &before, &after, prefix, suffix);
    }
    similar::TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .header(&from, &to)
        .to_string()
}

/// One hunk from the first to the last change: correct, and linear in time.
fn coarse_diff(
    from: &str,
    to: &str,
    before: &[&str],
    after: &[&str],
    prefix: usize,
    suffix: usize,
) -> String {
    use std::fmt::Write;
    let (start, end) = (prefix.saturating_sub(3), suffix.saturating_sub(3));
    let (old_end, new_end) = (before.len() - end, after.len() - end);
    let mut text = format!(
        "--- {from}\n+++ {to}\n@@ -{},{} +{},{} @@\n",
        start + 1,
        old_end - start,
        start + 1,
        new_end - start
    );
    let mut lines = |sign: char, lines: &[&str]| {
        for line in lines {
            let _ = write!(text, "{sign}{line}");
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    lines(' ', before.get(start..prefix).unwrap_or_default());
    lines('-', before.get(prefix..before.len() - suffix).unwrap_or_default());
    lines('+', after.get(prefix..after.len() - suffix).unwrap_or_default());
    lines(' ', before.get(before.len() - suffix..old_end).unwrap_or_default());
    text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    Proposed,
    Asked,
    Started,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CallOutcome {
    Succeeded { output: Output },
    Failed { failure: CallFailure },
    Cancelled { reason: String },
}

/// The result of a call. The model reads the text.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Output {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<FileDiff>,
    #[serde(
        default,
        deserialize_with = "crate::content::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
}

impl Output {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A named result. Chunks of one artifact share its id; `append` adds to the earlier chunks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    pub id: String,
    pub name: String,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// Why a call failed: a sentence for people and a stable kind for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    pub kind: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
}

impl CallFailure {
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into(), code: None }
    }

    /// A crash interrupted the call. It never runs again.
    pub fn interrupted() -> Self {
        Self::new("interrupted", "interrupted: Loggia stopped while this call was running")
    }
}

impl CallOutcome {
    /// One line for people and for the model.
    pub fn summary(&self) -> &str {
        match self {
            CallOutcome::Succeeded { output } => &output.text,
            CallOutcome::Failed { failure } => &failure.message,
            CallOutcome::Cancelled { reason } => reason,
        }
    }
}
