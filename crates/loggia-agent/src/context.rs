//! From the log to what a model is told: the recent turns as a conversation.
//!
//! Built once when a turn starts and kept up to date by the turn loop. Bounded in bytes: the oldest
//! turns are left out first, never a part of the running one.

use std::sync::Arc;

use loggia_core::{CallId, CallOutcome, Content, Envelope, Event, MessageId, PromptId, TurnId};
use serde_json::Value;
use std::collections::HashMap;

use crate::model::{Message, PastCall, Reply};

/// Text of earlier turns that a model is reminded of.
const EARLIER_BYTES: usize = 192 * 1024;

/// One turn of the conversation.
struct PastTurn {
    id: TurnId,
    content: Content,
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
    turns: Vec<PastTurn>,
}

impl Conversation {
    /// Reads the events of the recent turns. `current` is the running turn, with its prompt.
    pub fn from_log(events: &[Arc<Envelope>], current: &TurnId, content: &Content) -> Self {
        let mut conversation = Conversation { turns: Vec::new() };
        let mut prompts: HashMap<PromptId, &Content> = HashMap::new();
        for envelope in events {
            match &envelope.event {
                Event::PromptAccepted { prompt, content, .. } => {
                    prompts.insert(prompt.clone(), content);
                }
                Event::TurnStarted { turn, prompt, .. } => {
                    let content = prompts.remove(prompt).cloned().unwrap_or_default();
                    conversation.begin(turn.clone(), content);
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
                _ => {}
            }
        }
        match conversation.turns.last_mut() {
            Some(last) if last.id == *current => last.content = content.clone(),
            _ => conversation.begin(current.clone(), content.clone()),
        }
        conversation
    }

    fn begin(&mut self, id: TurnId, content: Content) {
        self.turns.push(PastTurn { id, content, replies: Vec::new() });
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
        let mut budget = EARLIER_BYTES;
        let earlier = self.turns.iter().rev().skip(1).take_while(|turn| {
            let size = turn.size();
            let fits = size <= budget;
            budget = budget.saturating_sub(size);
            fits
        });
        let first = self.turns.len().saturating_sub(1 + earlier.count());
        self.turns.iter().skip(first).flat_map(PastTurn::messages).collect()
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

    /// Roughly how much a model has to read of this turn.
    fn size(&self) -> usize {
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
