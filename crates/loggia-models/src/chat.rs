//! Chat Completions, which nearly every server speaks in its own dialect ([`Dialect`]).
//!
//! A reply has no items of its own here. We make them: a fragment with the reasoning that must come back,
//! one with the content, and each call (see [`crate::fragments`]). They become one assistant message in
//! the next request.
//!
//! Not here: servers' names outside of the table of dialects.

mod calls;
mod dialect;
mod error;
mod list;
mod reasoning;
mod request;
mod stream;

pub use dialect::{ALL, Dialect, GENERIC, List, dialect};
pub(crate) use request::{nearest, summary_text};

use crate::error::ModelError;
use crate::protocol::{
    Decoder, Framing, HttpFailure, HttpRequest, ModelContext, ModelFacts, Protocol,
};
use crate::request::ModelRequest;

/// The base URL contains the version: `https://api.openai.com/v1`.
#[derive(Debug, Clone, Copy)]
pub struct Chat {
    dialect: &'static Dialect,
}

impl Chat {
    pub fn new(dialect: &'static Dialect) -> Self {
        Self { dialect }
    }
}

impl Protocol for Chat {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn request(&self, model: &ModelContext<'_>, request: &ModelRequest) -> HttpRequest {
        HttpRequest {
            path: "/chat/completions".to_owned(),
            headers: Vec::new(),
            body: request::body(self.dialect, model, request),
        }
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(stream::ChatDecoder::new(self.dialect))
    }

    fn error(&self, failure: &HttpFailure) -> ModelError {
        error::of_response(self.dialect, failure)
    }

    fn list(&self) -> Option<&'static str> {
        Some(self.dialect.list.path)
    }

    fn listed(&self, body: &str) -> Result<Vec<ModelFacts>, String> {
        list::listed(self.dialect, body)
    }
}
