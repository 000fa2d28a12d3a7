//! `/compact` and `/clear`: what the model reads from here on.

use futures::StreamExt;
use loggia_core::Content;
use loggia_core::session::SUMMARY_LIMIT;
use loggia_session::{Turn, TurnOver};

use super::say;
use crate::model::{Delta, Message, Model, ModelRequest, Purpose};
use crate::native::{self, NativeAgent};

const INSTRUCTIONS: &str = "You summarise a conversation between a user and a coding agent, so that \
     the agent can go on without having read it. You call no tools.";

const REQUEST: &str = "Summarise the conversation so far. Keep what is needed to go on: what the \
     user wants and decided, what was done and with what result, which files and commands matter, \
     what is still open. Write plain text, no longer than it has to be.";

pub async fn compact(
    agent: &NativeAgent,
    turn: &Turn,
    focus: Option<&str>,
) -> Result<(), TurnOver> {
    let conversation = native::conversation(turn).await?;
    let turns = conversation.turns();
    if turns == 0 {
        let since = conversation.summary().map_or("", |_| " since the last summary");
        return say(turn, format!("There is nothing to summarise: no turn{since}.")).await;
    }
    let model = agent.open_model(turn).await?;
    let before = conversation.size();
    let mut messages = conversation.messages();
    let wish = focus.map_or(String::new(), |focus| format!(" Above all keep: {focus}"));
    messages.push(Message::User(Content::text(format!("{REQUEST}{wish}"))));
    let summary = summarise(turn, model.as_ref(), messages).await?;
    let text = format!(
        "A summary of {} bytes stands for {} ({before} bytes) from now on:\n\n{summary}",
        summary.len(),
        if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") },
    );
    turn.compact(summary).await?;
    say(turn, text).await
}

/// The log stays; the model begins anew.
pub async fn clear(turn: &Turn) -> Result<(), TurnOver> {
    turn.compact("").await?;
    say(turn, "The conversation begins anew. What was said stays in the log.").await
}

/// The model's own words, or why there are none. Nothing has changed before they are complete.
async fn summarise(
    turn: &Turn,
    model: &dyn Model,
    messages: Vec<Message>,
) -> Result<String, TurnOver> {
    let failed = |why: &str| TurnOver::Failed(format!("nothing was summarised: {why}"));
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
