//! The SDLC agent server as its specification describes it: REST requests, seven kinds of events, six states.
//!
//! A frame is one event with exactly the members that the specification names. Events whose members it does not
//! describe have the id of their task. Routes, HTTP statuses and decisions do not belong here. The same server as it
//! was shipped is in [`crate::coder`].

pub mod decode;
pub(crate) mod project;
pub mod types;

use loggia_core::{ChoiceId, CustomCommands, Refusal, SessionId, Surface, TaskState};
use serde_json::{Map, Value, json};

use crate::a2a03;
use crate::dialect::{Dialect, Extension};
use crate::intent::DecodedRequest;
use crate::project::FoldedEvent;
use crate::project::snapshot::TaskSnapshot;
use crate::project::update::{ChatMessage, Update, value_of};
use crate::protocol::Protocol;
use crate::read::{Read, violation};
use crate::refuse::{Condition, WireError, refuse};
use types::{Event, Tool};

pub(crate) struct Sdlc;

impl Protocol for Sdlc {
    fn is_a2a(&self) -> bool {
        false
    }

    /// Its routes decode their own bodies ([`decode`]); methods are those of 0.3.
    fn decode(&self, method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest> {
        a2a03::decode::decode(method, params, extension)
    }

    fn surface(&self) -> Surface {
        Surface::Sdlc
    }

    /// Confirmations are records of their own.
    fn has_answer_form(&self, _: Extension) -> bool {
        true
    }

    /// HTTP statuses tell a conflict and an absent object apart, which the codes of JSON-RPC do not.
    fn http_status(&self, error: &WireError) -> Option<u16> {
        match error {
            WireError::Refused(
                Refusal::AlreadyAnswered { .. }
                | Refusal::ReplyTooLate { .. }
                | Refusal::Withdrawn { .. }
                | Refusal::MixedQuestion
                | Refusal::DetailsChanged
                | Refusal::TaskExists
                | Refusal::TaskOver
                | Refusal::NothingToCancel,
            )
            | WireError::Condition(
                Condition::QuestionElsewhere
                | Condition::ContextMismatch
                | Condition::WorkspaceDiffers,
            ) => Some(409),
            WireError::Refused(Refusal::UnknownQuestion)
            | WireError::Condition(Condition::UnknownContext) => Some(404),
            _ => None,
        }
    }

    fn stream_error(&self, given: &WireError) -> Option<Value> {
        Some(error(given).1)
    }

    fn updates(&self, folded: &mut FoldedEvent<'_>, _: Extension) -> Vec<Update> {
        project::updates(folded)
    }

    fn task(&self, task: TaskSnapshot<'_>) -> Value {
        project::task(&task)
    }

    fn has_question_in_status(&self) -> bool {
        false
    }

    fn answer_starts_with_task(&self, _: Extension) -> bool {
        false
    }

    /// Its streams have events and no tasks.
    fn subscribes_from_start(&self) -> bool {
        true
    }

    fn message(&self, _: &SessionId, message: &ChatMessage) -> Option<Value> {
        let (text, message_id) = (message.to_text(), message.id.clone());
        Some(value_of(&Event::TextContent { text, message_id }))
    }

    fn has_rejected_tasks(&self) -> bool {
        false
    }

    fn commands(&self, custom: &CustomCommands) -> Value {
        types::commands(custom)
    }

    fn waits_for_commands(&self) -> bool {
        true
    }
}

/// A task's metadata, from its snapshot and the server's tools.
pub fn metadata(mut snapshot: Value, tools: &[Tool]) -> Value {
    let given = snapshot["availableTools"].as_array().cloned();
    let allowed = |tool: &&Tool| {
        given.as_ref().is_none_or(|names| names.iter().any(|name| *name == tool.name))
    };
    snapshot["availableTools"] = tools.iter().filter(allowed).map(Tool::shown).collect();
    snapshot
}

/// One task's metadata in both forms at once: as documented, and wrapped as the shipped server sends it. Clients of
/// one form ignore the other.
pub fn metadata_of_one(metadata: &Value) -> Value {
    let mut both = metadata.as_object().cloned().unwrap_or_default();
    both.insert("metadata".into(), metadata.clone());
    Value::Object(both)
}

/// A refusal in terms of a confirmation, which has `approved` and `answer` instead of the name of a choice. `message`
/// is the member in which the client sent it.
#[must_use]
pub fn in_its_words(error: WireError, message: &str) -> WireError {
    match error {
        WireError::Refused(Refusal::NotAChoice { offered, .. }) => {
            let in_words = offered.iter().any(|choice| choice == ChoiceId::ANSWER);
            let why = match in_words {
                true => {
                    "is missing: this is a question; answer with one of its options or in other \
                         words, or say approved: false"
                }
                false => "must be absent: this call can be approved (true or false), not answered",
            };
            violation(format!("{message}.answer"), why)
        }
        other => other,
    }
}

/// An error of its routes: the HTTP status, and a body with a sentence and the details for programs.
pub fn error(error: &WireError) -> (u16, Value) {
    let object = refuse(error, Dialect::Sdlc);
    let mut body = Map::new();
    body.insert("error".into(), object.message.into());
    if let Some(Value::Object(data)) = object.data {
        body.extend(data);
    }
    (object.http, Value::Object(body))
}

/// The answer to a command.
pub fn executed(name: &str, text: &str, task: &str, context: &str, state: TaskState) -> Value {
    let state = a2a03::state_of_six(state);
    json!({ "name": name, "data": text, "taskId": task, "contextId": context, "taskState": state })
}
