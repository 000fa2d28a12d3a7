//! A workspace, a session and an agent that makes the call that its prompt describes.

#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use loggia_agent::guard::Probe;
use loggia_agent::tool::{ToolConfig, ToolError, Toolbox, builtin};
use loggia_agent::workspace::Workspace;
use loggia_core::{
    AgentName, Amendment, CallFailure, CallId, CallOutcome, Cancel, ChoiceId, ClientId, Command,
    Content, Details, Edit, Event, Limits, Matcher, Mode, ModelName, Origin, Output, Proposal,
    Question, Rule, RuleLifetime, Seq, Settings, Surface, TaskChoice,
};
use loggia_session::{
    Agent, Denied, Follower, Hub, MemoryStore, NewSession, SessionHandle, Turn, TurnOver,
};
use serde_json::{Value, json};

/// Makes the one call that the prompt's text describes.
struct OneCall {
    tools: Toolbox,
    /// Drops a cancelled call instead of waiting for it, like the native agent.
    abandons: bool,
}

impl Agent for OneCall {
    fn run(&self, turn: Turn) -> BoxFuture<'static, Result<(), TurnOver>> {
        let (tools, stop, abandons) = (self.tools.clone(), turn.stop().clone(), self.abandons);
        let call = one_call(tools, turn);
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.cancelled(), if abandons => Err(TurnOver::Stopped),
                done = call => done,
            }
        })
    }
}

async fn one_call(tools: Toolbox, turn: Turn) -> Result<(), TurnOver> {
    let wanted: Value = serde_json::from_str(&turn.context().content.to_text()).unwrap();
    let (name, input) = (wanted["tool"].as_str().unwrap(), wanted["input"].clone());
    let tool = tools.find(name).unwrap();
    let workspace = Arc::new(Workspace::open(turn.context().workspace.path().as_ref()).unwrap());
    let message = turn.message();
    let preview = match tool.preview(&input, &workspace).await {
        Ok(preview) => preview,
        Err(ToolError::Failed(failure)) => {
            turn.invalid(turn.call(), &message, name, input, CallOutcome::Failed { failure })
                .await?;
            return Ok(());
        }
        Err(ToolError::Stopped) => return Err(TurnOver::Stopped),
    };
    let proposal = Proposal {
        message,
        tool: name.to_owned(),
        title: preview.title,
        access: tool.spec().access,
        input,
        details: preview.details,
        needs_person: preview.needs_person,
    };
    let mut permit = match turn.propose(CallId::from(uuid::Uuid::now_v7()), proposal).await {
        Ok(permit) => permit,
        Err(Denied::Refused(_)) => return Ok(()),
        Err(Denied::Over(over)) => return Err(over),
    };
    let outcome = match tool.run(&mut permit, &workspace).await {
        Ok(output) => CallOutcome::Succeeded { output },
        Err(ToolError::Failed(failure)) => CallOutcome::Failed { failure },
        Err(ToolError::Stopped) => return Err(TurnOver::Stopped),
    };
    permit.end(outcome).await
}

pub struct Fixture {
    directory: tempfile::TempDir,
    pub handle: SessionHandle,
    follower: Follower,
    /// All events so far.
    pub seen: Vec<Event>,
    _hub: Hub,
}

impl Fixture {
    /// Everything is allowed.
    pub async fn open() -> Self {
        Self::with(Mode::All, config()).await
    }

    /// Edits and commands need approval.
    pub async fn asking() -> Self {
        Self::with(Mode::Ask, config()).await
    }

    pub async fn with(mode: Mode, config: ToolConfig) -> Self {
        Self::with_agent(mode, OneCall { tools: builtin(config), abandons: false }).await
    }

    /// Cancelled calls are dropped.
    pub async fn abandoning() -> Self {
        Self::with_agent(Mode::All, OneCall { tools: builtin(config()), abandons: true }).await
    }

    /// The native agent with the offline model.
    pub async fn native(mode: Mode) -> Self {
        let agent = loggia_agent::NativeAgent::new(builtin(config()), PathBuf::new());
        Self::with_agent(mode, agent).await
    }

    async fn with_agent(mode: Mode, agent: impl Agent) -> Self {
        // Like the binary: the process can then not read some of its own /proc.
        let closed = rustix::process::DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(closed).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("w");
        std::fs::create_dir(&root).unwrap();
        let hub = Hub::new(Arc::new(MemoryStore::default()), Arc::new(agent), "tools test");
        let new = NewSession {
            workspace: loggia_core::Workspace::Local { path: root.to_str().unwrap().to_owned() },
            settings: Settings {
                model: ModelName("offline".into()),
                effort: None,
                mode,
                rules: Vec::new(),
                tools: None,
                unattended: false,
                timeout: None,
                limits: Limits::default(),
            },
            agent: AgentName("one call".into()),
        };
        let handle = hub.create(new, origin()).await.unwrap();
        let follower = handle.follow(Seq::ZERO);
        Self { directory, handle, follower, seen: Vec::new(), _hub: hub }
    }

