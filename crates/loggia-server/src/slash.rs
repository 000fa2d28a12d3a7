//! `commands/get` and `command/execute`: the list of slash commands, and the immediate reply to running one.
//!
//! A command becomes a prompt. Its execution id is the task's id, and its output comes as frames of that task. What a
//! command does is not known here.

use std::path::PathBuf;
use std::time::Duration;

use loggia_core::slash;
use loggia_core::{
    Content, CustomCommands, Details, Exchange, Screening, Session, SessionId, Slash, TaskChoice,
    TaskId,
};
use loggia_session::{Ack, SessionHandle};
use loggia_wire::commands::{CommandExecutionStatus, ExecuteSlashCommandResponse};
use loggia_wire::{
    AgentSettings, Condition, Delivery, HistoryLength, Prompt, RunSlash, View, Violation,
    WireError, context, sdlc,
};
use serde::Serialize;
use serde_json::Value;

use crate::dispatch::Reply;
use crate::hook::Checked;
use crate::state::{Caller, ServedSessions, Server, submit_error};

/// How long the reply to a command that may ask waits for its question.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client waits for the output of a command.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

/// The context of a caller's commands that name no context and ask nothing, so that each of them needs no new session.
const CONTEXT: &str = "slash-commands";

/// The state of a command right after it was accepted.
enum CommandProgress {
    /// Running, or done.
    Started,
    Queued,
    /// A question must be answered first: its own, or that of the turn before it.
    Waits {
        own: bool,
        title: String,
        shell: bool,
    },
}

impl Server {
    pub(crate) async fn list_slash(
        &self,
        session: Option<SessionId>,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let named = match (&session, &self.sessions) {
            (Some(session), _) | (None, ServedSessions::Shared(session)) => {
                Some(self.session(session, caller).await?)
            }
            (None, ServedSessions::Many) => None,
        };
        let custom = match named {
            Some(handle) => self.custom_of(&handle).await?,
            None => self.custom_in(self.defaults.workspace.clone()).await?,
        };
        Ok(Reply::Value(view.commands(&custom)))
    }

    /// The commands from files that apply in a session.
    pub(crate) async fn custom_of(
        &self,
        handle: &SessionHandle,
    ) -> Result<CustomCommands, WireError> {
        let place = |session: &Session| {
            session.opened().map(|opened| PathBuf::from(opened.workspace.path()))
        };
        match handle.inspect(place).await.map_err(submit_error)? {
            Some(workspace) => self.custom_in(workspace).await,
            None => Ok(CustomCommands::default()),
        }
    }

    async fn custom_in(&self, workspace: PathBuf) -> Result<CustomCommands, WireError> {
        let Some(commands) = self.commands.clone() else { return Ok(CustomCommands::default()) };
        let listed = tokio::task::spawn_blocking(move || commands(&workspace)).await;
        listed.map_err(|_| Condition::Internal.into())
    }

    /// The commands from files that apply where a command is to run: in a session that may not exist yet.
    async fn custom_for(
        &self,
        run: &RunSlash,
        caller: &Caller,
    ) -> Result<CustomCommands, WireError> {
        let named = match (&run.session, &self.sessions) {
            (Some(session), _) | (None, ServedSessions::Shared(session)) => Some(session),
            (None, ServedSessions::Many) => None,
        };
        let known = match named {
            Some(session) => match self.session(session, caller).await {
                Err(WireError::Condition(Condition::UnknownContext))
                    if self.serves_many_sessions() =>
                {
                    None
                }
                known => Some(known?),
            },
            None => None,
        };
        match known {
            Some(handle) => self.custom_of(&handle).await,
            None => match self.directory_of(run.settings.as_ref())? {
                Some(directory) => self.custom_in(directory).await,
                // Commands of a cloned repository are not trusted.
                None => self.custom_in(PathBuf::new()).await,
            },
        }
    }

    pub(crate) async fn run_slash(
        &self,
        run: RunSlash,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let custom = self.custom_for(&run, caller).await?;
        let command = match custom.parse(&run.path, &run.args) {
            Ok(command) => command,
            Err(error) if view.waits_for_commands() => return Err(no_command(&error)),
            Err(error) => {
                return value(&ExecuteSlashCommandResponse {
                    execution_id: String::new(),
                    status: CommandExecutionStatus::FailedToStart,
                    message: error.to_string(),
                });
            }
        };
        // A command that may ask would block the shared context.
        let shares = self.serves_many_sessions() && run.settings.is_none() && !command.may_ask();
        let wanted = run.session.or_else(|| shares.then(|| CONTEXT.into()));
        let prompt = Box::new(prompt_of(&command, view, wanted, run.settings));
        let passed = match self.check_prompt(prompt, view, caller).await? {
            Checked::Passed(passed) => passed,
            Checked::Rejected { reason, .. } if view.waits_for_commands() => {
                return Err(Condition::Rejected { why: reason }.into());
            }
            Checked::Rejected { reason, .. } => {
                let error = WireError::from(Condition::Rejected { why: reason });
                return value(&ExecuteSlashCommandResponse {
                    execution_id: String::new(),
                    status: CommandExecutionStatus::FailedToStart,
                    message: error.to_string(),
                });
            }
            Checked::Answered { prompt, text, .. } => {
                let name = run.path.join(" ");
                return self.answered_command(*prompt, text, &name, view, caller).await;
            }
        };
        let prompt = passed.prompt();
        let handle = self.session_for(prompt.session.as_ref(), prompt.settings.as_ref(), caller);
        let handle = handle.await?;
        // A hook may have rewritten the command.
        let may_ask = command.may_ask() || prompt.content != Content::text(command.to_string());
        let submitted = handle
            .submit(passed.command(view, caller.principal.scopes.approve), caller.origin.clone())
            .await;
        let ack = submitted.map_err(submit_error)?;
        let task = ack.task.clone().ok_or(Condition::Internal)?;
        if view.waits_for_commands() {
            return self.executed(&handle, view, &ack, &task, &run.path.join(" ")).await;
        }
        let mut progress = progress(&handle, &task).await?;
        if may_ask && matches!(progress, CommandProgress::Started) {
            self.asks_or_ends(&handle, view, &ack, &task, QUESTION_TIMEOUT).await?;
            progress = self::progress(&handle, &task).await?;
        }
        let (status, message) = status_and_message(&progress);
        value(&ExecuteSlashCommandResponse { execution_id: task.to_string(), status, message })
    }

