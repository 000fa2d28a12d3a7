//! Readers see the same events, miss none, and never wait for each other.

use std::sync::Arc;

use loggia_core::{Envelope, Event, Mode, Seq, TurnOutcome};
use loggia_session::log::TAIL;
use loggia_session::{Follower, MemoryStore, SessionHandle};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::{Act, Fault, FaultyStore, Gate, ScriptAgent, TestLog};
use tokio::task::JoinSet;

const EVENTS: usize = 4 * TAIL;

/// Follows to the end of the turn.
async fn read_turn(mut follower: Follower) -> Vec<Arc<Envelope>> {
    let mut seen: Vec<Arc<Envelope>> = Vec::new();
    while !matches!(seen.last().map(|last| &last.event), Some(Event::TurnEnded { .. })) {
        seen.extend(follower.next().await.unwrap().expect("the session is open"));
    }
    seen
}

async fn until_head(handle: &SessionHandle, seq: u64) {
    Reader::after(handle, Seq(seq - 1)).until_seq(Seq(seq)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_fell_behind_catches_up_without_a_gap() {
    let directory = client::directory();
    let gate = Gate::default();
    let agent = ScriptAgent::doing([
        Act::Flood(EVENTS / 2),
        Act::WaitFor(gate.clone()),
        Act::Flood(EVENTS / 2),
    ]);
    let hub = client::hub(client::sqlite(directory.path()), agent);
    let handle = client::create_in(&hub, Mode::Ask).await;
    let mut slow = handle.follow(Seq::ZERO);
    client::prompt(&handle, "go").await.unwrap();
    let mut seen = slow.next().await.unwrap().unwrap().to_vec();
    // It reads nothing until it is more than a tail behind.
    until_head(&handle, (EVENTS / 2) as u64).await;
    assert!(seen.len() + TAIL < EVENTS / 2, "it is far behind");
    gate.open();
    while !matches!(seen.last().unwrap().event, Event::TurnEnded { .. }) {
        seen.extend(slow.next().await.unwrap().unwrap());
    }
    client::assert_dense(&seen, 1);
    assert_eq!(seen.len(), 3 + EVENTS + 1);
    assert_eq!(seen, client::log(&**hub.store(), handle.id()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_any_cursor_the_rest_is_the_same() {
    let directory = client::directory();
    let hub =
        client::hub(client::sqlite(directory.path()), ScriptAgent::doing([Act::Flood(2 * TAIL)]));
    let handle = client::create_in(&hub, Mode::Ask).await;
    client::prompt(&handle, "go").await.unwrap();
    let all = read_turn(handle.follow(Seq::ZERO)).await;
    let start = all.len() - TAIL;
    let edges = [1, 255, 256, 257, start - 256, start - 255, start - 1, start, start + 1];
    for after in edges.into_iter().chain([all.len() - 1]) {
        let rest = read_turn(handle.follow(Seq(after as u64))).await;
        assert_eq!(rest, all[after..], "after {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_readers_read_the_same_and_one_is_slow() {
    const FLOOD: usize = TAIL + 1_000;
    let directory = client::directory();
    let hub =
        client::hub(client::sqlite(directory.path()), ScriptAgent::doing([Act::Flood(FLOOD)]));
    let handle = client::create_in(&hub, Mode::Ask).await;
    let mut slow = handle.follow(Seq::ZERO);
    let mut readers = JoinSet::new();
    for _ in 0..499 {
        readers.spawn(read_turn(handle.follow(Seq::ZERO)));
    }
    client::prompt(&handle, "go").await.unwrap();
    let mut seen = slow.next().await.unwrap().unwrap().to_vec();
    // It reads nothing until all others are done: no reader waited for it.
    let others = readers.join_all().await;
    assert!(seen.len() + TAIL < FLOOD, "it is far behind: {}", seen.len());
    let log = client::log(&**hub.store(), handle.id()).await;
    assert_eq!(log.len(), 3 + FLOOD + 1);
    assert_eq!(others.len(), 499);
    assert!(others.iter().all(|other| *other == log));
    seen.extend(read_turn(slow).await);
    assert_eq!(seen, log);
}

#[tokio::test(start_paused = true)]
async fn readers_that_fell_behind_share_reads_of_the_store() {
    let store = FaultyStore::new(Arc::new(MemoryStore::default()), TestLog::default());
    let hub = client::hub(store.clone(), ScriptAgent::doing([Act::Flood(5_000)]));
    let handle = client::create(&hub).await;
    client::prompt(&handle, "go").await.unwrap();
    let all = read_turn(handle.follow(Seq::ZERO)).await;
    hub.stop().await;
    // After reopening, no events are in memory.
    let handle = hub.open(handle.id()).await.unwrap();
    let before = store.reads();
    let step = Arc::new(tokio::sync::Barrier::new(100));
    let mut readers = JoinSet::new();
    for reader in 0..100 {
        let (mut follower, step) = (handle.follow(Seq(reader)), step.clone());
        readers.spawn(async move {
            let mut seen: Vec<Arc<Envelope>> = Vec::new();
            for _ in 0..all_batches(5_004) {
                step.wait().await;
                if seen.last().is_none_or(|last| last.seq < Seq(5_004)) {
                    seen.extend(follower.next().await.unwrap().unwrap());
                }
            }
            (reader, seen)
        });
    }
    for (reader, seen) in readers.join_all().await {
        assert_eq!(seen, all[usize::try_from(reader).unwrap()..]);
    }
    let reads = store.reads() - before;
    assert!(reads < 200, "100 readers of {} batches read {reads} times", all_batches(5_004));
}

fn all_batches(events: usize) -> usize {
    events.div_ceil(loggia_session::log::BATCH)
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_stopped_session_reads_it_all_and_ends() {
    let hub = client::memory_hub(ScriptAgent::doing([Act::Flood(2 * TAIL)]));
    let handle = client::create(&hub).await;
    client::prompt(&handle, "go").await.unwrap();
    let mut live = Reader::new(&handle);
    assert_eq!(live.until_over().await, TurnOutcome::Completed);
    let waiting = tokio::spawn({
        let mut follower = handle.follow(handle.head());
        async move { follower.next().await }
    });
    hub.stop().await;
    assert_eq!(waiting.await.unwrap(), Ok(None), "a waiting reader ends");
    let mut late = Reader::new(&handle);
    assert_eq!(late.to_end().await, live.to_end().await);
    assert_eq!(handle.follow(handle.head()).next().await, Ok(None));
    assert_eq!(handle.follow(Seq(9_999)).next().await, Ok(None), "beyond the end");
}

#[tokio::test(start_paused = true)]
async fn a_reader_ahead_of_the_log_waits_for_it() {
    let hub = client::memory_hub(ScriptAgent::doing([Act::Flood(10)]));
    let handle = client::create(&hub).await;
    let mut follower = handle.follow(Seq(5));
    client::prompt(&handle, "go").await.unwrap();
    let first = follower.next().await.unwrap().unwrap();
    assert_eq!(first[0].seq, Seq(6), "nothing up to its cursor, everything after");
}

#[tokio::test(start_paused = true)]
async fn a_stream_returns_the_events_of_its_follower() {
    use futures::StreamExt;
    let hub = client::memory_hub(ScriptAgent::doing([Act::Flood(700)]));
    let handle = client::create(&hub).await;
    client::prompt(&handle, "go").await.unwrap();
    let mut reader = Reader::new(&handle);
    reader.until_over().await;
    hub.stop().await;
    let streamed: Vec<_> = handle.follow(Seq::ZERO).into_stream().collect().await;
    let streamed: Vec<Arc<Envelope>> = streamed.into_iter().map(Result::unwrap).collect();
    assert_eq!(streamed, reader.seen());
}

/// Reports that wait while the actor appends go into one step, so that readers are woken once. Large reports go into
/// several.
#[tokio::test(start_paused = true)]
async fn waiting_reports_are_one_step_unless_they_are_large() {
    let large = (0..40).map(|_| Act::say("x".repeat(60_000))).collect();
    for (acts, steps) in [(vec![Act::Flood(200)], 1..=2), (large, 9..=20)] {
        let (test_log, go, hold) = (TestLog::default(), Gate::default(), Gate::default());
        let store = FaultyStore::new(Arc::new(MemoryStore::default()), test_log.clone());
        let begin = [Act::say("first"), Act::WaitFor(go.clone())];
        let script = begin.into_iter().chain(acts).chain([Act::note("said")]).collect();
        let hub = client::hub(store.clone(), ScriptAgent::new(test_log.clone(), [script]));
        let handle = client::create(&hub).await;
        let held = store.begun() + 2; // the append after the prompt
        store.at(held, Fault::Hold(hold.clone()));
        client::prompt(&handle, "go").await.unwrap();
        store.until_begun(held).await;
        go.open();
        test_log.until("said").await;
        hold.open();
        read_turn(handle.follow(Seq::ZERO)).await;
        let taken = store.begun() - held;
        assert!(steps.contains(&taken), "{taken} steps, not {steps:?}");
    }
}
