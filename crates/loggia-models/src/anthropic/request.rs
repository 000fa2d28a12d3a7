//! The body of a request. The messages come last, and each depends on nothing behind it, so a longer
//! conversation begins with the bytes of a shorter one. Only the fields before `system` may differ.

mod messages;
mod thinking;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::protocol::ModelContext;
use crate::request::{ModelRequest, Purpose};
use messages::{Block, Turn};
use thinking::{OutputConfig, Thinking};

/// The most tokens of a reply of a model whose limit is not known. Each model of the vendor allows more.
const DEFAULT_OUTPUT: u64 = 16_000;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    /// At the top the vendor applies it to the last block of each request. In a message it would have to
    /// move, and the message would change.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<SystemBlock<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Turn<'a>>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CacheControl {
    Ephemeral,
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    #[serde(flatten)]
    block: Block<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Value,
}

pub fn body(model: &ModelContext<'_>, request: &ModelRequest) -> String {
    let facts = model.facts;
    // A limit above the half of a small window would leave no room for the conversation.
    let room = facts.window.map_or(u64::MAX, |window| (window / 2).max(1));
    let max_tokens = facts.output.unwrap_or(DEFAULT_OUTPUT).min(room);
    let turn = request.purpose == Purpose::Turn;
    // A summary is asked for once, so a cached prefix would be paid and never read.
    let cache_control = turn.then_some(CacheControl::Ephemeral);
    let instructions = Some(request.instructions.as_ref()).filter(|text| !text.trim().is_empty());
    let tools = request.tools.iter().filter(|_| turn).map(|tool| Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: schema(&tool.parameters),
    });
    let body = Body {
        model: &facts.id,
        max_tokens,
        stream: true,
        thinking: thinking::thinking(model, request, max_tokens),
        output_config: thinking::output_config(facts, request.effort),
        cache_control,
        system: instructions
            .map(|text| SystemBlock { block: Block::text(text), cache_control })
            .into_iter()
            .collect(),
        tools: tools.collect(),
        messages: match request.purpose {
            Purpose::Turn => messages::turns(model.name, &request.messages),
            Purpose::Summary => messages::summary(&request.messages),
        },
    };
    // Nothing in the body can fail to serialise: all keys are text.
    serde_json::to_string(&body).unwrap_or_default()
}

/// The vendor wants an object at the root and refuses alternatives there. Their properties are kept, so that
/// the model knows them; the tool checks its input itself.
fn schema(parameters: &Value) -> Value {
    let mut root = parameters.as_object().cloned().unwrap_or_default();
    let mut properties = match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(alternatives)) = root.remove(keyword) else { continue };
        for alternative in alternatives {
            let Some(Value::Object(more)) = alternative.get("properties") else { continue };
            for (name, schema) in more {
                properties.entry(name).or_insert_with(|| schema.clone());
            }
        }
    }
    root.insert("type".to_owned(), "object".into());
    root.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(root)
}
