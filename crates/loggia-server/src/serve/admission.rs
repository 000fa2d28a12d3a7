//! Wraps a router in the guard and the authenticator. A router cannot be served without them.
//!
//! Knows no route. [`Render`] writes rejections in the form of an endpoint.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use tower::{ServiceExt, service_fn};

use crate::auth::Authenticator;
use crate::guard::{CorsHeaders, Guard, Rejection, drain};

/// Writes a rejection in the form of the request's endpoint. None: the default form.
pub type Render = fn(rejection: &Rejection, request: &Parts) -> Option<Response>;

pub struct Admission {
    guard: Guard,
    authenticator: Authenticator,
    render: Render,
}

/// A router behind the guard and the authenticator: the argument of [`serve`](super::serve).
#[derive(Clone)]
pub struct Guarded {
    admission: Arc<Admission>,
    router: Router,
}

impl Admission {
    pub fn new(guard: Guard, authenticator: Authenticator) -> Self {
        Self { guard, authenticator, render: |_, _| None }
    }

    /// Sets how rejections are written.
    pub fn rendering(mut self, render: Render) -> Self {
        self.render = render;
        self
    }

    /// Protects all routes of the router, and its fallback.
    pub fn protect(self, router: Router) -> Guarded {
        Guarded { admission: Arc::new(self), router }
    }

    async fn admit(
        &self,
        mut parts: Parts,
        body: Body,
        cors: &CorsHeaders,
    ) -> Result<Request, Response> {
        let judged = match self.guard.check(&parts, &body) {
            Ok(()) => match cors.preflight(&parts) {
                Some(answer) => return Err(answer),
                None => self.authenticator.identify(&parts).await,
            },
            Err(rejection) => Err(rejection),
        };
        match judged {
            Ok(principal) => {
                principal.map(|principal| parts.extensions.insert(principal));
                Ok(Request::from_parts(parts, self.guard.limit(body)))
            }
            Err(rejection) => {
                // The next request of a kept connection would fail if the rest of this body came first.
                let drained = Box::pin(drain(&parts, body)).await;
                let close = rejection.close || !drained;
                Err(self.refuse(Rejection { close, ..rejection }, &parts))
            }
        }
    }

    fn refuse(&self, rejection: Rejection, request: &Parts) -> Response {
        tracing::debug!(status = rejection.status.as_u16(), reason = rejection.reason, "refused");
        (self.render)(&rejection, request).unwrap_or_else(|| rejection.into_response())
    }
}

impl Guarded {
    /// Checks a request and routes it. Not a layer of the router, because that would be set up for every request.
    pub(super) async fn answer(&self, request: Request) -> Result<Response, Infallible> {
        let (parts, body) = request.into_parts();
        let cors = self.admission.guard.cors_headers(&parts);
        let mut response = match self.admission.admit(parts, body, &cors).await {
            Ok(request) => self.router.clone().oneshot(request).await?,
            Err(response) => response,
        };
        cors.add_to(response.headers_mut());
        Ok(response)
    }

    /// For tests without a connection.
    pub fn into_router(self) -> Router {
        let service = service_fn(move |request| {
            let guarded = self.clone();
            async move { guarded.answer(request).await }
        });
        Router::new().fallback_service(service)
    }
}
