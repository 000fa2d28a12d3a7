//! The checks of a request.

use serde_json::{Map, Value};

use super::Server;
use super::error::{REASONING, SIGNATURE, refusal, upstream};
use super::reply::{seal, sealed_details};
use crate::script::{Asked, Spoken};
use crate::vendor::{HttpCall, Response, Vendor};

const FIELDS: [&str; 24] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "n",
    "stop",
    "seed",
    "user",
    "response_format",
    "logprobs",
    "top_logprobs",
    "max_completion_tokens",
    "reasoning_effort",
    "prompt_cache_key",
    "store",
    "metadata",
    "service_tier",
    "verbosity",
    "safety_identifier",
];
const ASSISTANT_FIELDS: [&str; 7] =
    ["role", "content", "refusal", "name", "audio", "tool_calls", "annotations"];

/// Local servers need no key.
pub fn key(server: Server, call: &HttpCall) -> Result<(), Response> {
    let key = call.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let local = matches!(server, Server::LlamaCpp | Server::Vllm);
    match key.is_some_and(|key| !key.is_empty()) || local {
        true => Ok(()),
        false => Err(server.error("bad_key", None)),
    }
}

pub fn request(server: Server, body: &Value) -> Result<Asked, Response> {
    let no = |message: &str| refusal(server, 400, message);
    let fields =
        body.as_object().ok_or_else(|| no("We could not parse the JSON body of your request."))?;
    let model = fields.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| no("you must provide a model parameter"))?;
    parameters(server, fields).map_err(|why| no(&why))?;
    let tools = tools(fields).map_err(|why| no(&why))?;
    let messages = fields.get("messages").and_then(Value::as_array);
    let messages = messages
        .filter(|messages| !messages.is_empty())
        .ok_or_else(|| no("[] is too short - 'messages'"))?;
    let (mut system, mut conversation) = (String::new(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        let (role, text) = form(server, at, message)?;
        match role {
            "system" | "developer" => system.push_str(&text),
            "user" => conversation.push(Spoken::User(text)),
            "tool" => {
                let call = message["tool_call_id"].as_str().unwrap_or_default().to_owned();
                conversation.push(Spoken::Result { call, text });
            }
            _ => {
                let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
                conversation.push(Spoken::Model { text, calls });
            }
        }
    }
    answered_once(messages).map_err(|why| no(&why))?;
    for (at, message) in messages.iter().enumerate() {
        reasoning(server, body, at, message)?;
    }
    Ok(Asked {
        vendor: server.name().to_owned(),
        model: model.to_owned(),
        system,
        conversation,
        tools,
        stream: fields.get("stream") == Some(&Value::Bool(true)),
        earlier_requests: 0,
        body: body.clone(),
    })
}

fn parameters(server: Server, fields: &Map<String, Value>) -> Result<(), String> {
    if server == Server::OpenAi {
        if fields.contains_key("max_tokens") {
            return Err("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.".to_owned());
        }
        if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(format!("Unrecognized request argument supplied: {name}"));
        }
    }
    let one_of = |path: &[&str], allowed: &[&str]| {
        let value = path.iter().try_fold(None::<&Value>, |at, name| {
            let found = match at {
                Some(value) => value.get(name),
                None => fields.get(*name),
            };
            found.map(Some)
        });
        let given = value.flatten().and_then(Value::as_str);
        match given.is_none_or(|given| allowed.contains(&given)) {
            true => Ok(()),
            false => Err(format!("Invalid value for '{}'", path.join("."))),
        }
    };
    match server {
        Server::OpenAi => one_of(
            &["reasoning_effort"],
            &["none", "minimal", "low", "medium", "high", "xhigh", "max"],
        ),
        Server::DeepSeek => {
            one_of(&["thinking", "type"], &["enabled", "disabled"])?;
            one_of(&["reasoning_effort"], &["low", "medium", "high", "xhigh", "max"])
        }
        Server::OpenRouter => {
            one_of(&["reasoning", "effort"], &["none", "minimal", "low", "medium", "high", "xhigh"])
        }
        Server::LlamaCpp | Server::Vllm => {
            one_of(&["reasoning_effort"], &["none", "low", "medium", "high"])
        }
    }
}

fn tools(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(tools) = fields.get("tools") else { return Ok(Vec::new()) };
    let tools = tools.as_array().filter(|tools| !tools.is_empty());
    let tools = tools.ok_or("Invalid 'tools': empty array.")?;
    let checked = tools.iter().enumerate().map(|(at, tool)| {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let allowed = |symbol: char| symbol.is_ascii_alphanumeric() || "_-".contains(symbol);
        if tool["type"] != "function" {
            return Err(format!("Missing required parameter: 'tools[{at}].type'."));
        }
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return Err(format!("Invalid 'tools[{at}].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."));
        }
        match function.get("parameters").is_none_or(|schema| schema["type"] == "object") {
            true => Ok(name.to_owned()),
            false => Err(format!("Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'")),
        }
    });
    checked.collect()
}

