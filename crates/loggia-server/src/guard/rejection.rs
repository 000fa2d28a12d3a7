//! The answer to a request that is refused before it is decoded: a status, a stable word for programs and a
//! sentence for people.
//!
//! A rejection names no session, path or version, and repeats nothing that the client sent. RPC endpoints take
//! its parts and call [`Rejection::respond`] with a body of their own form.

use std::time::Duration;

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    pub status: StatusCode,
    /// Stable, for programs: `tool-descendant`, `body-too-large`, ….
    pub reason: &'static str,
    /// One sentence, with the next step.
    pub message: &'static str,
    pub retry_after: Option<Duration>,
    /// The value of `WWW-Authenticate`.
    pub challenge: Option<&'static str>,
    /// Close the connection, because the rest of the body is not read.
    pub close: bool,
}

#[derive(Serialize)]
struct Envelope {
    error: Plain,
}

#[derive(Serialize)]
struct Plain {
    code: u16,
    message: &'static str,
    reason: &'static str,
}

impl Rejection {
    pub const fn new(status: StatusCode, reason: &'static str, message: &'static str) -> Self {
        Self { status, reason, message, retry_after: None, challenge: None, close: false }
    }

    pub const fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    pub const fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub const fn challenge(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(challenge);
        self
    }

    pub const fn body_too_large() -> Self {
        let message = "The body is larger than this server reads: send less.";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", message).closing()
    }

    pub const fn body_too_slow() -> Self {
        let message = "The body did not arrive in time: send the whole of it at once.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "body-too-slow", message).closing()
    }

    pub const fn body_broken() -> Self {
        let message = "The body ended early or is not framed as announced: send it again.";
        Self::new(StatusCode::BAD_REQUEST, "body-broken", message).closing()
    }

    /// A response with another body, for protocols with their own form of errors.
    pub fn respond(&self, body: impl Serialize) -> Response {
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            headers.insert(RETRY_AFTER, u64::try_from(seconds).unwrap_or(u64::MAX).into());
        }
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        // hyper removes this header for HTTP/2.
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let Self { status, reason, message, .. } = self;
        self.respond(Envelope { error: Plain { code: status.as_u16(), message, reason } })
    }
}
