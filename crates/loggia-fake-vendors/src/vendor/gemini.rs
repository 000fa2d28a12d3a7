//! The generateContent API, under `/v1` and `/v1beta`, with the rules of Gemini 3 for signatures.
//!
//! Not here: file uploads, cached contents, embeddings, Vertex AI.

mod check;
mod errors;
mod reply;
mod schema;
mod signature;

use serde_json::{Value, json};

use super::{HttpCall, Response, Route, Vendor, tokens};
use crate::script::{Answer, Asked, Spoken};
use errors::Refusal;

pub struct Gemini;

/// Models of the list, and whether they reason.
const MODELS: [(&str, bool); 6] = [
    ("gemini-4-argon", true),
    ("gemini-3.8-flash", true),
    ("gemini-3.1-pro-preview", true),
    ("gemini-2.5-pro", true),
    ("gemini-2.5-flash", true),
    ("gemini-2.0-flash", false),
];

impl Vendor for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn route(&self, call: &HttpCall) -> Route {
        route(call).unwrap_or_else(|refusal| Route::Now(refusal.response()))
    }

    fn events(&self, asked: &Asked, answer: &Answer) -> Vec<String> {
        let chunks = reply::chunks(asked, answer).into_iter();
        chunks.map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
    }

    fn whole(&self, asked: &Asked, answer: &Answer) -> Value {
        reply::whole(asked, answer)
    }

    fn error(&self, name: &str, retry_after_ms: Option<u64>) -> Response {
        errors::by_name(name, retry_after_ms).response()
    }

    fn error_event(&self, name: &str) -> String {
        format!("data: {}\r\n\r\n", errors::by_name(name, None).body())
    }
}

fn route(call: &HttpCall) -> Result<Route, Refusal> {
    let (version, path) = match call.path.trim_start_matches('/').split_once('/') {
        Some((version @ ("v1" | "v1beta" | "v1alpha"), path)) => (version, path),
        _ => return Err(Refusal::no_such_page()),
    };
    let in_query = call.query.split('&').any(|pair| pair.starts_with("key="));
    if call.header("x-goog-api-key").is_none_or(str::is_empty) && !in_query {
        return Err(Refusal::no_key());
    }
    if call.method == "GET" {
        return listed(version, path).map(|body| Route::Now(Response::new(200, body)));
    }
    let (resource, method) = path.split_once(':').ok_or_else(Refusal::no_such_page)?;
    let model = resource.strip_prefix("models/").ok_or_else(Refusal::no_such_page)?;
    if !["gemini-", "gemma-"].iter().any(|family| model.starts_with(family)) {
        return Err(Refusal::unknown_model(model, version, method));
    }
    if !call.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(Refusal::invalid("Invalid content type: send application/json."));
    }
    match method {
        "countTokens" => {
            let counted = tokens(&call.body.to_string());
            Ok(Route::Now(Response::new(200, json!({ "totalTokens": counted }))))
        }
        "streamGenerateContent" if !call.query.split('&').any(|pair| pair == "alt=sse") => {
            Err(Refusal::invalid("The fake streams with alt=sse only."))
        }
        "generateContent" | "streamGenerateContent" => {
            check::body(model, &call.body)?;
            Ok(Route::Reply(asked(model, method == "streamGenerateContent", &call.body)))
        }
        _ => Err(Refusal::no_such_page()),
    }
}

fn listed(version: &str, path: &str) -> Result<Value, Refusal> {
    let model = |(name, thinking): &(&str, bool)| {
        json!({
            "name": format!("models/{name}"),
            "version": "001",
            "displayName": name,
            "description": "A fake.",
            "inputTokenLimit": 1_048_576,
            "outputTokenLimit": if *thinking { 65_536 } else { 8192 },
            "supportedGenerationMethods": ["generateContent", "countTokens"],
            "temperature": 1,
            "topP": 0.95,
            "topK": 64,
            "maxTemperature": 2,
            "thinking": thinking,
        })
    };
    if path == "models" {
        let mut models: Vec<Value> = MODELS.iter().map(model).collect();
        models.push(json!({
            "name": "models/gemini-embedding-001",
            "version": "001",
            "inputTokenLimit": 2048,
            "outputTokenLimit": 1,
            "supportedGenerationMethods": ["embedContent"],
        }));
        return Ok(json!({ "models": models }));
    }
    let name = path.strip_prefix("models/").unwrap_or(path);
    let found = MODELS.iter().find(|(known, _)| *known == name).map(model);
    found.ok_or_else(|| Refusal::unknown_model(name, version, "generateContent"))
}

fn asked(model: &str, stream: bool, body: &Value) -> Asked {
    let system = field(body, "systemInstruction").map(texts).unwrap_or_default();
    let declared = array(body, "tools").flat_map(|tool| array(tool, "functionDeclarations"));
    let tools = declared.filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned));
    Asked {
        vendor: "gemini".to_owned(),
        model: model.to_owned(),
        system,
        conversation: array(body, "contents").flat_map(spoken).collect(),
        tools: tools.collect(),
        stream,
        earlier_requests: 0,
        body: body.clone(),
    }
}

fn spoken(content: &Value) -> Vec<Spoken> {
    if role(content) == "model" {
        let calls = array(content, "parts").filter(|part| part.get("functionCall").is_some());
        return vec![Spoken::Model { text: texts(content), calls: calls.count() }];
    }
    let responses = array(content, "parts").filter_map(|part| field(part, "functionResponse"));
    let mut spoken: Vec<Spoken> = responses.map(result).collect();
    let text = texts(content);
    if !text.is_empty() || spoken.is_empty() {
        spoken.push(Spoken::User(text));
    }
    spoken
}

fn result(response: &Value) -> Spoken {
    let told = field(response, "response").cloned().unwrap_or_default();
    let text = told.get("output").or_else(|| told.get("error")).and_then(Value::as_str);
    let id = response.get("id").or_else(|| response.get("name")).and_then(Value::as_str);
    Spoken::Result {
        call: id.unwrap_or_default().to_owned(),
        text: text.map_or_else(|| told.to_string(), str::to_owned),
    }
}

/// The texts of a content without thoughts.
fn texts(content: &Value) -> String {
    let parts = array(content, "parts").filter(|part| part.get("thought") != Some(&true.into()));
    let texts: Vec<&str> = parts.filter_map(|part| part.get("text")?.as_str()).collect();
    texts.join("\n")
}

/// A field by its name in JSON. The vendor also takes the name of its schema: `system_instruction`.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| object.get(snake(name)))
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for symbol in name.chars() {
        if symbol.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(symbol.to_ascii_lowercase());
    }
    snake
}

fn array<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    field(object, name).and_then(Value::as_array).into_iter().flatten()
}

fn role(content: &Value) -> &str {
    content.get("role").and_then(Value::as_str).unwrap_or("user")
}

/// The major version in the name of a model: 3 for `gemini-3.8-flash`.
fn major(model: &str) -> u32 {
    let version = model.strip_prefix("gemini-").unwrap_or_default();
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}
