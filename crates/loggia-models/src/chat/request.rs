//! The body of a request. The messages stand at its end, and each is written without regard to those
//! behind it: a longer conversation begins with the bytes of the shorter one.

use loggia_core::{CallId, Effort, ModelName, ToolDescription};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::dialect::Dialect;
use crate::fields::{Fields, raw};
use crate::fragments::{FragmentCall, Fragments, as_object, parse_input};
use crate::protocol::{ModelContext, ModelFacts};
use crate::request::{Message, ModelRequest, PastCall, Purpose, Reply, UserMessage, transcript};

/// Characters of a call's id that every vendor accepts.
const ID_LIMIT: usize = 40;

pub fn body(dialect: &Dialect, model: &ModelContext<'_>, request: &ModelRequest) -> String {
    let facts = model.facts;
    let mut body = Fields::default();
    body.set("model", &facts.id);
    body.extend(Fields::parse(dialect.body).unwrap_or_default());
    body.extend(effort_fields(dialect, facts, request.effort).unwrap_or_default());
    if let (Some(name), Some(most)) = (dialect.max_tokens, facts.output) {
        body.set(name, &most);
    }
    if let Some(name) = dialect.cache_key {
        body.set(name, &*request.cache_key);
    }
    let messages = match request.purpose {
        Purpose::Turn => {
            if !request.tools.is_empty() {
                body.extend(Fields::parse(dialect.with_tools).unwrap_or_default());
                body.set("tools", &tools(&request.tools));
            }
            conversation(dialect, model.name, request)
        }
        Purpose::Summary => {
            vec![summary_request(dialect, &request.messages)]
        }
    };
    body.set("messages", &messages);
    body.to_text()
}

fn tools(tools: &[ToolDescription]) -> Vec<serde_json::Value> {
    let described = tools.iter().map(|ToolDescription { name, description, parameters }| {
        let function =
            json!({ "name": name, "description": description, "parameters": parameters });
        json!({ "type": "function", "function": function })
    });
    described.collect()
}

/// The fields that ask for the level of effort nearest to this one.
fn effort_fields(dialect: &Dialect, facts: &ModelFacts, effort: Option<Effort>) -> Option<Fields> {
    let effort = effort?;
    let effort = match &facts.efforts {
        Some(efforts) => nearest(efforts.iter().copied(), effort)?,
        None => effort,
    };
    let level = nearest(dialect.efforts.iter().map(|(level, _)| *level), effort)?;
    let row = dialect.efforts.iter().find(|(known, _)| *known == level);
    row.and_then(|(_, fields)| Fields::parse(fields))
}

/// Of two levels at the same distance, the higher one.
pub fn nearest(levels: impl Iterator<Item = Effort>, wanted: Effort) -> Option<Effort> {
    levels.min_by_key(|level| {
        let distance = (*level as i8).abs_diff(wanted as i8);
        (distance, *level < wanted)
    })
}

fn conversation(
    dialect: &Dialect,
    model: &ModelName,
    request: &ModelRequest,
) -> Vec<Box<RawValue>> {
    let mut messages = Vec::new();
    if !request.instructions.is_empty() {
        messages.push(plain(dialect.system, &*request.instructions));
    }
    for message in &request.messages {
        match message {
            Message::Summary(summary) => {
                messages.push(user(dialect, &[&summary_text(summary)]));
            }
            Message::User(UserMessage { context, content }) => {
                let content = content.shown();
                let texts = context.as_deref().into_iter().chain([content.as_str()]);
                messages.push(user(dialect, &texts.collect::<Vec<_>>()));
            }
            Message::Reply(reply) => match reply.items_of(model) {
                Some(items) => own_reply(dialect, reply, Fragments::of(items), &mut messages),
                None => portable_reply(dialect, reply, &mut messages),
            },
        }
    }
    messages
}

/// How a model is told that the conversation began earlier.
pub fn summary_text(summary: &str) -> String {
    format!("This is a summary of the earlier conversation, which it replaces:\n\n{summary}")
}

fn summary_request(dialect: &Dialect, messages: &[Message]) -> Box<RawValue> {
    let (asked, earlier) = match messages.split_last() {
        Some((Message::User(user), earlier)) => (user.content.shown(), earlier),
        _ => (String::new(), messages),
    };
    user(dialect, &[&transcript(earlier), &asked])
}

fn plain(role: &str, content: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    let mut message = Fields::default();
    message.set("role", role);
    message.set("content", content);
    raw(&message)
}

fn user(dialect: &Dialect, texts: &[&str]) -> Box<RawValue> {
    match (texts, dialect.parts) {
        ([text], _) => plain("user", *text),
        (_, false) => plain("user", &texts.join("\n\n")),
        (_, true) => {
            let parts = texts.iter().map(|text| json!({ "type": "text", "text": text }));
            plain("user", &parts.collect::<Vec<_>>())
        }
    }
}

