//! `search_file_content`: lines that match a regular expression, with ripgrep's engine.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use loggia_core::{Access, Output};
use loggia_session::Permit;
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::glob::{self, RESULT_BYTES, RESULTS, WALK_TIME, full_path, remarks, walk_limits};
use super::input::{self, Field, Kind, invalid};
use super::text::{Lines, counted};
use super::{Preview, Tool, ToolError, ToolSpec, blocking, reading};
use crate::workspace::{WalkEnd, Walked, Workspace, WorkspaceErrorKind, shown};

/// A longer line is not searched: it is no text that people wrote.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// Of a pattern, and of what it is compiled to: what people write is far below both.
const LONGEST_PATTERN: usize = 4 * 1024;
/// Searches of all sessions at a time. A pattern takes many times its own size while it is compiled.
static SEARCHES: Semaphore = Semaphore::const_new(4);
const COMPILED: usize = 4 * 1024 * 1024;
/// Of a line that is shown; the match stays visible.
const SHOWN_LINE: usize = 400;
const BEFORE_MATCH: usize = 100;

const FIELDS: &[Field] = &[
    Field::required("pattern", Kind::Text, "A regular expression (Rust syntax), matched per line."),
    Field::optional(
        "path",
        Kind::Text,
        "A directory or file to search; the workspace unless told.",
    ),
    Field::optional("include", Kind::Text, "Only files that match this pattern, such as `*.rs`."),
];

#[derive(Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
    include: Option<String>,
}

pub(super) struct SearchFileContent;

impl Tool for SearchFileContent {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_file_content".into(),
            description: "Searches files for a regular expression and shows the matching lines. \
                          Ignored and binary files are left out."
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
            let title = format!("search for {} in {place}", shown(&input.pattern));
            let _place = SEARCHES.acquire().await;
            blocking(move || {
                matcher(&input.pattern)?;
                included(input.include.as_deref())
            })
            .await?;
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
            let _place = SEARCHES.acquire().await;
            let text = reading(permit.stop(), move || {
                let path = input.path.as_deref().unwrap_or(".");
                search(&workspace, &input.pattern, path, input.include.as_deref(), stop)
            });
            Ok(Output::text(text.await?))
        })
    }
}

fn matcher(pattern: &str) -> Result<RegexMatcher, ToolError> {
    if pattern.len() > LONGEST_PATTERN {
        return Err(invalid(format!("the field `pattern` is longer than {LONGEST_PATTERN} bytes")));
    }
    RegexMatcherBuilder::new()
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| invalid(format!("the field `pattern` is no regular expression: {error}")))
}

/// Without a slash the pattern is about the name, with one about the whole path.
fn included(include: Option<&str>) -> Result<Option<GlobMatcher>, ToolError> {
    let Some(include) = include else { return Ok(None) };
    glob::check_length("include", include)?;
    let whole = if include.contains('/') { include.to_owned() } else { format!("**/{include}") };
    GlobBuilder::new(whole.trim_start_matches('/'))
        .literal_separator(true)
        .build()
        .map(|glob| Some(glob.compile_matcher()))
        .map_err(|error| invalid(format!("the field `include` is not a pattern: {error}")))
}

/// Matching lines as `path:line:text`, bounded in number, size and time.
pub fn search(
    workspace: &Workspace,
    pattern: &str,
    path: &str,
    include: Option<&str>,
    stop: CancellationToken,
) -> Result<String, ToolError> {
    let place = workspace.locate(path)?;
    let include = included(include)?;
    let limits = walk_limits(stop.clone());
    let mut hunt = Hunt {
        matcher: matcher(pattern)?,
        searcher: SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LONGEST_LINE))
            .build(),
        lines: Lines::new(RESULTS, RESULT_BYTES),
        files: 0,
        unsearched: 0,
        deadline: limits.deadline,
        stop,
    };
    let walked = workspace.walk(&place, &limits, &mut |entry| {
        let wanted = entry.kind == FileType::RegularFile
            && include.as_ref().is_none_or(|include| include.is_match(entry.path));
        match wanted.then(|| entry.open()).flatten() {
            Some(file) => hunt.file(&full_path(&place, entry.path), file),
            None => ControlFlow::Continue(()),
        }
    });
    let walked = match walked {
        // A single file may be named instead of a directory.
        Err(error) if error.kind == WorkspaceErrorKind::NotADirectory => {
            let file = workspace.open_file(&place)?.file;
            let end = if hunt.file(&place.to_string(), file).is_break() && !hunt.lines.cut {
                WalkEnd::Time
            } else {
                WalkEnd::Complete
            };
            Walked { end, closed: 0 }
        }
        walked => walked?,
    };
    hunt.report(&walked, &format!("no line in {place} matches `{}`", shown(pattern)))
}

