//! From the log to what a model is told: the recent turns as a conversation.
//!
//! Built once when a turn starts and kept up to date by the turn loop. Bounded in bytes: the oldest
//! turns are left out first, never a part of the running one. Commands are no part of it.

use std::sync::Arc;

use loggia_core::slash::{self, PromptKind};
use loggia_core::{
    CallFailure, CallId, CallOutcome, Content, Envelope, Event, MessageId, Output, PromptId, Seq,
    TurnId,
};
use serde_json::Value;
use std::collections::HashMap;

use crate::compaction::{Held, Room};
use crate::model::{Message, PastCall, Reply};

/// Text of earlier turns that a model is reminded of, where nobody knows how much it can hold.
const EARLIER_BYTES: usize = 192 * 1024;

const UNKNOWN: Room = Room { told: EARLIER_BYTES, summarised: EARLIER_BYTES };
/// What is told of each reply and of each call's result where a turn is too large to be summarised
/// whole.
const PIECE_BYTES: usize = 1024;

/// One turn of the conversation.
struct PastTurn {
    id: TurnId,
    started: Seq,
    content: Arc<Content>,
    /// The prompt was a command from a file, and these are its words.
    expanded: bool,
    replies: Vec<Draft>,
}

/// A reply whose calls may still be open.
struct Draft {
    message: MessageId,
    text: String,
    calls: Vec<DraftCall>,
}

struct DraftCall {
    call: CallId,
    tool: String,
    input: Value,
    outcome: Option<CallOutcome>,
}

pub struct Conversation {
    /// What stands for the turns before these.
    summary: Option<String>,
    turns: Vec<PastTurn>,
    room: Room,
    /// Tokens of the last request and its reply since the summary, as the model counted them.
    reported: u64,
}

impl Conversation {
    /// Reads the events of the recent turns. `current` is the running turn, with its prompt;
    /// `summary` stands for what was before the recent turns.
    pub fn from_log(
        events: &[Arc<Envelope>],
        current: &TurnId,
        content: &Arc<Content>,
        summary: Option<&str>,
    ) -> Self {
        let summary = summary.map(str::to_owned);
        let (turns, room) = (Vec::new(), UNKNOWN);
        let mut conversation = Conversation { summary, turns, room, reported: 0 };
        let mut prompts: HashMap<PromptId, &Arc<Content>> = HashMap::new();
        for envelope in events {
            match &envelope.event {
                Event::PromptAccepted { prompt, content, .. } => {
                    prompts.insert(prompt.clone(), content);
                }
                Event::TurnStarted { turn, prompt, .. } => {
                    let content = prompts.remove(prompt).cloned().unwrap_or_default();
                    conversation.begin(turn.clone(), envelope.seq, content);
                }
                Event::PromptExpanded { text, .. } => {
                    conversation.expand(Content::text(text).into())
                }
                Event::TextAppended { message, text, .. } => {
                    if let Some(draft) = conversation.draft(message) {
                        draft.text.push_str(text);
                    }
                }
                Event::CallProposed { message, call, tool, input, .. } => {
                    conversation.propose(message, call.clone(), tool.clone(), input.clone());
                }
                Event::CallEnded { call, outcome } => conversation.end(call, outcome.clone()),
                // Without a window it was no turn's: a summary's.
                Event::UsageReported { usage, window: Some(_), .. } => {
                    let counted = usage.input_tokens.saturating_add(usage.output_tokens);
                    conversation.reported = counted;
                }
                // Read only because a prompt waited since then.
                Event::ContextCompacted { upto, .. } => {
                    conversation.turns.retain(|turn| turn.started > *upto);
                    conversation.reported = 0;
                }
                _ => {}
            }
        }
        match conversation.turns.last_mut() {
            Some(last) if last.id == *current => last.content = content.clone(),
            _ => conversation.begin(current.clone(), Seq(u64::MAX), content.clone()),
        }
        conversation
    }

