//! Anthropic's errors as kinds. The code in `details` decides before the type, and the type before the
//! text: the vendor says that texts may change.

use serde::Deserialize;

use crate::error::{ModelError, ModelErrorKind};
use crate::protocol::HttpFailure;

/// Characters of the vendor's own message that are shown.
const SHOWN: usize = 400;

#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(default)]
    error: Reported,
}

#[derive(Debug, Default, Deserialize)]
pub struct Reported {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    error_code: Option<String>,
}

pub fn of_response(failure: &HttpFailure) -> ModelError {
    let body: Body = serde_json::from_str(&failure.body).unwrap_or_default();
    let mut reported = body.error;
    if reported.message.is_empty() {
        reported.message = match failure.body.trim() {
            "" => format!("status {}", failure.status),
            text => text.to_owned(),
        };
    }
    build(kind(&reported).unwrap_or_else(|| of_status(failure.status)), &reported.message)
}

/// An error in the stream of a reply, which came after the status 200.
pub fn of_event(reported: &Reported) -> ModelError {
    build(kind(reported).unwrap_or(ModelErrorKind::Overloaded), &reported.message)
}

fn kind(reported: &Reported) -> Option<ModelErrorKind> {
    let code = reported.details.as_ref().and_then(|details| details.error_code.as_deref());
    Some(match (code.unwrap_or_default(), reported.kind.as_str()) {
        ("enforced_spend_limit_reached", _) | (_, "billing_error") => ModelErrorKind::QuotaSpent,
        ("ramp_limit_exceeded", _) | (_, "rate_limit_error") => ModelErrorKind::RateLimited,
        ("request_body_too_large_after_decoding", _) | (_, "request_too_large") => {
            ModelErrorKind::ContextTooLong
        }
        (_, "authentication_error" | "permission_error") => ModelErrorKind::Authentication,
        (_, "not_found_error") if reported.message.contains("model") => {
            ModelErrorKind::UnknownModel
        }
        (_, "overloaded_error" | "api_error" | "timeout_error") => ModelErrorKind::Overloaded,
        (_, "invalid_request_error") => of_text(&reported.message),
        _ => return None,
    })
}

/// An `invalid_request_error` has no code for these, so only its text is left.
fn of_text(message: &str) -> ModelErrorKind {
    let has = |part: &str| message.contains(part);
    if has("prompt is too long") || has("exceed context limit") {
        return ModelErrorKind::ContextTooLong;
    }
    if has("credit balance") || has("API usage limits") {
        return ModelErrorKind::QuotaSpent;
    }
    let thinking = has("thinking` block") || has("redacted_thinking`");
    if thinking
        && (has("signature") || has("`data`") || has("cannot be modified") || has("Expected"))
    {
        return ModelErrorKind::HistoryRejected;
    }
    ModelErrorKind::BadRequest
}

fn of_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Authentication,
        402 => ModelErrorKind::QuotaSpent,
        413 => ModelErrorKind::ContextTooLong,
        429 => ModelErrorKind::RateLimited,
        408 | 500.. => ModelErrorKind::Overloaded,
        _ => ModelErrorKind::BadRequest,
    }
}

fn build(kind: ModelErrorKind, message: &str) -> ModelError {
    let said = shown(message);
    let sentence = match kind {
        ModelErrorKind::Authentication => {
            format!("the key was refused ({said}); check the key and its permissions")
        }
        ModelErrorKind::UnknownModel => {
            format!("the model is not offered ({said}); choose another one with /model")
        }
        ModelErrorKind::RateLimited => {
            format!("the rate limit is reached ({said}); wait, or use another model")
        }
        ModelErrorKind::QuotaSpent => {
            format!("the quota or the credit is spent ({said}); raise it, or use another model")
        }
        ModelErrorKind::Overloaded => {
            format!("the vendor is overloaded or failed ({said}); try again later")
        }
        ModelErrorKind::ContextTooLong => {
            format!("the conversation is too long for the model ({said}); compact it")
        }
        ModelErrorKind::HistoryRejected => {
            format!(
                "the vendor refused the thoughts of earlier replies ({said}); continue without them"
            )
        }
        ModelErrorKind::Transport
        | ModelErrorKind::Malformed
        | ModelErrorKind::Refused
        | ModelErrorKind::BadRequest => {
            format!("the vendor refused the request ({said}); change it, or use another model")
        }
    };
    let mut error = ModelError::new(kind, sentence);
    if kind == ModelErrorKind::QuotaSpent {
        // A gateway in front of the vendor may ask for a retry of every 429.
        error.should_retry = Some(false);
    }
    error
}

/// The beginning of a vendor's message, on one line.
fn shown(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", line.split_at(end).0),
        None => line.trim_end_matches('.').to_owned(),
    }
}
