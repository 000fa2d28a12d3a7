//! `POST` of JSON-RPC: all versions on one URL, and the paths of the legacy service.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use loggia_wire::jsonrpc::{self, Rejected};
use loggia_wire::{
    Body as Calls, Call, CallContext, Condition, DecodedRequest, Endpoint, Extension, FrameId, Id,
    KnownNames, StreamFormat, View, WireError, devtool, streams,
};
use tokio::time::Instant;

use super::BODY_LIMIT;
use super::sse::{self, EventFormat};
use crate::dispatch::Reply;
use crate::guard::Rejection;
use crate::serve::Stopping;
use crate::state::{Caller, Server};

/// Parsed once, because every request is searched for them.
static VERSION: HeaderName = HeaderName::from_static("a2a-version");
static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
static EXTENSIONS: [HeaderName; 2] =
    [HeaderName::from_static(devtool::HEADERS[0]), HeaderName::from_static(devtool::HEADERS[1])];

/// The parts of a request outside of its body.
#[derive(Clone)]
pub(crate) struct Envelope {
    pub caller: Caller,
    pub version: Option<String>,
    pub extension: Extension,
    pub endpoint: Endpoint,
    pub resume: Option<FrameId>,
    pub stopping: Stopping,
}

pub async fn post(State(server): State<Arc<Server>>, request: Request) -> Response {
    // Boxed: axum moves the future several times.
    Box::pin(answer(&server, request, Endpoint::JsonRpc)).await
}

pub(super) async fn answer(server: &Arc<Server>, request: Request, endpoint: Endpoint) -> Response {
    let Some(mut envelope) = Envelope::of(&request, endpoint) else {
        let error = Condition::Unauthenticated.into();
        return failure(&Id::NULL, endpoint.view(None), false, &error);
    };
    let view = endpoint.view(envelope.version.as_deref());
    let bytes = match server.read_body(request.into_body(), &envelope.caller).await {
        Ok(bytes) => bytes,
        Err(rejection) => return unreadable(&rejection, view),
    };
    let rejected = match jsonrpc::parse(&bytes, envelope.version.as_deref()) {
        Ok(Calls::One(call)) => {
            drop(bytes);
            return one(server, call, envelope).await;
        }
        Ok(Calls::Batch(calls)) => {
            drop(bytes);
            return Box::pin(batch(server, calls, &envelope)).await;
        }
        Err(rejected) => rejected,
    };
    if let WireError::InvalidRequest(_) = rejected.error {
        let new_task = || uuid::Uuid::now_v7().to_string();
        let owner = envelope.caller.principal.name.clone();
        if let Some(asked) = endpoint.read_bare(&bytes, &owner, new_task) {
            envelope.caller.origin.surface = view.surface();
            return Box::pin(respond(server, Id::NULL, view, true, asked, envelope)).await;
        }
    }
    let object = endpoint.view_of_rejected(&rejected).refuse(&rejected.error);
    with_status(jsonrpc::error_response(&rejected.id, &object), endpoint, object.http)
}

impl Envelope {
    pub fn of(request: &Request, endpoint: Endpoint) -> Option<Self> {
        let headers = request.headers();
        let version = asked_version(headers, request.uri());
        let resume = headers.get(&LAST_EVENT).and_then(|id| id.to_str().ok()?.parse().ok());
        Some(Self {
            caller: super::caller(request)?,
            version,
            extension: activated(headers),
            endpoint,
            resume,
            stopping: request.extensions().get::<Stopping>()?.clone(),
        })
    }
}

/// The version that a request names: in the header, or in the query for clients without headers.
pub(super) fn asked_version(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let header = headers.get(&VERSION).map(|value| {
        // A value that is not text is an unknown version, which is different from no version.
        value.to_str().unwrap_or("?").to_owned()
    });
    header.or_else(|| query_version(uri))
}

fn query_version(uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == "A2A-Version").map(|(_, value)| value.to_owned()).next()
}

fn activated(headers: &HeaderMap) -> Extension {
    let values = EXTENSIONS.iter().flat_map(|name| headers.get_all(name));
    devtool::activated_by_header(values.filter_map(|value| value.to_str().ok()))
}

/// Decodes a call, and tells the view in which it is answered.
async fn read(
    server: &Server,
    call: &Call,
    envelope: &mut Envelope,
) -> (View, Result<DecodedRequest, WireError>) {
    let Envelope { caller, version, extension, endpoint, .. } = envelope;
    // The look-ups here count for the time of the answer.
    caller.started = Some(Instant::now());
    let context = CallContext {
        version: version.as_deref(),
        extension: *extension,
        tenant: server.facts.tenant.as_deref(),
        owner: &caller.principal.name,
    };
    let known = match endpoint.task_names(call, context.owner) {
        None => KnownNames::default(),
        Some(names) => match Box::pin(server.known_names(&names)).await {
            Ok(known) => known,
            Err(error) => {
                return (endpoint.read(call, context, KnownNames::default()).0, Err(error));
            }
        },
    };
    let (view, asked) = endpoint.read(call, context, known);
    caller.origin.surface = view.surface();
    (view, asked)
}

