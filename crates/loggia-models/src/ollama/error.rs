//! Failures: Ollama says a text, and has no codes.

use crate::error::{ModelError, ModelErrorKind as Kind};
use crate::failure::{failed, shorten};
use crate::fields::Fields;
use crate::protocol::HttpFailure;

/// Parts of texts, in lower case.
const TEXTS: &[(&str, Kind)] = &[
    ("longer than the context length", Kind::ContextTooLong),
    ("exceeds the context length", Kind::ContextTooLong),
    ("exceeds the available context size", Kind::ContextTooLong),
    ("prompt is too long", Kind::ContextTooLong),
    ("error parsing tool call", Kind::Malformed),
    ("does not support", Kind::BadRequest),
    ("requires more system memory", Kind::BadRequest),
];

pub fn of_response(failure: &HttpFailure) -> ModelError {
    let said = Fields::parse(&failure.body).and_then(|body| body.text("error"));
    let said = said.unwrap_or_else(|| failure.body.clone());
    let kind = kind_of_text(&said).unwrap_or(match failure.status {
        401 | 403 => Kind::Authentication,
        402 => Kind::QuotaSpent,
        404 if said.contains("model") => Kind::UnknownModel,
        429 => Kind::RateLimited,
        408 | 500.. => Kind::Overloaded,
        _ => Kind::BadRequest,
    });
    match kind {
        Kind::UnknownModel => {
            let why = format!("{} (get it with `ollama pull`)", shorten(&said));
            ModelError::new(kind, why)
        }
        _ => failed(kind, &said),
    }
}

/// The request was accepted, so an unknown failure is the server's.
pub fn in_stream(said: &str) -> ModelError {
    failed(kind_of_text(said).unwrap_or(Kind::Overloaded), said)
}

pub fn unreadable(data: &str) -> ModelError {
    failed(Kind::Malformed, &format!("the stream contains `{}`", shorten(data)))
}

fn kind_of_text(said: &str) -> Option<Kind> {
    let said = said.to_lowercase();
    TEXTS.iter().find(|(part, _)| said.contains(part)).map(|(_, kind)| *kind)
}
