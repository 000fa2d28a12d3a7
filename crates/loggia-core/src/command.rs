//! The commands of clients and of the running agent, and the reasons to refuse them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{AnswerMessage, ChoiceId, Edit, Question};
use crate::call::{Access, Artifact, CallOutcome, Details};
use crate::content::Content;
use crate::event::{
    Amendment, CloseReason, Level, PlanStep, Screening, Source, TurnOutcome, Usage,
};
use crate::id::{
    ApprovalId, CallId, FreshIds, MessageId, Millis, PromptId, RuleId, TaskId, TurnId,
};
use crate::model::{Effort, ModelRecord};
use crate::name::SessionName;
use crate::origin::Origin;
use crate::settings::{AgentName, ModelName, Settings, Workspace};

/// The prefix of a shell line that a person typed as a prompt.
pub const SHELL_PREFIX: char = '!';
/// The only tool that may run such a line.
pub const SHELL_TOOL: &str = "run_shell_command";

/// A request to the session. It has its own id if a retry must be recognised.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Open {
        workspace: Workspace,
        settings: Settings,
        agent: AgentName,
    },
    /// Opens a task before its first message.
    OpenTask {
        task: TaskId,
        profile: Option<String>,
    },
    Prompt {
        prompt: PromptId,
        task: TaskChoice,
        content: Content,
    },
    /// A message to an existing task: an answer in words, or its next prompt.
    Reply(Reply),
    /// Records a message that gets no turn, as a task of its own.
    Screened {
        prompt: PromptId,
        task: TaskChoice,
        content: Content,
        screening: Screening,
    },
    /// A shell line that a person typed: its turn runs it once, without asking.
    Shell {
        prompt: PromptId,
        line: String,
    },
    Answer {
        to: Question,
        choice: ChoiceId,
        edit: Option<Edit>,
        /// The digest of the details that the person saw, if the client sent one.
        digest: Option<String>,
        message: Option<AnswerMessage>,
    },
    /// A question has timed out. Only the session's own timer sends it.
    Expire {
        approval: ApprovalId,
    },
    Cancel {
        what: Cancel,
    },
    Configure {
        settings: Settings,
    },
    Amend {
        amendment: Amendment,
    },
    /// Names the session.
    Name {
        name: SessionName,
    },
    Notice {
        level: Level,
        text: String,
    },
    Close {
        reason: CloseReason,
    },
    /// Sent only by the task that runs the turn.
    Report {
        turn: TurnId,
        report: Report,
    },
}

/// Which task a prompt belongs to. The protocol determines the variant; each is refused for other
/// reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskChoice {
    /// A new task with a generated id.
    New,
    /// A new task with the client's own id.
    Named(TaskId),
    /// An existing task that is not over.
    Continue(TaskId),
    /// An existing task, over or not.
    Reopen(TaskId),
}

/// A message to an existing task. It answers the question that is open when the message is decided. An answer to
/// the task's last question, if that is closed, is refused, and the refusal says how the question was closed. Every
/// other message is the task's next prompt, unless `otherwise` rules that out.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub prompt: PromptId,
    pub task: TaskChoice,
    pub content: Content,
    pub otherwise: IfNotAnswer,
    pub late: LateUntil,
    /// The client may answer questions.
    pub may_answer: bool,
}

/// How to treat a reply that answers no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfNotAnswer {
    /// It is the next prompt.
    Prompt,
    /// It is the next prompt if no question is open, and refused otherwise.
    PromptUnlessAsked,
    /// It is refused.
    Refused,
}

/// How long a reply that names a choice of the closed question counts as a late answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateUntil {
    /// Until the turn that asked has ended.
    UntilTurnEnds,
    /// Until the next turn of the task starts.
    UntilNextTurn,
}

