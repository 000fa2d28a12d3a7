//! Reads the items of a conversation and checks that they belong together.

use serde_json::{Value, json};

use super::super::{Response, sign};
use super::error::{history, invalid, refusal, unverified};
use super::{list, text};
use crate::script::{Asked, Spoken};

/// A call id of the fake that was made after reasoning; the same, without reasoning before it.
pub const AFTER_REASONING: &str = "call_r";
pub const WITHOUT_REASONING: &str = "call_p";
/// Characters of a signature in the ids of a reply.
pub const TAG: usize = 20;
const CALL_ID_LIMIT: usize = 64;

/// Everything that a signature covers.
pub struct Signer<'a> {
    body: &'a Value,
    /// The essence of the items so far. Clients may leave out ids and status, so these do not count.
    before: Vec<Value>,
}

impl<'a> Signer<'a> {
    pub fn new(body: &'a Value) -> Self {
        Self { body, before: Vec::new() }
    }

    pub fn after(body: &'a Value) -> Self {
        let mut signer = Self::new(body);
        items(body).iter().for_each(|item| signer.add(item));
        signer
    }

    pub fn add(&mut self, item: &Value) {
        self.before.push(essence(item));
    }

    /// The signature of what comes next.
    pub fn signature(&self) -> String {
        let part = |name: &str| self.body.get(name).unwrap_or(&Value::Null);
        let before = Value::Array(self.before.clone());
        sign(&[part("model"), part("instructions"), part("tools"), &before])
    }

    pub fn encrypted(&self) -> String {
        format!("gAAAAAB{}==", self.signature())
    }
}

/// A part of a signature, for ids.
pub fn tag(encrypted: &str) -> String {
    encrypted.trim_start_matches("gAAAAAB").chars().take(TAG).collect()
}

pub fn items(body: &Value) -> Vec<Value> {
    match body.get("input") {
        Some(Value::Array(items)) => items.clone(),
        Some(input) => vec![json!({"role": "user", "content": input})],
        None => Vec::new(),
    }
}

fn kind(item: &Value) -> &str {
    match text(item, "type") {
        "" => "message",
        kind => kind,
    }
}

fn essence(item: &Value) -> Value {
    match kind(item) {
        "message" => json!([text(item, "role"), message_text(item)]),
        "reasoning" => json!(["reasoning", item.get("encrypted_content")]),
        "function_call" => {
            json!(["call", text(item, "call_id"), text(item, "name"), text(item, "arguments")])
        }
        "function_call_output" => json!(["result", text(item, "call_id"), item.get("output")]),
        _ => item.clone(),
    }
}

fn message_text(item: &Value) -> String {
    if let Some(text) = item.get("content").and_then(Value::as_str) {
        return text.to_owned();
    }
    parts_text(list(item, "content"))
}