/// A search under way.
struct Hunt {
    matcher: RegexMatcher,
    searcher: Searcher,
    lines: Lines,
    files: usize,
    /// Files with a line too long to search, or that could not be read.
    unsearched: usize,
    deadline: Instant,
    stop: CancellationToken,
}

impl Hunt {
    fn file(&mut self, path: &str, file: File) -> ControlFlow<()> {
        let before = self.lines.count();
        let reader = Patient { file, deadline: self.deadline, stop: &self.stop };
        let sink = Found { path, matcher: &self.matcher, lines: &mut self.lines };
        let searched = self.searcher.search_reader(&self.matcher, reader, sink);
        self.files += usize::from(self.lines.count() > before);
        match searched {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return ControlFlow::Break(()),
            Err(_) => self.unsearched += 1,
            Ok(()) => {}
        }
        if self.lines.cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn report(self, walked: &Walked, nothing: &str) -> Result<String, ToolError> {
        let mut words = remarks(walked, &self.lines)?;
        if self.stop.is_cancelled() {
            return Err(ToolError::Stopped);
        }
        if walked.end == WalkEnd::Enough && !self.lines.cut {
            words.push(format!("stopped after {} s: name a smaller path", WALK_TIME.as_secs()));
        }
        if self.unsearched > 0 {
            let (files, longest) = (counted(self.unsearched, "file"), LONGEST_LINE / 1024 / 1024);
            words.push(format!(
                "{files} left out: unreadable, or a line is longer than {longest} MiB"
            ));
        }
        let first = match self.lines.count() {
            0 => nothing.to_owned(),
            count => format!("{} in {}", matches(count), counted(self.files, "file")),
        };
        words.insert(0, first);
        Ok(self.lines.finish(&words))
    }
}

fn matches(count: usize) -> String {
    if count == 1 { "1 match".to_owned() } else { format!("{count} matches") }
}

/// A file that stops giving once the time is over: one endless file must not hold the search.
struct Patient<'a> {
    file: File,
    deadline: Instant,
    stop: &'a CancellationToken,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() || Instant::now() > self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

struct Found<'a> {
    path: &'a str,
    matcher: &'a RegexMatcher,
    lines: &'a mut Lines,
}

impl Sink for Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let number = found.line_number().unwrap_or_default();
        let line = found.bytes().strip_suffix(b"\n").unwrap_or(found.bytes());
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let start = match self.matcher.find(line) {
            Ok(Some(place)) => place.start(),
            Ok(None) | Err(_) => 0,
        };
        Ok(self.lines.push(&format!("{}:{number}:{}", self.path, excerpt(line, start))))
    }
}

/// The line, or the part around the match with a remark on how long the line is.
fn excerpt(line: &[u8], found: usize) -> String {
    if line.len() <= SHOWN_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = found.saturating_sub(BEFORE_MATCH).min(line.len() - SHOWN_LINE);
    let part = line.get(start..start + SHOWN_LINE).unwrap_or(line);
    // Half characters at the edges are left out, not shown as broken.
    let text = String::from_utf8_lossy(part);
    let text = text.trim_matches(char::REPLACEMENT_CHARACTER);
    let before = if start > 0 { "…" } else { "" };
    format!("{before}{text}… [line of {} bytes]", line.len())
}
