//! HTTP+JSON of all versions: every path that has no other route. `loggia-wire` knows the method of each path.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use loggia_wire::rest::{self, NoRoute, Route};
use loggia_wire::{Condition, DecodedRequest, Endpoint, Status, WireError};

use super::rpc::{Envelope, asked_version, named_extension};
use super::sse::{self, EventFormat};
use crate::dispatch::Reply;
use crate::guard::{self, Rejection};
use crate::state::Server;

const PLAIN: &str = "application/json";

const NOTHING_HERE: Rejection =
    Rejection::new(StatusCode::NOT_FOUND, "not-found", "There is nothing at this path.");

const OTHER_VERB: Rejection = Rejection::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "method-not-allowed",
    "This path does not support this method.",
);

pub async fn any(State(server): State<Arc<Server>>, request: Request) -> Response {
    let version = asked_version(request.headers(), request.uri());
    let route = rest::route(request.method().as_str(), request.uri().path(), version.as_deref());
    let route = match route {
        Ok(route) => route,
        Err(NoRoute::Unknown) => return NOTHING_HERE.into_response(),
        Err(NoRoute::Verb) => {
            let verbs = rest::verbs(request.uri().path(), version.as_deref());
            return other_verb(&verbs);
        }
    };
    let media = media_types(&route, request.headers());
    // Boxed: the future would be copied into all its wrappers.
    match Box::pin(answer(&server, &route, request, media.answer)).await {
        Ok(response) => response,
        Err(Failure::Rejected(rejection)) => refused(&rejection, &route, media.error),
        Err(Failure::Wire(error)) => failed(&route.view().status(&error), media.error),
    }
}

/// Names the allowed methods (RFC 9110, §15.5.6).
fn other_verb(allowed: &[&str]) -> Response {
    let mut response = OTHER_VERB.into_response();
    let allowed = HeaderValue::try_from(allowed.join(", ")).ok();
    response.headers_mut().extend(allowed.map(|allowed| (header::ALLOW, allowed)));
    response
}

enum Failure {
    Rejected(Rejection),
    Wire(WireError),
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Failure::Wire(error)
    }
}

async fn answer(
    server: &Arc<Server>,
    route: &Route,
    request: Request,
    media: &'static str,
) -> Result<Response, Failure> {
    let envelope = Envelope::of(&request, Endpoint::JsonRpc);
    let envelope = envelope.ok_or_else(|| WireError::from(Condition::Unauthenticated))?;
    route.view().check_version(envelope.version.as_deref())?;
    let (parts, body) = request.into_parts();
    if guard::is_grpc(&parts) {
        return Err(WireError::from(Condition::NotJson).into());
    }
    let bytes = server.read_body(body, &envelope.caller).await.map_err(Failure::Rejected)?;
    let asked = read(server, route, &parts, &bytes, &envelope)?;
    drop(bytes);
    let extension = asked.view.extension;
    let permit = server.stream_permit(&asked, &envelope.caller)?;
    let response = match server.ask(asked, &envelope.caller, envelope.resume).await? {
        Reply::Value(value) => json(value.to_string(), media),
        Reply::Frame(value) => sse::once(&EventFormat::Events, &value),
        Reply::Frames(frames) => {
            let Envelope { caller, stopping, .. } = envelope;
            let lifetime = caller.principal.lifetime;
            sse::respond(EventFormat::Events, route.view(), frames, stopping, lifetime, permit)
        }
    };
    Ok(named_extension(response, extension))
}

fn read(
    server: &Server,
    route: &Route,
    parts: &Parts,
    body: &[u8],
    envelope: &Envelope,
) -> Result<DecodedRequest, WireError> {
    let params = route.params(parts.uri.query(), body)?;
    route.view().check_tenant(server.facts.tenant.as_deref(), &params)?;
    route.view().decode(route.method, &params, envelope.extension)
}

struct MediaTypes {
    answer: &'static str,
    error: &'static str,
}

/// The media type that the client uses, of those that the version has. Without one, answers have the version's preferred
/// type and errors are plain JSON, which all clients read.
fn media_types(route: &Route, headers: &HeaderMap) -> MediaTypes {
    let names = |name: &header::HeaderName, what: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(what))
    };
    let offered = route.media_types();
    let used = [header::CONTENT_TYPE, header::ACCEPT].iter().find_map(|name| {
        let named = |what: &&'static str| names(name, what);
        offered.iter().copied().find(named)
    });
    let preferred = offered.first().copied().unwrap_or(PLAIN);
    MediaTypes { answer: used.unwrap_or(preferred), error: used.unwrap_or(PLAIN) }
}

fn json(text: String, media: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

fn failed(status: &Status, media: &'static str) -> Response {
    let mut response = json(status.body.to_string(), media);
    let code = StatusCode::from_u16(status.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.status_mut() = code;
    response
}

/// A rejection in the form of the binding, with its own status and headers.
fn refused(rejection: &Rejection, route: &Route, media: &'static str) -> Response {
    let Rejection { status, reason, message, .. } = rejection;
    let body = route.view().rejection(status.as_u16(), reason, message).body;
    let mut response = rejection.respond(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A rejection before a route is reached. None if no version has this path.
pub fn refusal(rejection: &Rejection, request: &Parts) -> Option<Response> {
    let version = request.headers.get("a2a-version").and_then(|value| value.to_str().ok());
    let route = rest::route(request.method.as_str(), request.uri.path(), version).ok()?;
    let media = media_types(&route, &request.headers);
    Some(refused(rejection, &route, media.error))
}
