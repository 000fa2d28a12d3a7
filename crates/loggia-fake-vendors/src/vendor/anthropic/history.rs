//! Checks a conversation: the allowed content of each message, that each call is answered once and in the next
//! message, and that thinking blocks are in their original places.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::binding::{Beginning, Misfit};
use super::errors::{invalid, moved};
use super::models::Offered;
use crate::vendor::Response;

type Checked = Result<(), Response>;

pub fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The blocks of a content. A string is short for one block of text.
pub fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

pub fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// `efforts`: messages of the system may set the effort.
pub fn check(body: &Value, model: &Offered, efforts: bool) -> Checked {
    let messages = messages(body);
    if messages.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    if messages.first().is_some_and(|first| first["role"] != "user") {
        return Err(invalid("messages: first message must use the \"user\" role"));
    }
    let mut before = None;
    for (index, message) in messages.iter().enumerate() {
        role(index, message, before, model)?;
        let fields: &[&str] = match efforts && message["role"] == "system" {
            true => &["role", "content", "output_config"],
            false => &["role", "content"],
        };
        no_more_than(&format!("messages.{index}"), message, fields)?;
        before = Some(field(message, "role"));
        content(index, message)?;
    }
    end(messages, model)?;
    calls(messages)?;
    thoughts(body, messages)
}

fn role(index: usize, message: &Value, before: Option<&str>, model: &Offered) -> Checked {
    match field(message, "role") {
        "user" | "assistant" => {}
        "system" if model.newer && before == Some("user") => {}
        "system" if model.newer => {
            return Err(invalid(format!(
                "messages.{index}: a `system` message must follow a `user` message"
            )));
        }
        role => {
            return Err(invalid(format!(
                "messages: Unexpected role \"{role}\". Allowed roles are \"user\" or \"assistant\"."
            )));
        }
    }
    Ok(())
}

/// Prefill is not supported. A paused reply is sent back as it is, and ends with a tool of the server.
fn end(messages: &[Value], model: &Offered) -> Checked {
    let Some(last) = messages.last().filter(|last| last["role"] == "assistant") else {
        return Ok(());
    };
    let paused = blocks(&last["content"]);
    let paused = paused.last().is_some_and(|block| block["type"] == "server_tool_use");
    match model.newer && !paused {
        true => Err(invalid(
            "This model does not support assistant message prefill. The conversation must end with \
             a user message.",
        )),
        false => Ok(()),
    }
}

fn content(index: usize, message: &Value) -> Checked {
    let role = field(message, "role");
    let blocks = blocks(&message["content"]);
    if blocks.is_empty() {
        return Err(invalid(format!(
            "messages.{index}: {role} messages must have non-empty content"
        )));
    }
    for (position, found) in blocks.iter().enumerate() {
        block(&format!("messages.{index}.content.{position}"), role, found)?;
    }
    let texts = blocks.iter().filter(|block| block["type"] == "text");
    let mut texts = texts.map(|block| field(block, "text")).peekable();
    if texts.peek().is_some() && texts.all(|text| text.trim().is_empty()) {
        return Err(invalid("messages: text content blocks must contain non-whitespace text"));
    }
    let last = blocks.last().map(|block| field(block, "type")).unwrap_or_default();
    if role == "assistant" && last.ends_with("thinking") {
        return Err(invalid(format!(
            "messages.{index}: The final block in an assistant message cannot be `thinking`."
        )));
    }
    Ok(())
}

fn block(at: &str, role: &str, block: &Value) -> Checked {
    let kind = field(block, "type");
    let required = |names: &[&str]| {
        let missing = names.iter().find(|name| !block[**name].is_string());
        missing.map_or(Ok(()), |name| Err(invalid(format!("{at}.{kind}.{name}: Field required"))))
    };
    let only = |names: &[&str]| no_more_than(&format!("{at}.{kind}"), block, names);
    match (kind, role) {
        ("text", _) => {
            required(&["text"])?;
            only(&["type", "text", "cache_control", "citations"])?;
            match field(block, "text") {
                "" => Err(invalid("messages: text content blocks must be non-empty")),
                _ => Ok(()),
            }
        }
        ("thinking", "assistant") => {
            required(&["thinking", "signature"])?;
            only(&["type", "thinking", "signature"])
        }
        ("redacted_thinking", "assistant") => {
            required(&["data"])?;
            only(&["type", "data"])
        }
        ("tool_use" | "server_tool_use", "assistant") => {
            required(&["id", "name"])?;
            only(&["type", "id", "name", "input", "cache_control", "caller", "toolset_name"])?;
            call(&format!("{at}.{kind}"), block)
        }
        ("tool_result", "user") => {
            required(&["tool_use_id"])?;
            only(&["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"])?;
            let says_nothing = blocks(&block["content"])
                .iter()
                .all(|part| part["type"] == "text" && field(part, "text").is_empty());
            match block["is_error"] == true && says_nothing {
                true => Err(invalid(format!(
                    "{at}.tool_result: content cannot be empty if `is_error` is true"
                ))),
                false => Ok(()),
            }
        }
        ("thinking" | "redacted_thinking" | "tool_use", _) => {
            Err(invalid(format!("{at}: `{kind}` blocks can only be in `assistant` messages")))
        }
        ("tool_result", _) => {
            Err(invalid(format!("{at}: `tool_result` blocks can only be in `user` messages")))
        }
        ("image" | "document", "user") => Ok(()),
        (kind, _) if kind.ends_with("_tool_result") => Ok(()),
        _ => Err(invalid(format!(
            "{at}: Input tag '{kind}' found using 'type' does not match any of \
                                  the expected tags"
        ))),
    }
}

