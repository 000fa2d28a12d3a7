//! `replace`: exchanges an exact text in a file. What is not replaced stays as it is, byte for byte,
//! with its byte-order mark and its line ends.

mod replacement;

use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Access, Details, FileDiff, Output};
use loggia_session::Permit;
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind, invalid};
use super::write::{diff, run_edit};
use super::{Preview, Tool, ToolError, ToolSpec, blocking};
use crate::workspace::{Workspace, shown};
pub use replacement::{ReplaceError, apply_replace};

const FIELDS: &[Field] = &[
    Field::required("path", Kind::Text, "The file, relative to the workspace."),
    Field::required(
        "old_string",
        Kind::Text,
        "The exact text to replace, with enough around it to be unique.",
    ),
    Field::required("new_string", Kind::Text, "The text to put there."),
    Field::optional(
        "expected_replacements",
        Kind::Count,
        "How often old_string occurs; all of them are replaced. 1 unless told.",
    ),
];

#[derive(Deserialize)]
struct Input {
    path: String,
    old_string: String,
    new_string: String,
    expected_replacements: Option<usize>,
}

pub(super) struct Replace;

impl Tool for Replace {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "replace".into(),
            description: "Replaces an exact text in a file. Fails unless the text occurs exactly \
                          as often as expected."
                .into(),
            parameters: input::schema(FIELDS),
            access: Access::Edit,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let input: Input = input::read(FIELDS, input)?;
            let workspace = Arc::clone(workspace);
            let diff = blocking(move || {
                let expected = input.expected_replacements.unwrap_or(1);
                propose(&workspace, &input.path, &input.old_string, &input.new_string, expected)
            });
            let diff = diff.await?;
            Ok(Preview {
                title: format!("edit {}", shown(&diff.path)),
                details: Details::Edit(diff),
            })
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(run_edit(permit, workspace))
    }
}

/// The change that the replacement would be.
pub fn propose(
    workspace: &Workspace,
    path: &str,
    old_string: &str,
    new_string: &str,
    expected: usize,
) -> Result<FileDiff, ToolError> {
    let place = workspace.real_file(&workspace.locate(path)?)?;
    let Some(old) = workspace.version(&place)? else {
        let message = format!("there is no `{place}` in the workspace: create it with write_file");
        return Err(ToolError::new("not_found", message));
    };
    diff(workspace, &place, Some(old), |text| {
        let text = text.unwrap_or_default();
        apply_replace(text, old_string, new_string, expected).map_err(|error| match error {
            ReplaceError::Empty | ReplaceError::NoneExpected => invalid(error.to_string()),
            ReplaceError::TooLarge { .. } => ToolError::new("too_large", error.to_string()),
            ReplaceError::Same => ToolError::new("no_change", error.to_string()),
            ReplaceError::Count { .. } => {
                ToolError::new("match_count", format!("in `{place}` {error}"))
            }
        })
    })
}
