//! The turn loop: stream the model; say and think; propose each call; run it on its permit; stop
//! when the model asks for nothing.

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
use loggia_session::boxed::boxed;
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
use crate::workspace::{OpenWorkspaces, Walls, Workspace};

/// Attempts at one reply while nothing of it has been said yet.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Replies in a row whose calls could not be read before the turn is given up.
const UNREADABLE_REPLIES: u32 = 3;
/// Bytes of one call's input.
const INPUT_LIMIT: usize = 1024 * 1024;
/// Levels of one call's input; what is deeper could be logged and never be read again.
const INPUT_DEPTH: usize = 64;
/// A tool gets this much beyond its own time limit before its future is dropped.
const TOOL_GRACE: Duration = Duration::from_secs(5);

const INSTRUCTIONS: &str = "You are Loggia, a coding agent. You work in one workspace with the tools you are given. \
     Look before you change, change as little as the task needs, and say plainly what you did. \
     A refused call is an answer: do not try to get around it.";

#[derive(Clone)]
pub struct NativeAgent {
    tools: Toolbox,
    /// Where relative paths in a model's name start.
    base: PathBuf,
    /// The user's own notes, given to the model before the workspace's.
    user_memory: Option<PathBuf>,
    /// Commands that people wrote in files.
    commands: Option<Arc<CommandFiles>>,
    /// What tokens cost, where the user has said so.
    prices: Arc<Prices>,
    /// How full a model's window may be.
    compact_at: CompactAt,
    /// Who makes copies of repositories.
    clones: Option<Arc<Clones>>,
    workspaces: Arc<OpenWorkspaces>,
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
            workspaces: Arc::default(),
        }
    }

    /// The same agent, which also tells its model what the user wrote in this file.
    #[must_use]
    pub fn remembering(self, user_memory: PathBuf) -> Self {
        Self { user_memory: Some(user_memory), ..self }
    }

    /// The same agent, which also knows commands from files.
    #[must_use]
    pub fn commanded(self, commands: Arc<CommandFiles>) -> Self {
        Self { commands: Some(commands), ..self }
    }

    /// The same agent, which also says what was spent.
    #[must_use]
    pub fn priced(self, prices: Prices) -> Self {
        Self { prices: Arc::new(prices), ..self }
    }

    pub(crate) fn prices(&self) -> &Prices {
        &self.prices
    }

    /// The same agent, which compacts a conversation by itself when it fills so much of the window.
    #[must_use]
    pub fn compacting(self, compact_at: CompactAt) -> Self {
        Self { compact_at, ..self }
    }

    pub(crate) fn compact_at(&self) -> CompactAt {
        self.compact_at
    }

    /// The same agent, which also works in copies of repositories.
    #[must_use]
    pub fn cloning(self, clones: Arc<Clones>) -> Self {
        Self { clones: Some(clones), ..self }
    }

    /// The same agent, whose file tools stay out of these places.
    #[must_use]
    pub fn walled(self, walls: Walls) -> Self {
        Self { workspaces: Arc::new(OpenWorkspaces::behind(walls)), ..self }
    }

    pub(crate) fn tools(&self) -> &Toolbox {
        &self.tools
    }

    /// The commands from files that count here now.
    pub(crate) async fn custom(&self, turn: &Turn) -> Result<CustomCommands, TurnOver> {
        let Some(files) = self.commands.clone() else { return Ok(CustomCommands::default()) };
        let workspace = PathBuf::from(turn.context().workspace.path());
        let listed = tokio::task::spawn_blocking(move || files.list(&workspace)).await;
        listed.map_err(|error| TurnOver::Failed(format!("commands can not be read: {error}")))
    }

    /// The turn's model. One that is asked outside of this process is had only once the prompt is
    /// on disk. Blocks on the file system.
    pub(crate) async fn open_model(&self, turn: &Turn) -> Result<Arc<dyn Model>, TurnOver> {
        let name = &turn.context().settings.model.0;
        let model = registry::open(name, &self.base);
        let model = model.map_err(|error| TurnOver::Failed(error.to_string()))?;
        if !model.only_computes() {
            turn.on_disk().await?;
        }
        Ok(model)
    }

    pub(crate) fn open_workspace(&self, turn: &Turn) -> Result<Arc<Workspace>, TurnOver> {
        let workspace = &turn.context().workspace;
        if let Some(repository) = workspace.repository() {
            return clone::open(workspace.path(), repository).map(Arc::new);
        }
        let opened = self.workspaces.open(workspace.path().as_ref());
        opened.map_err(|error| TurnOver::Failed(error.to_string()))
    }

    /// What the user and the workspace want the model to know, as it is now.
    pub(crate) async fn memory(&self, workspace: &Arc<Workspace>) -> Result<Memory, TurnOver> {
        let (workspace, user) = (workspace.clone(), self.user_memory.clone());
        let read = move || Memory::read(&workspace, user.as_deref());
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(|error| TurnOver::Failed(format!("memory can not be read: {error}")))
    }
}

