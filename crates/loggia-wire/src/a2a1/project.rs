//! Frames of A2A 1.0: what a frame says, written down. No `final`: a state says whether a task is
//! over, and the end of a stream is its end.

use serde_json::Value;

use super::types::{
    Artifact, Message, Parts, Role, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatus,
    TaskStatusUpdateEvent,
};
use crate::project::snapshot::Shape;
use crate::project::update::{Piece, Place, Said, Speaker, Status, text_of, value_of};
use crate::time::rfc3339;

pub(crate) fn task(shape: &Shape<'_>) -> Value {
    value_of(&whole(shape))
}

pub(crate) fn streamed_task(shape: &Shape<'_>) -> Value {
    value_of(&StreamResponse::Task(whole(shape)))
}

/// The same, written down.
pub(crate) fn sent_task(shape: &Shape<'_>) -> String {
    text_of(&StreamResponse::Task(whole(shape)))
}

fn whole<'a>(shape: &'a Shape<'_>) -> Task<'a> {
    Task {
        artifacts: shape.artifacts.as_ref().map(|pieces| pieces.iter().map(artifact).collect()),
        context_id: shape.session.as_str(),
        history: shape.history.as_ref().map(|said| said.iter().map(message).collect()),
        id: shape.task.as_str(),
        status: TaskStatus {
            message: shape.said.as_ref().map(message),
            state: shape.state.into(),
            timestamp: rfc3339(shape.at),
        },
    }
}

pub(crate) fn status(place: &Place<'_>, status: &Status) -> Value {
    value_of(&StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        context_id: place.session.as_str(),
        metadata: status.metadata(place),
        status: TaskStatus {
            message: status.said.as_ref().map(message),
            state: status.state.into(),
            timestamp: rfc3339(place.at),
        },
        task_id: place.task.as_str(),
    }))
}

pub(crate) fn piece(place: &Place<'_>, piece: &Piece) -> Value {
    value_of(&StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        append: piece.append,
        artifact: artifact(piece),
        context_id: place.session.as_str(),
        last_chunk: piece.last,
        metadata: None,
        task_id: place.task.as_str(),
    }))
}

fn artifact(piece: &Piece) -> Artifact<'_> {
    Artifact { artifact_id: &piece.id, name: &piece.name, parts: Parts(&piece.parts) }
}

/// Which task and session it belongs to is said by what is around it.
pub(crate) fn message(said: &Said) -> Message<'_> {
    Message {
        context_id: None,
        message_id: &said.id,
        metadata: said.metadata.as_ref(),
        parts: Parts(&said.parts),
        role: match said.by {
            Speaker::User => Role::User,
            Speaker::Agent => Role::Agent,
        },
    }
}
