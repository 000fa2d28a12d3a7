//! Frames and answers of the task service. A task goes by the name that its client gave it; one
//! that came another way, by ours.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loggia_core::{Part as CorePart, SessionId, TaskArtifact, TaskState, TaskView};
use serde_json::Value;

use super::request;
use super::types::{
    Artifact, Message, Part, Task, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent,
};
use crate::a2a03::types::{Role, State};
use crate::dialect::Dialect;
use crate::project::snapshot::{Shape, artifact_of, artifacts as pieces};
use crate::project::update::{Piece, Place, Said, Speaker, Status, value_of};
use crate::time::rfc3339;

pub(crate) fn task(shape: &Shape<'_>) -> Value {
    value_of(&whole(shape))
}

/// As the first event of a stream, where an old client takes it for a change of its status.
pub(crate) fn streamed_task(shape: &Shape<'_>) -> Value {
    let settled = shape.state == TaskState::InputRequired || shape.state.is_over();
    value_of(&Task { history: None, r#final: Some(settled), ..whole(shape) })
}

/// The same of a stream that goes on, whatever the task's state.
pub(crate) fn begun(mut task: Value) -> Value {
    if let Some(last) = task.get_mut("final") {
        *last = false.into();
    }
    task
}

fn whole(shape: &Shape<'_>) -> Task {
    let request = request::of_task(shape.view);
    let member = |name: &str| request.and_then(|sent| sent.get(name)).cloned();
    let message = spoken(shape.view, shape.state, shape.said.as_ref());
    let artifacts = shape.artifacts.as_ref().map(|pieces| artifacts(shape.view, pieces));
    let artifacts = artifacts.map(|shown| shown_or_said(shown, shape.state, &message));
    let at = rfc3339(shape.at);
    Task {
        id: word(shape.view).to_owned(),
        session_id: session(shape.view, shape.session),
        state: State::of_six(shape.state),
        status: TaskStatus {
            state: State::of_six(shape.state),
            message: message.clone(),
            timestamp: at.clone(),
        },
        message,
        input: request.cloned(),
        context: member("context"),
        metadata: member("metadata"),
        artifacts,
        history: shape.history.as_ref().map(|said| said.iter().map(written).collect()),
        created_at: rfc3339(shape.view.created),
        updated_at: at,
        r#final: None,
    }
}

/// The last one has all artifacts.
pub(crate) fn status(place: &Place<'_>, view: &TaskView, status: &Status) -> Value {
    let message = spoken(view, status.state, status.said.as_ref());
    let shown = status.state.is_over().then(|| artifacts(view, &pieces(view, Dialect::Legacy)));
    let artifacts = shown.map(|shown| shown_or_said(shown, status.state, &message));
    value_of(&TaskStatusUpdateEvent {
        id: word(view).to_owned(),
        session_id: session(view, place.session),
        state: State::of_six(status.state),
        status: TaskStatus {
            state: State::of_six(status.state),
            message: message.clone(),
            timestamp: rfc3339(place.at),
        },
        message,
        artifacts,
        r#final: status.ends.is_some(),
    })
}

pub(crate) fn piece(view: &TaskView, piece: &Piece) -> Value {
    let artifact = artifact(view, piece);
    value_of(&TaskArtifactUpdateEvent { id: word(view).to_owned(), artifact })
}

/// A task that is over and has nothing to show shows what there is to say about it. There are
/// clients that take a result without artifacts for no result, and send the task once more.
fn shown_or_said(shown: Vec<Artifact>, state: TaskState, message: &Message) -> Vec<Artifact> {
    match shown.is_empty() && state.is_over() {
        true => vec![said("status", message)],
        false => shown,
    }
}

fn said(name: &str, message: &Message) -> Artifact {
    Artifact {
        name: name.into(),
        mime_type: PLAIN.into(),
        parts: message.parts.clone(),
        index: 0,
        append: false,
        last_chunk: true,
    }
}

pub(crate) fn word(view: &TaskView) -> &str {
    let given = request::of_task(view).and_then(|sent| sent.get("id")).and_then(Value::as_str);
    given.unwrap_or(view.id.as_str())
}

fn session(view: &TaskView, ours: &SessionId) -> String {
    let sent = request::of_task(view).and_then(|sent| sent.get("sessionId"));
    sent.and_then(Value::as_str).map_or_else(|| ours.to_string(), str::to_owned)
}

/// What the agent has to say about a state, and what it was not allowed to do.
fn spoken(view: &TaskView, state: TaskState, said: Option<&Said>) -> Message {
    let mut message = said.map_or_else(|| written(&Said::text("state", words(state))), written);
    // Progress and questions speak for themselves.
    let speaks = said.is_some() && !state.is_over();
    if let (Some(Part::Text { text }), Some(refused), false) =
        (message.parts.first_mut(), refused(view), speaks)
    {
        // Some clients read the first part and no other.
        text.push_str(&refused);
    }
    message
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

/// So many refusals are told one by one.
const TOLD: usize = 8;

fn refused(view: &TaskView) -> Option<String> {
    // Where that alone is why the task failed, it is said already.
    let failed = |reason: &str| view.failure.as_deref().is_some_and(|why| why.ends_with(reason));
    if let [only] = view.refused.as_slice()
        && failed(&only.reason)
    {
        return None;
    }
    let lines = view.refused.iter().take(TOLD);
    let lines: String =
        lines.map(|call| format!("\n- {}: {}", call.subject, call.reason)).collect();
    let more = view.refused.len().saturating_sub(TOLD);
    let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
    (!lines.is_empty()).then(|| format!("\n\nNot done:{lines}{more}"))
}

fn written(said: &Said) -> Message {
    Message {
        role: match said.by {
            Speaker::User => Role::User,
            Speaker::Agent => Role::Agent,
        },
        parts: said.parts.iter().map(Into::into).collect(),
    }
}

fn artifacts(view: &TaskView, pieces: &[Piece]) -> Vec<Artifact> {
    pieces.iter().map(|piece| artifact(view, piece)).collect()
}

/// The index is the place in the order of appearance, so it never changes.
fn artifact(view: &TaskView, piece: &Piece) -> Artifact {
    let found = artifact_of(view, piece);
    Artifact {
        name: piece.name.clone(),
        mime_type: mime_type(found.map(|(_, artifact)| artifact), piece).to_owned(),
        parts: piece.parts.iter().map(readable).collect(),
        index: found.map_or(0, |(index, _)| index),
        append: piece.append,
        last_chunk: piece.last,
    }
}

/// Clients of this protocol read texts. What is one comes as one, whatever it is in the log.
fn readable(part: &CorePart) -> Part {
    if let CorePart::File { media_type: Some(kind), base64: Some(bytes), .. } = part
        && kind.starts_with("text/")
        && let Ok(bytes) = STANDARD.decode(bytes)
        && let Ok(text) = String::from_utf8(bytes)
    {
        return Part::Text { text };
    }
    part.into()
}

const PLAIN: &str = "text/plain";

fn mime_type<'a>(artifact: Option<&TaskArtifact>, piece: &'a Piece) -> &'a str {
    match (artifact, piece.parts.first()) {
        (Some(TaskArtifact::Change { .. }), _) => "text/x-diff",
        (Some(TaskArtifact::Response { .. }), _) => PLAIN,
        (_, Some(CorePart::Data { .. })) => "application/json",
        (_, Some(CorePart::File { media_type, .. })) => {
            media_type.as_deref().unwrap_or("application/octet-stream")
        }
        (_, Some(CorePart::Text { .. }) | None) => by_ending(&piece.name),
    }
}

/// Of a text, by its name.
fn by_ending(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("md") => "text/markdown",
        Some("patch" | "diff") => "text/x-diff",
        Some("json") => "application/json",
        Some("html") => "text/html",
        Some("csv") => "text/csv",
        Some(_) | None => PLAIN,
    }
}
