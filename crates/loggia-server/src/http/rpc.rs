//! `POST`: JSON-RPC of both versions on one URL.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::future::{BoxFuture, join_all};
use loggia_wire::jsonrpc::{self, Rejected};
use loggia_wire::{
    Asked, Body as Calls, Call, Condition, Dialect, Extension, FrameId, Id, WireError, devtool,
    refuse, streams,
};

use super::tasks::{self, Spoken};
use super::{BODY_LIMIT, sse};
use crate::dispatch::Reply;
use crate::guard::Rejection;
use crate::serve::Stopping;
use crate::state::{Caller, Server};

/// Read of every request: known here as what they are, so that they are not read as names first.
static VERSION: HeaderName = HeaderName::from_static("a2a-version");
static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
static EXTENSIONS: [HeaderName; 2] =
    [HeaderName::from_static(devtool::HEADERS[0]), HeaderName::from_static(devtool::HEADERS[1])];

/// What a request says outside its body.
#[derive(Clone)]
pub(crate) struct Envelope {
    pub caller: Caller,
    pub version: Option<String>,
    pub extension: Extension,
    pub spoken: Spoken,
    pub resume: Option<FrameId>,
    pub stopping: Stopping,
}

/// Boxed here, because who calls it would move it from hand to hand first.
pub fn post(State(server): State<Arc<Server>>, request: Request) -> BoxFuture<'static, Response> {
    Box::pin(async move { answer(&server, request, Spoken::Every).await })
}

pub(super) async fn answer(server: &Arc<Server>, request: Request, spoken: Spoken) -> Response {
    let Some(mut envelope) = Envelope::of(&request, spoken) else {
        let error = Condition::Unauthenticated.into();
        return failure(&Id::NULL, spoken.dialect(None), false, &error);
    };
    let dialect = spoken.dialect(envelope.version.as_deref());
    let bytes = match server.read_body(request.into_body(), &envelope.caller).await {
        Ok(bytes) => bytes,
        Err(rejection) => return unreadable(&rejection, dialect),
    };
    match jsonrpc::parse(&bytes) {
        Ok(Calls::One(call)) => {
            drop(bytes);
            one(server, call, envelope).await
        }
        Ok(Calls::Batch(calls)) => {
            drop(bytes);
            Box::pin(batch(server, calls, &envelope)).await
        }
        Err(Rejected { error: WireError::InvalidRequest(_), .. })
            if let Some(asked) = tasks::read_bare(&bytes, &mut envelope) =>
        {
            Box::pin(respond(server, Id::NULL, dialect, true, asked, envelope)).await
        }
        Err(error) => {
            let object =
                refuse(&error.error, if spoken == Spoken::Every { error.dialect } else { dialect });
            with_status(jsonrpc::error_response(&error.id, &object), spoken, object.http)
        }
    }
}

impl Envelope {
    pub fn of(request: &Request, spoken: Spoken) -> Option<Self> {
        let headers = request.headers();
        let version = asked_version(headers, request.uri());
        let resume = headers.get(&LAST_EVENT).and_then(|id| id.to_str().ok()?.parse().ok());
        Some(Self {
            caller: super::caller(request)?,
            version,
            extension: activated(headers),
            spoken,
            resume,
            stopping: request.extensions().get::<Stopping>()?.clone(),
        })
    }
}

/// The version that a request names: in the header, or for clients without headers in the query.
pub(super) fn asked_version(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let header = headers.get(&VERSION).map(|value| {
        // What is no text is no version, and not the same as none.
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

async fn one(server: &Arc<Server>, call: Call, mut envelope: Envelope) -> Response {
    let (dialect, asked) = tasks::read(server, &call, &mut envelope).await;
    let (id, streaming) = (call.id.clone(), streams(&call.method));
    // What was read of it is large where the message is, and an answer may take long.
    drop(call);
    respond(server, id, dialect, streaming, asked, envelope).await
}

async fn respond(
    server: &Arc<Server>,
    id: Id,
    dialect: Dialect,
    streaming: bool,
    asked: Result<Asked, WireError>,
    envelope: Envelope,
) -> Response {
    let spoken = envelope.spoken;
    let failed = |error: &WireError| match spoken.has_statuses() {
        true => {
            let object = refuse(error, dialect);
            with_status(jsonrpc::error_response(&id, &object), spoken, object.http)
        }
        false => failure(&id, dialect, streaming, error),
    };
    let (asked, extension) = match asked {
        Ok(asked) => {
            let extension = asked.view.extension;
            (asked, extension)
        }
        Err(error) => return failed(&error),
    };
    let place = match server.place_for(&asked, &envelope.caller) {
        Ok(place) => place,
        Err(error) => return failed(&error),
    };
    let response = match server.ask(asked, &envelope.caller, envelope.resume).await {
        Ok(Reply::Value(value)) => json(jsonrpc::response_of(&id, &value)),
        Ok(Reply::Written(text)) => json(jsonrpc::response(&id, &text)),
        Ok(Reply::Frame(value)) => sse::once(&spoken.form(&id), &value),
        Ok(Reply::Frames(frames)) => {
            let Envelope { caller, stopping, .. } = envelope;
            let form = spoken.form(&id);
            sse::respond(form, dialect, frames, stopping, caller.principal.tenure, place)
        }
        Err(error) => return failed(&error),
    };
    named_extension(response, extension)
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
            Err(Rejected { id, dialect, error }) => {
                return jsonrpc::error_response(&id, &refuse(&error, dialect));
            }
        };
        let mut envelope = envelope.clone();
        let (dialect, asked) = tasks::read(server, &call, &mut envelope).await;
        let answer = match asked {
            Ok(asked) => server.ask(asked, &envelope.caller, None).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(Reply::Value(value)) => jsonrpc::response(&call.id, &value.to_string()),
            Ok(Reply::Written(text)) => jsonrpc::response(&call.id, &text),
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
    if streaming && dialect != Dialect::A2a1 {
        return sse::refusal(id, dialect, error);
    }
    json(jsonrpc::error_response(id, &refuse(error, dialect)))
}

/// Where clients read HTTP statuses, the error has its own.
fn with_status(text: String, spoken: Spoken, status: u16) -> Response {
    let mut response = json(text);
    if let (true, Ok(status)) = (spoken.has_statuses(), StatusCode::from_u16(status)) {
        *response.status_mut() = status;
    }
    response
}

/// A body that could not be read has no id; its HTTP status says what went wrong as well.
fn unreadable(rejection: &Rejection, dialect: Dialect) -> Response {
    if rejection.status != StatusCode::PAYLOAD_TOO_LARGE {
        return rejection.into_response();
    }
    let object = refuse(&Condition::BodyTooLarge { limit: BODY_LIMIT }.into(), dialect);
    let body = jsonrpc::error_response(&Id::NULL, &object);
    rejection.respond(serde_json::value::RawValue::from_string(body).ok())
}

fn json(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
