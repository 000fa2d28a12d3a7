//! Compaction: a summary replaces the earlier conversation in the model's requests.
//!
//! `/compact` requests it. It also happens before a request that would not fit into the model's window, at
//! the beginning of a turn or between two replies of it. The model writes the summary; the plan, the files
//! and the prompt of the running turn survive in any case. The log keeps everything, and nothing changes
//! until the summary is complete.
//!
//! Not here: the texts of the slash commands.

use futures::StreamExt;
use loggia_core::session::SUMMARY_LIMIT;
use loggia_core::{CompactReach, Level};
use loggia_session::{Turn, TurnOver};

use crate::context::Conversation;
use crate::model::{Delta, Message, Model, ModelRequest, Purpose, UserMessage};

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

    /// What a summary must replace before the next request. It must be at least a quarter of the limit:
    /// otherwise a large summary or large instructions would cause one summary after another. The replies of
    /// the running turn are kept if the earlier turns are enough.
    fn due(self, window: Option<u64>, size: ConversationSize) -> Option<CompactReach> {
        let limit = self.token_limit(window)?;
        let tokens = |bytes: u64| bytes.div_ceil(BYTES_PER_TOKEN);
        let before = tokens(size.summary.saturating_add(size.earlier).saturating_add(size.replies))
            .max(size.reported);
        // The prompt is part of what was reported once the turn has a reply.
        let prompt = if size.replies == 0 { tokens(size.prompt) } else { 0 };
        let quarter = |bytes: u64| tokens(bytes).saturating_mul(4) > limit;
        if before.saturating_add(prompt) <= limit {
            return None;
        }
        if quarter(size.earlier) && tokens(size.replies).saturating_mul(2) < limit {
            return Some(CompactReach::EarlierTurns);
        }
        quarter(size.earlier.saturating_add(size.replies)).then_some(CompactReach::Replies)
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
    /// Turns since the summary, without the running one.
    pub earlier: u64,
    /// The replies and results of the running turn so far.
    pub replies: u64,
    pub prompt: u64,
    /// Tokens of the last request and its reply as the model counted them; 0 if it did not report them.
    pub reported: u64,
}

/// Compacts the conversation before a request, if that is due. If the summary fails, the turn continues
/// without one. True if replies of the running turn were compacted.
pub async fn compact_if_due(
    at: CompactAt,
    turn: &Turn,
    model: &dyn Model,
    conversation: &mut Conversation,
) -> Result<bool, TurnOver> {
    let window = model.window();
    let Some(limits) = at.limits(window) else { return Ok(false) };
    conversation.set_limits(limits);
    // A built-in model knows its progress from the replies of the turn.
    if model.reads_recent_turns_only() && !conversation.begins() {
        return Ok(false);
    }
    let Some(reach) = at.due(window, conversation.full_size()) else { return Ok(false) };
    if conversation.summarised_turns(reach) == 0 {
        return Ok(false);
    }
    // Boxed to keep it out of the future of every turn.
    match Box::pin(compact(turn, model, conversation, reach)).await {
        Err(TurnOver::Failed(why)) => {
            let text = format!(
                "The conversation is nearly too long for the model, and {why}. It continues as it is; \
                 /compact tries again, /clear starts over."
            );
            turn.notice(Level::Warning, text).await.map(|()| false)
        }
        compacted => compacted.map(|()| reach == CompactReach::Replies),
    }
}

/// Compacts as much as possible, because the vendor refused the request as too long. False if there is
/// nothing to compact.
pub async fn compact_overflow(
    turn: &Turn,
    model: &dyn Model,
    conversation: &mut Conversation,
) -> Result<bool, TurnOver> {
    let size = conversation.full_size();
    let reach = match size.replies {
        0 => CompactReach::EarlierTurns,
        _ => CompactReach::Replies,
    };
    if conversation.summarised_turns(reach) == 0 {
        return Ok(false);
    }
    // The window is smaller than was known, so the request for a summary must be much smaller.
    let all = size.summary + size.earlier + size.replies + size.prompt;
    let half = usize::try_from(all / 2).unwrap_or(usize::MAX);
    conversation.set_limits(TextLimits { turn: half, summary: half });
    Box::pin(compact(turn, model, conversation, reach)).await.map(|()| true)
}

async fn compact(
    turn: &Turn,
    model: &dyn Model,
    conversation: &mut Conversation,
    reach: CompactReach,
) -> Result<(), TurnOver> {
    let (turns, before) =
        (conversation.summarised_turns(reach), conversation.summarised_size(reach));
    let summary = summarize(turn, model, conversation, reach, None).await?;
    turn.compact_now(&summary, reach).await?;
    let text = format!("Compacted automatically. {}.", describe_summary(&summary, turns, before));
    conversation.compact(summary, reach);
    turn.notice(Level::Info, text).await
}

/// Describes a summary to people.
pub fn describe_summary(summary: &str, turns: usize, before: usize) -> String {
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    format!("A summary of {} bytes now replaces {turns} ({before} bytes)", summary.len())
}

/// Asks the model for a summary, and adds the plan and the files.
pub async fn summarize(
    turn: &Turn,
    model: &dyn Model,
    conversation: &Conversation,
    reach: CompactReach,
    focus: Option<&str>,
) -> Result<String, TurnOver> {
    let mut messages = conversation.summarised_messages(reach);
    let focus = focus.map_or(String::new(), |focus| format!(" Keep especially: {focus}"));
    messages.push(Message::User(UserMessage::text(format!("{REQUEST}{focus}"))));
    let request = ModelRequest {
        purpose: Purpose::Summary,
        instructions: INSTRUCTIONS.into(),
        messages,
        tools: [].into(),
        effort: None,
        cache_key: turn.context().session.as_str().into(),
    };
    let summary = summary_of(turn, model, request).await?;
    // The supplement survives the limit of a summary.
    let supplement = conversation.summary_supplement();
    let room = SUMMARY_LIMIT.saturating_sub(supplement.len());
    let start = summary.get(..summary.floor_char_boundary(room)).unwrap_or_default();
    Ok(format!("{start}{supplement}"))
}

/// The text of a reply.
async fn summary_of(
    turn: &Turn,
    model: &dyn Model,
    request: ModelRequest,
) -> Result<String, TurnOver> {
    let failed = |why: &str| TurnOver::Failed(format!("nothing was summarised: {why}"));
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
            Delta::Stop(_) => {
                let summary = summary.trim();
                return match summary.is_empty() {
                    true => Err(failed("the model gave no summary")),
                    false => Ok(summary.to_owned()),
                };
            }
            // The request has no tools, and thoughts are not part of the summary.
            Delta::Thought { .. } | Delta::Item(_) | Delta::Call { .. } => {}
        }
    }
    Err(failed("the model's reply was cut off"))
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
