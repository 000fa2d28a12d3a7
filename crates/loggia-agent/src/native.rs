//! The turn loop: asks the model for a reply, runs its calls, and ends when a reply has none.
//! `reply` streams one reply, and `calls` runs calls on their permits.

mod calls;
mod reply;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use loggia_core::slash::{self as slash_line, PromptKind};
use loggia_core::{
    CallFailure, CallId, CallOutcome, Content, CustomCommands, Level, Part, Prices, SHELL_TOOL,
    Slash, Stop,
};
use loggia_models::Providers;
use loggia_session::{Agent, Denied, Turn, TurnOver};
use serde_json::{Value, json};

use crate::clone::{self, Clones};
use crate::compaction::CompactAt;
use crate::context::Conversation;
use crate::custom::CommandFiles;
use crate::custom::expand::{self, Expanded};
use crate::model::{Model, registry};
use crate::notes::{self, Surroundings};
use crate::repository_tree::TreeLimits;
use crate::slash;
use crate::tool::Toolbox;
use crate::workspace::{ReservedDirs, Workspace};
use calls::{FinishedCall, run_permitted};
use reply::{Replies, RequestedCall};

/// Consecutive replies with only unreadable calls before the turn fails.
const UNREADABLE_REPLIES: u32 = 3;
const LENGTH: &str = "The reply reached the most tokens that the model may write at once, and ends here. \
     Ask it to continue.";

#[derive(Clone)]
pub struct NativeAgent {
    tools: Toolbox,
    /// The directory for relative paths in a model's name.
    base: PathBuf,
    providers: Providers,
    /// The file with the user's own notes.
    user_memory: Option<PathBuf>,
    /// No memory file above this directory is read.
    home: Option<PathBuf>,
    /// Custom commands.
    commands: Option<Arc<CommandFiles>>,
    /// The configured prices of tokens.
    prices: Arc<Prices>,
    compact_at: CompactAt,
    clones: Option<Arc<Clones>>,
    reserved: ReservedDirs,
}

impl NativeAgent {
    pub fn new(tools: Toolbox, base: PathBuf) -> Self {
        Self {
            tools,
            base,
            providers: Providers::default(),
            user_memory: None,
            home: None,
            commands: None,
            prices: Arc::default(),
            compact_at: CompactAt::default(),
            clones: None,
            reserved: ReservedDirs::default(),
        }
    }

    /// Adds the user's notes in this file to the model's instructions.
    #[must_use]
    pub fn with_user_memory(self, user_memory: PathBuf) -> Self {
        Self { user_memory: Some(user_memory), ..self }
    }

    /// Sets the user's home directory.
    #[must_use]
    pub fn with_home(self, home: Option<PathBuf>) -> Self {
        Self { home, ..self }
    }

    #[must_use]
    pub fn with_commands(self, commands: Arc<CommandFiles>) -> Self {
        Self { commands: Some(commands), ..self }
    }

    /// Enables costs in `/stats`.
    #[must_use]
    pub fn with_prices(self, prices: Prices) -> Self {
        Self { prices: Arc::new(prices), ..self }
    }

    pub(crate) fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Sets when a conversation is compacted automatically.
    #[must_use]
    pub fn with_compaction(self, compact_at: CompactAt) -> Self {
        Self { compact_at, ..self }
    }

    pub(crate) fn compact_at(&self) -> CompactAt {
        self.compact_at
    }

    /// Enables sessions in clones of repositories.
    #[must_use]
    pub fn with_clones(self, clones: Arc<Clones>) -> Self {
        Self { clones: Some(clones), ..self }
    }

    /// Closes these directories to file tools.
    #[must_use]
    pub fn with_reserved_dirs(self, reserved: ReservedDirs) -> Self {
        Self { reserved, ..self }
    }

    pub(crate) fn tools(&self) -> &Toolbox {
        &self.tools
    }

    /// The custom commands of the turn's workspace.
    pub(crate) async fn custom(&self, turn: &Turn) -> Result<CustomCommands, TurnOver> {
        let Some(files) = self.commands.clone() else { return Ok(CustomCommands::default()) };
        let workspace = PathBuf::from(turn.context().workspace.path());
        let listed = tokio::task::spawn_blocking(move || files.list(&workspace)).await;
        listed.map_err(|error| TurnOver::Failed(format!("commands cannot be read: {error}")))
    }

    /// The providers of the models that are not built in.
    #[must_use]
    pub fn with_providers(self, providers: Providers) -> Self {
        Self { providers, ..self }
    }

