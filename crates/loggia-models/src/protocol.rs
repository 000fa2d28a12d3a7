//! A vendor's API as pure functions: a request becomes a body, the pieces of a stream become deltas, a
//! failed response becomes an error.
//!
//! Not here: sockets, time, keys.

use std::time::Duration;

use loggia_core::Effort;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::request::{Delta, ModelRequest};

/// How a stream is cut into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value in each line.
    Lines,
}

/// One piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// The name of a server-sent event; empty if it has none.
    pub event: String,
    pub data: String,
}

/// A request without the address and the key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpRequest {
    /// Appended to the base URL, with its query: `/v1/messages`.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: String,
}

/// A response that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpFailure {
    pub status: u16,
    /// From `retry-after-ms` or `retry-after`.
    pub retry_after: Option<Duration>,
    /// From `x-should-retry`.
    pub should_retry: Option<bool>,
    /// The beginning of the body, without the key.
    pub body: String,
}

/// What is known about a model: from the vendor's list, from the table in this crate, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFacts {
    /// The vendor's name for it, without the provider.
    pub id: String,
    /// Tokens of one request and its reply.
    pub window: Option<u64>,
    /// The most tokens of one reply.
    pub output: Option<u64>,
    /// The levels of effort that it has, if known. Empty: none.
    pub efforts: Option<Vec<Effort>>,
    /// How it is asked to reason, in the vendor's word: `adaptive`, `budget`, `level`.
    pub thinking: Option<String>,
    /// Dollars for a million tokens, as decimal numbers: input, output, cached input.
    pub price: Option<[String; 3]>,
}

pub trait Protocol: Send + Sync + 'static {
    fn framing(&self) -> Framing;

    /// The request for one reply.
    fn request(&self, model: &ModelContext<'_>, request: &ModelRequest) -> HttpRequest;

    fn decoder(&self) -> Box<dyn Decoder>;

    fn error(&self, failure: &HttpFailure) -> ModelError;

    /// The path of the list of models, after the base URL, for one page; None if there is no such list.
    fn list(&self) -> Option<&'static str>;

    /// The headers of the request for that list.
    fn list_headers(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The models in the body of that list.
    fn listed(&self, body: &str) -> Result<Vec<ModelFacts>, String>;
}

/// The model that a request is for.
#[derive(Debug, Clone, Copy)]
pub struct ModelContext<'a> {
    /// Its full name, to which the items of its replies belong.
    pub name: &'a loggia_core::ModelName,
    pub facts: &'a ModelFacts,
}

/// Reads one reply.
pub trait Decoder: Send {
    /// Reads the next piece and appends its deltas. Returns false if the piece says nothing of the model, such
    /// as a ping: it does not count as progress. After [`Delta::Stop`] no more pieces are read.
    fn read(&mut self, piece: &Piece, deltas: &mut Vec<Delta>) -> Result<bool, ModelError>;
}
