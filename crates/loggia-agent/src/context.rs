//! Builds the conversation for the model from the log: the recent turns.
//!
//! Built once when a turn starts and updated by the turn loop. Limited in bytes: the oldest turns are
//! left out first, the running turn never. Slash commands are not part of it.

use std::sync::Arc;

use loggia_core::slash::{self, PromptKind};
use loggia_core::{
    CallFailure, CallId, CallOutcome, Content, Envelope, Event, MessageId, Output, PromptId, Seq,
    TurnId,
};
use serde_json::Value;
use std::collections::HashMap;

use crate::compaction::{ConversationSize, TextLimits};
use crate::model::{Message, PastCall, Reply};

/// The most bytes of earlier turns if the model's window is unknown.
const EARLIER_BYTES: usize = 192 * 1024;

const UNKNOWN_WINDOW: TextLimits = TextLimits { turn: EARLIER_BYTES, summary: EARLIER_BYTES };
/// The most bytes of each reply and each result if a turn is too large to be summarised completely.
const PIECE_BYTES: usize = 1024;

/// One turn of the conversation.
struct PastTurn {
    id: TurnId,
    started: Seq,
    content: Arc<Content>,
    /// Whether `content` is the expansion of a custom command.
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
    /// Replaces the turns before these.
    summary: Option<String>,
    turns: Vec<PastTurn>,
    limits: TextLimits,
    /// Tokens of the last request and its reply since the summary, as the model counted them.
    reported: u64,
}

impl Conversation {
    /// Reads the events of the recent turns. `current` is the running turn and `content` its prompt;
    /// `summary` replaces the turns before the recent ones.
    pub fn from_log(
        events: &[Arc<Envelope>],
        current: &TurnId,
        content: &Arc<Content>,
        summary: Option<&str>,
    ) -> Self {
        let summary = summary.map(str::to_owned);
        let (turns, limits) = (Vec::new(), UNKNOWN_WINDOW);
        let mut conversation = Conversation { summary, turns, limits, reported: 0 };
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
                // A report without a window belongs to a summary, not to a turn.
                Event::UsageReported { usage, window: Some(_), .. } => {
                    let counted = usage.input_tokens.saturating_add(usage.output_tokens);
                    conversation.reported = counted;
                }
                // The log contains earlier turns here only if a prompt was queued before the compaction.
                Event::ContextCompacted { upto, .. } => {
                    conversation.turns.retain(|turn| turn.started > *upto);
                    conversation.reported = 0;
                }
                Event::SessionOpened { .. }
                | Event::SettingsChanged { .. }
                | Event::PolicyAmended { .. }
                | Event::SessionNamed { .. }
                | Event::SessionClosed { .. }
                | Event::TaskOpened { .. }
                | Event::TaskClosed { .. }
                | Event::PromptWithdrawn { .. }
                | Event::PromptScreened { .. }
                | Event::TurnEnded { .. }
                | Event::ThoughtAppended { .. }
                | Event::PlanUpdated { .. }
                | Event::SourcesCited { .. }
                | Event::UsageReported { window: None, .. }
                | Event::ApprovalAsked { .. }
                | Event::ApprovalAnswered { .. }
                | Event::CallStarted { .. }
                | Event::CallOutput { .. }
                | Event::ArtifactPublished { .. }
                | Event::NoticeRaised { .. }
                | Event::Unknown => {}
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

    /// Replaces the last turn's prompt by its expansion. Calls so far were made for the expansion.
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

    /// Adds text to a reply in the running turn.
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

    /// The messages of the next request.
    pub fn messages(&self) -> Vec<Message> {
        let summary = self.summary.clone().map(Message::Summary);
        summary.into_iter().chain(self.included_turns().flat_map(PastTurn::messages)).collect()
    }

    /// The turns in the next request, oldest first.
    fn included_turns(&self) -> impl Iterator<Item = &PastTurn> {
        let summary = self.summary_size();
        let mut budget = self.limits.turn.saturating_sub(summary);
        let earlier = self.turns.iter().rev().skip(1).take_while(|turn| {
            let size = turn.size();
            let fits = size <= budget;
            budget = budget.saturating_sub(size);
            fits
        });
        let first = self.turns.len().saturating_sub(1 + earlier.count());
        self.turns.iter().skip(first).filter(|turn| !turn.is_command())
    }

    /// The conversation before the running turn, for a summary.
    pub fn earlier_messages(&self) -> Vec<Message> {
        let summary = self.summary.clone().map(Message::Summary);
        let earlier = self.summarised();
        let earlier = earlier.iter().flat_map(|(turn, cut)| turn.messages_cut(*cut));
        summary.into_iter().chain(earlier).collect()
    }

    pub fn earlier_turns(&self) -> usize {
        self.summarised().len()
    }

    /// The approximate bytes that a summary replaces.
    pub fn earlier_size(&self) -> usize {
        let earlier = self.summarised();
        self.summary_size() + earlier.iter().map(|(turn, _)| turn.size()).sum::<usize>()
    }

    /// The earlier turns that a summary covers, oldest first, each with a limit for its texts. A turn that
    /// is too large is included with the beginnings of its replies and results.
    fn summarised(&self) -> Vec<(&PastTurn, usize)> {
        let mut room = self.limits.summary.saturating_sub(self.summary_size());
        let mut included = Vec::new();
        for turn in self.turns.iter().rev().skip(1).filter(|turn| !turn.is_command()) {
            let fits = |cut: &usize| turn.size_cut(*cut) <= room;
            let Some(cut) = [usize::MAX, PIECE_BYTES].into_iter().find(fits) else { break };
            room -= turn.size_cut(cut);
            included.push((turn, cut));
        }
        included.reverse();
        included
    }

    fn summary_size(&self) -> usize {
        self.summary.as_ref().map_or(0, String::len)
    }

    pub fn set_limits(&mut self, limits: TextLimits) {
        self.limits = limits;
    }

    /// True until the running turn has a reply.
    pub fn begins(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.replies.is_empty())
    }

