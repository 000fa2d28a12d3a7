//! One reply of the model: the request, the stream, and what happens when it breaks off.
//!
//! A reply that breaks off is discarded whole, and the model is asked again. Every attempt is a reply of its
//! own in the log, so that no client mixes two of them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loggia_core::{CallId, Level, Limits, MessageId, ModelRecord, ReplyItem, Stop};
use loggia_session::{Turn, TurnOver};
use serde_json::Value;

use super::NativeAgent;
use crate::compaction;
use crate::context::Conversation;
use crate::instructions;
use crate::model::{Delta, Model, ModelError, ModelErrorKind, ModelRequest, Purpose};
use crate::notes::Surroundings;

/// Attempts at one reply.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A turn does not wait longer than this for a vendor that asks for it.
const LONGEST_REQUESTED: Duration = Duration::from_secs(300);

/// A compaction within a turn so few replies after the last one may be the beginning of a loop.
const SOON: u32 = 3;
const COMPACTIONS_IN_A_ROW: u32 = 3;
const NO_PROGRESS: &str = "the results of a few calls fill the model's context window, and compacting them did not \
     help: ask for smaller steps, or use a model with a larger window";

/// A complete reply of the model.
pub(super) struct ModelReply {
    pub message: MessageId,
    pub text: String,
    pub calls: Vec<RequestedCall>,
    /// The number of calls beyond the limit, which are left out.
    pub surplus: usize,
    pub stop: Stop,
}

pub(super) struct RequestedCall {
    pub call: CallId,
    pub tool: String,
    /// The model's text if it is not valid JSON.
    pub input: Result<Value, String>,
}

/// Asks for the replies of one turn.
pub(super) struct Replies<'a> {
    agent: &'a NativeAgent,
    turn: &'a Turn,
    model: &'a dyn Model,
    surroundings: Arc<Surroundings>,
    /// Bytes of text and thoughts that the turn may still have.
    text_left: u64,
    notes_checked: bool,
    /// Replies since the last compaction within the turn, and how many such compactions followed each other
    /// closely.
    replies_since: u32,
    compactions_in_a_row: u32,
    /// These happen once in a turn.
    overflowed: bool,
    rejected: bool,
}

/// Why a reply has no end.
enum ReplyError {
    TurnOver(TurnOver),
    Model(ModelError),
}

impl From<TurnOver> for ReplyError {
    fn from(over: TurnOver) -> Self {
        ReplyError::TurnOver(over)
    }
}

/// An attempt at a reply.
struct Attempt {
    reply: ModelReply,
    items: Vec<ReplyItem>,
    /// Something of it has been passed on.
    begun: bool,
}

impl<'a> Replies<'a> {
    pub fn new(
        agent: &'a NativeAgent,
        turn: &'a Turn,
        model: &'a dyn Model,
        surroundings: Arc<Surroundings>,
    ) -> Self {
        let text_left = turn.context().settings.limits.text_bytes;
        Self {
            agent,
            turn,
            model,
            surroundings,
            text_left,
            notes_checked: false,
            replies_since: 0,
            compactions_in_a_row: 0,
            overflowed: false,
            rejected: false,
        }
    }

