//! Random tests of everything at once: any session events, any keys, constant resizes. All input is
//! derived from bytes, so that a property test, the fuzzer and a regression run the same code.

use std::num::NonZero;
use std::sync::Arc;

use loggia_core::{Envelope, Event, Millis, Origin, Seq, SessionId, Surface, Workspace};
use loggia_testkit::terminal::foreign_in_picture;
use loggia_tui::app::{Effect, Model, Msg, update};
use loggia_tui::renderer::Renderer;
use loggia_tui::theme::{Background, Depth, Theme};
use loggia_tui::uptime::Uptime;
use loggia_tui::{ConnectedClient, Invitation, Preview, ShareFacts, Start, view};

// Named, because the fuzzer includes this file from another place.
#[path = "random.rs"]
mod random;
use random::RandomInput;

struct Storm {
    model: Model,
    renderer: Renderer,
    parser: vt100::Parser,
    now: u64,
    seq: Seq,
    narrow: bool,
    alternate: bool,
}

fn some(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

impl Storm {
    fn new(input: &mut RandomInput<'_>) -> Self {
        let size = input.size();
        let depth = input.one_of(&[Depth::None, Depth::Sixteen, Depth::Indexed]);
        let background = input.one_of(&[Background::Dark, Background::Light]);
        let reflows = input.below(2) == 0;
        let start = Start {
            me: Origin::new(Surface::Tui, "me"),
            head: Seq(u64::from(input.byte() % 8)),
            opened: Millis(0),
            history: (0..input.below(3)).map(|_| input.text()).collect(),
            fullscreen: input.below(8) == 0,
            size,
            reflows,
            theme: Theme::new(depth, background),
            prices: loggia_core::Prices::default(),
            asks_background: false,
            vim: input.below(4) == 0,
        };
        let mut storm = Self {
            model: Model::new(start),
            renderer: Renderer::new(size, Some(0), reflows),
            parser: vt100::Parser::new(some(size.1), some(size.0), 500),
            now: 0,
            seq: Seq::ZERO,
            narrow: input.narrow,
            alternate: false,
        };
        let workspace = Workspace::Local { path: input.text() };
        let agent = loggia_core::AgentName("agent".to_owned());
        let opened = Event::SessionOpened { workspace, settings: input.settings(), agent };
        storm.event(Origin::system(), opened);
        storm
    }

    fn event(&mut self, origin: Origin, event: Event) {
        self.seq = self.seq.next();
        let at = Millis(i64::try_from(self.now).unwrap());
        self.send(Msg::Event(Arc::new(Envelope { seq: self.seq, at, origin, event })));
    }

    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        update(&mut self.model, msg, Uptime(self.now))
    }

    fn step(&mut self, input: &mut RandomInput<'_>) {
        let effects = match input.below(20) {
            0..=8 => {
                let (origin, event) = (input.origin(), input.event());
                self.event(origin, event);
                Vec::new()
            }
            9..=13 => self.send(Msg::Key(input.key())),
            14 => self.send(Msg::Paste(input.text().repeat(1 + input.below(4)))),
            15 => self.send(Msg::Mouse(input.mouse())),
            16 | 17 => {
                // Several events between two frames are one change.
                for _ in 0..=input.below(4) {
                    let (columns, rows) = input.size();
                    self.parser.screen_mut().set_size(some(rows), some(columns));
                    self.renderer.resized();
                    self.send(Msg::Resize(columns, rows));
                }
                Vec::new()
            }
            18 => {
                self.now += 1 << input.below(14);
                self.send(Msg::Tick)
            }
            _ => match input.below(3) {
                0 => self.send(Msg::ConnectionProblem(input.text())),
                1 => self.send(Msg::Focus(input.below(2) == 0)),
                _ => {
                    let name = input.text();
                    self.send(Msg::Present(vec![ConnectedClient { surface: Surface::A2a, name }]))
                }
            },
        };
        for effect in effects {
            self.perform(effect, input);
        }
    }

    fn perform(&mut self, effect: Effect, input: &mut RandomInput<'_>) {
        match effect {
            Effect::Redraw => self.renderer.forget(),
            Effect::FindFiles(query) => {
                let found = (0..input.below(4)).map(|_| input.text()).collect();
                drop(self.send(Msg::Files { query, found }));
            }
            Effect::LoadSessions => {
                let preview = |_| Preview {
                    session: SessionId::from("s"),
                    when: input.text(),
                    name: Some(input.text()),
                    title: input.text(),
                    lines: vec![input.text(); 3],
                    here: true,
                };
                let previews = (0..3).map(preview).collect();
                drop(self.send(Msg::Sessions(Ok(previews))));
            }
            Effect::LoadShare => {
                let invitation =
                    Invitation { code: input.text(), terms: input.text(), command: input.text() };
                let facts = ShareFacts {
                    urls: vec![input.text()],
                    attach: Some(input.text()),
                    code: Some(input.text()),
                    token: None,
                    invitation: input.text().len().is_multiple_of(2).then_some(invitation),
                };
                drop(self.send(Msg::Share(facts)));
            }
            Effect::EditOutside { what, .. } => {
                let result = Ok(Some(input.text()));
                drop(self.send(Msg::Edited { what, result }));
            }
            _ => {}
        }
    }

    fn draw(&mut self) {
        // The runner's work before switching the screen.
        if self.alternate != self.model.full.is_some() {
            self.alternate = !self.alternate;
            let change: &[u8] = if self.alternate { b"\x1b[?1049h" } else { b"\x1b[?1049l" };
            self.parser.process(change);
        }
        let painted = self.renderer.draw(&mut self.model, Uptime(self.now));
        assert_eq!(foreign_in_picture(&painted.bytes), None);
        self.parser.process(&painted.bytes);
        if self.narrow {
            self.compare(painted.last);
        }
        self.send(Msg::Drawn(painted.shown));
    }

    /// The terminal shows the intended screen, whatever was painted before.
    fn compare(&mut self, last: Option<u16>) {
        let (width, height) = self.model.size;
        let now = Uptime(self.now);
        let hidden = self.parser.screen().hide_cursor();
        let (wanted, first) = match self.alternate {
            true => {
                let (buffer, frame) = view::fullscreen(&mut self.model, now);
                assert_eq!(hidden, frame.cursor.is_none());
                let row = |cells: &[ratatui::buffer::Cell]| -> String {
                    cells.iter().map(ratatui::buffer::Cell::symbol).collect()
                };
                (buffer.content.chunks(usize::from(width)).map(row).collect::<Vec<_>>(), 0)
            }
            false => {
                let frame = view::inline(&mut self.model, now);
                let rows = frame.lines.len().min(usize::from(height));
                let skip = frame.lines.len() - rows;
                let shown = frame.cursor.is_some_and(|(_, row)| usize::from(row) >= skip);
                assert_eq!(hidden, !shown);
                let lines = frame.lines.iter().skip(skip).map(ToString::to_string).collect();
                // With an unknown position there is nothing to compare.
                let Some(last) = last else { return };
                (lines, (usize::from(last) + 1).saturating_sub(rows))
            }
        };
        let shown: Vec<String> = self.parser.screen().rows(0, width).skip(first).collect();
        for (wanted, shown) in wanted.iter().zip(&shown) {
            let cut: String = wanted.chars().take(usize::from(width)).collect();
            assert_eq!(cut.trim_end(), shown.trim_end(), "of\n{}", self.parser.screen().contents());
        }
    }
}

/// Runs the events encoded in the bytes.
pub fn storm(bytes: &[u8]) {
    let mut input = RandomInput { rest: bytes, narrow: false };
    input.narrow = input.below(2) == 0;
    let mut storm = Storm::new(&mut input);
    storm.draw();
    while !input.rest.is_empty() {
        storm.step(&mut input);
        // Several events share a frame.
        if input.below(4) > 0 {
            storm.draw();
        }
    }
    storm.draw();
}