    /// The size including turns that are left out.
    pub fn full_size(&self) -> ConversationSize {
        let (earlier, current) = self.turns.split_at(self.turns.len().saturating_sub(1));
        let size = |turns: &[PastTurn]| turns.iter().map(PastTurn::size).sum::<usize>() as u64;
        ConversationSize {
            summary: self.summary_size() as u64,
            earlier: size(earlier),
            prompt: size(current),
            reported: self.reported,
        }
    }

    /// Replaces everything before the running turn by a summary.
    pub fn compact(&mut self, summary: String) {
        self.summary = Some(summary);
        self.turns.drain(..self.turns.len().saturating_sub(1));
        self.reported = 0;
    }

    /// The number of turns in the next request.
    pub fn turns(&self) -> usize {
        self.included_turns().count()
    }

    pub fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// The approximate bytes of the next request.
    pub fn size(&self) -> usize {
        self.summary_size() + self.included_turns().map(PastTurn::size).sum::<usize>()
    }
}

impl PastTurn {
    fn messages(&self) -> Vec<Message> {
        self.messages_cut(usize::MAX)
    }

    /// With at most so many bytes of each reply and each result.
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

    /// Slash commands and their results are not shown to the model.
    fn is_command(&self) -> bool {
        !self.expanded && slash::read_content(&self.content) != PromptKind::Message
    }

    /// The approximate bytes of this turn in a request.
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

/// The outcome with its text cut.
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

/// The beginning of a text that is too long; None if it fits.
fn start(text: &str, most: usize) -> Option<String> {
    let start = text.get(..text.floor_char_boundary(most)).filter(|_| text.len() > most)?;
    Some(format!("{start}… ({} bytes in all)", text.len()))
}
