//! A turn that waits for nothing is one append with its prompt, where its outcome is waited for: the
//! same log as in two, nothing visible before all of it is on disk, and nothing done before the
//! prompt is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use loggia_core::{AgentName, Command, Content, Envelope, Event, Mode, PromptId, Seq, TaskChoice};
use loggia_core::{TurnOutcome, Workspace};
use loggia_session::{
    Ack, Agent, Hub, MemoryStore, NewSession, SessionHandle, StoreError, SubmitError,
};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::{Act, Fault, FaultyStore, Gate, Journal, ScriptAgent};
use proptest::prelude::*;
use serde_json::Value;

struct Stage {
    journal: Journal,
    memory: Arc<MemoryStore>,
    store: Arc<FaultyStore>,
    hub: Hub,
}

/// Every turn does the same, ahead of the log where it may.
fn stage(ahead: bool, acts: Vec<Act>) -> Stage {
    let (journal, memory) = (Journal::default(), Arc::new(MemoryStore::default()));
    let store = FaultyStore::new(memory.clone(), journal.clone());
    let agent = ScriptAgent::new(journal.clone(), [acts]);
    let agent: Arc<dyn Agent> = if ahead { agent.looking_ahead() } else { agent };
    let hub = client::hub(store.clone(), agent);
    Stage { journal, memory, store, hub }
}

async fn begin(hub: &Hub) -> SessionHandle {
    let new = NewSession {
        workspace: Workspace::Local { path: "/workspace".into() },
        settings: client::settings(Mode::All),
        agent: AgentName("script".into()),
    };
    hub.begin(new, client::origin("tester")).await.unwrap()
}

