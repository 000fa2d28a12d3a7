//! How long a keystroke takes to its picture while a thousand events a second arrive:
//! `cargo bench -p loggia-tui --bench keystroke`, with `-- --quick` for a short run.
//!
//! Measured is everything between reading the key and having the bytes for the terminal: the events
//! that came since the last frame, the key, the lines, the rows that changed. Not measured is the
//! terminal itself. At most four milliseconds more are waited for between two keys.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot measure should say so loudly"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use loggia_core::{Envelope, Event, Millis, Origin, Seq, Surface};
use loggia_tui::app::{Model, Msg, Start, update};
use loggia_tui::moment::Moment;
use loggia_tui::terminal::Inline;
use loggia_tui::theme::Theme;
use loggia_tui::view;

/// Events between two frames: a thousand a second at sixty frames.
const EVENTS: usize = 17;
const SIZE: (u16, u16) = (120, 40);

struct Stage {
    model: Model,
    screen: Inline,
    seq: u64,
    now: u64,
    bytes: usize,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let keys = if quick { 500 } else { 5_000 };
    println!(
        "{:<44} {:>9} {:>9} {:>9} {:>9}",
        "keystroke → picture", "p50 µs", "p99 µs", "max µs", "bytes"
    );
    for lines in [1_000, 100_000] {
        let mut stage = Stage::new(lines);
        let mut took: Vec<Duration> = (0..keys).map(|key| stage.keystroke(key)).collect();
        took.sort_unstable();
        let micros = |at: usize| took[at.min(took.len() - 1)].as_secs_f64() * 1e6;
        let (half, most) = (took.len() / 2, took.len() * 99 / 100);
        println!(
            "{:<44} {:>9.0} {:>9.0} {:>9.0} {:>9}",
            format!("behind a transcript of {lines} lines"),
            micros(half),
            micros(most),
            micros(took.len()),
            stage.bytes / keys
        );
    }
}

impl Stage {
    fn new(lines: usize) -> Self {
        let start = Start {
            me: Origin::new(Surface::Tui, "bench"),
            head: Seq(0),
            opened: Millis(0),
            history: Vec::new(),
            fullscreen: false,
            vim: false,
            size: SIZE,
            reflows: true,
            theme: Theme::default(),
        };
        let screen = Inline::new(SIZE, Some(0));
        let mut stage = Self { model: Model::new(start), screen, seq: 0, now: 0, bytes: 0 };
        stage.event(Event::TurnStarted { turn: "u".into(), prompt: "p".into(), task: "t".into() });
        for line in 0..lines / 2 {
            stage.text(line, "A line of *text*.\n\n");
        }
        stage.draw();
        stage
    }

    fn event(&mut self, event: Event) {
        self.seq += 1;
        let origin = Origin::agent();
        let envelope = Envelope { seq: Seq(self.seq), at: Millis(0), origin, event };
        update(&mut self.model, Msg::Event(Arc::new(envelope)), Moment(self.now));
    }

    /// A piece of a message of about forty.
    fn text(&mut self, piece: usize, text: &str) {
        let message = format!("m{}", piece / 40).as_str().into();
        self.event(Event::TextAppended { turn: "u".into(), message, text: text.into() });
    }

    fn draw(&mut self) {
        let finished = view::finished(&mut self.model, Moment(self.now));
        let frame = view::inline(&mut self.model, Moment(self.now));
        self.screen.draw(&finished, &frame);
        self.bytes += self.screen.take().len();
    }

    fn keystroke(&mut self, key: usize) -> Duration {
        self.now += 16;
        let began = Instant::now();
        for piece in 0..EVENTS {
            let text = if piece == 0 { "\n\nNext, `code` and " } else { "some **more** words " };
            self.text(1_000_000 + key * EVENTS + piece, text);
        }
        let letter = if key % 60 == 59 { KeyCode::Backspace } else { KeyCode::Char('x') };
        let event = KeyEvent::new(letter, KeyModifiers::NONE);
        update(&mut self.model, Msg::Key(event), Moment(self.now));
        self.draw();
        began.elapsed()
    }
}
