//! Frames of A2A 0.3 in the JSON form of its protocol file. `final` as in JSON-RPC: true where a
//! request's stream ends.

use serde_json::Value;

use super::types::{
    Artifact, Message, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatus,
    TaskStatusUpdateEvent,
};
use crate::a2a1::types::Role;
use crate::project::snapshot::Shape;
use crate::project::update::{Piece, Place, Said, Speaker, Status, value_of};
use crate::time::rfc3339;

pub(crate) fn task(shape: &Shape<'_>) -> Value {
    value_of(&whole(shape))
}

pub(crate) fn streamed_task(shape: &Shape<'_>) -> Value {
    value_of(&StreamResponse::Task(whole(shape)))
}

fn whole(shape: &Shape<'_>) -> Task {
    Task {
        id: shape.task.to_string(),
        context_id: shape.session.to_string(),
        status: TaskStatus {
            state: shape.state.into(),
            message: shape.said.as_ref().map(message),
            timestamp: rfc3339(shape.at),
        },
        artifacts: shape.artifacts.as_ref().map(|pieces| pieces.iter().map(artifact).collect()),
        history: shape.history.as_ref().map(|said| said.iter().map(message).collect()),
    }
}

pub(crate) fn status(place: &Place<'_>, status: &Status) -> Value {
    value_of(&StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id: place.task.to_string(),
        context_id: place.session.to_string(),
        status: TaskStatus {
            state: status.state.into(),
            message: status.said.as_ref().map(message),
            timestamp: rfc3339(place.at),
        },
        r#final: status.ends.is_some(),
        metadata: status.metadata(place),
    }))
}

pub(crate) fn piece(place: &Place<'_>, piece: &Piece) -> Value {
    value_of(&StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        task_id: place.task.to_string(),
        context_id: place.session.to_string(),
        artifact: artifact(piece),
        append: piece.append,
        last_chunk: piece.last,
    }))
}

fn artifact(piece: &Piece) -> Artifact {
    Artifact {
        artifact_id: piece.id.clone(),
        name: piece.name.clone(),
        parts: piece.parts.iter().map(Part::from).collect(),
    }
}

/// Which task and session it belongs to is said by what is around it.
pub(crate) fn message(said: &Said) -> Message {
    Message {
        message_id: said.id.clone(),
        context_id: None,
        role: match said.by {
            Speaker::User => Role::User,
            Speaker::Agent => Role::Agent,
        },
        content: said.parts.iter().map(Part::from).collect(),
        metadata: said.metadata.clone(),
    }
}
