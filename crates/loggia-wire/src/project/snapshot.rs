//! A task as it is now, before a protocol writes it.

use loggia_core::{Exchange, Millis, Part, SessionId, TaskArtifact, TaskState, TaskView};

use super::calls::Calls;
use super::question::{failure_id, response_id, response_text, sources_text};
use super::update::{ArtifactChunk, ChatMessage, Role};
use super::{Setup, TaskDetail, plain, tool};
use crate::devtool::{EventKind, EventMetadata};
use crate::dialect::{Extension, View};
use crate::intent::HistoryLength;
use crate::protocol::Protocol;

pub(crate) struct TaskSnapshot<'a> {
    pub view: &'a TaskView,
    pub session: &'a SessionId,
    pub state: TaskState,
    /// The message of the status: the open question, or the reason of a failure.
    pub message: Option<ChatMessage>,
    pub at: Millis,
    /// None: left out.
    pub history: Option<Vec<ChatMessage>>,
    pub artifacts: Option<Vec<ArtifactChunk>>,
    /// Of the session's open turn.
    pub calls: &'a Calls,
    pub setup: &'a Setup,
}

impl<'a> TaskSnapshot<'a> {
    pub(super) fn new(
        session: &'a SessionId,
        view: &'a TaskView,
        calls: &'a Calls,
        setup: &'a Setup,
        reader: View,
        detail: TaskDetail,
    ) -> Self {
        let protocol = reader.protocol();
        let asks = view.state == TaskState::InputRequired;
        let message = match asks && !protocol.has_question_in_status() {
            true => None,
            false => status_message(view, calls, setup, reader.extension),
        };
        Self {
            view,
            session,
            state: view.state,
            message,
            at: view.updated,
            history: history(view, detail.history),
            artifacts: detail.artifacts.then(|| artifacts(view, protocol)),
            calls,
            setup,
        }
    }

    pub fn id(&self) -> &'a str {
        self.view.id.as_str()
    }
}

fn status_message(
    view: &TaskView,
    calls: &Calls,
    setup: &Setup,
    extension: Extension,
) -> Option<ChatMessage> {
    match (view.state, extension) {
        (TaskState::InputRequired, Extension::Off) => plain::open_question(calls, setup),
        (TaskState::InputRequired, Extension::On) => tool::open_questions(calls).map(|said| {
            let question = tool::only_question(calls);
            let about =
                EventMetadata { question, ..EventMetadata::kind(EventKind::ToolCallUpdate) };
            ChatMessage { metadata: Some(about.metadata(&setup.model).into()), ..said }
        }),
        (TaskState::Failed, _) => {
            let why = view.failure.as_deref()?;
            Some(ChatMessage::text(failure_id(view), why))
        }
        (TaskState::Rejected, _) => {
            let why = view.failure.as_deref()?;
            Some(ChatMessage::text(format!("rejected-{}", view.id), why))
        }
        (
            TaskState::Submitted | TaskState::Working | TaskState::Completed | TaskState::Canceled,
            _,
        ) => None,
    }
}

fn history(view: &TaskView, length: HistoryLength) -> Option<Vec<ChatMessage>> {
    let skipped = match length {
        HistoryLength::All => 0,
        HistoryLength::Last(0) => return None,
        HistoryLength::Last(length) => view.history.len().saturating_sub(length),
    };
    Some(view.history.iter().skip(skipped).map(exchange).collect())
}

fn exchange(said: &Exchange) -> ChatMessage {
    let from_user = |id: String, parts: Vec<Part>, metadata| ChatMessage {
        id,
        role: Role::User,
        parts: if parts.is_empty() { vec![Part::Text { text: String::new() }] } else { parts },
        metadata,
    };
    match said {
        Exchange::Prompt { prompt, content, .. } => {
            let id = content.message.clone().unwrap_or_else(|| prompt.to_string());
            from_user(id, content.parts.clone(), content.metadata.clone())
        }
        Exchange::Reply { message, text, .. } => ChatMessage::text(message.as_str(), text),
        Exchange::Sources { turn, sources, .. } => {
            ChatMessage::text(format!("{turn}-sources"), sources_text(sources))
        }
        Exchange::Question { approval, subject, .. } => {
            ChatMessage::text(approval.as_str(), subject)
        }
        Exchange::Answer { approval, choice, text, message, .. } => {
            let sent = message.clone().unwrap_or_default();
            let text = sent.text.or_else(|| text.clone()).unwrap_or_else(|| choice.to_string());
            let id = sent.id.unwrap_or_else(|| format!("{approval}-answer"));
            from_user(id, vec![Part::Text { text }], None)
        }
    }
}

pub(crate) fn artifacts(view: &TaskView, protocol: &dyn Protocol) -> Vec<ArtifactChunk> {
    let whole = |artifact, name: &str, parts: Vec<Part>, last: bool| ArtifactChunk {
        id: id_of(artifact),
        name: name.to_owned(),
        parts,
        append: false,
        last,
    };
    let pieces = protocol.artifacts(view).into_iter().map(|artifact| match artifact {
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

/// The artifact that a chunk belongs to, and its index in the task.
pub(crate) fn artifact_of<'a>(
    view: &'a TaskView,
    piece: &ArtifactChunk,
) -> Option<(usize, &'a TaskArtifact)> {
    view.artifacts.iter().enumerate().find(|(_, artifact)| id_of(artifact) == piece.id)
}
