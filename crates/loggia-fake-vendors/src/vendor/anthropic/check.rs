//! The checks of a request apart from its conversation: headers, parameters, tools.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{invalid, response, too_long};
use super::history::{self, blocks, field, messages, no_more_than};
use super::models::{self, Offered};
use crate::vendor::{HttpCall, Response, tokens};

type Checked = Result<(), Response>;

const NEWEST: &str = "2026-10-21";
const VERSIONS: [&str; 2] = ["2023-06-01", NEWEST];
const FIELDS: [&str; 19] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "thinking",
    "output_config",
    "cache_control",
    "metadata",
    "stop_sequences",
    "service_tier",
    "container",
    "diagnostics",
    "inference_geo",
    "speed",
    "user_profile_id",
    "betas",
];
/// The beta with which messages of the system set the effort: as the SDK names it, and as Claude Code does.
const EFFORTS: [&str; 2] =
    ["mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"];
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];

pub fn headers(call: &HttpCall) -> Checked {
    let refused = |message: &str| Err(response(401, "authentication_error", message));
    let bearer = call.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    match call.header("x-api-key").or(bearer) {
        None | Some("") => return refused("x-api-key header is required"),
        Some(key) if key.starts_with("bad") => return refused("invalid x-api-key"),
        Some(_) => {}
    }
    match call.header("anthropic-version") {
        None => Err(invalid("anthropic-version: header is required")),
        Some(version) if VERSIONS.contains(&version) => Ok(()),
        Some(version) => {
            Err(invalid(format!("anthropic-version: \"{version}\" is not a valid version")))
        }
    }
}

pub fn body(call: &HttpCall) -> Checked {
    let body = &call.body;
    let model = model(call)?;
    let Some(limit) = body["max_tokens"].as_u64() else {
        return Err(invalid("max_tokens: Field required"));
    };
    if limit == 0 {
        return Err(invalid("max_tokens: must be greater than or equal to 1"));
    }
    if limit > model.output {
        return Err(invalid(format!(
            "max_tokens: {limit} > {}, which is the maximum allowed number of output tokens for {}",
            model.output,
            field(body, "model")
        )));
    }
    thinking(body, limit, model)?;
    counted(call, model)
}

/// The query of a list.
pub fn page(call: &HttpCall) -> Checked {
    let limit = call.query.split('&').find_map(|pair| pair.strip_prefix("limit="));
    match limit.map(|limit| limit.parse::<u32>()) {
        None | Some(Ok(1..=1000)) => Ok(()),
        Some(_) => Err(invalid("limit: Input should be between 1 and 1000")),
    }
}

/// A body whose tokens are to be counted has no limit.
pub fn counted_body(call: &HttpCall) -> Checked {
    counted(call, model(call)?)
}

fn model(call: &HttpCall) -> Result<&'static Offered, Response> {
    let body = &call.body;
    if !body.is_object() {
        return Err(invalid("The request body is not valid JSON."));
    }
    if call.header("content-type").is_none_or(|kind| !kind.starts_with("application/json")) {
        return Err(invalid("content-type: must be application/json"));
    }
    if !body["model"].is_string() {
        return Err(invalid("model: Field required"));
    }
    let name = field(body, "model");
    models::find(name).ok_or_else(|| response(404, "not_found_error", &format!("model: {name}")))
}

fn counted(call: &HttpCall, model: &Offered) -> Checked {
    let body = &call.body;
    let old = call.header("anthropic-version") != Some(NEWEST);
    let beta = call.header("anthropic-beta");
    let efforts =
        beta.is_some_and(|betas| betas.split(',').any(|beta| EFFORTS.contains(&beta.trim())));
    for name in body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
        if !(FIELDS.contains(&name) || beta.is_some() || old && SAMPLING.contains(&name)) {
            return Err(invalid(format!("{name}: Extra inputs are not permitted")));
        }
    }
    effort("output_config", &body["output_config"], &["effort", "format"], model)?;
    for (index, message) in messages(body).iter().enumerate() {
        let at = format!("messages.{index}.output_config");
        effort(&at, &message["output_config"], &["effort"], model)?;
    }
    system(body)?;
    tools(body)?;
    if model.newer && matches!(field(&body["tool_choice"], "type"), "any" | "tool") {
        return Err(invalid("tool_choice: forced tool use is not supported by this model"));
    }
    history::check(body, model, efforts)?;
    cache(body)?;
    let tokens = tokens(&body.to_string());
    match tokens > model.window {
        true => Err(too_long(tokens, model.window)),
        false => Ok(()),
    }
}

