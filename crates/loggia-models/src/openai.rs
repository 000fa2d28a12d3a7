//! OpenAI's Responses API, also as other servers offer it. The base URL ends with the version: `/v1`.
//!
//! Nothing is stored at the vendor: each request carries the whole conversation, with the encrypted
//! reasoning of earlier replies. Not here: Chat Completions.

mod error;
mod request;
mod schema;
mod stream;
mod thoughts;

use serde::Deserialize;

use crate::error::ModelError;
use crate::protocol::{
    Decoder, Framing, HttpFailure, HttpRequest, ModelContext, ModelFacts, Protocol,
};
use crate::request::ModelRequest;

/// `ModelFacts::thinking` of a model that does not reason, and refuses to be asked for it.
const NO_REASONING: &str = "none";

/// Parts of the names of models that do not write text. The list of models does not say it.
const NOT_TEXT: [&str; 12] = [
    "audio",
    "babbage",
    "dall-e",
    "davinci",
    "embedding",
    "gpt-image",
    "moderation",
    "realtime",
    "sora",
    "transcribe",
    "tts",
    "whisper",
];

#[derive(Debug, Clone, Copy, Default)]
pub struct Responses;

impl Protocol for Responses {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn request(&self, model: &ModelContext<'_>, request: &ModelRequest) -> HttpRequest {
        let body = request::body(model, request);
        HttpRequest { path: "/responses".to_owned(), headers: Vec::new(), body }
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(stream::ResponseDecoder::default())
    }

    fn error(&self, failure: &HttpFailure) -> ModelError {
        error::of_failure(failure)
    }

    fn list(&self) -> Option<&'static str> {
        Some("/models")
    }

    fn listed(&self, body: &str) -> Result<Vec<ModelFacts>, String> {
        let list: List = serde_json::from_str(body).map_err(|error| error.to_string())?;
        let writes_text = |model: &Listed| !NOT_TEXT.iter().any(|part| model.id.contains(part));
        let models = list.data.into_iter().filter(writes_text);
        let facts =
            models.map(|Listed { id, window }| ModelFacts { id, window, ..ModelFacts::default() });
        Ok(facts.collect())
    }
}

#[derive(Deserialize)]
struct List {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    /// OpenAI does not say it; other servers do.
    #[serde(default, alias = "max_model_len", alias = "context_length")]
    window: Option<u64>,
}
