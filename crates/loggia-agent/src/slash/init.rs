//! `/init`: writes a first `AGENTS.md` from the files in the workspace, after approval.

use std::sync::Arc;

use loggia_session::{Turn, TurnOver};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::project_scan::ProjectScan;
use super::{conclude, memory, say, warn};
use crate::memory::AGENTS;
use crate::native::NativeAgent;
use crate::workspace::Workspace;

pub async fn init(agent: &NativeAgent, turn: &Turn) -> Result<(), TurnOver> {
    let workspace = agent.open_workspace(turn)?;
    let after = "Read it and correct it: the model gets its text.";
    if let Some((_, outcome)) = agent.resume(turn, &workspace).await?.pop() {
        return conclude(turn, outcome, after).await;
    }
    let (content, complete) = scan(&workspace, turn.stop().clone()).await?;
    if !complete {
        warn(turn, "the workspace is large: only a part of it was scanned".to_owned()).await?;
    }
    // Checked last, to keep the time between this and the diff short.
    if let Some((file, _)) = memory::current(&workspace).await? {
        let text = format!(
            "{file} already exists, and nothing was written. `/memory add TEXT` adds a note to it; \
             to start over, move it away first."
        );
        return say(turn, text).await;
    }
    let input = json!({ "path": AGENTS, "content": content });
    let outcome = agent.call(turn, &workspace, "write_file", input).await?;
    conclude(turn, outcome, after).await
}

async fn scan(
    workspace: &Arc<Workspace>,
    stop: CancellationToken,
) -> Result<(String, bool), TurnOver> {
    let workspace = workspace.clone();
    let scan = move || ProjectScan::of(&workspace, stop);
    match tokio::task::spawn_blocking(scan).await {
        Ok(Ok(scan)) => Ok((scan.to_string(), scan.complete())),
        Ok(Err(error)) => Err(TurnOver::Failed(error.to_string())),
        Err(error) => Err(TurnOver::Failed(format!("the scan failed unexpectedly: {error}"))),
    }
}