/// The role and the text of a message.
fn form(server: Server, at: usize, message: &Value) -> Result<(&str, String), Response> {
    let no = |why: String| refusal(server, 400, &why);
    let role = message["role"].as_str().unwrap_or_default();
    let known = match server {
        Server::DeepSeek => role != "developer",
        _ => true,
    };
    if !known || !["system", "developer", "user", "assistant", "tool"].contains(&role) {
        return Err(no(format!("Invalid value: '{role}' for 'messages[{at}].role'.")));
    }
    let content = &message["content"];
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(_) if server == Server::DeepSeek => {
            let why = format!(
                "Failed to deserialize the JSON body into the target type: messages[{at}]: invalid type: sequence, expected a string"
            );
            return Err(refusal(server, 422, &why));
        }
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part["text"].as_str());
            let texts = texts.collect::<Option<Vec<_>>>();
            let texts = texts.filter(|texts| !texts.is_empty());
            texts.ok_or_else(|| no(format!("Invalid 'messages[{at}].content'.")))?.concat()
        }
        Value::Null if role == "assistant" && message["tool_calls"].is_array() => String::new(),
        _ => {
            return Err(no(format!(
                "Invalid value for 'content': expected a string, got null. (messages[{at}])"
            )));
        }
    };
    if role == "assistant" {
        assistant(server, at, message).map_err(|why| match server {
            Server::LlamaCpp => refusal(server, 500, &why),
            _ => no(why),
        })?;
    }
    Ok((role, text))
}

fn assistant(server: Server, at: usize, message: &Value) -> Result<(), String> {
    let mut names = message.as_object().into_iter().flat_map(Map::keys);
    let unknown = names.find(|name| !ASSISTANT_FIELDS.contains(&name.as_str()));
    if let (Server::OpenAi, Some(name)) = (server, unknown) {
        return Err(format!(
            "Additional properties are not allowed ('{name}' was unexpected) - 'messages.{at}'"
        ));
    }
    let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) else {
        return Ok(());
    };
    let calls = calls.as_array().filter(|calls| !calls.is_empty());
    let calls = calls.ok_or(format!("[] is too short - 'messages.{at}.tool_calls'"))?;
    for (index, call) in calls.iter().enumerate() {
        let place = format!("messages[{at}].tool_calls[{index}]");
        let arguments = call["function"]["arguments"].as_str();
        let id = call["id"].as_str().unwrap_or_default();
        let name = call["function"]["name"].as_str().unwrap_or_default();
        let Some(arguments) = arguments else {
            return Err(format!("Missing required parameter: '{place}.function.arguments'."));
        };
        if id.is_empty() || id.len() > 40 || name.is_empty() || call["type"] != "function" {
            return Err(format!("Invalid '{place}': id, type and name are required."));
        }
        let parsed = serde_json::from_str::<Map<String, Value>>(arguments);
        match (server, parsed) {
            (Server::LlamaCpp, Err(error)) => {
                return Err(format!("Failed to parse tool call arguments as JSON: {error}"));
            }
            (Server::Vllm, Err(error)) if !arguments.is_empty() => return Err(error.to_string()),
            _ => {}
        }
    }
    Ok(())
}

/// Every call has one result, directly behind its message.
fn answered_once(messages: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages.iter().chain([&Value::Null]) {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let at = open.iter().position(|open| *open == id);
            let at = at.ok_or("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")?;
            open.remove(at);
            continue;
        }
        if !open.is_empty() {
            let ids = open.join(", ");
            return Err(format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}"
            ));
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        open = calls.filter_map(|call| call["id"].as_str()).collect();
    }
    Ok(())
}

/// The reasoning that must come back, unchanged and where it was.
fn reasoning(server: Server, body: &Value, at: usize, message: &Value) -> Result<(), Response> {
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    match server {
        Server::DeepSeek => {
            let off = body["thinking"]["type"] == "disabled";
            match calls.is_empty() || off || message["reasoning_content"].is_string() {
                true => Ok(()),
                false => Err(refusal(server, 400, REASONING)),
            }
        }
        Server::OpenRouter => {
            let details = message["reasoning_details"].as_array().map_or(&[][..], Vec::as_slice);
            let wanted = calls.iter().find_map(|call| sealed_details(call["id"].as_str()?));
            if wanted.is_some_and(|wanted| wanted != details.len()) {
                return Err(upstream(&format!(
                    "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
                )));
            }
            for (index, detail) in details.iter().enumerate() {
                let text = detail["text"].as_str().unwrap_or_default();
                let given = [&detail["signature"], &detail["data"]];
                let given = given.into_iter().find_map(Value::as_str);
                if given != Some(&seal(body, at, index, text)) {
                    return Err(upstream(SIGNATURE));
                }
            }
            Ok(())
        }
        Server::OpenAi | Server::LlamaCpp | Server::Vllm => Ok(()),
    }
}
