//! `replace`: exchanges an exact text in a file. The rest of the file stays the same byte for byte,
//! including its byte-order mark and its line endings.

mod replacement;

use std::sync::Arc;

use loggia_core::{Access, FileDiff, Output};

use super::input::{input, invalid};
use super::typed::{Call, TypedTool};
use super::write::{diff, preview_edit, run_edit};
use super::{Preview, ToolError, ToolResult, blocking};
use crate::workspace::Workspace;
pub use replacement::{ReplaceError, apply_replace};

input! {
    pub(super) struct Input {
        /// The file, relative to the workspace.
        path: String,
        /// The exact text to replace, with enough context to be unique.
        old_string: String,
        /// The text to put there.
        new_string: String,
        /// How often old_string occurs; every occurrence is replaced. Default: 1.
        expected_replacements: Option<u64>,
    }
}

pub(super) struct Replace;

impl TypedTool for Replace {
    const NAME: &'static str = "replace";
    const DESCRIPTION: &'static str = "Replaces an exact text in a file. Fails unless the text \
                                       occurs exactly as often as expected.";
    const ACCESS: Access = Access::Edit;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        let diff = blocking(workspace, move |workspace| propose(workspace, &input));
        Ok(preview_edit("edit", diff.await?))
    }

    async fn run(&self, _: Input, call: Call<'_>) -> ToolResult<Output> {
        run_edit(call).await
    }
}

/// The change that would make the replacement.
fn propose(workspace: &Workspace, input: &Input) -> ToolResult<FileDiff> {
    let expected = usize::try_from(input.expected_replacements.unwrap_or(1)).unwrap_or(usize::MAX);
    let path = workspace.real_file(&workspace.locate(&input.path)?)?;
    let Some(old) = workspace.version(&path)? else {
        let message = format!("there is no `{path}` in the workspace: create it with write_file");
        return Err(ToolError::new("not_found", message));
    };
    diff(workspace, &path, Some(old), |text| {
        let text = text.unwrap_or_default();
        let new = apply_replace(text, &input.old_string, &input.new_string, expected);
        new.map_err(|error| match error {
            ReplaceError::Empty | ReplaceError::NoneExpected => invalid(error.to_string()),
            ReplaceError::TooLarge { .. } => ToolError::new("too_large", error.to_string()),
            ReplaceError::Same => ToolError::new("no_change", error.to_string()),
            ReplaceError::Count { .. } => {
                ToolError::new("match_count", format!("in `{path}` {error}"))
            }
        })
    })
}
