//! The routes. Each one moves bytes between a transport and [`Server::ask`].

mod attach;
pub mod card;
mod rest;
pub mod rpc;
pub mod sse;
pub mod ws;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use loggia_core::{Origin, Surface};
use loggia_wire::closed_door_code;
use serde_json::json;

use crate::auth::Principal;
use crate::grpc;
use crate::guard::{self, Rejection};
use crate::peer::Peer;
use crate::state::{Caller, Server};

/// The largest request.
pub const BODY_LIMIT: usize = 10 * 1024 * 1024;

/// Paths that say nothing about sessions and pass without an identity.
pub const PUBLIC: &[&str] = &[
    "/.well-known/agent-card.json",
    "/a2a/1.0/.well-known/agent-card.json",
    "/a2a/0.3/.well-known/agent-card.json",
    "/healthz",
];

pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/", post(rpc::post))
        .route("/a2a", post(rpc::post))
        .route("/a2a/1.0", post(rpc::post))
        .route("/a2a/0.3", post(rpc::post))
        .route("/ws", get(ws::upgrade))
        .route("/.well-known/agent-card.json", get(card::root))
        .route("/a2a/1.0/.well-known/agent-card.json", get(card::version_1))
        .route("/a2a/0.3/.well-known/agent-card.json", get(card::version_03))
        .route("/healthz", get(|| async { "ok\n" }))
        // By name, so that whoever has this path with another method does not hide it.
        .route("/tasks", get(rest::any))
        .fallback(rest::any)
        .merge(grpc::router())
        .with_state(server)
}

/// Who sends a request, as the guard found out. Clients of one principal are told apart by their
/// connection, so that a loser of a race is never taken for the winner's retry.
pub(crate) fn caller(request: &Request) -> Option<Caller> {
    let principal = request.extensions().get::<Principal>()?.clone();
    let peer = request.extensions().get::<Peer>()?;
    let mut origin = Origin::new(Surface::A2a, client(&principal.name, peer).as_str());
    origin.principal = Some(principal.name.clone());
    Some(Caller { principal, origin })
}

/// A name that people recognise, and that no other connection has.
fn client(name: &str, peer: &Peer) -> String {
    format!("{name}@{}", peer.address())
}

/// How a closed door reads on each binding.
pub fn refusal(rejection: &Rejection, request: &Parts) -> Option<Response> {
    if guard::is_grpc(request) {
        return Some(grpc::refusal(rejection));
    }
    let rpc = ["/", "/a2a", "/a2a/1.0", "/a2a/0.3"].contains(&request.uri.path());
    let Rejection { status, reason, message, .. } = rejection;
    let body = || {
        json!({
            "jsonrpc": "2.0",
            "id": null,
            "error": {
                "code": closed_door_code(status.as_u16()),
                "message": message,
                "data": { "reason": reason },
            },
        })
    };
    match rpc {
        true => Some(rejection.respond(body())),
        false => rest::refusal(rejection, request),
    }
}
