//! Every request that a client can make, in one enum that names no dialect.
//!
//! Decoding checks shape and size only. Whether the task exists, the client is allowed and the workspace is
//! permitted is decided by the server.

use loggia_core::{
    AnswerMessage, ChoiceId, Command, Content, Edit, IfNotAnswer, Millis, PromptId, Question,
    Reply, Repository, SessionId, TaskChoice, TaskId, TaskState,
};
use serde_json::Value;

use crate::dialect::{Extension, View};
use crate::{coder, devtool};

/// A decoded request, and the view of its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedRequest {
    pub view: View,
    pub intent: Intent,
}

impl DecodedRequest {
    /// The task or session whose profile decides the view of this request. None if the request names its view.
    pub fn profile_subject(&self) -> Option<Subject<'_>> {
        let plain = self.view.extension == Extension::Off && self.view.protocol().is_a2a();
        let named = |task, session: Option<_>| -> Option<Subject<'_>> {
            Option::map(task, Subject::Task).or(session.map(Subject::Session))
        };
        match &self.intent {
            _ if !plain => None,
            Intent::Prompt(prompt) => named(prompt.named_task(), prompt.session.as_ref()),
            Intent::Answer(answer) => named(answer.task.as_ref(), answer.session.as_ref()),
            Intent::Cancel { task }
            | Intent::Subscribe { task }
            | Intent::GetTask { task, .. }
            | Intent::SetPush { task, .. } => Some(Subject::Task(task)),
            Intent::OpenTask(_)
            | Intent::ListTasks(_)
            | Intent::GetPush { .. }
            | Intent::ListPush { .. }
            | Intent::DeletePush { .. }
            | Intent::GetExtendedCard
            | Intent::ListSlash { .. }
            | Intent::RunSlash(_) => None,
        }
    }

    /// The request in the view of a task or session with this profile.
    #[must_use]
    pub fn in_profile(self, profile: Option<&str>) -> DecodedRequest {
        let extended = View { extension: Extension::On, ..self.view };
        let push = matches!(self.intent, Intent::SetPush { .. });
        // A confirmation exists in the extension only.
        let confirms = matches!(self.intent, Intent::Answer(_));
        match (self.profile_subject(), profile) {
            (Some(Subject::Task(_)), Some(coder::PROFILE))
                if self.view == View::A2A_03 && !push =>
            {
                self.continued_in(View::CODER, coder::PROFILE)
            }
            (Some(_), Some(devtool::PROFILE)) => self.continued_in(extended, devtool::PROFILE),
            (Some(Subject::Task(_)), _) if confirms => {
                self.continued_in(extended, devtool::PROFILE)
            }
            _ => self,
        }
    }

    /// The same request in a view where a task continues after a turn has ended.
    pub(crate) fn continued_in(self, view: View, profile: &str) -> DecodedRequest {
        let DecodedRequest { mut intent, .. } = self;
        if let Intent::Prompt(prompt) = &mut intent {
            prompt.content.profile = Some(profile.to_owned());
            if let TaskChoice::Continue(task) = &prompt.task {
                prompt.task = TaskChoice::Reopen(task.clone());
            }
        }
        DecodedRequest { view, intent }
    }

    /// Whether the answer would be a stream.
    pub fn is_stream(&self) -> bool {
        match &self.intent {
            Intent::Prompt(prompt) => prompt.delivery == Delivery::Stream,
            Intent::Answer(answer) => answer.delivery == Delivery::Stream,
            intent => matches!(intent, Intent::Subscribe { .. }),
        }
    }
}

/// A task or a session that may have been begun in another view than a request about it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    Task(&'a TaskId),
    Session(&'a SessionId),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// A task that waits for its first message.
    OpenTask(OpenTask),
    Prompt(Box<Prompt>),
    Answer(Box<Answer>),
    Cancel {
        task: TaskId,
    },
    Subscribe {
        task: TaskId,
    },
    GetTask {
        task: TaskId,
        history: HistoryLength,
    },
    ListTasks(ListTasks),
    SetPush {
        task: TaskId,
        target: PushTarget,
    },
    GetPush {
        task: TaskId,
        config: Option<String>,
    },
    ListPush {
        task: TaskId,
    },
    DeletePush {
        task: TaskId,
        config: String,
    },
    GetExtendedCard,
    ListSlash {
        session: Option<SessionId>,
    },
    RunSlash(RunSlash),
}

impl Intent {
    /// The task of a request without a message.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Intent::Cancel { task }
            | Intent::Subscribe { task }
            | Intent::GetTask { task, .. }
            | Intent::SetPush { task, .. }
            | Intent::GetPush { task, .. }
            | Intent::ListPush { task }
            | Intent::DeletePush { task, .. } => Some(task),
            Intent::OpenTask(_)
            | Intent::Prompt(_)
            | Intent::Answer(_)
            | Intent::ListTasks(_)
            | Intent::GetExtendedCard
            | Intent::ListSlash { .. }
            | Intent::RunSlash(_) => None,
        }
    }
}

