//! Builds the conversation for the model from the log.
//!
//! Built once when a turn starts and updated by the turn loop. A vendor's model gets everything since the
//! last compaction, in the same bytes each time; a built-in model gets the recent turns, limited in bytes.
//! Slash commands are not part of it.

use std::collections::HashMap;
use std::sync::Arc;

use loggia_core::slash::{self, PromptKind};
use loggia_core::{
    CallFailure, CallId, CallOutcome, CompactReach, Content, Envelope, Event, MessageId, ModelName,
    ModelRecord, Note, Output, PlanStep, PromptId, ReplyItem, Seq, StepState, ToolDescription,
    TurnId,
};
use serde_json::Value;

use crate::compaction::{ConversationSize, TextLimits};
use crate::model::{Message, PastCall, Reply, UserMessage};

/// The most bytes of earlier turns if the model's window is unknown.
const EARLIER_BYTES: usize = 192 * 1024;

const UNKNOWN_WINDOW: TextLimits = TextLimits { turn: EARLIER_BYTES, summary: EARLIER_BYTES };
/// The most bytes of each reply and each result if a turn is too large to be summarised completely.
const PIECE_BYTES: usize = 1024;
/// Files that a summary lists: the last ones that calls named.
const FILES: usize = 30;

/// One turn of the conversation.
struct PastTurn {
    id: TurnId,
    started: Seq,
    content: Arc<Content>,
    /// Notes that changed before the prompt.
    notes: Option<Arc<str>>,
    /// Whether `content` is the expansion of a custom command.
    expanded: bool,
    replies: Vec<Draft>,
}

/// A reply whose calls may still be open.
struct Draft {
    message: MessageId,
    text: String,
    calls: Vec<DraftCall>,
    /// The model that wrote it and its items, once it is complete and the vendor keeps items.
    items: Option<(ModelName, Vec<ReplyItem>)>,
}

struct DraftCall {
    call: CallId,
    tool: String,
    input: Value,
    outcome: Option<CallOutcome>,
    /// Memory files that follow the result.
    memory: Vec<Note>,
}

/// The fixed beginning of the requests, as the log has it.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedPart {
    pub model: ModelName,
    pub instructions: Arc<str>,
    pub tools: Arc<[ToolDescription]>,
    /// All notes with their last texts.
    notes: Vec<Note>,
    /// The notes as they were at the beginning, as they are sent.
    text: Arc<str>,
}

pub struct Conversation {
    /// Replaces the turns before these.
    summary: Option<String>,
    turns: Vec<PastTurn>,
    limits: TextLimits,
    /// Tokens of the last request and its reply since the summary, as the model counted them.
    reported: u64,
    fixed: Option<FixedPart>,
    /// The oldest turns are left out if all of them exceed the limits.
    leaves_out: bool,
    /// The last plan.
    plan: Vec<PlanStep>,
    /// Files that calls named since the summary, oldest first.
    files: Vec<String>,
}