fn call(at: &str, block: &Value) -> Checked {
    let plain = |text: &str| {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        !text.is_empty() && text.chars().all(allowed)
    };
    if !plain(field(block, "id")) {
        return Err(invalid(format!("{at}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")));
    }
    let name = field(block, "name");
    if !plain(name) || name.chars().count() > 200 {
        return Err(invalid(format!(
            "{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"
        )));
    }
    if !block["input"].is_object() {
        return Err(invalid(format!("{at}.input: Input should be a valid dictionary")));
    }
    Ok(())
}

pub fn no_more_than(at: &str, value: &Value, names: &[&str]) -> Checked {
    let fields = value.as_object().into_iter().flatten();
    let unknown = fields.map(|(name, _)| name).find(|name| !names.contains(&name.as_str()));
    match unknown {
        Some(name) => Err(invalid(format!("{at}.{name}: Extra inputs are not permitted"))),
        None => Ok(()),
    }
}

/// The calls that wait for their results, and where they are.
#[derive(Default)]
struct Open {
    index: usize,
    ids: Vec<String>,
    answered: HashSet<String>,
    /// Something other than a result came behind the calls.
    interrupted: bool,
}

impl Open {
    fn missing(&self) -> Checked {
        let missing = self.ids.iter().filter(|id| !self.answered.contains(*id));
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(invalid(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
                 after: {}. Each `tool_use` block must have a corresponding `tool_result` block in \
                 the next message.",
                self.index,
                missing.join(", ")
            ))),
        }
    }

    fn answer(&mut self, at: &str, id: &str) -> Checked {
        if self.interrupted || !self.ids.iter().any(|known| known == id) {
            return Err(invalid(format!(
                "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous \
                 message."
            )));
        }
        match self.answered.insert(id.to_owned()) {
            true => Ok(()),
            false => Err(invalid(format!(
                "{at}: each tool_use must have a single result. Found multiple `tool_result` blocks \
                 with id: {id}"
            ))),
        }
    }
}

/// Messages of the same role in a row count as one.
fn calls(messages: &[Value]) -> Checked {
    let mut seen = HashSet::new();
    let mut open = Open::default();
    for (index, message) in messages.iter().enumerate() {
        let role = field(message, "role");
        for (position, block) in blocks(&message["content"]).iter().enumerate() {
            let at = format!("messages.{index}.content.{position}");
            match (field(block, "type"), role) {
                ("tool_use", _) => {
                    let id = field(block, "id").to_owned();
                    if !seen.insert(id.clone()) {
                        return Err(invalid("messages: `tool_use` ids must be unique"));
                    }
                    if !open.answered.is_empty() || open.interrupted {
                        open.missing()?;
                        open = Open::default();
                    }
                    open.index = index;
                    open.ids.push(id);
                }
                ("tool_result", _) => open.answer(&at, field(block, "tool_use_id"))?,
                (_, "user") => {
                    open.missing()?;
                    open.interrupted = true;
                }
                (_, "assistant") if !open.answered.is_empty() => {
                    open.missing()?;
                    open = Open::default();
                }
                _ => {}
            }
        }
    }
    open.missing()
}

fn thoughts(body: &Value, messages: &[Value]) -> Checked {
    let mut beginning = Beginning::of(body);
    for (index, message) in messages.iter().enumerate() {
        for (position, block) in blocks(&message["content"]).iter().enumerate() {
            let at = format!("messages.{index}.content.{position}");
            let (signature, shown) = match field(block, "type") {
                "thinking" => (field(block, "signature"), field(block, "thinking")),
                "redacted_thinking" => (field(block, "data"), "redacted"),
                _ => ("", ""),
            };
            if !signature.is_empty() || field(block, "type").ends_with("thinking") {
                beginning.verify(signature, shown).map_err(|misfit| match misfit {
                    Misfit::Moved(what) => moved(&at, what),
                    Misfit::Forged if shown == "redacted" => {
                        invalid(format!("{at}: Invalid `data` in `redacted_thinking` block"))
                    }
                    Misfit::Forged => {
                        invalid(format!("{at}: Invalid `signature` in `thinking` block"))
                    }
                })?;
            }
            beginning.add(field(message, "role"), block);
        }
    }
    latest_reply(messages)
}

/// The id of a call says how many thinking blocks came before it. Only a conversation without any may
/// leave them out.
fn latest_reply(messages: &[Value]) -> Checked {
    let is_thought = |block: &Value| field(block, "type").ends_with("thinking");
    let mut all = messages.iter().flat_map(|message| blocks(&message["content"]));
    let Some(index) = messages.iter().rposition(|message| message["role"] == "assistant") else {
        return Ok(());
    };
    if !all.any(|block| is_thought(&block)) {
        return Ok(());
    }
    let mut before = 0;
    let latest = messages.get(index).map(|message| blocks(&message["content"]));
    for (position, block) in latest.unwrap_or_default().iter().enumerate() {
        before += usize::from(is_thought(block));
        let made = field(block, "id").strip_prefix("toolu_01");
        let made = made.filter(|rest| rest.len() == 18).and_then(|rest| rest.get(16..));
        let made = made.and_then(|count| count.parse::<usize>().ok());
        if made.is_some_and(|made| made != before) {
            return Err(invalid(format!(
                "messages.{index}.content.{position}: `thinking` or `redacted_thinking` blocks in the \
                 latest assistant message cannot be modified. These blocks must remain as they were \
                 in the original response."
            )));
        }
    }
    Ok(())
}
