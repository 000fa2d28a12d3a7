//! HTTP+JSON of both versions: whatever path no other route has. Bytes in, bytes out; which path is
//! which method is known by `loggia-wire`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use loggia_wire::rest::{self, NoRoute, Route};
use loggia_wire::{
    Asked, Condition, Dialect, Status, WireError, check_tenant, check_version, decode_method,
    refused_at_the_door, status,
};

use super::rpc::{Envelope, asked_version, named_extension};
use super::sse::{self, Form};
use super::tasks::Spoken;
use crate::dispatch::Reply;
use crate::guard::{self, Rejection};
use crate::state::Server;

const PLAIN: &str = "application/json";
const OWN: &str = "application/a2a+json";

const NOTHING_HERE: Rejection =
    Rejection::new(StatusCode::NOT_FOUND, "not-found", "There is nothing at this path.");

const OTHER_VERB: Rejection = Rejection::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "method-not-allowed",
    "This path is not asked for with this method.",
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
    let media = media_type(route.dialect, request.headers());
    let (plain, own) = (media.unwrap_or(PLAIN), media.unwrap_or(OWN));
    // On the heap: it would be a part of all that is wrapped around it.
    match Box::pin(answer(&server, &route, request, own)).await {
        Ok(response) => response,
        Err(Failure::Door(rejection)) => refused(&rejection, route.dialect, plain),
        Err(Failure::Wire(error)) => failed(&status(&error, route.dialect), plain),
    }
}

/// Says which ones would do (RFC 9110, §15.5.6).
fn other_verb(allowed: &[&str]) -> Response {
    let mut response = OTHER_VERB.into_response();
    let allowed = HeaderValue::try_from(allowed.join(", ")).ok();
    response.headers_mut().extend(allowed.map(|allowed| (header::ALLOW, allowed)));
    response
}

enum Failure {
    Door(Rejection),
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
    let envelope = Envelope::of(&request, Spoken::Every);
    let envelope = envelope.ok_or_else(|| WireError::from(Condition::Unauthenticated))?;
    check_version(envelope.version.as_deref(), route.dialect)?;
    let (parts, body) = request.into_parts();
    if guard::is_grpc(&parts) {
        return Err(WireError::from(Condition::NotJson).into());
    }
    let bytes = server.read_body(body, &envelope.caller).await.map_err(Failure::Door)?;
    let asked = read(server, route, &parts, &bytes, &envelope)?;
    drop(bytes);
    let extension = asked.view.extension;
    let place = server.place_for(&asked, &envelope.caller)?;
    let response = match server.ask(asked, &envelope.caller, envelope.resume).await? {
        Reply::Value(value) => json(value.to_string(), media),
        Reply::Written(text) => json(text, media),
        Reply::Frame(value) => sse::once(&Form::Events, &value),
        Reply::Frames(frames) => {
            let Envelope { caller, stopping, .. } = envelope;
            let tenure = caller.principal.tenure;
            sse::respond(Form::Events, route.dialect, frames, stopping, tenure, place)
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
) -> Result<Asked, WireError> {
    let params = route.params(parts.uri.query(), body)?;
    check_tenant(server.facts.tenant.as_deref(), route.dialect, &params)?;
    decode_method(route.dialect, route.method, &params, envelope.extension)
}

/// 1.0 has a media type of its own, and clients that do not know it yet: each is answered in the one
/// it uses. Whoever names none gets the protocol's own, and errors as plain JSON, which is what 1.0.0
/// said and everybody reads. 0.3 is plain JSON.
fn media_type(dialect: Dialect, headers: &HeaderMap) -> Option<&'static str> {
    let names = |name: &header::HeaderName, what: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(what))
    };
    if dialect == Dialect::Proto03 {
        return Some(PLAIN);
    }
    [header::CONTENT_TYPE, header::ACCEPT].iter().find_map(|name| {
        let named = |what: &&'static str| names(name, what);
        [OWN, PLAIN].into_iter().find(named)
    })
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

/// A closed door in the words of the binding; its status and headers stay.
fn refused(rejection: &Rejection, dialect: Dialect, media: &'static str) -> Response {
    let Rejection { status, reason, message, .. } = rejection;
    let body = refused_at_the_door(status.as_u16(), reason, message, dialect).body;
    let mut response = rejection.respond(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// The same before a route is reached. None where the path is none of ours.
pub fn refusal(rejection: &Rejection, request: &Parts) -> Option<Response> {
    let version = request.headers.get("a2a-version").and_then(|value| value.to_str().ok());
    let route = rest::route(request.method.as_str(), request.uri.path(), version).ok()?;
    let media = media_type(route.dialect, &request.headers).unwrap_or(PLAIN);
    Some(refused(rejection, route.dialect, media))
}
