//! The prompt hook: checks each inbound message before it becomes a prompt, and can rewrite, reject or
//! answer it.
//!
//! The port, and the effect of each decision on the client that sent the message. [`process`] runs a
//! configured program as the hook.
//!
//! Every prompt of a client enters its session through this file: [`Passed`] is the only type in this crate
//! that becomes [`Command::Prompt`], and only a passed check makes one.

pub mod process;

use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{
    Command, Content, Origin, Part, Refusal, Screening, SessionId, TaskChoice, TaskId,
};
use loggia_session::{Ack, SessionHandle};
use loggia_wire::attach::{self, ClientCommand};
use loggia_wire::{
    AgentSettings, Condition, Delivery, Prompt, PushTarget, View, WireError, context, legacy,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dispatch::{Recipient, Reply, StreamStart, submit};
use crate::state::{Caller, Server};

/// The prefix of a command line that a person types.
const LINE: char = '!';

/// Asked about every inbound message before anything else is done with it.
///
/// - Answers in bounded time and leaves nothing running, also when the future is dropped.
/// - On an error the message is refused.
pub trait PromptHook: Send + Sync + 'static {
    fn decide<'a>(&'a self, submitted: &'a Submitted)
    -> BoxFuture<'a, Result<Decision, HookError>>;
}

/// A message as the hook sees it: one JSON object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Submitted {
    pub event: &'static str,
    /// The client's id of the message.
    pub id: Option<String>,
    /// All text of the message, its parts separated by line breaks.
    pub text: String,
    pub parts: Vec<Part>,
    pub metadata: Option<Value>,
    /// None: the message opens a session.
    pub session: Option<SessionId>,
    /// None: the message begins a task.
    pub task: Option<TaskId>,
    pub origin: Origin,
    /// The version of the protocol.
    pub version: &'static str,
    /// Whether the development-tool extension is on.
    pub extension: bool,
}

/// The decision about a message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    Pass {},
    /// Replaces its text; other parts stay.
    Rewrite {
        text: String,
    },
    Reject {
        reason: String,
    },
    /// The client gets this text, and no task is started.
    Answer {
        text: String,
    },
}

/// Why the hook did not decide. For the operator's log: contains no text of the message or of the hook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    #[error("the prompt hook cannot be started: {0}")]
    Start(String),
    #[error("the prompt hook took longer than {0} seconds")]
    TooSlow(u64),
    #[error("the prompt hook wrote more than {0} bytes")]
    TooMuch(usize),
    #[error("the prompt hook failed: {0}")]
    Failed(String),
    #[error("the prompt hook's answer cannot be read: {0}")]
    Unreadable(String),
}

/// A message that the hook passed, possibly rewritten.
pub(crate) struct Passed(Box<Prompt>);

impl Passed {
    pub fn prompt(&self) -> &Prompt {
        &self.0
    }

    /// For a task id that was made for a callback.
    pub fn task_mut(&mut self) -> &mut TaskChoice {
        &mut self.0.task
    }

    pub fn take_callback(&mut self) -> Option<PushTarget> {
        self.0.push.take()
    }

    /// The command for the session.
    pub fn command(self, view: View, may_answer: bool) -> Command {
        self.0.command(view, SessionHandle::fresh_prompt(), may_answer)
    }
}

/// The result of the hook for a message.
pub(crate) enum Checked {
    Passed(Passed),
    Rejected {
        prompt: Box<Prompt>,
        reason: String,
    },
    /// `session` is the one that the message was for, if it exists.
    Answered {
        prompt: Box<Prompt>,
        text: String,
        session: Option<SessionId>,
    },
}

/// How a message continues after the hook.
pub(crate) enum HookResult {
    Pass(Passed),
    /// It becomes a finished task, so that clients find the decision by its id.
    Record(Box<Prompt>, Screening),
    /// The text is the whole answer, without a task.
    Reply(Reply),
}

impl Server {
    /// Asks the hook about every inbound message from now on.
    #[must_use]
    pub fn with_hook(mut self, hook: Option<Arc<dyn PromptHook>>) -> Self {
        self.hook = hook;
        self
    }

