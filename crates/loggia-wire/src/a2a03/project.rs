//! Frames of A2A 0.3: what a frame says, written down. `final` is true where a request's stream
//! ends: when the task is over, and when it waits for an answer.

use serde_json::Value;

use super::types::{
    Artifact, Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent,
};
use crate::project::snapshot::Shape;
use crate::project::update::{Piece, Place, Said, Speaker, Status, value_of};
use crate::time::rfc3339;

pub(crate) fn task(shape: &Shape<'_>) -> Value {
    value_of(&Task {
        id: shape.task.to_string(),
        context_id: shape.session.to_string(),
        status: TaskStatus {
            state: shape.state.into(),
            message: shape.said.as_ref().map(message),
            timestamp: rfc3339(shape.at),
        },
        history: shape.history.as_ref().map(|said| said.iter().map(message).collect()),
        artifacts: shape.artifacts.as_ref().map(|pieces| pieces.iter().map(artifact).collect()),
    })
}

pub(crate) fn status(place: &Place<'_>, status: &Status) -> Value {
    value_of(&TaskStatusUpdateEvent {
        task_id: place.task.to_string(),
        context_id: place.session.to_string(),
        status: TaskStatus {
            state: status.state.into(),
            message: status.said.as_ref().map(message),
            timestamp: rfc3339(place.at),
        },
        r#final: status.ends.is_some(),
        metadata: status.metadata(place),
    })
}

pub(crate) fn piece(place: &Place<'_>, piece: &Piece) -> Value {
    value_of(&TaskArtifactUpdateEvent {
        task_id: place.task.to_string(),
        context_id: place.session.to_string(),
        artifact: artifact(piece),
        append: piece.append,
        last_chunk: piece.last,
        metadata: None,
    })
}

pub(crate) fn artifact(piece: &Piece) -> Artifact {
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
        role: match said.by {
            Speaker::User => Role::User,
            Speaker::Agent => Role::Agent,
        },
        parts: said.parts.iter().map(Part::from).collect(),
        context_id: None,
        metadata: said.metadata.clone(),
    }
}
