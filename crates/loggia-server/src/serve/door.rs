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
use crate::guard::{Guard, Pages, Rejection, drain};

/// Writes a rejection in the form of the request's endpoint. None: the default form.
pub type Render = fn(rejection: &Rejection, request: &Parts) -> Option<Response>;

pub struct Door {
    guard: Guard,
    authenticator: Authenticator,
    render: Render,
}

/// A router behind the guard and the authenticator: the argument of [`serve`](super::serve).
#[derive(Clone)]
pub struct Guarded {
    door: Arc<Door>,
    router: Router,
}

impl Door {
    pub fn new(guard: Guard, authenticator: Authenticator) -> Self {
        Self { guard, authenticator, render: |_, _| None }
    }

    /// Sets how rejections are written.
    pub fn rendering(mut self, render: Render) -> Self {
        self.render = render;
        self
    }

    /// Protects all routes of the router, and its fallback.
    pub fn around(self, router: Router) -> Guarded {
        Guarded { door: Arc::new(self), router }
    }

    async fn admit(
        &self,
        mut parts: Parts,
        body: Body,
        pages: &Pages,
    ) -> Result<Request, Response> {
        let judged = match self.guard.check(&parts, &body) {
            Ok(()) => match pages.preflight(&parts) {
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
                Box::pin(drain(&parts, body)).await;
                Err(self.refuse(rejection, &parts))
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
        let pages = self.door.guard.pages(&parts);
        let mut response = match self.door.admit(parts, body, &pages).await {
            Ok(request) => self.router.clone().oneshot(request).await?,
            Err(response) => response,
        };
        pages.tell(response.headers_mut());
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
