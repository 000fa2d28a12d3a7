//! `POST`: JSON-RPC of both versions on one URL.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use loggia_wire::jsonrpc::{self, Rejected};
use loggia_wire::{
    Asked, Body as Calls, Call, Condition, Dialect, Extension, FrameId, Id, WireError,
    check_call_version, check_tenant, decode, devtool, dialect_of, refuse, streams,
};

use super::BODY_LIMIT;
use super::sse::{self, Around};
use crate::dispatch::Reply;
use crate::guard::{self, Rejection};
use crate::serve::Stopping;
use crate::state::{Caller, Server};

/// How long a body may take to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);

/// What a request says outside its body.
pub(crate) struct Envelope {
    pub caller: Caller,
    pub version: Option<String>,
    pub extension: Extension,
    pub resume: Option<FrameId>,
    pub stopping: Stopping,
}

pub async fn post(State(server): State<Arc<Server>>, request: Request) -> Response {
    let Some(envelope) = Envelope::of(&request) else {
        let error = Condition::Unauthenticated.into();
        return failure(&Id::NULL, Dialect::A2a03, false, &error);
    };
    let bytes = match guard::read_body(request.into_body(), BODY_LIMIT, BODY_TIME).await {
        Ok(bytes) => bytes,
        Err(rejection) => return unreadable(&rejection),
    };
    match jsonrpc::parse(&bytes) {
        Ok(Calls::One(call)) => one(&server, call, envelope).await,
        Ok(Calls::Batch(calls)) => batch(&server, calls, &envelope).await,
        Err(error) => rejected(&error),
    }
}

impl Envelope {
    pub fn of(request: &Request) -> Option<Self> {
        let headers = request.headers();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let version = asked_version(request);
        let resume = text("last-event-id").and_then(|id| id.parse().ok());
        Some(Self {
            caller: super::caller(request)?,
            version,
            extension: activated(headers),
            resume,
            stopping: request.extensions().get::<Stopping>()?.clone(),
        })
    }
}

/// The version that a request names: in the header, or for clients without headers in the query.
pub(super) fn asked_version(request: &Request) -> Option<String> {
    let header = request.headers().get("a2a-version").map(|value| {
        // What is no text is no version, and not the same as none.
        value.to_str().unwrap_or("?").to_owned()
    });
    header.or_else(|| query_version(request))
}

fn query_version(request: &Request) -> Option<String> {
    let query = request.uri().query()?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == "A2A-Version").map(|(_, value)| value.to_owned()).next()
}

fn activated(headers: &HeaderMap) -> Extension {
    let values = devtool::HEADERS.iter().flat_map(|name| headers.get_all(*name));
    devtool::activated_by_header(values.filter_map(|value| value.to_str().ok()))
}

async fn one(server: &Arc<Server>, call: Call, envelope: Envelope) -> Response {
    let id = call.id.clone();
    let dialect = dialect_of(&call.method).unwrap_or(Dialect::A2a03);
    let streaming = streams(&call.method);
    let asked = read(server, &call, &envelope);
    let (asked, extension) = match asked {
        Ok(asked) => {
            let extension = asked.view.extension;
            (asked, extension)
        }
        Err(error) => return failure(&id, dialect, streaming, &error),
    };
    let response = match server.ask(asked, &envelope.caller, envelope.resume).await {
        Ok(Reply::Value(value)) => json(jsonrpc::response(&id, &value.to_string())),
        Ok(Reply::Frame(value)) => sse::once(&Around::Rpc(id), &value),
        Ok(Reply::Frames(frames)) => match server.streams.admit(&envelope.caller.principal) {
            Ok(place) => sse::respond(Around::Rpc(id), dialect, frames, envelope.stopping, place),
            Err(_) => return failure(&id, dialect, streaming, &Condition::TooManyStreams.into()),
        },
        Err(error) => return failure(&id, dialect, streaming, &error),
    };
    named_extension(response, extension)
}

fn read(server: &Server, call: &Call, envelope: &Envelope) -> Result<Asked, WireError> {
    let dialect = dialect_of(&call.method).unwrap_or(Dialect::A2a03);
    check_call_version(envelope.version.as_deref(), call)?;
    check_tenant(server.facts.tenant.as_deref(), dialect, &call.params)?;
    decode(call, envelope.extension)
}

/// Tells the client that the extension it asked for is on.
pub(crate) fn named_extension(mut response: Response, extension: Extension) -> Response {
    if extension == Extension::On {
        let value = HeaderValue::from_static(devtool::URI);
        for name in ["a2a-extensions", "x-a2a-extensions"] {
            response.headers_mut().insert(name, value.clone());
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
            Err(Rejected { id, dialect, error }) => {
                return jsonrpc::error_response(&id, &refuse(&error, dialect));
            }
        };
        let dialect = dialect_of(&call.method).unwrap_or(Dialect::A2a03);
        let answer = match read(server, &call, envelope) {
            Ok(asked) => server.ask(asked, &envelope.caller, None).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(Reply::Value(value)) => jsonrpc::response(&call.id, &value.to_string()),
            Ok(Reply::Frame(_) | Reply::Frames(_)) => {
                jsonrpc::error_response(&call.id, &refuse(&Condition::Internal.into(), dialect))
            }
            Err(error) => jsonrpc::error_response(&call.id, &refuse(&error, dialect)),
        }
    });
    let answers: Vec<String> = join_all(answers).await;
    json(format!("[{}]", answers.join(",")))
}

/// An error is an answer like any other: HTTP 200 with a JSON-RPC error, as both versions say. A 0.3
/// client that asked for a stream reads streams only.
fn failure(id: &Id, dialect: Dialect, streaming: bool, error: &WireError) -> Response {
    if streaming && dialect == Dialect::A2a03 {
        return sse::refusal(id, dialect, error);
    }
    json(jsonrpc::error_response(id, &refuse(error, dialect)))
}

fn rejected(rejected: &Rejected) -> Response {
    json(jsonrpc::error_response(&rejected.id, &refuse(&rejected.error, rejected.dialect)))
}

/// A body that could not be read has no id; its HTTP status says what went wrong as well.
fn unreadable(rejection: &Rejection) -> Response {
    if rejection.status != StatusCode::PAYLOAD_TOO_LARGE {
        return rejection.into_response();
    }
    let object = refuse(&Condition::BodyTooLarge { limit: BODY_LIMIT }.into(), Dialect::A2a03);
    let body = jsonrpc::error_response(&Id::NULL, &object);
    rejection.respond(serde_json::value::RawValue::from_string(body).ok())
}

fn json(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
