//! The HTTP routes. Each of them moves bytes between a transport and [`Server::ask`].

mod attach;
pub mod card;
mod legacy;
mod rest;
pub(crate) mod routes;
pub mod rpc;
mod sdlc;
pub mod sse;
pub mod token;
pub mod ws;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use loggia_core::{Origin, Surface};
use loggia_wire::Endpoint;
use serde_json::json;

use crate::auth::Principal;
use crate::grpc;
use crate::guard::{self, Load, Rejection};
use crate::peer::Peer;
use crate::state::{Caller, Server};

pub use routes::public_paths;

/// The largest request.
pub const BODY_LIMIT: usize = 10 * 1024 * 1024;

/// How long a body may take to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);

/// Issues tokens to registered clients.
pub const TOKEN: &str = "/oauth/token";

/// Paths that need a token even from processes of the local user: clients of the legacy service act for registered
/// clients.
pub const TOKEN_ALWAYS: &[&str] = legacy::PATHS;

pub fn router(server: Arc<Server>) -> Router {
    let json_rpc = routes::json_rpc();
    let router = json_rpc.fold(Router::new(), |router, path| router.route(&path, post(rpc::post)));
    let router = routes::VERSIONS.iter().fold(router, |router, version| {
        let view = version.view;
        let answer = move |State(server), headers| card::of_version(server, headers, view);
        router.route(version.card_path, get(answer))
    });
    let legacy_cards = routes::LEGACY_CARDS.iter();
    let router = legacy_cards.fold(router, |router, path| router.route(path, get(card::legacy)));
    router
        .route(routes::CARD, get(card::root))
        .route("/ws", get(ws::upgrade))
        .route(TOKEN, post(token::post))
        .route("/tasks", post(sdlc::open_task))
        .route("/tasks/metadata", get(sdlc::all_metadata))
        .route("/tasks/{id}/metadata", get(sdlc::metadata))
        .route("/message/stream", post(sdlc::message))
        .route("/executeCommand", post(sdlc::execute))
        .route("/listCommands", get(sdlc::commands))
        .route(routes::HEALTH, get(|| async { "ok\n" }))
        .merge(legacy::router())
        // Named, because the POST route of this path would otherwise answer 405.
        .route("/tasks", get(rest::any))
        .fallback(rest::any)
        .merge(grpc::router())
        .with_state(server)
}

/// The client of a request, as the guard identified it. Clients of one principal are distinguished by their connection,
/// so that the loser of a race is not taken for a retry of the winner.
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

/// A name that people recognise, unique for each connection.
fn client(name: &str, peer: &Peer) -> String {
    [name, "@", peer.written_address()].concat()
}

/// A rejection by the guard or the authenticator in the form of each binding.
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
    let endpoint = match path {
        path if routes::json_rpc().any(|rpc| rpc == path) => Endpoint::JsonRpc,
        path if legacy::PATHS.contains(&path) => Endpoint::LegacyPolled,
        _ => return rest::refusal(rejection, request),
    };
    let version = rpc::asked_version(&request.headers, &request.uri);
    let view = endpoint.view(version.as_deref());
    let error = view.rejected_call(status.as_u16(), reason, message);
    Some(rejection.respond(json!({ "jsonrpc": "2.0", "id": null, "error": error })))
}
