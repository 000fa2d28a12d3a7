//! `commands/get` and `command/execute`: the tree, and the immediate answer to running a command.
//!
//! A command becomes a prompt; its execution id is the task's id, and what follows comes as frames
//! of that task. What a command does is not known here.

use std::path::PathBuf;
use std::time::Duration;

use loggia_core::slash;
use loggia_core::{
    Content, CustomCommands, Details, Exchange, Screening, Session, SessionId, Slash, TaskChoice,
    TaskId,
};
use loggia_session::{Ack, HubError, SessionHandle};
use loggia_wire::commands::{
    CommandExecutionStatus, ExecuteSlashCommandResponse, GetAllSlashCommandsResponse,
};
use loggia_wire::{
    AgentSettings, Condition, Delivery, FrameId, HistoryLength, Prompt, RunSlash, View, Violation,
    WireError, context, sdlc,
};
use serde::Serialize;
use serde_json::Value;

use crate::dispatch::Reply;
use crate::hook::Looked;
use crate::state::{Caller, Server, Shape, hub_error, stopped, submit_error};

/// How long the answer to a command that may ask waits for its question.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long somebody who wants to hear what a command says is kept waiting.
const EXECUTION: Duration = Duration::from_secs(60);

/// The context of a caller's commands that name none and ask nothing: they need no session of their
/// own each time.
const CONTEXT: &str = "slash-commands";

