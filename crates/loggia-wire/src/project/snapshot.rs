//! A task as it is now, before a dialect writes it down.

use loggia_core::{Exchange, Millis, Part, SessionId, TaskArtifact, TaskId, TaskState, TaskView};

use super::calls::Calls;
use super::question::{failure_id, response_id, response_text, sources_text};
use super::update::{Piece, Said, Speaker};
use super::{Setup, Shown, plain, tool};
use crate::devtool::{About, EventKind};
use crate::dialect::{Dialect, Extension, View};
use crate::intent::HistoryLength;

pub(crate) struct Shape<'a> {
    pub view: &'a TaskView,
    pub task: &'a TaskId,
    pub session: &'a SessionId,
    pub state: TaskState,
    pub said: Option<Said>,
    pub at: Millis,
    /// None: left out.
    pub history: Option<Vec<Said>>,
    pub artifacts: Option<Vec<Piece>>,
}

/// What the open turn of a session adds to its task.
#[derive(Clone, Copy)]
pub(super) struct Open<'a> {
    pub calls: &'a Calls,
    pub setup: &'a Setup,
    pub model: &'a str,
}

pub(super) fn shape<'a>(
    session: &'a SessionId,
    view: &'a TaskView,
    open: Open<'_>,
    reader: View,
    shown: Shown,
) -> Shape<'a> {
    Shape {
        view,
        task: &view.id,
        session,
        state: view.state,
        said: match reader.dialect {
            // What is asked stands in records of its own.
            Dialect::Sdlc | Dialect::Coder if view.state == TaskState::InputRequired => None,
            _ => said(view, open, reader.extension),
        },
        at: view.updated,
        history: history(view, shown.history),
        artifacts: shown.artifacts.then(|| artifacts(view, reader.dialect)),
    }
}

/// What belongs to the state: the open question, or why it failed.
fn said(view: &TaskView, open: Open<'_>, extension: Extension) -> Option<Said> {
    let Open { calls, setup, model } = open;
    match (view.state, extension) {
        (TaskState::InputRequired, Extension::Off) => plain::open_question(calls, setup),
        (TaskState::InputRequired, Extension::On) => tool::open_questions(calls).map(|said| {
            let question = tool::only_question(calls);
            let about = About { question, ..About::kind(EventKind::ToolCallUpdate) };
            Said { metadata: Some(about.metadata(model).into()), ..said }
        }),
        (TaskState::Failed, _) => {
            let why = view.failure.as_deref()?;
            Some(Said::text(failure_id(view), why))
        }
        (TaskState::Rejected, _) => {
            let why = view.failure.as_deref()?;
            Some(Said::text(format!("rejected-{}", view.id), why))
        }
        (
            TaskState::Submitted | TaskState::Working | TaskState::Completed | TaskState::Canceled,
            _,
        ) => None,
    }
}

fn history(view: &TaskView, length: HistoryLength) -> Option<Vec<Said>> {
    let skipped = match length {
        HistoryLength::All => 0,
        HistoryLength::Last(0) => return None,
        HistoryLength::Last(length) => view.history.len().saturating_sub(length),
    };
    Some(view.history.iter().skip(skipped).map(exchange).collect())
}

fn exchange(said: &Exchange) -> Said {
    let by_user = |id: String, parts: Vec<Part>, metadata| Said {
        id,
        by: Speaker::User,
        parts: if parts.is_empty() { vec![Part::Text { text: String::new() }] } else { parts },
        metadata,
    };
    match said {
        Exchange::Prompt { prompt, content, .. } => {
            let id = content.message.clone().unwrap_or_else(|| prompt.to_string());
            by_user(id, content.parts.clone(), content.metadata.clone())
        }
        Exchange::Reply { message, text, .. } => Said::text(message.as_str(), text),
        Exchange::Sources { turn, sources, .. } => {
            Said::text(format!("{turn}-sources"), sources_text(sources))
        }
        Exchange::Question { approval, subject, .. } => Said::text(approval.as_str(), subject),
        Exchange::Answer { approval, choice, text, message, .. } => {
            let sent = message.clone().unwrap_or_default();
            let text = sent.text.or_else(|| text.clone()).unwrap_or_else(|| choice.to_string());
            let id = sent.id.unwrap_or_else(|| format!("{approval}-answer"));
            by_user(id, vec![Part::Text { text }], None)
        }
    }
}

/// What was published on purpose comes first, then what was said, then which files changed. The task
/// service numbers its artifacts in the order in which they came, and lists them so.
pub(crate) fn artifacts(view: &TaskView, dialect: Dialect) -> Vec<Piece> {
    let mut ordered: Vec<&TaskArtifact> = view.artifacts.iter().collect();
    if dialect == Dialect::Coder {
        // The words stand in its history, and changed files in the records of their calls.
        ordered.retain(|artifact| matches!(artifact, TaskArtifact::Published { .. }));
    }
    if dialect != Dialect::Legacy {
        ordered.sort_by_key(|artifact| match artifact {
            TaskArtifact::Published { .. } => 0,
            TaskArtifact::Response { .. } => 1,
            TaskArtifact::Change { .. } => 2,
        });
    }
    let whole = |artifact, name: &str, parts: Vec<Part>, last: bool| Piece {
        id: id_of(artifact),
        name: name.to_owned(),
        parts,
        append: false,
        last,
    };
    let pieces = ordered.into_iter().map(|artifact| match artifact {
        TaskArtifact::Published { name, parts, complete, .. } => {
            whole(artifact, name, parts.clone(), *complete)
        }
        TaskArtifact::Response { turn, complete } => {
            let parts = vec![Part::Text { text: response_text(view, turn) }];
            whole(artifact, "response", parts, *complete)
        }
        TaskArtifact::Change { path, unified, .. } => {
            let parts = vec![Part::Text { text: unified.clone() }];
            whole(artifact, path, parts, true)
        }
    });
    pieces.collect()
}

fn id_of(artifact: &TaskArtifact) -> String {
    match artifact {
        TaskArtifact::Published { id, .. } => id.clone(),
        TaskArtifact::Response { turn, .. } => response_id(turn),
        TaskArtifact::Change { call, .. } => plain::change_id(call),
    }
}

/// The artifact that a piece belongs to, and the how-manieth of its task it is.
pub(crate) fn artifact_of<'a>(
    view: &'a TaskView,
    piece: &Piece,
) -> Option<(usize, &'a TaskArtifact)> {
    view.artifacts.iter().enumerate().find(|(_, artifact)| id_of(artifact) == piece.id)
}
