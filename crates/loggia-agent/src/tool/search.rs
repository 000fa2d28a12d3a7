//! `search_file_content`: lines that match a regular expression, with ripgrep's engine.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use globset::GlobMatcher;
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use loggia_core::{Access, Output};
use rustix::fs::FileType;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::glob::{
    RESULT_BYTES, RESULTS, WALK_TIME, full_path, path_matcher, remarks, walk_limits,
};
use super::input::{input, invalid};
use super::text::{Lines, counted};
use super::typed::{Call, TypedTool};
use super::{Preview, ToolError, ToolResult, blocking};
use crate::workspace::{WalkEnd, Walked, Workspace, WorkspaceErrorKind, shown};

/// A file with a longer line is not searched: people do not write such lines.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
const LONGEST_PATTERN: usize = 4 * 1024;
/// Bytes of a compiled pattern.
const COMPILED: usize = 4 * 1024 * 1024;
/// Limits the searches of all sessions: compiling a pattern takes many times its size.
static SEARCHES: Semaphore = Semaphore::const_new(4);
/// Bytes of a line that are shown, always with the match.
const SHOWN_LINE: usize = 400;
const BEFORE_MATCH: usize = 100;

input! {
    pub(super) struct Input {
        /// A regular expression (Rust syntax), matched per line.
        pattern: String,
        /// The directory or file to search. Default: the workspace.
        path: Option<String>,
        /// Only files that match this pattern, such as `*.rs`.
        include: Option<String>,
    }
}

impl Input {
    fn matcher(&self) -> ToolResult<RegexMatcher> {
        if self.pattern.len() > LONGEST_PATTERN {
            let message = format!("the field `pattern` is longer than {LONGEST_PATTERN} bytes");
            return Err(invalid(message));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder.size_limit(COMPILED).dfa_size_limit(COMPILED).line_terminator(Some(b'\n'));
        builder.build(&self.pattern).map_err(|error| {
            invalid(format!("the field `pattern` is not a valid regular expression: {error}"))
        })
    }

    /// A pattern without a slash is matched against the file name, one with a slash against the path.
    fn include_matcher(&self) -> ToolResult<Option<GlobMatcher>> {
        let Some(include) = &self.include else { return Ok(None) };
        let pattern = match include.contains('/') {
            true => include.trim_start_matches('/').to_owned(),
            false => format!("**/{include}"),
        };
        path_matcher("include", &pattern).map(Some)
    }
}

pub(super) struct SearchFileContent;

impl TypedTool for SearchFileContent {
    const NAME: &'static str = "search_file_content";
    const DESCRIPTION: &'static str = "Searches files for a regular expression and shows the \
                                       matching lines. Ignored and binary files are left out.";
    const ACCESS: Access = Access::Read;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        let path = workspace.locate_or_root(input.path.as_deref())?;
        let title = format!("search for {} in {path}", shown(&input.pattern));
        let _slot = SEARCHES.acquire().await;
        blocking(workspace, move |_| {
            input.matcher()?;
            input.include_matcher()
        })
        .await?;
        Ok(Preview::plain(title))
    }

    async fn run(&self, input: Input, call: Call<'_>) -> ToolResult<Output> {
        let stop = call.permit.stop().clone();
        let _slot = SEARCHES.acquire().await;
        call.read(move |workspace| search(workspace, &input, stop)).await.map(Output::text)
    }
}

