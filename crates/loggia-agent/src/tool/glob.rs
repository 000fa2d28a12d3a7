//! `glob`: finds files by a pattern of their path.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use loggia_core::{Access, Output};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::input::{input, invalid};
use super::text::{Lines, counted, one_line};
use super::typed::{Call, TypedTool};
use super::{Preview, ToolError, ToolResult, blocking};
use crate::workspace::{WalkEnd, WalkLimits, Walked, Workspace, WorkspacePath, shown};

/// Limits of a walk and of its result, shared with `search_file_content`.
pub(super) const WALK_ENTRIES: usize = 200_000;
pub(super) const WALK_TIME: Duration = Duration::from_secs(10);
pub(super) const RESULTS: usize = 500;
pub(super) const RESULT_BYTES: usize = 256 * 1024;
/// A pattern of a path is no longer than a path, so the compiled pattern stays small.
const LONGEST_PATTERN: usize = 4 * 1024;

input! {
    pub(super) struct Input {
        /// A pattern such as `src/**/*.rs`. `*` does not match a slash.
        pattern: String,
        /// The directory to search. Default: the workspace.
        path: Option<String>,
    }
}

pub(super) struct Glob;

impl TypedTool for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str =
        "Finds files by a pattern of their path. Ignored files are left out.";
    const ACCESS: Access = Access::Read;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        let path = workspace.locate_or_root(input.path.as_deref())?;
        let title = format!("find {} in {path}", shown(&input.pattern));
        blocking(workspace, move |_| path_matcher("pattern", &input.pattern).map(drop)).await?;
        Ok(Preview::plain(title))
    }

    async fn run(&self, input: Input, call: Call<'_>) -> ToolResult<Output> {
        let stop = call.permit.stop().clone();
        call.read(move |workspace| find(workspace, &input, stop)).await.map(Output::text)
    }
}

/// Compiles the pattern of a path that `field` holds.
pub(super) fn path_matcher(field: &str, pattern: &str) -> ToolResult<GlobMatcher> {
    if pattern.len() > LONGEST_PATTERN {
        return Err(invalid(format!("the field `{field}` is longer than {LONGEST_PATTERN} bytes")));
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| invalid(format!("the field `{field}` is not a valid pattern: {error}")))
}

/// Files below the directory whose path from there matches, sorted.
fn find(workspace: &Workspace, input: &Input, stop: CancellationToken) -> ToolResult<String> {
    let path = workspace.locate_or_root(input.path.as_deref())?;
    let matcher = path_matcher("pattern", &input.pattern)?;
    let mut lines = Lines::new(RESULTS, RESULT_BYTES);
    let walked = workspace.walk(&path, &walk_limits(stop), &mut |entry| {
        let wanted = matches!(entry.kind, FileType::RegularFile | FileType::Symlink)
            && matcher.is_match(entry.path);
        if !wanted || lines.push(&full_path(&path, entry.path)) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let remarks = remarks(&walked, &lines)?;
    if lines.count() == 0 {
        let no_match = format!("no file in {path} matches `{}`", shown(&input.pattern));
        return Ok(lines.finish(&[vec![no_match], remarks].concat()));
    }
    Ok(lines.finish(&remarks))
}

/// A path relative to the workspace, as other tools expect it.
pub(super) fn full_path(start: &WorkspacePath, below: &Path) -> String {
    let whole =
        if start.is_root() { below.to_owned() } else { Path::new(start.as_str()).join(below) };
    one_line(whole.as_os_str())
}

pub(super) fn walk_limits(stop: CancellationToken) -> WalkLimits {
    WalkLimits { entries: WALK_ENTRIES, deadline: Instant::now() + WALK_TIME, stop }
}

/// Says why a result is incomplete.
pub(super) fn remarks(walked: &Walked, lines: &Lines) -> ToolResult<Vec<String>> {
    let mut remarks = Vec::new();
    if lines.cut {
        remarks.push(format!(
            "only the first {} are shown: narrow the pattern or the path",
            lines.count()
        ));
    }
    match walked.end {
        WalkEnd::Stopped => return Err(ToolError::Stopped),
        WalkEnd::Complete | WalkEnd::ByVisitor => {}
        WalkEnd::Entries => remarks.push(format!(
            "stopped after {WALK_ENTRIES} directory entries: name a directory to search"
        )),
        WalkEnd::Time => remarks
            .push(format!("stopped after {} s: name a directory to search", WALK_TIME.as_secs())),
    }
    if walked.skipped > 0 {
        remarks.push(format!("{} could not be entered", counted(walked.skipped, "directory")));
    }
    Ok(remarks)
}
