//! Expands a custom command to a prompt: inserts arguments, files and the output of its command lines.
//! Each command line is a call that needs a permit.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use loggia_core::{CallId, CallOutcome, Content, Envelope, Event, Part, SHELL_TOOL, TurnId};
use loggia_session::{Turn, TurnOver};
use serde_json::json;

use super::template::{Arguments, Piece};
use super::{CommandFiles, FoundCommand};
use crate::native::NativeAgent;
use crate::workspace::{Workspace, WorkspacePath, shown};

/// Bytes of a file that is inserted.
const FILE_LIMIT: u64 = 128 * 1024;
/// Bytes of the whole prompt.
const PROMPT_LIMIT: usize = 512 * 1024;

/// The prompt that a custom command was expanded to.
#[derive(Debug, Clone, PartialEq)]
pub struct Expanded {
    pub content: Arc<Content>,
    /// Whether this run of the turn made the expansion. Calls in the log so far were made for it.
    pub in_this_run: bool,
}

/// The expansion that an earlier run of this turn recorded.
pub async fn recorded(turn: &Turn) -> Result<Option<Expanded>, TurnOver> {
    let context = turn.context();
    let history = turn.recent_history().await?;
    let text = history.iter().rev().find_map(|envelope| match &envelope.event {
        Event::PromptExpanded { turn, text, .. } if *turn == context.turn => Some(text.clone()),
        _ => None,
    });
    Ok(text.map(|text| Expanded {
        content: with_text(&context.content, text).into(),
        in_this_run: false,
    }))
}

/// None if one of its command lines was refused; then the reason has been shown.
pub async fn expand(
    agent: &NativeAgent,
    turn: &Turn,
    files: &Arc<CommandFiles>,
    name: &str,
    arguments: &str,
) -> Result<Option<Expanded>, TurnOver> {
    let context = turn.context();
    let found = find(files, context.workspace.path(), name).await?;
    let (command, template) = (&found.command, &found.file.template);
    let failed = |why: String| TurnOver::Failed(format!("/{}: {why}", command.name));
    let arguments = Arguments::new(arguments);
    let workspace = agent.open_workspace(turn)?;
    let mut earlier = calls_of(&turn.recent_history().await?, &context.turn);
    let mut resumed = agent.resume(turn, &workspace).await?;
    let mut text = String::new();
    for piece in &template.pieces {
        match piece {
            Piece::Text(_) | Piece::Whole | Piece::Arguments | Piece::Argument(_) => {
                text.push_str(&template.text(piece, &arguments));
            }
            Piece::File(path) => text.push_str(&read(&workspace, path).await.map_err(failed)?),
            Piece::Shell(line) => {
                let line = template.command_line(line, &arguments).map_err(failed)?;
                let outcome = match earlier.pop_front() {
                    Some(past) if past.line.as_deref() != Some(line.as_str()) => {
                        let why = "its file changed while a call waited; nothing more was run";
                        return Err(failed(why.to_owned()));
                    }
                    Some(EarlierCall { call, outcome, .. }) => {
                        let ended = resumed.iter().position(|(known, _)| *known == call);
                        let ended = ended.map(|index| resumed.swap_remove(index).1);
                        ended.or(outcome).ok_or_else(|| failed("a command was lost".to_owned()))?
                    }
                    None => {
                        let input = json!({ "command": line });
                        agent.call(turn, &workspace, SHELL_TOOL, input).await?
                    }
                };
                match output_of(outcome) {
                    LineOutput::Text(output) => text.push_str(output.trim_end()),
                    LineOutput::Refused(reason) => {
                        let said = format!("Nothing was sent: {reason}.");
                        turn.say(&turn.message(), said).await?;
                        return Ok(None);
                    }
                    LineOutput::Failed(why) => return Err(failed(why)),
                }
            }
        }
        within_limit(&text).map_err(failed)?;
    }
    text.push_str(&template.unused_arguments(&arguments));
    within_limit(&text).map_err(failed)?;
    turn.expand(&command.name, &command.source, &text).await?;
    Ok(Some(Expanded { content: with_text(&context.content, text).into(), in_this_run: true }))
}

fn within_limit(text: &str) -> Result<(), String> {
    match text.len() > PROMPT_LIMIT {
        true => Err(format!("its prompt has more than {PROMPT_LIMIT} bytes")),
        false => Ok(()),
    }
}

async fn find(
    files: &Arc<CommandFiles>,
    workspace: &str,
    name: &str,
) -> Result<FoundCommand, TurnOver> {
    let (files, workspace, wanted) = (files.clone(), workspace.to_owned(), name.to_owned());
    let found = tokio::task::spawn_blocking(move || files.find(Path::new(&workspace), &wanted));
    let found = found.await.map_err(|error| TurnOver::Failed(error.to_string()))?;
    found.ok_or_else(|| TurnOver::Failed(format!("the file of /{name} no longer exists")))
}

/// The prompt with another text; its files and data stay.
fn with_text(content: &Content, text: String) -> Content {
    let others = content.parts.iter().filter(|part| !matches!(part, Part::Text { .. })).cloned();
    let parts = std::iter::once(Part::Text { text }).chain(others).collect();
    Content { parts, ..content.clone() }
}

/// A call that an earlier run of this turn made.
struct EarlierCall {
    call: CallId,
    line: Option<String>,
    outcome: Option<CallOutcome>,
}

fn calls_of(history: &[Arc<Envelope>], current: &TurnId) -> VecDeque<EarlierCall> {
    let mut calls: VecDeque<EarlierCall> = VecDeque::new();
    for envelope in history {
        match &envelope.event {
            Event::CallProposed { turn, call, input, .. } if turn == current => {
                let line = input.get("command").and_then(|line| line.as_str());
                let (call, line) = (call.clone(), line.map(str::to_owned));
                calls.push_back(EarlierCall { call, line, outcome: None });
            }
            Event::CallEnded { call, outcome } => {
                if let Some(past) = calls.iter_mut().find(|past| past.call == *call) {
                    past.outcome = Some(outcome.clone());
                }
            }
            _ => {}
        }
    }
    calls
}

enum LineOutput {
    Text(String),
    Refused(String),
    Failed(String),
}

fn output_of(outcome: CallOutcome) -> LineOutput {
    match outcome {
        CallOutcome::Succeeded { output } => LineOutput::Text(output.text),
        // The message contains the output and the exit status; the prompt may need both.
        CallOutcome::Failed { failure } if failure.kind == "exit_status" => {
            LineOutput::Text(failure.message)
        }
        CallOutcome::Failed { failure } => LineOutput::Failed(failure.message),
        CallOutcome::Cancelled { reason } => LineOutput::Refused(reason),
    }
}

async fn read(workspace: &Arc<Workspace>, path: &str) -> Result<String, String> {
    let (workspace, path) = (workspace.clone(), path.to_owned());
    let read = move || -> Result<String, String> {
        let located: WorkspacePath = workspace.locate(&path).map_err(|error| error.message)?;
        if workspace.excludes(&located) {
            return Err(format!("`{}` is excluded by an ignore file", shown(&path)));
        }
        let mut file = workspace.open_file(&located).map_err(|error| error.message)?;
        let bytes = file.read_whole(&located, FILE_LIMIT).map_err(|error| error.message)?;
        String::from_utf8(bytes).map_err(|_| format!("`{located}` is not UTF-8 text"))
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()))
}