/// Matching lines as `path:line:text`, bounded in number, size and time.
fn search(workspace: &Workspace, input: &Input, stop: CancellationToken) -> ToolResult<String> {
    let path = workspace.locate_or_root(input.path.as_deref())?;
    let include = input.include_matcher()?;
    let limits = walk_limits(stop.clone());
    let mut running = Running {
        matcher: input.matcher()?,
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
    let walked = workspace.walk(&path, &limits, &mut |entry| {
        let wanted = entry.kind == FileType::RegularFile
            && include.as_ref().is_none_or(|include| include.is_match(entry.path));
        match wanted.then(|| entry.open()).flatten() {
            Some(file) => running.file(&full_path(&path, entry.path), file),
            None => ControlFlow::Continue(()),
        }
    });
    let walked = match walked {
        // The path names a single file.
        Err(error) if error.kind == WorkspaceErrorKind::NotADirectory => {
            let file = workspace.open_file(&path)?.file;
            let end = if running.file(&path.to_string(), file).is_break() && !running.lines.cut {
                WalkEnd::Time
            } else {
                WalkEnd::Complete
            };
            Walked { end, skipped: 0 }
        }
        walked => walked?,
    };
    running.report(&walked, &format!("no line in {path} matches `{}`", shown(&input.pattern)))
}

struct Running {
    matcher: RegexMatcher,
    searcher: Searcher,
    lines: Lines,
    files: usize,
    /// Files with a line too long to search, or that could not be read.
    unsearched: usize,
    deadline: Instant,
    stop: CancellationToken,
}

impl Running {
    fn file(&mut self, path: &str, file: File) -> ControlFlow<()> {
        let before = self.lines.count();
        let reader = DeadlineReader { file, deadline: self.deadline, stop: &self.stop };
        let sink = MatchSink { path, matcher: &self.matcher, lines: &mut self.lines };
        let searched = self.searcher.search_reader(&self.matcher, reader, sink);
        self.files += usize::from(self.lines.count() > before);
        match searched {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return ControlFlow::Break(()),
            Err(_) => self.unsearched += 1,
            Ok(()) => {}
        }
        if self.lines.cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn report(self, walked: &Walked, no_match: &str) -> ToolResult<String> {
        let mut remarks = remarks(walked, &self.lines)?;
        if self.stop.is_cancelled() {
            return Err(ToolError::Stopped);
        }
        if walked.end == WalkEnd::ByVisitor && !self.lines.cut {
            remarks.push(format!("stopped after {} s: name a smaller path", WALK_TIME.as_secs()));
        }
        if self.unsearched > 0 {
            let (files, longest) = (counted(self.unsearched, "file"), LONGEST_LINE / 1024 / 1024);
            remarks.push(format!(
                "{files} left out: unreadable, or a line is longer than {longest} MiB"
            ));
        }
        let first = match self.lines.count() {
            0 => no_match.to_owned(),
            count => format!("{} in {}", matches(count), counted(self.files, "file")),
        };
        remarks.insert(0, first);
        Ok(self.lines.finish(&remarks))
    }
}

fn matches(count: usize) -> String {
    if count == 1 { "1 match".to_owned() } else { format!("{count} matches") }
}

/// A file whose reads fail after the deadline, so that one endless file cannot block the search.
struct DeadlineReader<'a> {
    file: File,
    deadline: Instant,
    stop: &'a CancellationToken,
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() || Instant::now() > self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

struct MatchSink<'a> {
    path: &'a str,
    matcher: &'a RegexMatcher,
    lines: &'a mut Lines,
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let number = found.line_number().unwrap_or_default();
        let line = found.bytes().strip_suffix(b"\n").unwrap_or(found.bytes());
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let start = match self.matcher.find(line) {
            Ok(Some(found)) => found.start(),
            Ok(None) | Err(_) => 0,
        };
        Ok(self.lines.push(&format!("{}:{number}:{}", self.path, excerpt(line, start))))
    }
}

/// The line; of a long one the part around the match, and its length.
fn excerpt(line: &[u8], found: usize) -> String {
    if line.len() <= SHOWN_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = found.saturating_sub(BEFORE_MATCH).min(line.len() - SHOWN_LINE);
    let part = line.get(start..start + SHOWN_LINE).unwrap_or(line);
    // Characters cut in half at the edges are left out.
    let text = String::from_utf8_lossy(part);
    let text = text.trim_matches(char::REPLACEMENT_CHARACTER);
    let before = if start > 0 { "…" } else { "" };
    format!("{before}{text}… [line of {} bytes]", line.len())
}