/// Where a command stands right after it was accepted.
enum Standing {
    /// Runs, or is done.
    Under,
    Queued,
    /// Nothing goes on until somebody answers: a question of its own, or of the turn before it.
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
        let named = match (&session, &self.shape) {
            (Some(session), _) | (None, Shape::Shared(session)) => {
                // A session that is not there has no commands.
                Some(self.session(session, caller).await?)
            }
            (None, Shape::Many) => None,
        };
        let custom = match named {
            Some(handle) => self.custom_of(&handle).await?,
            None => self.custom_in(self.defaults.workspace.clone()).await?,
        };
        match view {
            View::SDLC => Ok(Reply::Value(sdlc::types::commands(&custom))),
            _ => value(&GetAllSlashCommandsResponse::all(&custom)),
        }
    }

    /// The commands from files that count in a session.
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

    /// Those that count where a command is to run, which may be a session that is not there yet.
    async fn custom_for(
        &self,
        run: &RunSlash,
        caller: &Caller,
    ) -> Result<CustomCommands, WireError> {
        let named = match (&run.session, &self.shape) {
            (Some(session), _) | (None, Shape::Shared(session)) => Some(session),
            (None, Shape::Many) => None,
        };
        let known = match named {
            Some(session) => match self.session(session, caller).await {
                Err(WireError::Condition(Condition::UnknownContext)) if self.is_many() => None,
                known => Some(known?),
            },
            None => None,
        };
        match known {
            Some(handle) => self.custom_of(&handle).await,
            None => match self.place_of(run.settings.as_ref())? {
                Some(place) => self.custom_in(place).await,
                // A copy of a repository is trusted by nobody.
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
            Err(error) if view == View::SDLC => return Err(no_command(&error)),
            Err(error) => {
                return value(&ExecuteSlashCommandResponse {
                    execution_id: String::new(),
                    status: CommandExecutionStatus::FailedToStart,
                    message: error.to_string(),
                });
            }
        };
        // One that may ask would keep those behind it waiting.
        let shares = self.is_many() && run.settings.is_none() && !command.may_ask();
        let wanted = run.session.or_else(|| shares.then(|| CONTEXT.into()));
        let prompt = Box::new(prompt_of(&command, view, wanted, run.settings));
        let passed = match self.look(prompt, view, caller).await? {
            Looked::Passed(passed) => passed,
            Looked::Rejected { reason, .. } if view == View::SDLC => {
                return Err(Condition::Rejected { why: reason }.into());
            }
            Looked::Rejected { reason, .. } => {
                let error = WireError::from(Condition::Rejected { why: reason });
                return value(&ExecuteSlashCommandResponse {
                    execution_id: String::new(),
                    status: CommandExecutionStatus::FailedToStart,
                    message: error.to_string(),
                });
            }
            Looked::Answered { prompt, text, .. } => {
                let name = run.path.join(" ");
                return self.answered_command(*prompt, text, &name, view, caller).await;
            }
        };
        let prompt = passed.prompt();
        let handle = self.session_for(prompt.session.as_ref(), prompt.settings.as_ref(), caller);
        let handle = handle.await?;
        // What was written in its place may be anything.
        let may_ask = command.may_ask() || prompt.content != Content::text(command.to_string());
        let submitted = handle
            .submit(passed.command(view, caller.principal.scopes.approve), caller.origin.clone())
            .await;
        let ack = submitted.map_err(submit_error)?;
        let task = ack.task.clone().ok_or(Condition::Internal)?;
        if view == View::SDLC {
            return self.executed(&handle, &ack, &task, &run.path.join(" ")).await;
        }
        let mut standing = standing(&handle, &task).await?;
        if may_ask && matches!(standing, Standing::Under) {
            self.asks_or_ends(&handle, view, &ack, &task, PATIENCE).await?;
            standing = self::standing(&handle, &task).await?;
        }
        let (status, message) = told(&standing);
        value(&ExecuteSlashCommandResponse { execution_id: task.to_string(), status, message })
    }

    /// A command that the hook answered: its words are a task that is complete, because the answer to a
    /// command names one.
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
        if view == View::SDLC {
            return self.executed(&handle, &ack, &task, name).await;
        }
        value(&ExecuteSlashCommandResponse {
            execution_id: task.to_string(),
            status: CommandExecutionStatus::Started,
            message: text,
        })
    }

    /// The answer of somebody who waits for what the command says. Where it asks or takes long, the
    /// answer names its task, which can be watched and answered like any other.
    async fn executed(
        &self,
        handle: &SessionHandle,
        ack: &Ack,
        task: &TaskId,
        name: &str,
    ) -> Result<Reply, WireError> {
        self.asks_or_ends(handle, View::SDLC, ack, task, EXECUTION).await?;
        let projection = self.projection(handle, View::SDLC);
        let said = projection.look(|projector| {
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

    /// Waits until a task asks or is over, and not for ever.
    async fn asks_or_ends(
        &self,
        handle: &SessionHandle,
        view: View,
        ack: &Ack,
        task: &TaskId,
        patience: Duration,
    ) -> Result<(), WireError> {
        let projection = self.projection(handle, view);
        let mut frames = projection.frames(FrameId { seq: ack.after, k: u32::MAX });
        let settled = async {
            loop {
                let batch = frames.next().await;
                let batch = batch.map_err(|error| hub_error(HubError::Store(error)))?;
                let batch = batch.ok_or_else(|| stopped(handle))?;
                if batch.iter().any(|frame| frame.task == *task && frame.ends.is_some()) {
                    return Ok(());
                }
            }
        };
        // Too slow to wait for: it has started, and its frames will say the rest.
        tokio::time::timeout(patience, settled).await.unwrap_or(Ok(()))
    }
}

/// A command as the message that it becomes.
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

async fn standing(handle: &SessionHandle, task: &TaskId) -> Result<Standing, WireError> {
    let task = task.clone();
    let look = move |session: &Session| {
        let own = session.turn().is_some_and(|turn| turn.task == task);
        let queued = session.queue().any(|queued| queued.task == task);
        match session.open_approvals().next() {
            Some((call, _)) if own || queued => Standing::Waits {
                own,
                title: call.title.clone(),
                shell: matches!(call.details, Details::Execute { .. }),
            },
            Some(_) | None if queued => Standing::Queued,
            Some(_) | None => Standing::Under,
        }
    };
    handle.inspect(look).await.map_err(submit_error)
}

fn told(standing: &Standing) -> (CommandExecutionStatus, String) {
    match standing {
        Standing::Under => (CommandExecutionStatus::Started, String::new()),
        Standing::Queued => {
            let message = "it waits for the turn that is running".to_owned();
            (CommandExecutionStatus::Started, message)
        }
        Standing::Waits { own, title, shell } => {
            let status = match shell {
                true => CommandExecutionStatus::AwaitingShellConfirmation,
                false => CommandExecutionStatus::AwaitingActionConfirmation,
            };
            let message = match own {
                true => format!("it asks to {title}"),
                false => format!("it waits for the turn before it, which asks to {title}"),
            };
            (status, message)
        }
    }
}

fn value(answer: &impl Serialize) -> Result<Reply, WireError> {
    let value: Result<Value, _> = serde_json::to_value(answer);
    value.map(Reply::Value).map_err(|_| Condition::Internal.into())
}