    /// The next reply. Asks again if it breaks off and the error allows it.
    pub async fn next(&mut self, conversation: &mut Conversation) -> Result<ModelReply, TurnOver> {
        self.compact(conversation).await?;
        self.give_memory(conversation).await?;
        let mut pause = FIRST_PAUSE;
        let mut number = 1;
        loop {
            self.prepare(conversation).await?;
            let request = self.request(conversation);
            let mut attempt = Attempt::new(self.turn);
            let streamed = self.stream(request, conversation, &mut attempt).await;
            let (message, begun) = (attempt.reply.message.clone(), attempt.begun);
            let error = match streamed {
                Ok(()) => match self.end(attempt, conversation).await? {
                    Ok(reply) => return Ok(reply),
                    Err(error) => error,
                },
                Err(ReplyError::TurnOver(over)) => return Err(over),
                Err(ReplyError::Model(error)) => error,
            };
            let again = self.may_repair(&error) || self.may_wait(&error, number);
            // The last attempt stays visible, unless the model took it back.
            if begun && (again || error.kind == ModelErrorKind::Refused) {
                self.turn.discard(&message).await?;
                conversation.discard(&message);
            }
            if !again {
                return Err(TurnOver::Failed(error.message));
            }
            if self.may_repair(&error) {
                self.repair(error, conversation).await?;
                continue;
            }
            number += 1;
            let wait = error.retry_after.unwrap_or_else(|| jittered(pause));
            self.wait(&error, wait, number).await?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Compacts the conversation if that is due. A result that fills the window by itself would be asked for
    /// again after each compaction, so the turn fails after a few in a row.
    async fn compact(&mut self, conversation: &mut Conversation) -> Result<(), TurnOver> {
        let at = self.agent.compact_at();
        self.replies_since += 1;
        if !compaction::compact_if_due(at, self.turn, self.model, conversation).await? {
            return Ok(());
        }
        let soon = std::mem::take(&mut self.replies_since) < SOON;
        self.compactions_in_a_row = if soon { self.compactions_in_a_row + 1 } else { 1 };
        match self.compactions_in_a_row > COMPACTIONS_IN_A_ROW {
            true => Err(TurnOver::Failed(NO_PROGRESS.to_owned())),
            false => Ok(()),
        }
    }

    /// Whether asking again after a change of the conversation may help.
    fn may_repair(&self, error: &ModelError) -> bool {
        match error.kind {
            ModelErrorKind::ContextTooLong => !self.overflowed,
            ModelErrorKind::HistoryRejected => !self.rejected,
            _ => false,
        }
    }

    async fn repair(
        &mut self,
        error: ModelError,
        conversation: &mut Conversation,
    ) -> Result<(), TurnOver> {
        if error.kind == ModelErrorKind::ContextTooLong {
            self.overflowed = true;
            let compacted =
                compaction::compact_overflow(self.turn, self.model, conversation).await?;
            return match compacted {
                true => Ok(()),
                false => Err(TurnOver::Failed(error.message)),
            };
        }
        self.rejected = true;
        let text = format!(
            "{}; trying again without the model's earlier thoughts",
            error.message.trim_end_matches('.')
        );
        self.turn.notice(Level::Warning, text).await?;
        self.start_context(conversation).await
    }

    fn may_wait(&self, error: &ModelError, attempt: u32) -> bool {
        let short = error.retry_after.is_none_or(|wait| wait <= LONGEST_REQUESTED);
        error.may_retry() && attempt < ATTEMPTS && short
    }

    async fn wait(&self, error: &ModelError, wait: Duration, attempt: u32) -> Result<(), TurnOver> {
        let text = format!(
            "{}; trying again in {:.1} s (attempt {attempt} of {ATTEMPTS})",
            error.message.trim_end_matches('.'),
            wait.as_secs_f32()
        );
        self.turn.waiting(Level::Warning, text, wait).await?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Records the fixed beginning of the requests, or the notes that have changed.
    async fn prepare(&mut self, conversation: &mut Conversation) -> Result<(), TurnOver> {
        if self.model.reads_recent_turns_only() {
            return Ok(());
        }
        if conversation.fixed_for(&self.model.name()).is_none() {
            return self.start_context(conversation).await;
        }
        // Later in a turn, the prompt that the changes would come with is already sent.
        if !conversation.begins() || std::mem::replace(&mut self.notes_checked, true) {
            return Ok(());
        }
        let notes = conversation.changed_notes(&self.notes());
        if notes.is_empty() {
            return Ok(());
        }
        let record = ModelRecord::NotesChanged { notes };
        conversation.record(&record);
        self.turn.record(record).await
    }

    async fn start_context(&mut self, conversation: &mut Conversation) -> Result<(), TurnOver> {
        self.notes_checked = true;
        let model = self.model.name();
        let record = ModelRecord::ContextStarted {
            instructions: instructions::for_model(&model).into(),
            model,
            tools: self.agent.tools.descriptions(),
            notes: self.notes(),
        };
        conversation.record(&record);
        self.turn.record(record).await
    }

    fn notes(&self) -> Vec<loggia_core::Note> {
        self.surroundings.notes(self.turn.context())
    }

    /// Adds the memory files of directories that calls used for the first time to the calls' results.
    async fn give_memory(&self, conversation: &mut Conversation) -> Result<(), TurnOver> {
        let paths = conversation.last_paths();
        if self.model.reads_recent_turns_only() || paths.is_empty() {
            return Ok(());
        }
        let (surroundings, given) = (self.surroundings.clone(), conversation.given_memory());
        let read = move || surroundings.memory_for(&paths, &given);
        let records = tokio::task::spawn_blocking(read).await;
        let failed = |error| TurnOver::Failed(format!("memory cannot be read: {error}"));
        for record in records.map_err(failed)? {
            conversation.record(&record);
            self.turn.record(record).await?;
        }
        Ok(())
    }

    fn request(&self, conversation: &Conversation) -> ModelRequest {
        let fixed = conversation.fixed_for(&self.model.name());
        let (instructions, tools) = match fixed {
            Some(fixed) => (fixed.instructions.clone(), fixed.tools.clone()),
            None => (
                instructions::with_memory(&self.model.name(), &self.surroundings.memory).into(),
                self.agent.tools.descriptions(),
            ),
        };
        let context = self.turn.context();
        ModelRequest {
            purpose: Purpose::Turn,
            instructions,
            messages: conversation.messages(),
            tools,
            effort: context.settings.effort,
            cache_key: context.session.as_str().into(),
        }
    }

    /// Streams one attempt and passes it on as it comes.
    async fn stream(
        &mut self,
        request: ModelRequest,
        conversation: &mut Conversation,
        attempt: &mut Attempt,
    ) -> Result<(), ReplyError> {
        let (turn, model) = (self.turn, self.model);
        let limits = &turn.context().settings.limits;
        let message = attempt.reply.message.clone();
        let mut stream = model.stream(request);
        while let Some(delta) = stream.next().await {
            match delta.map_err(ReplyError::Model)? {
                Delta::Text(text) => {
                    spend(&mut self.text_left, text.len(), limits)?;
                    attempt.begun = true;
                    conversation.say(&message, &text);
                    attempt.reply.text.push_str(&text);
                    turn.say(&message, text).await?;
                }
                Delta::Thought { subject, text } => {
                    spend(&mut self.text_left, text.len(), limits)?;
                    attempt.begun = true;
                    turn.think(&message, subject, text).await?;
                }
                Delta::Item(raw) => attempt.items.push(ReplyItem { raw, call: None }),
                Delta::Call { tool, input, item } => {
                    let call = turn.call();
                    if let Some(raw) = item {
                        let call = Some(call.clone());
                        attempt.items.push(ReplyItem { raw, call });
                    }
                    // A call that is left out is answered in the next request.
                    match attempt.reply.calls.len() < limits.calls as usize {
                        true => attempt.reply.calls.push(RequestedCall { call, tool, input }),
                        false => attempt.reply.surplus += 1,
                    }
                }
                Delta::Usage(usage) => {
                    turn.usage_within(model.name(), usage, model.window()).await?;
                }
                Delta::Stop(stop) => {
                    attempt.reply.stop = stop;
                    return Ok(());
                }
            }
        }
        let why = "the model's reply was cut off";
        Err(ReplyError::Model(ModelError::new(ModelErrorKind::Transport, why)))
    }

    /// Records a complete reply. A refusal, or a full window, does not count as one.
    async fn end(
        &self,
        attempt: Attempt,
        conversation: &mut Conversation,
    ) -> Result<Result<ModelReply, ModelError>, TurnOver> {
        let Attempt { reply, items, .. } = attempt;
        let error = match &reply.stop {
            Stop::Refused { why } => {
                let why = format!("the model refused: {why}");
                Some(ModelError::new(ModelErrorKind::Refused, why))
            }
            Stop::WindowFull => {
                let why = "the conversation is too long for the model: /compact or /clear it";
                Some(ModelError::new(ModelErrorKind::ContextTooLong, why))
            }
            Stop::Finished | Stop::Length | Stop::Paused => None,
        };
        if let Some(error) = error {
            return Ok(Err(error));
        }
        if !items.is_empty() {
            let record = ModelRecord::ReplyEnded {
                message: reply.message.clone(),
                model: self.model.name(),
                stop: reply.stop.clone(),
                items,
            };
            conversation.record(&record);
            self.turn.record(record).await?;
        }
        Ok(Ok(reply))
    }
}

impl Attempt {
    fn new(turn: &Turn) -> Self {
        let reply = ModelReply {
            message: turn.message(),
            text: String::new(),
            calls: Vec::new(),
            surplus: 0,
            stop: Stop::Finished,
        };
        Self { reply, items: Vec::new(), begun: false }
    }
}

fn spend(left: &mut u64, bytes: usize, limits: &Limits) -> Result<(), TurnOver> {
    *left = left.checked_sub(bytes as u64).ok_or_else(|| {
        TurnOver::Failed(format!(
            "the model's text exceeds {} bytes in one turn",
            limits.text_bytes
        ))
    })?;
    Ok(())
}

/// Between three quarters and five quarters of the pause, so that many clients do not come back at once.
fn jittered(pause: Duration) -> Duration {
    let random = (uuid::Uuid::now_v7().as_u128() & 0xffff) as u32;
    pause * (0xc000 + random / 2) / 0x10000
}
