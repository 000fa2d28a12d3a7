//! Gemini's generateContent API, as `/v1beta` speaks it.
//!
//! An item of a reply is one part as Gemini sent it. Parts are neither merged nor reordered: a signature
//! belongs to its part, and may sit on any part, also on an empty text.
//!
//! Not here: Vertex AI, the Interactions API, replies longer than one request may write ("long decode").

mod error;
mod fields;
mod request;
mod schema;
mod stream;
mod thinking;

use serde::Deserialize;

use crate::error::ModelError;
use crate::protocol::{
    Decoder, Framing, HttpFailure, HttpRequest, ModelContext, ModelFacts, Protocol,
};
use crate::request::ModelRequest;

#[derive(Debug, Clone, Copy, Default)]
pub struct Gemini;

impl Protocol for Gemini {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn request(&self, model: &ModelContext<'_>, request: &ModelRequest) -> HttpRequest {
        HttpRequest {
            path: format!("/v1beta/{}:streamGenerateContent?alt=sse", resource(&model.facts.id)),
            headers: Vec::new(),
            body: request::body(model, request),
        }
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(stream::Reader::default())
    }

    fn error(&self, failure: &HttpFailure) -> ModelError {
        error::of_response(failure)
    }

    fn list(&self) -> Option<&'static str> {
        Some("/v1beta/models?pageSize=1000")
    }

    fn listed(&self, body: &str) -> Result<Vec<ModelFacts>, String> {
        let list: List = serde_json::from_str(body).map_err(|error| error.to_string())?;
        Ok(list.models.into_iter().filter(ListedModel::replies).map(ListedModel::facts).collect())
    }
}

/// The path of a model: `models/gemini-3.8-flash`, `tunedModels/mine`.
fn resource(id: &str) -> String {
    let mut path = String::from(if id.contains('/') { "" } else { "models/" });
    for byte in id.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => path.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => path.push(byte.into()),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    models: Vec<ListedModel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedModel {
    name: String,
    input_token_limit: Option<u64>,
    output_token_limit: Option<u64>,
    thinking: Option<bool>,
    supported_generation_methods: Option<Vec<String>>,
}

impl ListedModel {
    /// The list also has models for embeddings, images and speech.
    fn replies(&self) -> bool {
        let methods = self.supported_generation_methods.as_ref();
        methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
    }

    fn facts(self) -> ModelFacts {
        let id = self.name.strip_prefix("models/").unwrap_or(&self.name).to_owned();
        // The list says whether a model reasons, and not how that is asked for.
        let thinks = self.thinking.unwrap_or(false);
        let kind = thinking::Kind::of_name(&id).filter(|_| thinks);
        ModelFacts {
            window: self.input_token_limit,
            output: self.output_token_limit,
            efforts: match kind {
                Some(kind) => Some(kind.efforts(&id)),
                None => (!thinks).then(Vec::new),
            },
            thinking: kind.map(|kind| kind.name().to_owned()),
            price: None,
            id,
        }
    }
}
