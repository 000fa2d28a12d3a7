//! gRPC on the port of everything else: HTTP/2 with a content type of its own.
//!
//! There are no types of its own here. A message is read into the JSON form that HTTP+JSON has, by the
//! protocol files alone ([`transcode`]), and decoded, asked and projected as on every other binding;
//! what comes back goes the same way out. So nothing can differ between the bindings but the bytes.

mod deadline;
mod health;
mod raw;
mod reflect;
pub mod transcode;

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body_util::Full;
use loggia_wire::card::proto_card;
use loggia_wire::{
    Condition, Dialect, WireError, check_tenant, check_version, decode_method, refused_at_the_door,
    status,
};
use prost_reflect::MethodDescriptor;
use serde_json::json;
use tonic::Status;
use tower::service_fn;

use crate::auth::Tenure;
use crate::dispatch::{Reply, TaskFrames};
use crate::guard::{self, Rejection, StreamPermit};
use crate::http::rpc::{Envelope, named_extension};
use crate::http::tasks::Spoken;
use crate::http::{BODY_LIMIT, BODY_TIME};
use crate::projection::Encoded;
use crate::serve::Stopping;
use crate::state::Server;
use deadline::Deadline;
use raw::Raw;

const V1: &str = "lf.a2a.v1.A2AService";
const V03: &str = "a2a.v1.A2AService";

const NOT_GRPC: Rejection = Rejection::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "content-type",
    "This path speaks gRPC: use a gRPC client, or the HTTP+JSON paths.",
);

/// What goes out: one message, or as many as there are.
type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

pub fn router() -> Router<Arc<Server>> {
    Router::new()
        .route("/lf.a2a.v1.A2AService/{method}", post(version_1))
        .route("/a2a.v1.A2AService/{method}", post(version_03))
        .route("/grpc.health.v1.Health/{method}", post(health::call))
        .merge(reflect::router())
}

async fn version_1(State(server): State<Arc<Server>>, request: Request) -> Response {
    a2a(server, Dialect::A2a1, V1, request).await
}

async fn version_03(State(server): State<Arc<Server>>, request: Request) -> Response {
    a2a(server, Dialect::Proto03, V03, request).await
}

async fn a2a(server: Arc<Server>, dialect: Dialect, of: &str, request: Request) -> Response {
    let Some(envelope) = Envelope::of(&request, Spoken::Every) else {
        return failed(&Condition::Unauthenticated.into(), dialect).into_http::<Body>();
    };
    let deadline = Deadline::of(request.headers());
    let Some(method) = transcode::method(of, last_segment(&request)) else {
        return failed(&WireError::MethodNotFound, dialect).into_http::<Body>();
    };
    let (parts, body) = request.into_parts();
    let body = match server.read_body(body, &envelope.caller).await {
        Ok(bytes) => Body::from(bytes),
        Err(rejection) => return refusal(&rejection),
    };
    let request = Request::from_parts(parts, body);
    let asking = Arc::new(Asking { server, dialect, method, envelope, deadline });
    let extension = asking.envelope.extension;
    let response = exchange(request, move |message| {
        let asking = asking.clone();
        async move {
            // On the heap: it would be a part of all that is wrapped around it.
            let answer = Box::pin(asking.answer(message));
            let answered = deadline.within(answer).await?;
            answered.map_err(|error| failed(&error, dialect))
        }
    });
    named_extension(response.await, extension)
}

fn last_segment(request: &Request) -> &str {
    request.uri().path().rsplit('/').next().unwrap_or_default()
}

/// One message in, messages out.
async fn exchange<Answered>(request: Request, mut answer: impl FnMut(Bytes) -> Answered) -> Response
where
    Answered: Future<Output = Result<Messages, Status>>,
{
    let (parts, body) = request.into_parts();
    if !guard::is_grpc(&parts) {
        return NOT_GRPC.into_response();
    }
    let body = match guard::read_body(body, BODY_LIMIT, BODY_TIME).await {
        Ok(bytes) => Full::new(bytes),
        Err(rejection) => return refusal(&rejection),
    };
    let mut grpc = tonic::server::Grpc::new(Raw).max_decoding_message_size(BODY_LIMIT);
    let answer = service_fn(move |request: tonic::Request<Bytes>| {
        let answered = answer(request.into_inner());
        async move { answered.await.map(tonic::Response::new) }
    });
    // On the wire one message is a stream of one.
    grpc.server_streaming(answer, Request::from_parts(parts, body)).await.map(Body::new)
}

