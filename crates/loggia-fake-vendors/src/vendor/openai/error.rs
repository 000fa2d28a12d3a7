//! The vendor's errors and their texts.

use serde_json::{Value, json};

use super::super::Response;

const DELAY_MS: u64 = 1200;

/// An error about the request.
pub fn refusal(status: u16, message: &str, param: Option<&str>, code: Option<&str>) -> Response {
    error(status, "invalid_request_error", message, param, code)
}

pub fn invalid(message: &str, param: &str, code: &str) -> Response {
    refusal(400, message, Some(param), Some(code))
}

/// An error about the items of the conversation, which has no code.
pub fn history(message: &str) -> Response {
    refusal(400, message, Some("input"), None)
}

pub fn unverified(encrypted: &str) -> Response {
    let start: String = encrypted.chars().take(4).collect();
    let message = format!(
        "The encrypted content {start}... could not be verified. Reason: Encrypted content could not be \
         decrypted or parsed."
    );
    refusal(400, &message, None, Some("invalid_encrypted_content"))
}

fn error(
    status: u16,
    kind: &str,
    message: &str,
    param: Option<&str>,
    code: Option<&str>,
) -> Response {
    let error = json!({"message": message, "type": kind, "param": param, "code": code});
    let mut response = Response::new(status, json!({"error": error}));
    response.headers.push(("x-request-id", "req_fake".to_owned()));
    response
}

/// The error with this name of the script.
pub fn named(name: &str, retry_after_ms: Option<u64>) -> Response {
    let (status, kind, message, code) = words(name);
    let param = (name == "too_long").then_some("input");
    let mut response = error(status, kind, message, param, code);
    if name == "rate_limit" {
        let wait = retry_after_ms.unwrap_or(DELAY_MS);
        response.headers.extend([
            ("retry-after-ms", wait.to_string()),
            ("retry-after", wait.div_ceil(1000).to_string()),
            ("x-ratelimit-limit-tokens", "30000".to_owned()),
            ("x-ratelimit-remaining-tokens", "0".to_owned()),
            ("x-ratelimit-reset-tokens", format!("{wait}ms")),
        ]);
    }
    if name == "quota" {
        response.headers.push(("x-should-retry", "true".to_owned()));
    }
    response
}

/// `server` is an event of its own; the others end the response.
pub fn event(name: &str) -> String {
    let (_, _, message, code) = words(name);
    let code = code.unwrap_or("server_error");
    let data = match name {
        "server" => json!({
            "type": "error", "sequence_number": 3, "code": code, "message": message, "param": null,
        }),
        _ => json!({
            "type": "response.failed", "sequence_number": 3,
            "response": {
                "id": "resp_failed", "object": "response", "created_at": 1_763_000_000,
                "status": "failed", "error": {"code": code, "message": message},
                "incomplete_details": null, "model": "failed", "output": [], "usage": null,
                "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
            },
        }),
    };
    let kind = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {kind}\ndata: {data}\n\n")
}

/// Status, type, message and code.
fn words(name: &str) -> (u16, &'static str, &'static str, Option<&'static str>) {
    match name {
        "rate_limit" => (
            429,
            "tokens",
            "Rate limit reached for fake-model in organization org-fake on tokens per min (TPM): Limit \
             30000, Used 29000, Requested 2000. Please try again in 1.2s. Visit \
             https://platform.openai.com/account/rate-limits to learn more.",
            Some("rate_limit_exceeded"),
        ),
        "quota" => (
            429,
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details. For more \
             information on this error, read the docs: \
             https://platform.openai.com/docs/guides/error-codes/api-errors.",
            Some("insufficient_quota"),
        ),
        "overloaded" => (
            503,
            "service_unavailable_error",
            "Our servers are currently overloaded. Please try again later.",
            Some("server_is_overloaded"),
        ),
        "bad_key" => (
            401,
            "invalid_request_error",
            "Incorrect API key provided: sk-fake-**********cdef. You can find your API key at \
             https://platform.openai.com/account/api-keys.",
            Some("invalid_api_key"),
        ),
        "unknown_model" => (
            404,
            "invalid_request_error",
            "The model `fake-model` does not exist or you do not have access to it.",
            Some("model_not_found"),
        ),
        "too_long" => (
            400,
            "invalid_request_error",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            Some("context_length_exceeded"),
        ),
        "history" => (
            400,
            "invalid_request_error",
            "The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be \
             decrypted or parsed.",
            Some("invalid_encrypted_content"),
        ),
        "policy" => (
            400,
            "invalid_request_error",
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
            Some("invalid_prompt"),
        ),
        _ => (
            500,
            "server_error",
            "The server had an error while processing your request. Sorry about that!",
            Some("server_error"),
        ),
    }
}
