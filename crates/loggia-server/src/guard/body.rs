//! Bodies: their content type, size and time. Decodes nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Version};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use super::bytes::{BytePermit, ByteShares, SMALL};
use super::rejection::Rejection;

const NOT_JSON: Rejection = Rejection::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "content-type",
    "A request's body must be application/json or application/a2a+json: set Content-Type.",
);

const ENCODED: Rejection = Rejection::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "content-encoding",
    "Compressed bodies are not read: send the body without Content-Encoding.",
);

/// Too many large requests at once.
const NO_ROOM: Rejection = Rejection::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "busy",
    "Too many large requests are being read: try again in a moment.",
)
.retry_after(Duration::from_secs(5))
.closing();

/// The most bytes that are allocated for an announced length.
const FIRST_ALLOCATION: u64 = 64 * 1024;

/// How much of a refused body is read and dropped, and for how long.
const DRAINED_BYTES: usize = 64 * 1024;
const DRAIN_TIME: Duration = Duration::from_millis(250);

/// Refuses by the head alone, before a byte of the body is read.
pub(super) fn check(parts: &Parts, body: &Body, limit: u64) -> Result<(), Rejection> {
    let plain = |value: &[u8]| value.eq_ignore_ascii_case(b"identity");
    if !parts.headers.get_all(CONTENT_ENCODING).iter().all(|value| plain(value.as_bytes())) {
        return Err(ENCODED);
    }
    if announced(&parts.headers).is_some_and(|length| length > limit)
        || body.size_hint().lower() > limit
    {
        return Err(Rejection::body_too_large());
    }
    Ok(())
}

/// Requests that change something must be JSON or gRPC.
pub(super) fn check_type(parts: &Parts, body: &Body) -> Result<(), Rejection> {
    let changes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let accepted = is_json(&parts.headers, || has_body(parts, body)) || is_grpc(parts);
    if changes.contains(&parts.method) && !accepted {
        return Err(NOT_JSON);
    }
    Ok(())
}

/// Whether the size is known before reading. Asks the body and not the headers, whose length is ignored
/// beside a transfer encoding.
pub(super) fn is_counted(body: &Body) -> bool {
    body.size_hint().exact().is_some()
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn has_body(parts: &Parts, body: &Body) -> bool {
    parts.headers.contains_key(TRANSFER_ENCODING)
        || announced(&parts.headers).is_some_and(|length| length > 0)
        || !body.is_end_stream()
}

/// Exactly one content type, one of ours, without regard to parameters. Browsers send these across origins
/// only after a preflight request.
fn is_json(headers: &HeaderMap, has_body: impl FnOnce() -> bool) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (None, _) => !has_body(),
        (Some(_), Some(_)) => false,
        (Some(value), None) => {
            let essence = value.to_str().ok().and_then(|text| text.split(';').next());
            let essence = essence.unwrap_or_default().trim();
            ["application/json", "application/a2a+json"]
                .iter()
                .any(|json| essence.eq_ignore_ascii_case(json))
        }
    }
}

/// gRPC is HTTP/2 with its own content type, for which browsers need a preflight request as well.
pub(crate) fn is_grpc(parts: &Parts) -> bool {
    let mut types = parts.headers.get_all(CONTENT_TYPE).iter();
    let only = types.next().filter(|_| types.next().is_none());
    let essence = only.and_then(|value| value.to_str().ok()?.split(';').next());
    let grpc = |essence: &str| {
        ["application/grpc", "application/grpc+proto"]
            .iter()
            .any(|grpc| essence.trim().eq_ignore_ascii_case(grpc))
    };
    parts.version == Version::HTTP_2 && parts.method == Method::POST && essence.is_some_and(grpc)
}

/// Reads the rest of a refused body, and tells whether all of it was read. On HTTP/2 an early answer resets the
/// stream, which some clients report instead of the answer; a connection of HTTP/1.1 cannot be used again.
pub(crate) async fn drain(parts: &Parts, body: Body) -> bool {
    if body.is_end_stream() {
        return true;
    }
    // Such a client waits for the answer before it sends the body.
    if parts.headers.contains_key(EXPECT) {
        return false;
    }
    let mut chunks = body.into_data_stream();
    let reading = async {
        let mut read = 0;
        while let Some(chunk) = chunks.next().await {
            let Ok(chunk) = chunk else { return false };
            read += chunk.len();
            if read > DRAINED_BYTES {
                return false;
            }
        }
        true
    };
    // A client that sends more may not see the answer.
    tokio::time::timeout(DRAIN_TIME, reading).await.unwrap_or(false)
}

/// The whole body, if it is at most `limit` bytes and arrives within `timeout`.
pub async fn read_body(body: Body, limit: usize, timeout: Duration) -> Result<Bytes, Rejection> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Rejection::body_too_large());
    }
    match tokio::time::timeout(timeout, collect(body, limit)).await {
        Ok(collected) => collected,
        Err(_) => Err(Rejection::body_too_slow()),
    }
}

/// The count of bytes of large bodies, and the principal.
pub(crate) struct BodyShare<'a> {
    pub bodies: &'a ByteShares,
    pub principal: &'a Arc<str>,
}

impl BodyShare<'_> {
    async fn wait(&self, bytes: usize) -> Result<BytePermit, Rejection> {
        self.bodies.acquire(self.principal, bytes).await.ok_or(NO_ROOM)
    }
}

/// The same, with a permit before more than [`SMALL`] bytes are in memory.
pub(crate) async fn read_growing_body(
    body: Body,
    limit: usize,
    timeout: Duration,
    share: BodyShare<'_>,
) -> Result<(Bytes, Option<BytePermit>), Rejection> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Rejection::body_too_large());
    }
    let exact = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let reading = async {
        if let Some(exact) = exact {
            let permit = share.wait(exact).await?;
            return Ok((collect(body, limit).await?, Some(permit)));
        }
        let mut chunks = body.into_data_stream();
        let mut whole = BytesMut::new();
        let mut permit = None;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| broken(&error))?;
            let length = whole.len() + chunk.len();
            if length > limit {
                return Err(Rejection::body_too_large());
            }
            if length > SMALL && permit.is_none() {
                permit = Some(share.wait(limit).await?);
            }
            whole.extend_from_slice(&chunk);
        }
        Ok((whole.freeze(), permit))
    };
    match tokio::time::timeout(timeout, reading).await {
        Ok(read) => read,
        Err(_) => Err(Rejection::body_too_slow()),
    }
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, Rejection> {
    let expected = body.size_hint().lower().min(FIRST_ALLOCATION);
    let mut chunks = body.into_data_stream();
    let Some(first) = chunks.next().await else { return Ok(Bytes::new()) };
    let first = first.map_err(|error| broken(&error))?;
    let Some(second) = chunks.next().await else { return within(first, limit) };
    let mut whole = BytesMut::with_capacity(usize::try_from(expected).unwrap_or_default());
    whole.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        let chunk = chunk.map_err(|error| broken(&error))?;
        if whole.len() + chunk.len() > limit {
            return Err(Rejection::body_too_large());
        }
        whole.extend_from_slice(&chunk);
        next = chunks.next().await;
    }
    Ok(whole.freeze())
}

fn within(only: Bytes, limit: usize) -> Result<Bytes, Rejection> {
    if only.len() > limit { Err(Rejection::body_too_large()) } else { Ok(only) }
}

/// The guard's size limit arrives as an error of the body.
fn broken(error: &(dyn std::error::Error + 'static)) -> Rejection {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return Rejection::body_too_large();
        }
        cause = error.source();
    }
    Rejection::body_broken()
}
