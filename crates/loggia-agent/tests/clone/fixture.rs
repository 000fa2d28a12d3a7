//! Repositories to clone, and sessions in clones.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use loggia_agent::NativeAgent;
use loggia_agent::clone::{CloneConfig, CloneLimits, CloneRetention, Clones, Lookup};
use loggia_agent::tool::{ToolConfig, builtin};
use loggia_agent::workspace::ReservedDirs;
use loggia_core::repository::{AllowedSources, Scheme, clone_name};
use loggia_core::{
    AgentName, Artifact, Cancel, Command, Content, Event, Limits, Mode, ModelName, Part,
    Repository, Seq, SessionId, Settings, TaskChoice, TurnOutcome, Workspace,
};
use loggia_session::{Follower, Hub, MemoryStore, NewSession, SessionHandle};

use crate::tools::{guard, origin};

/// A repository with a few commits.
pub struct Origin {
    directory: tempfile::TempDir,
}

/// Runs git without configuration.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Process::new("git")
        .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org")])
        .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.org")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Origin {
    /// Two commits on `main`, the first with the tag `first`; a third one on the branch `side`.
    pub fn new() -> Self {
        let origin = Self::empty();
        origin.put("README.md", "# One\n");
        origin.put("src/lib.rs", "fn one() {}\n");
        origin.commit("one");
        origin.git(&["tag", "first"]);
        origin.put("README.md", "# Two\n");
        origin.commit("two");
        origin.git(&["checkout", "-q", "-b", "side"]);
        origin.put("side.txt", "side\n");
        origin.commit("side");
        origin.git(&["checkout", "-q", "main"]);
        origin
    }

    pub fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("repo.git");
        std::fs::create_dir(&work).unwrap();
        git(&work, &["init", "-q"]);
        Self { directory }
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(&self.path(), arguments)
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// The directory that contains `repo.git`.
    pub fn root(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("repo.git")
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    pub fn repository(&self) -> Repository {
        repository(self.url())
    }
}

pub fn repository(url: impl Into<String>) -> Repository {
    Repository { url: url.into(), revision: None, shallow: false, directory: None }
}

/// Resolves names to the test's addresses.
pub struct Names(pub Vec<(&'static str, &'static str)>);

impl Lookup for Names {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        let found = self.0.iter().filter(|(known, _)| *known == name);
        let found = found.map(|(_, address)| address.parse().unwrap()).collect();
        Box::pin(async move { Ok(found) })
    }
}

/// A configuration with short time limits that allows everything a test needs.
pub fn config(home: &Path) -> CloneConfig {
    let path: OsString = "/usr/local/bin:/usr/bin:/bin".into();
    CloneConfig {
        directory: home.join("clones"),
        guard: guard(),
        env: vec![("PATH".into(), path), ("GIT_SSH_COMMAND".into(), "touch canary".into())],
        sources: AllowedSources { schemes: Scheme::ALL.to_vec(), ..AllowedSources::default() },
        credentials: Vec::new(),
        ca_file: None,
        limits: CloneLimits { time: Duration::from_secs(60), ..CloneLimits::default() },
        keep: CloneRetention::Always,
        lookup: Arc::new(Names(vec![("localhost", "127.0.0.1")])),
        reserved: ReservedDirs::new([home.canonicalize().unwrap().join("clones")]),
    }
}

pub struct Fixture {
    pub home: tempfile::TempDir,
    hub: Hub,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut CloneConfig)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut clones = config(home.path());
        change(&mut clones);
        let tools = builtin(ToolConfig {
            guard: guard(),
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            ..ToolConfig::default()
        });
        let agent = NativeAgent::new(tools, home.path().to_owned());
        let agent = agent.with_clones(Arc::new(Clones::new(clones)));
        let hub = Hub::new(Arc::new(MemoryStore::default()), Arc::new(agent), "clone test");
        Self { home, hub }
    }

    pub fn clones(&self) -> PathBuf {
        self.home.path().join("clones")
    }

    /// The entries of the directory of clones.
    pub fn kept(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.clones()) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub async fn open(&self, repository: &Repository) -> Session {
        self.open_as(None, repository).await
    }

    /// A session of this owner.
    pub async fn open_as(&self, owner: Option<&str>, repository: &Repository) -> Session {
        let id = SessionId::from(uuid::Uuid::now_v7());
        let path = self.clones().join(clone_name(&id));
        let workspace = Workspace::Clone {
            path: path.to_str().unwrap().to_owned(),
            repository: repository.clone(),
        };
        let settings = Settings {
            model: ModelName("offline".into()),
            effort: None,
            mode: Mode::All,
            rules: Vec::new(),
            tools: None,
            unattended: false,
            timeout: None,
            limits: Limits::default(),
        };
        let by = loggia_core::Origin { principal: owner.map(Into::into), ..origin() };
        let new = NewSession { workspace, settings, agent: AgentName("test".into()) };
        let handle = self.hub.create_named(Some(id), new, by).await.unwrap();
        let follower = handle.follow(Seq::ZERO);
        Session { handle, follower, seen: VecDeque::new(), path }
    }
}