    fn begin(&mut self, id: TurnId, started: Seq, content: Arc<Content>) {
        self.turns.push(PastTurn { id, started, content, expanded: false, replies: Vec::new() });
    }

    /// The last turn's prompt says this; what was done so far was done to write it.
    pub fn expand(&mut self, content: Arc<Content>) {
        if let Some(turn) = self.turns.last_mut() {
            turn.content = content;
            turn.expanded = true;
            turn.replies.clear();
        }
    }

    fn draft(&mut self, message: &MessageId) -> Option<&mut Draft> {
        let replies = &mut self.turns.last_mut()?.replies;
        let known = replies.iter().position(|draft| draft.message == *message);
        let index = known.unwrap_or(replies.len());
        if known.is_none() {
            replies.push(Draft {
                message: message.clone(),
                text: String::new(),
                calls: Vec::new(),
            });
        }
        replies.get_mut(index)
    }

    /// Something the model said in the running turn.
    pub fn say(&mut self, message: &MessageId, text: &str) {
        if let Some(draft) = self.draft(message) {
            draft.text.push_str(text);
        }
    }

    pub fn propose(&mut self, message: &MessageId, call: CallId, tool: String, input: Value) {
        if let Some(draft) = self.draft(message) {
            draft.calls.push(DraftCall { call, tool, input, outcome: None });
        }
    }

    pub fn end(&mut self, call: &CallId, outcome: CallOutcome) {
        let replies = self.turns.iter_mut().rev().flat_map(|turn| turn.replies.iter_mut().rev());
        let open = replies.flat_map(|draft| &mut draft.calls).find(|open| open.call == *call);
        if let Some(open) = open {
            open.outcome = Some(outcome);
        }
    }

    /// What the model is told now.
    pub fn messages(&self) -> Vec<Message> {
        let summary = self.summary.clone().map(Message::Summary);
        summary.into_iter().chain(self.read_turns().flat_map(PastTurn::messages)).collect()
    }

    /// The turns that a model reads, oldest first.
    fn read_turns(&self) -> impl Iterator<Item = &PastTurn> {
        let summary = self.summary_size();
        let mut budget = self.room.told.saturating_sub(summary);
        let earlier = self.turns.iter().rev().skip(1).take_while(|turn| {
            let size = turn.size();
            let fits = size <= budget;
            budget = budget.saturating_sub(size);
            fits
        });
        let first = self.turns.len().saturating_sub(1 + earlier.count());
        self.turns.iter().skip(first).filter(|turn| !turn.is_command())
    }

    /// What was before this turn, without the turn: what a summary is made of.
    pub fn earlier_messages(&self) -> Vec<Message> {
        let summary = self.summary.clone().map(Message::Summary);
        let earlier = self.summarised();
        let earlier = earlier.iter().flat_map(|(turn, cut)| turn.messages_cut(*cut));
        summary.into_iter().chain(earlier).collect()
    }

    pub fn earlier_turns(&self) -> usize {
        self.summarised().len()
    }

    /// Roughly how many bytes a summary stands for.
    pub fn earlier_size(&self) -> usize {
        let earlier = self.summarised();
        self.summary_size() + earlier.iter().map(|(turn, _)| turn.size()).sum::<usize>()
    }

    /// The earlier turns that a summary is made of, oldest first. One that is too large is told with
    /// the beginnings of what was said and of what its calls came to.
    fn summarised(&self) -> Vec<(&PastTurn, usize)> {
        let mut room = self.room.summarised.saturating_sub(self.summary_size());
        let mut told = Vec::new();
        for turn in self.turns.iter().rev().skip(1).filter(|turn| !turn.is_command()) {
            let fits = |cut: &usize| turn.size_cut(*cut) <= room;
            let Some(cut) = [usize::MAX, PIECE_BYTES].into_iter().find(fits) else { break };
            room -= turn.size_cut(cut);
            told.push((turn, cut));
        }
        told.reverse();
        told
    }