impl Conversation {
    /// Reads the events of turns. `current` is the running turn and `content` its prompt; `summary`
    /// replaces the turns before them.
    pub fn from_log(
        events: &[Arc<Envelope>],
        current: &TurnId,
        content: &Arc<Content>,
        summary: Option<&str>,
    ) -> Self {
        let mut conversation = Conversation {
            summary: summary.map(str::to_owned),
            turns: Vec::new(),
            limits: UNKNOWN_WINDOW,
            reported: 0,
            fixed: None,
            leaves_out: true,
            plan: Vec::new(),
            files: Vec::new(),
        };
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
                event => conversation.apply(event),
            }
        }
        match conversation.turns.last_mut() {
            Some(last) if last.id == *current => last.content = content.clone(),
            _ => conversation.begin(current.clone(), Seq(u64::MAX), content.clone()),
        }
        conversation
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::PromptExpanded { text, .. } => self.expand(Content::text(text).into()),
            Event::TextAppended { message, text, .. } => self.say(message, text),
            Event::ReplyDiscarded { message, .. } => self.discard(message),
            Event::ModelRecord { record, .. } => self.record(record),
            Event::CallProposed { message, call, tool, input, .. } => {
                self.propose(message, call.clone(), tool.clone(), input.clone());
            }
            Event::CallEnded { call, outcome } => self.end(call, outcome.clone()),
            // A report without a window belongs to a summary, not to a turn.
            Event::UsageReported { usage, window: Some(_), .. } => {
                self.reported = usage.input_tokens.saturating_add(usage.output_tokens);
            }
            Event::PlanUpdated { steps, .. } => self.plan.clone_from(steps),
            // The log contains earlier turns here only if a prompt was queued before the compaction.
            Event::ContextCompacted { upto, within_turn, .. } => {
                self.turns.retain(|turn| turn.started > *upto);
                if let Some(last) = self.turns.last_mut().filter(|_| *within_turn) {
                    last.replies.clear();
                }
                self.forget_context();
            }
            Event::SessionOpened { .. }
            | Event::SettingsChanged { .. }
            | Event::PolicyAmended { .. }
            | Event::SessionNamed { .. }
            | Event::SessionClosed { .. }
            | Event::TaskOpened { .. }
            | Event::TaskClosed { .. }
            | Event::PromptAccepted { .. }
            | Event::PromptWithdrawn { .. }
            | Event::PromptScreened { .. }
            | Event::TurnStarted { .. }
            | Event::TurnEnded { .. }
            | Event::ThoughtAppended { .. }
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

    fn begin(&mut self, id: TurnId, started: Seq, content: Arc<Content>) {
        let (notes, replies) = (None, Vec::new());
        self.turns.push(PastTurn { id, started, content, notes, expanded: false, replies });
    }

    /// Takes what the log keeps for the model only.
    pub fn record(&mut self, record: &ModelRecord) {
        match record {
            ModelRecord::ContextStarted { model, instructions, tools, notes } => {
                self.fixed = Some(FixedPart {
                    model: model.clone(),
                    instructions: instructions.clone(),
                    tools: tools.clone(),
                    text: joined(notes),
                    notes: notes.clone(),
                });
                for turn in &mut self.turns {
                    turn.notes = None;
                    turn.replies.iter_mut().for_each(|draft| draft.items = None);
                }
            }
            ModelRecord::NotesChanged { notes } => {
                if let Some(fixed) = &mut self.fixed {
                    for note in notes {
                        fixed.notes.retain(|known| known.name != note.name);
                        fixed.notes.push(note.clone());
                    }
                }
                if let Some(turn) = self.turns.last_mut() {
                    turn.notes = Some(joined(notes));
                }
            }
            ModelRecord::MemoryGiven { call, notes } => {
                if let Some(call) = self.find_call(call) {
                    call.memory.extend(notes.iter().cloned());
                }
            }
            ModelRecord::ReplyEnded { message, model, items, .. } => {
                if let Some(draft) = self.draft(message).filter(|_| !items.is_empty()) {
                    draft.items = Some((model.clone(), items.clone()));
                }
            }
        }
    }

    /// The fixed beginning, if the requests so far had one and were for this model.
    pub fn fixed_for(&self, model: &ModelName) -> Option<&FixedPart> {
        self.fixed.as_ref().filter(|fixed| fixed.model == *model)
    }

    /// The notes that are not, or not like this, in the conversation so far.
    pub fn changed_notes(&self, current: &[Note]) -> Vec<Note> {
        let known = self.fixed.as_ref().map_or(&[][..], |fixed| &fixed.notes);
        let changed = current.iter().filter(|note| !known.contains(note)).cloned();
        let gone = known.iter().filter(|known| {
            !known.text.is_empty() && !current.iter().any(|note| note.name == known.name)
        });
        let gone = gone.map(|known| Note { name: known.name.clone(), text: String::new() });
        changed.chain(gone).collect()
    }

    /// Everything since the last compaction is sent: nothing is left out to save room.
    pub fn send_everything(&mut self) {
        self.leaves_out = false;
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
            let (message, text) = (message.clone(), String::new());
            replies.push(Draft { message, text, calls: Vec::new(), items: None });
        }
        replies.get_mut(index)
    }

    /// Adds text to a reply in the running turn.
    pub fn say(&mut self, message: &MessageId, text: &str) {
        if let Some(draft) = self.draft(message) {
            draft.text.push_str(text);
        }
    }

    /// Removes a reply that broke off.
    pub fn discard(&mut self, message: &MessageId) {
        if let Some(turn) = self.turns.last_mut() {
            turn.replies.retain(|draft| draft.message != *message);
        }
    }

    pub fn propose(&mut self, message: &MessageId, call: CallId, tool: String, input: Value) {
        if let Some(file) = path(&input) {
            self.files.retain(|known| known != file);
            self.files.push(file.to_owned());
            let surplus = self.files.len().saturating_sub(FILES);
            self.files.drain(..surplus);
        }
        if let Some(draft) = self.draft(message) {
            let (outcome, memory) = (None, Vec::new());
            draft.calls.push(DraftCall { call, tool, input, outcome, memory });
        }
    }

    pub fn end(&mut self, call: &CallId, outcome: CallOutcome) {
        if let Some(open) = self.find_call(call) {
            open.outcome = Some(outcome);
        }
    }

    fn find_call(&mut self, call: &CallId) -> Option<&mut DraftCall> {
        let replies = self.turns.iter_mut().rev().flat_map(|turn| turn.replies.iter_mut().rev());
        replies.flat_map(|draft| &mut draft.calls).find(|known| known.call == *call)
    }

    /// The successful calls of the last reply that name a path, with the path. No reply has followed their
    /// results yet.
    pub fn last_paths(&self) -> Vec<(CallId, String)> {
        let last = self.turns.last().and_then(|turn| turn.replies.last());
        let calls = last.into_iter().flat_map(|draft| &draft.calls);
        let calls =
            calls.filter(|call| matches!(call.outcome, Some(CallOutcome::Succeeded { .. })));
        calls.filter_map(|call| Some((call.call.clone(), path(&call.input)?.to_owned()))).collect()
    }

    /// Memory files that came with results.
    pub fn given_memory(&self) -> Vec<Note> {
        let replies = self.turns.iter().flat_map(|turn| &turn.replies);
        let calls = replies.flat_map(|draft| &draft.calls);
        calls.flat_map(|call| call.memory.iter().cloned()).collect()
    }

    /// The messages of the next request.
    pub fn messages(&self) -> Vec<Message> {
        let summary = self.summary.clone().map(Message::Summary);
        let turns = self.included_turns().flat_map(PastTurn::messages);
        let mut messages: Vec<Message> = summary.into_iter().chain(turns).collect();
        let notes = self.fixed.as_ref().map(|fixed| &fixed.text).filter(|text| !text.is_empty());
        let first = messages.iter_mut().find_map(|message| match message {
            Message::User(user) => Some(user),
            Message::Summary(_) | Message::Reply(_) => None,
        });
        if let (Some(notes), Some(first)) = (notes, first) {
            first.context = Some(match &first.context {
                Some(changed) => format!("{notes}\n\n{changed}").into(),
                None => notes.clone(),
            });
        }
        messages
    }

    /// The turns in the next request, oldest first.
    fn included_turns(&self) -> impl Iterator<Item = &PastTurn> {
        let summary = self.summary_size();
        let mut budget = self.limits.turn.saturating_sub(summary);
        let earlier = self.turns.iter().rev().skip(1).take_while(|turn| {
            let size = turn.size();
            let fits = !self.leaves_out || size <= budget;
            budget = budget.saturating_sub(size);
            fits
        });
        let first = self.turns.len().saturating_sub(1 + earlier.count());
        self.turns.iter().skip(first).filter(|turn| !turn.is_command())
    }

    /// The conversation that a summary is to replace.
    pub fn summarised_messages(&self, reach: CompactReach) -> Vec<Message> {
        let summary = self.summary.clone().map(Message::Summary);
        let turns = self.summarised(reach);
        let turns = turns.iter().flat_map(|(turn, cut)| turn.messages_cut(*cut));
        summary.into_iter().chain(turns).collect()
    }

    /// The turns that a summary is to replace, the running one included if it has replies to replace.
    pub fn summarised_turns(&self, reach: CompactReach) -> usize {
        self.summarised(reach).len()
    }

    /// The approximate bytes that a summary replaces.
    pub fn summarised_size(&self, reach: CompactReach) -> usize {
        let turns = self.summarised(reach);
        self.summary_size() + turns.iter().map(|(turn, _)| turn.size()).sum::<usize>()
    }

    /// The turns that a summary covers, oldest first, each with a limit for its texts. A turn that is too
    /// large is included with the beginnings of its replies and results.
    fn summarised(&self, reach: CompactReach) -> Vec<(&PastTurn, usize)> {
        let mut room = self.limits.summary.saturating_sub(self.summary_size());
        let mut included = Vec::new();
        let running = usize::from(reach != CompactReach::Replies);
        for turn in self.turns.iter().rev().skip(running).filter(|turn| !turn.is_command()) {
            let fits = |cut: &usize| turn.size_cut(*cut) <= room;
            let Some(cut) = [usize::MAX, PIECE_BYTES].into_iter().find(fits) else { break };
            room -= turn.size_cut(cut);
            included.push((turn, cut));
        }
        included.reverse();
        included
    }

    /// What every summary says besides the model's text: the plan and the files.
    pub fn summary_supplement(&self) -> String {
        let mut text = String::new();
        if !self.plan.is_empty() {
            text.push_str("\n\nThe plan:");
            for step in &self.plan {
                let mark = match step.state {
                    StepState::Pending => "[ ]",
                    StepState::InProgress => "[>]",
                    StepState::Completed => "[x]",
                    StepState::Cancelled => "[-]",
                };
                text.push_str(&format!("\n{mark} {}", step.text));
            }
        }
        if !self.files.is_empty() {
            text.push_str("\n\nFiles that were read or changed last: ");
            text.push_str(&self.files.join(", "));
        }
        text
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
        let prompt = current.iter().map(PastTurn::prompt_size).sum::<usize>() as u64;
        ConversationSize {
            summary: self.summary_size() as u64,
            earlier: size(earlier),
            replies: size(current).saturating_sub(prompt),
            prompt,
            reported: self.reported,
        }
    }

    /// Replaces everything before the running turn by a summary, or also its replies so far.
    pub fn compact(&mut self, summary: String, reach: CompactReach) {
        self.summary = Some(summary);
        self.turns.drain(..self.turns.len().saturating_sub(1));
        if let Some(last) = self.turns.last_mut().filter(|_| reach == CompactReach::Replies) {
            last.replies.clear();
        }
        self.forget_context();
    }

    /// After a compaction the requests begin differently.
    fn forget_context(&mut self) {
        self.reported = 0;
        self.fixed = None;
        self.files.clear();
        for turn in &mut self.turns {
            turn.notes = None;
            turn.replies.iter_mut().for_each(|draft| draft.items = None);
        }
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
        let user = UserMessage { context: self.notes.clone(), content: self.content.clone() };
        let replies = self.replies.iter().filter(|draft| !draft.is_empty());
        let replies = replies.map(|draft| Message::Reply(draft.reply(most)));
        std::iter::once(Message::User(user)).chain(replies).collect()
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
        self.prompt_size() + self.replies.iter().map(|draft| draft.size(most)).sum::<usize>()
    }

    fn prompt_size(&self) -> usize {
        self.content.to_text().len()
    }
}