/// A message for the agent. To a task with an open question, its text may be an answer: see
/// [`Prompt::command`].
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// None: the shared session, or a new one.
    pub session: Option<SessionId>,
    /// `Reopen` with the extension, where a finished task can continue; `Continue` without.
    pub task: TaskChoice,
    pub content: Content,
    pub answers: Answers,
    pub settings: Option<AgentSettings>,
    pub delivery: Delivery,
    pub push: Option<PushTarget>,
    pub history: HistoryLength,
    /// Media types the client can show; empty means any.
    pub output_modes: Vec<String>,
    /// Tasks the message refers to.
    pub references: Vec<TaskId>,
}

/// Whether a message to a task may be an answer in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    #[default]
    Maybe,
    /// The client says that it is a prompt.
    Never,
    /// The client says that it is not a prompt, or the task accepts no further prompt.
    Only,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpenTask {
    pub session: Option<SessionId>,
    pub settings: Option<AgentSettings>,
    /// The view for readers that name none.
    pub profile: Option<String>,
}

/// One choice for one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub session: Option<SessionId>,
    /// The task to which the question belongs, according to the client.
    pub task: Option<TaskId>,
    pub to: Question,
    pub choice: ChoiceId,
    pub edit: Option<Edit>,
    /// The digest of the details that the person saw.
    pub digest: Option<String>,
    /// The client's message.
    pub message: Option<AnswerMessage>,
    pub delivery: Delivery,
    pub history: HistoryLength,
}

/// When and how the result of a message is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// As frames, until the task is over or waits for an answer.
    Stream,
    /// The task, when it is over or waits for an answer.
    WhenSettled,
    /// The task as it is now.
    AtOnce,
    /// The client did not say; the protocol has a default.
    Unsaid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistoryLength {
    #[default]
    All,
    /// The newest; zero means no history at all.
    Last(usize),
}

/// The settings that a client requests for a session, within the server's policy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentSettings {
    /// Absolute.
    pub workspace_path: Option<String>,
    /// As sent: an object by server name.
    pub mcp_servers: Option<Value>,
    pub allowed_tools: Option<Vec<String>>,
    pub auto_execute: Option<bool>,
    /// The name of a model, as the configuration writes it.
    pub model: Option<String>,
    /// A level of effort.
    pub effort: Option<String>,
    /// Work in a clone of this repository instead of a directory of the server.
    pub repository: Option<Repository>,
    /// The names of the repository's fields, for errors.
    pub repository_fields: RepositoryFields,
    /// The client cannot answer questions: calls that would need approval are refused.
    pub unattended: bool,
}

/// The paths of the members in which a client described a repository.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepositoryFields {
    pub url: String,
    pub revision: String,
}

impl RepositoryFields {
    pub(crate) fn below(at: &str, url: &str, revision: &str) -> Self {
        Self { url: format!("{at}.{url}"), revision: format!("{at}.{revision}") }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListTasks {
    pub session: Option<SessionId>,
    pub status: StatusFilter,
    /// 1 to 100.
    pub page_size: usize,
    pub page_token: Option<String>,
    pub history: HistoryLength,
    pub artifacts: bool,
    /// Only tasks that changed after this.
    pub since: Option<Millis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatusFilter {
    #[default]
    Any,
    Is(TaskState),
    /// A state of the protocol in which no task of Loggia can be.
    Nothing,
}

impl StatusFilter {
    pub fn admits(self, state: TaskState) -> bool {
        match self {
            StatusFilter::Any => true,
            StatusFilter::Is(wanted) => wanted == state,
            StatusFilter::Nothing => false,
        }
    }
}

/// A webhook. Its secrets are sent to its URL only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushTarget {
    pub id: Option<String>,
    pub url: String,
    pub token: Option<String>,
    /// For the `Authorization` header.
    pub scheme: Option<String>,
    pub credentials: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunSlash {
    pub session: Option<SessionId>,
    /// `["memory", "add"]` for `/memory add`.
    pub path: Vec<String>,
    pub args: String,
    pub settings: Option<AgentSettings>,
}

impl Prompt {
    /// The existing task that this message continues.
    pub fn named_task(&self) -> Option<&TaskId> {
        self.task.existing()
    }

    /// The command for the session. If the task exists, the session decides whether the message answers its
    /// question, is too late for that, or is the next prompt.
    pub fn command(self, view: View, prompt: PromptId, may_answer: bool) -> Command {
        let Prompt { task, content, answers, .. } = self;
        let has_answer_form = view.protocol().has_answer_form(view.extension);
        let otherwise = match answers {
            Answers::Only => IfNotAnswer::Refused,
            Answers::Maybe | Answers::Never if has_answer_form => IfNotAnswer::Prompt,
            Answers::Maybe | Answers::Never => IfNotAnswer::PromptUnlessAsked,
        };
        let late = view.protocol().late_answers();
        match task.existing().is_some() && answers != Answers::Never {
            true => Command::Reply(Reply { prompt, task, content, otherwise, late, may_answer }),
            false => Command::Prompt { prompt, task, content },
        }
    }
}