    pub(crate) fn providers(&self) -> &Providers {
        &self.providers
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The turn's model. Blocks on the file system if it is a script.
    pub(crate) async fn open_model(&self, turn: &Turn) -> Result<Arc<dyn Model>, TurnOver> {
        let name = &turn.context().settings.model.0;
        let model = registry::open(name, &self.base, &self.providers).await;
        model.map_err(|error| TurnOver::Failed(error.to_string()))
    }

    pub(crate) fn open_workspace(&self, turn: &Turn) -> Result<Arc<Workspace>, TurnOver> {
        let workspace = &turn.context().workspace;
        if let Some(repository) = workspace.repository() {
            return clone::open(workspace.path(), repository).map(Arc::new);
        }
        let opened = Workspace::open_without(workspace.path().as_ref(), &self.reserved);
        opened.map(Arc::new).map_err(|error| TurnOver::Failed(error.to_string()))
    }

    /// The memory and what else notes say.
    pub(crate) async fn surroundings(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
    ) -> Result<Arc<Surroundings>, TurnOver> {
        let (workspace, user, home) =
            (workspace.clone(), self.user_memory.clone(), self.home.clone());
        let (reserved, above_workspace) =
            (self.reserved.clone(), !notes::is_remote(turn.context()));
        let read = move || {
            let limits = TreeLimits { home: home.as_deref(), above_workspace, reserved: &reserved };
            Arc::new(Surroundings::read(workspace, user.as_deref(), &limits))
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(|error| TurnOver::Failed(format!("memory cannot be read: {error}")))
    }
}

impl Agent for NativeAgent {
    fn run(&self, turn: Turn) -> BoxFuture<'_, Result<(), TurnOver>> {
        Box::pin(async move {
            let settings = &turn.context().settings;
            let limit = Duration::from_secs(settings.limits.turn_seconds);
            let restricted = settings
                .tools
                .as_ref()
                .map(|names| NativeAgent { tools: self.tools.only(names), ..self.clone() });
            let agent = restricted.as_ref().unwrap_or(self);
            agent.prepare(&turn).await?;
            let stop = turn.stop().clone();
            let done = tokio::select! {
                biased; // cancellation has priority
                () = stop.cancelled() => Err(TurnOver::Stopped),
                done = tokio::time::timeout(limit, agent.work(&turn)) => done.unwrap_or_else(|_| {
                    let limit = limit.as_secs();
                    Err(TurnOver::Failed(format!("the turn reached its time limit of {limit} s")))
                }),
            };
            agent.conclude(&turn, done.as_deref().ok()).await;
            done.map(drop)
        })
    }
}

/// A cheap check before the prompt is parsed.
fn may_be_command(content: &Content) -> bool {
    matches!(content.parts.first(), Some(Part::Text { text }) if text.starts_with('/'))
}

/// The result of parsing a prompt that may be a slash command.
enum SlashResult {
    /// It was a command, which has run.
    Done,
    /// The model gets the prompt, or its expansion if it was a custom command.
    Prompt(Option<Expanded>),
}

impl NativeAgent {
    /// Clones the repository that the session works in. Removes an incomplete clone if it is cancelled.
    async fn prepare(&self, turn: &Turn) -> Result<(), TurnOver> {
        let workspace = &turn.context().workspace;
        let Some(repository) = workspace.repository() else { return Ok(()) };
        let clones = self.clones.as_ref().ok_or_else(|| {
            TurnOver::Failed("this program does not clone repositories".to_owned())
        })?;
        // Boxed, here and below, to keep rare work out of the future of every turn.
        Box::pin(clones.prepare(turn, workspace.path(), repository)).await
    }

    /// Publishes the result of a turn in a clone. `reply` is the text of the last reply.
    async fn conclude(&self, turn: &Turn, reply: Option<&str>) {
        let workspace = &turn.context().workspace;
        if let (Some(clones), Some(_)) = (&self.clones, workspace.repository()) {
            Box::pin(clones.conclude(turn, workspace.path(), reply)).await;
        }
    }

    /// Returns the text of the last reply.
    async fn work(&self, turn: &Turn) -> Result<String, TurnOver> {
        let context = turn.context();
        if let Some(line) = &context.line {
            return Box::pin(self.own_line(turn, line)).await.map(|()| String::new());
        }
        let mut expanded = None;
        if may_be_command(&context.content) {
            expanded = match Box::pin(self.slash(turn)).await? {
                SlashResult::Done => return Ok(String::new()),
                SlashResult::Prompt(expanded) => expanded,
            };
        }
        let model = self.open_model(turn).await?;
        let workspace = self.open_workspace(turn)?;
        // An expansion in this run has already resumed the open calls.
        let resumed = expanded.as_ref().is_some_and(|expanded| expanded.in_this_run);
        let mut conversation = conversation_about(turn, model.as_ref(), expanded).await?;
        if !resumed {
            for (call, outcome) in self.resume(turn, &workspace).await? {
                conversation.end(&call, outcome);
            }
        }
        let surroundings = self.surroundings(turn, &workspace).await?;
        if let Some(warning) = surroundings.memory.warning() {
            turn.notice(Level::Warning, warning).await?;
        }
        let limits = &context.settings.limits;
        let mut replies = Replies::new(self, turn, model.as_ref(), surroundings);
        let mut unreadable = 0;
        for _ in 0..limits.replies {
            let reply = replies.next(&mut conversation).await?;
            if reply.calls.is_empty() {
                match reply.stop {
                    Stop::Paused => continue,
                    Stop::Length => turn.notice(Level::Warning, LENGTH).await?,
                    Stop::Finished | Stop::Refused { .. } | Stop::WindowFull => {}
                }
                return Ok(reply.text);
            }
            let message = reply.message.clone();
            let calls = Box::pin(self.run_calls(turn, &workspace, reply)).await?;
            unreadable = if calls.iter().any(|call| call.readable) { 0 } else { unreadable + 1 };
            for FinishedCall { call, tool, input, outcome, .. } in calls {
                conversation.propose(&message, call.clone(), tool, input);
                conversation.end(&call, outcome);
            }
            if unreadable >= UNREADABLE_REPLIES {
                let why = format!("the model made {unreadable} unreadable tool calls in a row");
                return Err(TurnOver::Failed(why));
            }
        }
        Err(TurnOver::Failed(format!("the turn reached its limit of {} replies", limits.replies)))
    }

