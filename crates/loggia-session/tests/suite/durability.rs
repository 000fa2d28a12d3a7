//! A prompt, its turn and the store: no event is visible before it is durable, nothing runs before its prompt is
//! durable, and the log after a failure is a prefix of the log without it.
//!
//! Time is paused: a sleep returns when all other tasks wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use loggia_core::{AgentName, Envelope, Event, Mode, Seq, TurnOutcome, Workspace};
use loggia_session::{Hub, MemoryStore, NewSession, SessionHandle, StoreError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::{Act, Fault, FaultyStore, Gate, ScriptAgent, TestLog};
use proptest::prelude::*;
use serde_json::Value;

struct Stage {
    test_log: TestLog,
    memory: Arc<MemoryStore>,
    store: Arc<FaultyStore>,
    hub: Hub,
}

/// Every turn follows the same script.
fn stage(acts: Vec<Act>) -> Stage {
    let (test_log, memory) = (TestLog::default(), Arc::new(MemoryStore::default()));
    let store = FaultyStore::new(memory.clone(), test_log.clone());
    let agent = ScriptAgent::new(test_log.clone(), [acts]);
    let hub = client::hub(store.clone(), agent);
    Stage { test_log, memory, store, hub }
}

async fn begin(hub: &Hub) -> SessionHandle {
    let new = NewSession {
        workspace: Workspace::Local { path: "/workspace".into() },
        settings: client::settings(Mode::All),
        agent: AgentName("script".into()),
    };
    hub.begin(new, client::origin("tester")).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_acknowledged_when_it_is_durable() {
    let Stage { store, hub, .. } = stage(vec![Act::say("one"), Act::say("two")]);
    let gate = Gate::default();
    store.at(2, Fault::Hold(gate.clone()));
    let handle = begin(&hub).await;
    let ack = client::prompt(&handle, "go").await.unwrap();
    store.until_begun(2).await;
    assert_eq!((ack.seq, handle.head()), (Seq(3), Seq(3)), "the turn's first append hangs");
    gate.open();
    assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
    assert_eq!(handle.head(), Seq(5), "opened, accepted, started, said, ended");
}

#[tokio::test(start_paused = true)]
async fn no_event_is_visible_before_it_is_durable() {
    let Stage { store, hub, .. } = stage(vec![Act::say("one")]);
    let gate = Gate::default();
    store.at(1, Fault::Hold(gate.clone()));
    let handle = begin(&hub).await;
    let mut reader = Reader::new(&handle);
    let prompting = tokio::spawn({
        let handle = handle.clone();
        async move { client::prompt(&handle, "go").await }
    });
    store.until_begun(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(handle.head(), Seq::ZERO);
    assert!(!prompting.is_finished(), "it is not durable");
    gate.open();
    assert_eq!(prompting.await.unwrap().unwrap().seq, Seq(3));
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_turn_starts_when_its_prompt_is_durable() {
    let acts = [
        vec![Act::say("one"), Act::note("acts")],
        vec![Act::execute("acts"), Act::note("acts"), Act::succeed("")],
        vec![Act::Pause, Act::note("acts")],
    ];
    for acts in acts {
        let Stage { test_log, store, hub, .. } = stage(acts);
        let gate = Gate::default();
        store.at(1, Fault::Hold(gate.clone()));
        let handle = begin(&hub).await;
        let prompting = tokio::spawn({
            let handle = handle.clone();
            async move { client::prompt(&handle, "go").await }
        });
        store.until_begun(1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!test_log.has("turn go starts") && !test_log.has("acts"), "{test_log}");
        gate.open();
        prompting.await.unwrap().unwrap();
        assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
        assert!(test_log.position("durable 3") < test_log.position("turn go starts"), "{test_log}");
        assert!(test_log.position("durable 3") < test_log.position("acts"), "{test_log}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_was_not_written_has_no_effect() {
    let Stage { test_log, memory, store, hub } = stage(vec![Act::say("one")]);
    let handle = client::create(&hub).await;
    let full = StoreError::Full { file: "loggia.db".into() };
    store.next(Fault::Fail(full.clone()));
    assert_eq!(client::prompt(&handle, "go").await, Err(full.into()));
    let handle = hub.open(handle.id()).await.unwrap();
    assert_eq!(handle.head(), Seq(1));
    assert!(!test_log.has("turn go starts"), "{test_log}");
    client::prompt(&handle, "go").await.unwrap();
    assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
    assert_eq!(client::log(&*memory, handle.id()).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_step_and_its_turn_continue_when_the_caller_is_gone() {
    for acts in [vec![Act::say("one")], vec![Act::Pause, Act::say("one")]] {
        let Stage { store, hub, .. } = stage(acts);
        let gate = Gate::default();
        store.at(1, Fault::Hold(gate.clone()));
        let handle = begin(&hub).await;
        let mut prompting = Box::pin(client::prompt(&handle, "go"));
        assert!(futures::poll!(&mut prompting).is_pending());
        drop(prompting);
        gate.open();
        assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
    }
}

/// The events without their times, with each id replaced by a number. Texts are split into letters, because which
/// pieces of a stream are joined into one event depends on timing.
fn plain(log: &[Arc<Envelope>]) -> Vec<Value> {
    fn rename(value: &mut Value, names: &mut HashMap<String, usize>) {
        match value {
            Value::String(text) if uuid::Uuid::try_parse(text).is_ok() => {
                let next = names.len();
                let name = *names.entry(text.clone()).or_insert(next);
                *text = format!("id {name}");
            }
            Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
            Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, names)),
            _ => {}
        }
    }
    let mut names = HashMap::new();
    let mut plain = Vec::new();
    for event in log.iter().flat_map(|envelope| letters(&envelope.event)) {
        let mut value = serde_json::to_value(event).unwrap();
        rename(&mut value, &mut names);
        plain.push(value);
    }
    plain
}

fn letters(event: &Event) -> Vec<Event> {
    match event {
        Event::TextAppended { turn, message, text } => {
            let letter = |letter: char| Event::TextAppended {
                turn: turn.clone(),
                message: message.clone(),
                text: letter.to_string(),
            };
            text.chars().map(letter).collect()
        }
        Event::ThoughtAppended { turn, message, subject, text } => {
            let letter = |letter: char| Event::ThoughtAppended {
                turn: turn.clone(),
                message: message.clone(),
                subject: subject.clone(),
                text: letter.to_string(),
            };
            text.chars().map(letter).collect()
        }
        other => vec![other.clone()],
    }
}

async fn turn(handle: &SessionHandle, text: &str) -> bool {
    let Ok(ack) = client::prompt(handle, text).await else { return false };
    let mut follower = handle.follow(ack.after);
    while let Ok(Some(events)) = follower.next().await {
        if events.iter().any(|envelope| matches!(envelope.event, Event::TurnEnded { .. })) {
            return true;
        }
    }
    false
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => "[a-z]{1,6}".prop_map(Act::say),
        1 => "[a-z]{1,6}".prop_map(|text| Act::Think("why".into(), text)),
        1 => (1..5_usize).prop_map(Act::Flood),
        1 => Just(Act::Pause),
        1 => Just(Act::note("acted")),
        1 => Just(Act::execute("make")),
        1 => Just(Act::succeed("made")),
        1 => Just(Act::Fail("no more".into())),
        1 => Just(Act::Panic("oh".into())),
    ];
    proptest::collection::vec(act, 0..8)
}

/// Runs two turns, with a fault at one append or none. Returns the log, and the events that a reader saw.
async fn run_two_turns(
    acts: Vec<Act>,
    plan: impl FnOnce(&FaultyStore),
) -> (Vec<Arc<Envelope>>, Vec<Arc<Envelope>>) {
    let Stage { memory, store, hub, .. } = stage(acts);
    let mut handle = client::create_in(&hub, Mode::All).await;
    plan(&store);
    let mut reader = Reader::new(&handle);
    let mut seen = Vec::new();
    for text in ["first", "second"] {
        if !turn(&handle, text).await {
            seen = reader.to_end().await.to_vec();
            handle = hub.open(handle.id()).await.unwrap();
            break;
        }
    }
    // Recovery is done when the session can be inspected.
    handle.inspect(|_| ()).await.unwrap();
    (client::log(&*memory, handle.id()).await, seen)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_does_not_depend_on_how_slow_the_store_is(acts in acts(), millis in 1..50_u64) {
        runtime().block_on(async {
            let delay = Fault::Delay(Duration::from_millis(millis));
            let (fast, _) = run_two_turns(acts.clone(), |_| ()).await;
            let (slow, _) = run_two_turns(acts, |store| store.always(Some(delay))).await;
            assert_eq!(plain(&fast), plain(&slow));
        });
    }

    /// Wherever the store fails, the log contains every event that a reader saw. It is a prefix of the log without
    /// the failure, and recovery ends a turn that was cut.
    #[test]
    fn the_log_after_a_failure_is_a_prefix_that_recovery_ends(
        acts in acts(), append in 2..9_u64, written in any::<bool>(),
    ) {
        runtime().block_on(async {
            let full = StoreError::Full { file: "loggia.db".into() };
            let fault = if written { Fault::FailAfter(full) } else { Fault::Fail(full) };
            let (whole, _) = run_two_turns(acts.clone(), |_| ()).await;
            let (left, seen) = run_two_turns(acts, |store| store.at(append, fault)).await;
            client::assert_dense(&left, 1);
            assert!(left.starts_with(&seen), "a reader saw an event that is not in the log");
            let (whole, plainly) = (plain(&whole), plain(&left));
            let same = whole.iter().zip(&plainly).take_while(|(a, b)| a == b).count();
            let recovery = |event: &Event| match event {
                Event::TurnEnded { outcome: TurnOutcome::Failed { message, .. }, .. } => {
                    message.starts_with("storage-full: ")
                }
                Event::TurnEnded { outcome, .. } => *outcome == TurnOutcome::Interrupted,
                Event::CallEnded { .. } => true,
                _ => false,
            };
            let added: Vec<Event> =
                left.iter().flat_map(|envelope| letters(&envelope.event)).skip(same).collect();
            assert!(added.iter().all(recovery), "{added:?}: {}", client::transcript(&left));
            let count = |fits: fn(&Event) -> bool| left.iter().filter(|e| fits(&e.event)).count();
            let started = count(|event| matches!(event, Event::TurnStarted { .. }));
            let ended = count(|event| matches!(event, Event::TurnEnded { .. }));
            assert_eq!(started, ended, "{}", client::transcript(&left));
        });
    }
}