fn result(id: &str, text: &str) -> Box<RawValue> {
    let mut message = Fields::default();
    message.set("role", "tool");
    message.set("tool_call_id", id);
    message.set("content", text);
    raw(&message)
}

/// The reply as the server knows it, and the results of its calls.
fn own_reply(
    dialect: &Dialect,
    reply: &Reply,
    fragments: Fragments,
    messages: &mut Vec<Box<RawValue>>,
) {
    let Fragments { fields, calls } = fragments;
    let mut message = assistant(dialect, fields.get("content").is_none(), !calls.is_empty());
    message.extend(fields);
    let results: Vec<_> = calls
        .iter()
        .map(|call| result(&call.raw.text("id").unwrap_or_default(), call.result(reply)))
        .collect();
    if !calls.is_empty() {
        let calls = calls.into_iter().map(|call| acceptable(dialect, call));
        message.set("tool_calls", &calls.collect::<Vec<_>>());
    }
    messages.push(raw(&message));
    messages.extend(results);
}

/// The beginning of an assistant message: the fields that must be there.
fn assistant(dialect: &Dialect, without_content: bool, with_calls: bool) -> Fields {
    let mut message = Fields::default();
    message.set("role", "assistant");
    match (without_content, with_calls) {
        (true, true) => message.set("content", &None::<&str>),
        // Without calls, the content must be a text.
        _ => message.set("content", ""),
    }
    if let (Some(name), true) = (dialect.with_calls, with_calls) {
        message.set(name, "");
    }
    message
}

/// The call in a form that the server accepts. What the model wrote as arguments stays readable.
fn acceptable(dialect: &Dialect, call: FragmentCall) -> Fields {
    let mut raw = call.raw;
    let mut function = raw.read::<Fields>("function").unwrap_or_default();
    let arguments = function.text("arguments").unwrap_or_default();
    if dialect.parses_arguments {
        match parse_input(&arguments) {
            Ok(_) if !arguments.trim().is_empty() => return raw,
            Ok(_) => function.set("arguments", "{}"),
            Err(text) => {
                function.set("arguments", &as_object(&text.into()).to_string());
            }
        }
        raw.set("function", &function);
    }
    raw
}

/// The reply of another model: its text and its calls.
fn portable_reply(dialect: &Dialect, reply: &Reply, messages: &mut Vec<Box<RawValue>>) {
    let mut message = assistant(dialect, reply.text.is_empty(), !reply.calls.is_empty());
    if !reply.text.is_empty() {
        message.set("content", &reply.text);
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|PastCall { call, tool, input, .. }| {
            let arguments = as_object(input).to_string();
            let function = json!({ "name": tool, "arguments": arguments });
            json!({ "id": portable_id(call), "type": "function", "function": function })
        });
        message.set("tool_calls", &calls.collect::<Vec<_>>());
    }
    messages.push(raw(&message));
    let results = reply.calls.iter().map(|past| {
        let text = past.outcome.summary();
        result(&portable_id(&past.call), text)
    });
    messages.extend(results);
}

/// An id of letters, digits, `_` and `-`, not too long. A hash keeps ids apart that become equal by that.
fn portable_id(call: &CallId) -> String {
    let allowed = |symbol: &char| symbol.is_ascii_alphanumeric() || matches!(symbol, '_' | '-');
    let id = call.as_str();
    if id.len() <= ID_LIMIT && !id.is_empty() && id.chars().all(|symbol| allowed(&symbol)) {
        return id.to_owned();
    }
    // FNV-1a: the same in every version of Loggia.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let start: String = id.chars().filter(allowed).take(ID_LIMIT - 17).collect();
    format!("{start}_{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_models_become_acceptable_and_stay_apart() {
        let id = |text: &str| portable_id(&CallId::from(text));
        assert_eq!(id("call_1-a"), "call_1-a");
        assert_eq!(
            id("0197f9a8-0000-7000-8000-000000000001"),
            "0197f9a8-0000-7000-8000-000000000001"
        );
        let long = "x".repeat(60);
        assert_eq!(id(&long).len(), ID_LIMIT);
        assert_ne!(id(&long), id(&format!("{long}y")));
        assert_ne!(id("a.b"), id("a:b"));
    }

    #[test]
    fn the_nearest_level_is_taken_and_the_higher_of_two() {
        use Effort::{High, Low, Max, Medium, Minimal};
        let check = |levels: &[Effort], wanted, taken| {
            assert_eq!(nearest(levels.iter().copied(), wanted), taken, "{wanted:?} of {levels:?}");
        };
        check(&[Low, Medium, High], Medium, Some(Medium));
        check(&[Low, High], Medium, Some(High));
        check(&[Low, Medium], Max, Some(Medium));
        check(&[Effort::None, High], Low, Some(High));
        check(&[Low], Minimal, Some(Low));
        check(&[], High, None);
    }
}
