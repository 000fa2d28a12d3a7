//! A session with the real agent, driven by prompts.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loggia_agent::tool::{ToolConfig, builtin};
use loggia_agent::{CommandFiles, NativeAgent};
use loggia_core::{
    AgentName, CallId, ChoiceId, Command, Content, Details, Event, FileDiff, Limits, Mode,
    ModelName, Origin, Question, RuleId, Seq, Settings, Surface, TaskChoice, TurnOutcome,
    Workspace,
};
use loggia_session::hub::project_rules;
use loggia_session::{Follower, Hub, MemoryStore, NewSession, SessionHandle};

pub struct Talk {
    pub directory: tempfile::TempDir,
    pub store: Arc<MemoryStore>,
    pub hub: Hub,
    pub handle: SessionHandle,
    pub follower: Follower,
    /// Events read from the log and not used yet.
    pub read: VecDeque<Event>,
}

/// A finished turn: its text and its outcome.
#[derive(Debug)]
pub struct Ended {
    pub said: String,
    pub outcome: TurnOutcome,
}

pub fn origin() -> Origin {
    Origin::new(Surface::Cli, "test")
}

pub fn agent(directory: &std::path::Path) -> Arc<NativeAgent> {
    let tools = builtin(ToolConfig::default());
    let base = directory.to_owned();
    let agent = NativeAgent::new(tools, base).with_user_memory(directory.join("user/AGENTS.md"));
    // The workspace is trusted while this file exists.
    let trust = directory.join("trusted");
    let files = CommandFiles::new(directory.join("user/commands"), move |_| trust.exists());
    Arc::new(agent.with_commands(Arc::new(files)))
}

impl Talk {
    pub async fn open(mode: Mode) -> Self {
        Self::with(mode, "offline", None).await
    }

    pub async fn with(mode: Mode, model: &str, tools: Option<Vec<String>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("w")).unwrap();
        std::fs::create_dir_all(directory.path().join("user")).unwrap();
        if let Some(script) = model.strip_prefix("script") {
            std::fs::write(directory.path().join("s.toml"), script).unwrap();
        }
        let model = if model.starts_with("script") { "scripted:s.toml" } else { model };
        let store = Arc::new(MemoryStore::default());
        let hub = Hub::new(store.clone(), agent(directory.path()), "slash test");
        let new = NewSession {
            workspace: Workspace::Local { path: path_text(directory.path().join("w")) },
            settings: Settings {
                model: ModelName(model.into()),
                effort: None,
                mode,
                rules: Vec::new(),
                tools,
                unattended: false,
                timeout: None,
                limits: Limits::default(),
            },
            agent: AgentName("loggia".into()),
        };
        let handle = hub.create(new, origin()).await.unwrap();
        let follower = handle.follow(Seq::ZERO);
        Self { directory, store, hub, handle, follower, read: VecDeque::new() }
    }

    pub fn put(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join("w").join(name)).ok()
    }

    pub fn workspace(&self) -> String {
        path_text(self.directory.path().join("w"))
    }

    pub async fn prompt(&self, text: &str) {
        let prompt = SessionHandle::fresh_prompt();
        let command =
            Command::Prompt { prompt, task: TaskChoice::New, content: Content::text(text) };
        self.handle.submit(command, origin()).await.unwrap();
    }

    /// Runs a prompt that needs no approval to its end.
    pub async fn ask(&mut self, text: &str) -> Ended {
        self.prompt(text).await;
        self.end().await
    }

    /// Runs a prompt that must succeed and returns its text.
    pub async fn say(&mut self, text: &str) -> String {
        let ended = self.ask(text).await;
        assert_eq!(ended.outcome, TurnOutcome::Completed, "{text}: {}", ended.said);
        ended.said
    }

    pub async fn fails(&mut self, text: &str) -> String {
        match self.ask(text).await.outcome {
            TurnOutcome::Failed { message, .. } => message,
            other => panic!("{text}: {other:?}"),
        }
    }

    pub async fn end(&mut self) -> Ended {
        let mut said = String::new();
        loop {
            match self.event().await {
                Event::TextAppended { text, .. } => said.push_str(&text),
                Event::TurnEnded { outcome, .. } => return Ended { said, outcome },
                Event::ApprovalAsked { .. } => panic!("it asks"),
                _ => {}
            }
        }
    }

    pub async fn event(&mut self) -> Event {
        while self.read.is_empty() {
            let next = tokio::time::timeout(Duration::from_secs(60), self.follower.next()).await;
            let events = next.expect("nothing new within a minute").unwrap().unwrap();
            self.read.extend(events.iter().map(|envelope| envelope.event.clone()));
        }
        self.read.pop_front().unwrap()
    }

    /// The diff of the open approval.
    pub async fn question(&mut self) -> (CallId, FileDiff) {
        let mut shown = None;
        loop {
            match self.event().await {
                Event::CallProposed { call, details: Details::Edit(diff), .. } => {
                    shown = Some((call, diff));
                }
                Event::ApprovalAsked { .. } => return shown.unwrap(),
                Event::TurnEnded { outcome, .. } => panic!("nothing was asked: {outcome:?}"),
                _ => {}
            }
        }
    }

    pub async fn answer(&self, call: &CallId, choice: &str) {
        let (to, choice) = (Question::Call(call.clone()), ChoiceId::from(choice));
        let command = Command::Answer { to, choice, edit: None, digest: None, message: None };
        self.handle.submit(command, origin()).await.unwrap();
    }

    /// Simulates a restart.
    pub async fn restart(&mut self) {
        let id = self.handle.id().clone();
        self.hub.stop().await;
        self.hub = Hub::new(self.store.clone(), agent(self.directory.path()), "slash test");
        self.handle = self.hub.open(&id).await.unwrap();
        self.follower = self.handle.follow(self.handle.head());
    }

    pub async fn log(&self) -> Vec<Event> {
        let mut events = Vec::new();
        loggia_session::hub::fold(self.store.as_ref(), self.handle.id(), |envelope| {
            events.push(envelope.event.clone());
        })
        .await
        .unwrap();
        events
    }

    pub async fn rules(&self) -> Vec<RuleId> {
        let rules = project_rules(self.store.as_ref(), &self.workspace()).await.unwrap();
        rules.into_iter().map(|rule| rule.id).collect()
    }
}

pub fn path_text(path: PathBuf) -> String {
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}
