//! The servers' errors.

use serde_json::{Value, json};

use super::Server;
use crate::vendor::Response;

/// What an error says.
struct Said {
    status: u16,
    /// OpenAI's type and code.
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
}

/// A request that the server does not accept.
pub fn refusal(server: Server, status: u16, message: &str) -> Response {
    let kind = "invalid_request_error";
    let said = Said { status, kind, code: None, message: message.to_owned() };
    Response::new(status, body(server, &said))
}

pub fn named(server: Server, name: &str, retry_after_ms: Option<u64>) -> Response {
    let said = said(server, name);
    let mut response = Response::new(said.status, body(server, &said));
    if let Some(millis) = retry_after_ms {
        if server == Server::OpenAi {
            response.headers.push(("retry-after-ms", millis.to_string()));
        }
        response.headers.push(("retry-after", millis.div_ceil(1000).to_string()));
    }
    response
}

pub fn event(server: Server, name: &str) -> String {
    let mut chunk = body(server, &said(server, name));
    if server == Server::OpenRouter {
        let choice = json!({ "index": 0, "delta": { "content": "" }, "finish_reason": "error" });
        chunk["id"] = "gen-1".into();
        chunk["object"] = "chat.completion.chunk".into();
        chunk["choices"] = json!([choice]);
    }
    let end = if server == Server::Vllm { "data: [DONE]\n\n" } else { "" };
    format!("data: {chunk}\n\n{end}")
}

fn body(server: Server, said: &Said) -> Value {
    let Said { status, kind, code, message } = said;
    match server {
        Server::OpenAi | Server::DeepSeek => json!({
            "error": { "message": message, "type": kind, "param": null, "code": code },
        }),
        // The failure of the provider behind it is in the metadata.
        Server::OpenRouter if matches!(code, Some("upstream")) => json!({
            "error": {
                "message": "Provider returned error",
                "code": status,
                "metadata": { "raw": message, "provider_name": "Anthropic" },
            },
            "user_id": "user_1",
        }),
        Server::OpenRouter => {
            json!({ "error": { "message": message, "code": status }, "user_id": "user_1" })
        }
        Server::LlamaCpp if *kind == "exceed_context_size_error" => json!({
            "error": {
                "code": status, "message": message, "type": kind,
                "n_prompt_tokens": 40_000, "n_ctx": 32_768,
            },
        }),
        Server::LlamaCpp => {
            json!({ "error": { "code": status, "message": message, "type": kind } })
        }
        Server::Vllm if *status == 401 => json!({ "error": "Unauthorized" }),
        Server::Vllm => {
            let kind = match status {
                404 => "NotFoundError",
                500.. => "InternalServerError",
                _ => "BadRequestError",
            };
            json!({ "error": { "message": message, "type": kind, "param": null, "code": status } })
        }
    }
}

pub const SIGNATURE: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."}}"#;
pub const REASONING: &str =
    "The `reasoning_content` in the thinking mode must be passed back to the API.";

/// A refusal of the provider behind OpenRouter.
pub fn upstream(message: &str) -> Response {
    let said = Said { status: 400, kind: "", code: Some("upstream"), message: message.to_owned() };
    Response::new(400, body(Server::OpenRouter, &said))
}

fn said(server: Server, name: &str) -> Said {
    use Server::{DeepSeek, LlamaCpp, OpenAi, OpenRouter, Vllm};
    let bad = "invalid_request_error";
    let (status, kind, code, message) = match (name, server) {
        ("bad_key", OpenAi) => (
            401,
            bad,
            Some("invalid_api_key"),
            "Incorrect API key provided: sk-test-*****4711. You can find your API key at https://platform.openai.com/account/api-keys.",
        ),
        ("bad_key", DeepSeek) => (
            401,
            "authentication_error",
            Some(bad),
            "Authentication Fails, Your api key: ****4711 is invalid",
        ),
        ("bad_key", OpenRouter) => (401, bad, None, "No auth credentials found"),
        ("bad_key", LlamaCpp | Vllm) => (401, "authentication_error", None, "Invalid API Key"),
        ("unknown_model", OpenAi) => (
            404,
            bad,
            Some("model_not_found"),
            "The model `nope` does not exist or you do not have access to it.",
        ),
        ("unknown_model", DeepSeek) => (400, bad, Some(bad), "Model Not Exist"),
        ("unknown_model", OpenRouter) => (400, bad, None, "nope is not a valid model ID"),
        ("unknown_model", LlamaCpp) => (404, "not_found_error", None, "model 'nope' not found"),
        ("unknown_model", Vllm) => (404, bad, None, "The model `nope` does not exist."),
        ("rate_limit", OpenAi) => (
            429,
            "requests",
            Some("rate_limit_exceeded"),
            "Rate limit reached for gpt-6.1-sol in organization org-1 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 1.2s.",
        ),
        ("rate_limit", OpenRouter) => (
            429,
            bad,
            Some("upstream"),
            "anthropic/claude-opus-5-5 is temporarily rate-limited upstream. Please retry shortly.",
        ),
        ("rate_limit", _) => (429, "rate_limit_error", None, "Rate limit reached"),
        ("quota", OpenAi) => (
            429,
            "insufficient_quota",
            Some("insufficient_quota"),
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        ("quota", DeepSeek) => (402, "unknown_error", Some(bad), "Insufficient Balance"),
        ("quota", _) => (
            402,
            bad,
            None,
            "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 12.",
        ),
        ("overloaded", LlamaCpp) => (503, "unavailable_error", None, "Loading model"),
        ("overloaded", _) => (
            503,
            "service_unavailable_error",
            None,
            "The engine is currently overloaded, please try again later",
        ),
        ("too_long", OpenAi) => (
            400,
            bad,
            Some("context_length_exceeded"),
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens. Please reduce the length of the messages.",
        ),
        ("too_long", LlamaCpp) => (
            400,
            "exceed_context_size_error",
            None,
            "the request exceeds the available context size, try increasing it",
        ),
        ("too_long_500", LlamaCpp) => {
            (500, "server_error", None, "Context size has been exceeded.")
        }
        ("too_long", OpenRouter) => (
            400,
            bad,
            None,
            "This endpoint's maximum context length is 1000000 tokens. However, you requested about 1200000 tokens.",
        ),
        ("too_long", DeepSeek | Vllm) => (
            400,
            bad,
            Some(bad),
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (130000 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
        ),
        ("history", OpenRouter) => (400, bad, Some("upstream"), SIGNATURE),
        ("history", _) => (400, bad, Some(bad), REASONING),
        ("filter", OpenAi) => (
            400,
            bad,
            Some("content_filter"),
            "The response was filtered due to the prompt triggering the content management policy.",
        ),
        _ => (
            500,
            "server_error",
            None,
            "The server had an error while processing your request. Sorry about that!",
        ),
    };
    Said { status, kind, code, message: message.to_owned() }
}
