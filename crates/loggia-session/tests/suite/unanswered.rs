//! Questions that time out, with a running actor. Time is paused: it advances when all tasks wait.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    AgentName, ApprovalId, CallOutcome, Command, Envelope, Event, Mode, OnTimeout, Origin, Refusal,
    Seconds, Settings, Timeout, TurnOutcome, Workspace,
};
use loggia_session::{Hub, NewSession, SessionHandle, Store, SubmitError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::store_contract::{owner, step};
use loggia_testkit::{Act, ScriptAgent};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

fn asking() -> Arc<ScriptAgent> {
    ScriptAgent::doing([Act::execute("make"), Act::succeed("built"), Act::say("and on")])
}

fn within(seconds: u64, then: OnTimeout) -> Settings {
    let timeout = Some(Timeout { after: Seconds(seconds), then });
    Settings { timeout, ..client::settings(Mode::Ask) }
}

async fn create(hub: &Hub, settings: Settings) -> SessionHandle {
    let workspace = Workspace::Local { path: "/workspace".into() };
    let new = NewSession { workspace, settings, agent: AgentName("script".into()) };
    hub.create(new, client::origin("tester")).await.unwrap()
}

async fn asked(handle: &SessionHandle) -> (Reader, ApprovalId) {
    client::prompt(handle, "go").await.unwrap();
    let mut reader = Reader::new(handle);
    let approval = reader.until_asked().await;
    (reader, approval)
}

async fn until_answered(reader: &mut Reader) -> Arc<Envelope> {
    reader.until(|event| matches!(event, Event::ApprovalAnswered { .. })).await
}

fn reasons(reader: &Reader) -> Vec<String> {
    let reason = |envelope: &Arc<Envelope>| match &envelope.event {
        Event::CallEnded { outcome: CallOutcome::Cancelled { reason }, .. } => Some(reason.clone()),
        _ => None,
    };
    reader.seen().iter().filter_map(reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_question_is_refused_when_it_times_out_and_the_agent_continues() {
    let agent = asking();
    let hub = client::memory_hub(agent.clone());
    let handle = create(&hub, within(5, OnTimeout::Deny)).await;
    let (mut reader, approval) = asked(&handle).await;
    let began = Instant::now();
    let answered = until_answered(&mut reader).await;
    // The wall clock is not paused, and counts until the actor has seen the question.
    let waited = began.elapsed();
    assert!((SECOND..=5 * SECOND + Duration::from_millis(1)).contains(&waited), "{waited:?}");
    assert_eq!(answered.origin, Origin::timeout());
    let refused = TurnOutcome::refused("make was refused: no answer within 5s");
    assert_eq!(reader.until_over().await, refused);
    assert_eq!(reasons(&reader), ["no answer within 5s"]);
    assert!(agent.test_log().has("refused make"), "\n{}", agent.test_log());
    let late = client::answer(&handle, &approval, "proceed_once").await;
    let Err(SubmitError::Refused(Refusal::AlreadyAnswered { by, .. })) = late else {
        panic!("{late:?}")
    };
    assert_eq!(by.to_string(), "the time-out");
}

#[tokio::test(start_paused = true)]
async fn the_turn_is_cancelled_and_the_next_prompt_runs() {
    let hub = client::memory_hub(asking());
    let handle = create(&hub, within(5, OnTimeout::Cancel)).await;
    let (mut reader, _) = asked(&handle).await;
    client::prompt(&handle, "next").await.unwrap();
    assert_eq!(reader.until_over().await, TurnOutcome::Cancelled);
    assert_eq!(reasons(&reader), ["no answer within 5s"]);
    reader.until_asked().await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_answered_does_not_time_out() {
    let hub = client::memory_hub(asking());
    let handle = create(&hub, within(5, OnTimeout::Deny)).await;
    let (mut reader, approval) = asked(&handle).await;
    sleep(4 * SECOND).await;
    client::answer(&handle, &approval, "proceed_once").await.unwrap();
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    sleep(10 * SECOND).await;
    let log = client::log(&**hub.store(), handle.id()).await;
    let by_time_out = log.iter().filter(|envelope| envelope.origin == Origin::timeout());
    assert_eq!(by_time_out.count(), 0);
}

/// Without a timeout, or with one whose action is to wait, a question stays open.
#[tokio::test(start_paused = true)]
async fn a_question_may_wait() {
    let forever = client::settings(Mode::Ask);
    for settings in [forever, within(5, OnTimeout::Wait)] {
        let hub = client::memory_hub(asking());
        let handle = create(&hub, settings).await;
        let (mut reader, approval) = asked(&handle).await;
        sleep(3_600 * SECOND).await;
        client::answer(&handle, &approval, "proceed_once").await.unwrap();
        assert_eq!(until_answered(&mut reader).await.origin, client::origin("tester"));
        assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_policy_applies_to_open_questions() {
    let hub = client::memory_hub(asking());
    let handle = create(&hub, client::settings(Mode::Ask)).await;
    let (mut reader, _) = asked(&handle).await;
    sleep(60 * SECOND).await;
    let settings = within(5, OnTimeout::Deny);
    handle.submit(Command::Configure { settings }, client::origin("tester")).await.unwrap();
    assert_eq!(until_answered(&mut reader).await.origin, Origin::timeout());
}

/// The log of a session with an open question, with all times an hour earlier.
async fn left_an_hour_ago(settings: Settings) -> Vec<Arc<Envelope>> {
    let hub = client::memory_hub(asking());
    let handle = create(&hub, settings).await;
    asked(&handle).await;
    let log = client::log(&**hub.store(), handle.id()).await;
    let earlier = |envelope: &Arc<Envelope>| {
        let mut envelope = (**envelope).clone();
        envelope.at.0 -= 3_600_000;
        Arc::new(envelope)
    };
    log.iter().map(earlier).collect()
}

/// Opens the session of an owner that died an hour ago.
async fn reopened(directory: &std::path::Path, settings: Settings) -> (Hub, SessionHandle) {
    let store = client::sqlite(directory);
    let id = "left".into();
    let log = left_an_hour_ago(settings).await;
    let lease = store.acquire(&id, owner("who died")).await.unwrap();
    store.append(&lease, step(log)).await.unwrap();
    drop(lease);
    let hub = client::hub(store, asking());
    let handle = hub.open(&id).await.unwrap();
    (hub, handle)
}

/// The question had ten minutes. An opening an hour later does not wait for another ten.
#[tokio::test]
async fn a_question_that_expired_while_closed_is_answered_at_the_opening() {
    let directory = client::directory();
    let (hub, handle) = reopened(directory.path(), within(600, OnTimeout::Deny)).await;
    let mut reader = Reader::new(&handle);
    assert_eq!(until_answered(&mut reader).await.origin, Origin::timeout());
    let refused = TurnOutcome::refused("make was refused: no answer within 10m");
    assert_eq!(reader.until_over().await, refused);
    assert_eq!(reasons(&reader), ["no answer within 10m"]);
    hub.stop().await;
    let kept = client::log(&*client::sqlite(directory.path()), &"left".into()).await;
    assert_eq!(kept, reader.seen(), "it stays answered");
}

#[tokio::test]
async fn a_question_with_time_left_is_open_again() {
    let directory = client::directory();
    let (_hub, handle) = reopened(directory.path(), within(7_200, OnTimeout::Deny)).await;
    let mut reader = Reader::new(&handle);
    let approval = reader.until_asked().await;
    client::answer(&handle, &approval, "proceed_once").await.unwrap();
    assert_eq!(until_answered(&mut reader).await.origin, client::origin("tester"));
}
