//! Ollama's own API. Its window must be asked for in every request: by default it is small, and a longer
//! conversation is cut silently.
//!
//! A reply has no items of its own here. We make them: a fragment with the thinking, one with the content,
//! and each call (see [`crate::fragments`]).
//!
//! Not here: Ollama's Chat Completions, which have no parameter for the window.

mod error;
mod request;
mod show;
mod stream;

pub use show::{SHOW_PATH, show_request, shown};

use crate::error::ModelError;
use crate::fields::Fields;
use crate::protocol::{
    Decoder, Framing, HttpFailure, HttpRequest, ModelContext, ModelFacts, Protocol,
};
use crate::request::ModelRequest;

/// The base URL has no path: `http://localhost:11434`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ollama;

impl Protocol for Ollama {
    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn request(&self, model: &ModelContext<'_>, request: &ModelRequest) -> HttpRequest {
        HttpRequest {
            path: "/api/chat".to_owned(),
            headers: Vec::new(),
            body: request::body(model, request),
        }
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(stream::OllamaDecoder::default())
    }

    fn error(&self, failure: &HttpFailure) -> ModelError {
        error::of_response(failure)
    }

    fn list(&self) -> Option<&'static str> {
        Some("/api/tags")
    }

    /// Only the names: [`shown`] reads the rest, one model at a time.
    fn listed(&self, body: &str) -> Result<Vec<ModelFacts>, String> {
        let models = Fields::parse(body).and_then(|body| body.read::<Vec<Fields>>("models"));
        let models = models.ok_or("it has no list `models`")?;
        let names = models.iter().filter_map(|model| model.text("model").or(model.text("name")));
        Ok(names.map(|id| ModelFacts { id, ..ModelFacts::default() }).collect())
    }
}
