//! Generates sessions and input from bytes, with texts that caused errors before.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use loggia_core::{
    Access, ApprovalId, Authority, CallFailure, CallId, CallOutcome, Choice, ChoiceId, Content,
    Details, Event, FileDiff, Level, MessageId, Mode, ModelName, Origin, Output, PlanStep,
    PromptId, Risk, Seq, Settings, Source, StepState, Surface, TaskId, TurnId, TurnOutcome, Usage,
};

/// The smallest supported terminal.
const SMALLEST: (u16, u16) = (10, 3);

/// Texts that caused errors before.
const NASTY: &[&str] = &[
    "word ",
    "two words ",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    "\t",
    "\u{8}",
    "\u{0}",
    "\u{7f}",
    "\u{9b}2J",
    "\u{1b}[2J",
    "\u{1b}[31m",
    "\u{1b}[38;5;300m",
    "\u{1b}[999A",
    "\u{1b}[5C",
    "\u{1b}[K",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]52;c;ZXZpbA==\u{1b}\\",
    "\u{1b}[?1049l",
    "\u{1b}P+q\u{1b}\\",
    "\u{1b}[",
    "\u{1b}",
    "\u{202e}",
    "\u{200b}",
    "\u{feff}",
    "漢字",
    "👩‍💻",
    "🇩🇪",
    "e\u{301}",
    "ｶﾞ",
    "1\u{fe0f}\u{20e3}",
    "```rust\nfn a() {}\n",
    "```\n",
    "~~~",
    "- ",
    "1. ",
    "> ",
    "# ",
    "**",
    "`",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "[x](http://y)",
    "<b>",
    "    ",
    "/",
    "@",
    "Allow once",
    "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// Bytes as decisions, until they are used up.
pub struct RandomInput<'a> {
    pub rest: &'a [u8],
    /// No text that terminals display differently.
    pub narrow: bool,
}

