//! `grpc.health.v1.Health`: serving until the server is told to stop.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use prost_reflect::MessageDescriptor;
use serde_json::{Value, json};
use tonic::Status;

use super::{Messages, exchange, last_segment, only, transcode};
use crate::http::routes::GRPC_SERVICES;
use crate::serve::Stopping;

pub const NAME: &str = "grpc.health.v1.Health";

pub async fn call(request: Request) -> Response {
    let stopping = request.extensions().get::<Stopping>().cloned();
    let method = transcode::method(NAME, last_segment(&request));
    let (Some(stopping), Some(method)) = (stopping, method) else {
        return Status::unimplemented("There is no such method").into_http::<Body>();
    };
    exchange(request, move |message| {
        let (method, stopping) = (method.clone(), stopping.clone());
        async move {
            let asked = transcode::decode(&method.input(), &message);
            let asked = asked.map_err(|error| Status::invalid_argument(error.to_string()))?;
            let about = asked.get("service").and_then(Value::as_str).unwrap_or_default();
            let known = GRPC_SERVICES.contains(&about) || ["", NAME].contains(&about);
            match method.name() {
                "Watch" => Ok(watch(known, method.output(), stopping)),
                _ if known => Ok(only(encoded(&method.output(), serving(&stopping))?)),
                _ => Err(Status::not_found("There is no such service here")),
            }
        }
    })
    .await
}

fn serving(stopping: &Stopping) -> &'static str {
    if stopping.is_stopping() { "NOT_SERVING" } else { "SERVING" }
}

fn encoded(output: &MessageDescriptor, status: &str) -> Result<Bytes, Status> {
    let encoded = transcode::encode(output, json!({ "status": status }).to_string().as_bytes());
    encoded.map_err(|error| Status::internal(error.to_string()))
}

/// The status now, and the one change to it: the server stops.
fn watch(known: bool, output: MessageDescriptor, stopping: Stopping) -> Messages {
    let now = encoded(&output, if known { serving(&stopping) } else { "SERVICE_UNKNOWN" });
    let end = futures::stream::once(async move {
        stopping.requested().await;
        encoded(&output, if known { "NOT_SERVING" } else { "SERVICE_UNKNOWN" })
    });
    Box::pin(futures::stream::once(async move { now }).chain(end))
}
