//! Agent cards, cached by their hash.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use loggia_wire::time::http_date;
use loggia_wire::{CardKind, card, card_kind, legacy};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::state::Server;

/// Both versions in one, or the version that the request names.
pub async fn root(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    let version = headers.get("a2a-version").and_then(|value| value.to_str().ok());
    answer(&server, card_kind(version), &headers).await
}

pub async fn version_1(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    answer(&server, CardKind::A2a1, &headers).await
}

pub async fn version_03(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    answer(&server, CardKind::A2a03, &headers).await
}

/// Where A2A 0.1 and 0.2 look.
pub async fn task_service(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    shown(&server, &legacy::card::agent_json(&server.card_facts().await), &headers)
}

async fn answer(server: &Server, kind: CardKind, headers: &HeaderMap) -> Response {
    shown(server, &card(&server.card_facts().await, kind), headers)
}

fn shown(server: &Server, card: &Value, headers: &HeaderMap) -> Response {
    let text = card.to_string();
    let digest = Sha256::digest(text.as_bytes());
    let tag: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|given| given.split(',').any(|one| one.trim() == tag || one.trim() == "*"));
    let body = if known { Body::empty() } else { Body::from(text) };
    let mut response = Response::new(body);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::VARY, "A2A-Version"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let since = http_date(server.started);
    for (name, value) in [(header::ETAG, tag), (header::LAST_MODIFIED, since)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}
