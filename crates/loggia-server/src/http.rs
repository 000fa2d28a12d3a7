//! The routes. Each one moves bytes between a transport and [`Server::ask`].

mod attach;
pub mod card;
pub mod rpc;
mod sdlc;
pub mod sse;
pub mod tasks;
pub mod token;
pub mod ws;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::{get, post};
use loggia_core::{Origin, Surface};
use serde_json::{Value, json};

use crate::auth::Principal;
use crate::guard::Rejection;
use crate::peer::Peer;
use crate::state::{Caller, Server};

/// The largest request.
pub const BODY_LIMIT: usize = 10 * 1024 * 1024;

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

/// Paths where JSON-RPC of both versions is spoken.
const RPC: &[&str] = &["/", "/a2a", "/a2a/1.0", "/a2a/0.3"];

pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/", post(rpc::post))
        .route("/a2a", post(rpc::post))
        .route("/a2a/1.0", post(rpc::post))
        .route("/a2a/0.3", post(rpc::post))
        .route("/ws", get(ws::upgrade))
        .route("/oauth/token", post(token::post))
        .route("/.well-known/agent-card.json", get(card::root))
        .route("/a2a/1.0/.well-known/agent-card.json", get(card::version_1))
        .route("/a2a/0.3/.well-known/agent-card.json", get(card::version_03))
        .route("/.well-known/agent.json", get(card::task_service))
        .route("/agent.json", get(card::task_service))
        .route("/a2a/agent.json", get(card::task_service))
        .route("/tasks", post(sdlc::open_task))
        .route("/tasks/metadata", get(sdlc::all_metadata))
        .route("/tasks/{id}/metadata", get(sdlc::metadata))
        .route("/message/stream", post(sdlc::message))
        .route("/executeCommand", post(sdlc::execute))
        .route("/listCommands", get(sdlc::commands))
        .route("/healthz", get(|| async { "ok\n" }))
        .merge(task_service())
        .with_state(server)
}

/// `/rpc`, and the paths of python-a2a.
fn task_service() -> Router<Arc<Server>> {
    let mut routes = Router::new().route("/rpc", post(tasks::service));
    for base in ["", "/a2a"] {
        for method in ["send", "get", "cancel"] {
            routes = routes.route(&format!("{base}/tasks/{method}"), post(tasks::waiting));
        }
        routes = routes.route(&format!("{base}/tasks/stream"), post(tasks::bare));
        routes = routes.route(&format!("{base}/stream"), post(tasks::words));
    }
    routes
}

/// Who sends a request, as the guard found out. Clients of one principal are told apart by their
/// connection, so that a loser of a race is never taken for the winner's retry.
fn caller(request: &Request) -> Option<Caller> {
    caller_on(request, Surface::A2a)
}

fn caller_on(request: &Request, surface: Surface) -> Option<Caller> {
    let principal = request.extensions().get::<Principal>()?.clone();
    let peer = request.extensions().get::<Peer>()?;
    let mut origin = Origin::new(surface, client(&principal.name, peer).as_str());
    origin.principal = Some(principal.name.clone());
    Some(Caller { principal, origin })
}

/// A name that people recognise, and that no other connection has.
fn client(name: &str, peer: &Peer) -> String {
    format!("{name}@{}", peer.address())
}

/// How a closed door reads where JSON-RPC or the SDLC agent server's REST is spoken, and where tokens
/// are given.
pub fn refusal(rejection: &Rejection, path: &str) -> Option<Value> {
    if sdlc::is_route(path) {
        return Some(json!({ "error": rejection.message, "reason": rejection.reason }));
    }
    if path == TOKEN {
        return Some(token::refusal(rejection));
    }
    let rpc = RPC.contains(&path) || tasks::PATHS.contains(&path);
    let code = match rejection.status {
        StatusCode::PAYLOAD_TOO_LARGE => -32600,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => -32005,
        _ => -32000,
    };
    rpc.then(|| {
        json!({
            "jsonrpc": "2.0",
            "id": null,
            "error": {
                "code": code,
                "message": rejection.message,
                "data": { "reason": rejection.reason },
            },
        })
    })
}
