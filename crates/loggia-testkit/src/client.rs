//! The client's side of a test: open a hub, prompt, answer, and read until an expected event.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use loggia_core::{
    AgentName, ApprovalId, Cancel, ChoiceId, Command, Content, Envelope, Event, Mode, ModelName,
    Origin, PromptId, Question, Seq, Settings, Surface, TaskChoice, TurnOutcome, Workspace,
};
use loggia_session::{
    Ack, Agent, Follower, Hub, MemoryStore, NewSession, SessionHandle, Store, SubmitError,
};
use loggia_store::SqliteStore;
use tempfile::TempDir;

use crate::test_log::TIMEOUT;

/// A hub whose sessions end with the test.
pub fn memory_hub(agent: Arc<dyn Agent>) -> Hub {
    hub(Arc::new(MemoryStore::default()), agent)
}

pub fn hub(store: Arc<dyn Store>, agent: Arc<dyn Agent>) -> Hub {
    Hub::new(store, agent, "test")
}

/// A directory for a SQLite store, removed at the end of the test.
pub fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub fn sqlite(directory: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(directory).expect("the store opens"))
}

pub fn settings(mode: Mode) -> Settings {
    Settings {
        model: ModelName("script".into()),
        effort: None,
        mode,
        rules: Vec::new(),
        tools: None,
        unattended: false,
        timeout: None,
        limits: loggia_core::Limits::default(),
    }
}

/// A new session in which commands need approval.
pub async fn create(hub: &Hub) -> SessionHandle {
    create_in(hub, Mode::Ask).await
}

pub async fn create_in(hub: &Hub, mode: Mode) -> SessionHandle {
    let new = NewSession {
        workspace: Workspace::Local { path: "/workspace".into() },
        settings: settings(mode),
        agent: AgentName("script".into()),
    };
    hub.create(new, origin("tester")).await.expect("the session is created")
}

pub fn origin(name: &str) -> Origin {
    Origin::new(Surface::Cli, name)
}

/// A prompt whose id is its text.
pub async fn prompt(handle: &SessionHandle, text: &str) -> Result<Ack, SubmitError> {
    let command = Command::Prompt {
        prompt: PromptId::from(text),
        task: TaskChoice::New,
        content: Content::text(text),
    };
    handle.submit(command, origin("tester")).await
}

pub async fn answer(
    handle: &SessionHandle,
    approval: &ApprovalId,
    choice: &str,
) -> Result<Ack, SubmitError> {
    let to = Question::Approval(approval.clone());
    let command = Command::Answer {
        to,
        choice: ChoiceId::from(choice),
        edit: None,
        digest: None,
        message: None,
    };
    handle.submit(command, origin("tester")).await
}

pub async fn cancel(handle: &SessionHandle) -> Result<Ack, SubmitError> {
    handle.submit(Command::Cancel { what: Cancel::Turn }, origin("tester")).await
}

/// Reads one session and keeps every event.
pub struct Reader {
    follower: Follower,
    seen: Vec<Arc<Envelope>>,
    /// Index of the first event in `seen` that no `until` has checked yet.
    fresh: usize,
}

impl Reader {
    pub fn new(handle: &SessionHandle) -> Self {
        Self::after(handle, Seq::ZERO)
    }

    pub fn after(handle: &SessionHandle, after: Seq) -> Self {
        Self { follower: handle.follow(after), seen: Vec::new(), fresh: 0 }
    }

    pub fn seen(&self) -> &[Arc<Envelope>] {
        &self.seen
    }

    /// Reads until an event fits, starting after the last one found. Fails the test and prints the transcript if
    /// no event fits in time or the session ends first.
    pub async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Arc<Envelope> {
        loop {
            while let Some(envelope) = self.seen.get(self.fresh) {
                self.fresh += 1;
                if fits(&envelope.event) {
                    return envelope.clone();
                }
            }
            let more = self.more().await;
            assert!(more, "the session ended before that:\n{}", transcript(&self.seen));
        }
    }

    pub async fn until_seq(&mut self, seq: Seq) {
        while self.seen.last().is_none_or(|last| last.seq < seq) {
            let more = self.more().await;
            assert!(more, "the session ended before {seq}:\n{}", transcript(&self.seen));
        }
    }

    /// Waits for the next question.
    pub async fn until_asked(&mut self) -> ApprovalId {
        let asked = self.until(|event| matches!(event, Event::ApprovalAsked { .. })).await;
        match &asked.event {
            Event::ApprovalAsked { approval, .. } => approval.clone(),
            other => panic!("not a question: {other:?}"),
        }
    }

    /// Waits for the end of the next turn.
    pub async fn until_over(&mut self) -> TurnOutcome {
        let ended = self.until(|event| matches!(event, Event::TurnEnded { .. })).await;
        match &ended.event {
            Event::TurnEnded { outcome, .. } => outcome.clone(),
            other => panic!("not an end: {other:?}"),
        }
    }

    /// Reads until the session stops.
    pub async fn to_end(&mut self) -> &[Arc<Envelope>] {
        while self.more().await {}
        &self.seen
    }

    async fn more(&mut self) -> bool {
        let next = tokio::time::timeout(TIMEOUT, self.follower.next()).await;
        let Ok(next) = next else {
            panic!("nothing came for {TIMEOUT:?}. Seen:\n{}", transcript(&self.seen));
        };
        match next {
            Ok(Some(events)) => self.seen.extend(events),
            Ok(None) => return false,
            Err(error) => panic!("reading failed: {error}. Seen:\n{}", transcript(&self.seen)),
        }
        true
    }
}

/// One line for each event, for the output of a failed test.
pub fn transcript(events: &[Arc<Envelope>]) -> String {
    events.iter().fold(String::new(), |mut text, envelope| {
        let line = format!("{:?}", envelope.event);
        let short: String = line.chars().take(160).collect();
        let _ = writeln!(text, "  {:>5} {} {short}", envelope.seq, envelope.origin);
        text
    })
}

/// Fails the test unless the events are numbered from `first` without a gap.
pub fn assert_dense(events: &[Arc<Envelope>], first: u64) {
    for (expected, envelope) in (first..).zip(events) {
        assert_eq!(envelope.seq, Seq(expected), "a gap:\n{}", transcript(events));
    }
}

/// The whole log in the store.
pub async fn log(store: &dyn Store, session: &loggia_core::SessionId) -> Vec<Arc<Envelope>> {
    let mut events: Vec<Arc<Envelope>> = Vec::new();
    loop {
        let after = events.last().map_or(Seq::ZERO, |last| last.seq);
        let more = store.read(session, after, 256).await.expect("the log is readable");
        if more.is_empty() {
            return events;
        }
        events.extend(more);
    }
}