fn thinking(body: &Value, limit: u64, model: &Offered) -> Checked {
    let thinking = &body["thinking"];
    if thinking.is_null() {
        return Ok(());
    }
    let kind = field(thinking, "type");
    if !model.thinking.contains(&kind) {
        return Err(invalid(format!(
            "thinking.type: `{kind}` is not supported by this model; it accepts: {}",
            model.thinking.join(", ")
        )));
    }
    let fields: &[&str] = match kind {
        "adaptive" => &["type", "display", "block_binding"],
        "enabled" => &["type", "display", "budget_tokens", "block_binding"],
        _ => &["type"],
    };
    no_more_than(&format!("thinking.{kind}"), thinking, fields)?;
    if !matches!(field(thinking, "display"), "" | "summarized" | "omitted") {
        return Err(invalid(format!(
            "thinking.{kind}.display: Input should be 'summarized' or 'omitted'"
        )));
    }
    match (kind, thinking["budget_tokens"].as_u64()) {
        ("enabled", None) => Err(invalid("thinking.enabled.budget_tokens: Field required")),
        ("enabled", Some(..1024)) => Err(invalid(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        )),
        ("enabled", Some(budget)) if budget >= limit => {
            Err(invalid("`max_tokens` must be greater than `thinking.budget_tokens`."))
        }
        ("enabled", Some(_)) => begins_with_thoughts(body),
        _ => Ok(()),
    }
}

/// With a budget, the running turn begins with a thinking block, if it has calls.
fn begins_with_thoughts(body: &Value) -> Checked {
    let is_prompt = |message: &Value| {
        let content = blocks(&message["content"]);
        message["role"] == "user" && content.iter().any(|block| block["type"] == "text")
    };
    let messages = messages(body);
    let prompt = messages.iter().rposition(is_prompt).unwrap_or(0);
    let first = messages.get(prompt + 1).map(|reply| blocks(&reply["content"]));
    let kind = first.as_ref().and_then(|blocks| blocks.first()).map(|block| field(block, "type"));
    match kind {
        Some(kind) if !kind.ends_with("thinking") => Err(invalid(format!(
            "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
             `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a \
             thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
            prompt + 1
        ))),
        _ => Ok(()),
    }
}

fn effort(at: &str, config: &Value, fields: &[&str], model: &Offered) -> Checked {
    no_more_than(at, config, fields)?;
    match config["effort"].as_str() {
        Some(effort) if !model.efforts.contains(&effort) => {
            Err(invalid(format!("{at}.effort: `{effort}` is not supported by this model")))
        }
        _ => Ok(()),
    }
}

fn system(body: &Value) -> Checked {
    for (index, block) in blocks(&body["system"]).iter().enumerate() {
        if block["type"] != "text" || !block["text"].is_string() {
            return Err(invalid(format!("system.{index}.text: Field required")));
        }
        if field(block, "text").is_empty() {
            return Err(invalid("system: text content blocks must be non-empty"));
        }
        no_more_than(
            &format!("system.{index}"),
            block,
            &["type", "text", "cache_control", "citations"],
        )?;
    }
    Ok(())
}

fn tools(body: &Value) -> Checked {
    let mut names = HashSet::new();
    for (index, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        if !matches!(field(tool, "type"), "" | "custom") {
            continue;
        }
        let at = format!("tools.{index}.custom");
        let name = field(tool, "name");
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        let length = name.chars().count();
        if !(1..=128).contains(&length) || !name.chars().all(allowed) {
            let pattern = "^[a-zA-Z0-9_-]{1,128}$";
            return Err(invalid(format!("{at}.name: String should match pattern '{pattern}'")));
        }
        if !names.insert(name) {
            return Err(invalid("tools: Tool names must be unique."));
        }
        schema(&at, &tool["input_schema"])?;
        no_more_than(
            &at,
            tool,
            &[
                "type",
                "name",
                "description",
                "input_schema",
                "cache_control",
                "strict",
                "defer_loading",
                "allowed_callers",
                "eager_input_streaming",
                "input_examples",
            ],
        )?;
    }
    Ok(())
}

fn schema(at: &str, schema: &Value) -> Checked {
    if !schema.is_object() {
        return Err(invalid(format!("{at}.input_schema: Field required")));
    }
    if schema["type"].is_null() {
        return Err(invalid(format!("{at}.input_schema.type: Field required")));
    }
    if schema["type"] != "object" {
        return Err(invalid(format!("{at}.input_schema.type: Input should be 'object'")));
    }
    match ["oneOf", "allOf", "anyOf"].iter().any(|name| !schema[*name].is_null()) {
        true => Err(invalid(format!(
            "{at}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        ))),
        false => Ok(()),
    }
}

/// At most four markers, the one at the top included.
fn cache(body: &Value) -> Checked {
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let messages = messages(body).iter().flat_map(|message| blocks(&message["content"]));
    let marked = blocks(&body["system"]).into_iter().chain(tools).chain(messages);
    let marked = marked.filter(|block| block["cache_control"].is_object()).count();
    let marked = marked + usize::from(body["cache_control"].is_object());
    match marked > 4 {
        true => Err(invalid(format!(
            "A maximum of 4 blocks with cache_control may be provided. Found {marked}."
        ))),
        false => Ok(()),
    }
}
