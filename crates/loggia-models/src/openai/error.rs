//! The vendor's errors, before and inside a stream, as kinds. Codes decide before texts, and texts before the
//! status.

use std::time::Duration;

use serde_json::Value;

use crate::error::{ModelError, ModelErrorKind};
use crate::protocol::HttpFailure;

/// Characters of the vendor's message that are shown.
const MESSAGE_LIMIT: usize = 400;

/// What the vendor says about an error.
#[derive(Debug, Default)]
struct Reported {
    code: String,
    kind: String,
    message: String,
}

pub fn of_failure(failure: &HttpFailure) -> ModelError {
    let reported = Reported::read(&failure.body);
    let kind = reported.kind().unwrap_or_else(|| by_status(failure.status));
    let status = format!("status {}", failure.status);
    model_error(kind, &reported, &status)
}

/// An error in a stream, or the response of `response.failed`. Without a known code the server failed, and a
/// retry may help.
pub fn of_event(json: &str) -> ModelError {
    let reported = Reported::read(json);
    let kind = reported.kind().unwrap_or(match reported.code.starts_with("invalid_") {
        true => ModelErrorKind::BadRequest,
        false => ModelErrorKind::Overloaded,
    });
    model_error(kind, &reported, "no reason was given")
}

pub fn malformed(why: &str) -> ModelError {
    let message = format!("the provider sent an event that cannot be read: {why}; try again");
    ModelError::new(ModelErrorKind::Malformed, message)
}

fn model_error(kind: ModelErrorKind, reported: &Reported, otherwise: &str) -> ModelError {
    let said = match reported.message.as_str() {
        "" => otherwise.to_owned(),
        message => shortened(message),
    };
    let (what, next) = words(kind);
    ModelError {
        retry_after: delay(&reported.message),
        // The vendor's headers ask to retry after every 429.
        should_retry: (kind == ModelErrorKind::QuotaSpent).then_some(false),
        ..ModelError::new(kind, format!("{what} ({said}); {next}"))
    }
}

impl Reported {
    fn read(body: &str) -> Self {
        let Ok(body) = serde_json::from_str::<Value>(body) else {
            return Self { message: body.to_owned(), ..Self::default() };
        };
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(&body);
        let text = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(number @ Value::Number(_)) => number.to_string(),
            _ => String::new(),
        };
        let message = match (text("message"), text("detail"), error) {
            (message, _, _) if !message.is_empty() => message,
            (_, _, Value::String(message)) => message.clone(),
            (_, detail, _) => detail,
        };
        Self { code: text("code"), kind: text("type"), message }
    }

    fn kind(&self) -> Option<ModelErrorKind> {
        by_code(&self.code).or_else(|| by_code(&self.kind)).or_else(|| by_text(&self.message))
    }
}

fn by_code(code: &str) -> Option<ModelErrorKind> {
    use ModelErrorKind as Kind;
    let kind = match code {
        "invalid_api_key"
        | "account_deactivated"
        | "authentication_error"
        | "invalid_organization"
        | "mismatched_organization"
        | "missing_scope"
        | "unsupported_country_region_territory" => Kind::Authentication,
        "model_not_found" | "DeploymentNotFound" => Kind::UnknownModel,
        "insufficient_quota"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "usage_limit_reached"
        | "usage_not_included" => Kind::QuotaSpent,
        "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" => Kind::RateLimited,
        "server_is_overloaded" | "slow_down" | "server_error" | "overloaded_error" => {
            Kind::Overloaded
        }
        "context_length_exceeded" | "exceed_context_size_error" => Kind::ContextTooLong,
        "invalid_encrypted_content" => Kind::HistoryRejected,
        "invalid_prompt" | "content_filter" => Kind::Refused,
        policy if policy.contains("_policy") => Kind::Refused,
        _ => return None,
    };
    Some(kind)
}

/// Errors that have no code of their own.
fn by_text(message: &str) -> Option<ModelErrorKind> {
    const TEXTS: [(&str, ModelErrorKind); 9] = [
        ("could not be verified", ModelErrorKind::HistoryRejected),
        ("Items are not persisted", ModelErrorKind::HistoryRejected),
        ("was provided without its required", ModelErrorKind::HistoryRejected),
        ("No tool output found", ModelErrorKind::HistoryRejected),
        ("No tool call found", ModelErrorKind::HistoryRejected),
        ("Duplicate item found", ModelErrorKind::HistoryRejected),
        ("context window", ModelErrorKind::ContextTooLong),
        ("maximum context length", ModelErrorKind::ContextTooLong),
        ("model does not exist", ModelErrorKind::UnknownModel),
    ];
    TEXTS.iter().find(|(text, _)| message.contains(text)).map(|(_, kind)| *kind)
}

fn by_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Authentication,
        402 => ModelErrorKind::QuotaSpent,
        408 | 409 | 500.. => ModelErrorKind::Overloaded,
        413 => ModelErrorKind::ContextTooLong,
        429 => ModelErrorKind::RateLimited,
        _ => ModelErrorKind::BadRequest,
    }
}

/// What happened, and the next step.
fn words(kind: ModelErrorKind) -> (&'static str, &'static str) {
    match kind {
        ModelErrorKind::Authentication => {
            ("the provider refused the key", "set another one with `loggia keys set`")
        }
        ModelErrorKind::UnknownModel => {
            ("the provider does not offer this model", "choose another one with /model")
        }
        ModelErrorKind::RateLimited => {
            ("the provider's rate limit is reached", "wait a moment and try again")
        }
        ModelErrorKind::QuotaSpent => (
            "the quota of this account is spent",
            "check its plan and billing, or choose another model with /model",
        ),
        ModelErrorKind::Overloaded | ModelErrorKind::Transport => {
            ("the provider failed or is overloaded", "try again later")
        }
        ModelErrorKind::ContextTooLong => {
            ("the conversation is too long for this model", "shorten it with /compact")
        }
        ModelErrorKind::HistoryRejected => (
            "the provider does not accept its earlier replies any more",
            "replace them by a summary with /compact",
        ),
        ModelErrorKind::Refused => ("the provider declined the request", "change the prompt"),
        ModelErrorKind::Malformed | ModelErrorKind::BadRequest => (
            "the provider does not accept the request",
            "check the model and the provider's settings",
        ),
    }
}

/// On one line, and not longer than people read.
fn shortened(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    let line = line.trim_end_matches('.');
    let mut short: String = line.chars().take(MESSAGE_LIMIT).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// The wait in "Please try again in 1m2.5s" or "in 20 seconds".
fn delay(message: &str) -> Option<Duration> {
    let (_, behind) = message.split_once("try again in ")?;
    let mut rest = behind.trim_start();
    let mut seconds = 0.0;
    let mut found = false;
    loop {
        let unit = rest.trim_start_matches(|symbol: char| symbol.is_ascii_digit() || symbol == '.');
        let number = rest.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
        let unit = unit.trim_start();
        let word = unit.split(|symbol: char| !symbol.is_ascii_alphabetic()).next();
        let (Some(number), Some(word)) = (number, word) else { break };
        seconds += number
            * match word {
                "ms" | "milliseconds" => 0.001,
                "s" | "second" | "seconds" => 1.0,
                "m" | "minute" | "minutes" => 60.0,
                "h" | "hour" | "hours" => 3600.0,
                _ => break,
            };
        found = true;
        rest = unit.strip_prefix(word).unwrap_or_default();
    }
    found.then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}
