//! The objects that every A2A version writes. The versions spell them differently: each has a [`Spelling`] in its
//! own directory.

use loggia_core::{Part, SessionId, TaskState};
use serde_json::{Map, Value, json};

use crate::intent::PushTarget;
use crate::project::snapshot::TaskSnapshot;
use crate::project::update::{ArtifactChunk, ChatMessage, FrameContext, Role, StatusChange};
use crate::time::rfc3339;

#[derive(Clone, Copy)]
pub(crate) struct Spelling {
    /// Objects name their type in `kind`. Otherwise a frame is an object whose only member names it.
    pub kinds: bool,
    /// Status updates have `final`: true where a request's stream ends.
    pub finals: bool,
    /// Messages name their task and context. Otherwise the object around them does.
    pub addressed: bool,
    /// The member of a message that holds its parts.
    pub parts: &'static str,
    pub state: fn(TaskState) -> &'static str,
    pub role: fn(Role) -> &'static str,
    pub part: fn(&Part) -> Value,
}

impl Spelling {
    pub fn task(&self, task: &TaskSnapshot<'_>) -> Value {
        let messages = |messages: &Vec<ChatMessage>| {
            messages
                .iter()
                .map(|message| self.message_in(task.session, task.id(), message))
                .collect()
        };
        let artifacts =
            |chunks: &Vec<ArtifactChunk>| chunks.iter().map(|chunk| self.artifact(chunk)).collect();
        let message = task.message.as_ref();
        let message = message.map(|message| self.message_in(task.session, task.id(), message));
        self.object(
            "task",
            [
                ("id", Some(task.id().into())),
                ("contextId", Some(task.session.as_str().into())),
                ("status", Some(self.status(task.state, message, rfc3339(task.at)))),
                ("history", task.history.as_ref().map(messages)),
                ("artifacts", task.artifacts.as_ref().map(artifacts)),
            ],
        )
    }

    pub fn status_frame(&self, at: &FrameContext<'_>, status: &StatusChange) -> Value {
        let (task, message) = (at.task.as_str(), status.message.as_ref());
        let message = message.map(|message| self.message_in(at.session, task, message));
        let update = self.object(
            "status-update",
            [
                ("taskId", Some(task.into())),
                ("contextId", Some(at.session.as_str().into())),
                ("status", Some(self.status(status.state, message, rfc3339(at.at)))),
                ("final", self.finals.then(|| status.ends.is_some().into())),
                ("metadata", status.metadata(at).map(Value::Object)),
            ],
        );
        self.frame("statusUpdate", update)
    }

    pub fn artifact_frame(&self, at: &FrameContext<'_>, chunk: &ArtifactChunk) -> Value {
        let update = self.object(
            "artifact-update",
            [
                ("taskId", Some(at.task.as_str().into())),
                ("contextId", Some(at.session.as_str().into())),
                ("artifact", Some(self.artifact(chunk))),
                ("append", Some(chunk.append.into())),
                ("lastChunk", Some(chunk.last.into())),
            ],
        );
        self.frame("artifactUpdate", update)
    }

    /// A message that answers by itself, without a task.
    pub fn message_frame(&self, session: &SessionId, message: &ChatMessage) -> Value {
        self.frame("message", self.message(Some(session.as_str()), None, message))
    }

    fn message_in(&self, session: &SessionId, task: &str, message: &ChatMessage) -> Value {
        let addressed = self.addressed;
        self.message(addressed.then_some(session.as_str()), addressed.then_some(task), message)
    }

    fn message(&self, session: Option<&str>, task: Option<&str>, message: &ChatMessage) -> Value {
        self.object(
            "message",
            [
                ("messageId", Some(message.id.as_str().into())),
                ("contextId", session.map(Value::from)),
                ("taskId", task.map(Value::from)),
                ("role", Some((self.role)(message.role).into())),
                (self.parts, Some(message.parts.iter().map(self.part).collect())),
                ("metadata", message.metadata.clone()),
            ],
        )
    }

    fn status(&self, state: TaskState, message: Option<Value>, timestamp: String) -> Value {
        members([
            ("state", Some((self.state)(state).into())),
            ("message", message),
            ("timestamp", Some(timestamp.into())),
        ])
    }

    fn artifact(&self, chunk: &ArtifactChunk) -> Value {
        members([
            ("artifactId", Some(chunk.id.as_str().into())),
            ("name", Some(chunk.name.as_str().into())),
            ("parts", Some(chunk.parts.iter().map(self.part).collect())),
        ])
    }

    fn object<const N: usize>(&self, kind: &str, parts: [(&str, Option<Value>); N]) -> Value {
        let mut object = members(parts);
        if self.kinds {
            object["kind"] = kind.into();
        }
        object
    }

    /// An object as a frame of a stream, or as the result of a send.
    pub fn frame(&self, member: &str, object: Value) -> Value {
        match self.kinds {
            true => object,
            false => Value::Object(Map::from_iter([(member.to_owned(), object)])),
        }
    }
}

/// An object without the members that are absent.
pub(crate) fn members<const N: usize>(given: [(&str, Option<Value>); N]) -> Value {
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(Map::from_iter(given))
}

/// States under their names in the protocol files of 0.3 and 1.0.
pub(crate) fn proto_state(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "TASK_STATE_SUBMITTED",
        TaskState::Working => "TASK_STATE_WORKING",
        TaskState::InputRequired => "TASK_STATE_INPUT_REQUIRED",
        TaskState::Completed => "TASK_STATE_COMPLETED",
        TaskState::Failed => "TASK_STATE_FAILED",
        TaskState::Canceled => "TASK_STATE_CANCELED",
        TaskState::Rejected => "TASK_STATE_REJECTED",
    }
}

pub(crate) fn proto_role(role: Role) -> &'static str {
    match role {
        Role::User => "ROLE_USER",
        Role::Agent => "ROLE_AGENT",
    }
}

/// A webhook as 0.3 writes it, without its token and credentials.
pub(crate) fn push_config(target: &PushTarget) -> Value {
    members([
        ("id", target.id.as_deref().map(Value::from)),
        ("url", Some(target.url.as_str().into())),
        ("authentication", target.scheme.as_ref().map(|scheme| json!({ "schemes": [scheme] }))),
    ])
}
