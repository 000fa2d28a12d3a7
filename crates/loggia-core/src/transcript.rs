//! The transcript of a session: a list of cells with stable ids, folded from the log.
//!
//! It does not depend on a screen: a terminal, a page and an export render the same cells. The text of a
//! cell is unfiltered; control characters must be removed before it is printed.

use std::collections::HashMap;

use serde::Serialize;

use crate::approval::ChoiceId;
use crate::call::{CallOutcome, CallState, Details};
use crate::event::{Authority, Envelope, Event, Level, PlanStep, Screening, Source, TurnOutcome};
use crate::id::{CallId, MessageId, Millis, PromptId, Seq};
use crate::name::SessionName;
use crate::origin::{Origin, Surface};

/// Bytes of a running call's output that a cell keeps.
pub const LIVE_TAIL: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// The sequence number of the event that created the cell; never changes.
    pub id: Seq,
    pub at: Millis,
    pub origin: Origin,
    pub body: CellBody,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CellBody {
    Prompt {
        text: String,
        queued: bool,
        withdrawn: bool,
    },
    /// `discarded`: the reply broke off and was asked for again.
    Text {
        text: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        discarded: bool,
    },
    Thought {
        subject: String,
        text: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        discarded: bool,
    },
    Plan {
        steps: Vec<PlanStep>,
    },
    Sources {
        sources: Vec<Source>,
    },
    Call(Box<CallCell>),
    Notice {
        level: Level,
        text: String,
    },
    TurnEnd {
        outcome: TurnOutcome,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallCell {
    pub call: CallId,
    pub tool: String,
    pub title: String,
    pub details: Details,
    pub state: CallState,
    pub answered: Option<(ChoiceId, Origin)>,
    /// A person typed exactly this line.
    pub typed: bool,
    /// The end of the call's output so far, and the number of bytes left out before it.
    pub live: String,
    pub skipped: u64,
    pub outcome: Option<CallOutcome>,
    pub started: Option<Millis>,
    pub ended: Option<Millis>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    cells: Vec<Cell>,
    calls: HashMap<CallId, usize>,
    /// Waiting prompts, oldest first. Each becomes a cell when its turn begins.
    waiting: Vec<(PromptId, Cell)>,
    /// Key and index of the cell to which the next piece of the same message is appended.
    open: Option<(String, usize)>,
    /// The last reply, and the index of its first cell.
    reply: Option<(MessageId, usize)>,
    name: Option<String>,
}

impl Transcript {
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Prompts whose turn has not begun, oldest first. They are shown below all cells.
    pub fn waiting(&self) -> impl Iterator<Item = &Cell> {
        self.waiting.iter().map(|(_, cell)| cell)
    }

    /// The name of the session, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn apply(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::PromptAccepted { prompt, content, .. } => {
                let text = content.shown();
                let body = CellBody::Prompt { text, queued: true, withdrawn: false };
                self.waiting.push((prompt.clone(), cell(envelope, body)));
            }
            Event::PromptWithdrawn { prompt } => self.add_prompt(prompt, true),
            Event::TurnStarted { prompt, .. } => self.add_prompt(prompt, false),
            Event::TextAppended { message, text, .. } => {
                let key = format!("text {message}");
                match self.joined(&key) {
                    Some(CellBody::Text { text: whole, .. }) => whole.push_str(text),
                    _ => {
                        let body = CellBody::Text { text: text.clone(), discarded: false };
                        self.push_open(envelope, key, body);
                    }
                }
                self.belongs_to(message);
            }
            Event::ThoughtAppended { message, subject, text, .. } => {
                let key = format!("thought {message} {subject}");
                match self.joined(&key) {
                    Some(CellBody::Thought { text: whole, .. }) => whole.push_str(text),
                    _ => {
                        let (subject, text) = (subject.clone(), text.clone());
                        let body = CellBody::Thought { subject, text, discarded: false };
                        self.push_open(envelope, key, body);
                    }
                }
                self.belongs_to(message);
            }
            Event::ReplyDiscarded { message, .. } => self.discard(message),
            Event::PlanUpdated { steps, .. } => {
                self.push(envelope, CellBody::Plan { steps: steps.clone() });
            }
            Event::SourcesCited { sources, .. } => {
                self.push(envelope, CellBody::Sources { sources: sources.clone() });
            }
            Event::CallProposed { call, tool, title, details, .. } => {
                self.calls.insert(call.clone(), self.cells.len());
                let body = CellBody::Call(Box::new(CallCell {
                    call: call.clone(),
                    tool: tool.clone(),
                    title: title.clone(),
                    details: details.clone(),
                    state: CallState::Proposed,
                    answered: None,
                    typed: false,
                    live: String::new(),
                    skipped: 0,
                    outcome: None,
                    started: None,
                    ended: None,
                }));
                self.push(envelope, body);
            }
            Event::ApprovalAsked { call, .. } => {
                self.call(call, |cell| cell.state = CallState::Asked)
            }
            Event::ApprovalAnswered { call, choice, details, .. } => {
                let by = envelope.origin.clone();
                self.call(call, |cell| {
                    cell.answered = Some((choice.clone(), by));
                    if let Some(details) = details {
                        cell.details = details.clone();
                    }
                });
            }
            Event::CallStarted { call, authority } => {
                self.call(call, |cell| {
                    cell.state = CallState::Started;
                    cell.typed = matches!(authority, Authority::Typed { .. });
                    cell.started = Some(envelope.at);
                });
            }
            Event::CallOutput { call, text, skipped } => self.call(call, |cell| {
                cell.live.push_str(text);
                let whole = cell.live.len();
                keep_tail(&mut cell.live, LIVE_TAIL);
                let dropped = u64::try_from(whole - cell.live.len()).unwrap_or(u64::MAX);
                cell.skipped = cell.skipped.saturating_add(*skipped).saturating_add(dropped);
            }),
            Event::CallEnded { call, outcome } => {
                self.call(call, |cell| {
                    cell.state = CallState::Ended;
                    cell.outcome = Some(outcome.clone());
                    cell.ended = Some(envelope.at);
                });
                self.calls.remove(call);
            }
            Event::ArtifactPublished { artifact, .. } => {
                let text = format!("Published {}.", artifact.name);
                self.push(envelope, CellBody::Notice { level: Level::Info, text });
            }
            // A notice tells people about it.
            Event::ContextCompacted { automatic: true, .. } => {}
            Event::ContextCompacted { summary, .. } => {
                let text = match summary.is_empty() {
                    true => "The conversation starts over here; the log is kept.".to_owned(),
                    false => "A summary replaces the conversation up to here.".to_owned(),
                };
                self.push(envelope, CellBody::Notice { level: Level::Info, text });
            }
            Event::SessionNamed { name } => {
                self.name = Some(name.clone());
                // If the agent named it, the turn contains the notice.
                if envelope.origin.surface != Surface::Agent {
                    let text = SessionName::notice(name);
                    self.push(envelope, CellBody::Notice { level: Level::Info, text });
                }
            }
            Event::PromptExpanded { command, source, text, .. } => {
                let text = Event::expansion(command, source, text);
                self.push(envelope, CellBody::Notice { level: Level::Info, text });
            }
            Event::PromptScreened { content, screening, .. } => match screening {
                Screening::Rejected { reason } => {
                    let text = format!("A message was rejected: {reason}");
                    self.push(envelope, CellBody::Notice { level: Level::Info, text });
                }
                Screening::Answered { text } => {
                    let asked = content.to_text();
                    let prompt = CellBody::Prompt { text: asked, queued: false, withdrawn: false };
                    self.push(envelope, prompt);
                    let text = format!("It was answered without a turn: {text}");
                    self.push(envelope, CellBody::Notice { level: Level::Info, text });
                }
            },
            Event::NoticeRaised { level, text, .. } => {
                self.push(envelope, CellBody::Notice { level: *level, text: text.clone() });
            }
            Event::TurnEnded { outcome, .. } => {
                self.push(envelope, CellBody::TurnEnd { outcome: outcome.clone() });
            }
            Event::SessionOpened { .. }
            | Event::SettingsChanged { .. }
            | Event::PolicyAmended { .. }
            | Event::SessionClosed { .. }
            | Event::TaskOpened { .. }
            | Event::TaskClosed { .. }
            | Event::UsageReported { .. }
            | Event::ModelRecord { .. }
            | Event::Unknown => {}
        }
    }

    fn push(&mut self, envelope: &Envelope, body: CellBody) {
        self.open = None;
        self.cells.push(cell(envelope, body));
    }

    fn push_open(&mut self, envelope: &Envelope, key: String, body: CellBody) {
        self.push(envelope, body);
        self.open = Some((key, self.cells.len() - 1));
    }

    /// Remembers that the last cell is a part of this reply.
    fn belongs_to(&mut self, message: &MessageId) {
        if self.reply.as_ref().is_none_or(|(known, _)| known != message) {
            self.reply = Some((message.clone(), self.cells.len().saturating_sub(1)));
        }
    }

    fn discard(&mut self, message: &MessageId) {
        self.open = None;
        let Some((_, first)) = self.reply.take().filter(|(known, _)| known == message) else {
            return;
        };
        for cell in self.cells.iter_mut().skip(first) {
            if let CellBody::Text { discarded, .. } | CellBody::Thought { discarded, .. } =
                &mut cell.body
            {
                *discarded = true;
            }
        }
    }

    fn joined(&mut self, key: &str) -> Option<&mut CellBody> {
        let (open, index) = self.open.as_ref()?;
        let index = (open == key).then_some(*index)?;
        self.cells.get_mut(index).map(|cell| &mut cell.body)
    }

    fn call(&mut self, call: &CallId, change: impl FnOnce(&mut CallCell)) {
        let cell = self.calls.get(call).and_then(|index| self.cells.get_mut(*index));
        if let Some(Cell { body: CellBody::Call(cell), .. }) = cell {
            change(cell);
        }
    }

    /// Adds the cell of a prompt when its turn begins or when it is withdrawn.
    fn add_prompt(&mut self, prompt: &PromptId, gone: bool) {
        let Some(index) = self.waiting.iter().position(|(known, _)| known == prompt) else {
            return;
        };
        let (_, mut cell) = self.waiting.remove(index);
        if let CellBody::Prompt { queued, withdrawn, .. } = &mut cell.body {
            *queued = false;
            *withdrawn = gone;
        }
        self.open = None;
        self.cells.push(cell);
    }
}

fn cell(envelope: &Envelope, body: CellBody) -> Cell {
    Cell { id: envelope.seq, at: envelope.at, origin: envelope.origin.clone(), body }
}

/// Drops text from the front until at most `limit` bytes are left, on a character boundary.
pub fn keep_tail(text: &mut String, limit: usize) {
    if text.len() <= limit {
        return;
    }
    let mut cut = text.len() - limit;
    while !text.is_char_boundary(cut) {
        cut += 1;
    }
    text.drain(..cut);
}
