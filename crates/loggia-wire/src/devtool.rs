//! The development-tool extension: its URI, how it is activated, and the metadata it adds to events.
//!
//! The schemas are in [`schema`], exactly as specified; messages of clients are decoded in [`decode`].

pub mod decode;
pub mod schema;
pub mod version;

use serde_json::{Map, Value, json};

use crate::dialect::Extension;
use version::{Version, compatible, version_in};

/// The extension's URI, which contains its version.
pub const URI: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
/// The metadata key for clients of the shipped SDLC agent server; see [`crate::coder`].
pub const CODER_AGENT: &str = "coderAgent";
/// The description on the card.
pub const DESCRIPTION: &str = "An extension for interactive development tasks, enabling features like code generation, tool usage, and real-time status updates.";

/// The name in the log of a task that was begun with the extension.
pub const PROFILE: &str = "development-tool";

/// Both names of the header that activates extensions, that of 1.0 first.
pub const HEADERS: [&str; 2] = ["a2a-extensions", "x-a2a-extensions"];

/// Whether a URI names this extension in a compatible version.
pub fn is_ours(uri: &str) -> bool {
    if uri == URI {
        return true;
    }
    match (without_version(uri), without_version(URI), version_in(uri), version_in(URI)) {
        (Some(theirs), Some(ours), Some(wanted), Some(offered)) => {
            theirs == ours && compatible(&wanted, &offered)
        }
        (_, _, _, _) => false,
    }
}

fn without_version(uri: &str) -> Option<Vec<&str>> {
    let segments = uri.split('/');
    let named: Vec<&str> =
        segments.filter(|segment| Version::of_segment(segment).is_none()).collect();
    (named.len() > 1).then_some(named)
}

/// From the values of either header; each may hold several URIs, separated by commas.
pub fn activated_by_header<'a>(values: impl IntoIterator<Item = &'a str>) -> Extension {
    let mut uris = values.into_iter().flat_map(|value| value.split(',')).map(str::trim);
    on_if(uris.any(is_ours))
}

/// From a message: `extensions`, or a key of its metadata.
pub fn activated_by_message(extensions: &[String], metadata: Option<&Value>) -> Extension {
    let listed = extensions.iter().any(|uri| is_ours(uri));
    let keyed =
        metadata.and_then(Value::as_object).is_some_and(|map| map.keys().any(|key| is_ours(key)));
    on_if(listed || keyed)
}

fn on_if(active: bool) -> Extension {
    if active { Extension::On } else { Extension::Off }
}

/// The kind of an event: S1's `DevelopmentToolEventKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    ToolCallUpdate,
    TextContent,
    StateChange,
    Thought,
}

impl EventKind {
    fn upper(self) -> &'static str {
        match self {
            EventKind::ToolCallUpdate => "TOOL_CALL_UPDATE",
            EventKind::TextContent => "TEXT_CONTENT",
            EventKind::StateChange => "STATE_CHANGE",
            EventKind::Thought => "THOUGHT",
        }
    }

    fn kebab(self) -> &'static str {
        match self {
            EventKind::ToolCallUpdate => "tool-call-update",
            EventKind::TextContent => "text-content",
            EventKind::StateChange => "state-change",
            EventKind::Thought => "thought",
        }
    }
}

/// The metadata of an event for clients of the extension.
#[derive(Debug, Clone, PartialEq)]
pub struct EventMetadata {
    pub kind: EventKind,
    pub error: Option<String>,
    pub question: Option<QuestionMetadata>,
    pub answer: Option<AnswerMetadata>,
}

/// Identifies the open question, so that an answer can name the question and the details that were shown.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionMetadata {
    pub correlation: String,
    pub digest: String,
}

/// Who answered, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerMetadata {
    pub choice: String,
    pub by: String,
    /// The person edited the proposal.
    pub edited: bool,
}

impl EventMetadata {
    pub fn kind(kind: EventKind) -> Self {
        Self { kind, error: None, question: None, answer: None }
    }

    /// S1's `DevelopmentToolEvent` under the extension's URI, extended by members that S1 lacks: custom
    /// metadata is keyed by the extension (S1 §3.2). Next to it are the form of the shipped server, and the
    /// same members again where older clients expect them (S0 §5.1).
    pub fn metadata(&self, model: &str) -> Map<String, Value> {
        let mut event = Map::new();
        event.insert("kind".into(), self.kind.upper().into());
        event.insert("model".into(), model.into());
        if let Some(error) = &self.error {
            event.insert("error".into(), error.as_str().into());
        }
        let mut metadata = self.custom();
        event.extend(self.custom());
        metadata.insert(URI.into(), Value::Object(event));
        metadata.insert(CODER_AGENT.into(), json!({ "kind": self.kind.kebab() }));
        metadata
    }

    /// The open question, and its answer.
    fn custom(&self) -> Map<String, Value> {
        let mut members = Map::new();
        if let Some(QuestionMetadata { correlation, digest }) = &self.question {
            members.insert("correlationId".into(), correlation.as_str().into());
            members.insert("detailsDigest".into(), digest.as_str().into());
        }
        if let Some(AnswerMetadata { choice, by, edited }) = &self.answer {
            let answer = json!({ "selectedOptionId": choice, "by": by, "edited": edited });
            members.insert("answer".into(), answer);
        }
        members
    }
}
