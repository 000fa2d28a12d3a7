//! Reflection: what there is to call, for clients that bring no protocol files. Both versions of it,
//! because clients ask for either.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt;
use tonic_reflection::server::Builder;
use tower::{Service, ServiceExt};

use super::{NOT_GRPC, transcode};
use crate::guard;
use crate::serve::Stopping;
use crate::state::Server;

/// How long somebody may look around. Whoever has more questions asks again.
const AT_MOST: Duration = Duration::from_secs(60);

pub fn router() -> Router<Arc<Server>> {
    let builder =
        || Builder::configure().register_encoded_file_descriptor_set(transcode::DESCRIPTORS);
    let mut router = Router::new();
    // All that can fail is reading the descriptors, and a test reads them too.
    if let Ok(v1) = builder().build_v1() {
        let answer = move |request| answered(v1.clone(), request);
        router = router.route("/grpc.reflection.v1.ServerReflection/{method}", post(answer));
    }
    if let Ok(v1alpha) = builder().build_v1alpha() {
        let answer = move |request| answered(v1alpha.clone(), request);
        router = router.route("/grpc.reflection.v1alpha.ServerReflection/{method}", post(answer));
    }
    router
}

/// The questions end when the time is over or the server stops, and with them the answers.
async fn answered<S, B>(reflection: S, request: Request) -> Response
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
            () = stopping.told() => {}
            () = tokio::time::sleep(AT_MOST) => {}
        }
    };
    let questions = body.into_data_stream().take_until(Box::pin(until));
    let request = Request::from_parts(parts, Body::from_stream(questions));
    match reflection.oneshot(request).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    }
}
