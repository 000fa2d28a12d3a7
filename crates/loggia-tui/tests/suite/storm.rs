//! Random tests of everything at once: any session events, any keys, constant resizes. All input is
//! derived from bytes, so that a property test, the fuzzer and a regression run the same code.

use std::num::NonZero;
use std::sync::Arc;

use loggia_core::{Envelope, Event, Millis, Origin, Seq, SessionId, Surface, Workspace};
use loggia_testkit::terminal::foreign_in_picture;
use loggia_tui::app::{Effect, Model, Msg, update};
use loggia_tui::moment::Moment;
use loggia_tui::picture::Picture;
use loggia_tui::theme::{Background, Depth, Theme};
use loggia_tui::{Invitation, Present, Preview, ShareFacts, Start, view};

// Named, because the fuzzer includes this file from another place.
#[path = "dice.rs"]
mod dice;
use dice::Dice;

struct Storm {
    model: Model,
    picture: Picture,
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
    fn new(dice: &mut Dice<'_>) -> Self {
        let size = dice.size();
        let depth = dice.one_of(&[Depth::None, Depth::Sixteen, Depth::Indexed]);
        let background = dice.one_of(&[Background::Dark, Background::Light]);
        let reflows = dice.below(2) == 0;
        let start = Start {
            me: Origin::new(Surface::Tui, "me"),
            head: Seq(u64::from(dice.byte() % 8)),
            opened: Millis(0),
            history: (0..dice.below(3)).map(|_| dice.text()).collect(),
            fullscreen: dice.below(8) == 0,
            size,
            reflows,
            theme: Theme::new(depth, background),
            prices: loggia_core::Prices::default(),
            asks_background: false,
            vim: dice.below(4) == 0,
        };
        let mut storm = Self {
            model: Model::new(start),
            picture: Picture::new(size, Some(0), reflows),
            parser: vt100::Parser::new(some(size.1), some(size.0), 500),
            now: 0,
            seq: Seq::ZERO,
            narrow: dice.narrow,
            alternate: false,
        };
        let workspace = Workspace::Local { path: dice.text() };
        let agent = loggia_core::AgentName("agent".to_owned());
        let opened = Event::SessionOpened { workspace, settings: dice.settings(), agent };
        storm.event(Origin::system(), opened);
        storm
    }

    fn event(&mut self, origin: Origin, event: Event) {
        self.seq = self.seq.next();
        let at = Millis(i64::try_from(self.now).unwrap());
        self.send(Msg::Event(Arc::new(Envelope { seq: self.seq, at, origin, event })));
    }

    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        update(&mut self.model, msg, Moment(self.now))
    }

    fn step(&mut self, dice: &mut Dice<'_>) {
        let effects = match dice.below(20) {
            0..=8 => {
                let (origin, event) = (dice.origin(), dice.event());
                self.event(origin, event);
                Vec::new()
            }
            9..=13 => self.send(Msg::Key(dice.key())),
            14 => self.send(Msg::Paste(dice.text().repeat(1 + dice.below(4)))),
            15 => self.send(Msg::Mouse(dice.mouse())),
            16 | 17 => {
                // Several events between two frames are one change.
                for _ in 0..=dice.below(4) {
                    let (columns, rows) = dice.size();
                    self.parser.screen_mut().set_size(some(rows), some(columns));
                    self.picture.resized();
                    self.send(Msg::Resize(columns, rows));
                }
                Vec::new()
            }
            18 => {
                self.now += 1 << dice.below(14);
                self.send(Msg::Tick)
            }
            _ => match dice.below(3) {
                0 => self.send(Msg::Trouble(dice.text())),
                1 => self.send(Msg::Focus(dice.below(2) == 0)),
                _ => {
                    let name = dice.text();
                    self.send(Msg::Present(vec![Present { surface: Surface::A2a, name }]))
                }
            },
        };
        for effect in effects {
            self.perform(effect, dice);
        }
    }

    fn perform(&mut self, effect: Effect, dice: &mut Dice<'_>) {
        match effect {
            Effect::Redraw => self.picture.forget(),
            Effect::FindFiles(query) => {
                let found = (0..dice.below(4)).map(|_| dice.text()).collect();
                drop(self.send(Msg::Files { query, found }));
            }
            Effect::LoadSessions => {
                let preview = |_| Preview {
                    session: SessionId::from("s"),
                    when: dice.text(),
                    name: Some(dice.text()),
                    title: dice.text(),
                    lines: vec![dice.text(); 3],
                    here: true,
                };
                let previews = (0..3).map(preview).collect();
                drop(self.send(Msg::Sessions(Ok(previews))));
            }
            Effect::LoadShare => {
                let invitation =
                    Invitation { code: dice.text(), terms: dice.text(), command: dice.text() };
                let facts = ShareFacts {
                    urls: vec![dice.text()],
                    attach: Some(dice.text()),
                    code: Some(dice.text()),
                    token: None,
                    invitation: dice.text().len().is_multiple_of(2).then_some(invitation),
                };
                drop(self.send(Msg::Share(facts)));
            }
            Effect::EditOutside { what, .. } => {
                let result = Ok(Some(dice.text()));
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
        let painted = self.picture.draw(&mut self.model, Moment(self.now));
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
        let now = Moment(self.now);
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
    let mut dice = Dice { rest: bytes, narrow: false };
    dice.narrow = dice.below(2) == 0;
    let mut storm = Storm::new(&mut dice);
    storm.draw();
    while !dice.rest.is_empty() {
        storm.step(&mut dice);
        // Several events share a frame.
        if dice.below(4) > 0 {
            storm.draw();
        }
    }
    storm.draw();
}
