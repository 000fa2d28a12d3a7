//! The checks of a request. Ollama itself accepts calls without results and results without calls, but a
//! model's template does not, so they are refused.

use serde_json::Value;

use super::{DEFAULT_WINDOW, TOO_LONG};
use crate::script::{Asked, Spoken};
use crate::vendor::tokens;

type Refusal = (u16, String);

pub fn request(body: &Value) -> Result<Asked, Refusal> {
    let no = |why: &str| (400, why.to_owned());
    let model = body["model"].as_str().filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| no("model is required"))?;
    match &body["think"] {
        Value::Null | Value::Bool(_) => {}
        Value::String(level) if ["low", "medium", "high", "max"].contains(&level.as_str()) => {}
        other => return Err((400, format!("invalid think value: {other}"))),
    }
    let tools = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    let tools = tools.iter().map(|tool| tool["function"]["name"].as_str().map(str::to_owned));
    let tools: Option<Vec<_>> = tools.collect();
    let tools = tools.ok_or_else(|| no("json: invalid tool"))?;
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let (system, conversation) = conversation(messages).map_err(|why| no(&why))?;
    let window = body["options"]["num_ctx"].as_u64().unwrap_or(DEFAULT_WINDOW);
    let long = tokens(&body["messages"].to_string()) > window;
    if long && body["truncate"] == false {
        return Err(no(TOO_LONG));
    }
    Ok(Asked {
        vendor: "ollama".to_owned(),
        model: model.to_owned(),
        system,
        // A conversation that is too long loses its beginning, and nothing says so.
        conversation: match long {
            true => conversation.into_iter().rev().take(1).collect(),
            false => conversation,
        },
        tools,
        stream: body["stream"] != false,
        earlier_requests: 0,
        body: body.clone(),
    })
}

fn conversation(messages: &[Value]) -> Result<(String, Vec<Spoken>), String> {
    let (mut system, mut conversation) = (String::new(), Vec::new());
    // Calls without a result, by the names of their tools.
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        let text = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            _ => return Err("json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string".to_owned()),
        };
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let tool = message["tool_name"].as_str().unwrap_or_default();
            let at = open.iter().position(|open| open == tool);
            open.remove(at.ok_or(format!("no call for the result of '{tool}'"))?);
            conversation.push(Spoken::Result { call: tool.to_owned(), text });
            continue;
        }
        if let Some(tool) = open.first() {
            return Err(format!("no result for the call of '{tool}'"));
        }
        match role {
            "system" => system.push_str(&text),
            "user" => conversation.push(Spoken::User(text)),
            "assistant" => {
                let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
                for call in calls {
                    let function = &call["function"];
                    if !function["arguments"].is_object() {
                        return Err("json: cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments".to_owned());
                    }
                    open.push(function["name"].as_str().unwrap_or_default().to_owned());
                }
                conversation.push(Spoken::Model { text, calls: calls.len() });
            }
            other => return Err(format!("invalid role: {other:?}")),
        }
    }
    match open.first() {
        Some(tool) => Err(format!("no result for the call of '{tool}'")),
        None => Ok((system, conversation)),
    }
}
