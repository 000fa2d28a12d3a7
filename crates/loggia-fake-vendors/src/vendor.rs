//! A vendor's API: the check of a request, and the bytes of a reply.

pub mod anthropic;
pub mod chat;
pub mod gemini;
pub mod ollama;
pub mod openai;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::script::{Answer, Asked};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct HttpCall {
    pub method: String,
    /// Behind the segment that names the vendor: `/v1/messages`.
    pub path: String,
    #[allow(dead_code, reason = "not every vendor has a query")]
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// `null` if there is none, or if it is not JSON.
    pub body: Value,
}

impl HttpCall {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A complete response.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
}

impl Response {
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }
}

/// The kind of a request.
pub enum Route {
    /// A request for a reply, which passed the checks.
    Reply(Asked),
    /// Anything else is answered at once, refusals included.
    Now(Response),
}

pub trait Vendor: Send + Sync {
    /// The first segment of the path.
    fn name(&self) -> &'static str;

    /// Checks a request as the vendor does.
    fn route(&self, call: &HttpCall) -> Route;

    /// The events of a streamed reply, each with its framing. The last one ends the reply.
    fn events(&self, asked: &Asked, answer: &Answer) -> Vec<String>;

    /// A reply that is not streamed.
    fn whole(&self, asked: &Asked, answer: &Answer) -> Value;

    /// The vendor's error with this name (see [`crate::Fault`]).
    fn error(&self, name: &str, retry_after_ms: Option<u64>) -> Response;

    /// The same in the middle of a stream.
    fn error_event(&self, name: &str) -> String;

    /// What the vendor sends to keep a connection open, or a comment.
    fn keep_alive(&self) -> String {
        ": keep-alive\n\n".to_owned()
    }

    /// The media type of a stream.
    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }
}

/// All vendors.
pub fn all() -> Vec<Box<dyn Vendor>> {
    let mut all: Vec<Box<dyn Vendor>> = vec![
        Box::new(anthropic::Anthropic),
        Box::new(gemini::Gemini),
        Box::new(ollama::Ollama),
        Box::new(openai::OpenAi),
    ];
    all.extend(chat::Server::ALL.map(|server| Box::new(server) as Box<dyn Vendor>));
    all
}

/// A signature over some values, as a vendor would make one: it fits only where it was made.
pub fn sign(parts: &[&Value]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.to_string());
        hash.update([0]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tokens of a text, about as many as a vendor counts.
pub fn tokens(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}
