//! From the log to what a model is told: the recent turns as a conversation.
//!
//! Built once when a turn starts and kept up to date by the turn loop. Bounded in bytes: the oldest
//! turns are left out first, never a part of the running one. Commands are no part of it.

use std::sync::Arc;

use loggia_core::slash::{self, Reading};
use loggia_core::{
    CallId, CallOutcome, Content, Envelope, Event, MessageId, PromptId, Seq, TurnId,
};
use serde_json::Value;
use std::collections::HashMap;

use crate::model::{Message, PastCall, Reply};

/// Text of earlier turns that a model is reminded of.
const EARLIER_BYTES: usize = 192 * 1024;

/// One turn of the conversation.
struct PastTurn {
    id: TurnId,
    started: Seq,
    content: Content,
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
}

impl Conversation {
    /// Reads the events of the recent turns. `current` is the running turn, with its prompt;
    /// `summary` stands for what was before the recent turns.
    pub fn from_log(
        events: &[Arc<Envelope>],
        current: &TurnId,
        content: &Content,
        summary: Option<&str>,
    ) -> Self {
        let summary = summary.map(str::to_owned);
        let mut conversation = Conversation { summary, turns: Vec::new() };
        let mut prompts: HashMap<PromptId, &Content> = HashMap::new();
        for envelope in events {
            match &envelope.event {
                Event::PromptAccepted { prompt, content, .. } => {
                    prompts.insert(prompt.clone(), content);
                }
                Event::TurnStarted { turn, prompt, .. } => {
                    let content = prompts.remove(prompt).cloned().unwrap_or_default();
                    conversation.begin(turn.clone(), envelope.seq, content);
                }
                Event::PromptExpanded { text, .. } => conversation.expand(Content::text(text)),
                Event::TextAppended { message, text, .. } => {
                    if let Some(draft) = conversation.draft(message) {
                        draft.text.push_str(text);
                    }
                }
                Event::CallProposed { message, call, tool, input, .. } => {
                    conversation.propose(message, call.clone(), tool.clone(), input.clone());
                }
                Event::CallEnded { call, outcome } => conversation.end(call, outcome.clone()),
                // Read only because a prompt waited since then.
                Event::ContextCompacted { upto, .. } => {
                    conversation.turns.retain(|turn| turn.started > *upto);
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

    fn begin(&mut self, id: TurnId, started: Seq, content: Content) {
        self.turns.push(PastTurn { id, started, content, expanded: false, replies: Vec::new() });
    }

    /// The last turn's prompt says this; what was done so far was done to write it.
    pub fn expand(&mut self, content: Content) {
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
        let summary = self.summary.as_ref().map_or(0, String::len);
        let mut budget = EARLIER_BYTES.saturating_sub(summary);
        let earlier = self.turns.iter().rev().skip(1).take_while(|turn| {
            let size = turn.size();
            let fits = size <= budget;
            budget = budget.saturating_sub(size);
            fits
        });
        let first = self.turns.len().saturating_sub(1 + earlier.count());
        self.turns.iter().skip(first).filter(|turn| !turn.is_command())
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
        let summary = self.summary.as_ref().map_or(0, String::len);
        summary + self.read_turns().map(PastTurn::size).sum::<usize>()
    }
}

impl PastTurn {
    fn messages(&self) -> Vec<Message> {
        let user = Message::User(self.content.clone());
        let replies = self.replies.iter().map(|draft| {
            let calls = draft.calls.iter().map(|call| PastCall {
                call: call.call.clone(),
                tool: call.tool.clone(),
                input: call.input.clone(),
                outcome: call
                    .outcome
                    .clone()
                    .unwrap_or(CallOutcome::Cancelled { reason: "it never ended".into() }),
            });
            Message::Reply(Reply { text: draft.text.clone(), calls: calls.collect() })
        });
        std::iter::once(user).chain(replies).collect()
    }

    /// Commands are between a person and Loggia: no model reads them or what came of them.
    fn is_command(&self) -> bool {
        !self.expanded && slash::read_content(&self.content) != Reading::Message
    }

    /// Roughly how much a model has to read of this turn.
    fn size(&self) -> usize {
        if self.is_command() {
            return 0;
        }
        let replies = self.replies.iter().map(|draft| {
            let calls = draft.calls.iter().map(|call| {
                let outcome = call.outcome.as_ref().map_or(0, |outcome| outcome.summary().len());
                outcome + call.tool.len() + 64
            });
            draft.text.len() + calls.sum::<usize>()
        });
        self.content.to_text().len() + replies.sum::<usize>()
    }
}
