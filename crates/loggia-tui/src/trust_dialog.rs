//! The trust question: the dialog alone on the screen, before a session starts. As for approvals,
//! earlier input does not answer it, and its text must be seen to the end before it can be
//! accepted.
//!
//! This module does not know the contents or the effect of the question.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use loggia_core::{Choice, ChoiceId, Details, Millis, Risk};
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{Exit, FrameInfo};
use crate::dialog::{Dialog, NEVER, Reaction};
use crate::input::Input;
use crate::keymap::{self, Action, KeyContext};
use crate::questions::OpenQuestion;
use crate::runner::TuiError;
use crate::terminal::Inline;
use crate::theme::Theme;
use crate::tty::{self, Tty};
use crate::uptime::Uptime;
use crate::view::Frame;

/// The question.
pub struct TrustQuestion {
    pub heading: String,
    pub text: String,
    pub theme: Theme,
    /// The terminal wraps long rows when it gets narrower.
    pub reflows: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustDecision {
    Trust,
    NotNow,
    Never,
    /// The person or the terminal left.
    Leave(Exit),
}

/// Asks until there is an answer, then removes the question from the screen.
pub async fn ask_trust(question: TrustQuestion) -> Result<TrustDecision, TuiError> {
    let mut tty = Tty::enter()?;
    let reflows = question.reflows;
    let mut asking = TrustDialog::new(question, crossterm::terminal::size()?);
    let mut inline = Inline::new(asking.size, tty::cursor_row()?);
    let mut input = Input::start();
    let began = Instant::now();
    let uptime = |at: Instant| {
        let since = at.saturating_duration_since(began);
        Uptime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let decision = loop {
        tty.mouse(true)?;
        let frame = asking.draw(uptime(Instant::now()));
        inline.draw(&[], &frame);
        tty.write(&inline.take())?;
        asking.was_drawn(frame.shown(inline.top()), uptime(Instant::now()));
        let wake = asking.dialog.next_move(uptime(Instant::now()));
        let sleep = async {
            match wake {
                Some(at) => {
                    tokio::time::sleep_until((began + Duration::from_millis(at.0)).into()).await;
                }
                None => std::future::pending().await,
            }
        };
        let mut decided = tokio::select! {
            biased;
            _ = terminate.recv() => Some(TrustDecision::Leave(Exit::Terminated)),
            _ = hang_up.recv() => Some(TrustDecision::Leave(Exit::HungUp)),
            _ = interrupt.recv() => Some(TrustDecision::Leave(Exit::Asked)),
            event = input.events.recv() => match event {
                Some((at, Ok(event))) => {
                    if let Event::Resize(width, height) = event {
                        asking.size = (width, height);
                        inline.resized(asking.size, reflows);
                    }
                    asking.read(&event, uptime(at))
                }
                Some((_, Err(_))) | None => Some(TrustDecision::Leave(Exit::HungUp)),
            },
            () = sleep => None,
        };
        if decided.is_none() {
            decided = asking.due(uptime(Instant::now()));
        }
        if let Some(decision) = decided {
            break decision;
        }
    };
    input.stop().await;
    if decision != TrustDecision::Leave(Exit::HungUp) {
        inline.close();
        tty.write(&inline.take())?;
    }
    Ok(decision)
}

/// The state machine, without terminal and clock.
struct TrustDialog {
    dialog: Dialog,
    theme: Theme,
    size: (u16, u16),
}

impl TrustDialog {
    fn new(question: TrustQuestion, size: (u16, u16)) -> Self {
        let TrustQuestion { heading, text, theme, .. } = question;
        let choice = |id: &str, name: &str| Choice {
            id: id.into(),
            name: name.to_owned(),
            description: None,
        };
        let dialog = Dialog::for_trust(OpenQuestion {
            approval: "trust".into(),
            call: "trust".into(),
            tool: String::new(),
            title: heading,
            details: Details::Generic { text },
            choices: vec![
                choice(ChoiceId::PROCEED_ONCE, "Trust it"),
                choice(ChoiceId::CANCEL, "Not now: continue without it, ask again next time"),
                choice(NEVER, "Never: continue without it, do not ask again"),
            ],
            risk: Risk::High,
            asked: Millis(0), // it has no time-out
        });
        Self { dialog, theme, size }
    }

    fn draw(&mut self, now: Uptime) -> Frame {
        let (width, height) = (self.size.0, usize::from(self.size.1));
        let drawn = self.dialog.draw(width, height, &self.theme, now);
        Frame::of_question(drawn, self.dialog.question.approval.clone())
    }

    fn was_drawn(&mut self, shown: FrameInfo, now: Uptime) {
        let seen_end = shown.question.is_some_and(|(_, end)| end);
        self.dialog.was_drawn(now, seen_end);
        self.dialog.answer_rows = shown.answers;
    }

    fn read(&mut self, event: &Event, now: Uptime) -> Option<TrustDecision> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key, now),
            // There is no composer for pasted text, and it answers nothing.
            Event::Paste(_) => {
                self.dialog.take_word();
                self.dialog.was_typed(now);
                None
            }
            Event::Mouse(mouse) => self.mouse(*mouse, now),
            _ => None,
        }
    }

    fn key(&mut self, event: &KeyEvent, now: Uptime) -> Option<TrustDecision> {
        match keymap::own_action(KeyContext::Anywhere, event) {
            Some(Action::Leave | Action::LeaveIfEmpty) => Some(TrustDecision::Leave(Exit::Asked)),
            _ => {
                let due = self.due(now);
                let reaction = self.dialog.key(event, now);
                // There is no composer for a word, and it answers nothing.
                if reaction == Reaction::Elsewhere {
                    self.dialog.take_word();
                }
                due.or_else(|| decision(reaction))
            }
        }
    }

    /// Handles a pending letter whose waiting time is over.
    fn due(&mut self, now: Uptime) -> Option<TrustDecision> {
        self.dialog.due(now).and_then(decision)
    }

    fn mouse(&mut self, event: MouseEvent, now: Uptime) -> Option<TrustDecision> {
        let rows = match event.kind {
            MouseEventKind::ScrollUp => -3,
            MouseEventKind::ScrollDown => 3,
            MouseEventKind::Down(MouseButton::Left) => {
                let hit = self.dialog.answer_rows.iter().find(|(at, _)| *at == event.row);
                let index = hit.map(|(_, index)| *index)?;
                return decision(self.dialog.click(index, now));
            }
            _ => return None,
        };
        self.dialog.scroll_by(rows);
        None
    }
}

fn decision(reaction: Reaction) -> Option<TrustDecision> {
    let Reaction::Answer(choice, _) = reaction else { return None };
    Some(match choice.0.as_str() {
        ChoiceId::PROCEED_ONCE => TrustDecision::Trust,
        NEVER => TrustDecision::Never,
        _ => TrustDecision::NotNow,
    })
}

#[cfg(test)]
#[path = "trust_dialog_tests.rs"]
mod tests;