    /// Asks the hook about a prompt, if there is a hook and the caller may send that prompt.
    pub(crate) async fn check_prompt(
        &self,
        prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Checked, WireError> {
        match &self.hook {
            Some(hook) => Box::pin(self.check_by(hook.as_ref(), prompt, view, caller)).await,
            None => Ok(Checked::Passed(Passed(prompt))),
        }
    }

    async fn check_by(
        &self,
        hook: &dyn PromptHook,
        mut prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<Checked, WireError> {
        let session = self.addressed(&prompt, caller).await?;
        let submitted = Submitted {
            event: "prompt_submit",
            id: prompt.content.message.clone(),
            text: prompt.content.to_text(),
            parts: prompt.content.parts.clone(),
            metadata: prompt.content.metadata.clone(),
            session: session.clone(),
            task: prompt.named_task().cloned(),
            origin: caller.origin.clone(),
            version: view.version(),
            extension: view.has_extension(),
        };
        Ok(match consult(hook, &submitted).await? {
            Decision::Pass {} => Checked::Passed(Passed(prompt)),
            Decision::Rewrite { text } => {
                prompt.content = rewritten(prompt.content, text);
                Checked::Passed(Passed(prompt))
            }
            Decision::Reject { reason } => Checked::Rejected { prompt, reason },
            Decision::Answer { text } => Checked::Answered { prompt, text, session },
        })
    }

    /// The same, with the answer for a client whose message does not pass.
    pub(crate) async fn screen(
        &self,
        prompt: Box<Prompt>,
        view: View,
        caller: &Caller,
    ) -> Result<HookResult, WireError> {
        match self.check_prompt(prompt, view, caller).await? {
            Checked::Passed(passed) => Ok(HookResult::Pass(passed)),
            // A task that goes on is not rejected: one message to it is.
            Checked::Rejected { prompt, reason }
                if prompt.named_task().is_some() || !view.has_rejected_tasks() =>
            {
                Err(Condition::Rejected { why: reason }.into())
            }
            Checked::Rejected { mut prompt, reason } => {
                prompt.content = legacy::request::withheld(prompt.content);
                Ok(HookResult::Record(prompt, Screening::Rejected { reason }))
            }
            Checked::Answered { prompt, text, session } => {
                let (id, session) = (uuid::Uuid::now_v7().to_string(), shown(&prompt, session));
                match (view.message(&session, &id, &text), prompt.delivery) {
                    (Some(value), Delivery::Stream) => Ok(HookResult::Reply(Reply::Frame(value))),
                    (Some(value), _) => Ok(HookResult::Reply(Reply::Value(value))),
                    (None, _) if prompt.named_task().is_some() => {
                        Err(Condition::Answered { text }.into())
                    }
                    (None, _) => Ok(HookResult::Record(prompt, Screening::Answered { text })),
                }
            }
        }
    }

    /// Records a message without a turn in the log, so that its task is found like any other.
    pub(crate) async fn record_and_deliver(
        &self,
        prompt: Box<Prompt>,
        screening: Screening,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let (handle, ack) = match self.record(&prompt, screening, caller).await? {
            Some(recorded) => recorded,
            None => return self.reply_for_taken_id(prompt, view, caller).await,
        };
        let task = ack.task.clone().ok_or(Condition::Internal)?;
        if prompt.session.is_some() && self.is_second(&handle, &task, caller).await? {
            return self.reply_for_taken_id(prompt, view, caller).await;
        }
        let to = Recipient { caller, view, delivery: prompt.delivery, history: prompt.history };
        self.deliver(&handle, task, &ack, StreamStart::Prompt, to).await
    }

    /// Appends it. None if another message has taken the task's id.
    pub(crate) async fn record(
        &self,
        prompt: &Prompt,
        screening: Screening,
        caller: &Caller,
    ) -> Result<Option<(SessionHandle, Ack)>, WireError> {
        let wanted = self.session_name(prompt, caller).await?;
        // It does not change the settings of an existing session.
        let settings =
            AgentSettings { auto_execute: None, ..prompt.settings.clone().unwrap_or_default() };
        let handle = self.session_for(wanted.as_ref(), Some(&settings), caller).await?;
        let command = Command::Screened {
            prompt: SessionHandle::fresh_prompt(),
            task: prompt.task.clone(),
            content: prompt.content.clone(),
            screening,
        };
        match submit(&handle, command, caller).await {
            Err(WireError::Refused(Refusal::TaskExists)) => Ok(None),
            submitted => submitted.map(|ack| Some((handle, ack))),
        }
    }

    /// The same for input of an attached terminal: a message, or a command line, which the hook sees with
    /// its `!`. The error is shown to the user.
    pub(crate) async fn screen_attached(
        &self,
        command: ClientCommand,
        handle: &SessionHandle,
        caller: &Caller,
    ) -> Result<Command, String> {
        let Some(hook) = &self.hook else { return Ok(command.into()) };
        let content = match &command {
            ClientCommand::Prompt { content, .. } => content.clone(),
            ClientCommand::Shell { line, .. } => Content::text(format!("{LINE}{line}")),
            ClientCommand::Answer { .. } | ClientCommand::Cancel { .. } => {
                return Ok(command.into());
            }
        };
        let submitted = Submitted {
            event: "prompt_submit",
            id: content.message.clone(),
            text: content.to_text(),
            parts: content.parts,
            metadata: content.metadata,
            session: Some(handle.id().clone()),
            task: None,
            origin: caller.origin.clone(),
            version: attach::SUBPROTOCOL,
            extension: false,
        };
        let decision = consult(hook.as_ref(), &submitted).await;
        let decision = decision.map_err(|error| View::WEBSOCKET.refuse(&error).message)?;
        match decision {
            Decision::Pass {} => Ok(command.into()),
            Decision::Rewrite { text } => Ok(typed_instead(command, text).into()),
            Decision::Reject { reason } => Err(format!("the prompt hook rejects it: {reason}")),
            Decision::Answer { text } => Err(format!("the prompt hook answers: {text}")),
        }
    }

    /// The session that a message is for, if it exists. An error if the caller may not see it: the hook is
    /// not asked about messages that are refused anyway.
    async fn addressed(
        &self,
        prompt: &Prompt,
        caller: &Caller,
    ) -> Result<Option<SessionId>, WireError> {
        if let Some(task) = prompt.named_task() {
            return Ok(Some(self.session_of(task, caller).await?.id().clone()));
        }
        match (&self.session_name(prompt, caller).await?, &self.sessions) {
            (None, crate::state::ServedSessions::Shared(shared)) => Ok(Some(shared.clone())),
            (None, crate::state::ServedSessions::Many) => Ok(None),
            (Some(id), _) => match self.session(id, caller).await {
                Ok(handle) => Ok(Some(handle.id().clone())),
                // This message may open a session of that name.
                Err(WireError::Condition(Condition::UnknownContext))
                    if self.serves_many_sessions() =>
                {
                    Ok(Some(id.clone()))
                }
                Err(error) => Err(error),
            },
        }
    }
}

async fn consult(hook: &dyn PromptHook, submitted: &Submitted) -> Result<Decision, WireError> {
    hook.decide(submitted).await.map_err(|error| {
        tracing::warn!(%error, "a message is refused");
        Condition::HookFailed.into()
    })
}

/// The rewritten input. A command line may become a message, but a message never becomes a command line.
fn typed_instead(command: ClientCommand, text: String) -> ClientCommand {
    match command {
        ClientCommand::Shell { prompt, .. } => match text.strip_prefix(LINE) {
            Some(line) => ClientCommand::Shell { prompt, line: line.to_owned() },
            None => ClientCommand::Prompt { prompt, content: Content::text(text) },
        },
        ClientCommand::Prompt { prompt, content } => {
            ClientCommand::Prompt { prompt, content: rewritten(content, text) }
        }
        command @ (ClientCommand::Answer { .. } | ClientCommand::Cancel { .. }) => command,
    }
}

/// Puts the text in the place of the first text part and removes the other text parts.
fn rewritten(mut content: Content, text: String) -> Content {
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    let parts = std::mem::take(&mut content.parts);
    let place = parts.iter().take_while(|part| !is_text(part)).count();
    let mut parts: Vec<Part> = parts.into_iter().filter(|part| !is_text(part)).collect();
    legacy::request::rewrite(&mut content, &text);
    parts.insert(place, Part::Text { text });
    Content { parts, ..content }
}

/// The context id that the client knows, or will know.
fn shown(prompt: &Prompt, session: Option<SessionId>) -> SessionId {
    let existing = session.map(|session| SessionId::from(context::shown(&session)));
    let named = prompt.session.clone().or(existing);
    named.unwrap_or_else(|| SessionId::from(uuid::Uuid::now_v7()))
}

#[cfg(test)]
#[path = "hook_tests.rs"]
mod tests;
