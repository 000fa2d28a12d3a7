//! Gemini's errors as ours, from a failed response or from the middle of a stream.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{ModelError, ModelErrorKind as Kind};
use crate::protocol::HttpFailure;

/// Characters of the vendor's message that are shown.
const MESSAGE_LIMIT: usize = 400;

/// `google.rpc.Status`.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct Failure {
    code: Option<u16>,
    message: Option<String>,
    status: Option<String>,
    details: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Body {
    error: Failure,
}

pub fn of_response(response: &HttpFailure) -> ModelError {
    // Some responses are an array with the object. It is tried first, because serde also reads a struct
    // from an array.
    let many = serde_json::from_str::<Vec<Body>>(&response.body).ok();
    let body = many.and_then(|mut many| many.pop());
    let body = body.or_else(|| serde_json::from_str(&response.body).ok());
    let unknown = || Failure { message: Some(response.body.clone()), ..Failure::default() };
    body.map_or_else(unknown, |body| body.error).into_error(response.status)
}

pub fn in_stream(failure: Failure) -> ModelError {
    let status = failure.code.unwrap_or(500);
    failure.into_error(status)
}

/// A vendor's message for the end of a sentence: ` (its words)`, or nothing.
pub fn quoted(message: Option<&str>) -> String {
    let words: Vec<&str> = message.unwrap_or_default().split_whitespace().collect();
    let line = words.join(" ");
    let mut shown: String = line.chars().take(MESSAGE_LIMIT).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    if shown.is_empty() { shown } else { format!(" ({shown})") }
}

impl Failure {
    fn into_error(self, status: u16) -> ModelError {
        let kind = self.kind(status);
        let message = format!("{}{}", sentence(kind, status), quoted(self.message.as_deref()));
        let retry_after = match kind {
            Kind::RateLimited | Kind::Overloaded => self.retry_after(),
            _ => None,
        };
        ModelError { retry_after, ..ModelError::new(kind, message) }
    }

    fn kind(&self, status: u16) -> Kind {
        let reason = self.details_of("ErrorInfo").find_map(|info| info.get("reason")?.as_str());
        if reason.is_some_and(|reason| reason.starts_with("API_KEY_")) {
            return Kind::Authentication;
        }
        match (status, self.status.as_deref().unwrap_or_default()) {
            (401 | 403, _) | (_, "UNAUTHENTICATED" | "PERMISSION_DENIED") => Kind::Authentication,
            (404, _) | (_, "NOT_FOUND") => Kind::UnknownModel,
            (402, _) => Kind::QuotaSpent,
            (429, _) | (_, "RESOURCE_EXHAUSTED") if self.is_spent() => Kind::QuotaSpent,
            (429, _) | (_, "RESOURCE_EXHAUSTED") => Kind::RateLimited,
            (413, _) => Kind::ContextTooLong,
            (500.., _) | (_, "UNAVAILABLE" | "INTERNAL" | "DEADLINE_EXCEEDED" | "ABORTED") => {
                Kind::Overloaded
            }
            (408, _) => Kind::Transport,
            _ => self.kind_of_text(),
        }
    }

    /// These have no code of their own.
    fn kind_of_text(&self) -> Kind {
        let text = self.message.as_deref().unwrap_or_default().to_lowercase();
        let says = |words: &[&str]| words.iter().all(|word| text.contains(word));
        if says(&["token count", "exceeds the maximum"]) || says(&["payload size exceeds"]) {
            Kind::ContextTooLong
        } else if says(&["thought signature"]) || says(&["thought_signature"]) {
            Kind::HistoryRejected
        } else if says(&["api key", "not valid"]) || says(&["api key expired"]) {
            Kind::Authentication
        } else {
            Kind::BadRequest
        }
    }

    /// A quota of a day, one of zero, or money. The vendor sends a delay with these too.
    fn is_spent(&self) -> bool {
        let quotas =
            self.details_of("QuotaFailure").filter_map(|failure| failure.get("violations"));
        let mut ids = quotas.filter_map(Value::as_array).flatten();
        let of_a_day = ids.any(|violation| {
            let id = violation.get("quotaId").and_then(Value::as_str);
            id.is_some_and(|id| id.contains("PerDay"))
        });
        let text = self.message.as_deref().unwrap_or_default();
        let of_zero = text.split("limit: ").skip(1).any(|rest| number(rest) == Some(0.0));
        of_a_day || of_zero || text.contains("prepayment credits") || text.contains("spending cap")
    }

    fn retry_after(&self) -> Option<Duration> {
        let told = self.details_of("RetryInfo").find_map(|info| info.get("retryDelay")?.as_str());
        let text = self.message.as_deref().unwrap_or_default().to_lowercase();
        let in_text = ["retry in ", "try again in "].iter().find_map(|words| {
            let (_, rest) = text.split_once(words)?;
            duration(rest)
        });
        told.and_then(duration).or(in_text)
    }

    fn details_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let details = self.details.iter().flatten();
        details.filter(move |detail| {
            let name = detail.get("@type").and_then(Value::as_str);
            name.is_some_and(|name| name.rsplit('.').next() == Some(kind))
        })
    }
}

/// What has happened, and the next step.
fn sentence(kind: Kind, status: u16) -> String {
    let sentence = match kind {
        Kind::Authentication => {
            "Gemini refused the key: check it, or set another one with `loggia keys set`"
        }
        Kind::UnknownModel => "Gemini does not offer this model: choose one of `loggia models`",
        Kind::RateLimited => "Gemini gets too many requests: wait, then try again",
        Kind::QuotaSpent => {
            "the quota of this key is spent: wait for its renewal, raise it at Google, or choose \
             another model"
        }
        Kind::Overloaded => "Gemini is overloaded or has a fault: try again later",
        Kind::ContextTooLong => "the conversation is too long for this model: compact it",
        Kind::HistoryRejected => {
            "Gemini does not accept its earlier replies: they can be sent again without what only \
             the model reads"
        }
        _ => return format!("Gemini refused the request with status {status}: change it"),
    };
    sentence.to_owned()
}

/// The number at the beginning of a text.
fn number(text: &str) -> Option<f64> {
    let digits = text.chars().take_while(|symbol| symbol.is_ascii_digit() || *symbol == '.');
    digits.collect::<String>().trim_end_matches('.').parse().ok()
}

/// The duration at the beginning of a text: `1.2s`, `350ms`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|symbol: char| symbol.is_ascii_digit() || symbol == '.');
    let scale = if unit.starts_with("ms") { 1000.0 } else { 1.0 };
    Duration::try_from_secs_f64(number(text)? / scale).ok()
}
