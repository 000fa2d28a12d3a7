//! The events of a session: past tense, immutable, self-contained. A released variant or field never
//! changes its meaning; new ones may be added, and a fold ignores variants that it does not know.

pub(crate) mod size;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{AnswerMessage, Choice, ChoiceId, Edit, Risk};
use crate::call::{Access, Artifact, CallOutcome, Details};
use crate::content::Content;
use crate::id::{ApprovalId, CallId, MessageId, Millis, PromptId, RuleId, Seq, TaskId, TurnId};
use crate::model::ModelRecord;
use crate::origin::Origin;
use crate::policy::Rule;
use crate::settings::{AgentName, ModelName, Settings, Workspace};

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    // the session
    SessionOpened {
        workspace: Workspace,
        settings: Settings,
        agent: AgentName,
    },
    SettingsChanged {
        settings: Settings,
    },
    PolicyAmended {
        amendment: Amendment,
    },
    /// The session has a new name.
    SessionNamed {
        name: String,
    },
    SessionClosed {
        reason: CloseReason,
    },
    // prompts and turns
    /// A client opened a task before its first message.
    TaskOpened {
        task: TaskId,
        /// As on [`Content`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// An opened task was closed before its first message.
    TaskClosed {
        task: TaskId,
    },
    PromptAccepted {
        prompt: PromptId,
        task: TaskId,
        content: Arc<Content>,
        /// A shell line that a person typed: the text after the `!` is to be run unchanged.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shell: bool,
    },
    PromptWithdrawn {
        prompt: PromptId,
    },
    /// A prompt hook rejected or answered a message, so it gets no turn. Its task is over, and the
    /// model does not see it.
    PromptScreened {
        prompt: PromptId,
        task: TaskId,
        /// Without the text of a rejected message, but with what its client recognises it by.
        content: Arc<Content>,
        screening: Screening,
    },
    TurnStarted {
        turn: TurnId,
        prompt: PromptId,
        task: TaskId,
    },
    /// The turn's prompt was a command from a file: the model reads `text` instead of the typed line.
    /// Earlier calls of the turn only served to produce it.
    PromptExpanded {
        turn: TurnId,
        command: String,
        /// The file, for people.
        source: String,
        text: String,
    },
    TurnEnded {
        turn: TurnId,
        outcome: TurnOutcome,
    },
    // output of the agent
    TextAppended {
        turn: TurnId,
        message: MessageId,
        text: String,
    },
    ThoughtAppended {
        turn: TurnId,
        message: MessageId,
        subject: String,
        text: String,
    },
    PlanUpdated {
        turn: TurnId,
        steps: Vec<PlanStep>,
    },
    SourcesCited {
        turn: TurnId,
        sources: Vec<Source>,
    },
    UsageReported {
        turn: TurnId,
        model: ModelName,
        usage: Usage,
        /// The model's context window in tokens, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// What the model and its provider need to continue the conversation. Only the agent reads it; no client gets
    /// its content.
    ModelRecord {
        turn: TurnId,
        record: ModelRecord,
    },
    /// The reply broke off and is asked for again: its text and its thoughts do not count. It had no calls yet.
    ReplyDiscarded {
        turn: TurnId,
        message: MessageId,
    },
    // calls of the agent
    CallProposed {
        turn: TurnId,
        /// The model's reply this call belongs to.
        message: MessageId,
        call: CallId,
        tool: String,
        title: String,
        access: Access,
        input: Value,
        details: Details,
    },
    ApprovalAsked {
        approval: ApprovalId,
        call: CallId,
        choices: Vec<Choice>,
        risk: Risk,
    },
    /// The envelope's origin is the person who answered.
    ApprovalAnswered {
        approval: ApprovalId,
        call: CallId,
        choice: ChoiceId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edit: Option<Edit>,
        /// The edited details, which every screen shows and the tool runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Details>,
        /// For readers of the conversation; it has no effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<AnswerMessage>,
    },
    CallStarted {
        call: CallId,
        authority: Authority,
    },
    CallOutput {
        call: CallId,
        text: String,
        /// Bytes of output left out just before this text.
        #[serde(default, skip_serializing_if = "is_zero")]
        skipped: u64,
    },
    CallEnded {
        call: CallId,
        outcome: CallOutcome,
    },
    /// A result of the turn that no call published.
    ArtifactPublished {
        turn: TurnId,
        artifact: Artifact,
    },
    // housekeeping
    /// For the model, the summary replaces every turn that began up to `upto`. An empty summary starts
    /// the conversation over. The log itself does not change.
    ContextCompacted {
        upto: Seq,
        summary: String,
        /// Not requested: the context of the running turn would have exceeded the model's window.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        automatic: bool,
        /// The summary also replaces the replies of the running turn so far. Its prompt is kept.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        within_turn: bool,
    },
    NoticeRaised {
        level: Level,
        text: String,
        /// The turn waits for so many milliseconds, and screens may count them down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<u64>,
    },
    /// An event of a newer version. It stays in the log, and every fold ignores it.
    #[serde(other)]
    Unknown,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// An event with its position, time and origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub seq: Seq,
    pub at: Millis,
    pub origin: Origin,
    pub event: Event,
}

/// Whether an event survives a power cut. Decisions do; the newest stream events may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    Stream,
    Decision,
}

