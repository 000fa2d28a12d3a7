//! The routing table: which path serves which protocol. The only place in this crate that names a protocol version.
//!
//! Paths are literals, so that a test can compare them with its list.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use loggia_wire::{Endpoint, View};

use super::{card, rest, rpc, sdlc, token, ws};
use crate::grpc;
use crate::state::Server;

/// The view of gRPC errors before the service is known.
pub(crate) const GRPC: View = View::A2A_1;

pub(crate) const SDLC: View = View::SDLC;

const GRPC_1: &str = "lf.a2a.v1.A2AService";
const GRPC_03: &str = "a2a.v1.A2AService";

pub(crate) const GRPC_SERVICES: [&str; 2] = [GRPC_1, GRPC_03];

/// Paths of JSON-RPC of all versions. Clients append a slash to an address, or not.
pub(super) const JSON_RPC: &[&str] =
    &["/", "/a2a", "/a2a/", "/a2a/1.0", "/a2a/1.0/", "/a2a/0.3", "/a2a/0.3/"];

/// Paths that say nothing about sessions and need no identity.
pub const PUBLIC: &[&str] = &[
    "/.well-known/agent-card.json",
    "/a2a/1.0/.well-known/agent-card.json",
    "/a2a/0.3/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/agent.json",
    "/a2a/agent.json",
    "/healthz",
];

/// Paths of the legacy service.
pub(super) const LEGACY: &[&str] = &[
    "/rpc",
    "/tasks/send",
    "/tasks/get",
    "/tasks/cancel",
    "/tasks/stream",
    "/a2a/tasks/send",
    "/a2a/tasks/get",
    "/a2a/tasks/cancel",
    "/a2a/tasks/stream",
    "/stream",
    "/a2a/stream",
];

pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .merge(a2a())
        .merge(legacy())
        .merge(sdlc())
        .route("/ws", get(ws::upgrade))
        .route("/oauth/token", post(token::post))
        .route("/healthz", get(|| async { "ok\n" }))
        // Named, because the POST route of this path would otherwise answer 405.
        .route("/tasks", get(rest::any))
        .fallback(rest::any)
        .merge(grpc::router())
        .with_state(server)
}

fn a2a() -> Router<Arc<Server>> {
    let card = |view| {
        move |State(server): State<Arc<Server>>, headers: HeaderMap| {
            card::of_version(server, headers, view)
        }
    };
    let grpc = |view, service| {
        move |State(server): State<Arc<Server>>, request: Request| {
            grpc::call(server, view, service, request)
        }
    };
    Router::new()
        .route("/", post(rpc::post))
        .route("/a2a", post(rpc::post))
        .route("/a2a/", post(rpc::post))
        .route("/a2a/1.0", post(rpc::post))
        .route("/a2a/1.0/", post(rpc::post))
        .route("/a2a/0.3", post(rpc::post))
        .route("/a2a/0.3/", post(rpc::post))
        .route("/.well-known/agent-card.json", get(card::root))
        .route("/a2a/1.0/.well-known/agent-card.json", get(card(View::A2A_1)))
        .route("/a2a/0.3/.well-known/agent-card.json", get(card(View::A2A_03)))
        .route("/lf.a2a.v1.A2AService/{method}", post(grpc(View::A2A_1, GRPC_1)))
        .route("/a2a.v1.A2AService/{method}", post(grpc(View::PROTO_03, GRPC_03)))
}

/// `/rpc` answers at once and is polled. python-a2a posts to one path per method, waits for the result, reads HTTP
/// statuses, and streams without an envelope.
fn legacy() -> Router<Arc<Server>> {
    let at = |endpoint| {
        move |State(server): State<Arc<Server>>, request: Request| async move {
            rpc::answer(&server, request, endpoint).await
        }
    };
    let (polled, waiting) = (at(Endpoint::LegacyPolled), at(Endpoint::LegacyWaiting));
    let (stream, text) = (at(Endpoint::LegacyStream), at(Endpoint::LegacyText));
    Router::new()
        .route("/rpc", post(polled))
        .route("/tasks/send", post(waiting))
        .route("/tasks/get", post(waiting))
        .route("/tasks/cancel", post(waiting))
        .route("/tasks/stream", post(stream))
        .route("/stream", post(text))
        .route("/a2a/tasks/send", post(waiting))
        .route("/a2a/tasks/get", post(waiting))
        .route("/a2a/tasks/cancel", post(waiting))
        .route("/a2a/tasks/stream", post(stream))
        .route("/a2a/stream", post(text))
        .route("/.well-known/agent.json", get(card::legacy))
        .route("/agent.json", get(card::legacy))
        .route("/a2a/agent.json", get(card::legacy))
}

fn sdlc() -> Router<Arc<Server>> {
    Router::new()
        .route("/tasks", post(sdlc::open_task))
        .route("/tasks/metadata", get(sdlc::all_metadata))
        .route("/tasks/{id}/metadata", get(sdlc::metadata))
        .route("/message/stream", post(sdlc::message))
        .route("/executeCommand", post(sdlc::execute))
        .route("/listCommands", get(sdlc::commands))
}
