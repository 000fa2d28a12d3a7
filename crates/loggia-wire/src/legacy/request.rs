//! What a client sent, kept word for word in the prompt that it became: so that it can be shown
//! again, and a repetition can be told from another task under the same name.

use loggia_core::{Content, Exchange, TaskView};
use serde_json::{Map, Value};

use super::name;
use crate::refuse::Violation;

/// The key in a prompt's metadata.
pub const REQUEST: &str = "urn:loggia:tasks:request:v1";

/// How to call back may hold secrets, and what a prompt holds is read by everybody.
const SECRET: &str = "pushNotification";

pub(super) fn kept(params: &Map<String, Value>) -> Value {
    let mut kept = params.clone();
    kept.remove(SECRET);
    Value::Object([(REQUEST.to_owned(), Value::Object(kept))].into_iter().collect())
}

/// The parameters of a `tasks/send`, as they are in its prompt.
pub fn of_content(content: &Content) -> Option<&Value> {
    content.metadata.as_ref()?.get(REQUEST)
}

/// The client's name for the task that this prompt begins.
pub fn word(content: &Content) -> Option<&str> {
    of_content(content)?.get("id")?.as_str()
}

/// The request that a task was made by; None for a task that came another way, whatever its
/// metadata says: the name has to fit.
pub fn of_task(view: &TaskView) -> Option<&Value> {
    let Some(Exchange::Prompt { content, origin, .. }) = view.history.first() else { return None };
    let owner = origin.principal.as_deref()?;
    (name::task(owner, word(content)?) == view.id).then(|| of_content(content)).flatten()
}

/// How a request differs from the one before it under the same name. A message's own id is no
/// difference: a client that tries again may give it a new one.
pub fn difference(before: &Content, now: &Content) -> Option<Violation> {
    let field = match (of_content(before), of_content(now)) {
        (Some(before), Some(now)) => ["message", "context", "metadata", "sessionId"]
            .into_iter()
            .find(|name| essence(name, before) != essence(name, now))?,
        (_, None) | (None, _) => "id",
    };
    let why = "differs from what was sent under this 'id' before: use another 'id'".to_owned();
    Some(Violation { field: field.to_owned(), why })
}

fn essence(name: &str, params: &Value) -> Option<Value> {
    let mut value = params.get(name).filter(|value| !value.is_null()).cloned();
    if name == "message"
        && let Some(message) = value.as_mut().and_then(Value::as_object_mut)
    {
        message.retain(|name, _| !["messageId", "message_id"].contains(&name.as_str()));
    }
    value
}
