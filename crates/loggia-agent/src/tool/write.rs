//! `write_file`, and the code that all tools that change files share. The diff that is shown and the
//! diff that is applied are the same value.

use std::sync::Arc;

use loggia_core::{Access, Details, FileDiff, Output};

use super::input::input;
use super::text::counted;
use super::typed::{Call, TypedTool};
use super::{Preview, ToolError, ToolResult, blocking};
use crate::workspace::{EDIT_LIMIT, Version, Workspace, WorkspacePath, shown};

input! {
    pub(super) struct Input {
        /// The file, relative to the workspace.
        path: String,
        /// The complete new content.
        content: String,
    }
}

pub(super) struct WriteFile;

impl TypedTool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str =
        "Writes a complete text file, new or existing. Missing directories are created.";
    const ACCESS: Access = Access::Edit;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        let diff = blocking(workspace, move |workspace| {
            propose_write(workspace, &input.path, &input.content)
        });
        Ok(preview_edit("write", diff.await?))
    }

    async fn run(&self, _: Input, call: Call<'_>) -> ToolResult<Output> {
        run_edit(call).await
    }
}

pub(super) fn preview_edit(verb: &str, diff: FileDiff) -> Preview {
    Preview::new(format!("{verb} {}", shown(&diff.path)), Details::Edit(diff))
}

/// The change that would write `content`.
pub fn propose_write(workspace: &Workspace, path: &str, content: &str) -> ToolResult<FileDiff> {
    let path = workspace.real_file(&workspace.locate(path)?)?;
    let old = workspace.version(&path)?;
    diff(workspace, &path, old, |_| Ok(content.to_owned()))
}

/// The diff from the current version to the result of `change`.
pub(super) fn diff(
    workspace: &Workspace,
    path: &WorkspacePath,
    old: Option<Version>,
    change: impl FnOnce(Option<&str>) -> ToolResult<String>,
) -> ToolResult<FileDiff> {
    let old_digest = old.as_ref().map(|version| version.digest.clone()).unwrap_or_default();
    let old_text = match old {
        Some(version) => Some(String::from_utf8(version.bytes).map_err(|_| not_text(path))?),
        None => None,
    };
    if old_text.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(not_text(path));
    }
    let new = change(old_text.as_deref())?;
    if new.len() as u64 > EDIT_LIMIT {
        let message = format!("`{path}` would have {} bytes; the limit is {EDIT_LIMIT}", new.len());
        return Err(ToolError::new("too_large", message));
    }
    let absolute = workspace.absolute(path);
    let shown = FileDiff::between(path.as_str(), &absolute, old_text.as_deref(), &new);
    Ok(FileDiff { old_digest, ..shown })
}

fn not_text(path: &WorkspacePath) -> ToolError {
    let message =
        format!("`{path}` is not UTF-8 text, so a diff of it cannot be shown: use a shell command");
    ToolError::new("not_text", message)
}

/// Applies the permit's diff. A person may have edited it before approving it.
pub(super) async fn run_edit(call: Call<'_>) -> ToolResult<Output> {
    let Details::Edit(diff) = call.permit.details() else { return Err(ToolError::wrong_permit()) };
    let diff = diff.clone();
    blocking(call.workspace, move |workspace| apply(workspace, diff)).await
}

/// Writes the diff's new content if the file still has its old content.
pub fn apply(workspace: &Workspace, diff: FileDiff) -> ToolResult<Output> {
    let path = workspace.locate(&diff.path)?;
    if diff.changes_nothing() {
        workspace.is_still(&path, &diff.old_digest)?;
        return Ok(Output::text(format!("{path} already has this content: nothing to change")));
    }
    workspace.replace(&path, &diff.old_digest, diff.new.as_bytes())?;
    let lines = counted(diff.new.lines().count(), "line");
    let bytes = counted(diff.new.len(), "byte");
    Ok(Output { diff: Some(diff), ..Output::text(format!("wrote {path} ({lines}, {bytes})")) })
}
