//! Reflection, for clients without the protocol files. Both versions of it, because clients use either.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt;
use tonic_reflection::server::Builder;
use tower::{Service, ServiceExt};

use super::{NOT_GRPC, transcode};
use crate::guard;
use crate::serve::Stopping;
use crate::state::Server;

/// How long one reflection stream lasts. Clients open another one.
const AT_MOST: Duration = Duration::from_secs(60);

/// Reads the descriptors with the first request: they take megabytes of memory, and few clients need them.
pub fn router() -> Router<Arc<Server>> {
    let builder =
        || Builder::configure().register_encoded_file_descriptor_set(transcode::DESCRIPTORS);
    // Only reading the descriptors can fail, and a test reads them, too.
    let v1 = Arc::new(LazyLock::new(move || builder().build_v1().ok()));
    let v1alpha = Arc::new(LazyLock::new(move || builder().build_v1alpha().ok()));
    let v1 = move |request| answered(LazyLock::force(&v1).clone(), request);
    let v1alpha = move |request| answered(LazyLock::force(&v1alpha).clone(), request);
    Router::new()
        .route("/grpc.reflection.v1.ServerReflection/{method}", post(v1))
        .route("/grpc.reflection.v1alpha.ServerReflection/{method}", post(v1alpha))
}

/// Ends the request stream, and so the answers, after the time limit or when the server stops.
async fn answered<S, B>(reflection: Option<S>, request: Request) -> Response
where
    S: Service<Request, Response = axum::http::Response<B>, Error = std::convert::Infallible>,
    axum::http::Response<B>: IntoResponse,
{
    let (parts, body) = request.into_parts();
    let stopping = parts.extensions.get::<Stopping>().cloned();
    let (true, Some(stopping)) = (guard::is_grpc(&parts), stopping) else {
        return NOT_GRPC.into_response();
    };
    let until = async move {
        tokio::select! {
            () = stopping.requested() => {}
            () = tokio::time::sleep(AT_MOST) => {}
        }
    };
    let Some(reflection) = reflection else { return StatusCode::NOT_FOUND.into_response() };
    let questions = body.into_data_stream().take_until(Box::pin(until));
    let request = Request::from_parts(parts, Body::from_stream(questions));
    match reflection.oneshot(request).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    }
}
