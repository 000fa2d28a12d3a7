//! A hub on a real disk, an agent that writes as many lines as its prompt says, and sessions of any length.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::future::BoxFuture;
use loggia_core::{
    Durability, Envelope, Event, Level, Millis, Mode, Origin, PromptId, Seq, SessionId,
};
use loggia_session::{Agent, Append, Hub, SessionHandle, Store, Turn, TurnOver};
use loggia_testkit::SqliteStore;
use loggia_testkit::client;
use loggia_testkit::store_contract::{owner, summary};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// A text of the usual size: about a line of a model's reply.
pub const LINE: &str =
    "The quick brown fox jumps over the lazy dog, and then it does so once more.";

/// On the disk with the build, because the temporary directory may be in memory.
pub fn directory() -> TempDir {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(target).expect("the target directory");
    tempfile::tempdir_in(target).expect("a temporary directory")
}

/// Writes as many lines as its prompt says, each as its own event. A paced prompt waits for a permit of `go` before each.
pub struct Speaker {
    pub go: Arc<Semaphore>,
    /// When the last line was said.
    pub said: Arc<Mutex<Option<Instant>>>,
}

impl Speaker {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { go: Arc::new(Semaphore::new(0)), said: Arc::default() })
    }
}

impl Agent for Speaker {
    fn run(&self, turn: Turn) -> BoxFuture<'static, Result<(), TurnOver>> {
        let (go, said) = (self.go.clone(), self.said.clone());
        Box::pin(async move {
            let text = turn.context().content.to_text();
            let mut words = text.split(' ');
            let paced = words.next() == Some("paced");
            let lines: usize = words.next().and_then(|count| count.parse().ok()).unwrap_or(0);
            for _ in 0..lines {
                if paced {
                    go.acquire().await.map_err(|_| TurnOver::Stopped)?.forget();
                    *said.lock().unwrap() = Some(Instant::now());
                }
                turn.say(&turn.message(), LINE).await?;
            }
            Ok(())
        })
    }
}

pub struct Stage {
    pub hub: Hub,
    pub store: Arc<SqliteStore>,
    pub speaker: Arc<Speaker>,
    /// Removed after the store is dropped.
    pub directory: TempDir,
}

pub fn stage() -> Stage {
    let directory = directory();
    let store = client::sqlite(directory.path());
    let speaker = Speaker::new();
    let hub = Hub::new(store.clone(), speaker.clone(), "bench");
    Stage { hub, store, speaker, directory }
}

/// Prompts the agent to write lines, at once (`burst`) or one for each permit (`paced`).
pub async fn speak(handle: &SessionHandle, how: &str, lines: usize) {
    let prompt = PromptId::from(uuid::Uuid::now_v7());
    let command = loggia_core::Command::Prompt {
        prompt,
        task: loggia_core::TaskChoice::New,
        content: loggia_core::Content::text(format!("{how} {lines}")),
    };
    handle.submit(command, client::origin("bench")).await.expect("accepted");
}

/// Creates a session with this number of events.
pub async fn session_of(store: &dyn Store, name: &str, events: usize) -> SessionId {
    let session = SessionId::from(name);
    let lease = store.acquire(&session, owner("bench")).await.expect("free");
    let envelope = |seq: usize, event| {
        let origin = Origin::system();
        Arc::new(Envelope { seq: Seq(seq as u64), at: Millis(seq as i64), origin, event })
    };
    let opened = Event::SessionOpened {
        workspace: loggia_core::Workspace::Local { path: "/workspace".into() },
        settings: client::settings(Mode::Ask),
        agent: loggia_core::AgentName("bench".into()),
    };
    let line = |_| Event::NoticeRaised { level: Level::Info, text: LINE.into(), wait: None };
    let all = [opened].into_iter().chain((1..events).map(line));
    let all: Vec<_> = (1..).zip(all).map(|(seq, event)| envelope(seq, event)).collect();
    for batch in all.chunks(1_000) {
        let append = Append {
            expected: Seq(batch[0].seq.0 - 1),
            events: batch.to_vec(),
            durability: Durability::Stream,
            summary: summary(name, 1),
            tasks: Vec::new(),
            documents: Vec::new(),
        };
        store.append(&lease, append).await.expect("appended");
    }
    session
}

/// Reads until the turn is over and returns the number of events.
pub async fn read_turn(mut follower: loggia_session::Follower) -> usize {
    let mut seen = 0;
    loop {
        let events = follower.next().await.expect("readable").expect("open");
        seen += events.len();
        if matches!(events.last().map(|last| &last.event), Some(Event::TurnEnded { .. })) {
            return seen;
        }
    }
}
