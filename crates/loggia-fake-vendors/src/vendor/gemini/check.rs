//! The check of a request for a reply.

use serde_json::Value;

use super::errors::Refusal;
use super::{array, field, major, role, schema, signature, snake};

const BODY: [&str; 11] = [
    "model",
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "continuationToken",
    "store",
    "serviceTier",
];
const CONFIG: [&str; 18] = [
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "candidateCount",
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseLogprobs",
    "logprobs",
    "speechConfig",
    "thinkingConfig",
    "mediaResolution",
];
/// The contents of a part, which has exactly one of them.
const DATA: [&str; 9] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];
const OF_A_PART: [&str; 5] =
    ["thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"];
const DECLARATION: [&str; 7] = [
    "name",
    "description",
    "parameters",
    "parametersJsonSchema",
    "response",
    "responseJsonSchema",
    "behavior",
];

pub fn body(model: &str, body: &Value) -> Result<(), Refusal> {
    known(body, &[&BODY], "")?;
    tools(body)?;
    if let Some(config) = field(body, "generationConfig") {
        generation_config(model, config)?;
    }
    let contents: Vec<&Value> = array(body, "contents").collect();
    if contents.is_empty() {
        return Err(Refusal::invalid(
            "* GenerateContentRequest.contents: contents is not specified",
        ));
    }
    for (place, content) in contents.iter().enumerate() {
        parts(content, &format!("contents[{place}]"))?;
    }
    turns(&contents)?;
    if major(model) >= 3 {
        calls_are_signed(&contents)?;
    }
    match signature::all_fit(model, body) {
        true => Ok(()),
        false => Err(Refusal::invalid("Corrupted thought signature.")),
    }
}

/// Refuses fields that are not in one of the lists.
fn known(object: &Value, lists: &[&[&str]], place: &str) -> Result<(), Refusal> {
    let Some(fields) = object.as_object() else {
        return Err(Refusal::invalid(format!("Invalid value at '{place}'")));
    };
    let is_known = |name: &str| {
        let mut fields = lists.iter().copied().flatten();
        fields.any(|field| *field == name || snake(field) == name)
    };
    match fields.keys().find(|name| !is_known(name)) {
        Some(name) => Err(Refusal::unknown_field(name, place)),
        None => Ok(()),
    }
}

