//! Compaction: a summary replaces the earlier conversation in the model's requests.
//!
//! `/compact` requests it; a turn that would not fit into the model's window begins with it. The model
//! writes the summary, the log keeps everything, and nothing changes until the summary is complete.
//!
//! Not here: the texts of the slash commands.

use futures::StreamExt;
use loggia_core::session::SUMMARY_LIMIT;
use loggia_core::{Content, Level};
use loggia_session::{Turn, TurnOver};

use crate::context::Conversation;
use crate::model::{Delta, Message, Model, ModelRequest, Purpose};

/// The approximate bytes of one token. Models count differently.
pub const BYTES_PER_TOKEN: u64 = 4;
/// The most bytes of earlier text in a turn, even if the model's window is larger.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

const INSTRUCTIONS: &str = "You summarise a conversation between a user and a coding agent, so that \
     the agent can continue without having read it. Do not call tools.";

const REQUEST: &str = "Summarise the conversation so far. Keep everything that is needed to \
     continue: the user's goals and decisions, the work done and its results, the relevant files and \
     commands, and the open points. Write plain text, as short as possible.";

/// How full a model's window may be before the conversation is compacted automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactAt {
    /// Percent of the window. 0 means never.
    pub percent: u8,
}

impl Default for CompactAt {
    fn default() -> Self {
        Self { percent: 80 }
    }
}

impl CompactAt {
    /// The most tokens of a turn. None if the window is unknown or compaction is off.
    fn token_limit(self, window: Option<u64>) -> Option<u64> {
        let share = u128::from(window?) * u128::from(self.percent.min(100)) / 100;
        u64::try_from(share).ok().filter(|share| *share > 0)
    }

    /// The limits for a window. None if the window is unknown or compaction is off.
    pub fn limits(self, window: Option<u64>) -> Option<TextLimits> {
        let bytes = |tokens: u64| {
            let bytes = tokens.saturating_mul(BYTES_PER_TOKEN).min(MOST_BYTES);
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        let (limit, window) = (self.token_limit(window)?, window?);
        // A summary covers more than a turn may contain; otherwise the oldest turns would be in neither.
        // An eighth of the window is left for the model's reply.
        let summary = bytes(window - window / 8).max(bytes(limit));
        Some(TextLimits { turn: bytes(limit), summary })
    }

    /// Whether a turn of this size begins with a summary. The earlier turns must be at least a quarter of
    /// the limit: otherwise a large summary or large instructions would cause one summary after another.
    fn is_due(self, window: Option<u64>, size: ConversationSize) -> bool {
        let Some(limit) = self.token_limit(window) else { return false };
        let tokens = |bytes: u64| bytes.div_ceil(BYTES_PER_TOKEN);
        let before = tokens(size.summary.saturating_add(size.earlier)).max(size.reported);
        let whole = before.saturating_add(tokens(size.prompt));
        whole > limit && tokens(size.earlier).saturating_mul(4) > limit
    }
}

/// The most bytes of earlier text in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// In a request of a turn.
    pub turn: usize,
    /// In a request for a summary.
    pub summary: usize,
}

/// The bytes of a conversation if nothing is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConversationSize {
    pub summary: u64,
    /// Turns since the summary.
    pub earlier: u64,
    pub prompt: u64,
    /// Tokens of the last request and its reply as the model counted them; 0 if it did not report them.
    pub reported: u64,
}

/// Compacts the earlier conversation at the beginning of a turn, if that is due. If the summary fails,
/// the turn continues without one, and the oldest turns are left out.
pub async fn compact_if_due(
    at: CompactAt,
    turn: &Turn,
    model: &dyn Model,
    conversation: &mut Conversation,
) -> Result<(), TurnOver> {
    let window = model.window();
    let Some(limits) = at.limits(window) else { return Ok(()) };
    conversation.set_limits(limits);
    if !conversation.begins() || !at.is_due(window, conversation.full_size()) {
        return Ok(());
    }
    let (turns, before) = (conversation.earlier_turns(), conversation.earlier_size());
    if turns == 0 {
        return Ok(());
    }
    // Boxed to keep it out of the future of every turn.
    match Box::pin(summarize(turn, model, conversation, None)).await {
        Ok(summary) => {
            turn.compact_earlier(&summary).await?;
            let text =
                format!("Compacted automatically. {}.", describe_summary(&summary, turns, before));
            conversation.compact(summary);
            turn.notice(Level::Info, text).await
        }
        Err(TurnOver::Failed(why)) => {
            let text = format!(
                "The conversation is nearly too long for the model, and {why}. The oldest turns are \
                 left out as far as needed; /compact tries again, /clear starts over."
            );
            turn.notice(Level::Warning, text).await
        }
        Err(over) => Err(over),
    }
}

/// Describes a summary to people.
pub fn describe_summary(summary: &str, turns: usize, before: usize) -> String {
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    format!("A summary of {} bytes now replaces {turns} ({before} bytes)", summary.len())
}

/// Asks the model for a summary of the conversation before this turn.
pub async fn summarize(
    turn: &Turn,
    model: &dyn Model,
    conversation: &Conversation,
    focus: Option<&str>,
) -> Result<String, TurnOver> {
    let failed = |why: &str| TurnOver::Failed(format!("nothing was summarised: {why}"));
    let mut messages = conversation.earlier_messages();
    let focus = focus.map_or(String::new(), |focus| format!(" Keep especially: {focus}"));
    messages.push(Message::User(Content::text(format!("{REQUEST}{focus}")).into()));
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
            // The request has no tools, and thoughts are not part of the summary.
            Delta::Thought { .. } | Delta::Call { .. } => {}
        }
    }
    Err(failed("the model's reply was cut off"))
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
