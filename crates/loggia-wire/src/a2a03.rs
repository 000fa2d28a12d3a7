//! A2A 0.3 over JSON-RPC: `kind` names the type of an object, `final` ends a request's stream.

pub(crate) mod decode;

use loggia_core::{Part, TaskState};
use serde_json::{Value, json};

use crate::a2a::{Spelling, members};
use crate::dialect::Extension;
use crate::intent::DecodedRequest;
use crate::project::update::Role;
use crate::protocol::Protocol;
use crate::read::Read;

pub(crate) struct A2a03;

pub(crate) const METHODS: &[&str] = &[
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
];

impl Protocol for A2a03 {
    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn streaming_methods(&self) -> &'static [&'static str] {
        &["message/stream", "tasks/resubscribe"]
    }

    fn decode(&self, method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest> {
        decode::decode(method, params, extension)
    }

    /// With the extension, the stream of an answer continues with the call itself.
    fn answer_starts_with_task(&self, extension: Extension) -> bool {
        extension == Extension::Off
    }
}

pub(crate) const SPELLING: Spelling =
    Spelling { kinds: true, finals: true, addressed: false, parts: "parts", state, role, part };

pub(crate) fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired => "input-required",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::Rejected => "rejected",
    }
}

/// For protocols without `rejected`: there such a task has failed.
pub(crate) fn state_of_six(given: TaskState) -> &'static str {
    match given {
        TaskState::Rejected => state(TaskState::Failed),
        known => state(known),
    }
}

pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Agent => "agent",
    }
}

fn part(part: &Part) -> Value {
    let mut written = tagged_part("kind", part);
    if let Part::Data { data } = part
        && !data.is_object()
    {
        written["metadata"] = wrapped_data_metadata();
    }
    written
}

/// The mark of the Python SDK for data that it has wrapped in an object.
pub(crate) fn wrapped_data_metadata() -> Value {
    json!({ "data_part_compat": true })
}

/// A part with its type in `tag`. Versions before 1.0 have objects as data only; anything else is wrapped in one.
pub(crate) fn tagged_part(tag: &str, part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({ tag: "text", "text": text }),
        Part::File { name, media_type, base64, uri } => {
            let file = members([
                ("name", name.as_deref().map(Value::from)),
                ("mimeType", media_type.as_deref().map(Value::from)),
                ("bytes", base64.as_deref().map(Value::from)),
                ("uri", uri.as_deref().map(Value::from)),
            ]);
            json!({ tag: "file", "file": file })
        }
        Part::Data { data } => json!({ tag: "data", "data": data_object(data) }),
    }
}

pub(crate) fn data_object(data: &Value) -> Value {
    if data.is_object() { data.clone() } else { json!({ "value": data }) }
}
