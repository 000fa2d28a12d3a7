//! The routes. Each one moves bytes between a transport and [`Server::ask`].

mod attach;
pub mod card;
mod rest;
pub mod rpc;
mod sdlc;
pub mod sse;
pub mod tasks;
pub mod token;
pub mod ws;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use loggia_core::{Origin, Surface};
use loggia_wire::{A2aVersion, closed_door_code, refused_at_the_door};
use serde_json::json;

use crate::auth::Principal;
use crate::grpc;
use crate::guard::{self, Load, Rejection};
use crate::peer::Peer;
use crate::state::{Caller, Server};
use tasks::Spoken;

/// The largest request.
pub const BODY_LIMIT: usize = 10 * 1024 * 1024;

/// How long a body may take to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);

/// Paths that say nothing about sessions and pass without an identity.
pub const PUBLIC: &[&str] = &[
    "/.well-known/agent-card.json",
    "/a2a/1.0/.well-known/agent-card.json",
    "/a2a/0.3/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/agent.json",
    "/a2a/agent.json",
    "/healthz",
];

/// Where a client's secret is given for a token.
pub const TOKEN: &str = "/oauth/token";

/// Paths that want a token from everybody, also from processes of this machine's user: what speaks
/// the old task protocol speaks for registered clients.
pub const TOKEN_ALWAYS: &[&str] = tasks::PATHS;

/// Paths where JSON-RPC of both versions is spoken: clients put a slash behind an address, or none.
const RPC: &[&str] = &["/", "/a2a", "/a2a/", "/a2a/1.0", "/a2a/1.0/", "/a2a/0.3", "/a2a/0.3/"];

pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/", post(rpc::post))
        .route("/a2a", post(rpc::post))
        .route("/a2a/", post(rpc::post))
        .route("/a2a/1.0", post(rpc::post))
        .route("/a2a/1.0/", post(rpc::post))
        .route("/a2a/0.3", post(rpc::post))
        .route("/a2a/0.3/", post(rpc::post))
        .route("/ws", get(ws::upgrade))
        .route("/oauth/token", post(token::post))
        .route("/.well-known/agent-card.json", get(card::root))
        .route("/a2a/1.0/.well-known/agent-card.json", get(card::version_1))
        .route("/a2a/0.3/.well-known/agent-card.json", get(card::version_03))
        .route("/tasks", post(sdlc::open_task))
        .route("/tasks/metadata", get(sdlc::all_metadata))
        .route("/tasks/{id}/metadata", get(sdlc::metadata))
        .route("/message/stream", post(sdlc::message))
        .route("/executeCommand", post(sdlc::execute))
        .route("/listCommands", get(sdlc::commands))
        .route("/.well-known/agent.json", get(card::legacy))
        .route("/agent.json", get(card::legacy))
        .route("/a2a/agent.json", get(card::legacy))
        .route("/healthz", get(|| async { "ok\n" }))
        .merge(legacy_routes())
        // By name, so that whoever has this path with another method does not hide it.
        .route("/tasks", get(rest::any))
        .fallback(rest::any)
        .merge(grpc::router())
        .with_state(server)
}

/// `/rpc`, and the paths of python-a2a.
fn legacy_routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/rpc", post(tasks::polled))
        .route("/tasks/send", post(tasks::waiting))
        .route("/tasks/get", post(tasks::waiting))
        .route("/tasks/cancel", post(tasks::waiting))
        .route("/tasks/stream", post(tasks::bare))
        .route("/stream", post(tasks::words))
        .route("/a2a/tasks/send", post(tasks::waiting))
        .route("/a2a/tasks/get", post(tasks::waiting))
        .route("/a2a/tasks/cancel", post(tasks::waiting))
        .route("/a2a/tasks/stream", post(tasks::bare))
        .route("/a2a/stream", post(tasks::words))
}

/// Who sends a request, as the guard found out. Clients of one principal are told apart by their
/// connection, so that a loser of a race is never taken for the winner's retry.
pub(crate) fn caller(request: &Request) -> Option<Caller> {
    caller_on(request, Surface::A2a)
}

pub(crate) fn caller_on(request: &Request, surface: Surface) -> Option<Caller> {
    let principal = request.extensions().get::<Principal>()?.clone();
    let peer = request.extensions().get::<Peer>()?;
    let mut origin = Origin::new(surface, client(principal.label(), peer).as_str());
    origin.principal = Some(principal.name.clone());
    let load = request.extensions().get::<Arc<Load>>().cloned().unwrap_or_default();
    Some(Caller { principal, origin, load })
}

/// A name that people recognise, and that no other connection has.
fn client(name: &str, peer: &Peer) -> String {
    [name, "@", peer.written_address()].concat()
}

/// How a closed door reads on each binding, and where tokens are given.
pub fn refusal(rejection: &Rejection, request: &Parts) -> Option<Response> {
    if guard::is_grpc(request) {
        return Some(grpc::refusal(rejection));
    }
    let path = request.uri.path();
    let Rejection { status, reason, message, .. } = rejection;
    if sdlc::is_route(&request.method, path) {
        return Some(rejection.respond(json!({ "error": message, "reason": reason })));
    }
    if path == TOKEN {
        return Some(rejection.respond(token::refusal(rejection)));
    }
    let is_rpc = RPC.contains(&path) || tasks::PATHS.contains(&path);
    let body = || {
        let version = rpc::asked_version(&request.headers, &request.uri);
        let spoken = if RPC.contains(&path) { Spoken::Every } else { Spoken::Polled };
        let dialect = spoken.dialect(version.as_deref());
        let data = match dialect.version() {
            A2aVersion::V03 => json!({ "reason": reason }),
            A2aVersion::V1 => {
                refused_at_the_door(status.as_u16(), reason, message, dialect).details
            }
        };
        let code = closed_door_code(status.as_u16());
        let error = json!({ "code": code, "message": message, "data": data });
        json!({ "jsonrpc": "2.0", "id": null, "error": error })
    };
    match is_rpc {
        true => Some(rejection.respond(body())),
        false => rest::refusal(rejection, request),
    }
}
