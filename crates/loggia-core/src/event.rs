//! The facts. Past tense, immutable, self-contained, additive only: a released variant or field
//! keeps its meaning for ever, new ones may appear, and a fold ignores what it does not know.

pub(crate) mod weight;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{AnswerMessage, Choice, ChoiceId, Edit, Risk};
use crate::call::{Access, Artifact, CallOutcome, Details};
use crate::content::Content;
use crate::id::{ApprovalId, CallId, MessageId, Millis, PromptId, RuleId, Seq, TaskId, TurnId};
use crate::origin::Origin;
use crate::policy::Rule;
use crate::settings::{AgentName, ModelName, Settings, Workspace};

/// One fact of a session.
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
    /// What the session is called from now on.
    SessionNamed {
        name: String,
    },
    SessionClosed {
        reason: CloseReason,
    },
    // prompts and turns
    /// A client keeps a task ready; the message that it is for comes later.
    TaskOpened {
        task: TaskId,
        /// As on [`Content`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// A task that was kept ready gets no message any more.
    TaskClosed {
        task: TaskId,
    },
    PromptAccepted {
        prompt: PromptId,
        task: TaskId,
        content: Arc<Content>,
        /// A command line of the person's own: what is behind the `!` is to be run as it stands.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shell: bool,
    },
    PromptWithdrawn {
        prompt: PromptId,
    },
    /// A message that got no turn: whoever looks at messages first has dealt with it. Its task is
    /// over, and no model reads of it.
    PromptScreened {
        prompt: PromptId,
        task: TaskId,
        /// Of a message that was rejected, what its client needs to know it by, and none of its words.
        content: Arc<Content>,
        screening: Screening,
    },
    TurnStarted {
        turn: TurnId,
        prompt: PromptId,
        task: TaskId,
    },
    /// The turn's prompt was a command from a file: this is what the model is told instead of what
    /// was typed. Calls of the turn before this one only served to write it.
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
    // what the agent says
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
        steps: Vec<Step>,
    },
    SourcesCited {
        turn: TurnId,
        sources: Vec<Source>,
    },
    UsageReported {
        turn: TurnId,
        model: ModelName,
        usage: Usage,
        /// Tokens that this model can hold at once, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    // what the agent does
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
    /// Who answered is the envelope's origin.
    ApprovalAnswered {
        approval: ApprovalId,
        call: CallId,
        choice: ChoiceId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edit: Option<Edit>,
        /// The details as edited: what every screen shows and what will run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Details>,
        /// For whoever reads what was said; it changes nothing.
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
    /// For the model, this text stands in place of every turn that began up to there; an empty one
    /// means that the conversation begins anew. The log itself stays as it is.
    ContextCompacted {
        upto: Seq,
        summary: String,
        /// Nobody asked for it: the turn that runs would have been too much for the model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        automatic: bool,
    },
    NoticeRaised {
        level: Level,
        text: String,
    },
    /// A fact of a newer version. Kept in the log, ignored by every fold.
    #[serde(other)]
    Unknown,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A fact with its place, time and cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub seq: Seq,
    pub at: Millis,
    pub origin: Origin,
    pub event: Event,
}

/// What a power cut may take: nothing of a decision, at most the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    Stream,
    Decision,
}

/// What became of a message before it was a prompt.
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
        /// Nothing broke: a call was refused without a person, and no change succeeded after it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    Cancelled,
    /// A crash cut the turn; its calls are not run again.
    Interrupted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Authority {
    /// A mode or a rule let it pass; the text names which.
    Rule {
        rule: String,
        /// The rule, where it was one that somebody wrote or granted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<RuleId>,
    },
    Approval {
        approval: ApprovalId,
    },
    /// A person typed this very command line, as a prompt of its own.
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
pub struct Step {
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
    #[serde(default)]
    pub cached_tokens: u64,
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
    /// Saturating: the numbers are a provider's, and no log may fail to fold.
    pub fn add(&mut self, more: &Usage) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.input_tokens, more.input_tokens);
        add(&mut self.output_tokens, more.output_tokens);
        add(&mut self.thought_tokens, more.thought_tokens);
        add(&mut self.cached_tokens, more.cached_tokens);
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

    /// What people are told of a prompt that a command from a file became.
    pub fn expansion(command: &str, source: &str, text: &str) -> String {
        format!("/{command} is, from {source}:\n{text}")
    }

    /// Adds `next` to this event where both are pieces of one stream and the sum stays under
    /// `limit` bytes. Readers may see one piece or two; every fold comes out the same (law L6).
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