    fn summary_size(&self) -> usize {
        self.summary.as_ref().map_or(0, String::len)
    }

    /// The model is known to hold so much.
    pub fn make_room(&mut self, room: Room) {
        self.room = room;
    }

    /// True until something was said or done in the running turn.
    pub fn begins(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.replies.is_empty())
    }

    /// What there is to tell, left out or not.
    pub fn held(&self) -> Held {
        let (earlier, current) = self.turns.split_at(self.turns.len().saturating_sub(1));
        let size = |turns: &[PastTurn]| turns.iter().map(PastTurn::size).sum::<usize>() as u64;
        Held {
            summary: self.summary_size() as u64,
            earlier: size(earlier),
            prompt: size(current),
            reported: self.reported,
        }
    }

    /// This stands for everything before the running turn.
    pub fn compact(&mut self, summary: String) {
        self.summary = Some(summary);
        self.turns.drain(..self.turns.len().saturating_sub(1));
        self.reported = 0;
    }

    /// How many turns a model reads.
    pub fn turns(&self) -> usize {
        self.read_turns().count()
    }

    pub fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Roughly how many bytes a model reads of it.
    pub fn size(&self) -> usize {
        self.summary_size() + self.read_turns().map(PastTurn::size).sum::<usize>()
    }
}

impl PastTurn {
    fn messages(&self) -> Vec<Message> {
        self.messages_cut(usize::MAX)
    }

    /// With no more than so many bytes of each reply and of what each call came to.
    fn messages_cut(&self, most: usize) -> Vec<Message> {
        let user = Message::User(self.content.clone());
        let replies = self.replies.iter().map(|draft| {
            let calls = draft.calls.iter().map(|call| PastCall {
                call: call.call.clone(),
                tool: call.tool.clone(),
                input: call.input.clone(),
                outcome: call.outcome.as_ref().map_or_else(
                    || CallOutcome::Cancelled { reason: "it never ended".into() },
                    |outcome| cut(outcome, most),
                ),
            });
            let text = start(&draft.text, most).unwrap_or_else(|| draft.text.clone());
            Message::Reply(Reply { text, calls: calls.collect() })
        });
        std::iter::once(user).chain(replies).collect()
    }

    /// Commands are between a person and Loggia: no model reads them or what came of them.
    fn is_command(&self) -> bool {
        !self.expanded && slash::read_content(&self.content) != PromptKind::Message
    }

    /// Roughly how much a model has to read of this turn.
    fn size(&self) -> usize {
        self.size_cut(usize::MAX)
    }

    fn size_cut(&self, most: usize) -> usize {
        if self.is_command() {
            return 0;
        }
        let replies = self.replies.iter().map(|draft| {
            let calls = draft.calls.iter().map(|call| {
                let outcome = call.outcome.as_ref().map_or(0, |outcome| outcome.summary().len());
                outcome.min(most) + call.tool.len() + 64
            });
            draft.text.len().min(most) + calls.sum::<usize>()
        });
        self.content.to_text().len() + replies.sum::<usize>()
    }
}

/// The beginning of what a call came to.
fn cut(outcome: &CallOutcome, most: usize) -> CallOutcome {
    let Some(text) = start(outcome.summary(), most) else { return outcome.clone() };
    match outcome {
        CallOutcome::Succeeded { .. } => CallOutcome::Succeeded { output: Output::text(text) },
        CallOutcome::Failed { failure } => {
            CallOutcome::Failed { failure: CallFailure::new(&failure.kind, text) }
        }
        CallOutcome::Cancelled { .. } => CallOutcome::Cancelled { reason: text },
    }
}

/// The beginning of a text that is too long.
fn start(text: &str, most: usize) -> Option<String> {
    let start = text.get(..text.floor_char_boundary(most)).filter(|_| text.len() > most)?;
    Some(format!("{start}… ({} bytes in all)", text.len()))
}
