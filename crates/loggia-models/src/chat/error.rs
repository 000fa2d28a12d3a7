//! Failures: of a request, and in the middle of a stream. Codes count before texts, and texts before the
//! status.

use super::dialect::{Dialect, GENERIC};
use crate::error::{ModelError, ModelErrorKind as Kind};
use crate::failure::{failed, wait_in};
use crate::fields::Fields;
use crate::protocol::HttpFailure;

/// What a server says about a failure. Servers agree on no form.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// Words that name the error: its code and its type.
    codes: Vec<String>,
    /// A code that is a number is a status.
    status: Option<u16>,
    /// A filter names its reasons.
    moderated: bool,
}

pub fn of_response(dialect: &Dialect, failure: &HttpFailure) -> ModelError {
    let said = match Fields::parse(&failure.body) {
        Some(body) => said(&body),
        // A gateway's page, or a plain text.
        None if failure.body.trim_start().starts_with('<') => Said::default(),
        None => Said { message: failure.body.clone(), ..Said::default() },
    };
    let mut error = explain(dialect, &said, failure.status);
    if said.message.is_empty() {
        let status = failure.status;
        error = failed(error.kind, &format!("it answered with status {status} and no reason"));
    }
    error
}

/// The error in a chunk of a stream, if it is one.
pub fn in_stream(dialect: &Dialect, chunk: &Fields, event: &str) -> Option<ModelError> {
    let is_error = chunk.get("error").is_some_and(|error| error.get() != "null")
        || chunk.text("object").is_some_and(|object| object == "error")
        || event == "error";
    // Without a code it is the server's fault: the request was accepted.
    is_error.then(|| explain(dialect, &said(chunk), 500))
}

/// Finish reasons that are failures.
pub fn finish(reason: &str) -> Result<(), ModelError> {
    let (kind, why) = match reason {
        "error" | "abort" => (Kind::Transport, "the server ended the reply with an error"),
        "insufficient_system_resource" => (Kind::Overloaded, "the server ran out of resources"),
        _ => return Ok(()),
    };
    Err(failed(kind, why))
}

pub fn unreadable(data: &str) -> ModelError {
    failed(Kind::Malformed, &format!("the stream contains `{}`", crate::failure::shorten(data)))
}

fn said(body: &Fields) -> Said {
    let error = body.read::<Fields>("error").unwrap_or_else(|| body.clone());
    let message = ["message", "detail", "error"].into_iter().find_map(|name| {
        let value = error.get(name).or_else(|| body.get(name))?;
        let text = serde_json::from_str::<String>(value.get());
        Some(text.unwrap_or_else(|_| value.get().to_owned()))
    });
    let mut message = message.filter(|text| text != "null").unwrap_or_default();
    let metadata = error.read::<Fields>("metadata").unwrap_or_default();
    // A gateway repeats the failure of the provider behind it.
    if let Some(raw) = metadata.text("raw") {
        let behind = Fields::parse(&raw).map(|body| said(&body).message);
        message = format!("{message}: {}", behind.filter(|text| !text.is_empty()).unwrap_or(raw));
    }
    let codes = ["code", "type"].into_iter().filter_map(|name| error.text(name)).collect();
    let number = error.read::<u16>("code").or_else(|| error.text("code")?.parse().ok());
    Said {
        message,
        codes,
        status: number.filter(|number| (400..600).contains(number)),
        moderated: metadata.get("reasons").is_some(),
    }
}

fn explain(dialect: &Dialect, said: &Said, status: u16) -> ModelError {
    let status = said.status.unwrap_or(status);
    let by_code = said.codes.iter().find_map(|code| kind_of_code(code));
    let moderated = (said.moderated && status == 403).then_some(Kind::Refused);
    let kind = moderated
        .or(by_code)
        .or_else(|| kind_of_text(dialect, &said.message, status))
        .unwrap_or_else(|| kind_of_status(status, said));
    let mut error = failed(kind, &said.message);
    if matches!(kind, Kind::RateLimited | Kind::Overloaded) {
        error.retry_after = wait_in(&said.message);
    }
    error
}

fn kind_of_code(code: &str) -> Option<Kind> {
    Some(match code {
        "invalid_api_key" | "authentication_error" | "invalid_authentication" => {
            Kind::Authentication
        }
        "model_not_found" | "DeploymentNotFound" | "unknown_model" => Kind::UnknownModel,
        "insufficient_quota"
        | "insufficient_balance"
        | "billing_hard_limit_reached"
        | "billing_not_active" => Kind::QuotaSpent,
        "rate_limit_exceeded" | "rate_limit_error" => Kind::RateLimited,
        "server_is_overloaded" | "overloaded_error" | "slow_down" | "engine_overloaded" => {
            Kind::Overloaded
        }
        "context_length_exceeded" | "exceed_context_size_error" => Kind::ContextTooLong,
        "content_filter" | "content_policy_violation" | "cyber_policy" | "bio_policy" => {
            Kind::Refused
        }
        _ => return None,
    })
}

/// Texts count where they are the only sign: a limit of requests may mention tokens too.
fn kind_of_text(dialect: &Dialect, message: &str, status: u16) -> Option<Kind> {
    let message = message.to_lowercase();
    let rows = dialect.errors.iter().chain(GENERIC.errors);
    let (_, kind) = rows.into_iter().find(|(part, _)| message.contains(part))?;
    let counts = match status {
        429 => *kind == Kind::QuotaSpent,
        401 | 403 => *kind == Kind::QuotaSpent,
        _ => true,
    };
    counts.then_some(*kind)
}

fn kind_of_status(status: u16, said: &Said) -> Kind {
    match status {
        401 | 403 => Kind::Authentication,
        402 => Kind::QuotaSpent,
        // Another 404 means that the address is wrong.
        404 if said.message.to_lowercase().contains("model") => Kind::UnknownModel,
        413 => Kind::ContextTooLong,
        429 => Kind::RateLimited,
        408 | 409 | 425 | 500.. => Kind::Overloaded,
        _ => Kind::BadRequest,
    }
}
