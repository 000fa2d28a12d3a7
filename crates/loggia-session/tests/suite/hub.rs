//! Opening, stopping and deleting sessions.

use std::sync::Arc;

use loggia_core::{
    AgentName, Amendment, Command, Content, Matcher, Mode, Origin, PromptId, Rule, RuleId,
    RuleLifetime, Seq, SessionId, TaskChoice, Workspace,
};
use loggia_session::hub::{forget_rule, project_rules};
use loggia_session::{HubError, MemoryStore, NewSession, Principals, Store, StoreError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::store_contract::owner;
use loggia_testkit::{Act, Fault, FaultyStore, Gate, ScriptAgent, TestLog};

#[tokio::test(start_paused = true)]
async fn opening_twice_gives_the_same_session() {
    let hub = client::memory_hub(ScriptAgent::idle());
    let handle = client::create(&hub).await;
    let (a, b) = tokio::join!(hub.open(handle.id()), hub.open(handle.id()));
    let (a, b) = (a.unwrap(), b.unwrap());
    client::prompt(&a, "go").await.unwrap();
    assert_eq!(a.head(), b.head());
    handle.stop().await;
    let (a, b) = tokio::join!(hub.open(handle.id()), hub.open(handle.id()));
    let (a, b) = (a.unwrap(), b.unwrap());
    client::prompt(&a, "again").await.unwrap();
    assert_eq!(a.head(), b.head(), "also after reopening");
}

#[tokio::test(start_paused = true)]
async fn a_failed_opening_does_not_affect_the_next() {
    let store = FaultyStore::new(Arc::new(MemoryStore::default()), TestLog::default());
    let hub = client::hub(store.clone(), ScriptAgent::idle());
    let handle = client::create(&hub).await;
    handle.stop().await;
    let failure = StoreError::Io("a transient error".into());
    store.refuse_acquire(failure.clone());
    let (first, second) = tokio::join!(hub.open(handle.id()), hub.open(handle.id()));
    assert!(matches!(first, Err(HubError::Store(error)) if error == failure));
    let second = second.expect("the second caller tries again");
    let third = hub.open(handle.id()).await.expect("the same session, not a second owner");
    client::prompt(&third, "go").await.unwrap();
    assert_eq!(second.head(), third.head());
}

#[tokio::test(start_paused = true)]
async fn when_stop_returns_the_agent_has_stopped_and_the_session_is_free() {
    let store = Arc::new(MemoryStore::default());
    let script = vec![Act::execute("make"), Act::note("running"), Act::WaitForCancel];
    let agent = ScriptAgent::new(TestLog::default(), [script]);
    let test_log = agent.test_log().clone();
    let hub = client::hub(store.clone(), agent);
    let handle = client::create_in(&hub, Mode::All).await;
    client::prompt(&handle, "go").await.unwrap();
    test_log.until("running").await;
    handle.stop().await;
    assert!(test_log.has("turn go leaves"), "\n{test_log}");
    assert!(handle.is_stopped());
    let lease = store.acquire(handle.id(), owner("another")).await;
    assert!(lease.is_ok(), "{:?}", lease.err());
}

#[tokio::test(start_paused = true)]
async fn reopening_waits_until_the_old_actor_is_gone() {
    let store = FaultyStore::new(Arc::new(MemoryStore::default()), TestLog::default());
    let gate = Gate::default();
    let script = vec![Act::note("running"), Act::WaitForCancel, Act::WaitFor(gate.clone())];
    let agent = ScriptAgent::new(TestLog::default(), [script, vec![]]);
    let test_log = agent.test_log().clone();
    let hub = Arc::new(client::hub(store.clone(), agent));
    let handle = client::create(&hub).await;
    client::prompt(&handle, "go").await.unwrap();
    test_log.until("running").await;
    store.next(Fault::Fail(StoreError::Full { file: "loggia.db".into() }));
    assert!(client::prompt(&handle, "next").await.is_err());
    let (opening, id) = (hub.clone(), handle.id().clone());
    let opening = tokio::spawn(async move { opening.open(&id).await });
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!opening.is_finished(), "the last agent may still touch files");
    gate.open();
    let handle = opening.await.unwrap().expect("opened");
    assert!(test_log.has("turn go leaves"));
    client::prompt(&handle, "next").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_running_session_can_be_deleted_by_its_own_hub() {
    let hub = client::memory_hub(ScriptAgent::doing([Act::WaitForCancel]));
    let handle = client::create(&hub).await;
    let task = client::prompt(&handle, "go").await.unwrap().task.unwrap();
    let mut reader = Reader::new(&handle);
    assert_eq!(hub.locate(&task).await, Ok(Some(handle.id().clone())));
    hub.delete(handle.id()).await.expect("deleted");
    reader.to_end().await;
    assert_eq!(hub.list(10).await, Ok(Vec::new()));
    assert_eq!(hub.locate(&task).await, Ok(None));
    let unknown = HubError::Store(StoreError::Unknown(handle.id().clone()));
    assert_eq!(hub.delete(handle.id()).await, Err(unknown.clone()));
    let Err(error) = hub.open(handle.id()).await else { panic!("it is gone") };
    assert_eq!(error, unknown);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_owner_is_not_deleted() {
    let store = Arc::new(MemoryStore::default());
    let here = client::hub(store.clone(), ScriptAgent::idle());
    let there = client::hub(store.clone(), ScriptAgent::idle());
    let handle = client::create(&here).await;
    let refused = there.delete(handle.id()).await;
    assert!(matches!(refused, Err(HubError::Store(StoreError::Busy { .. }))), "{refused:?}");
    let refused = there.open(handle.id()).await.err();
    assert!(matches!(refused, Some(HubError::Store(StoreError::Busy { .. }))), "{refused:?}");
    client::prompt(&handle, "go").await.expect("not affected");
    here.stop().await;
    there.open(handle.id()).await.expect("free now");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_hub_leaves_every_log_as_it_is() {
    let hub = client::memory_hub(ScriptAgent::doing([Act::say("hello"), Act::WaitForCancel]));
    let mut sessions = Vec::new();
    for number in 0..5 {
        let handle = client::create(&hub).await;
        client::prompt(&handle, &format!("prompt {number}")).await.unwrap();
        let mut reader = Reader::new(&handle);
        reader.until_seq(Seq(4)).await;
        sessions.push((handle, reader));
    }
    hub.stop().await;
    for (handle, mut reader) in sessions {
        assert!(handle.is_stopped());
        assert_eq!(reader.to_end().await.len(), 4, "stopping adds no event");
        let log = client::log(&**hub.store(), handle.id()).await;
        assert_eq!(log.len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn agents_that_do_not_stop_delay_the_hub_concurrently() {
    let agent = ScriptAgent::doing([Act::note("running"), Act::WaitFor(Gate::default())]);
    let hub = client::memory_hub(agent.clone());
    for number in 0..20 {
        let handle = client::create(&hub).await;
        client::prompt(&handle, &format!("{number}")).await.unwrap();
        agent.test_log().until(&format!("turn {number} starts")).await;
    }
    let started = tokio::time::Instant::now();
    hub.stop().await;
    let waited = started.elapsed();
    assert!((5..6).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_the_project_outlives_its_session() {
    let hub = client::memory_hub(ScriptAgent::idle());
    let handle = client::create(&hub).await;
    let rule = |id: &str, scope| Rule {
        id: RuleId::from(id),
        matcher: Matcher::Edits,
        allow: true,
        scope,
        directory: None,
        principal: None,
    };
    for rule in [rule("project", RuleLifetime::Project), rule("session", RuleLifetime::Session)] {
        let command = Command::Amend { amendment: Amendment::Added { rule } };
        handle.submit(command, client::origin("tester")).await.unwrap();
    }
    let store = hub.store();
    let rules = project_rules(&**store, "/workspace").await.unwrap();
    assert_eq!(rules, [rule("project", RuleLifetime::Project)]);
    assert_eq!(project_rules(&**store, "/work").await, Ok(Vec::new()), "another workspace");
    let amendment = Amendment::Revoked { rule: RuleId::from("project") };
    handle.submit(Command::Amend { amendment }, client::origin("tester")).await.unwrap();
    assert_eq!(project_rules(&**store, "/workspace").await, Ok(Vec::new()));
    forget_rule(&**store, "/workspace", "never there").await.unwrap();
}

/// Knows only the principals it names.
struct Only(std::sync::Mutex<Vec<&'static str>>);

impl Principals for Only {
    fn knows<'a>(&'a self, principal: &'a str) -> futures::future::BoxFuture<'a, bool> {
        let known = self.0.lock().unwrap().contains(&principal);
        Box::pin(std::future::ready(known))
    }
}

/// A rule ends with the principal that granted it, and when the project forgets it. An open session revokes it before
/// its next call.
#[tokio::test(start_paused = true)]
async fn a_rule_that_was_revoked_elsewhere_allows_nothing() {
    let principals = Arc::new(Only(std::sync::Mutex::new(vec!["client:ann~1"])));
    let run = |command: &str| vec![Act::execute(command), Act::succeed("done")];
    let scripts = [run("one"), run("two"), run("one"), run("two")];
    let agent = ScriptAgent::new(TestLog::default(), scripts);
    let hub = client::memory_hub(agent).with_principals(principals.clone());
    let handle = client::create(&hub).await;
    let ann = Origin { principal: Some("client:ann~1".into()), ..client::origin("ann") };
    let rule = |command: &str, scope| Rule {
        id: RuleId::from(command),
        matcher: Matcher::Command(loggia_shell::parse_pattern(command).unwrap()),
        allow: true,
        scope,
        directory: None,
        principal: None,
    };
    for (rule, by) in [
        (rule("one", RuleLifetime::Session), ann.clone()),
        (rule("two", RuleLifetime::Project), client::origin("tester")),
    ] {
        let command = Command::Amend { amendment: Amendment::Added { rule } };
        handle.submit(command, by).await.unwrap();
    }
    let mut reader = Reader::new(&handle);
    for prompt in ["first", "second"] {
        let (prompt, content) = (PromptId::from(prompt), Content::text("go"));
        let command = Command::Prompt { prompt, task: TaskChoice::New, content };
        handle.submit(command, ann.clone()).await.unwrap();
        reader.until_over().await;
    }
    principals.0.lock().unwrap().clear();
    forget_rule(&**hub.store(), "/workspace", "two").await.unwrap();
    let (prompt, content) = (PromptId::from("third"), Content::text("go"));
    let command = Command::Prompt { prompt, task: TaskChoice::New, content };
    handle.submit(command, ann.clone()).await.unwrap();
    reader.until_asked().await;
    let left = handle.inspect(|session| session.policy().rules.len()).await.unwrap();
    assert_eq!(left, 0, "both were revoked");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_never_opened_refuses_prompts() {
    let store = Arc::new(MemoryStore::default());
    let session = SessionId::from("empty");
    drop(store.acquire(&session, owner("crashed before its first event")).await.unwrap());
    let hub = client::hub(store, ScriptAgent::idle());
    let handle = hub.open(&session).await.unwrap();
    let refused = client::prompt(&handle, "go").await;
    assert_eq!(refused, Err(loggia_core::Refusal::NotOpen.into()));
}

#[tokio::test(start_paused = true)]
async fn a_session_begins_with_its_first_command_in_one_append() {
    let store = FaultyStore::new(Arc::new(MemoryStore::default()), TestLog::default());
    let hub = client::hub(store.clone(), ScriptAgent::doing([Act::WaitForCancel]));
    let new = || NewSession {
        workspace: Workspace::Local { path: "/workspace".into() },
        settings: client::settings(Mode::Ask),
        agent: AgentName("script".into()),
    };
    let handle = hub.begin(new(), client::origin("tester")).await.unwrap();
    assert_eq!((handle.head(), store.begun()), (Seq::ZERO, 0), "nothing is written yet");
    assert_eq!(hub.list(10).await, Ok(Vec::new()));
    let again = hub.open(handle.id()).await.unwrap();
    let ack = client::prompt(&again, "go").await.unwrap();
    assert_eq!((ack.after, ack.seq, store.begun()), (Seq(1), Seq(3), 1));
    assert_eq!(hub.list(10).await.unwrap().len(), 1);
    // An inspection opens it, too.
    let handle = hub.begin(new(), client::origin("tester")).await.unwrap();
    assert!(handle.inspect(|session| session.opened().is_some()).await.unwrap());
    assert_eq!(handle.head(), Seq(1));
    // If the append fails, the session does not exist and the caller gets the error.
    let handle = hub.begin(new(), client::origin("tester")).await.unwrap();
    store.next(Fault::Fail(StoreError::Full { file: "loggia.db".into() }));
    assert!(client::prompt(&handle, "go").await.is_err());
    assert_eq!(store.head(handle.id()).await, Ok(Some(Seq::ZERO)));
}