/// One call and all that its answer needs.
struct Asking {
    server: Arc<Server>,
    dialect: Dialect,
    method: MethodDescriptor,
    envelope: Envelope,
    deadline: Deadline,
}

impl Asking {
    async fn answer(&self, message: Bytes) -> Result<Messages, WireError> {
        let Asking { server, dialect, method, envelope, deadline } = self;
        check_version(envelope.version.as_deref(), *dialect)?;
        let params = transcode::decode(&method.input(), &message)?;
        drop(message);
        check_tenant(server.facts.tenant.as_deref(), *dialect, &params)?;
        let asked = decode_method(*dialect, method.name(), &params, envelope.extension)?;
        drop(params);
        let output = method.output();
        let place = server.place_for(&asked, &envelope.caller)?;
        match server.ask(asked, &envelope.caller, envelope.resume).await? {
            Reply::Value(value) => {
                let value = match method.name() {
                    "GetAgentCard" => proto_card(value),
                    _ => value,
                };
                Ok(only(transcode::encode(&output, value.to_string().as_bytes())?))
            }
            Reply::Frame(value) => {
                Ok(only(transcode::encode(&output, value.to_string().as_bytes())?))
            }
            Reply::Written(text) => Ok(only(transcode::encode(&output, text.as_bytes())?)),
            Reply::Frames(frames) => {
                let stopping = envelope.stopping.clone();
                let streaming = Streaming {
                    frames,
                    dialect: *dialect,
                    output,
                    stopping,
                    tenure: envelope.caller.principal.tenure.clone(),
                    deadline: *deadline,
                    over: false,
                    _place: place,
                };
                Ok(streaming.messages())
            }
        }
    }
}

fn only(message: Bytes) -> Messages {
    Box::pin(futures::stream::once(async move { Ok(message) }))
}

struct Streaming {
    frames: TaskFrames,
    dialect: Dialect,
    output: prost_reflect::MessageDescriptor,
    stopping: Stopping,
    tenure: Tenure,
    deadline: Deadline,
    over: bool,
    _place: Option<StreamPermit>,
}

impl Streaming {
    fn messages(self) -> Messages {
        let batches = futures::stream::unfold(self, |mut this| async move {
            if this.over {
                return None;
            }
            let batch = this.next().await?;
            this.over = batch.iter().any(Result::is_err);
            Some((futures::stream::iter(batch), this))
        });
        Box::pin(batches.flatten())
    }

    async fn next(&mut self) -> Option<Vec<Result<Bytes, Status>>> {
        tokio::select! {
            biased; // a frame that is there goes out before the stream is ended
            () = self.tenure.clone().over() => {
                Some(vec![Err(failed(&Condition::Unauthenticated.into(), self.dialect))])
            }
            frames = self.frames.next() => match frames {
                Ok(Some(frames)) => Some(frames.iter().map(|frame| self.encoded(frame)).collect()),
                Ok(None) => None,
                Err(error) => Some(vec![Err(failed(&error, self.dialect))]),
            },
            () = self.stopping.told() => {
                Some(vec![Err(Status::unavailable("The server is stopping: come back later"))])
            }
            () = self.deadline.over() => Some(vec![Err(deadline::exceeded())]),
        }
    }

    /// Encoded by the first reader who gets it, for all.
    fn encoded(&self, frame: &Encoded) -> Result<Bytes, Status> {
        if let Some(known) = frame.protobuf.get() {
            return Ok(known.clone());
        }
        let bytes = transcode::encode(&self.output, &frame.body);
        let bytes = bytes.map_err(|error| failed(&error, self.dialect))?;
        Ok(frame.protobuf.get_or_init(|| bytes).clone())
    }
}

/// An error with its details, as §10.6 has it.
fn failed(error: &WireError, dialect: Dialect) -> Status {
    let status = status(error, dialect);
    rich(&status)
}

fn rich(status: &loggia_wire::Status) -> Status {
    let code = status.rpc as i32;
    let whole = json!({ "code": code, "message": status.message, "details": status.details });
    let details = transcode::status(&whole).unwrap_or_default();
    Status::with_details(code.into(), status.message.as_str(), details)
}

/// A closed door as gRPC clients read it.
pub fn refusal(rejection: &Rejection) -> Response {
    let Rejection { status, reason, message, .. } = rejection;
    let status = refused_at_the_door(status.as_u16(), reason, message, Dialect::A2a1);
    rich(&status).into_http::<Body>()
}
