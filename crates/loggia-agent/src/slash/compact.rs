//! `/compact` and `/clear`: replace or drop the earlier conversation for the model.

use loggia_core::CompactReach;
use loggia_session::{Turn, TurnOver};

use super::say;
use crate::compaction::{describe_summary, summarize};
use crate::native::{self, NativeAgent};

/// The turn of the command has nothing to summarise.
const REACH: CompactReach = CompactReach::EarlierTurns;

pub async fn compact(
    agent: &NativeAgent,
    turn: &Turn,
    focus: Option<&str>,
) -> Result<(), TurnOver> {
    let model = agent.open_model(turn).await?;
    let mut conversation = native::conversation(turn, model.as_ref()).await?;
    if conversation.summarised_turns(REACH) == 0 {
        let since = conversation.summary().map_or("", |_| " since the last summary");
        return say(turn, format!("There is nothing to summarise: no turn{since}.")).await;
    }
    if let Some(limits) = agent.compact_at().limits(model.window()) {
        conversation.set_limits(limits);
    }
    let (turns, before) =
        (conversation.summarised_turns(REACH), conversation.summarised_size(REACH));
    let summary = summarize(turn, model.as_ref(), &conversation, REACH, focus).await?;
    let text = format!("{}:\n\n{summary}", describe_summary(&summary, turns, before));
    turn.compact(summary).await?;
    say(turn, text).await
}

/// The log keeps the conversation; the model no longer gets it.
pub async fn clear(turn: &Turn) -> Result<(), TurnOver> {
    turn.compact("").await?;
    say(turn, "The conversation starts over. The log keeps everything.").await
}
