//! `write_file`, and what every change of a file shares: the diff that is shown and the diff that
//! is applied are the same value.

use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{Access, Details, FileDiff, Output};
use loggia_session::Permit;
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind};
use super::text::counted;
use super::{Preview, Tool, ToolError, ToolSpec, blocking};
use crate::workspace::{EDIT_LIMIT, Place, Version, Workspace, shown};

const FIELDS: &[Field] = &[
    Field::required("path", Kind::Text, "The file, relative to the workspace."),
    Field::required("content", Kind::Text, "The whole new content."),
];

#[derive(Deserialize)]
struct Input {
    path: String,
    content: String,
}

pub(super) struct WriteFile;

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".into(),
            description: "Writes a whole text file, new or existing. Missing directories are made."
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
            let diff = blocking(move || propose_write(&workspace, &input.path, &input.content));
            let diff = diff.await?;
            Ok(Preview {
                title: format!("write {}", shown(&diff.path)),
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

/// The change that writing `content` would be.
pub fn propose_write(
    workspace: &Workspace,
    path: &str,
    content: &str,
) -> Result<FileDiff, ToolError> {
    let place = workspace.real_file(&workspace.locate(path)?)?;
    let old = workspace.version(&place)?;
    diff(workspace, &place, old, |_| Ok(content.to_owned()))
}

/// The diff from the version that is there to what `change` makes of it.
pub(super) fn diff(
    workspace: &Workspace,
    place: &Place,
    old: Option<Version>,
    change: impl FnOnce(Option<&str>) -> Result<String, ToolError>,
) -> Result<FileDiff, ToolError> {
    let old_digest = old.as_ref().map(|version| version.digest.clone()).unwrap_or_default();
    let old_text = match old {
        Some(version) => Some(String::from_utf8(version.bytes).map_err(|_| not_text(place))?),
        None => None,
    };
    if old_text.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(not_text(place));
    }
    let new = change(old_text.as_deref())?;
    if new.len() as u64 > EDIT_LIMIT {
        let message =
            format!("`{place}` would have {} bytes, at most {EDIT_LIMIT} are written", new.len());
        return Err(ToolError::new("too_large", message));
    }
    let absolute = workspace.absolute(place);
    let shown = FileDiff::between(place.as_str(), &absolute, old_text.as_deref(), &new);
    Ok(FileDiff { old_digest, ..shown })
}

fn not_text(place: &Place) -> ToolError {
    let message = format!(
        "`{place}` is not UTF-8 text, so a change of it could not be shown: use a shell command"
    );
    ToolError::new("not_text", message)
}

/// Applies the permit's diff, which may carry a person's change.
pub(super) async fn run_edit(
    permit: &mut Permit,
    workspace: &Arc<Workspace>,
) -> Result<Output, ToolError> {
    let Details::Edit(diff) = permit.details() else { return Err(ToolError::unfit()) };
    let (workspace, diff) = (Arc::clone(workspace), diff.clone());
    blocking(move || apply(&workspace, diff)).await
}

/// Makes the file what the diff says, if it still is what the diff says it was.
pub fn apply(workspace: &Workspace, diff: FileDiff) -> Result<Output, ToolError> {
    let place = workspace.locate(&diff.path)?;
    if diff.changes_nothing() {
        workspace.is_still(&place, &diff.old_digest)?;
        return Ok(Output::text(format!("{place} has this content already: nothing to change")));
    }
    workspace.replace(&place, &diff.old_digest, diff.new.as_bytes())?;
    let lines = counted(diff.new.lines().count(), "line");
    let bytes = counted(diff.new.len(), "byte");
    Ok(Output { diff: Some(diff), ..Output::text(format!("wrote {place} ({lines}, {bytes})")) })
}
