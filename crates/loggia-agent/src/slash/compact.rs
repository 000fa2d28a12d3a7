//! `/compact` and `/clear`: what the model reads from here on.

use loggia_session::{Turn, TurnOver};

use super::say;
use crate::compaction::{stands_for, summarise};
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
    let model = agent.open_model(turn).await?;
    if let Some(room) = agent.compact_at().room(model.window()) {
        conversation.make_room(room);
    }
    let (turns, before) = (conversation.earlier_turns(), conversation.earlier_size());
    let summary = summarise(turn, model.as_ref(), &conversation, focus).await?;
    let text = format!("{}:\n\n{summary}", stands_for(&summary, turns, before));
    turn.compact(summary).await?;
    say(turn, text).await
}

/// The log stays; the model begins anew.
pub async fn clear(turn: &Turn) -> Result<(), TurnOver> {
    turn.compact("").await?;
    say(turn, "The conversation begins anew. What was said stays in the log.").await
}
