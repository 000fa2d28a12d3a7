//! The time of a transcript frame while a stream arrives, in a short and a long transcript: `cargo
//! bench -p loggia-tui`, with `-- --quick` for a short run, with a part's name (`-- frames`, `--
//! pieces`) for that part. Prints a table, which `docs/contributing/performance.md` explains.
//!
//! Both transcripts are drawn alternately, so that other load affects both. Times are given twice:
//! as processor time of this thread and as wall-clock time, which includes other processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot measure should say so loudly"
)]

use loggia_core::{
    CallCell, CallId, CallOutcome, CallState, Cell, CellBody, Details, FileDiff, Millis, Origin,
    Output, Seq, Surface,
};
use loggia_tui::highlight::{self, Highlighter};
use loggia_tui::markdown::StreamingMarkdown;
use loggia_tui::pager::{Pager, Scene};
use loggia_tui::theme::{Background, Depth, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

#[path = "shared/clock.rs"]
mod clock;
use clock::{BothClocks, HEADING, Time, micros, print};

const SHORT: usize = 1_000;
const LONG: usize = 100_000;
/// Events between two frames: 1,000 a second at 30 frames a second.
const EVENTS_A_FRAME: usize = 33;
/// Frames of a round, after which the stream restarts, so that the short transcript stays short;
/// and its first frames, which are not counted because all cells are new.
const ROUND: usize = 100;
const OPENING: usize = 5;

fn main() {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let quick = wanted.iter().any(|argument| argument == "--quick");
    wanted.retain(|argument| !argument.starts_with("--")); // cargo passes `--bench`
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    if !wants("frames") && !wants("pieces") {
        return;
    }
    let started = BothClocks::now();
    highlight::warm();
    println!("grammars loaded and warm in {:.0} ms", started.elapsed().cpu.as_secs_f64() * 1e3);
    println!("{HEADING}");
    if wants("frames") {
        frames(if quick { 5 } else { 40 });
    }
    if wants("pieces") {
        pieces(if quick { 10_000 } else { 100_000 });
    }
}

fn frames(rounds: usize) {
    let mut stages = [Stage::new(SHORT), Stage::new(LONG)];
    let stream = |stage: &mut Stage| (0..EVENTS_A_FRAME).for_each(|_| stage.grow());
    let stay = |_: &mut Stage| {};
    let to_top = |stage: &mut Stage| stage.pager.to_top();
    let following = compare("following a stream", rounds, &mut stages, stay, stream);
    let reading = compare("reading above a stream", rounds, &mut stages, to_top, stream);
    let scrolling = compare("scrolling", rounds, &mut stages, to_top, Stage::scroll);
    let rows = [("following", following), ("reading", reading), ("scrolling", scrolling)];
    for (name, (p50, p99)) in rows {
        println!("{name}: {LONG} lines take {p50:.2}× ({p99:.2}× at p99) of {SHORT} lines");
    }
}

/// Draws the same frames on both stages, alternately. Returns the ratio of long to short, at p50
/// and p99.
fn compare(
    name: &str,
    rounds: usize,
    stages: &mut [Stage; 2],
    open: impl Fn(&mut Stage),
    step: impl Fn(&mut Stage),
) -> (f64, f64) {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for stage in stages.iter_mut() {
            stage.reset();
            open(stage);
        }
        for frame in 0..OPENING + ROUND {
            for (stage, times) in stages.iter_mut().zip(&mut times) {
                step(stage);
                let time = stage.draw(frame);
                if frame >= OPENING {
                    times.push(time);
                }
            }
        }
    }
    let [short, long] = times;
    let short = print(&format!("{name}, {SHORT} lines"), &short);
    let long = print(&format!("{name}, {LONG} lines"), &long);
    (micros(long.p50) / micros(short.p50), micros(long.p99) / micros(short.p99))
}

/// The cost of a piece of a message, at its start and after many lines.
fn pieces(lines: usize) {
    let theme = Theme::new(Depth::Indexed, Background::Dark);
    let mut markdown = StreamingMarkdown::new(120, theme, Highlighter::waiting());
    let mut times = [Vec::new(), Vec::new()];
    let mut text = words();
    let mut count = 0;
    while count < lines {
        let piece = text.next().unwrap_or_default();
        count += piece.matches('\n').count();
        let started = BothClocks::now();
        markdown.push(&piece);
        let tail = markdown.tail();
        let time = started.elapsed();
        drop(tail);
        times[usize::from(count > lines / 2)].push(time);
    }
    let [first, second] = times;
    let first = print(&format!("a piece of a message, lines 1 to {}", lines / 2), &first);
    let second = print(&format!("a piece of a message, up to line {lines}"), &second);
    println!(
        "pieces: the second half takes {:.2}× of the first",
        micros(second.p50) / micros(first.p50)
    );
}

struct Stage {
    pager: Pager,
    cells: Vec<Cell>,
    theme: Theme,
    buffer: Buffer,
    /// Cells without those of the stream.
    length: usize,
    words: Box<dyn Iterator<Item = String>>,
    grown: usize,
    down: bool,
}

