//! `/init`: a first `AGENTS.md` from what is really in the workspace, shown before it is written.

use std::sync::Arc;

use loggia_session::{Turn, TurnOver};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{conclude, memory, say, survey, warn};
use crate::memory::AGENTS;
use crate::native::NativeAgent;
use crate::workspace::Workspace;

pub async fn init(agent: &NativeAgent, turn: &Turn) -> Result<(), TurnOver> {
    let workspace = agent.open_workspace(turn)?;
    let after = "Read it and correct it: the model is told what it says.";
    if let Some((_, outcome)) = agent.resume(turn, &workspace).await?.pop() {
        return conclude(turn, outcome, after).await;
    }
    let (content, complete) = surveyed(&workspace, turn.stop().clone()).await?;
    if !complete {
        warn(turn, "the workspace is large: only a part of it was looked at".to_owned()).await?;
    }
    // Looked for last, so that little time passes between this and the diff that is shown.
    if memory::current(&workspace).await?.is_some() {
        let text = format!(
            "{AGENTS} exists already, and nothing was written. `/memory add TEXT` adds a note to it; \
             to begin anew, move it away first."
        );
        return say(turn, text).await;
    }
    let input = json!({ "path": AGENTS, "content": content });
    let outcome = agent.call(turn, &workspace, "write_file", input).await?;
    conclude(turn, outcome, after).await
}

async fn surveyed(
    workspace: &Arc<Workspace>,
    stop: CancellationToken,
) -> Result<(String, bool), TurnOver> {
    let workspace = workspace.clone();
    let look = move || survey::Survey::of(&workspace, stop);
    let looked = tokio::task::spawn_blocking(look).await;
    match looked {
        Ok(Ok(survey)) => Ok((survey.to_string(), survey.complete())),
        Ok(Err(error)) => Err(TurnOver::Failed(error.to_string())),
        Err(error) => Err(TurnOver::Failed(format!("the survey broke: {error}"))),
    }
}
