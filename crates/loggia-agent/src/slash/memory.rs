//! `/memory`: shows, lists and extends the notes for the model.

use std::sync::Arc;

use loggia_core::Note;
use loggia_session::{Turn, TurnOver};
use serde_json::json;

use super::{conclude, say};
use crate::context::Conversation;
use crate::memory::{AGENTS, NAMES};
use crate::native::NativeAgent;
use crate::workspace::Workspace;

pub async fn show(agent: &NativeAgent, turn: &Turn) -> Result<(), TurnOver> {
    let surroundings = agent.surroundings(turn, &agent.open_workspace(turn)?).await?;
    let nothing = || {
        format!(
            "There are no notes. `/init` writes a first {AGENTS}, `/memory add TEXT` adds a note."
        )
    };
    let given = given(turn).await?.into_iter().map(|note| note.text);
    let texts: Vec<String> = surroundings.memory.block().into_iter().chain(given).collect();
    say(turn, if texts.is_empty() { nothing() } else { texts.join("\n\n") }).await
}

pub async fn list(agent: &NativeAgent, turn: &Turn) -> Result<(), TurnOver> {
    let surroundings = agent.surroundings(turn, &agent.open_workspace(turn)?).await?;
    let list = surroundings.memory.list();
    let given = given(turn).await?;
    let given = given.iter().map(|note| format!("- {}: given with a result", note.name));
    let lines = list.lines().map(|line| format!("- {line}")).chain(given);
    say(turn, lines.collect::<Vec<_>>().join("\n")).await
}

/// Memory of directories below the workspace that the model has got in this conversation.
async fn given(turn: &Turn) -> Result<Vec<Note>, TurnOver> {
    let (context, history) = (turn.context(), turn.history().await?);
    let conversation = Conversation::from_log(&history, &context.turn, &context.content, None);
    Ok(conversation.given_memory())
}

pub async fn add(agent: &NativeAgent, turn: &Turn, text: &str) -> Result<(), TurnOver> {
    let workspace = agent.open_workspace(turn)?;
    let after = "The model gets it from the next message on.";
    if let Some((_, outcome)) = agent.resume(turn, &workspace).await?.pop() {
        return conclude(turn, outcome, after).await;
    }
    let (file, old) = match current(&workspace).await? {
        Some((file, old)) => (file, Some(old)),
        None => (AGENTS, None),
    };
    let input = json!({ "path": file, "content": with_note(old.as_deref(), text) });
    let outcome = agent.call(turn, &workspace, "write_file", input).await?;
    conclude(turn, outcome, after).await
}

/// The memory file of the workspace and its text; None if there is none. A new `AGENTS.md` would replace a
/// `CLAUDE.md`.
pub async fn current(
    workspace: &Arc<Workspace>,
) -> Result<Option<(&'static str, String)>, TurnOver> {
    let workspace = workspace.clone();
    let read = move || -> Result<Option<(&'static str, String)>, String> {
        for name in NAMES {
            let path = workspace.locate(name).and_then(|path| workspace.real_file(&path));
            let version = path.and_then(|path| workspace.version(&path));
            if let Some(version) = version.map_err(|error| error.to_string())? {
                let text = String::from_utf8(version.bytes);
                return text
                    .map(|text| Some((name, text)))
                    .map_err(|_| format!("{name} is not UTF-8 text: nothing can be added to it"));
            }
        }
        Ok(None)
    };
    let read =
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()));
    read.map_err(TurnOver::Failed)
}

/// Adds a note as one list item, even if it has several lines.
fn with_note(old: Option<&str>, text: &str) -> String {
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let mut note = format!("- {}\n", lines.next().unwrap_or_default());
    for line in lines {
        note.push_str(&format!("  {line}\n"));
    }
    let Some(old) = old.filter(|old| !old.trim().is_empty()) else {
        return format!("# Notes for agents\n\n{note}");
    };
    let old = old.trim_end();
    // Continues a list; a blank line separates anything else.
    let in_list = old.lines().last().is_some_and(|line| line.trim_start().starts_with("- "));
    let separator = if in_list { "\n" } else { "\n\n" };
    format!("{old}{separator}{note}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_added_as_an_item() {
        let cases = [
            (None, "likes tea", "# Notes for agents\n\n- likes tea\n"),
            (Some(" \n"), "likes tea", "# Notes for agents\n\n- likes tea\n"),
            (Some("# Here"), "a\n\n  b ", "# Here\n\n- a\n    b\n"),
            (Some("# Here\n\n- a\n"), "b", "# Here\n\n- a\n- b\n"),
        ];
        for (old, text, expected) in cases {
            assert_eq!(with_note(old, text), expected);
        }
    }
}
