//! `read_file`: a window of lines, whatever the size of the file.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use loggia_core::{Access, Output};
use loggia_session::Permit;
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind};
use super::text::{counted, unfinished};
use super::{Preview, Tool, ToolError, ToolSpec, reading};
use crate::workspace::Workspace;

/// The largest window.
const WINDOW: usize = 1024 * 1024;
const DEFAULT_LINES: u64 = 2000;
/// How far into a file a line is looked for.
const SCAN: u64 = 512 * 1024 * 1024;
const SCAN_TIME: Duration = Duration::from_millis(1500);
/// A zero byte in here makes a file binary, as it does for git.
const SNIFF: usize = 8000;

const FIELDS: &[Field] = &[
    Field::required("path", Kind::Text, "The file, relative to the workspace."),
    Field::optional(
        "offset",
        Kind::Count,
        "The first line to read; the first line of a file is 1.",
    ),
    Field::optional("limit", Kind::Count, "How many lines to read; 2000 unless told."),
];

#[derive(Deserialize)]
struct Input {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

pub(super) struct ReadFile;

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".into(),
            description: "Reads a text file, or a part of it by lines (at most 1 MiB at once)."
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
            Ok(Preview::plain(format!("read {}", workspace.locate(&input.path)?)))
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let input: Input = input::read(FIELDS, permit.input())?;
            let workspace = Arc::clone(workspace);
            let text = reading(permit.stop(), move || {
                window(
                    &workspace,
                    &input.path,
                    input.offset.unwrap_or(1).max(1),
                    input.limit.unwrap_or(DEFAULT_LINES).max(1),
                )
            });
            Ok(Output::text(text.await?))
        })
    }
}

/// Lines `first` to `first + count - 1` of a file, with a remark where something is left out.
pub fn window(
    workspace: &Workspace,
    path: &str,
    first: u64,
    count: u64,
) -> Result<String, ToolError> {
    let place = workspace.locate(path)?;
    let opened = workspace.open_file(&place)?;
    let size = opened.size;
    let mut reader = BufReader::with_capacity(64 * 1024, opened.file);
    let failed = |error: std::io::Error| ToolError::new("io", format!("`{place}`: {error}"));

    let start = reader.fill_buf().map_err(failed)?;
    if start.iter().take(SNIFF).any(|byte| *byte == 0) {
        return Ok(format!("[{place} is a binary file of {size} bytes; its content is not shown]"));
    }
    if start.is_empty() {
        return Ok(format!("[{place} is empty]"));
    }
    let skipped = skip_lines(&mut reader, first - 1).map_err(failed)?;
    match skipped {
        Skipped::All => {}
        Skipped::Ended { lines } => {
            let lines = counted(usize::try_from(lines).unwrap_or(usize::MAX), "line");
            let message = format!("`{place}` has only {lines}: ask for an earlier offset");
            return Err(ToolError::new("past_end", message));
        }
        Skipped::TooFar => {
            let message = format!(
                "line {first} of `{place}` ({size} bytes) is too far into the file to be looked \
                 for: search for its content, or cut the file with a shell command"
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

/// Moves over `count` lines without keeping any.
fn skip_lines(reader: &mut impl BufRead, count: u64) -> std::io::Result<Skipped> {
    let deadline = Instant::now() + SCAN_TIME;
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
        if scanned > SCAN || Instant::now() > deadline {
            return Ok(Skipped::TooFar);
        }
    }
    if reader.fill_buf()?.is_empty() { Ok(Skipped::Ended { lines }) } else { Ok(Skipped::All) }
}

/// Up to `count` lines and up to [`WINDOW`] bytes; also whether the file goes on.
fn take_lines(reader: &mut impl BufRead, count: u64) -> std::io::Result<(Vec<u8>, u64, bool)> {
    let (mut bytes, mut lines) = (Vec::new(), 0);
    while lines < count && bytes.len() < WINDOW {
        let room = (WINDOW - bytes.len()) as u64;
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
    let shown = bytes.get(..bytes.len() - if cut { unfinished(bytes) } else { 0 }).unwrap_or(bytes);
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
        remark(format!("line {last} is cut here: a window holds at most {WINDOW} bytes"));
    } else if more {
        remark(format!(
            "lines {first} to {last}; the file goes on, read it with offset {}",
            last + 1
        ));
    }
    if damaged {
        remark("this file is not UTF-8: bytes that are no text are shown as \u{fffd}".into());
    }
    text
}