pub struct Session {
    handle: SessionHandle,
    follower: Follower,
    seen: VecDeque<Event>,
    /// The path of the clone.
    pub path: PathBuf,
}

/// The result of a turn.
#[derive(Debug, Default)]
pub struct Ended {
    pub said: String,
    pub notices: Vec<String>,
    pub artifacts: Vec<Artifact>,
    /// None if it was completed.
    pub failure: Option<String>,
}

impl Ended {
    pub fn artifact(&self, name: &str) -> Vec<u8> {
        let found = self.artifacts.iter().find(|artifact| artifact.name == name);
        match &found.unwrap_or_else(|| panic!("no {name} in {self:?}")).parts[0] {
            Part::Text { text } => text.clone().into_bytes(),
            Part::File { base64: Some(text), media_type, .. } => {
                assert_eq!(media_type.as_deref(), Some("text/x-diff"));
                decode(text)
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn patch(&self) -> String {
        assert_eq!(self.failure, None);
        String::from_utf8(self.artifact("changes.patch")).unwrap()
    }

    pub fn cloned(&self) -> bool {
        self.notices.iter().any(|notice| notice.starts_with("Cloned commit "))
    }
}

fn decode(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| LETTERS.find(char::from(byte)));
    let digits: Vec<usize> = digits.collect();
    let bytes = digits.chunks(4).flat_map(|chunk| {
        let group =
            chunk.iter().fold(0, |group, digit| group << 6 | digit) << (6 * (4 - chunk.len()));
        (0..chunk.len() - 1).map(move |index| (group >> (16 - 8 * index) & 255) as u8)
    });
    bytes.collect()
}

impl Session {
    pub async fn prompt(&self, text: &str) {
        let prompt = SessionHandle::fresh_prompt();
        let content = Content::text(text);
        let command = Command::Prompt { prompt, task: TaskChoice::New, content };
        self.handle.submit(command, origin()).await.unwrap();
    }

    pub async fn cancel(&self) {
        self.handle.submit(Command::Cancel { what: Cancel::Turn }, origin()).await.unwrap();
    }

    /// Runs a turn to its end.
    pub async fn turn(&mut self, text: &str) -> Ended {
        self.prompt(text).await;
        self.ended().await
    }

    /// Runs a turn that must fail and returns the reason.
    pub async fn fails(&mut self, text: &str) -> String {
        let ended = self.turn(text).await;
        assert!(ended.said.is_empty(), "the model was asked: {ended:?}");
        ended.failure.unwrap_or_else(|| panic!("it did not fail: {:?}", ended.notices))
    }

    pub async fn ended(&mut self) -> Ended {
        let mut ended = Ended::default();
        loop {
            match self.next().await {
                Event::TextAppended { text, .. } => ended.said.push_str(&text),
                Event::NoticeRaised { text, .. } => ended.notices.push(text),
                Event::ArtifactPublished { artifact, .. } => ended.artifacts.push(artifact),
                Event::TurnEnded { outcome, .. } => {
                    ended.failure = match outcome {
                        TurnOutcome::Completed => None,
                        TurnOutcome::Failed { message, .. } => Some(message),
                        other => Some(format!("{other:?}")),
                    };
                    return ended;
                }
                _ => {}
            }
        }
    }

    /// Waits for the next notice.
    pub async fn notice(&mut self) -> String {
        loop {
            match self.next().await {
                Event::NoticeRaised { text, .. } => return text,
                Event::TurnEnded { outcome, .. } => panic!("{outcome:?}"),
                _ => {}
            }
        }
    }

    /// Waits for a notice with this beginning.
    pub async fn until_notice(&mut self, wanted: &str) {
        loop {
            match self.next().await {
                Event::NoticeRaised { text, .. } if text.starts_with(wanted) => return,
                Event::TurnEnded { outcome, .. } => panic!("{outcome:?}"),
                _ => {}
            }
        }
    }

    async fn next(&mut self) -> Event {
        while self.seen.is_empty() {
            let next = tokio::time::timeout(Duration::from_secs(90), self.follower.next()).await;
            let events = next.expect("nothing new for long").unwrap().unwrap();
            self.seen.extend(events.iter().map(|envelope| envelope.event.clone()));
        }
        self.seen.pop_front().unwrap()
    }

    pub fn file(&self, path: &str) -> String {
        std::fs::read_to_string(self.path.join(path)).unwrap()
    }
}

/// Polls a condition that is not in the log.
pub async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