/// Prompts, and waits for the outcome.
async fn settle(handle: &SessionHandle, text: &str) -> Result<Ack, SubmitError> {
    let (prompt, content) = (PromptId::from(text), Content::text(text));
    let command = Command::Prompt { prompt, task: TaskChoice::New, content };
    handle.submit_until_settled(Duration::ZERO, command, client::origin("tester")).await
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_the_prompt_alone_is_told_when_that_is_on_disk() {
    let Stage { store, hub, .. } = stage(true, vec![Act::say("one"), Act::say("two")]);
    let handle = begin(&hub).await;
    let ack = client::prompt(&handle, "go").await.unwrap();
    assert_eq!((ack.seq, handle.head(), store.begun()), (Seq(3), Seq(3), 1));
    assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
    assert_eq!(store.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_and_its_outcome_are_one_append() {
    for (ahead, appends) in [(true, 1), (false, 2)] {
        let Stage { store, hub, .. } = stage(ahead, vec![Act::say("one"), Act::say("two")]);
        let handle = begin(&hub).await;
        settle(&handle, "go").await.unwrap();
        assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
        assert_eq!(store.begun(), appends);
        assert_eq!(handle.head(), Seq(5), "opened, accepted, started, said, ended");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_sees_any_of_it_before_all_of_it_is_on_disk() {
    let Stage { store, hub, .. } = stage(true, vec![Act::say("one")]);
    let gate = Gate::default();
    store.at(1, Fault::Hold(gate.clone()));
    let handle = begin(&hub).await;
    let mut reader = Reader::new(&handle);
    let told = tokio::spawn({
        let handle = handle.clone();
        async move { settle(&handle, "go").await }
    });
    store.until_begun(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(handle.head(), Seq::ZERO);
    assert!(!told.is_finished(), "it is not on disk");
    gate.open();
    assert_eq!(told.await.unwrap().unwrap().seq, Seq(3));
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_to_act_waits_for_the_prompt() {
    let acts = [
        vec![Act::say("one"), Act::NoteOnDisk("acts".into())],
        vec![Act::execute("acts"), Act::note("acts"), Act::succeed("")],
        vec![Act::Pause, Act::note("acts")],
    ];
    for acts in acts {
        let Stage { journal, store, hub, .. } = stage(true, acts);
        let gate = Gate::default();
        store.at(1, Fault::Hold(gate.clone()));
        let handle = begin(&hub).await;
        let prompting = tokio::spawn({
            let handle = handle.clone();
            async move { settle(&handle, "go").await }
        });
        store.until_begun(1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(journal.has("turn go starts") && !journal.has("acts"), "{journal}");
        gate.open();
        prompting.await.unwrap().unwrap();
        assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
        assert!(journal.place("durable 3") < journal.place("acts"), "{journal}");
    }
}

/// What was computed for a prompt that never came to disk is forgotten with it.
#[tokio::test(start_paused = true)]
async fn what_is_not_on_disk_never_was() {
    let Stage { memory, store, hub, .. } = stage(true, vec![Act::say("one")]);
    let handle = client::create(&hub).await;
    let full = StoreError::Full { file: "loggia.db".into() };
    store.next(Fault::Fail(full.clone()));
    assert_eq!(settle(&handle, "go").await, Err(full.into()));
    let handle = hub.open(handle.id()).await.unwrap();
    assert_eq!(handle.head(), Seq(1));
    settle(&handle, "go").await.unwrap();
    assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
    assert_eq!(client::log(&*memory, handle.id()).await.len(), 5);
}

/// A caller that leaves while the step is done: it goes on, and the turn behind it too.
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_takes_nothing_with_it() {
    for acts in [vec![Act::say("one")], vec![Act::Pause, Act::say("one")]] {
        let Stage { store, hub, .. } = stage(true, acts);
        let gate = Gate::default();
        store.at(1, Fault::Hold(gate.clone()));
        let handle = begin(&hub).await;
        let mut prompting = Box::pin(settle(&handle, "go"));
        assert!(futures::poll!(&mut prompting).is_pending());
        drop(prompting);
        gate.open();
        assert_eq!(Reader::new(&handle).until_over().await, TurnOutcome::Completed);
    }
}

/// The events without their times, and every id by its first appearance. Text comes letter by letter:
/// which pieces of a stream become one event depends on who is faster.
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
    let Ok(ack) = settle(handle, text).await else { return false };
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
        1 => Just(Act::NoteOnDisk("acted".into())),
        1 => Just(Act::execute("make")),
        1 => Just(Act::succeed("made")),
        1 => Just(Act::Fail("no more".into())),
        1 => Just(Act::Panic("oh".into())),
    ];
    proptest::collection::vec(act, 0..8)
}

/// Two turns, with one append that goes wrong or none: the log, and what was seen of it.
async fn play(
    ahead: bool,
    acts: Vec<Act>,
    fault: Option<(u64, bool)>,
) -> (Vec<Arc<Envelope>>, Vec<Arc<Envelope>>, u64) {
    let Stage { memory, store, hub, .. } = stage(ahead, acts);
    let mut handle = client::create_in(&hub, Mode::All).await;
    let full = StoreError::Full { file: "loggia.db".into() };
    if let Some((append, written)) = fault {
        let fault = if written { Fault::FailAfter(full) } else { Fault::Fail(full) };
        store.at(append, fault);
    }
    let mut reader = Reader::new(&handle);
    let mut seen = Vec::new();
    for text in ["first", "second"] {
        if !turn(&handle, text).await {
            seen = reader.to_end().await.to_vec();
            handle = hub.open(handle.id()).await.unwrap();
            break;
        }
    }
    // Whatever recovery had to say is said when the session can be looked at.
    handle.inspect(|_| ()).await.unwrap();
    (client::log(&*memory, handle.id()).await, seen, store.begun())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_the_same_as_in_two_appends(acts in acts()) {
        runtime().block_on(async {
            let (one, _, fewer) = play(true, acts.clone(), None).await;
            let (two, _, more) = play(false, acts, None).await;
            assert_eq!(plain(&one), plain(&two));
            assert!(fewer <= more, "{fewer} appends, {more} behind the prompt");
        });
    }

    /// Wherever the store fails: what anybody saw is there, and what is there is the beginning of
    /// the log as it would have been, ended by recovery where it stops in a turn.
    #[test]
    fn what_a_failure_leaves_is_a_beginning_that_makes_sense(
        acts in acts(), append in 2..9_u64, written in any::<bool>(),
    ) {
        runtime().block_on(async {
            let (whole, _, _) = play(false, acts.clone(), None).await;
            let (left, seen, _) = play(true, acts, Some((append, written))).await;
            client::assert_dense(&left, 1);
            assert!(left.starts_with(&seen), "somebody saw what is not in the log");
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
            let behind: Vec<Event> =
                left.iter().flat_map(|envelope| letters(&envelope.event)).skip(same).collect();
            assert!(behind.iter().all(recovery), "{behind:?}: {}", client::transcript(&left));
            let count = |fits: fn(&Event) -> bool| left.iter().filter(|e| fits(&e.event)).count();
            let started = count(|event| matches!(event, Event::TurnStarted { .. }));
            let ended = count(|event| matches!(event, Event::TurnEnded { .. }));
            assert_eq!(started, ended, "{}", client::transcript(&left));
        });
    }
}
