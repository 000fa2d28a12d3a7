//! The vendor's errors.

use serde_json::{Value, json};

use crate::vendor::{Response, sign};

pub fn response(status: u16, kind: &str, message: &str) -> Response {
    detailed(status, kind, message, None)
}

pub fn invalid(message: impl AsRef<str>) -> Response {
    response(400, "invalid_request_error", message.as_ref())
}

fn detailed(status: u16, kind: &str, message: &str, code: Option<&str>) -> Response {
    let id: String = sign(&[&Value::from(message)]).chars().take(20).collect();
    let id = format!("req_011{id}");
    let mut error = json!({ "type": kind, "message": message });
    if let Some(code) = code {
        error["details"] = json!({ "error_code": code });
    }
    let body = json!({ "type": "error", "error": error, "request_id": id });
    Response { status, headers: vec![("request-id", id)], body }
}

/// The errors that a script asks for.
pub fn named(name: &str) -> Response {
    match name {
        "rate_limit" => response(
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 50 requests per minute.",
        ),
        "quota" => detailed(
            429,
            "rate_limit_error",
            "Your organization has reached the monthly spend limit of its tier.",
            Some("enforced_spend_limit_reached"),
        ),
        "own_limit" => invalid(
            "You have reached your specified API usage limits. You will regain access on \
             2026-12-01 at 00:00 UTC.",
        ),
        "credit" => invalid(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & \
             Billing to upgrade or purchase credits.",
        ),
        "billing" => response(402, "billing_error", "There is an issue with your billing."),
        "overloaded" => response(529, "overloaded_error", "Overloaded"),
        "timeout" => response(504, "timeout_error", "The request timed out."),
        "bad_key" => response(401, "authentication_error", "invalid x-api-key"),
        "permission" => {
            response(403, "permission_error", "Your API key may not use this resource.")
        }
        "unknown_model" => response(404, "not_found_error", "model: claude-unknown"),
        "too_long" => too_long(1_204_112, 1_000_000),
        "too_large" => response(413, "request_too_large", "Request exceeds the maximum size"),
        "history" => moved("messages.1.content.0", "system"),
        _ => response(500, "api_error", "Internal server error"),
    }
}

pub fn too_long(tokens: u64, limit: u64) -> Response {
    invalid(format!("prompt is too long: {tokens} tokens > {limit} maximum"))
}

/// A thinking block behind a changed beginning.
pub fn moved(at: &str, changed: &str) -> Response {
    let changed = match changed {
        "system" => "The `system` prompt differs from the one this block was created with.",
        "tools" => "The `tools` differ from those this block was created with.",
        "model" => "The `model` differs from the one this block was created with.",
        _ => "The `messages` before it differ from those this block was created with.",
    };
    invalid(format!(
        "{at}: Invalid `signature` in `thinking` block. The block is bound to a different \
         conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \
         \"drop_block\". That setting requires the `thinking-binding-controls-2026-08-01` value in \
         the `anthropic-beta` header. {changed}"
    ))
}