fn tools(body: &Value) -> Result<(), Refusal> {
    let mut names = Vec::new();
    for (place, tool) in array(body, "tools").enumerate() {
        let Some(functions) = field(tool, "functionDeclarations") else { continue };
        let place = format!("tools[{place}].function_declarations");
        if functions.as_array().is_none_or(Vec::is_empty) {
            return Err(Refusal::invalid(format!(
                "* GenerateContentRequest.{place}: must not be empty."
            )));
        }
        for (index, function) in functions.as_array().into_iter().flatten().enumerate() {
            let place = format!("{place}[{index}]");
            known(function, &[&DECLARATION], &place)?;
            let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
            if !is_name(name) {
                return Err(Refusal::invalid(format!(
                    "* GenerateContentRequest.{place}.name: Invalid function name. Must start with \
                     a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores \
                     (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
                )));
            }
            if names.contains(&name) {
                return Err(Refusal::invalid(format!(
                    "Duplicate function declaration found: {name}"
                )));
            }
            names.push(name);
            if let Some(parameters) = field(function, "parametersJsonSchema") {
                schema::json_schema(parameters, &format!("{place}.parameters_json_schema"))?;
            }
            if let Some(parameters) = field(function, "parameters") {
                schema::openapi(parameters, &format!("{place}.parameters"))?;
            }
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let rest = |symbol: char| symbol.is_ascii_alphanumeric() || "_.:-".contains(symbol);
    begins && name.len() <= 64 && name.chars().all(rest)
}

fn generation_config(model: &str, config: &Value) -> Result<(), Refusal> {
    known(config, &[&CONFIG], "generation_config")?;
    let limit = if major(model) >= 4 { 1_048_576 } else { 65_536 };
    if let Some(output) = field(config, "maxOutputTokens").and_then(Value::as_u64)
        && !(1..=limit).contains(&output)
    {
        return Err(Refusal::invalid(format!(
            "Unable to submit request because it has a maxOutputTokens value of {output} but the \
             supported range is from 1 (inclusive) to {} (exclusive). Update the value and try \
             again.",
            limit + 1,
        )));
    }
    match field(config, "thinkingConfig") {
        Some(thinking) => thinking_config(model, thinking),
        None => Ok(()),
    }
}

fn thinking_config(model: &str, thinking: &Value) -> Result<(), Refusal> {
    const FIELDS: [&str; 3] = ["includeThoughts", "thinkingBudget", "thinkingLevel"];
    known(thinking, &[&FIELDS], "generation_config.thinking_config")?;
    let level = field(thinking, "thinkingLevel").and_then(Value::as_str);
    let budget = field(thinking, "thinkingBudget").and_then(Value::as_i64);
    let is_old = model.starts_with("gemini-2.5");
    if !is_old && major(model) < 3 {
        return Err(Refusal::invalid(format!("Thinking is not enabled for models/{model}")));
    }
    if level.is_some() && budget.is_some() {
        return Err(Refusal::invalid(
            "You can only set only one of thinking budget and thinking level.",
        ));
    }
    if let Some(level) = level {
        let accepted: &[&str] = match model {
            _ if is_old => &[],
            _ if model.starts_with("gemini-3-pro") => &["LOW", "HIGH"],
            _ if model.starts_with("gemini-3-flash") => &["MINIMAL", "LOW", "MEDIUM", "HIGH"],
            _ => &["LOW", "MEDIUM", "HIGH"],
        };
        if !accepted.contains(&level) {
            return Err(Refusal::invalid(format!(
                "Thinking level {level} is not supported for this model. Please retry with other \
                 thinking level."
            )));
        }
    }
    match budget {
        Some(0) if model.starts_with("gemini-2.5-pro") => {
            Err(Refusal::invalid("Budget 0 is invalid. This model only works in thinking mode."))
        }
        Some(0) if field(thinking, "includeThoughts") == Some(&true.into()) => {
            Err(Refusal::invalid("Thoughts are only enabled when thinking is enabled."))
        }
        None | Some(-1 | 0) => Ok(()),
        Some(budget) => budget_fits(model, budget),
    }
}

fn budget_fits(model: &str, budget: i64) -> Result<(), Refusal> {
    let (low, high) = match model {
        _ if model.contains("pro") => (128, 32_768),
        _ if model.contains("flash-lite") => (512, 24_576),
        _ => (0, 24_576),
    };
    match (low..=high).contains(&budget) {
        true => Ok(()),
        false => Err(Refusal::invalid(format!(
            "The thinking budget {budget} is invalid. Please choose a value between {low} and \
             {high}."
        ))),
    }
}

fn parts(content: &Value, place: &str) -> Result<(), Refusal> {
    if !["user", "model", "function"].contains(&role(content)) {
        return Err(Refusal::invalid("Please use a valid role: user, model."));
    }
    known(content, &[&["role", "parts"]], place)?;
    if array(content, "parts").next().is_none() {
        return Err(Refusal::invalid(format!(
            "* GenerateContentRequest.{place}.parts: contents.parts must not be empty."
        )));
    }
    for (index, part) in array(content, "parts").enumerate() {
        let place = format!("{place}.parts[{index}]");
        known(part, &[&DATA, &OF_A_PART], &place)?;
        if DATA.iter().filter(|name| field(part, name).is_some()).count() != 1 {
            return Err(Refusal::invalid(format!(
                "* GenerateContentRequest.{place}.data: required oneof field 'data' must have one \
                 initialized field"
            )));
        }
        if let Some(call) = field(part, "functionCall") {
            known(call, &[&["id", "name", "args"]], &format!("{place}.function_call"))?;
            is_object(call.get("args"), &format!("{place}.function_call.args"))?;
        }
        if let Some(result) = field(part, "functionResponse") {
            let place = format!("{place}.function_response");
            let fields = ["id", "name", "response", "parts", "willContinue", "scheduling"];
            known(result, &[&fields], &place)?;
            is_object(result.get("response"), &format!("{place}.response"))?;
        }
    }
    Ok(())
}

fn is_object(value: Option<&Value>, place: &str) -> Result<(), Refusal> {
    match value {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => Err(Refusal::invalid(format!(
            "Invalid value at '{place}' (type.googleapis.com/google.protobuf.Struct)"
        ))),
    }
}

/// Every call is answered once, directly behind, by its id.
fn turns(contents: &[&Value]) -> Result<(), Refusal> {
    let mut open: Vec<&Value> = Vec::new();
    for (place, content) in contents.iter().enumerate() {
        let results = all(content, "functionResponse");
        let calls = all(content, "functionCall");
        if results.is_empty() && !open.is_empty() {
            return Err(Refusal::invalid(
                "Please ensure that function response turn comes immediately after a function call \
                 turn.",
            ));
        }
        answered(&open, &results)?;
        let before = place.checked_sub(1).and_then(|before| contents.get(before));
        if !calls.is_empty() && before.is_none_or(|before| role(before) == "model") {
            return Err(Refusal::invalid(
                "Please ensure that function call turn comes immediately after a user turn or after \
                 a function response turn.",
            ));
        }
        open = calls;
    }
    let ends_with_model = contents.last().is_some_and(|last| role(last) == "model");
    match ends_with_model {
        true => Err(Refusal::invalid(
            "Please ensure that multiturn requests end with a user role or a function response.",
        )),
        false => Ok(()),
    }
}

fn all<'a>(content: &'a Value, name: &str) -> Vec<&'a Value> {
    array(content, "parts").filter_map(|part| field(part, name)).collect()
}

