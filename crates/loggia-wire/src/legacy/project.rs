//! Frames and answers of the legacy service. A task has the id that its client gave it; a task of another protocol has
//! its own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loggia_core::{Part, SessionId, TaskArtifact, TaskState, TaskView};
use serde_json::Value;

use super::types::{
    Artifact, Message, Task, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent,
};
use super::{Legacy, request};
use crate::a2a03::{role, state_of_six, tagged_part};
use crate::project::snapshot::{TaskSnapshot, artifact_of, artifacts as chunks};
use crate::project::update::{ArtifactChunk, ChatMessage, FrameContext, StatusChange, value_of};
use crate::time::rfc3339;

pub(super) fn task(task: &TaskSnapshot<'_>) -> Value {
    value_of(&whole(task))
}

/// The first event of a stream. Old clients read it as a status update.
pub(super) fn task_frame(task: &TaskSnapshot<'_>) -> Value {
    let settled = task.state == TaskState::InputRequired || task.state.is_over();
    value_of(&Task { history: None, r#final: Some(settled), ..whole(task) })
}

fn whole(task: &TaskSnapshot<'_>) -> Task {
    let request = request::of_task(task.view);
    let member = |name: &str| request.and_then(|sent| sent.get(name)).cloned();
    let message = status_message(task.view, task.state, task.message.as_ref());
    let artifacts = task.artifacts.as_ref().map(|chunks| artifacts(task.view, chunks));
    let artifacts = artifacts.map(|shown| artifacts_or_message(shown, task.state, &message));
    let at = rfc3339(task.at);
    Task {
        id: id(task.view).to_owned(),
        session_id: session(task.view, task.session),
        state: state_of_six(task.state),
        status: TaskStatus {
            state: state_of_six(task.state),
            message: message.clone(),
            timestamp: at.clone(),
        },
        message,
        input: request.cloned(),
        context: member("context"),
        metadata: member("metadata"),
        artifacts,
        history: task.history.as_ref().map(|history| history.iter().map(written).collect()),
        created_at: rfc3339(task.view.created),
        updated_at: at,
        r#final: None,
    }
}

/// The last one has all artifacts.
pub(super) fn status_frame(at: &FrameContext<'_>, view: &TaskView, status: &StatusChange) -> Value {
    let message = status_message(view, status.state, status.message.as_ref());
    let shown = status.state.is_over().then(|| artifacts(view, &chunks(view, &Legacy)));
    let artifacts = shown.map(|shown| artifacts_or_message(shown, status.state, &message));
    value_of(&TaskStatusUpdateEvent {
        id: id(view).to_owned(),
        session_id: session(view, at.session),
        state: state_of_six(status.state),
        status: TaskStatus {
            state: state_of_six(status.state),
            message: message.clone(),
            timestamp: rfc3339(at.at),
        },
        message,
        artifacts,
        r#final: status.ends.is_some(),
    })
}

pub(super) fn artifact_frame(view: &TaskView, chunk: &ArtifactChunk) -> Value {
    let artifact = artifact(view, chunk);
    value_of(&TaskArtifactUpdateEvent { id: id(view).to_owned(), artifact })
}

/// A task that is over without artifacts gets its message as one. Some clients take a result without artifacts for no
/// result and send the task again.
fn artifacts_or_message(
    artifacts: Vec<Artifact>,
    state: TaskState,
    message: &Message,
) -> Vec<Artifact> {
    match artifacts.is_empty() && state.is_over() {
        true => vec![Artifact {
            name: "status".into(),
            mime_type: PLAIN.into(),
            parts: message.parts.clone(),
            index: 0,
            append: false,
            last_chunk: true,
        }],
        false => artifacts,
    }
}

fn id(view: &TaskView) -> &str {
    request::client_task_id(view).unwrap_or(view.id.as_str())
}

fn session(view: &TaskView, ours: &SessionId) -> String {
    let sent = request::of_task(view).and_then(|sent| sent.get("sessionId"));
    sent.and_then(Value::as_str).map_or_else(|| ours.to_string(), str::to_owned)
}

/// The agent's message about a state, and the list of refused calls.
fn status_message(view: &TaskView, state: TaskState, said: Option<&ChatMessage>) -> Message {
    let mut message = said.cloned().unwrap_or_else(|| ChatMessage::text("state", words(state)));
    // Progress and questions do not need the list.
    let has_own_text = said.is_some() && !state.is_over();
    if let (Some(Part::Text { text }), Some(refused), false) =
        (message.parts.first_mut(), refused(view), has_own_text)
    {
        // Some clients read the first part only.
        text.push_str(&refused);
    }
    written(&message)
}

fn words(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "Task submitted. It waits for its turn.",
        TaskState::Working => "Task submitted. It is being worked on.",
        TaskState::InputRequired => "The task waits for an answer.",
        TaskState::Completed => "The task is complete.",
        TaskState::Failed => "The task failed.",
        TaskState::Canceled => "The task was canceled.",
        TaskState::Rejected => "The task was rejected.",
    }
}

/// So many refused calls are listed.
const LISTED: usize = 8;

fn refused(view: &TaskView) -> Option<String> {
    // If the task failed because of it, the failure says so already.
    let failed = |reason: &str| view.failure.as_deref().is_some_and(|why| why.ends_with(reason));
    if let [only] = view.refused.as_slice()
        && failed(&only.reason)
    {
        return None;
    }
    let lines = view.refused.iter().take(LISTED);
    let lines: String =
        lines.map(|call| format!("\n- {}: {}", call.subject, call.reason)).collect();
    let more = view.refused.len().saturating_sub(LISTED);
    let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
    (!lines.is_empty()).then(|| format!("\n\nNot done:{lines}{more}"))
}

fn written(message: &ChatMessage) -> Message {
    let parts = message.parts.iter().map(part);
    Message { role: role(message.role), parts: parts.collect() }
}

fn part(part: &Part) -> Value {
    tagged_part("type", part)
}

fn artifacts(view: &TaskView, chunks: &[ArtifactChunk]) -> Vec<Artifact> {
    chunks.iter().map(|chunk| artifact(view, chunk)).collect()
}

/// The index is the position in the order of appearance, so it never changes.
fn artifact(view: &TaskView, chunk: &ArtifactChunk) -> Artifact {
    let found = artifact_of(view, chunk);
    Artifact {
        name: chunk.name.clone(),
        mime_type: mime_type(found.map(|(_, artifact)| artifact), chunk).to_owned(),
        parts: chunk.parts.iter().map(artifact_part).collect(),
        index: found.map_or(0, |(index, _)| index),
        append: chunk.append,
        last_chunk: chunk.last,
    }
}

/// A part of an artifact. Clients of this protocol read text, so a file with text is a text part.
fn artifact_part(given: &Part) -> Value {
    if let Part::File { media_type: Some(kind), base64: Some(bytes), .. } = given
        && kind.starts_with("text/")
        && let Ok(bytes) = STANDARD.decode(bytes)
        && let Ok(text) = String::from_utf8(bytes)
    {
        return part(&Part::Text { text });
    }
    part(given)
}

const PLAIN: &str = "text/plain";

fn mime_type<'a>(artifact: Option<&TaskArtifact>, chunk: &'a ArtifactChunk) -> &'a str {
    match (artifact, chunk.parts.first()) {
        (Some(TaskArtifact::Change { .. }), _) => "text/x-diff",
        (Some(TaskArtifact::Response { .. }), _) => PLAIN,
        (_, Some(Part::Data { .. })) => "application/json",
        (_, Some(Part::File { media_type, .. })) => {
            media_type.as_deref().unwrap_or("application/octet-stream")
        }
        (_, Some(Part::Text { .. }) | None) => by_extension(&chunk.name),
    }
}

/// The media type of a text, by the extension of its name.
fn by_extension(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("md") => "text/markdown",
        Some("patch" | "diff") => "text/x-diff",
        Some("json") => "application/json",
        Some("html") => "text/html",
        Some("csv") => "text/csv",
        Some(_) | None => PLAIN,
    }
}
