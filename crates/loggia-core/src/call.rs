//! One use of one tool: what it is about, what state it is in, how it ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::Part;

/// What a call touches. Policy decides by this, never by a tool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Looks at the workspace, changes nothing.
    Read,
    /// Changes the session only: a plan, an artifact.
    Session,
    /// Changes files in the workspace.
    Edit,
    /// Runs a program.
    Execute,
    /// Needs a person's words.
    Ask,
    /// Anything else, such as a tool of somebody else's server.
    Other,
}

impl Access {
    /// Whether a call of this kind may change something outside of the session.
    pub fn changes(self) -> bool {
        match self {
            Access::Edit | Access::Execute | Access::Other => true,
            Access::Read | Access::Session | Access::Ask => false,
        }
    }
}

/// What a person is shown before deciding: a pure function of the call's input, made before anyone
/// is asked. What runs is exactly this.
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
    /// Pins the version that was shown: SHA-256 of the old bytes, empty for a new file. Not the
    /// hash of `old`, which is text: a byte-order mark or CRLF counts.
    #[serde(default)]
    pub old_digest: String,
    /// Policy never lets an edit of such a file pass without a person (`.git/hooks`, CI files, …).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
}

impl FileDiff {
    /// The file has the new content already.
    pub fn changes_nothing(&self) -> bool {
        self.old.as_deref() == Some(self.new.as_str())
    }

    /// The change from `old` to `new`, with the unified form people read.
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

/// Changed lines up to which the shortest diff is looked for; finding it costs their product.
const FINE_DIFF: usize = 4000;

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
    if before.len() + after.len() - 2 * (prefix + suffix) > FINE_DIFF {
        return coarse(&from, &to, &before, &after, prefix, suffix);
    }
    similar::TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .header(&from, &to)
        .to_string()
}

/// One hunk for everything between the first and the last change: right, in linear time.
fn coarse(
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

/// What a call gave back. Text is what the model reads.
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

/// A named result. Chunks of one artifact share its id; `append` adds to what came before.
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

/// Why a call failed: a sentence for people and a stable word for programs.
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

    /// A crash cut the call; it is never run again.
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
