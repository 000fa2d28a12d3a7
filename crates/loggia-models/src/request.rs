//! The request to a model, and the deltas of its reply.

use std::sync::Arc;

use loggia_core::{
    CallId, CallOutcome, Content, Effort, ModelName, ReplyItem, Stop, ToolDescription, Usage,
};
use serde_json::Value;

/// Everything that a model gets. The same conversation gives the same bytes, and a longer one begins with
/// the bytes of the shorter one: vendors cache by prefix, and some refuse a changed one.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    pub purpose: Purpose,
    pub instructions: Arc<str>,
    /// The conversation, oldest first. The model replies to the last message.
    pub messages: Vec<Message>,
    pub tools: Arc<[ToolDescription]>,
    pub effort: Option<Effort>,
    /// The same for all requests of one session, for vendors that cache by a key.
    pub cache_key: Arc<str>,
}

/// The purpose of a reply. The messages also say it, but the built-in models do not understand text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    #[default]
    Turn,
    /// A text that will replace the conversation so far. No tools, no calls.
    Summary,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Replaces the earlier conversation. At most one, as the first message.
    Summary(String),
    User(UserMessage),
    /// One earlier reply with the results of its calls, if any.
    Reply(Reply),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserMessage {
    /// Notes, date, directory and the like, which come before the content as a text of their own.
    pub context: Option<Arc<str>>,
    pub content: Arc<Content>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// The model that wrote `items`.
    pub model: Option<ModelName>,
    /// The reply as its vendor sent it, in order. The model that wrote them gets them back unchanged. For
    /// another model, or if empty: `text` and `calls` say the same without what only the vendor can read.
    pub items: Vec<ReplyItem>,
    pub text: String,
    pub calls: Vec<PastCall>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PastCall {
    pub call: CallId,
    pub tool: String,
    pub input: Value,
    /// All calls have ended before the next request.
    pub outcome: CallOutcome,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Thought {
        subject: String,
        text: String,
    },
    /// A complete item other than a call, as the vendor sent it.
    Item(Arc<str>),
    /// One complete call.
    Call {
        tool: String,
        /// The model's text if it is not valid JSON.
        input: Result<Value, String>,
        /// The item as the vendor sent it. None from models that keep no items.
        item: Option<Arc<str>>,
    },
    Usage(Usage),
    /// The reply is complete.
    Stop(Stop),
}

impl Reply {
    /// The items, if this model wrote them.
    pub fn items_of(&self, model: &ModelName) -> Option<&[ReplyItem]> {
        let own = self.model.as_ref() == Some(model) && !self.items.is_empty();
        own.then_some(self.items.as_slice())
    }

    pub fn past_call(&self, call: &CallId) -> Option<&PastCall> {
        self.calls.iter().find(|past| past.call == *call)
    }
}

impl UserMessage {
    /// A message without notes.
    pub fn text(text: impl Into<String>) -> Self {
        Self { context: None, content: Content::text(text).into() }
    }
}

/// The messages as one text, for a request of a summary: the instructions, tools and items of the
/// conversation are not repeated then.
pub fn transcript(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        match message {
            Message::Summary(summary) => push(&mut text, "Summary of what came before", summary),
            Message::User(user) => push(&mut text, "User", &user.content.to_text()),
            Message::Reply(reply) => {
                if !reply.text.trim().is_empty() {
                    push(&mut text, "Agent", &reply.text);
                }
                for PastCall { tool, input, outcome, .. } in &reply.calls {
                    push(&mut text, &format!("Call of {tool}"), &input.to_string());
                    push(&mut text, "Result", outcome.summary());
                }
            }
        }
    }
    text
}

fn push(text: &mut String, heading: &str, body: &str) {
    text.push_str("## ");
    text.push_str(heading);
    text.push('\n');
    text.push_str(body.trim_end());
    text.push_str("\n\n");
}
