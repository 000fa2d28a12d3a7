//! The request of a client, kept in its prompt: to show it again, and to tell a repeated request from
//! another one under the same task id.

use loggia_core::{Content, Exchange, TaskView};
use serde_json::{Map, Number, Value, json};
use sha2::{Digest, Sha256};

use super::name;
use crate::refuse::Violation;

/// The key in a prompt's metadata.
pub const REQUEST: &str = "urn:loggia:tasks:request:v1";

/// If a message was rewritten by a hook: the digest of the original, whose text must not be kept.
const REWRITTEN: &str = "urn:loggia:tasks:rewritten:v1";

/// If a message was rejected: the digest of the whole request.
const WITHHELD: &str = "urn:loggia:tasks:withheld:v1";

/// The members by which two requests under the same id are compared.
const COMPARED: &[&str] = &["message", "context", "metadata", "sessionId"];

/// A webhook may contain secrets, and every reader sees a prompt's metadata.
const SECRET: &str = "pushNotification";

pub(super) fn kept(params: &Map<String, Value>) -> Value {
    let mut kept = params.clone();
    kept.remove(SECRET);
    Value::Object([(REQUEST.to_owned(), Value::Object(kept))].into_iter().collect())
}

/// The parameters of a `tasks/send` in its prompt.
pub fn of_content(content: &Content) -> Option<&Value> {
    content.metadata.as_ref()?.get(REQUEST)
}

/// The client's id for the task that this prompt begins.
pub fn sent_task_id(content: &Content) -> Option<&str> {
    of_content(content)?.get("id")?.as_str()
}

/// The request that made a task; None for a task of another protocol. The task's id must be the digest, because
/// a client of any protocol can write the same metadata.
pub fn of_task(view: &TaskView) -> Option<&Value> {
    let Some(Exchange::Prompt { content, origin, .. }) = view.history.first() else { return None };
    let owner = origin.principal.as_deref()?;
    (name::task(owner, sent_task_id(content)?) == view.id).then(|| of_content(content)).flatten()
}

/// The id that its client gave a task; None for a task of another protocol.
pub(crate) fn client_task_id(view: &TaskView) -> Option<&str> {
    of_task(view)?.get("id")?.as_str()
}

/// Replaces the text that a client sent.
pub fn rewrite(content: &mut Content, text: &str) {
    let Some(metadata) = content.metadata.as_mut().and_then(Value::as_object_mut) else { return };
    let Some(request) = metadata.get_mut(REQUEST).and_then(Value::as_object_mut) else { return };
    let role = request.get("message").and_then(|message| message.get("role")).cloned();
    let sent = request.insert("message".to_owned(), json!({ "parts": [{ "text": text }] }));
    if let (Some(role), Some(message)) = (role, request.get_mut("message")) {
        message["role"] = role;
    }
    metadata.insert(REWRITTEN.to_owned(), digest(&normalized("message", sent)).into());
}

/// What is kept of a rejected message: its ids, and none of its text.
pub fn withheld(content: Content) -> Content {
    let metadata = of_content(&content).map(|request| {
        let name = |name: &str| Some((name.to_owned(), request.get(name)?.clone()));
        let names: Map<String, Value> = ["id", "sessionId"].into_iter().filter_map(name).collect();
        json!({ REQUEST: names, WITHHELD: digest(&Some(compared_members(request))) })
    });
    Content { parts: Vec::new(), metadata, ..content }
}

fn compared_members(request: &Value) -> Value {
    let member = |name: &&str| normalized(name, request.get(*name).cloned());
    COMPARED.iter().map(|name| member(name).unwrap_or_default()).collect()
}

/// How a request differs from an earlier one under the same id. The message's own id is ignored: a client
/// that retries may use a new one.
pub fn difference(before: &Content, now: &Content) -> Option<Violation> {
    let mark = |name: &str| before.metadata.as_ref().and_then(|metadata| metadata.get(name));
    let (rewritten, withheld) = (mark(REWRITTEN), mark(WITHHELD));
    let differs = |name: &str, before: &Value, now: &Value| {
        let [then, now] = [before, now].map(|sent| normalized(name, sent.get(name).cloned()));
        match rewritten.filter(|_| name == "message") {
            Some(sent) => *sent != digest(&now),
            None => then != now,
        }
    };
    let field = match (of_content(before), of_content(now)) {
        (Some(_), Some(now)) if withheld.is_some() => {
            let same = withheld.is_some_and(|sent| *sent == digest(&Some(compared_members(now))));
            if same {
                return None;
            }
            "message"
        }
        (Some(before), Some(now)) => {
            COMPARED.iter().copied().find(|name| differs(name, before, now))?
        }
        (_, None) | (None, _) => "id",
    };
    let why = "differs from what was sent under this 'id' before: use another 'id'".to_owned();
    Some(Violation { field: field.to_owned(), why })
}

/// A member in a normal form.
fn normalized(name: &str, value: Option<Value>) -> Option<Value> {
    let mut value = value.filter(|value| !value.is_null())?;
    plain_numbers(&mut value);
    match (name, &mut value) {
        ("message", Value::Object(message)) => plain_message(message),
        ("context", Value::Object(context)) => plain_context(context),
        _ => {}
    }
    Some(value)
}

/// The message's id, its role and the tags of its parts do not change its meaning.
fn plain_message(message: &mut Map<String, Value>) {
    const SILENT: [&str; 4] = ["messageId", "message_id", "role", "kind"];
    message.retain(|name, value| !value.is_null() && !SILENT.contains(&name.as_str()));
    let has_parts =
        message.get("parts").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty());
    if let (false, Some(content)) = (has_parts, message.remove("content")) {
        message.insert("parts".to_owned(), Value::Array(vec![content]));
    }
    let parts = message.get_mut("parts").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
        part.retain(|_, value| !value.is_null());
        let tag = part.get("type").or_else(|| part.get("kind")).and_then(Value::as_str);
        if tag.is_none_or(|tag| part.contains_key(tag)) {
            part.retain(|name, _| name != "type" && name != "kind");
        }
    }
}

/// The revision has three names, and no `shallow` means a full clone.
fn plain_context(context: &mut Map<String, Value>) {
    context.retain(|_, value| !value.is_null());
    if !context.contains_key("repositoryUrl") {
        return;
    }
    for name in ["branch", "commit"] {
        if let Some(revision) = context.remove(name) {
            context.insert("revision".to_owned(), revision);
        }
    }
    if context.get("shallow") == Some(&Value::Bool(false)) {
        context.remove("shallow");
    }
}

/// `1`, `1.0` and `1e0` are one number.
fn plain_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let double = number.as_f64().filter(|_| number.as_u64().is_none());
            if let Some(double) = double.and_then(Number::from_f64) {
                *number = double;
            }
            // Whole numbers are written without a point.
            let text = number.to_string();
            let whole = text.strip_suffix(".0").and_then(|text| text.parse::<i64>().ok());
            if let Some(whole) = whole {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain_numbers),
        Value::Object(members) => members.values_mut().for_each(plain_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Members of an object are sorted by name, so the same value has the same text.
fn digest(value: &Option<Value>) -> String {
    let text = value.as_ref().map(Value::to_string).unwrap_or_default();
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
