//! Checks of a request apart from its conversation: headers, parameters, tools.

use serde_json::Value;

use super::super::{HttpCall, Response};
use super::error::{invalid, refusal};
use super::{list, reasons, text};

const PARAMETERS: [&str; 34] = [
    "access_programs",
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
const INCLUDES: [&str; 8] = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const SUMMARIES: [&str; 3] = ["auto", "concise", "detailed"];
const TOOLS: [&str; 13] = [
    "apply_patch",
    "code_interpreter",
    "computer",
    "custom",
    "file_search",
    "function",
    "image_generation",
    "local_shell",
    "mcp",
    "namespace",
    "shell",
    "tool_search",
    "web_search",
];
/// Schemas of strict tools.
const NOT_IN_STRICT: [&str; 3] = ["default", "patternProperties", "oneOf"];
const NOT_AT_ROOT: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];
const KEY_LIMIT: usize = 64;

pub fn headers(call: &HttpCall) -> Result<(), Response> {
    let key = call.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if key.is_none_or(|key| key.trim().is_empty()) {
        let message = "You didn't provide an API key. You need to provide your API key in an \
                       Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).";
        return Err(refusal(401, message, None, Some("invalid_api_key")));
    }
    let json = call.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    if call.method == "POST" && !json {
        let message = "Unsupported content type. This API method only accepts 'application/json' \
                       requests, but you specified another one in the header 'Content-Type'.";
        return Err(refusal(400, message, None, Some("unsupported_content_type")));
    }
    Ok(())
}

pub fn body(body: &Value) -> Result<(), Response> {
    let Some(fields) = body.as_object() else {
        let message = "We could not parse the JSON body of your request. The OpenAI API expects a JSON \
                       payload, but what was sent was not valid JSON.";
        return Err(refusal(400, message, None, None));
    };
    if let Some(name) = fields.keys().find(|name| !PARAMETERS.contains(&name.as_str())) {
        let message = format!("Unknown parameter: '{name}'.");
        return Err(invalid(&message, name, "unknown_parameter"));
    }
    for name in ["model", "input"] {
        if !fields.contains_key(name) {
            let message = format!("Missing required parameter: '{name}'.");
            return Err(invalid(&message, name, "missing_required_parameter"));
        }
    }
    if fields.get("previous_response_id").is_some_and(Value::is_string) {
        let message = format!(
            "Previous response with id '{}' not found.",
            text(body, "previous_response_id")
        );
        return Err(invalid(&message, "previous_response_id", "previous_response_not_found"));
    }
    if text(body, "prompt_cache_key").chars().count() > KEY_LIMIT {
        let message = "Invalid 'prompt_cache_key': string too long. Expected a string with maximum \
                       length 64.";
        return Err(invalid(message, "prompt_cache_key", "string_above_max_length"));
    }
    for (index, include) in list(body, "include").iter().enumerate() {
        one_of(include, &INCLUDES, &format!("include[{index}]"))?;
    }
    reasoning(body)?;
    list(body, "tools").iter().enumerate().try_for_each(|(index, value)| tool(index, value))
}

fn one_of(value: &Value, known: &[&str], param: &str) -> Result<(), Response> {
    if value.is_null() || value.as_str().is_some_and(|value| known.contains(&value)) {
        return Ok(());
    }
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let known = known.join("', '");
    let message = format!("Invalid value: '{value}'. Supported values are: '{known}'.");
    Err(invalid(&message, param, "invalid_value"))
}