    /// The workspace.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("w")
    }

    /// A directory outside the workspace.
    pub fn outside(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub fn file(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub async fn start(&mut self, tool: &str, input: Value) {
        let content = Content::text(json!({ "tool": tool, "input": input }).to_string());
        let prompt = SessionHandle::fresh_prompt();
        let command = Command::Prompt { prompt, task: TaskChoice::New, content };
        self.handle.submit(command, origin()).await.unwrap();
    }

    /// A command line of the person's own.
    pub async fn types(&self, line: &str) {
        let prompt = SessionHandle::fresh_prompt();
        let command = Command::Shell { prompt, line: line.to_owned() };
        self.handle.submit(command, origin()).await.unwrap();
    }

    pub async fn prompt(&self, text: &str) {
        let (prompt, content) = (SessionHandle::fresh_prompt(), Content::text(text));
        let command = Command::Prompt { prompt, task: TaskChoice::New, content };
        self.handle.submit(command, origin()).await.unwrap();
    }

    /// Adds a rule that allows this command in the workspace's root.
    pub async fn allow(&self, command: &str) {
        let rule = Rule {
            id: format!("allow {command}").as_str().into(),
            matcher: Matcher::Command(loggia_shell::parse_pattern(command).unwrap()),
            allow: true,
            scope: RuleLifetime::Session,
            directory: None,
            principal: None,
        };
        let amendment = Amendment::Added { rule };
        self.handle.submit(Command::Amend { amendment }, origin()).await.unwrap();
    }

    /// Runs a call to its end.
    pub async fn call(&mut self, tool: &str, input: Value) -> CallOutcome {
        self.start(tool, input).await;
        self.outcome().await
    }

    pub async fn succeed(&mut self, tool: &str, input: Value) -> Output {
        match self.call(tool, input).await {
            CallOutcome::Succeeded { output } => output,
            other => panic!("{other:?}"),
        }
    }

    pub async fn text(&mut self, tool: &str, input: Value) -> String {
        self.succeed(tool, input).await.text
    }

    pub async fn fail(&mut self, tool: &str, input: Value) -> CallFailure {
        match self.call(tool, input).await {
            CallOutcome::Failed { failure } => failure,
            other => panic!("{other:?}"),
        }
    }

    pub async fn outcome(&mut self) -> CallOutcome {
        let outcome = self
            .until(|event| match event {
                Event::CallEnded { outcome, .. } => Some(outcome.clone()),
                _ => None,
            })
            .await;
        self.until(|event| matches!(event, Event::TurnEnded { .. }).then_some(())).await;
        outcome
    }

    /// The open approval and its details.
    pub async fn question(&mut self) -> (CallId, Details) {
        let (call, details) = self
            .until(|event| match event {
                Event::CallProposed { call, details, .. } => Some((call.clone(), details.clone())),
                _ => None,
            })
            .await;
        self.until(|event| matches!(event, Event::ApprovalAsked { .. }).then_some(())).await;
        (call, details)
    }

    pub async fn answer(&self, call: &CallId, choice: &str, edit: Option<Edit>) {
        let (to, choice) = (Question::Call(call.clone()), ChoiceId::from(choice));
        let command = Command::Answer { to, choice, edit, digest: None, message: None };
        self.handle.submit(command, origin()).await.unwrap();
    }

    pub async fn cancel(&self) {
        let command = Command::Cancel { what: Cancel::Turn };
        self.handle.submit(command, origin()).await.unwrap();
    }

    /// Waits for an event and drops everything up to it.
    pub async fn until<T>(&mut self, find: impl Fn(&Event) -> Option<T>) -> T {
        while !self.seen.iter().any(|event| find(event).is_some()) {
            self.read_on().await;
        }
        let position = self.seen.iter().position(|event| find(event).is_some()).unwrap();
        let found = find(&self.seen[position]).unwrap();
        self.seen.drain(..=position);
        found
    }

    /// Waits for an event and keeps all events.
    pub async fn wait_for(&mut self, wanted: impl Fn(&Event) -> bool) {
        while !self.seen.iter().any(&wanted) {
            self.read_on().await;
        }
    }

    async fn read_on(&mut self) {
        let next = tokio::time::timeout(Duration::from_secs(60), self.follower.next()).await;
        let events = next.expect("nothing new within a minute").unwrap().unwrap();
        self.seen.extend(events.iter().map(|envelope| envelope.event.clone()));
    }
}

/// Processes whose command line (arguments end in NUL) contains `part`, anywhere on this machine.
pub fn processes(part: &str) -> impl Iterator<Item = i32> {
    let part = part.as_bytes().to_owned();
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(move |entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        line.windows(part.len()).any(|window| window == part).then_some(pid)
    })
}

pub fn origin() -> Origin {
    Origin { surface: Surface::Tui, client: ClientId::new("test"), principal: None }
}

/// The guard, an example of this crate. Cargo builds it with all tests but not with a single one, so this
/// fails if the guard is out of date.
pub fn guard() -> Vec<OsString> {
    static BUILT: Once = Once::new();
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).unwrap();
    let guard = target.join("examples/guard");
    BUILT.call_once(|| {
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let written = ["src", "examples"].map(|part| newest(&crate_root.join(part)));
        if changed(&guard) < written.into_iter().max().flatten() {
            let mut cargo = std::process::Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--package", "loggia-agent", "--example", "guard"]);
            if target.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success());
        }
    });
    vec![guard.into(), "guard".into()]
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}

/// The newest modification time below a directory.
fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let times = entries.map(|path| if path.is_dir() { newest(&path) } else { changed(&path) });
    times.max().flatten()
}

/// The containment on this machine. Some commands are not safe to run without it.
pub fn probe() -> Probe {
    let parts = guard();
    let output = std::process::Command::new(&parts[0]).args(["guard", "probe"]).output().unwrap();
    Probe::parse(&String::from_utf8_lossy(&output.stdout)).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the test stands in for the binary's configuration")]
pub fn config() -> ToolConfig {
    ToolConfig { guard: guard(), env: std::env::vars_os().collect(), ..ToolConfig::default() }
}