impl Agent for NativeAgent {
    /// Copies of repositories ([`NativeAgent::prepare`]) and models ([`NativeAgent::open_model`]) wait
    /// for the prompt; everything else that touches anything is a call, and waits for its permit.
    fn waits_to_act(&self) -> bool {
        true
    }

    fn run(&self, turn: Turn) -> BoxFuture<'_, Result<(), TurnOver>> {
        boxed(move || async move {
            let settings = &turn.context().settings;
            let limit = Duration::from_secs(settings.limits.turn_seconds);
            let with_fewer = |names| NativeAgent { tools: self.tools.only(names), ..self.clone() };
            let with_fewer = settings.tools.as_ref().map(|names| Box::new(with_fewer(names)));
            let agent = with_fewer.as_deref().unwrap_or(self);
            agent.prepare(&turn).await?;
            let stop = turn.stop().clone();
            let done = tokio::select! {
                biased; // a cancelled turn is over, whatever else is ready
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

/// Whether it is worth a closer look: everything else is a prompt.
fn may_be_command(content: &Content) -> bool {
    matches!(content.parts.first(), Some(Part::Text { text }) if text.starts_with('/'))
}

/// How a turn begins.
enum Begun {
    /// It was a command, and it is done.
    Done,
    /// The model is asked; about this, where the prompt was a command from a file.
    Prompt(Option<Expanded>),
}

/// One reply of the model, as far as the loop needs it.
struct Heard {
    message: MessageId,
    text: String,
    calls: Vec<Requested>,
    /// Calls beyond the limit, counted and left out.
    surplus: usize,
}

struct Requested {
    tool: String,
    input: Result<Value, String>,
}

/// How one requested call went.
struct Ran {
    call: CallId,
    tool: String,
    input: Value,
    outcome: CallOutcome,
    /// False when the call could not even be read.
    readable: bool,
}

impl NativeAgent {
    /// Before anything else: the copy that the session works in. Sees to it by itself that nothing
    /// is left of one that was cancelled.
    async fn prepare(&self, turn: &Turn) -> Result<(), TurnOver> {
        let workspace = &turn.context().workspace;
        let Some(repository) = workspace.repository() else { return Ok(()) };
        let clones = self.clones.as_ref().ok_or_else(|| {
            TurnOver::Failed("this program does not work in copies of repositories".to_owned())
        })?;
        turn.on_disk().await?;
        // Boxed, here and below: what most turns do not need, every one of them would set up.
        Box::pin(clones.prepare(turn, workspace.path(), repository)).await
    }

    /// After everything else: what came out of a turn in a copy. `words` are the agent's last.
    async fn conclude(&self, turn: &Turn, words: Option<&str>) {
        let workspace = &turn.context().workspace;
        if let (Some(clones), Some(_)) = (&self.clones, workspace.repository()) {
            Box::pin(clones.conclude(turn, workspace.path(), words)).await;
        }
    }

    /// Gives the last reply's words back.
    async fn work(&self, turn: &Turn) -> Result<String, TurnOver> {
        let context = turn.context();
        if let Some(line) = &context.line {
            return Box::pin(self.own_line(turn, line)).await.map(|()| String::new());
        }
        let mut expanded = None;
        if may_be_command(&context.content) {
            expanded = match Box::pin(self.begin(turn)).await? {
                Begun::Done => return Ok(String::new()),
                Begun::Prompt(expanded) => expanded,
            };
        }
        let model = self.open_model(turn).await?;
        let workspace = self.open_workspace(turn)?;
        // Calls that waited while a command became a prompt have been waited for.
        let waited = expanded.as_ref().is_some_and(|expanded| expanded.afresh);
        let mut conversation = conversation_about(turn, expanded).await?;
        if !waited {
            for (call, outcome) in self.resume(turn, &workspace).await? {
                conversation.end(&call, outcome);
            }
        }
        let memory = match Memory::is_absent(&workspace, self.user_memory.as_deref()) {
            true => Memory::default(),
            false => Box::pin(self.memory(&workspace)).await?,
        };
        if let Some(warning) = memory.warning() {
            turn.notice(Level::Warning, warning).await?;
        }
        let instructions = instructions(&memory);
        compaction::by_itself(self.compact_at, turn, model.as_ref(), &mut conversation).await?;

        let limits = &context.settings.limits;
        let mut text_left = limits.text_bytes;
        let mut unreadable = 0;
        for _ in 0..limits.replies {
            let heard = self
                .listen(turn, model.as_ref(), &instructions, &mut conversation, &mut text_left)
                .await?;
            if heard.calls.is_empty() {
                return Ok(heard.text);
            }
            let message = heard.message.clone();
            let ran = Box::pin(self.run_calls(turn, &workspace, heard)).await?;
            unreadable = if ran.iter().any(|ran| ran.readable) { 0 } else { unreadable + 1 };
            for Ran { call, tool, input, outcome, .. } in ran {
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

    /// Does the turn if it is a command; otherwise says what its prompt became.
    async fn begin(&self, turn: &Turn) -> Result<Begun, TurnOver> {
        let content = &turn.context().content;
        if let PromptKind::Command(command) = slash_line::read_content(content) {
            return slash::run(self, turn, command).await.map(|()| Begun::Done);
        }
        if let Some(recorded) = expand::recorded(turn).await? {
            return Ok(Begun::Prompt(Some(recorded)));
        }
        let custom = self.custom(turn).await?;
        match (custom.read_content(content), &self.commands) {
            (PromptKind::Message, _) => Ok(Begun::Prompt(None)),
            (PromptKind::Command(Slash::Custom { name, arguments, .. }), Some(files)) => {
                let expanded = expand::expand(self, turn, files, &name, &arguments).await?;
                Ok(expanded.map_or(Begun::Done, |expanded| Begun::Prompt(Some(expanded))))
            }
            (PromptKind::Command(command), _) => {
                slash::run(self, turn, command).await.map(|()| Begun::Done)
            }
            (PromptKind::Mistake(error), _) => {
                slash::explain(turn, &custom, &error).await.map(|()| Begun::Done)
            }
        }
    }

    /// Waits for the calls that an earlier owner of the session left open, and runs them.
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

    /// A person's own command line: run as it stands, and nothing said about it. No model is asked;
    /// the next turn's model reads the line and what came of it.
    async fn own_line(&self, turn: &Turn, line: &str) -> Result<(), TurnOver> {
        let workspace = self.open_workspace(turn)?;
        match turn.pending() {
            [] => drop(self.call(turn, &workspace, SHELL_TOOL, json!({ "command": line })).await?),
            _ => drop(self.resume(turn, &workspace).await?),
        }
        Ok(())
    }

    /// One call that a command makes: proposed, asked about and run like a model's.
    pub(crate) async fn call(
        &self,
        turn: &Turn,
        workspace: &Arc<Workspace>,
        tool: &str,
        input: Value,
    ) -> Result<CallOutcome, TurnOver> {
        let requested = Requested { tool: tool.to_owned(), input: Ok(input) };
        let ran = self.run_call(turn, workspace, &turn.message(), requested).await?;
        Ok(ran.outcome)
    }

    /// One reply, said as it comes. Tried again while nothing of it was said and the model allows.
    async fn listen(
        &self,
        turn: &Turn,
        model: &dyn Model,
        instructions: &str,
        conversation: &mut Conversation,
        text_left: &mut u64,
    ) -> Result<Heard, TurnOver> {
        let limits = &turn.context().settings.limits;
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let request = ModelRequest {
                purpose: Purpose::Turn,
                instructions: instructions.to_owned(),
                messages: conversation.messages(),
                tools: self.tools.specs(),
            };
            let message = turn.message();
            let mut said = false;
            let heard =
                hear(turn, model, request, &message, limits, text_left, &mut said, conversation);
            let error = match heard.await? {
                Ok(heard) => return Ok(heard),
                Err(error) => error,
            };
            if said || !error.may_retry() || attempt >= ATTEMPTS {
                return Err(TurnOver::Failed(error.message));
            }
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
        heard: Heard,
    ) -> Result<Vec<Ran>, TurnOver> {
        let Heard { message, calls, surplus, .. } = heard;
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
        requested: Requested,
    ) -> Result<Ran, TurnOver> {
        let Requested { tool: name, input } = requested;
        let (tool, input) = match self.readable(&name, input) {
            Ok(found) => found,
            Err((input, outcome)) => {
                let call = turn.invalid(message, &name, input.clone(), outcome.clone()).await?;
                return Ok(Ran { call, tool: name, input, outcome, readable: false });
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
                return Ok(Ran { call, tool: name, input, outcome, readable });
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
        Ok(Ran { call, tool: name, input, outcome, readable: true })
    }

    /// The tool and a readable input, or what to tell the model instead.
    #[expect(clippy::type_complexity, reason = "a pair of pairs, used once")]
    fn readable(
        &self,
        name: &str,
        input: Result<Value, String>,
    ) -> Result<(&Arc<dyn Tool>, Value), (Value, CallOutcome)> {
        let input = input.map_err(|raw| {
            let shown: String = raw.chars().take(200).collect();
            let why = format!("the input of {name} is not valid JSON: {shown}");
            (Value::String(shown), failed("malformed_input", why))
        })?;
        if input.to_string().len() > INPUT_LIMIT {
            let why = format!("the input of {name} is larger than {INPUT_LIMIT} bytes");
            return Err((Value::Null, failed("input_too_large", why)));
        }
        if !is_shallow(&input, INPUT_DEPTH) {
            let why = format!("the input of {name} is nested deeper than {INPUT_DEPTH} levels");
            return Err((Value::Null, failed("input_too_deep", why)));
        }
        match self.tools.find(name) {
            Some(tool) => Ok((tool, input)),
            None => {
                let known: Vec<String> =
                    self.tools.specs().iter().map(|spec| spec.name.clone()).collect();
                let why = format!("there is no tool {name}; there are {}", known.join(", "));
                Err((input, failed("unknown_tool", why)))
            }
        }
    }
}

/// What was said before this turn and in it so far.
pub(crate) async fn conversation(turn: &Turn) -> Result<Conversation, TurnOver> {
    conversation_about(turn, None).await
}

/// The same, of a prompt that a command became.
async fn conversation_about(
    turn: &Turn,
    expanded: Option<Expanded>,
) -> Result<Conversation, TurnOver> {
    let context = turn.context();
    let history = turn.history().await?;
    let summary = context.summary.as_deref();
    let content = expanded.as_ref().map_or(&context.content, |expanded| &expanded.content);
    let mut conversation = Conversation::from_log(&history, &context.turn, content, summary);
    if let Some(Expanded { content, afresh: true }) = expanded {
        conversation.expand(content);
    }
    Ok(conversation)
}

/// Who the model is, and what it is to remember.
pub(crate) fn instructions(memory: &Memory) -> String {
    match memory.block() {
        Some(block) => format!("{INSTRUCTIONS}\n\n{block}"),
        None => INSTRUCTIONS.to_owned(),
    }
}

/// Streams one attempt at a reply. The outer error ends the turn, the inner one is the model's.
#[expect(clippy::too_many_arguments, reason = "the state of one reply, owned by the loop")]
async fn hear(
    turn: &Turn,
    model: &dyn Model,
    request: ModelRequest,
    message: &MessageId,
    limits: &Limits,
    text_left: &mut u64,
    said: &mut bool,
    conversation: &mut Conversation,
) -> Result<Result<Heard, ModelError>, TurnOver> {
    let mut stream = model.stream(request);
    let mut heard =
        Heard { message: message.clone(), text: String::new(), calls: Vec::new(), surplus: 0 };
    while let Some(delta) = stream.next().await {
        let delta = match delta {
            Ok(delta) => delta,
            Err(error) => return Ok(Err(error)),
        };
        *said |= !matches!(delta, Delta::Usage(_) | Delta::Stop);
        match delta {
            Delta::Text(text) => {
                spend(text_left, text.len(), limits)?;
                conversation.say(message, &text);
                heard.text.push_str(&text);
                turn.say(message, text).await?;
            }
            Delta::Thought { subject, text } => {
                spend(text_left, text.len(), limits)?;
                turn.think(message, subject, text).await?;
            }
            Delta::Call { tool, input } if heard.calls.len() < limits.calls as usize => {
                heard.calls.push(Requested { tool, input });
            }
            Delta::Call { .. } => heard.surplus += 1,
            Delta::Usage(usage) => {
                turn.usage_within(model.name(), usage, model.window()).await?;
            }
            Delta::Stop => return Ok(Ok(heard)),
        }
    }
    Ok(Err(ModelError::new(ModelErrorKind::Transport, "the model's reply was cut off")))
}

fn spend(left: &mut u64, bytes: usize, limits: &Limits) -> Result<(), TurnOver> {
    *left = left.checked_sub(bytes as u64).ok_or_else(|| {
        TurnOver::Failed(format!(
            "the model said more than {} bytes in one turn",
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
            // In front: an output may be cut short at its end, this must not be.
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

/// What a call touches. An edit that changes nothing only reads, and nobody is asked about it.
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
