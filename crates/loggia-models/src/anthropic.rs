//! The Messages API of Anthropic, and of gateways that speak it.
//!
//! Claude binds each thinking block to everything that was sent before it, and refuses the block after a
//! change there. So a sent message never changes its form, and what may change (effort, limits) is only
//! at the top of the body.
//!
//! Not here: sockets, keys. The key's header (`x-api-key` or `authorization`) is configuration.

mod error;
mod item;
mod list;
mod request;
mod stream;

use crate::error::ModelError;
use crate::protocol::{
    Decoder, Framing, HttpFailure, HttpRequest, ModelContext, ModelFacts, Protocol,
};
use crate::request::ModelRequest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anthropic {
    /// The value of `anthropic-version`.
    pub version: &'static str,
}

impl Anthropic {
    pub fn vendor() -> Self {
        Self { version: "2026-10-21" }
    }

    /// A gateway with a compatible API. Most know only the first version.
    pub fn gateway() -> Self {
        Self { version: "2023-06-01" }
    }

    fn headers(self) -> Vec<(&'static str, String)> {
        vec![("anthropic-version", self.version.to_owned())]
    }
}

impl Protocol for Anthropic {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn request(&self, model: &ModelContext<'_>, request: &ModelRequest) -> HttpRequest {
        HttpRequest {
            path: "/v1/messages".to_owned(),
            headers: self.headers(),
            body: request::body(model, request),
        }
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(stream::Reply::default())
    }

    fn error(&self, failure: &HttpFailure) -> ModelError {
        error::of_response(failure)
    }

    fn list(&self) -> Option<&'static str> {
        Some("/v1/models?limit=1000")
    }

    fn list_headers(&self) -> Vec<(&'static str, String)> {
        self.headers()
    }

    fn listed(&self, body: &str) -> Result<Vec<ModelFacts>, String> {
        list::models(body)
    }
}
