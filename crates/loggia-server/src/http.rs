//! The HTTP routes. Each of them moves bytes between a transport and [`Server::ask`](crate::state::Server::ask).

mod attach;
pub mod card;
mod rest;
pub(crate) mod routes;
pub mod rpc;
mod sdlc;
pub mod sse;
pub mod token;
pub mod ws;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use loggia_core::{Origin, Surface};
use loggia_wire::Endpoint;
use serde_json::json;

use crate::auth::Principal;
use crate::grpc;
use crate::guard::{self, Load, Rejection};
use crate::peer::Peer;
use crate::state::Caller;

pub use routes::{PUBLIC, router};

/// The largest request.
pub const BODY_LIMIT: usize = 10 * 1024 * 1024;

/// How long a body may take to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);

/// Issues tokens to registered clients.
pub const TOKEN: &str = "/oauth/token";

/// Paths that need a token even from processes of the local user: clients of the legacy service act for registered
/// clients.
pub const TOKEN_ALWAYS: &[&str] = routes::LEGACY;

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
    Some(Caller { load, ..Caller::new(principal, origin) })
}

/// A name that people recognise, unique for each connection.
fn client(name: &str, peer: &Peer) -> String {
    [name, "@", peer.address_text()].concat()
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
        path if routes::JSON_RPC.contains(&path) => Endpoint::JsonRpc,
        path if routes::LEGACY.contains(&path) => Endpoint::LegacyPolled,
        _ => return rest::refusal(rejection, request),
    };
    let version = rpc::asked_version(&request.headers, &request.uri);
    let view = endpoint.view(version.as_deref());
    let error = view.rejected_call(status.as_u16(), reason, message);
    Some(rejection.respond(json!({ "jsonrpc": "2.0", "id": null, "error": error })))
}
