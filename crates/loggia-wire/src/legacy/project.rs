//! Frames and answers of the legacy service: the members of A2A 0.1 and of the services built on it, together. The
//! state is in `state` and in `status.state`, with the agent's message beside each. A task has the id that its client
//! gave it; a task of another protocol has its own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loggia_core::{Millis, Part, SessionId, TaskArtifact, TaskState, TaskView};
use serde_json::{Value, json};

use super::{Legacy, request};
use crate::a2a::members;
use crate::a2a03::{role, state_of_six, tagged_part};
use crate::project::snapshot::{TaskSnapshot, artifact_of, artifacts as chunks};
use crate::project::update::{ArtifactChunk, ChatMessage, FrameContext, StatusChange};
use crate::time::rfc3339;

pub(super) fn task(task: &TaskSnapshot<'_>) -> Value {
    let request = request::of_task(task.view);
    let member = |name: &str| request.and_then(|sent| sent.get(name)).cloned();
    let message = status_message(task.view, task.state, task.message.as_ref());
    let artifacts = task.artifacts.as_ref();
    let artifacts =
        artifacts.map(|chunks| artifacts_or_message(task.view, chunks, task.state, &message));
    members([
        ("id", Some(id(task.view).into())),
        ("sessionId", Some(session(task.view, task.session).into())),
        ("state", Some(state_of_six(task.state).into())),
        ("status", Some(status(task.state, &message, task.at))),
        ("message", Some(message)),
        ("input", request.cloned()),
        ("context", member("context")),
        ("metadata", member("metadata")),
        ("artifacts", artifacts),
        ("history", task.history.as_ref().map(|history| history.iter().map(written).collect())),
        ("createdAt", Some(rfc3339(task.view.created).into())),
        ("updatedAt", Some(rfc3339(task.at).into())),
    ])
}

/// The first event of a stream. Old clients read it as a status update.
pub(super) fn task_frame(task: TaskSnapshot<'_>) -> Value {
    let settled = task.state == TaskState::InputRequired || task.state.is_over();
    let mut frame = self::task(&TaskSnapshot { history: None, ..task });
    frame["final"] = settled.into();
    frame
}

/// The last one has all artifacts, for clients that read no other event.
pub(super) fn status_frame(at: &FrameContext<'_>, view: &TaskView, change: &StatusChange) -> Value {
    let state = change.state;
    let message = status_message(view, state, change.message.as_ref());
    let artifacts = state
        .is_over()
        .then(|| artifacts_or_message(view, &chunks(view, &Legacy), state, &message));
    members([
        ("id", Some(id(view).into())),
        ("sessionId", Some(session(view, at.session).into())),
        ("state", Some(state_of_six(state).into())),
        ("status", Some(status(state, &message, at.at))),
        ("message", Some(message)),
        ("artifacts", artifacts),
        ("final", Some(change.ends.is_some().into())),
    ])
}

pub(super) fn artifact_frame(view: &TaskView, chunk: &ArtifactChunk) -> Value {
    json!({ "id": id(view), "artifact": artifact(view, chunk) })
}

fn status(state: TaskState, message: &Value, at: Millis) -> Value {
    json!({ "state": state_of_six(state), "message": message, "timestamp": rfc3339(at) })
}

/// A task that is over without artifacts gets its message as one. Some clients take a result without artifacts for no
/// result and send the task again.
fn artifacts_or_message(
    view: &TaskView,
    chunks: &[ArtifactChunk],
    state: TaskState,
    message: &Value,
) -> Value {
    if !chunks.is_empty() || !state.is_over() {
        return chunks.iter().map(|chunk| artifact(view, chunk)).collect();
    }
    json!([{
        "name": "status",
        "mimeType": PLAIN,
        "parts": message["parts"],
        "index": 0,
        "append": false,
        "lastChunk": true,
    }])
}

fn id(view: &TaskView) -> &str {
    request::client_task_id(view).unwrap_or(view.id.as_str())
}

fn session(view: &TaskView, ours: &SessionId) -> String {
    let sent = request::of_task(view).and_then(|sent| sent.get("sessionId"));
    sent.and_then(Value::as_str).map_or_else(|| ours.to_string(), str::to_owned)
}

/// The agent's message about a state, and the list of refused calls.
fn status_message(view: &TaskView, state: TaskState, said: Option<&ChatMessage>) -> Value {
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

/// At most so many refused calls are listed.
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

fn written(message: &ChatMessage) -> Value {
    let parts: Vec<Value> = message.parts.iter().map(part).collect();
    json!({ "role": role(message.role), "parts": parts })
}

fn part(part: &Part) -> Value {
    tagged_part("type", part)
}

/// A whole artifact, or a chunk of one. Chunks of one artifact have the same index: its position in the order of
/// appearance, which never changes.
fn artifact(view: &TaskView, chunk: &ArtifactChunk) -> Value {
    let found = artifact_of(view, chunk);
    let parts: Vec<Value> = chunk.parts.iter().map(artifact_part).collect();
    json!({
        "name": chunk.name,
        "mimeType": mime_type(found.map(|(_, artifact)| artifact), chunk),
        "parts": parts,
        "index": found.map_or(0, |(index, _)| index),
        "append": chunk.append,
        "lastChunk": chunk.last,
    })
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