async fn one(server: &Arc<Server>, call: Call, mut envelope: Envelope) -> Response {
    let (view, asked) = read(server, &call, &mut envelope).await;
    let (id, streaming) = (call.id.clone(), streams(&call.method, envelope.version.as_deref()));
    // The parsed call may be large, and the answer may take long.
    drop(call);
    respond(server, id, view, streaming, asked, envelope).await
}

async fn respond(
    server: &Arc<Server>,
    id: Id,
    view: View,
    streaming: bool,
    asked: Result<DecodedRequest, WireError>,
    envelope: Envelope,
) -> Response {
    let endpoint = envelope.endpoint;
    let failed = |error: &WireError| match endpoint.has_http_statuses() {
        true => {
            let object = view.refuse(error);
            with_status(jsonrpc::error_response(&id, &object), endpoint, object.http)
        }
        false => failure(&id, view, streaming, error),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(error) => return failed(&error),
    };
    let extension = asked.view.extension;
    let permit = match server.stream_permit(&asked, &envelope.caller) {
        Ok(permit) => permit,
        Err(error) => return failed(&error),
    };
    let response = match server.ask(asked, &envelope.caller, envelope.resume).await {
        Ok(Reply::Value(value)) => json(jsonrpc::response_of(&id, &value)),
        Ok(Reply::Frame(value)) => sse::once(&event_format(endpoint, &id), &value),
        Ok(Reply::Frames(frames)) => {
            let Envelope { caller, stopping, .. } = envelope;
            let format = event_format(endpoint, &id);
            sse::respond(format, view, frames, stopping, caller.principal.lifetime, permit)
        }
        Err(error) => return failed(&error),
    };
    named_extension(response, extension)
}

fn event_format(endpoint: Endpoint, id: &Id) -> EventFormat {
    match endpoint.stream_format() {
        StreamFormat::JsonRpc => EventFormat::Responses(id.clone()),
        StreamFormat::Bare => EventFormat::Bare,
        StreamFormat::Text => EventFormat::Text,
    }
}

/// Tells the client that the extension it asked for is on.
pub(crate) fn named_extension(mut response: Response, extension: Extension) -> Response {
    if extension == Extension::On {
        let value = HeaderValue::from_static(devtool::URI);
        for name in &EXTENSIONS {
            response.headers_mut().insert(name.clone(), value.clone());
        }
    }
    response
}

async fn batch(
    server: &Arc<Server>,
    calls: Vec<Result<Call, Rejected>>,
    envelope: &Envelope,
) -> Response {
    let answers = calls.into_iter().map(|call| async {
        let call = match call {
            Ok(call) => call,
            Err(rejected) => {
                let object = rejected.view().refuse(&rejected.error);
                return jsonrpc::error_response(&rejected.id, &object);
            }
        };
        let mut envelope = envelope.clone();
        let (view, asked) = read(server, &call, &mut envelope).await;
        let answer = match asked {
            Ok(asked) => server.ask(asked, &envelope.caller, None).await,
            Err(error) => Err(error),
        };
        let answer = answer.and_then(|reply| match reply {
            Reply::Value(value) => Ok(value),
            Reply::Frame(_) | Reply::Frames(_) => Err(Condition::Internal.into()),
        });
        match answer {
            Ok(value) => jsonrpc::response(&call.id, &value.to_string()),
            Err(error) => jsonrpc::error_response(&call.id, &view.refuse(&error)),
        }
    });
    let answers: Vec<String> = join_all(answers).await;
    json(format!("[{}]", answers.join(",")))
}

/// An error is HTTP 200 with a JSON-RPC error. Some clients that asked for a stream read only streams.
fn failure(id: &Id, view: View, streaming: bool, error: &WireError) -> Response {
    if streaming && view.refuses_in_stream() {
        return sse::refusal(id, view, error);
    }
    json(jsonrpc::error_response(id, &view.refuse(error)))
}

/// Sets the error's HTTP status on endpoints whose clients read it.
fn with_status(text: String, endpoint: Endpoint, status: u16) -> Response {
    let mut response = json(text);
    if let (true, Ok(status)) = (endpoint.has_http_statuses(), StatusCode::from_u16(status)) {
        *response.status_mut() = status;
    }
    response
}

/// A body that could not be read has no id. Its HTTP status tells the reason, too.
fn unreadable(rejection: &Rejection, view: View) -> Response {
    if rejection.status != StatusCode::PAYLOAD_TOO_LARGE {
        return rejection.into_response();
    }
    let object = view.refuse(&Condition::BodyTooLarge { limit: BODY_LIMIT }.into());
    let body = jsonrpc::error_response(&Id::NULL, &object);
    rejection.respond(serde_json::value::RawValue::from_string(body).ok())
}

fn json(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
