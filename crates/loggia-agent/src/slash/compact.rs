//! `/compact` and `/clear`: replace or drop the earlier conversation for the model.

use loggia_session::{Turn, TurnOver};

use super::say;
use crate::compaction::{describe_summary, summarize};
use crate::native::{self, NativeAgent};

pub async fn compact(
    agent: &NativeAgent,
    turn: &Turn,
    focus: Option<&str>,
) -> Result<(), TurnOver> {
    let mut conversation = native::conversation(turn).await?;
    if conversation.earlier_turns() == 0 {
        let since = conversation.summary().map_or("", |_| " since the last summary");
        return say(turn, format!("There is nothing to summarise: no turn{since}.")).await;
    }
    let model = agent.open_model(turn)?;
    if let Some(limits) = agent.compact_at().limits(model.window()) {
        conversation.set_limits(limits);
    }
    let (turns, before) = (conversation.earlier_turns(), conversation.earlier_size());
    let summary = summarize(turn, model.as_ref(), &conversation, focus).await?;
    let text = format!("{}:\n\n{summary}", describe_summary(&summary, turns, before));
    turn.compact(summary).await?;
    say(turn, text).await
}

/// The log keeps the conversation; the model no longer gets it.
pub async fn clear(turn: &Turn) -> Result<(), TurnOver> {
    turn.compact("").await?;
    say(turn, "The conversation starts over. The log keeps everything.").await
}