impl Stage {
    /// A transcript of so many lines, at its end.
    fn new(lines: usize) -> Self {
        let mut stage = Self {
            pager: Pager::new(),
            cells: Vec::new(),
            theme: Theme::new(Depth::Indexed, Background::Dark),
            buffer: Buffer::empty(Rect::new(0, 0, 120, 40)),
            length: 0,
            words: Box::new(words()),
            grown: 0,
            down: true,
        };
        let mut number = 0;
        while stage.pager.position().total < lines {
            for _ in 0..(lines / 2_000).max(1) {
                number += 1;
                stage.cells.extend(exchange(number));
            }
            stage.draw(0);
            while stage.act(|pager, scene| pager.measure(scene, 1_000)) {}
        }
        stage.length = stage.cells.len();
        stage
    }

    /// Removes the stream.
    fn reset(&mut self) {
        self.cells.truncate(self.length);
        self.cells.push(text(String::new()));
        self.pager = Pager::new();
        self.draw(0);
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut Pager, &Scene<'_>) -> T) -> T {
        let scene = scene(&self.cells, &self.theme, 0);
        act(&mut self.pager, &scene)
    }

    /// Adds an event: a piece of text, and sometimes a new message.
    fn grow(&mut self) {
        self.grown += 1;
        if self.grown.is_multiple_of(2_000) {
            self.cells.push(text(String::new()));
        }
        let piece = self.words.next().unwrap_or_default();
        if let Some(CellBody::Text { text, .. }) = self.cells.last_mut().map(|cell| &mut cell.body)
        {
            text.push_str(&piece);
        }
    }

    /// Scrolls three lines, reversing at the ends.
    fn scroll(&mut self) {
        let down = self.down;
        self.act(|pager, scene| match down {
            true => pager.scroll_down(scene, 3),
            false => pager.scroll_up(scene, 3),
        });
        self.down = match (self.pager.is_following(), self.pager.position().line) {
            (true, _) => false,
            (false, 0) => true,
            (false, _) => down,
        };
    }

    fn draw(&mut self, frame: usize) -> Time {
        let scene = scene(&self.cells, &self.theme, frame / 4);
        let started = BothClocks::now();
        self.pager.draw(&scene, self.buffer.area, &mut self.buffer);
        started.elapsed()
    }
}

fn scene<'a>(cells: &'a [Cell], theme: &'a Theme, frame: usize) -> Scene<'a> {
    let (highlighter, now) = (Highlighter::waiting(), Millis(0));
    Scene { cells, theme, highlighter, now, frame, own: None }
}

fn cell(origin: Origin, body: CellBody) -> Cell {
    Cell { id: Seq(0), at: Millis(0), origin, body }
}

fn text(text: String) -> Cell {
    cell(Origin::agent(), CellBody::Text { text, discarded: false })
}

/// Endless pieces of a message with paragraphs, lists and code.
fn words() -> impl Iterator<Item = String> {
    (0usize..).map(|number| number % 960).map(|number| match number % 120 {
        40 | 80 | 100 => "\n\n".to_owned(),
        41 => "```rust\n".to_owned(),
        42..60 => format!("let value_{number} = compute({number}, \"text\"); // why\n"),
        60 => "```\n".to_owned(),
        81..90 => format!("- item {number} of `list`\n"),
        _ => format!("word{number} "),
    })
}

/// A prompt, an answer with code, a command with output, an edit.
fn exchange(number: usize) -> Vec<Cell> {
    let prompt = CellBody::Prompt {
        text: format!("Please change step {number}"),
        queued: false,
        withdrawn: false,
    };
    let answer: String = words().take(120).collect();
    let output: String = (0..40).map(|line| format!("test case_{line} ... ok\n")).collect();
    let old: String = (0..20).map(|line| format!("let line_{line} = {line};\n")).collect();
    let new = old.replace("= 3;", "= 33;").replace("= 12;", "= 1212;");
    let call = |tool: &str, details: Details, text: String| {
        cell(
            Origin::agent(),
            CellBody::Call(Box::new(CallCell {
                typed: false,
                skipped: 0,
                call: CallId::new(format!("call-{number}")),
                tool: tool.to_owned(),
                title: format!("{tool} {number}"),
                details,
                state: CallState::Ended,
                answered: None,
                live: String::new(),
                outcome: Some(CallOutcome::Succeeded { output: Output::text(text) }),
                started: None,
                ended: None,
            })),
        )
    };
    let execute = Details::Execute { command: "cargo test".to_owned(), directory: "/w".to_owned() };
    let edit = Details::Edit(FileDiff::between("src/a.rs", "/w/src/a.rs", Some(&old), &new));
    vec![
        cell(Origin::new(Surface::A2a, "ide-1"), prompt),
        text(answer),
        call("shell", execute, output),
        call("edit", edit, "changed".to_owned()),
    ]
}
