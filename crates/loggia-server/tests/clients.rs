//! The settings that clients ask for, the approvals they get, and the sessions that names mean. A server without sockets;
//! the intents are those that the wire decodes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loggia_core::repository::{AllowedSources, Scheme};
use loggia_core::{
    AgentName, CallOutcome, Content, Details, Event, FileDiff, Mode, Origin, Output, Repository,
    Seq, SessionId, Settings, Surface, TaskChoice,
};
use loggia_server::auth::{Grant, Principal, Scopes};
use loggia_server::clones::ClonePolicy;
use loggia_server::dispatch::Reply;
use loggia_server::state::{Caller, Defaults, ServedSessions, Server};
use loggia_session::{Hub, MemoryStore};
use loggia_testkit::{Act, ScriptAgent, client};
use loggia_wire::context;
use loggia_wire::{
    AgentSettings, CardFacts, DecodedRequest, Delivery, HistoryLength, Intent, ListTasks, OpenTask,
    Prompt, StatusFilter, View, WireError,
};
use serde_json::Value;

const VIEW: View = View::A2A_1;

struct Stage {
    hub: Arc<Hub>,
    server: Server,
}

impl Stage {
    /// Serves everything below a root except the reserved directories.
    fn new(root: &Path, reserved: &[PathBuf], acts: Vec<Act>) -> Self {
        let hub = client::hub(Arc::new(MemoryStore::default()), ScriptAgent::doing(acts));
        let hub = Arc::new(hub);
        let defaults = Defaults {
            settings: client::settings(Mode::Ask),
            workspace: root.to_owned(),
            roots: vec![root.to_owned()],
            reserved_dirs: reserved.to_vec(),
            agent: AgentName("script".into()),
            tools: Vec::new(),
            auto_execute: true,
            model_check: Arc::new(|_| Ok(())),
        };
        let sources = AllowedSources { schemes: vec![Scheme::File], ..AllowedSources::default() };
        let policy = ClonePolicy { directory: root.join("own/clones"), sources, count: 4 };
        let server =
            Server::new(hub.clone(), ServedSessions::Many, defaults, facts()).with_clones(policy);
        Self { hub, server }
    }

    async fn ask(&self, caller: &Caller, intent: Intent) -> Result<Value, WireError> {
        match self.server.ask(DecodedRequest { view: VIEW, intent }, caller, None).await? {
            Reply::Value(value) => Ok(value),
            Reply::Frame(_) | Reply::Frames(_) => panic!("a stream"),
        }
    }

    async fn open(
        &self,
        caller: &Caller,
        name: Option<&str>,
        settings: AgentSettings,
    ) -> Result<Value, WireError> {
        let (session, settings) = (name.map(SessionId::from), Some(settings));
        self.ask(caller, Intent::OpenTask(OpenTask { session, settings, profile: None })).await
    }

    async fn say(&self, caller: &Caller, name: &str) -> Value {
        let message = message(Some(name), TaskChoice::New, "go", Delivery::WhenSettled);
        self.ask(caller, message).await.unwrap()
    }

    /// The frames of a message's stream, from the first to the last one.
    async fn stream(&self, caller: &Caller, task: TaskChoice, words: &str) -> Vec<Value> {
        let asked =
            DecodedRequest { view: VIEW, intent: message(None, task, words, Delivery::Stream) };
        let Reply::Frames(mut frames) = self.server.ask(asked, caller, None).await.unwrap() else {
            panic!("not a stream")
        };
        let mut all = Vec::new();
        while let Some(batch) = frames.next().await.unwrap() {
            all.extend(batch.iter().map(|frame| serde_json::from_slice(&frame.body).unwrap()));
        }
        all
    }

    async fn tasks(&self, caller: &Caller, name: &str) -> Result<Vec<String>, WireError> {
        let list = ListTasks {
            session: Some(name.into()),
            status: StatusFilter::Any,
            page_size: 100,
            page_token: None,
            history: HistoryLength::All,
            artifacts: false,
            since: None,
        };
        let listed = self.ask(caller, Intent::ListTasks(list)).await?;
        Ok(listed["tasks"].as_array().unwrap().iter().map(id).collect())
    }

    /// The session that a client gave this name: its id has the client's mark.
    async fn id_of(&self, name: &str) -> SessionId {
        let listed = self.hub.store().list(usize::MAX).await.unwrap();
        let mut ids = listed.into_iter().map(|listed| listed.session);
        ids.find(|id| context::shown(id) == name).unwrap()
    }

    async fn settings(&self, session: &str) -> Settings {
        let handle = self.hub.open(&self.id_of(session).await).await.unwrap();
        handle.inspect(|session| session.opened().unwrap().settings.clone()).await.unwrap()
    }
}