    /// Runs the turn if its prompt is a slash command.
    async fn slash(&self, turn: &Turn) -> Result<SlashResult, TurnOver> {
        let content = &turn.context().content;
        if let PromptKind::Command(command) = slash_line::read_content(content) {
            return slash::run(self, turn, command).await.map(|()| SlashResult::Done);
        }
        if let Some(recorded) = expand::recorded(turn).await? {
            return Ok(SlashResult::Prompt(Some(recorded)));
        }
        let custom = self.custom(turn).await?;
        match (custom.read_content(content), &self.commands) {
            (PromptKind::Message, _) => Ok(SlashResult::Prompt(None)),
            (PromptKind::Command(Slash::Custom { name, arguments, .. }), Some(files)) => {
                let expanded = expand::expand(self, turn, files, &name, &arguments).await?;
                Ok(expanded
                    .map_or(SlashResult::Done, |expanded| SlashResult::Prompt(Some(expanded))))
            }
            (PromptKind::Command(command), _) => {
                slash::run(self, turn, command).await.map(|()| SlashResult::Done)
            }
            (PromptKind::Mistake(error), _) => {
                slash::explain(turn, &custom, &error).await.map(|()| SlashResult::Done)
            }
        }
    }

    /// Waits for the permits of calls that an earlier run of this turn left open, and runs them.
    pub(crate) async fn resume(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
    ) -> Result<Vec<(CallId, CallOutcome)>, TurnOver> {
        let waiting = turn.pending().iter().map(|pending| async {
            let outcome = match (self.tools.find(&pending.tool), turn.resume(&pending.call).await) {
                (Some(tool), Ok(permit)) => run_permitted(turn, tool, permit, workspace).await?,
                (None, Ok(permit)) => {
                    let outcome =
                        failed("unknown_tool", format!("there is no tool {}", pending.tool));
                    permit.end(outcome.clone()).await?;
                    outcome
                }
                (_, Err(Denied::Refused(outcome))) => outcome,
                (_, Err(Denied::Over(over))) => return Err(over),
            };
            Ok((pending.call.clone(), outcome))
        });
        join_all(waiting).await.into_iter().collect()
    }

    /// Runs a person's own command line. No model is asked; the next turn's model reads the line and its
    /// result.
    async fn own_line(&self, turn: &Turn, line: &str) -> Result<(), TurnOver> {
        let workspace = self.open_workspace(turn)?;
        match turn.pending() {
            [] => drop(self.call(turn, &workspace, SHELL_TOOL, json!({ "command": line })).await?),
            _ => drop(self.resume(turn, &workspace).await?),
        }
        Ok(())
    }

    /// A call that a slash command makes. It needs a permit like a model's call.
    pub(crate) async fn call(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
        tool: &str,
        input: Value,
    ) -> Result<CallOutcome, TurnOver> {
        let call = turn.call();
        let requested = RequestedCall { call, tool: tool.to_owned(), input: Ok(input) };
        let finished = self.run_call(turn, workspace, &turn.message(), requested).await?;
        Ok(finished.outcome)
    }
}

/// The turns that this model reads, and the running turn so far.
pub(crate) async fn conversation(turn: &Turn, model: &dyn Model) -> Result<Conversation, TurnOver> {
    conversation_about(turn, model, None).await
}

/// The same, with the expansion of a custom command as the prompt.
async fn conversation_about(
    turn: &Turn,
    model: &dyn Model,
    expanded: Option<Expanded>,
) -> Result<Conversation, TurnOver> {
    let context = turn.context();
    let history = match model.reads_recent_turns_only() {
        true => turn.recent_history().await?,
        false => turn.history().await?,
    };
    let summary = context.summary.as_deref();
    let content = expanded.as_ref().map_or(&context.content, |expanded| &expanded.content);
    let mut conversation = Conversation::from_log(&history, &context.turn, content, summary);
    if !model.reads_recent_turns_only() {
        conversation.send_everything();
    }
    if let Some(Expanded { content, in_this_run: true }) = expanded {
        conversation.expand(content);
    }
    Ok(conversation)
}

fn failed(kind: &str, message: String) -> CallOutcome {
    CallOutcome::Failed { failure: CallFailure::new(kind, message) }
}