fn parts_text(parts: &[Value]) -> String {
    let texts = parts.iter().map(|part| match text(part, "type") {
        "refusal" => text(part, "refusal"),
        "input_image" => text(part, "image_url"),
        _ => text(part, "text"),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Checks the conversation and returns it in the words of a script.
pub fn read(body: &Value) -> Result<Asked, Response> {
    let items = items(body);
    let mut reader = Reader::new(body);
    for (index, item) in items.iter().enumerate() {
        reader.item(index, item, items.get(index + 1))?;
        reader.signer.add(item);
    }
    reader.all_answered()?;
    let tools = list(body, "tools").iter().map(|tool| text(tool, "name").to_owned());
    let instructions = text(body, "instructions");
    let system = std::iter::once(instructions).chain(reader.system.iter().map(String::as_str));
    Ok(Asked {
        vendor: "openai".to_owned(),
        model: text(body, "model").to_owned(),
        system: system.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n"),
        conversation: reader.conversation,
        tools: tools.collect(),
        stream: body.get("stream") == Some(&Value::Bool(true)),
        earlier_requests: 0,
        body: body.clone(),
    })
}

struct Reader<'a> {
    signer: Signer<'a>,
    stored: bool,
    conversation: Vec<Spoken>,
    system: Vec<String>,
    /// Ids of items and encrypted contents so far.
    seen: Vec<String>,
    /// Tags of the reasoning so far.
    tags: Vec<String>,
    calls: Vec<String>,
    unanswered: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(body: &'a Value) -> Self {
        Self {
            signer: Signer::new(body),
            stored: body.get("store") != Some(&Value::Bool(false)),
            conversation: Vec::new(),
            system: Vec::new(),
            seen: Vec::new(),
            tags: Vec::new(),
            calls: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    fn item(&mut self, index: usize, item: &Value, next: Option<&Value>) -> Result<(), Response> {
        self.unseen(text(item, "id"))?;
        match kind(item) {
            "message" => self.message(index, item),
            "reasoning" => self.reasoning(index, item, next),
            "function_call" | "custom_tool_call" => self.call(index, item),
            "function_call_output" | "custom_tool_call_output" => self.output(item),
            "item_reference" => Err(not_stored(text(item, "id"))),
            other => {
                let message = format!(
                    "Invalid value: '{other}'. Supported values are: 'message', 'reasoning', \
                     'function_call', and 'function_call_output'."
                );
                Err(invalid(&message, &format!("input[{index}]"), "invalid_value"))
            }
        }
    }

    fn unseen(&mut self, id: &str) -> Result<(), Response> {
        if id.is_empty() {
            return Ok(());
        }
        if self.seen.iter().any(|seen| seen == id) {
            return Err(history(&format!(
                "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            )));
        }
        self.seen.push(id.to_owned());
        Ok(())
    }

    fn message(&mut self, index: usize, item: &Value) -> Result<(), Response> {
        let role = text(item, "role");
        let parts: &[&str] = match role {
            "assistant" => &["output_text", "refusal"],
            "user" | "system" | "developer" => &["input_text", "input_image", "input_file"],
            _ => {
                let message = format!(
                    "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', \
                     and 'user'."
                );
                return Err(invalid(&message, &format!("input[{index}].role"), "invalid_value"));
            }
        };
        check_parts(index, item, parts)?;
        let said = message_text(item);
        match role {
            "assistant" => self.said(&said, 0),
            "user" => {
                self.all_answered()?;
                self.conversation.push(Spoken::User(said));
            }
            _ => self.system.push(said),
        }
        Ok(())
    }

    fn reasoning(
        &mut self,
        index: usize,
        item: &Value,
        next: Option<&Value>,
    ) -> Result<(), Response> {
        let id = text(item, "id");
        let encrypted = text(item, "encrypted_content");
        if !item.get("summary").is_some_and(Value::is_array) {
            let param = format!("input[{index}].summary");
            let message = format!("Missing required parameter: '{param}'.");
            return Err(invalid(&message, &param, "missing_required_parameter"));
        }
        if encrypted.is_empty() {
            return if self.stored { Ok(()) } else { Err(not_stored(id)) };
        }
        self.unseen(encrypted)?;
        if encrypted != self.signer.encrypted() {
            return Err(unverified(encrypted));
        }
        let followed = next.is_some_and(|next| match kind(next) {
            "message" => text(next, "role") == "assistant",
            kind => matches!(kind, "reasoning" | "function_call" | "custom_tool_call"),
        });
        if !followed {
            return Err(history(&format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            )));
        }
        self.tags.push(tag(encrypted));
        Ok(())
    }

    fn call(&mut self, index: usize, item: &Value) -> Result<(), Response> {
        let is_function = kind(item) == "function_call";
        let input = if is_function { "arguments" } else { "input" };
        for name in ["call_id", "name", input] {
            if !item.get(name).is_some_and(Value::is_string) {
                let param = format!("input[{index}].{name}");
                let message = format!("Missing required parameter: '{param}'.");
                return Err(invalid(&message, &param, "missing_required_parameter"));
            }
        }
        let call = text(item, "call_id");
        if call.is_empty() || call.len() > CALL_ID_LIMIT {
            let param = format!("input[{index}].call_id");
            let message = format!("Invalid '{param}': expected a string of 1 to 64 characters.");
            return Err(invalid(&message, &param, "string_above_max_length"));
        }
        if self.calls.iter().any(|known| known == call) {
            return Err(history(&format!("Duplicate function call found with call_id {call}.")));
        }
        if let Some(rest) = call.strip_prefix(AFTER_REASONING) {
            let tag: String = rest.chars().take(TAG).collect();
            if !self.tags.contains(&tag) {
                return Err(history(&format!(
                    "Item 'fc_{tag}' of type 'function_call' was provided without its required \
                     'reasoning' item: 'rs_{tag}'."
                )));
            }
        }
        self.calls.push(call.to_owned());
        self.unanswered.push(call.to_owned());
        self.said("", 1);
        Ok(())
    }

    fn output(&mut self, item: &Value) -> Result<(), Response> {
        let call = text(item, "call_id");
        let Some(at) = self.unanswered.iter().position(|open| open == call) else {
            return Err(history(&match self.calls.iter().any(|known| known == call) {
                true => format!("Duplicate function call output found for call_id {call}."),
                false => {
                    format!("No tool call found for function call output with call_id {call}.")
                }
            }));
        };
        self.unanswered.remove(at);
        let text = match item.get("output") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts_text(parts),
            _ => return Err(history("Missing required parameter: 'output'.")),
        };
        self.conversation.push(Spoken::Result { call: call.to_owned(), text });
        Ok(())
    }

    /// Items of the model that follow each other are one reply.
    fn said(&mut self, said: &str, called: usize) {
        if let Some(Spoken::Model { text, calls }) = self.conversation.last_mut() {
            text.push_str(said);
            *calls += called;
            return;
        }
        self.conversation.push(Spoken::Model { text: said.to_owned(), calls: called });
    }

    fn all_answered(&self) -> Result<(), Response> {
        self.unanswered.first().map_or(Ok(()), |call| {
            Err(history(&format!("No tool output found for function call {call}.")))
        })
    }
}

fn not_stored(id: &str) -> Response {
    let message = format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again \
         with `store` set to true, or remove this item from your input."
    );
    refusal(404, &message, Some("input"), None)
}

fn check_parts(index: usize, item: &Value, accepted: &[&str]) -> Result<(), Response> {
    for (at, part) in list(item, "content").iter().enumerate() {
        let kind = text(part, "type");
        if !accepted.contains(&kind) {
            let accepted = accepted.join("', '");
            let message = format!("Invalid value: '{kind}'. Supported values are: '{accepted}'.");
            return Err(invalid(
                &message,
                &format!("input[{index}].content[{at}]"),
                "invalid_value",
            ));
        }
    }
    if item.get("content").is_some_and(|content| content.is_string() || content.is_array()) {
        return Ok(());
    }
    let param = format!("input[{index}].content");
    let message = format!("Missing required parameter: '{param}'.");
    Err(invalid(&message, &param, "missing_required_parameter"))
}
