//! What a client or the running agent may want, and why it may not have it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{AnswerMessage, ChoiceId, Edit, Question};
use crate::call::{Access, Artifact, CallOutcome, Details};
use crate::content::Content;
use crate::event::{Amendment, CloseReason, Level, Screening, Source, Step, TurnOutcome, Usage};
use crate::id::{ApprovalId, CallId, Fresh, MessageId, Millis, PromptId, RuleId, TaskId, TurnId};
use crate::name::SessionName;
use crate::origin::Origin;
use crate::settings::{AgentName, ModelName, Settings, Workspace};

/// What a person's own command line begins with where prompts are shown.
pub const SHELL_MARK: char = '!';
/// The one tool that may run it.
pub const SHELL_TOOL: &str = "run_shell_command";

/// A wish. It carries its own id where a retry must be recognised.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Open {
        workspace: Workspace,
        settings: Settings,
        agent: AgentName,
    },
    /// Keeps a task ready for a message that comes later.
    OpenTask {
        task: TaskId,
        profile: Option<String>,
    },
    Prompt {
        prompt: PromptId,
        task: TaskChoice,
        content: Content,
    },
    /// A message to a task that exists: an answer in words, or the task's next prompt.
    Reply(Reply),
    /// Keeps what became of a message that is to have no turn, as a task of its own.
    Screened {
        prompt: PromptId,
        task: TaskChoice,
        content: Content,
        screening: Screening,
    },
    /// A command line of a person's own: a turn that runs it, once, without a question.
    Shell {
        prompt: PromptId,
        line: String,
    },
    Answer {
        to: Question,
        choice: ChoiceId,
        edit: Option<Edit>,
        /// The digest of what the person saw, where the client sends one.
        digest: Option<String>,
        message: Option<AnswerMessage>,
    },
    /// The time of a question is up. Sent by the session's own clock, and by no client.
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
    /// Calls the session something.
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
    /// Only the runner of the turn sends these.
    Report {
        turn: TurnId,
        report: Report,
    },
}

/// Which task a prompt belongs to. The dialect picks; the refusals differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskChoice {
    /// A new task with an id of ours.
    New,
    /// A new task with the client's own id.
    Named(TaskId),
    /// An existing task that is not over.
    Continue(TaskId),
    /// An existing task, over or not.
    Reopen(TaskId),
}

/// A message to a task that exists. Its words answer the question that is open when the message is decided. Words that
/// would have answered the task's last question are refused, and the refusal says how that question was closed. Any
/// other message is the task's next prompt, unless `otherwise` says something else.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub prompt: PromptId,
    pub task: TaskChoice,
    pub content: Content,
    pub otherwise: Otherwise,
    pub late: Late,
    /// The client may answer questions.
    pub may_answer: bool,
}

/// What becomes of a reply that answers no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// It is the next prompt.
    Prompt,
    /// It is the next prompt unless a question is open, which it has to answer then.
    PromptUnlessAsked,
    /// It is refused.
    Refused,
}

/// How long a reply that names a choice of the last question is a late answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Until the turn that asked has ended.
    UntilTurnEnds,
    /// Until the next turn of the task starts.
    UntilNextTurn,
}

impl TaskChoice {
    /// The task, where it has to exist already.
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

/// What the running agent tells the writer.
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
        steps: Vec<Step>,
    },
    Cite {
        sources: Vec<Source>,
    },
    Usage {
        model: ModelName,
        usage: Usage,
        /// Tokens that the model can hold at once, where that is known.
        window: Option<u64>,
    },
    Notice {
        level: Level,
        text: String,
    },
    Propose {
        call: CallId,
        proposal: Proposal,
    },
    /// A call that can not even be proposed: unknown tool, unreadable input.
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
    /// What a command from a file became.
    Expand {
        command: String,
        source: String,
        text: String,
    },
    /// From now on the model reads this instead of what was said so far; empty to begin anew.
    Compact {
        summary: String,
        /// By itself, as the turn begins: it stands for the turns before this one.
        automatic: bool,
    },
    /// Calls the session something, because somebody said so in this turn.
    Name {
        name: SessionName,
    },
    /// Takes back a permission. There is no report that gives one.
    Revoke {
        rule: RuleId,
    },
    Finish {
        outcome: TurnOutcome,
    },
}

/// A call the agent would like to make, with the preview everybody is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub message: MessageId,
    pub tool: String,
    pub title: String,
    pub access: Access,
    pub input: Value,
    pub details: Details,
}

/// What makes a decision pure: time, origin and ids come from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamped<C> {
    pub command: C,
    pub at: Millis,
    pub origin: Origin,
    pub fresh: Fresh,
}

/// Which bound of the queue is reached.
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
    fn said(self, queued: usize) -> String {
        match self {
            Self::Prompts => format!("{queued} prompts are waiting already"),
            Self::Share => {
                format!("{queued} prompts of yours are waiting already, one client's share")
            }
            Self::Bytes => "the prompts that run or wait are too large together".to_owned(),
            Self::ShareBytes => {
                "your prompts that run or wait are larger together than one client's share"
                    .to_owned()
            }
        }
    }
}

/// Why not. Each variant is something a client does differently; the text is for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Refusal {
    #[error("already answered: {choice} by {by}")]
    AlreadyAnswered { choice: ChoiceId, by: Origin, at: Millis },
    #[error("this question is no longer open: {why}")]
    Withdrawn { why: String, at: Millis },
    #[error("there is no such question in this session")]
    UnknownQuestion,
    #[error("this message answers a question, and its client may not answer questions")]
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
    #[error("what was shown has changed since: look again and answer again")]
    DetailsChanged,
    #[error("there is no such task in this session")]
    UnknownTask,
    #[error("this session already has a task with that id")]
    TaskExists,
    #[error("this task is over")]
    TaskOver,
    #[error("nothing is running that could be cancelled")]
    NothingToCancel,
    #[error("{}: try again when some are done", bound.said(*queued))]
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
    #[error("this session was opened before")]
    AlreadyOpen,
    #[error("this session was never opened")]
    NotOpen,
    #[error("this session is closed")]
    SessionClosed,
}