impl TaskChoice {
    /// The task, if it must exist already.
    pub fn existing(&self) -> Option<&TaskId> {
        match self {
            TaskChoice::New | TaskChoice::Named(_) => None,
            TaskChoice::Continue(task) | TaskChoice::Reopen(task) => Some(task),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancel {
    Turn,
    Prompt(PromptId),
    Task(TaskId),
}

/// A report of the running agent to the session's writer.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Text {
        message: MessageId,
        text: String,
    },
    Thought {
        message: MessageId,
        subject: String,
        text: String,
    },
    Plan {
        steps: Vec<PlanStep>,
    },
    Cite {
        sources: Vec<Source>,
    },
    Usage {
        model: ModelName,
        usage: Usage,
        /// The model's context window in tokens, if known.
        window: Option<u64>,
    },
    Notice {
        level: Level,
        text: String,
        /// As in [`crate::Event::NoticeRaised`].
        wait: Option<u64>,
    },
    /// What only the model needs.
    Record {
        record: ModelRecord,
    },
    /// The reply broke off and is asked for again.
    Discard {
        message: MessageId,
    },
    Propose {
        call: CallId,
        proposal: Proposal,
    },
    /// A call that cannot be proposed: unknown tool, unreadable input.
    Invalid {
        call: CallId,
        message: MessageId,
        tool: String,
        input: Value,
        outcome: CallOutcome,
    },
    Output {
        call: CallId,
        text: String,
        skipped: u64,
    },
    End {
        call: CallId,
        outcome: CallOutcome,
    },
    /// A result that no call published.
    Publish {
        artifact: Artifact,
    },
    /// The prompt that a command from a file expanded to.
    Expand {
        command: String,
        source: String,
        text: String,
    },
    /// Replaces the conversation so far, for the model. An empty summary starts it over.
    Compact {
        summary: String,
        reach: CompactReach,
    },
    /// Names the session, on request in this turn.
    Name {
        name: SessionName,
    },
    /// Changes the model or the effort of the turns that follow, on request in this turn.
    Choose {
        choice: ModelChoice,
    },
    /// Revokes a permission. No report grants one.
    Revoke {
        rule: RuleId,
    },
    Finish {
        outcome: TurnOutcome,
    },
}

/// A change of the settings that only concern the model. No other setting can be changed by a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    Model(ModelName),
    /// None: the model's own default.
    Effort(Option<Effort>),
}

/// What a summary replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactReach {
    /// The running turn, too: a person asked for it.
    Everything,
    /// The turns before the running one.
    EarlierTurns,
    /// Those, and the replies of the running turn so far.
    Replies,
}

/// A call that the agent wants to make, with its preview.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub message: MessageId,
    pub tool: String,
    pub title: String,
    pub access: Access,
    pub input: Value,
    pub details: Details,
}

/// A command with its inputs from outside: time, origin and ids. They keep decisions pure.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamped<C> {
    pub command: C,
    pub at: Millis,
    pub origin: Origin,
    pub fresh: FreshIds,
}

/// Which limit of the queue is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueBound {
    #[default]
    Prompts,
    /// One client's share of the prompts.
    Share,
    Bytes,
    /// One client's share of the bytes.
    ShareBytes,
}

impl QueueBound {
    fn describe(self, queued: usize) -> String {
        match self {
            Self::Prompts => format!("{queued} prompts are already queued"),
            Self::Share => {
                format!("{queued} of your prompts are already queued, the limit for one client")
            }
            Self::Bytes => "the prompts that run or wait are too large together".to_owned(),
            Self::ShareBytes => {
                "your prompts that run or wait are larger together than the limit for one client"
                    .to_owned()
            }
        }
    }
}

/// Why a command is refused. Clients react to the variant; the text is for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Refusal {
    #[error("already answered: {choice} by {by}")]
    AlreadyAnswered { choice: ChoiceId, by: Origin, at: Millis },
    /// Words that would have answered a question of a task that can be continued.
    #[error(
        "already answered: {choice} by {by}; mark the message as a prompt to continue the task with it"
    )]
    ReplyTooLate { choice: ChoiceId, by: Origin, at: Millis },
    #[error("this question is no longer open: {why}")]
    Withdrawn { why: String, at: Millis },
    #[error("there is no such question in this session")]
    UnknownQuestion,
    #[error("this message answers a question, but its client is not allowed to answer")]
    MayNotAnswer,
    #[error(
        "the correlation id and the tool call id name different questions: send the correlation id that came \
         with the call, or none"
    )]
    MixedQuestion,
    #[error("`{given}` is not one of the offered choices: {}", offered.join(", "))]
    NotAChoice { given: String, offered: Vec<String> },
    #[error(
        "`{given}` is only for the user who runs Loggia: choose one of {} instead",
        instead.join(", ")
    )]
    OwnerOnly { given: String, instead: Vec<String> },
    #[error("this answer does not fit the question: {why}")]
    UnfitEdit { why: String },
    #[error("the details have changed since they were shown: read them again, then answer")]
    DetailsChanged,
    #[error("there is no such task in this session")]
    UnknownTask,
    #[error("this session already has a task with that id")]
    TaskExists,
    #[error("this task is over")]
    TaskOver,
    #[error("nothing is running that could be cancelled")]
    NothingToCancel,
    #[error("{}: try again when some are done", bound.describe(*queued))]
    QueueFull {
        queued: usize,
        #[serde(default)]
        bound: QueueBound,
    },
    #[error("there is no such rule in this session")]
    UnknownRule,
    #[error("this turn is over")]
    StaleTurn,
    #[error("this call is not running")]
    StaleCall,
    #[error("a call with this id exists already")]
    DuplicateCall,
    #[error("this session is already open")]
    AlreadyOpen,
    #[error("this session was never opened")]
    NotOpen,
    #[error("this session is closed")]
    SessionClosed,
}
