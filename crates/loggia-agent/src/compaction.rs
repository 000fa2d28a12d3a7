//! A summary in place of what was said: when one is due by itself, and how it is made.
//!
//! `/compact` asks for it; a turn that would be too much for its model begins with it. Either way the
//! model writes it, the log keeps everything, and nothing has changed until the summary is complete.
//!
//! What must not be here: what a command says about it.

use futures::StreamExt;
use loggia_core::session::SUMMARY_LIMIT;
use loggia_core::{Content, Level};
use loggia_session::{Turn, TurnOver};

use crate::context::Conversation;
use crate::model::{Delta, Message, Model, ModelRequest, Purpose};

/// Bytes of text that are about one token; the models' own counts differ.
pub const BYTES_PER_TOKEN: u64 = 4;
/// Earlier text that a turn may hold where the model's window is known, however large that is.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

const INSTRUCTIONS: &str = "You summarise a conversation between a user and a coding agent, so that \
     the agent can go on without having read it. You call no tools.";

const REQUEST: &str = "Summarise the conversation so far. Keep what is needed to go on: what the \
     user wants and decided, what was done and with what result, which files and commands matter, \
     what is still open. Write plain text, no longer than it has to be.";

/// How full a model's window may be before the conversation is compacted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactAt {
    /// Of the window; 0: never.
    pub percent: u8,
}

impl Default for CompactAt {
    fn default() -> Self {
        Self { percent: 80 }
    }
}

impl CompactAt {
    /// Tokens that a turn may hold. None: nobody knows, or it is nobody's wish.
    fn most(self, window: Option<u64>) -> Option<u64> {
        let share = u128::from(window?) * u128::from(self.percent.min(100)) / 100;
        u64::try_from(share).ok().filter(|share| *share > 0)
    }

    /// What there is room for in such a window. None: nobody knows, or it is nobody's wish.
    pub fn room(self, window: Option<u64>) -> Option<Room> {
        let bytes = |tokens: u64| {
            let bytes = tokens.saturating_mul(BYTES_PER_TOKEN).min(MOST_BYTES);
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        let (most, window) = (self.most(window)?, window?);
        // A summary is made of more than a turn may hold, or the oldest would be in none; an eighth of
        // the window is left for what the model writes.
        let summarised = bytes(window - window / 8).max(bytes(most));
        Some(Room { told: bytes(most), summarised })
    }

    /// Whether a turn with this in it begins with a summary. One that would stand for little is not
    /// made: so a summary that is large itself, or instructions that are, do not lead to the next.
    fn is_due(self, window: Option<u64>, held: Held) -> bool {
        let Some(most) = self.most(window) else { return false };
        let tokens = |bytes: u64| bytes.div_ceil(BYTES_PER_TOKEN);
        let told = tokens(held.summary.saturating_add(held.earlier)).max(held.reported);
        let whole = told.saturating_add(tokens(held.prompt));
        whole > most && tokens(held.earlier).saturating_mul(4) > most
    }
}

/// Bytes of earlier text that a model reads at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Beside a turn that runs.
    pub told: usize,
    /// For a summary.
    pub summarised: usize,
}

/// What a turn would tell its model if nothing was left out, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    pub summary: u64,
    /// Turns since the summary.
    pub earlier: u64,
    pub prompt: u64,
    /// Tokens of the last request and its reply, as the model counted them; 0: it said nothing.
    pub reported: u64,
}

/// Compacts what was before a turn that begins, if that is due. Where there is no summary the turn
/// goes on without one, and the oldest turns are left out.
pub async fn by_itself(
    at: CompactAt,
    turn: &Turn,
    model: &dyn Model,
    conversation: &mut Conversation,
) -> Result<(), TurnOver> {
    let window = model.window();
    let Some(room) = at.room(window) else { return Ok(()) };
    conversation.make_room(room);
    if !conversation.begins() || !at.is_due(window, conversation.held()) {
        return Ok(());
    }
    let (turns, before) = (conversation.earlier_turns(), conversation.earlier_size());
    if turns == 0 {
        return Ok(());
    }
    // Boxed: it is rare, and would otherwise be part of every turn.
    match Box::pin(summarise(turn, model, conversation, None)).await {
        Ok(summary) => {
            turn.compact_earlier(&summary).await?;
            let text = format!("Compacted by itself. {}.", stands_for(&summary, turns, before));
            conversation.compact(summary);
            turn.notice(Level::Info, text).await
        }
        Err(TurnOver::Failed(why)) => {
            let text = format!(
                "The conversation is nearly too long for the model, and {why}. The oldest turns are \
                 left out as far as needed; /compact tries again, /clear begins anew."
            );
            turn.notice(Level::Warning, text).await
        }
        Err(over) => Err(over),
    }
}

/// What people are told of a summary.
pub fn stands_for(summary: &str, turns: usize, before: usize) -> String {
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    format!("A summary of {} bytes stands for {turns} ({before} bytes) from now on", summary.len())
}

/// The model's own words on what was before this turn, or why there are none.
pub async fn summarise(
    turn: &Turn,
    model: &dyn Model,
    conversation: &Conversation,
    focus: Option<&str>,
) -> Result<String, TurnOver> {
    let failed = |why: &str| TurnOver::Failed(format!("nothing was summarised: {why}"));
    let mut messages = conversation.earlier_messages();
    let wish = focus.map_or(String::new(), |focus| format!(" Above all keep: {focus}"));
    messages.push(Message::User(Content::text(format!("{REQUEST}{wish}")).into()));
    let request = ModelRequest {
        purpose: Purpose::Summary,
        instructions: INSTRUCTIONS.to_owned(),
        messages,
        tools: [].into(),
    };
    let mut stream = model.stream(request);
    let mut summary = String::new();
    while let Some(delta) = stream.next().await {
        match delta.map_err(|error| failed(&error.message))? {
            Delta::Text(text) => {
                summary.push_str(&text);
                if summary.len() > SUMMARY_LIMIT {
                    return Err(failed("the model's summary is too long"));
                }
            }
            Delta::Usage(usage) => turn.usage(model.name(), usage).await?,
            Delta::Stop => {
                let summary = summary.trim();
                return match summary.is_empty() {
                    true => Err(failed("the model gave no summary")),
                    false => Ok(summary.to_owned()),
                };
            }
            // It was given no tools, and its thoughts are not part of the summary.
            Delta::Thought { .. } | Delta::Call { .. } => {}
        }
    }
    Err(failed("the model's reply was cut off"))
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
