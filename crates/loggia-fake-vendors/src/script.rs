//! Scripts: rules that choose the reply of the fake model to a request.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// A request that passed the vendor's checks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// The first segment of the path: `anthropic`, `openai`, `gemini`, `ollama`, or a dialect of `chat`.
    pub vendor: String,
    pub model: String,
    pub system: String,
    /// The conversation, oldest first.
    pub conversation: Vec<Spoken>,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// Whether the reply is to be streamed.
    pub stream: bool,
    /// The number of requests for a reply to this server before this one.
    pub earlier_requests: usize,
    /// The body as it was sent.
    pub body: Value,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Spoken {
    User(String),
    /// The text of an earlier reply, without its thoughts, and the number of its calls.
    Model {
        text: String,
        calls: usize,
    },
    Result {
        call: String,
        text: String,
    },
}

impl Asked {
    /// The replies of the model since the last text of the user.
    pub fn replies(&self) -> usize {
        let since = self.conversation.iter().rev();
        let since = since.take_while(|spoken| !matches!(spoken, Spoken::User(_)));
        since.filter(|spoken| matches!(spoken, Spoken::Model { .. })).count()
    }

    /// The last text of the user.
    pub fn prompt(&self) -> &str {
        let texts = self.conversation.iter().rev().find_map(|spoken| match spoken {
            Spoken::User(text) => Some(text.as_str()),
            Spoken::Model { .. } | Spoken::Result { .. } => None,
        });
        texts.unwrap_or_default()
    }
}

/// Decides what the model says.
pub type Script = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    pub says: Vec<Say>,
    pub stop: StopKind,
    /// Tokens that the vendor reports: input, the cached part of it, and output. None: derived from the lengths.
    pub usage: Option<[u64; 3]>,
    pub fault: Option<Fault>,
    pub pace: Pace,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// Thinking with a signature, or encrypted reasoning with this summary. It may be empty.
    Thought(String),
    /// Thinking that the vendor hides, where it has that.
    Redacted,
    Text(String),
    /// A call. The arguments are sent as they are, also if they are not JSON.
    Call {
        tool: String,
        arguments: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// The end of the turn, or calls, as the vendor says it.
    #[default]
    Natural,
    Length,
    Refusal,
    Paused,
    WindowFull,
}

/// How a reply fails.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The vendor's error instead of a reply, by name: `rate_limit`, `quota`, `overloaded`, `bad_key`,
    /// `unknown_model`, `too_long`, `history`, `server`.
    Refuse { error: String, retry_after_ms: Option<u64> },
    /// The connection ends after so many bytes of the body.
    CutAfter(usize),
    /// Nothing more comes after so many bytes of the body, except the vendor's keep-alives.
    StallAfter(usize),
    /// The vendor's error in the stream after so many events, by name as in `Refuse`.
    ErrorAfter { events: usize, error: String },
}

/// How the bytes of a reply are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// Bytes of one piece; 0: an event at a time. 1 cuts every character of several bytes.
    pub piece: usize,
    /// The time between two pieces, in microseconds.
    pub pause_us: u64,
    /// A keep-alive, as the vendor sends it, before every event.
    pub keep_alives: bool,
}

impl Pace {
    pub fn pause(&self) -> Option<Duration> {
        (self.pause_us > 0).then(|| Duration::from_micros(self.pause_us))
    }
}

impl Answer {
    pub fn says(says: impl IntoIterator<Item = Say>) -> Self {
        Self { says: says.into_iter().collect(), ..Self::default() }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::says([Say::Text(text.into())])
    }

    #[must_use]
    pub fn failing(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    pub fn refused(error: &str) -> Self {
        Self::default().failing(Fault::Refuse { error: error.to_owned(), retry_after_ms: None })
    }

    pub fn calls(&self) -> bool {
        self.says.iter().any(|say| matches!(say, Say::Call { .. }))
    }
}

impl Say {
    pub fn call(tool: &str, arguments: &Value) -> Self {
        Say::Call { tool: tool.to_owned(), arguments: arguments.to_string() }
    }
}

/// An answer of a script in a file, and when it is given. Every condition that is there must hold.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A part of the last text of the user.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The number of replies since then.
    #[serde(default)]
    pub replies: Option<usize>,
    /// A part of any result of a call since then.
    #[serde(default)]
    pub result: Option<String>,
    /// Whether the request has tools. A client may also ask for titles and summaries, without tools.
    #[serde(default)]
    pub tools: Option<bool>,
    #[serde(default)]
    pub vendor: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    pub answer: Answer,
}

impl Rule {
    pub fn fits(&self, asked: &Asked) -> bool {
        let since = asked.conversation.iter().rev();
        let mut since = since.take_while(|spoken| !matches!(spoken, Spoken::User(_)));
        let holds = |condition: Option<bool>| condition.unwrap_or(true);
        holds(self.prompt.as_ref().map(|part| asked.prompt().contains(part)))
            && holds(self.replies.map(|replies| asked.replies() == replies))
            && holds(self.tools.map(|tools| asked.tools.is_empty() != tools))
            && holds(self.vendor.as_ref().map(|vendor| asked.vendor == *vendor))
            && holds(self.model.as_ref().map(|model| asked.model == *model))
            && holds(self.result.as_ref().map(|part| {
                since.any(
                    |spoken| matches!(spoken, Spoken::Result { text, .. } if text.contains(part)),
                )
            }))
    }
}
