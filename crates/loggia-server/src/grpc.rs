//! gRPC, on the same port as all other bindings.
//!
//! It has no message types: [`transcode`] converts protocol buffers to the JSON of HTTP+JSON and back by the protocol files,
//! and requests are handled as on the other bindings. So the bindings differ in nothing but the bytes.

mod deadline;
mod health;
mod raw;
mod reflect;
pub mod transcode;

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body_util::Full;
use loggia_wire::card::proto_card;
use loggia_wire::{Condition, Endpoint, View, WireError};
use prost_reflect::MethodDescriptor;
use serde_json::json;
use tonic::Status;
use tower::service_fn;

use crate::auth::CredentialLifetime;
use crate::dispatch::{Reply, TaskFrames};
use crate::guard::{self, Rejection, StreamPermit};
use crate::http::routes;
use crate::http::rpc::{Envelope, named_extension};
use crate::http::{BODY_LIMIT, BODY_TIME};
use crate::projection::EncodedFrame;
use crate::serve::Stopping;
use crate::state::Server;
use deadline::Deadline;
use raw::Raw;

const NOT_GRPC: Rejection = Rejection::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "content-type",
    "This path speaks gRPC: use a gRPC client, or the HTTP+JSON paths.",
);

/// The messages of an answer: one, or a stream.
type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Health and reflection.
pub fn router() -> Router<Arc<Server>> {
    Router::new()
        .route("/grpc.health.v1.Health/{method}", post(health::call))
        .merge(reflect::router())
}

/// A call of an A2A service.
pub(crate) async fn call(
    server: Arc<Server>,
    view: View,
    service: &str,
    request: Request,
) -> Response {
    let Some(envelope) = Envelope::of(&request, Endpoint::JsonRpc) else {
        return failed(&Condition::Unauthenticated.into(), view).into_http::<Body>();
    };
    let deadline = Deadline::of(request.headers());
    let Some(method) = transcode::method(service, last_segment(&request)) else {
        return failed(&WireError::MethodNotFound, view).into_http::<Body>();
    };
    let (parts, body) = request.into_parts();
    let body = match server.read_body(body, &envelope.caller).await {
        Ok(bytes) => Body::from(bytes),
        Err(rejection) => return refusal(&rejection),
    };
    let request = Request::from_parts(parts, body);
    let call = Arc::new(Call { server, view, method, envelope, deadline });
    let extension = call.envelope.extension;
    let response = exchange(request, move |message| {
        let call = call.clone();
        async move {
            // Boxed: the future would be copied into all its wrappers.
            let answer = Box::pin(call.answer(message));
            let answered = deadline.within(answer).await?;
            answered.map_err(|error| failed(&error, view))
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
    // A single answer is a stream of one message.
    grpc.server_streaming(answer, Request::from_parts(parts, body)).await.map(Body::new)
}

struct Call {
    server: Arc<Server>,
    view: View,
    method: MethodDescriptor,
    envelope: Envelope,
    deadline: Deadline,
}

impl Call {
    async fn answer(&self, message: Bytes) -> Result<Messages, WireError> {
        let Call { server, view, method, envelope, deadline } = self;
        view.check_version(envelope.version.as_deref())?;
        let params = transcode::decode(&method.input(), &message)?;
        drop(message);
        view.check_tenant(server.facts.tenant.as_deref(), &params)?;
        let asked = view.decode(method.name(), &params, envelope.extension)?;
        drop(params);
        let output = method.output();
        let permit = server.stream_permit(&asked, &envelope.caller)?;
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
            Reply::Frames(frames) => {
                let stopping = envelope.stopping.clone();
                let streaming = Streaming {
                    frames,
                    view: *view,
                    output,
                    stopping,
                    lifetime: envelope.caller.principal.lifetime.clone(),
                    deadline: *deadline,
                    over: false,
                    _permit: permit,
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
    view: View,
    output: prost_reflect::MessageDescriptor,
    stopping: Stopping,
    lifetime: CredentialLifetime,
    deadline: Deadline,
    over: bool,
    _permit: Option<StreamPermit>,
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
            biased; // frames that are ready go out before the stream is ended
            () = self.lifetime.clone().ended() => {
                Some(vec![Err(failed(&Condition::Unauthenticated.into(), self.view))])
            }
            frames = self.frames.next() => match frames {
                Ok(Some(frames)) => Some(frames.iter().map(|frame| self.encoded(frame)).collect()),
                Ok(None) => None,
                Err(error) => Some(vec![Err(failed(&error, self.view))]),
            },
            () = self.stopping.requested() => {
                Some(vec![Err(Status::unavailable("The server is stopping: try again later"))])
            }
            () = self.deadline.over() => Some(vec![Err(deadline::exceeded())]),
        }
    }

    /// The first reader encodes a frame for all of them.
    fn encoded(&self, frame: &EncodedFrame) -> Result<Bytes, Status> {
        if let Some(known) = frame.protobuf.get() {
            return Ok(known.clone());
        }
        let bytes = transcode::encode(&self.output, &frame.body);
        let bytes = bytes.map_err(|error| failed(&error, self.view))?;
        Ok(frame.protobuf.get_or_init(|| bytes).clone())
    }
}

/// An error with its details.
fn failed(error: &WireError, view: View) -> Status {
    rich(&view.status(error))
}

fn rich(status: &loggia_wire::Status) -> Status {
    let code = status.rpc as i32;
    let whole = json!({ "code": code, "message": status.message, "details": status.details });
    let details = transcode::status(&whole).unwrap_or_default();
    Status::with_details(code.into(), status.message.as_str(), details)
}

/// A rejection by the guard or the authenticator.
pub fn refusal(rejection: &Rejection) -> Response {
    let Rejection { status, reason, message, .. } = rejection;
    rich(&routes::GRPC.rejection(status.as_u16(), reason, message)).into_http::<Body>()
}
