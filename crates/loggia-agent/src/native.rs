//! The turn loop: streams the model's reply, proposes each call, runs it on its permit, and ends when a
//! reply has no calls.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use loggia_core::slash::{self as slash_line, PromptKind};
use loggia_core::{
    Access, CallFailure, CallId, CallOutcome, Content, CustomCommands, Details, Edit, Level,
    Limits, MessageId, Part, Prices, Proposal, SHELL_TOOL, Slash,
};
use loggia_session::{Agent, Denied, Permit, Turn, TurnOver};
use serde_json::{Value, json};

use crate::clone::{self, Clones};
use crate::compaction::{self, CompactAt};
use crate::context::Conversation;
use crate::custom::CommandFiles;
use crate::custom::expand::{self, Expanded};
use crate::memory::Memory;
use crate::model::{Delta, Model, ModelError, ModelErrorKind, ModelRequest, Purpose, registry};
use crate::slash;
use crate::tool::{Tool, ToolError, Toolbox};
use crate::workspace::{ReservedDirs, Workspace};

/// Attempts at one reply that has not begun.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Consecutive replies with only unreadable calls before the turn fails.
const UNREADABLE_REPLIES: u32 = 3;
/// Bytes of one call's input.
const INPUT_LIMIT: usize = 1024 * 1024;
/// Nesting levels of one call's input. A deeper one could be logged but not be parsed again.
const INPUT_DEPTH: usize = 64;
/// How long a tool may exceed its time limit before its future is dropped.
const TOOL_GRACE: Duration = Duration::from_secs(5);

const INSTRUCTIONS: &str = "You are Loggia, a coding agent. You work in one workspace with the tools you are given. \
     Read before you change anything, change as little as the task needs, and say plainly what you did. \
     If a call is refused, accept that: do not try to get around it.";

#[derive(Clone)]
pub struct NativeAgent {
    tools: Toolbox,
    /// The directory for relative paths in a model's name.
    base: PathBuf,
    /// The file with the user's own notes.
    user_memory: Option<PathBuf>,
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
            user_memory: None,
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

