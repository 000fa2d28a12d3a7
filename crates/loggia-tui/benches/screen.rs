//! The time of a frame of the whole screen while a thousand events a second arrive, inline and
//! full, in a short and a long transcript, and from a key to its frame: `cargo bench -p loggia-tui
//! --bench screen`, with `-- --quick` for a short run.
//!
//! Measures everything up to the bytes for the terminal: new events, the key, the lines, the
//! changed rows. Excludes the terminal and the wait between two frames (at most 16 ms, after a key
//! 4 ms). Short and long are drawn alternately.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot measure should say so loudly"
)]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use loggia_core::{Envelope, Event, Millis, Origin, Seq, Surface};
use loggia_tui::app::{Model, Msg, Start, update};
use loggia_tui::renderer::Renderer;
use loggia_tui::theme::{Background, Depth, Theme};
use loggia_tui::uptime::Uptime;
use std::sync::Arc;

#[path = "shared/clock.rs"]
mod clock;
use clock::{BothClocks, HEADING, Time, micros, print};

/// Events between two frames: a thousand a second at sixty frames.
const EVENTS: usize = 17;
const SIZE: (u16, u16) = (120, 40);

const LENGTHS: [usize; 2] = [1_000, 100_000];
/// Frames that are not counted, because everything is new.
const OPENING: usize = 20;

struct Stage {
    model: Model,
    renderer: Renderer,
    seq: u64,
    now: u64,
    pieces: usize,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let frames = if quick { 500 } else { 4_000 };
    loggia_tui::highlight::warm();
    println!("{HEADING}");
    compare("a frame inline", frames, false, Stage::frame);
    compare("a frame of the full transcript", frames, true, Stage::frame);
    compare("a key inline", frames, false, Stage::keystroke);
    compare("a key beside the full transcript", frames, true, Stage::keystroke);
}

fn compare(name: &str, frames: usize, full: bool, step: impl Fn(&mut Stage, usize)) {
    let mut stages = LENGTHS.map(|lines| Stage::new(lines, full));
    let mut times: [Vec<Time>; 2] = [Vec::new(), Vec::new()];
    for number in 0..OPENING + frames {
        for (stage, times) in stages.iter_mut().zip(&mut times) {
            stage.now += 16;
            let began = BothClocks::now();
            step(stage, number);
            let time = began.elapsed();
            if number >= OPENING {
                times.push(time);
            }
        }
    }
    let [short, long] = times;
    let row = |lines: usize, times: &[Time]| print(&format!("{name}, {lines} lines"), times);
    let (short, long) = (row(LENGTHS[0], &short), row(LENGTHS[1], &long));
    let times = |long, short| micros(long) / micros(short);
    println!(
        "  × {:.2} at p50, × {:.2} at p99",
        times(long.p50, short.p50),
        times(long.p99, short.p99)
    );
}

impl Stage {
    fn new(lines: usize, fullscreen: bool) -> Self {
        let start = Start {
            me: Origin::new(Surface::Tui, "bench"),
            head: Seq(0),
            opened: Millis(0),
            history: Vec::new(),
            fullscreen,
            size: SIZE,
            reflows: true,
            theme: Theme::new(Depth::Indexed, Background::Dark),
            prices: loggia_core::Prices::default(),
            asks_background: false,
            vim: false,
        };
        let renderer = Renderer::new(SIZE, Some(0), true);
        let mut stage = Self { model: Model::new(start), renderer, seq: 0, now: 0, pieces: 0 };
        stage.event(Event::TurnStarted { turn: "u".into(), prompt: "p".into(), task: "t".into() });
        for _ in 0..lines / 2 {
            stage.text("A line of *text*.\n\n");
        }
        stage.draw();
        stage
    }

    fn event(&mut self, event: Event) {
        self.seq += 1;
        let origin = Origin::agent();
        let envelope = Envelope { seq: Seq(self.seq), at: Millis(0), origin, event };
        update(&mut self.model, Msg::Event(Arc::new(envelope)), Uptime(self.now));
    }

    /// Adds a piece to a message of about forty.
    fn text(&mut self, text: &str) {
        self.pieces += 1;
        let message = format!("m{}", self.pieces / 40).as_str().into();
        self.event(Event::TextAppended { turn: "u".into(), message, text: text.into() });
    }

    fn draw(&mut self) {
        let painted = self.renderer.draw(&mut self.model, Uptime(self.now));
        update(&mut self.model, Msg::Drawn(painted.shown), Uptime(self.now));
    }

    /// Applies the events since the last frame and draws the next one.
    fn frame(&mut self, _number: usize) {
        self.text("\n\nNext, `code` and ");
        for _ in 1..EVENTS {
            self.text("some **more** words ");
        }
        self.draw();
    }

    fn keystroke(&mut self, number: usize) {
        let letter = if number % 60 == 59 { KeyCode::Backspace } else { KeyCode::Char('x') };
        let event = KeyEvent::new(letter, KeyModifiers::NONE);
        update(&mut self.model, Msg::Key(event), Uptime(self.now));
        self.frame(number);
    }
}