/// The result of a prompt hook that did not let a message through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Screening {
    Rejected { reason: String },
    Answered { text: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnOutcome {
    Completed,
    Failed {
        message: String,
        /// Not an error: a call was refused without a person, and no change succeeded after it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    Cancelled,
    /// A crash interrupted the turn. Its calls do not run again.
    Interrupted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Authority {
    /// A mode or a rule allowed it; the text names it.
    Rule {
        rule: String,
        /// The rule, if it was a configured or granted one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<RuleId>,
    },
    Approval {
        approval: ApprovalId,
    },
    /// A person typed exactly this shell line as a prompt.
    Typed {
        prompt: PromptId,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Amendment {
    Added { rule: Rule },
    Revoked { rule: RuleId },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    Requested,
    Replaced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Info,
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    pub text: String,
    pub state: StepState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub title: String,
    pub uri: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub thought_tokens: u64,
    /// Input tokens that the provider took from its cache, and those that it wrote to it. Both are part of
    /// `input_tokens`.
    #[serde(default)]
    pub cached_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
}

impl Envelope {
    /// The same envelope without what no client may get: the items of the model's replies, and its
    /// instructions and notes.
    pub fn public(&self) -> Cow<'_, Self> {
        let Event::ModelRecord { turn, record } = &self.event else { return Cow::Borrowed(self) };
        let event = Event::ModelRecord { turn: turn.clone(), record: record.public() };
        let (seq, at, origin) = (self.seq, self.at, self.origin.clone());
        Cow::Owned(Self { seq, at, origin, event })
    }
}

impl TurnOutcome {
    pub fn failed(message: impl Into<String>) -> Self {
        TurnOutcome::Failed { message: message.into(), refused: false }
    }

    pub fn refused(message: impl Into<String>) -> Self {
        TurnOutcome::Failed { message: message.into(), refused: true }
    }
}

impl Usage {
    /// Saturating: the numbers come from a provider, and a fold must not fail.
    pub fn add(&mut self, more: &Usage) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.input_tokens, more.input_tokens);
        add(&mut self.output_tokens, more.output_tokens);
        add(&mut self.thought_tokens, more.thought_tokens);
        add(&mut self.cached_tokens, more.cached_tokens);
        add(&mut self.cache_write_tokens, more.cache_write_tokens);
    }
}

impl Event {
    pub fn durability(&self) -> Durability {
        match self {
            Event::TextAppended { .. }
            | Event::ThoughtAppended { .. }
            | Event::PlanUpdated { .. }
            | Event::SourcesCited { .. }
            | Event::UsageReported { .. }
            | Event::ModelRecord { .. }
            | Event::ReplyDiscarded { .. }
            | Event::CallOutput { .. }
            | Event::NoticeRaised { .. }
            | Event::Unknown => Durability::Stream,
            Event::SessionOpened { .. }
            | Event::SettingsChanged { .. }
            | Event::PolicyAmended { .. }
            | Event::SessionNamed { .. }
            | Event::SessionClosed { .. }
            | Event::TaskOpened { .. }
            | Event::TaskClosed { .. }
            | Event::PromptAccepted { .. }
            | Event::PromptWithdrawn { .. }
            | Event::PromptScreened { .. }
            | Event::TurnStarted { .. }
            | Event::PromptExpanded { .. }
            | Event::TurnEnded { .. }
            | Event::CallProposed { .. }
            | Event::ApprovalAsked { .. }
            | Event::ApprovalAnswered { .. }
            | Event::CallStarted { .. }
            | Event::CallEnded { .. }
            | Event::ArtifactPublished { .. }
            | Event::ContextCompacted { .. } => Durability::Decision,
        }
    }

    /// The notice about a prompt that a command from a file expanded to.
    pub fn expansion(command: &str, source: &str, text: &str) -> String {
        format!("/{command} from {source} expands to:\n{text}")
    }

    /// Appends `next` to this event if both are pieces of one stream and the sum stays within `limit`
    /// bytes. Every fold of one piece or two is the same (law L6).
    #[must_use]
    pub fn absorb(&mut self, next: &Event, limit: usize) -> bool {
        match (self, next) {
            (
                Event::TextAppended { message: a, text, .. },
                Event::TextAppended { message: b, text: more, .. },
            ) if a == b && text.len() + more.len() <= limit => text.push_str(more),
            (
                Event::ThoughtAppended { message: a, subject: s, text, .. },
                Event::ThoughtAppended { message: b, subject: t, text: more, .. },
            ) if a == b && s == t && text.len() + more.len() <= limit => text.push_str(more),
            (
                Event::CallOutput { call: a, text, .. },
                Event::CallOutput { call: b, text: more, skipped: 0 },
            ) if a == b && text.len() + more.len() <= limit => text.push_str(more),
            _ => return false,
        }
        true
    }
}
