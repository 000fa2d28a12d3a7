//! The calls of the open turn: what is asked, what runs, and how much of its output is shown.
//!
//! An update of a call's output has the whole output, so there are at most ten a second, by the time of the
//! log. Output that is held back is sent with the next event that is late enough, or before the call ends.

use loggia_core::transcript::{LIVE_TAIL, keep_tail};
use loggia_core::{
    Access, ApprovalId, CallId, Choice, Details, Envelope, Event, MessageId, Millis, Risk,
};
use serde_json::Value;

use crate::devtool::AnswerMetadata;

const LIVE_PAUSE: i64 = 100;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Calls {
    /// In the order they were proposed.
    open: Vec<OpenCall>,
    /// The reader is not the owner: answers of the owner are not offered to it.
    guest: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenCall {
    pub id: CallId,
    /// The model's reply that has the call.
    pub message: MessageId,
    pub tool: String,
    pub access: Access,
    pub title: String,
    pub input: Value,
    /// As proposed, or as edited by the person who approved it.
    pub details: Details,
    pub asked: Option<PendingApproval>,
    pub answer: Option<AnswerMetadata>,
    pub started: bool,
    pub ended: bool,
    /// Clients have seen it.
    pub announced: bool,
    live: LiveText,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PendingApproval {
    pub approval: ApprovalId,
    pub choices: Vec<Choice>,
    pub risk: Risk,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct LiveText {
    tail: String,
    shown: Option<Millis>,
    held: bool,
}

impl OpenCall {
    pub fn is_open_question(&self) -> bool {
        self.asked.is_some() && self.answer.is_none() && !self.ended
    }

    /// It ended while its question was open: its turn ended with it, and it never ran.
    pub fn is_withdrawn(&self) -> bool {
        self.asked.is_some() && self.answer.is_none() && self.ended
    }

    pub fn live(&self) -> Option<&str> {
        (!self.live.tail.is_empty()).then_some(self.live.tail.as_str())
    }

    /// Whether held output may be shown now. If so, it counts as shown.
    pub fn shows_live(&mut self, at: Millis) -> bool {
        // A clock that went back must not stop the updates of a call.
        let pause = self.live.shown.map(|shown| at.0.saturating_sub(shown.0));
        let due = pause.is_none_or(|pause| !(0..LIVE_PAUSE).contains(&pause));
        let shows = self.live.held && due;
        if shows {
            self.live.shown = Some(at);
            self.live.held = false;
        }
        shows
    }

    /// The same at the end of the call, for the last time.
    pub fn shows_last_live(&mut self) -> bool {
        std::mem::take(&mut self.live.held)
    }

    fn print(&mut self, text: &str, skipped: u64) {
        if skipped > 0 {
            self.live.tail.push_str(&format!("\n[{skipped} bytes left out]\n"));
        }
        self.live.tail.push_str(text);
        keep_tail(&mut self.live.tail, LIVE_TAIL);
        self.live.held = true;
    }
}

impl Calls {
    /// For a reader that is not the owner (a guest), or for the owner.
    pub fn read_by(guest: bool) -> Self {
        Self { open: Vec::new(), guest }
    }

    pub fn get_mut(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.open.iter_mut().find(|open| open.id == *call)
    }

    /// The calls whose held output may be shown now, except for the call of this event. Their output counts
    /// as shown.
    pub fn due(&mut self, envelope: &Envelope) -> Vec<CallId> {
        let printing = if let Event::CallOutput { call, .. } | Event::CallEnded { call, .. } =
            &envelope.event
        {
            Some(call)
        } else {
            None
        };
        let others = self.open.iter_mut().filter(|call| Some(&call.id) != printing);
        let at = envelope.at;
        others.filter_map(|call| call.shows_live(at).then(|| call.id.clone())).collect()
    }

    pub fn get(&self, call: &CallId) -> Option<&OpenCall> {
        self.open.iter().find(|open| open.id == *call)
    }

    /// Every call of the turn has ended.
    pub fn is_idle(&self) -> bool {
        self.open.iter().all(|call| call.ended)
    }

    pub fn open_questions(&self) -> impl Iterator<Item = &OpenCall> {
        self.open.iter().filter(|call| call.is_open_question())
    }

    pub fn apply(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::CallProposed { message, call, tool, access, title, input, details, .. } => {
                self.open.push(OpenCall {
                    id: call.clone(),
                    message: message.clone(),
                    access: *access,
                    tool: tool.clone(),
                    title: title.clone(),
                    input: input.clone(),
                    details: details.clone(),
                    asked: None,
                    answer: None,
                    started: false,
                    ended: false,
                    announced: false,
                    live: LiveText::default(),
                });
            }
            Event::ApprovalAsked { approval, call, choices, risk } => {
                let guest = self.guest;
                let offered = choices.iter().filter(|choice| !guest || choice.id.is_for_guests());
                let (approval, choices) = (approval.clone(), offered.cloned().collect());
                self.change(call, |open| {
                    open.asked = Some(PendingApproval { approval, choices, risk: *risk });
                    open.answer = None;
                });
            }
            Event::ApprovalAnswered { call, choice, edit, details, .. } => {
                let by = envelope.origin.to_string();
                self.change(call, |open| {
                    let edited = edit.is_some() && details.is_some();
                    open.answer = Some(AnswerMetadata { choice: choice.0.clone(), by, edited });
                    if let Some(details) = details {
                        open.details = details.clone();
                    }
                });
            }
            Event::CallStarted { call, .. } => self.change(call, |open| open.started = true),
            Event::CallOutput { call, text, skipped } => {
                self.change(call, |open| open.print(text, *skipped));
            }
            Event::CallEnded { call, .. } => self.change(call, |open| open.ended = true),
            _ => {}
        }
    }

    /// Drops calls that ended, after their frames are made.
    pub fn forget(&mut self, envelope: &Envelope) {
        if matches!(envelope.event, Event::TurnEnded { .. }) {
            self.open.clear();
        }
        self.open.retain(|call| !call.ended);
    }

    fn change(&mut self, call: &CallId, change: impl FnOnce(&mut OpenCall)) {
        if let Some(open) = self.get_mut(call) {
            change(open);
        }
    }
}
