//! The store fails at every append and in every way. Callers get the error, readers end, the hub opens the session
//! again, and every acknowledged event is in the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use loggia_core::{
    CallFailure, CallOutcome, Envelope, Event, Level, Mode, Seq, SessionId, TurnOutcome,
};
use loggia_session::{Hub, MemoryStore, SessionHandle, StoreError, SubmitError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::{Act, Fault, FaultyStore, ScriptAgent, TestLog};

fn full() -> StoreError {
    StoreError::Full { file: "loggia.db".into() }
}

/// The replies that a client got and the events it saw, over all attempts.
#[derive(Default)]
struct Observed {
    acked: BTreeSet<Seq>,
    seen: Vec<Vec<Arc<Envelope>>>,
}

/// Prompts, answers questions, and reads to the end of the turn.
async fn attempt(
    handle: &SessionHandle,
    observed: &mut Observed,
) -> Result<TurnOutcome, SubmitError> {
    observed.seen.push(Vec::new());
    observed.acked.insert(client::prompt(handle, "go").await?.seq);
    let mut follower = handle.follow(Seq::ZERO);
    while let Some(events) = follower.next().await? {
        observed.seen.last_mut().unwrap().extend(events.iter().cloned());
        for envelope in events {
            match &envelope.event {
                Event::ApprovalAsked { approval, .. } => {
                    match client::answer(handle, approval, "proceed_once").await {
                        Ok(ack) => _ = observed.acked.insert(ack.seq),
                        Err(SubmitError::Refused(_)) => {} // of an earlier attempt
                        Err(error) => return Err(error),
                    }
                }
                Event::TurnEnded { outcome, .. } => return Ok(outcome.clone()),
                _ => {}
            }
        }
    }
    Err(SubmitError::Stopped)
}

async fn create(hub: &Hub) -> SessionHandle {
    let new = || loggia_session::NewSession {
        workspace: loggia_core::Workspace::Local { path: "/workspace".into() },
        settings: client::settings(Mode::Ask),
        agent: loggia_core::AgentName("script".into()),
    };
    match hub.create(new(), client::origin("tester")).await {
        Ok(handle) => handle,
        Err(_) => hub.create(new(), client::origin("tester")).await.expect("one fault only"),
    }
}

/// One turn with one question, one call and one append that fails. Returns whether that append was reached.
async fn check(fault: &Fault, name: &str, append: u64) -> bool {
    let what = format!("{name} at append {append}");
    let test_log = TestLog::default();
    let memory = Arc::new(MemoryStore::default());
    let store = FaultyStore::new(memory.clone(), test_log.clone());
    store.at(append, fault.clone());
    let script = vec![
        Act::say("let me see"),
        Act::execute("make"),
        Act::output("compiling"),
        Act::succeed("built"),
        Act::say("done"),
    ];
    let hub = client::hub(store.clone(), ScriptAgent::new(test_log.clone(), [script]));
    let id = create(&hub).await.id().clone();
    let mut observed = Observed::default();
    let mut outcome = None;
    for _ in 0..3 {
        let handle = hub.open(&id).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        match attempt(&handle, &mut observed).await {
            Ok(ended) => {
                outcome = Some(ended);
                break;
            }
            Err(SubmitError::Store(_) | SubmitError::Stopped) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
    assert!(outcome.is_some(), "{what}: the turn never ended:\n{test_log}");
    hub.stop().await;

    let log = client::log(&*memory, &id).await;
    client::assert_dense(&log, 1);
    for seen in &observed.seen {
        assert!(log.starts_with(seen), "{what}: a client saw an event that is not in the log");
    }
    assert!(observed.acked.iter().all(|seq| seq.0 <= log.len() as u64), "{what}: an ack was lost");
    let count = |fits: &dyn Fn(&Event) -> bool| log.iter().filter(|e| fits(&e.event)).count();
    assert_eq!(count(&|event| matches!(event, Event::PromptAccepted { .. })), 1, "{what}");
    assert_eq!(count(&|event| matches!(event, Event::TurnEnded { .. })), 1, "{what}");
    assert!(count(&|event| matches!(event, Event::CallStarted { .. })) <= 1, "{what}");
    let permits = test_log.notes().iter().filter(|note| *note == "permit make").count();
    assert!(permits <= 1, "{what}: the call ran twice");
    store.begun() >= append
}

async fn check_everywhere(fault: Fault, name: &str) {
    let mut append = 1;
    while check(&fault, name, append).await {
        append += 1;
    }
    assert!(append > 5, "{name}: only {append} appends were tried");
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails() {
    check_everywhere(Fault::Fail(full()), "fails").await;
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails_after_it_has_written() {
    check_everywhere(Fault::FailAfter(full()), "fails after writing").await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost() {
    check_everywhere(Fault::LoseLease, "loses the lease").await;
}

#[tokio::test(start_paused = true)]
async fn an_append_that_panics() {
    check_everywhere(Fault::Panic, "panics").await;
}

async fn open_session(script: Vec<Act>) -> (TestLog, Arc<FaultyStore>, Hub, SessionHandle) {
    let test_log = TestLog::default();
    let store = FaultyStore::new(Arc::new(MemoryStore::default()), test_log.clone());
    let agent = ScriptAgent::new(test_log.clone(), [script, vec![]]);
    let hub = client::hub(store.clone(), agent);
    let handle = client::create_in(&hub, Mode::All).await;
    (test_log, store, hub, handle)
}

fn notice() -> loggia_core::Command {
    loggia_core::Command::Notice { level: Level::Info, text: "note".into() }
}

#[tokio::test(start_paused = true)]
async fn every_caller_of_a_failed_step_gets_the_store_error_and_readers_end() {
    let (_, store, hub, handle) = open_session(vec![]).await;
    let mut reader = Reader::new(&handle);
    let gate = loggia_testkit::Gate::default();
    let held = store.next(Fault::Hold(gate.clone()));
    store.at(held + 1, Fault::Fail(full()));
    let submit = || {
        let handle = handle.clone();
        tokio::spawn(async move { handle.submit(notice(), client::origin("tester")).await })
    };
    let first = submit();
    store.until_begun(held).await;
    let rest: Vec<_> = (0..10).map(|_| submit()).collect();
    tokio::task::yield_now().await;
    gate.open();
    assert_eq!(first.await.unwrap().unwrap().seq, Seq(2));
    for submitted in rest {
        assert_eq!(submitted.await.unwrap(), Err(SubmitError::Store(full())));
    }
    // Later callers get the reason, too.
    let later = handle.submit(notice(), client::origin("tester")).await;
    assert_eq!(later, Err(SubmitError::Store(full())));
    assert_eq!(reader.to_end().await.len(), 2);

    let again = hub.open(handle.id()).await.expect("opened again at once");
    assert_eq!(again.head(), Seq(2));
    assert_eq!(again.submit(notice(), client::origin("tester")).await.unwrap().seq, Seq(3));
    assert!(handle.is_stopped(), "the old handle stays stopped");
}

/// The store fails while a tool runs. The tool is stopped before the session can be opened again. Returns the outcome
/// of the turn.
async fn break_while_a_tool_runs(fault: Fault) -> TurnOutcome {
    let script = vec![
        Act::execute("make"),
        Act::note("running"),
        Act::WaitForCancel,
        Act::note("tool stopped"),
    ];
    let (test_log, store, hub, handle) = open_session(script).await;
    client::prompt(&handle, "go").await.unwrap();
    test_log.until("running").await;
    store.next(fault);
    let told = handle.submit(notice(), client::origin("tester")).await;
    assert!(matches!(told, Err(SubmitError::Store(_) | SubmitError::Stopped)), "{told:?}");
    let handle = hub.open(handle.id()).await.expect("opened again");
    test_log.until("tool stopped").await;
    let mut reader = Reader::new(&handle);
    let ended = reader.until(|event| matches!(event, Event::CallEnded { .. })).await;
    let Event::CallEnded { outcome, .. } = &ended.event else { panic!("{ended:?}") };
    assert_eq!(*outcome, CallOutcome::Failed { failure: CallFailure::interrupted() });
    let outcome = reader.until_over().await;
    client::prompt(&handle, "next").await.unwrap();
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    outcome
}

#[tokio::test(start_paused = true)]
async fn a_failed_append_stops_the_running_tool() {
    let outcome = break_while_a_tool_runs(Fault::Fail(full())).await;
    let TurnOutcome::Failed { message, .. } = outcome else { panic!("{outcome:?}") };
    assert!(message.starts_with("storage-full: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_actor_stops_the_running_tool() {
    assert_eq!(break_while_a_tool_runs(Fault::Panic).await, TurnOutcome::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_failed_session_does_not_affect_others() {
    let (_, store, hub, failed) = open_session(vec![]).await;
    let other = client::create(&hub).await;
    store.next(Fault::Panic);
    assert!(failed.submit(notice(), client::origin("tester")).await.is_err());
    other.submit(notice(), client::origin("tester")).await.expect("not affected");
    assert!(!other.is_stopped());
    let unknown = SessionId::from("unknown");
    let Err(error) = hub.open(&unknown).await else { panic!("it does not exist") };
    assert_eq!(error, StoreError::Unknown(unknown).into());
}