fn message(name: Option<&str>, task: TaskChoice, words: &str, delivery: Delivery) -> Intent {
    Intent::Prompt(Box::new(Prompt {
        answers: loggia_wire::Answers::Maybe,
        session: name.map(SessionId::from),
        task,
        content: Content::text(words),
        settings: None,
        delivery,
        push: None,
        history: HistoryLength::All,
        output_modes: Vec::new(),
        references: Vec::new(),
    }))
}

fn id(task: &Value) -> String {
    task["id"].as_str().unwrap().to_owned()
}

fn caller(name: &str, scopes: Scopes, grant: Grant) -> Caller {
    let mut origin = Origin::new(Surface::A2a, name);
    origin.principal = Some(name.into());
    Caller::new(Principal::new(name).may(scopes).granted(grant), origin)
}

fn ann() -> Caller {
    caller("ann", Scopes::CLIENT, Grant::None)
}

fn facts() -> CardFacts {
    CardFacts { public_url: "http://localhost:1".into(), streaming: true, ..CardFacts::default() }
}

/// A12: neither Loggia's own directories nor git's are a workspace, however they are spelled.
#[tokio::test]
async fn no_client_works_in_a_reserved_directory() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for name in ["own/clones/bob", "owner", "repo/.git/hooks", "repo/src"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(root.join("own"), root.join("link")).unwrap();
    let stage = Stage::new(&root, &[root.join("own")], Vec::new());
    for (path, wanted) in [
        ("own", Some("Loggia keeps its own files there")),
        ("own/clones", Some("Loggia keeps its own files there")),
        ("own/clones/bob", Some("Loggia keeps its own files there")),
        ("link/clones/bob", Some("Loggia keeps its own files there")),
        ("owner/../own", Some("Loggia keeps its own files there")),
        ("repo/.git", Some("it is inside a .git directory")),
        ("repo/.git/hooks", Some("it is inside a .git directory")),
        ("..", Some("it is outside of the served directories")),
        ("owner", None),
        ("repo/src", None),
        // The parent directory stays usable: tools know the reserved directories.
        (".", None),
    ] {
        let workspace_path = Some(root.join(path).to_str().unwrap().to_owned());
        let settings = AgentSettings { workspace_path, ..AgentSettings::default() };
        let why = stage.open(&ann(), None, settings).await.err().map(|error| error.to_string());
        let wanted = wanted.map(|why| format!("This workspace is not allowed: {why}"));
        assert_eq!(why, wanted, "{path}");
    }
    for (path, given) in [("own/clones/bob", false), ("link/clones/bob", false), ("repo", true)] {
        let url = format!("file://{}", root.join(path).display());
        let repository = Some(Repository { url, revision: None, shallow: false, directory: None });
        let settings = AgentSettings { repository, ..AgentSettings::default() };
        let opened = stage.open(&ann(), None, settings).await;
        assert_eq!(opened.is_ok(), given, "{path}: {opened:?}");
    }
    stage.hub.stop().await;
}

/// Granted calls do not ask, on every binding. Other calls ask a client that may answer, and are refused to one that may
/// not.
#[tokio::test]
async fn a_client_is_asked_only_about_calls_beyond_its_grant() {
    let root = Path::new("/");
    let edit = || Act::Propose(Details::Edit(FileDiff::between("a", "/w/a", None, "x")));
    let hook = || Act::Propose(Details::Edit(FileDiff::between(".git/x", "/w/.git/x", None, "x")));
    let run = || Act::execute("touch x");
    let (asker, other) = (Scopes::CLIENT, Scopes::REGISTERED);
    let (asks, done) = ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED");
    let refused = "TASK_STATE_FAILED";
    // The call and its client; how it ends, and whether it was permitted.
    let table: [(&str, Act, Scopes, Grant, &str, bool); 9] = [
        ("asked", run(), asker, Grant::None, asks, false),
        ("refused", run(), other, Grant::None, refused, false),
        ("edit refused", edit(), other, Grant::None, refused, false),
        ("edit granted", edit(), other, Grant::Edits, done, true),
        ("edit granted, may answer", edit(), asker, Grant::Edits, done, true),
        ("more than granted", run(), other, Grant::Edits, refused, false),
        ("more than granted, asked", run(), asker, Grant::Edits, asks, false),
        ("protected", hook(), other, Grant::Edits, refused, false),
        ("all", run(), other, Grant::All, done, true),
    ];
    for (case, act, scopes, grant, wanted, permitted) in table {
        let outcome = CallOutcome::Succeeded { output: Output::text("it was done") };
        let stage = Stage::new(root, &[], vec![act, Act::End(outcome)]);
        let task = stage.say(&caller("ann", scopes, grant), "c").await;
        let task = &task["task"];
        assert_eq!(task["status"]["state"], wanted, "{case}: {task}");
        let log = stage.hub.store().read(&stage.id_of("c").await, Seq::ZERO, 1000).await.unwrap();
        let started = log.iter().any(|logged| matches!(logged.event, Event::CallStarted { .. }));
        assert_eq!(started, permitted, "{case}");
        let unattended = log.iter().any(|logged| match &logged.event {
            Event::CallEnded { outcome: CallOutcome::Cancelled { reason }, .. } => {
                reason.contains("this session is unattended")
            }
            _ => false,
        });
        assert_eq!(unattended, wanted == refused, "{case}");
        stage.hub.stop().await;
    }
}