impl RandomInput<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    fn id(&mut self, kind: &str) -> String {
        format!("{kind}{}", self.byte() % 3)
    }

    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        let index = self.below(all.len());
        all[index].clone()
    }

    /// Some pieces; a high byte is followed by arbitrary bytes.
    pub fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.below(6) {
            match self.byte() {
                piece @ 0..192 => text.push_str(NASTY[usize::from(piece) % NASTY.len()]),
                length => {
                    let length = usize::from(length - 192).min(self.rest.len());
                    let (raw, rest) = self.rest.split_at(length);
                    text.push_str(&String::from_utf8_lossy(raw));
                    self.rest = rest;
                }
            }
        }
        if self.narrow {
            text.retain(|letter| letter.is_ascii());
        }
        text
    }

    pub fn size(&mut self) -> (u16, u16) {
        let (columns, rows) = (u16::from(self.byte()) % 140, u16::from(self.byte()) % 40);
        (columns.max(SMALLEST.0), rows.max(SMALLEST.1))
    }

    pub fn origin(&mut self) -> Origin {
        match self.below(4) {
            0 => Origin::new(Surface::Tui, "me"),
            1 => Origin::agent(),
            _ => {
                let client = self.text();
                let surface =
                    self.one_of(&[Surface::A2a, Surface::Acp, Surface::Web, Surface::Cli]);
                Origin::new(surface, client.as_str())
            }
        }
    }

    fn details(&mut self) -> Details {
        match self.below(5) {
            0 => Details::Execute { command: self.text(), directory: self.text() },
            1 | 2 => {
                let (path, new) = (self.text(), self.text().repeat(1 + self.below(12)));
                let old = (self.below(3) > 0).then(|| self.text().repeat(1 + self.below(12)));
                Details::Edit(FileDiff::between(&path, &path, old.as_deref(), &new))
            }
            3 => Details::Question {
                text: self.text(),
                options: (0..self.below(3)).map(|_| self.text()).collect(),
            },
            _ => Details::Generic { text: self.text() },
        }
    }

    fn choices(&mut self) -> Vec<Choice> {
        let known = [
            "proceed_once",
            "proceed_always",
            "proceed_always_project",
            "answer",
            "else",
            "cancel",
        ];
        let from = self.below(known.len());
        let choice = |id: &&str| {
            let description = (self.below(2) == 0).then(|| self.text());
            Choice { id: ChoiceId::from(*id), name: self.text(), description }
        };
        known[from..].iter().map(choice).collect()
    }

    pub fn settings(&mut self) -> Settings {
        let mode = self.one_of(&[Mode::Ask, Mode::Edits, Mode::All, Mode::Plan]);
        let model = ModelName(self.text());
        let (unattended, limits) = (self.below(2) == 0, Default::default());
        Settings {
            model,
            effort: None,
            mode,
            rules: Vec::new(),
            tools: None,
            unattended,
            timeout: None,
            limits,
        }
    }

    pub fn event(&mut self) -> Event {
        let turn = TurnId::from("t");
        let message = MessageId::from(self.id("m").as_str());
        let call = CallId::from(self.id("c").as_str());
        let prompt = PromptId::from(self.id("p").as_str());
        let approval = ApprovalId::from(self.id("a").as_str());
        let task = TaskId::from("task");
        match self.below(23) {
            0 => {
                let (content, shell) = (Content::text(self.text()).into(), self.below(4) == 0);
                Event::PromptAccepted { prompt, task, content, shell }
            }
            1 => Event::PromptWithdrawn { prompt },
            2 | 3 => Event::TurnStarted { turn, prompt, task },
            4 => {
                let outcome = match self.below(4) {
                    0 => TurnOutcome::failed(self.text()),
                    1 => TurnOutcome::Cancelled,
                    _ => TurnOutcome::Completed,
                };
                Event::TurnEnded { turn, outcome }
            }
            5 | 6 => Event::TextAppended { turn, message, text: self.text() },
            7 => Event::ThoughtAppended { turn, message, subject: self.text(), text: self.text() },
            8 => {
                let states = [StepState::Pending, StepState::InProgress, StepState::Completed];
                let step = |_| PlanStep { text: self.text(), state: self.one_of(&states) };
                Event::PlanUpdated { turn, steps: (0..3).map(step).collect() }
            }
            9 => {
                let source = |_| Source { title: self.text(), uri: self.text() };
                Event::SourcesCited { turn, sources: (0..2).map(source).collect() }
            }
            10 => {
                let tokens = u64::from(self.byte()) << (self.byte() % 40);
                let usage = Usage { input_tokens: tokens, ..Usage::default() };
                let window = (self.below(2) == 0).then(|| u64::from(self.byte()) << 10);
                Event::UsageReported { turn, model: ModelName(self.text()), usage, window }
            }
            11 | 12 => Event::CallProposed {
                turn,
                message,
                call,
                tool: self.text(),
                title: self.text(),
                access: self.one_of(&[Access::Read, Access::Edit, Access::Execute, Access::Ask]),
                input: serde_json::Value::Null,
                details: self.details(),
            },
            13 | 14 => {
                let risk = self.one_of(&[Risk::Normal, Risk::High]);
                Event::ApprovalAsked { approval, call, choices: self.choices(), risk }
            }
            15 => {
                let details = (self.below(2) == 0).then(|| self.details());
                let choice = ChoiceId::from(self.one_of(&["proceed_once", "cancel", "answer"]));
                Event::ApprovalAnswered {
                    approval,
                    call,
                    choice,
                    edit: None,
                    details,
                    message: None,
                }
            }
            16 => Event::CallStarted {
                call,
                authority: Authority::Rule { rule: self.text(), id: None },
            },
            17 => Event::CallOutput {
                call,
                text: self.text().repeat(1 + self.below(20)),
                skipped: u64::from(self.byte() / 128) * 1000,
            },
            18 => {
                let outcome = match self.below(3) {
                    0 => CallOutcome::Succeeded { output: Output::text(self.text()) },
                    1 => CallOutcome::Failed { failure: CallFailure::new("x", self.text()) },
                    _ => CallOutcome::Cancelled { reason: self.text() },
                };
                Event::CallEnded { call, outcome }
            }
            19 => {
                let level = self.one_of(&[Level::Info, Level::Warning, Level::Error]);
                Event::NoticeRaised { level, text: self.text(), wait: None }
            }
            21 => Event::SessionNamed { name: self.text() },
            20 => Event::SettingsChanged { settings: self.settings() },
            _ => {
                let automatic = self.below(2) == 0;
                Event::ContextCompacted {
                    upto: Seq(1),
                    summary: self.text(),
                    automatic,
                    within_turn: false,
                }
            }
        }
    }

    pub fn key(&mut self) -> KeyEvent {
        let modifiers = match self.below(8) {
            0 => KeyModifiers::CONTROL,
            1 => KeyModifiers::ALT,
            2 => KeyModifiers::SHIFT,
            _ => KeyModifiers::NONE,
        };
        let named = [
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::F(1),
        ];
        let code = match self.byte() {
            letter @ b' '..=b'~' => KeyCode::Char(char::from(letter)),
            128..=191 if !self.narrow => {
                KeyCode::Char(self.one_of(&['漢', 'é', '\u{301}', '\u{202e}', '👩', '?']))
            }
            other => named[usize::from(other) % named.len()],
        };
        KeyEvent::new(code, modifiers)
    }

    pub fn mouse(&mut self) -> MouseEvent {
        let kind = self.one_of(&[
            MouseEventKind::ScrollUp,
            MouseEventKind::ScrollDown,
            MouseEventKind::Down(MouseButton::Left),
            MouseEventKind::Moved,
        ]);
        let (column, row) = (u16::from(self.byte()), u16::from(self.byte()) % 40);
        MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }
    }
}
