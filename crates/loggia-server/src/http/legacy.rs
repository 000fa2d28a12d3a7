//! The paths of the legacy service. `/rpc` answers at once and is polled; python-a2a posts to one path per method, waits
//! for the result, reads HTTP statuses, and streams without an envelope.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::post;
use loggia_wire::Endpoint;

use super::rpc;
use crate::state::Server;

/// Paths that serve nothing but the legacy service.
pub const PATHS: &[&str] = &[
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

fn endpoint(path: &str) -> Endpoint {
    match path.strip_prefix("/a2a").unwrap_or(path) {
        "/rpc" => Endpoint::LegacyPolled,
        "/tasks/stream" => Endpoint::LegacyStream,
        "/stream" => Endpoint::LegacyText,
        _ => Endpoint::LegacyWaiting,
    }
}

pub fn router() -> Router<Arc<Server>> {
    PATHS.iter().fold(Router::new(), |router, path| {
        let endpoint = endpoint(path);
        let answer = move |State(server): State<Arc<Server>>, request: Request| async move {
            rpc::answer(&server, request, endpoint).await
        };
        router.route(path, post(answer))
    })
}