/// The stream of an answer shows how the task continued, even if the task is over when the stream begins.
#[tokio::test]
async fn the_stream_of_an_answer_is_never_the_end_alone() {
    let more = vec![Act::execute("touch x"), Act::say("so be it"), Act::execute("touch y")];
    let stage = Stage::new(Path::new("/"), &[], more);
    let asked = stage.stream(&ann(), TaskChoice::New, "go").await;
    let task = id(&asked[0]["task"]);
    for end in ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"] {
        let named = TaskChoice::Continue(task.as_str().into());
        let frames = stage.stream(&ann(), named, "no").await;
        assert_eq!(frames[0]["task"]["status"]["state"], "TASK_STATE_WORKING", "{frames:#?}");
        assert_eq!(id(&frames[0]["task"]), task);
        let last = frames.last().unwrap();
        assert_eq!(last["statusUpdate"]["status"]["state"], end, "{frames:#?}");
    }
    stage.hub.stop().await;
}

/// Any message can make calls ask again; none can make them stop asking.
#[tokio::test]
async fn auto_execute_is_taken_back_by_a_message_and_given_by_none() {
    let stage = Stage::new(Path::new("/"), &[], Vec::new());
    let auto = |auto_execute| AgentSettings { auto_execute, ..AgentSettings::default() };
    for (caller, grant) in [
        (ann(), Mode::Ask),
        (caller("bob", Scopes::CLIENT, Grant::Edits), Mode::Edits),
        // She has all grants and wants to be asked.
        (caller("eve", Scopes::CLIENT, Grant::All), Mode::Ask),
    ] {
        let name = &*caller.principal.name;
        for (asked, wanted) in [
            (Some(true), Mode::All),
            (None, Mode::All),
            (Some(false), grant),
            (Some(false), grant),
            (Some(true), grant),
            (None, grant),
        ] {
            stage.open(&caller, Some(name), auto(asked)).await.unwrap();
            let settings = stage.settings(name).await;
            assert_eq!(settings.mode, wanted, "{name} {asked:?}");
            let before = Settings { mode: Mode::Ask, ..settings };
            assert_eq!(before, client::settings(Mode::Ask), "nothing else changes");
        }
    }
    stage.hub.stop().await;
}

/// An admin sees the names of all clients. For a name that several clients use, each session has a full name, which works
/// wherever a context is named.
#[tokio::test]
async fn an_admin_reaches_the_session_that_it_names() {
    let stage = Stage::new(Path::new("/"), &[], Vec::new());
    let admin = caller("adm", Scopes::ALL, Grant::None);
    let (bob, none) = (caller("bob", Scopes::CLIENT, Grant::None), AgentSettings::default);
    let alone = stage.say(&ann(), "alone").await["task"].clone();
    assert_eq!(stage.tasks(&admin, "alone").await.unwrap(), [id(&alone)]);
    stage.open(&admin, Some("alone"), none()).await.unwrap();
    assert_eq!(stage.tasks(&ann(), "alone").await.unwrap().len(), 2, "it is the only one");

    let mut own = Vec::new();
    for client in [&ann(), &bob] {
        let task = stage.say(client, "both").await["task"].clone();
        assert_eq!(task["contextId"], "both");
        own.push(id(&task));
    }
    let refused = stage.open(&admin, Some("both"), none()).await.unwrap_err().to_string();
    let listed = stage.tasks(&admin, "both").await.unwrap_err().to_string();
    assert_eq!(refused, listed);
    let (_, names) = refused.split_once("use one of: ").expect(&refused);
    let names: Vec<&str> = names.split(", ").collect();
    assert_eq!(names.len(), 2, "{refused}");

    // Each full name means one client's session, for every request.
    let mut seen = Vec::new();
    for name in names {
        let before = stage.tasks(&admin, name).await.unwrap();
        let [theirs] = before.as_slice() else { panic!("{name}: {before:?}") };
        stage.say(&admin, name).await;
        assert_eq!(stage.tasks(&admin, name).await.unwrap().len(), 2, "{name}");
        seen.push(theirs.clone());
    }
    seen.sort();
    own.sort();
    assert_eq!(seen, own);
    for client in [&ann(), &bob] {
        assert_eq!(stage.tasks(client, "both").await.unwrap().len(), 2);
    }
    // Other clients are not told these names.
    assert!(stage.tasks(&bob, "alone").await.unwrap().is_empty());
    stage.hub.stop().await;
}
