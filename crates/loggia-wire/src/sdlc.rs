//! The SDLC agent server as its document describes it: seven kinds of events, six states, REST
//! around them.
//!
//! A frame is one event, in the document's words and with no member that the document does not
//! have; the events it names without a shape say which task they are about. What must not be here:
//! a route, a status line, a decision. How the same server speaks as shipped is in
//! [`crate::coder`].

pub mod decode;
pub(crate) mod project;
pub mod types;

use loggia_core::{ChoiceId, Refusal, TaskState};
use serde_json::{Map, Value, json};

use crate::a2a03::types::State;
use crate::dialect::Dialect;
use crate::project::update::value_of;
use crate::read::violation;
use crate::refuse::{WireError, refuse};
use types::Tool;

/// A task's metadata, from its snapshot and the tools there are.
pub fn metadata(mut snapshot: Value, tools: &[Tool]) -> Value {
    let given = snapshot["availableTools"].as_array().cloned();
    let allowed = |tool: &&Tool| {
        given.as_ref().is_none_or(|names| names.iter().any(|name| *name == tool.name))
    };
    snapshot["availableTools"] = tools.iter().filter(allowed).map(Tool::shown).collect();
    snapshot
}

/// One task's metadata in both forms at once: as documented, and wrapped as the shipped server
/// sends it. Neither client looks for what the other one reads.
pub fn metadata_of_one(metadata: &Value) -> Value {
    let mut both = metadata.as_object().cloned().unwrap_or_default();
    both.insert("metadata".into(), metadata.clone());
    Value::Object(both)
}

/// A refusal in the words of a confirmation, which can say yes, no and an answer, and no name of a
/// choice. `message` is what the client calls its message.
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
                false => {
                    "must not be there: this call can be approved (true or false), not answered"
                }
            };
            violation(format!("{message}.answer"), why)
        }
        other => other,
    }
}

/// An error as its routes give it: a status, a sentence, and what a program needs to know.
pub fn error(error: &WireError) -> (u16, Value) {
    let object = refuse(error, Dialect::Sdlc);
    let mut body = Map::new();
    body.insert("error".into(), object.message.into());
    if let Some(Value::Object(data)) = object.data {
        body.extend(data);
    }
    (object.http, Value::Object(body))
}

/// What a command answered.
pub fn executed(name: &str, text: &str, task: &str, context: &str, state: TaskState) -> Value {
    let state = value_of(&State::of_six(state));
    json!({ "name": name, "data": text, "taskId": task, "contextId": context, "taskState": state })
}