impl Draft {
    /// Only thoughts, or nothing, came before it broke off.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty() && self.items.is_none()
    }

    fn reply(&self, most: usize) -> Reply {
        let calls = self.calls.iter().map(|call| PastCall {
            call: call.call.clone(),
            tool: call.tool.clone(),
            input: call.input.clone(),
            outcome: call.outcome.as_ref().map_or_else(
                || CallOutcome::Cancelled { reason: "it never ended".into() },
                |outcome| with_memory(cut(outcome, most), &call.memory),
            ),
        });
        let text = start(&self.text, most).unwrap_or_else(|| self.text.clone());
        let (model, items) = self.items.clone().unzip();
        Reply { model, items: items.unwrap_or_default(), text, calls: calls.collect() }
    }

    /// The approximate bytes in a request. Items that are larger than their texts count as they are.
    fn size(&self, most: usize) -> usize {
        let calls = self.calls.iter().map(|call| {
            let outcome = call.outcome.as_ref().map_or(0, |outcome| outcome.summary().len());
            let memory = call.memory.iter().map(|note| note.text.len() + 2).sum::<usize>();
            outcome.min(most) + memory + call.tool.len() + 64
        });
        let items = self.items.iter().flat_map(|(_, items)| items);
        let items = items.map(|item| item.raw.len()).sum::<usize>();
        self.text.len().max(items).min(most) + calls.sum::<usize>()
    }
}

/// The notes as they are sent. A note that is gone says so.
fn joined(notes: &[Note]) -> Arc<str> {
    let texts: Vec<String> = notes
        .iter()
        .map(|note| match note.text.is_empty() {
            true => format!("{}: no longer there.", note.name),
            false => note.text.clone(),
        })
        .collect();
    texts.join("\n\n").into()
}

/// The path that a call names.
fn path(input: &Value) -> Option<&str> {
    ["path", "file_path"].iter().find_map(|key| input.get(key)?.as_str())
}

/// The result with the memory files behind it.
fn with_memory(mut outcome: CallOutcome, memory: &[Note]) -> CallOutcome {
    if let CallOutcome::Succeeded { output } = &mut outcome {
        for note in memory {
            output.text.push_str(&format!("\n\n{}", note.text));
        }
    }
    outcome
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
