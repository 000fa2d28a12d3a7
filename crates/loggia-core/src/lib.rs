//! The session as pure functions over facts.
//!
//! A session is an append-only log of [`Event`]s. [`Session::decide`] turns a command into events
//! or a refusal, [`Session::apply`] folds an event into state, [`effects`] lists the actions that
//! follow a durable event, and [`Session::recover`] returns the events to append when a log is
//! reopened after a crash.
//!
//! Not here: a runtime, a clock, a file, a socket, a lock, a channel, randomness, a
//! parser of shell lines ([`shell`] is the port for it), and the types of any protocol. Time, origin
//! and the seed for new ids come with the command ([`Stamped`]); the same log always folds to the
//! same state.

pub mod address;
pub mod approval;
pub mod call;
pub mod command;
pub mod content;
pub mod event;
pub mod id;
pub mod model;
pub mod name;
pub mod origin;
pub mod policy;
pub mod prices;
mod protected;
pub mod repository;
pub mod session;
pub mod settings;
pub mod shell;
pub mod slash;
pub mod task;
pub mod timeout;
pub mod transcript;
pub mod words;

pub use approval::{AnswerMessage, Choice, ChoiceId, Edit, KnownChoice, Question, Reach, Risk};
pub use call::{Access, Artifact, CallFailure, CallOutcome, CallState, Details, FileDiff, Output};
pub use command::{
    Cancel, Command, CompactReach, IfNotAnswer, LateUntil, ModelChoice, Proposal, QueueBound,
    Refusal, Reply, Report, SHELL_PREFIX, SHELL_TOOL, Stamped, TaskChoice,
};
pub use content::{Content, Part};
pub use event::{
    Amendment, Authority, CloseReason, Durability, Envelope, Event, Level, PlanStep, Screening,
    Source, StepState, TurnOutcome, Usage,
};
pub use id::{
    ApprovalId, CallId, ClientId, FreshIds, MessageId, Millis, PromptId, RuleId, Seq, SessionId,
    TaskId, TurnId,
};
pub use model::{Effort, ModelRecord, Note, ReplyItem, Stop, ToolDescription};
pub use name::{NameError, SessionName};
pub use origin::{Origin, Surface};
pub use policy::{Matcher, Mode, Policy, Rule, RuleLifetime, Verdict};
pub use prices::{Amount, Price, Prices, Rate, UsageByModel};
pub use repository::Repository;
pub use session::effect::{Effect, effects};
pub use session::stats::Stats;
pub use session::{Compacted, OpenApproval, OpenCall, OpenTurn, Opened, Queued, Session, Summary};
pub use settings::{AgentName, Limits, ModelName, Settings, Workspace};
pub use slash::custom::{CustomCommand, CustomCommands};
pub use slash::{Slash, SlashCommand, SlashError};
pub use task::TaskState;
pub use task::view::{Exchange, RefusedCall, TaskArtifact, TaskView, Tasks};
pub use timeout::{OnTimeout, Seconds, Timeout};
pub use transcript::{CallCell, Cell, CellBody, Transcript};