fn reasoning(body: &Value) -> Result<(), Response> {
    let reasoning = body.get("reasoning").unwrap_or(&Value::Null);
    let effort = reasoning.get("effort").unwrap_or(&Value::Null);
    let summary = reasoning.get("summary").unwrap_or(&Value::Null);
    one_of(effort, &EFFORTS, "reasoning.effort")?;
    one_of(summary, &SUMMARIES, "reasoning.summary")?;
    if reasons(text(body, "model")) {
        return Ok(());
    }
    for (name, value) in [("reasoning.effort", effort), ("reasoning.summary", summary)] {
        if !value.is_null() {
            let message =
                format!("Unsupported parameter: '{name}' is not supported with this model.");
            return Err(invalid(&message, name, "unsupported_parameter"));
        }
    }
    if list(body, "include").iter().any(|include| include == "reasoning.encrypted_content") {
        let message = "Encrypted content is not supported with this model.";
        return Err(refusal(400, message, Some("include"), None));
    }
    Ok(())
}

fn tool(index: usize, tool: &Value) -> Result<(), Response> {
    one_of(tool.get("type").unwrap_or(&Value::Null), &TOOLS, &format!("tools[{index}].type"))?;
    if text(tool, "type") != "function" {
        return Ok(());
    }
    let name = text(tool, "name");
    let fits = |symbol: char| symbol.is_ascii_alphanumeric() || matches!(symbol, '_' | '-');
    if name.is_empty() || name.len() > KEY_LIMIT || !name.chars().all(fits) {
        let param = format!("tools[{index}].name");
        let message = format!(
            "Invalid '{param}': string does not match pattern. Expected a string that matches the \
             pattern '^[a-zA-Z0-9_-]+$'."
        );
        return Err(invalid(&message, &param, "invalid_value"));
    }
    let Some(schema) = tool.get("parameters").filter(|schema| !schema.is_null()) else {
        return Ok(());
    };
    let strict = tool.get("strict") == Some(&Value::Bool(true));
    let fault = root_fault(schema).or_else(|| fault_within(schema, strict));
    fault.map_or(Ok(()), |fault| {
        let message = format!("Invalid schema for function '{name}': {fault}");
        let param = format!("tools[{index}].parameters");
        Err(invalid(&message, &param, "invalid_function_parameters"))
    })
}

fn root_fault(schema: &Value) -> Option<String> {
    if text(schema, "type") != "object" {
        let kind = schema.get("type").map_or("None".to_owned(), Value::to_string);
        return Some(format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: {kind}'."
        ));
    }
    if NOT_AT_ROOT.iter().any(|keyword| schema.get(keyword).is_some()) {
        return Some(
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top \
             level."
                .to_owned(),
        );
    }
    let properties = schema.get("properties").is_some_and(Value::is_object);
    (!properties).then(|| "In context=(), object schema missing properties.".to_owned())
}

fn fault_within(schema: &Value, strict: bool) -> Option<String> {
    let fields = schema.as_object()?;
    let is = |wanted: &str| match fields.get("type") {
        Some(Value::String(kind)) => kind == wanted,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    };
    if is("array") && !fields.contains_key("items") {
        return Some("In context=(), array schema missing items.".to_owned());
    }
    if strict {
        if let Some(keyword) = NOT_IN_STRICT.iter().find(|keyword| fields.contains_key(**keyword)) {
            return Some(format!("In context=(), '{keyword}' is not permitted."));
        }
        if is("object") && fields.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Some(
                "In context=(), 'additionalProperties' is required to be supplied and to be false."
                    .to_owned(),
            );
        }
        let required = list(schema, "required");
        let properties = fields.get("properties").and_then(Value::as_object);
        let missing = properties
            .and_then(|all| all.keys().find(|name| !required.iter().any(|known| known == *name)));
        if let Some(name) = missing {
            return Some(format!(
                "In context=(), 'required' is required to be supplied and to be an array including every \
                 key in properties. Missing '{name}'."
            ));
        }
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    let within = properties.into_iter().flat_map(|all| all.values());
    let variants = ["anyOf", "oneOf", "allOf"].iter().flat_map(|name| list(schema, name));
    within
        .chain(fields.get("items"))
        .chain(variants)
        .find_map(|schema| fault_within(schema, strict))
}