    /// A command that the hook answered. The text becomes a completed task, because the reply to a command names a task.
    async fn answered_command(
        &self,
        prompt: Prompt,
        text: String,
        name: &str,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let screening = Screening::Answered { text: text.clone() };
        let recorded = self.record(&prompt, screening, caller).await?;
        let (handle, ack) = recorded.ok_or(Condition::Internal)?;
        let task = ack.task.clone().ok_or(Condition::Internal)?;
        if view.waits_for_commands() {
            return self.executed(&handle, view, &ack, &task, name).await;
        }
        value(&ExecuteSlashCommandResponse {
            execution_id: task.to_string(),
            status: CommandExecutionStatus::Started,
            message: text,
        })
    }

    /// The reply for a client that waits for the output. If the command asks or takes too long, the reply names its task,
    /// which can be followed and answered like any other.
    async fn executed(
        &self,
        handle: &SessionHandle,
        view: View,
        ack: &Ack,
        task: &TaskId,
        name: &str,
    ) -> Result<Reply, WireError> {
        self.asks_or_ends(handle, view, ack, task, OUTPUT_TIMEOUT).await?;
        let said = self.projections.reader(handle, view).with_projector(|projector| {
            let view = projector.tasks().get(task)?;
            let replies = view.history.iter().filter_map(|said| match said {
                Exchange::Reply { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let text: Vec<&str> = replies.chain(view.failure.as_deref()).collect();
            Some((text.join("\n\n"), view.state))
        });
        let (text, state) = said.ok_or(Condition::TaskNotFound)?;
        let context = context::shown(handle.id());
        Ok(Reply::Value(sdlc::executed(name, &text, task.as_str(), context, state)))
    }

    /// Waits until a task asks or is over, for a limited time.
    async fn asks_or_ends(
        &self,
        handle: &SessionHandle,
        view: View,
        ack: &Ack,
        task: &TaskId,
        timeout: Duration,
    ) -> Result<(), WireError> {
        let reader = self.projections.reader(handle, view);
        // After the timeout the reply says that the command has started; its output comes as frames.
        tokio::time::timeout(timeout, reader.settled(task, ack.seq)).await.unwrap_or(Ok(()))
    }
}

fn prompt_of(
    command: &Slash,
    view: View,
    session: Option<SessionId>,
    settings: Option<AgentSettings>,
) -> Prompt {
    Prompt {
        session,
        task: TaskChoice::New,
        content: Content { profile: view.profile(), ..Content::text(command.to_string()) },
        settings,
        delivery: Delivery::AtOnce,
        push: None,
        history: HistoryLength::All,
        output_modes: Vec::new(),
        references: Vec::new(),
        answers: loggia_wire::Answers::Never,
    }
}

fn no_command(error: &slash::SlashError) -> WireError {
    let why = error.to_string();
    match error {
        slash::SlashError::UnknownCommand { .. }
        | slash::SlashError::UnknownHere { .. }
        | slash::SlashError::UnknownSubCommand { .. } => Condition::UnknownCommand { why }.into(),
        slash::SlashError::Missing { .. } | slash::SlashError::TooMuch { .. } => {
            WireError::Invalid(Violation { field: "args".into(), why })
        }
    }
}

async fn progress(handle: &SessionHandle, task: &TaskId) -> Result<CommandProgress, WireError> {
    let task = task.clone();
    let read = move |session: &Session| {
        let own = session.turn().is_some_and(|turn| turn.task == task);
        let queued = session.queue().any(|queued| queued.task == task);
        match session.open_approvals().next() {
            Some((call, _)) if own || queued => CommandProgress::Waits {
                own,
                title: call.title.clone(),
                shell: matches!(call.details, Details::Execute { .. }),
            },
            Some(_) | None if queued => CommandProgress::Queued,
            Some(_) | None => CommandProgress::Started,
        }
    };
    handle.inspect(read).await.map_err(submit_error)
}

fn status_and_message(progress: &CommandProgress) -> (CommandExecutionStatus, String) {
    match progress {
        CommandProgress::Started => (CommandExecutionStatus::Started, String::new()),
        CommandProgress::Queued => {
            let message = "it waits for the running turn".to_owned();
            (CommandExecutionStatus::Started, message)
        }
        CommandProgress::Waits { own, title, shell } => {
            let status = match shell {
                true => CommandExecutionStatus::AwaitingShellConfirmation,
                false => CommandExecutionStatus::AwaitingActionConfirmation,
            };
            let message = match own {
                true => format!("it asks to {title}"),
                false => format!("it waits for the running turn, which asks to {title}"),
            };
            (status, message)
        }
    }
}

fn value(answer: &impl Serialize) -> Result<Reply, WireError> {
    let value: Result<Value, _> = serde_json::to_value(answer);
    value.map(Reply::Value).map_err(|_| Condition::Internal.into())
}
