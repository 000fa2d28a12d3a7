//! `glob`: files by the shape of their path.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use globset::GlobBuilder;
use loggia_core::{Access, Output};
use loggia_session::Permit;
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::input::{self, Field, Kind, invalid};
use super::text::{Lines, counted, listed};
use super::{Preview, Tool, ToolError, ToolSpec, blocking, reading};
use crate::workspace::{Place, WalkEnd, WalkLimits, Walked, Workspace, shown};

/// Shared with the search: what one walk may cost and one answer may hold.
pub(super) const WALK_ENTRIES: usize = 200_000;
pub(super) const WALK_TIME: Duration = Duration::from_secs(10);
pub(super) const RESULTS: usize = 500;
pub(super) const RESULT_BYTES: usize = 256 * 1024;
const LONGEST_PATTERN: usize = 4 * 1024;

const FIELDS: &[Field] = &[
    Field::required("pattern", Kind::Text, "Such as `src/**/*.rs`; `*` does not cross a slash."),
    Field::optional("path", Kind::Text, "The directory to look in; the workspace unless told."),
];

#[derive(Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
}

pub(super) struct Glob;

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".into(),
            description: "Finds files by a pattern of their path. Ignored files are left out."
                .into(),
            parameters: input::schema(FIELDS),
            access: Access::Read,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let input: Input = input::read(FIELDS, input)?;
            let place = workspace.locate(input.path.as_deref().unwrap_or("."))?;
            let title = format!("find {} in {place}", shown(&input.pattern));
            blocking(move || matcher(&input.pattern).map(drop)).await?;
            Ok(Preview::plain(title))
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let input: Input = input::read(FIELDS, permit.input())?;
            let (workspace, stop) = (Arc::clone(workspace), permit.stop().clone());
            let path = input.path.unwrap_or_else(|| ".".into());
            let text =
                reading(permit.stop(), move || find(&workspace, &input.pattern, &path, stop));
            Ok(Output::text(text.await?))
        })
    }
}

/// A pattern of a path is no longer than a path: compiled, it stays small.
pub(super) fn check_length(field: &str, pattern: &str) -> Result<(), ToolError> {
    match pattern.len() > LONGEST_PATTERN {
        true => Err(invalid(format!("the field `{field}` is longer than {LONGEST_PATTERN} bytes"))),
        false => Ok(()),
    }
}

fn matcher(pattern: &str) -> Result<globset::GlobMatcher, ToolError> {
    check_length("pattern", pattern)?;
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| invalid(format!("the field `pattern` is not a pattern: {error}")))
}

/// Files below `path` whose path from there matches, in order.
pub fn find(
    workspace: &Workspace,
    pattern: &str,
    path: &str,
    stop: CancellationToken,
) -> Result<String, ToolError> {
    let place = workspace.locate(path)?;
    let matcher = matcher(pattern)?;
    let mut lines = Lines::new(RESULTS, RESULT_BYTES);
    let walked = workspace.walk(&place, &walk_limits(stop), &mut |entry| {
        let wanted = matches!(entry.kind, FileType::RegularFile | FileType::Symlink)
            && matcher.is_match(entry.path);
        if !wanted || lines.push(&full_path(&place, entry.path)) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let remarks = remarks(&walked, &lines)?;
    if lines.count() == 0 {
        let nothing = format!("no file in {place} matches `{}`", shown(pattern));
        return Ok(lines.finish(&[vec![nothing], remarks].concat()));
    }
    Ok(lines.finish(&remarks))
}

/// A result as the other tools want to be given it: from the workspace down.
pub(super) fn full_path(start: &Place, below: &Path) -> String {
    let whole =
        if start.is_root() { below.to_owned() } else { Path::new(start.as_str()).join(below) };
    listed(whole.as_os_str())
}

pub(super) fn walk_limits(stop: CancellationToken) -> WalkLimits {
    WalkLimits { entries: WALK_ENTRIES, deadline: Instant::now() + WALK_TIME, stop }
}

/// What an answer must say about its own completeness.
pub(super) fn remarks(walked: &Walked, lines: &Lines) -> Result<Vec<String>, ToolError> {
    let mut remarks = Vec::new();
    if lines.cut {
        remarks.push(format!(
            "only the first {} are shown: narrow the pattern or the path",
            lines.count()
        ));
    }
    match walked.end {
        WalkEnd::Stopped => return Err(ToolError::Stopped),
        WalkEnd::Complete | WalkEnd::Enough => {}
        WalkEnd::Entries => remarks.push(format!(
            "stopped after {WALK_ENTRIES} directory entries: name a directory to look in"
        )),
        WalkEnd::Time => remarks
            .push(format!("stopped after {} s: name a directory to look in", WALK_TIME.as_secs())),
    }
    if walked.closed > 0 {
        remarks.push(format!("{} could not be entered", counted(walked.closed, "directory")));
    }
    Ok(remarks)
}