fn answered(calls: &[&Value], results: &[&Value]) -> Result<(), Refusal> {
    if calls.len() != results.len() {
        return Err(Refusal::invalid(
            "Please ensure that the number of function response parts is equal to the number of \
             function call parts of the function call turn.",
        ));
    }
    let mut ids: Vec<&Value> = Vec::new();
    for call in calls {
        // The SDK's automatic calls send no ids.
        let fits = |result: &&&Value| {
            let (id, other) = (call.get("id"), result.get("id"));
            result.get("name") == call.get("name")
                && (id.is_none() || other.is_none() || id == other)
        };
        let Some(result) = results.iter().find(fits) else {
            return Err(Refusal::invalid(format!(
                "The function call {} has no function response with its name and id.",
                call.get("name").unwrap_or(&Value::Null),
            )));
        };
        ids.extend(result.get("id").filter(|_| call.get("id").is_some()));
    }
    let given = ids.len();
    ids.sort_by_key(|id| id.to_string());
    ids.dedup();
    match ids.len() == given {
        true => Ok(()),
        false => Err(Refusal::invalid("Two function calls have the same id.")),
    }
}

/// The first call of each step of the running turn needs a signature.
fn calls_are_signed(contents: &[&Value]) -> Result<(), Refusal> {
    let is_prompt = |content: &&Value| {
        role(content) == "user"
            && !all(content, "text").is_empty()
            && all(content, "functionResponse").is_empty()
    };
    let begin = contents.iter().rposition(is_prompt).unwrap_or(0);
    for (place, content) in contents.iter().enumerate().skip(begin) {
        let first = array(content, "parts").find(|part| field(part, "functionCall").is_some());
        let Some(part) = first else { continue };
        if field(part, "thoughtSignature").is_none() {
            let name = field(part, "functionCall").and_then(|call| call.get("name"));
            let name = name.and_then(Value::as_str).unwrap_or_default();
            return Err(Refusal::invalid(format!(
                "Function call is missing a thought_signature in functionCall parts. This is \
                 required for tools to work correctly, and missing thought_signature may lead to \
                 degraded model performance. Additional data, function call `default_api:{name}`, \
                 position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures \
                 for more details.",
                place + 1,
            )));
        }
    }
    Ok(())
}
