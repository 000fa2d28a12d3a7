//! `read_file`: a range of lines, whatever the size of the file.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use loggia_core::{Access, Output};

use super::input::input;
use super::text::{counted, incomplete_tail};
use super::typed::{Call, TypedTool};
use super::{Preview, ToolError, ToolResult};
use crate::workspace::Workspace;

/// The most bytes that one call returns.
const RANGE_BYTES: usize = 1024 * 1024;
const DEFAULT_LINES: u64 = 2000;
/// The most bytes that are skipped to reach the first line.
const SKIPPED_BYTES: u64 = 512 * 1024 * 1024;
const SKIP_TIME: Duration = Duration::from_millis(1500);
/// A zero byte within this many bytes makes a file binary, as in git.
const BINARY_CHECK: usize = 8000;

input! {
    pub(super) struct Input {
        /// The file, relative to the workspace.
        path: String,
        /// The first line to read. The first line of a file is 1.
        offset: Option<u64>,
        /// The number of lines to read. Default: 2000.
        limit: Option<u64>,
    }
}

pub(super) struct ReadFile;

impl TypedTool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str =
        "Reads a text file, or a range of its lines (at most 1 MiB in one call).";
    const ACCESS: Access = Access::Read;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        Ok(Preview::plain(format!("read {}", workspace.locate(&input.path)?)))
    }

    async fn run(&self, input: Input, call: Call<'_>) -> ToolResult<Output> {
        call.read(move |workspace| read(workspace, &input)).await.map(Output::text)
    }
}

/// The requested lines, with a remark if something is left out.
fn read(workspace: &Workspace, input: &Input) -> ToolResult<String> {
    let first = input.offset.unwrap_or(1).max(1);
    let count = input.limit.unwrap_or(DEFAULT_LINES).max(1);
    let path = workspace.locate(&input.path)?;
    let opened = workspace.open_file(&path)?;
    let size = opened.size;
    let mut reader = BufReader::with_capacity(64 * 1024, opened.file);
    let failed = |error: std::io::Error| ToolError::new("io", format!("`{path}`: {error}"));

    let start = reader.fill_buf().map_err(failed)?;
    if start.iter().take(BINARY_CHECK).any(|byte| *byte == 0) {
        return Ok(format!("[{path} is a binary file of {size} bytes; its content is not shown]"));
    }
    if start.is_empty() {
        return Ok(format!("[{path} is empty]"));
    }
    let skipped = skip_lines(&mut reader, first - 1).map_err(failed)?;
    match skipped {
        Skipped::All => {}
        Skipped::Ended { lines } => {
            let lines = counted(usize::try_from(lines).unwrap_or(usize::MAX), "line");
            let message = format!("`{path}` has only {lines}: ask for an earlier offset");
            return Err(ToolError::new("past_end", message));
        }
        Skipped::TooFar => {
            let message = format!(
                "line {first} of `{path}` ({size} bytes) is too far into the file: search for its \
                 content, or cut the file with a shell command"
            );
            return Err(ToolError::new("too_large", message));
        }
    }
    let (bytes, lines, more) = take_lines(&mut reader, count).map_err(failed)?;
    Ok(present(&bytes, first, lines, more))
}

enum Skipped {
    All,
    Ended { lines: u64 },
    TooFar,
}

/// Skips `count` lines.
fn skip_lines(reader: &mut impl BufRead, count: u64) -> std::io::Result<Skipped> {
    let deadline = Instant::now() + SKIP_TIME;
    let (mut lines, mut scanned, mut open_line) = (0, 0, false);
    while lines < count {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(Skipped::Ended { lines: lines + u64::from(open_line) });
        }
        let mut used = 0;
        while lines < count {
            let rest = buffer.get(used..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                used = buffer.len();
                break;
            };
            used += end + 1;
            lines += 1;
        }
        open_line = buffer.get(used.saturating_sub(1)) != Some(&b'\n');
        reader.consume(used);
        scanned += used as u64;
        if scanned > SKIPPED_BYTES || Instant::now() > deadline {
            return Ok(Skipped::TooFar);
        }
    }
    if reader.fill_buf()?.is_empty() { Ok(Skipped::Ended { lines }) } else { Ok(Skipped::All) }
}

/// Up to `count` lines and up to [`RANGE_BYTES`] bytes, and whether the file has more.
fn take_lines(reader: &mut impl BufRead, count: u64) -> std::io::Result<(Vec<u8>, u64, bool)> {
    let (mut bytes, mut lines) = (Vec::new(), 0);
    while lines < count && bytes.len() < RANGE_BYTES {
        let room = (RANGE_BYTES - bytes.len()) as u64;
        if reader.by_ref().take(room).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        lines += 1;
    }
    let more = !reader.fill_buf()?.is_empty();
    Ok((bytes, lines, more))
}

fn present(bytes: &[u8], first: u64, lines: u64, more: bool) -> String {
    let cut = more && !bytes.ends_with(b"\n");
    let shown =
        bytes.get(..bytes.len() - if cut { incomplete_tail(bytes) } else { 0 }).unwrap_or(bytes);
    let text = String::from_utf8_lossy(shown);
    let damaged = matches!(text, std::borrow::Cow::Owned(_));
    let mut text = text.into_owned();
    let last = first + lines.saturating_sub(1);
    let mut remark = |words: String| {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{words}]"));
    };
    if cut {
        remark(format!("line {last} is cut here: one call returns at most {RANGE_BYTES} bytes"));
    } else if more {
        remark(format!(
            "lines {first} to {last}; the file continues: read on with offset {}",
            last + 1
        ));
    }
    if damaged {
        remark("this file is not UTF-8: invalid bytes are shown as \u{fffd}".into());
    }
    text
}
