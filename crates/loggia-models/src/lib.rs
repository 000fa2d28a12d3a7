//! Talks to language models: the port [`Model`], and a client for each vendor's API.
//!
//! A request contains the whole conversation; a reply comes back as deltas, in order. A model keeps no
//! state between requests. Errors say whether and when to retry, so that the turn loop need not know
//! vendors.
//!
//! Each vendor is a [`Protocol`]: pure functions from a request to a body and from the pieces of a stream
//! to deltas. [`client`] is the only module that uses the network.
//!
//! Not here: sessions, the log, tools, retries, the environment, configuration files.

mod anthropic;
pub mod chat;
pub mod client;
mod error;
mod failure;
mod fields;
mod fragments;
mod framing;
mod gemini;
pub mod ollama;
mod openai;
mod protocol;
pub mod providers;
mod request;
mod thoughts;

pub use anthropic::Anthropic;
pub use chat::Chat;
pub use client::{Client, ClientConfig, Secret, VendorModel};
pub use error::{ModelError, ModelErrorKind};
pub use gemini::Gemini;
pub use ollama::Ollama;
pub use openai::Responses;
pub use protocol::{
    Decoder, Framing, HttpFailure, HttpRequest, ModelContext, ModelFacts, Piece, Protocol,
};
pub use providers::{Providers, ProvidersConfig};
pub use request::{
    Delta, Message, ModelRequest, PastCall, Purpose, Reply, UserMessage, transcript,
};

use futures::stream::BoxStream;
use loggia_core::ModelName;

pub trait Model: Send + Sync + 'static {
    /// The name that the log keeps: `offline`, `anthropic/claude-opus-5-5`. Items of a reply belong to the
    /// model with this name.
    fn name(&self) -> ModelName;
    /// Tokens of one request and its reply. None if unknown.
    fn window(&self) -> Option<u64> {
        None
    }
    /// Only the latest turns matter to this model, so that a request costs the same in a long session.
    /// A vendor's model gets everything since the last compaction, because its caches need the same
    /// beginning each time.
    fn reads_recent_turns_only(&self) -> bool {
        false
    }
    /// Streams one reply. Dropping the stream stops the request. A stream that ends without
    /// [`Delta::Stop`] was cut, and the turn loop treats it as a failure.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>>;
}