    /// The turn's model. Blocks on the file system.
    pub(crate) fn open_model(&self, turn: &Turn) -> Result<Arc<dyn Model>, TurnOver> {
        let name = &turn.context().settings.model.0;
        let model = registry::open(name, &self.base);
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

    /// The current notes of the user and the workspace.
    pub(crate) async fn memory(&self, workspace: &Arc<Workspace>) -> Result<Memory, TurnOver> {
        let (workspace, user) = (workspace.clone(), self.user_memory.clone());
        let read = move || Memory::read(&workspace, user.as_deref());
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

/// A complete reply of the model.
struct ModelReply {
    message: MessageId,
    text: String,
    calls: Vec<RequestedCall>,
    /// The number of calls beyond the limit, which are left out.
    surplus: usize,
}

struct RequestedCall {
    tool: String,
    /// The model's text if it is not valid JSON.
    input: Result<Value, String>,
}

struct FinishedCall {
    call: CallId,
    tool: String,
    input: Value,
    outcome: CallOutcome,
    /// False if the input was invalid or the tool unknown.
    readable: bool,
}

/// A call that cannot be proposed, with the outcome for the model.
struct Unreadable {
    input: Value,
    outcome: CallOutcome,
}

/// Why a reply has no end.
enum ReplyError {
    TurnOver(TurnOver),
    /// `begun` if a part of the reply has been passed on.
    Model {
        error: ModelError,
        begun: bool,
    },
}

impl From<TurnOver> for ReplyError {
    fn from(over: TurnOver) -> Self {
        ReplyError::TurnOver(over)
    }
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
        let model = self.open_model(turn)?;
        let workspace = self.open_workspace(turn)?;
        // An expansion in this run has already resumed the open calls.
        let resumed = expanded.as_ref().is_some_and(|expanded| expanded.in_this_run);
        let mut conversation = conversation_about(turn, expanded).await?;
        if !resumed {
            for (call, outcome) in self.resume(turn, &workspace).await? {
                conversation.end(&call, outcome);
            }
        }
        let memory = self.memory(&workspace).await?;
        if let Some(warning) = memory.warning() {
            turn.notice(Level::Warning, warning).await?;
        }
        let instructions = instructions(&memory);
        compaction::compact_if_due(self.compact_at, turn, model.as_ref(), &mut conversation)
            .await?;

        let limits = &context.settings.limits;
        let mut text_left = limits.text_bytes;
        let mut unreadable = 0;
        for _ in 0..limits.replies {
            let reply = self
                .next_reply(turn, model.as_ref(), &instructions, &mut conversation, &mut text_left)
                .await?;
            if reply.calls.is_empty() {
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
        let requested = RequestedCall { tool: tool.to_owned(), input: Ok(input) };
        let finished = self.run_call(turn, workspace, &turn.message(), requested).await?;
        Ok(finished.outcome)
    }

    /// Streams one reply. Retries errors that allow it if the reply has not begun.
    async fn next_reply(
        &self,
        turn: &Turn,
        model: &dyn Model,
        instructions: &str,
        conversation: &mut Conversation,
        text_left: &mut u64,
    ) -> Result<ModelReply, TurnOver> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let request = ModelRequest {
                purpose: Purpose::Turn,
                instructions: instructions.to_owned(),
                messages: conversation.messages(),
                tools: self.tools.specs(),
            };
            let error = match stream_reply(turn, model, request, conversation, text_left).await {
                Ok(reply) => return Ok(reply),
                Err(ReplyError::TurnOver(over)) => return Err(over),
                Err(ReplyError::Model { error, begun }) => {
                    if begun || !error.may_retry() || attempt >= ATTEMPTS {
                        return Err(TurnOver::Failed(error.message));
                    }
                    error
                }
            };
            let wait = error.retry_after.unwrap_or(pause).min(LONGEST_PAUSE);
            let text = format!("{}; trying again in {:.1} s", error.message, wait.as_secs_f32());
            turn.notice(Level::Warning, text).await?;
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(TurnOver::Stopped)
    }

    async fn run_calls(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
        reply: ModelReply,
    ) -> Result<Vec<FinishedCall>, TurnOver> {
        let ModelReply { message, calls, surplus, .. } = reply;
        if surplus > 0 {
            let text =
                format!("the model asked for {surplus} calls too many at once; they were left out");
            turn.notice(Level::Warning, text).await?;
        }
        let running =
            calls.into_iter().map(|requested| self.run_call(turn, workspace, &message, requested));
        join_all(running).await.into_iter().collect()
    }

    async fn run_call(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
        message: &MessageId,
        requested: RequestedCall,
    ) -> Result<FinishedCall, TurnOver> {
        let RequestedCall { tool: name, input } = requested;
        let (tool, input) = match self.check_call(&name, input) {
            Ok(found) => found,
            Err(Unreadable { input, outcome }) => {
                let call = turn.invalid(message, &name, input.clone(), outcome.clone()).await?;
                return Ok(FinishedCall { call, tool: name, input, outcome, readable: false });
            }
        };
        let spec = tool.spec();
        let preview = match tool.preview(&input, workspace).await {
            Ok(preview) => preview,
            Err(ToolError::Stopped) => return Err(TurnOver::Stopped),
            Err(ToolError::Failed(failure)) => {
                let readable = failure.kind != "invalid_input";
                let outcome = CallOutcome::Failed { failure };
                let call = turn.invalid(message, &name, input.clone(), outcome.clone()).await?;
                return Ok(FinishedCall { call, tool: name, input, outcome, readable });
            }
        };
        let proposal = Proposal {
            message: message.clone(),
            tool: name.clone(),
            title: preview.title,
            access: access(spec.access, &preview.details),
            input: input.clone(),
            details: preview.details,
        };
        let call = CallId::from(uuid::Uuid::now_v7());
        let outcome = match turn.propose(call.clone(), proposal).await {
            Ok(permit) => run_permitted(turn, tool, permit, workspace).await?,
            Err(Denied::Refused(outcome)) => outcome,
            Err(Denied::Over(over)) => return Err(over),
        };
        Ok(FinishedCall { call, tool: name, input, outcome, readable: true })
    }

    /// The tool and the parsed input of a call.
    fn check_call(
        &self,
        name: &str,
        input: Result<Value, String>,
    ) -> Result<(&Arc<dyn Tool>, Value), Unreadable> {
        let unreadable = |input, kind, why| Unreadable { input, outcome: failed(kind, why) };
        let input = input.map_err(|raw| {
            let shown: String = raw.chars().take(200).collect();
            let why = format!("the input of {name} is not valid JSON: {shown}");
            unreadable(Value::String(shown), "malformed_input", why)
        })?;
        if input.to_string().len() > INPUT_LIMIT {
            let why = format!("the input of {name} is larger than {INPUT_LIMIT} bytes");
            return Err(unreadable(Value::Null, "input_too_large", why));
        }
        if !is_shallow(&input, INPUT_DEPTH) {
            let why = format!("the input of {name} is nested deeper than {INPUT_DEPTH} levels");
            return Err(unreadable(Value::Null, "input_too_deep", why));
        }
        match self.tools.find(name) {
            Some(tool) => Ok((tool, input)),
            None => {
                let known: Vec<String> =
                    self.tools.specs().iter().map(|spec| spec.name.clone()).collect();
                let why = format!("there is no tool {name}; the tools are {}", known.join(", "));
                Err(unreadable(input, "unknown_tool", why))
            }
        }
    }
}

/// The recent turns and the running turn so far.
pub(crate) async fn conversation(turn: &Turn) -> Result<Conversation, TurnOver> {
    conversation_about(turn, None).await
}

/// The same, with the expansion of a custom command as the prompt.
async fn conversation_about(
    turn: &Turn,
    expanded: Option<Expanded>,
) -> Result<Conversation, TurnOver> {
    let context = turn.context();
    let history = turn.history().await?;
    let summary = context.summary.as_deref();
    let content = expanded.as_ref().map_or(&context.content, |expanded| &expanded.content);
    let mut conversation = Conversation::from_log(&history, &context.turn, content, summary);
    if let Some(Expanded { content, in_this_run: true }) = expanded {
        conversation.expand(content);
    }
    Ok(conversation)
}

/// The system prompt, with the notes of the user and the workspace.
pub(crate) fn instructions(memory: &Memory) -> String {
    match memory.block() {
        Some(block) => format!("{INSTRUCTIONS}\n\n{block}"),
        None => INSTRUCTIONS.to_owned(),
    }
}

/// Streams one attempt at a reply and passes it on as it comes.
async fn stream_reply(
    turn: &Turn,
    model: &dyn Model,
    request: ModelRequest,
    conversation: &mut Conversation,
    text_left: &mut u64,
) -> Result<ModelReply, ReplyError> {
    let limits = &turn.context().settings.limits;
    let message = turn.message();
    let mut reply = ModelReply { message, text: String::new(), calls: Vec::new(), surplus: 0 };
    let mut begun = false;
    let mut stream = model.stream(request);
    while let Some(delta) = stream.next().await {
        let delta = delta.map_err(|error| ReplyError::Model { error, begun })?;
        begun |= !matches!(delta, Delta::Usage(_) | Delta::Stop);
        match delta {
            Delta::Text(text) => {
                spend(text_left, text.len(), limits)?;
                conversation.say(&reply.message, &text);
                reply.text.push_str(&text);
                turn.say(&reply.message, text).await?;
            }
            Delta::Thought { subject, text } => {
                spend(text_left, text.len(), limits)?;
                turn.think(&reply.message, subject, text).await?;
            }
            Delta::Call { tool, input } if reply.calls.len() < limits.calls as usize => {
                reply.calls.push(RequestedCall { tool, input });
            }
            Delta::Call { .. } => reply.surplus += 1,
            Delta::Usage(usage) => {
                turn.usage_within(model.name(), usage, model.window()).await?;
            }
            Delta::Stop => return Ok(reply),
        }
    }
    let error = ModelError::new(ModelErrorKind::Transport, "the model's reply was cut off");
    Err(ReplyError::Model { error, begun })
}

fn spend(left: &mut u64, bytes: usize, limits: &Limits) -> Result<(), TurnOver> {
    *left = left.checked_sub(bytes as u64).ok_or_else(|| {
        TurnOver::Failed(format!(
            "the model's text exceeds {} bytes in one turn",
            limits.text_bytes
        ))
    })?;
    Ok(())
}

/// Runs a permitted call to its end and records how it went.
async fn run_permitted(
    turn: &Turn,
    tool: &Arc<dyn Tool>,
    mut permit: Permit,
    workspace: &Arc<Workspace>,
) -> Result<CallOutcome, TurnOver> {
    let limit = Duration::from_secs(turn.context().settings.limits.call_seconds);
    let edit = permit.answer().and_then(|(_, edit)| edit).and_then(|edit| match edit {
        Edit::File { .. } => Some("The user changed the content before approving it.\n".to_owned()),
        Edit::Command { command } => {
            Some(format!("The user changed the command before approving it: {command}\n"))
        }
        Edit::Text { .. } => None,
    });
    let ran = tokio::time::timeout(limit + TOOL_GRACE, tool.run(&mut permit, workspace)).await;
    let outcome = match ran {
        Ok(Ok(mut output)) => {
            // At the beginning, because the end of a long output may be cut.
            if let Some(edit) = edit {
                output.text.insert_str(0, &edit);
            }
            CallOutcome::Succeeded { output }
        }
        Ok(Err(ToolError::Failed(failure))) => CallOutcome::Failed { failure },
        Ok(Err(ToolError::Stopped)) => return Err(TurnOver::Stopped),
        Err(_) => failed("timeout", format!("timed out after {} s", limit.as_secs())),
    };
    permit.end(outcome.clone()).await?;
    Ok(outcome)
}

/// The access that a call needs. An edit that changes nothing only reads, so it needs no approval.
fn access(of_tool: Access, details: &Details) -> Access {
    match details {
        Details::Edit(diff) if diff.changes_nothing() => Access::Read,
        _ => of_tool,
    }
}

fn is_shallow(value: &Value, levels: usize) -> bool {
    let Some(inner) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, inner)),
        Value::Object(members) => members.values().all(|member| is_shallow(member, inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn failed(kind: &str, message: String) -> CallOutcome {
    CallOutcome::Failed { failure: CallFailure::new(kind, message) }
}
