//! Idle sessions are closed, and their clients notice nothing.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{
    Command, Content, Event, Refusal, Seq, SessionId, TaskChoice, TaskId, TurnOutcome,
};
use loggia_session::{Hub, IdlePolicy, MemoryStore, SessionHandle, Store, SubmitError};
use loggia_testkit::client::{self, Reader};
use loggia_testkit::store_contract::owner;
use loggia_testkit::{Act, FaultyStore, Gate, ScriptAgent, TestLog};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const AT_ONCE: IdlePolicy = IdlePolicy { after: Duration::ZERO, most: 0 };

fn hub_closing(agent: Arc<ScriptAgent>, after: Duration, most: usize) -> Hub {
    client::memory_hub(agent).with_idle(IdlePolicy { after, most })
}

async fn turn(handle: &SessionHandle, text: &str) -> TaskId {
    let mut reader = Reader::after(handle, handle.head());
    let ack = client::prompt(handle, text).await.unwrap();
    assert_eq!(reader.until_over().await, TurnOutcome::Completed);
    ack.task.unwrap()
}

/// Waits until `count` sessions are open, without advancing the paused time.
async fn until_open(hub: &Hub, count: usize) {
    for _ in 0..1_000 {
        if hub.open_count() == count {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} sessions are open, not {count}", hub.open_count());
}

#[tokio::test(start_paused = true)]
async fn closed_after_a_minute_and_opened_again_as_it_was() {
    let hub = hub_closing(ScriptAgent::doing([Act::say("hello")]), MINUTE, 512);
    let handle = client::create(&hub).await;
    let id = handle.id().clone();
    let task = turn(&handle, "one").await;
    drop(handle);
    tokio::time::sleep(MINUTE - SECOND).await;
    assert_eq!(hub.open_count(), 1);
    // A client opens it: the minute starts again.
    drop(hub.open(&id).await.unwrap());
    tokio::time::sleep(MINUTE - SECOND).await;
    assert_eq!(hub.open_count(), 1);
    tokio::time::sleep(2 * SECOND).await;
    until_open(&hub, 0).await;
    let before = client::log(&**hub.store(), &id).await;
    drop(hub.store().acquire(&id, owner("another")).await.expect("the lease is free"));

    let handle = hub.open(&id).await.expect("opened again");
    let more = Command::Prompt {
        prompt: "two".into(),
        task: TaskChoice::Reopen(task.clone()),
        content: Content::text("two"),
    };
    let ack = handle.submit(more, client::origin("tester")).await.unwrap();
    assert_eq!(ack.task, Some(task), "the same task goes on");
    Reader::after(&handle, ack.after).until_over().await;
    let after = client::log(&**hub.store(), &id).await;
    client::assert_dense(&after, 1);
    assert_eq!(after[..before.len()], before[..], "the log is the same");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_new_sessions_leave_no_more_than_the_limit_open() {
    let hub = hub_closing(ScriptAgent::doing([Act::say("hello")]), MINUTE, 512);
    let mut most = 0;
    for number in 0..10_000 {
        let handle = client::create(&hub).await;
        if number % 100 == 0 {
            turn(&handle, "go").await;
        }
        drop(handle);
        most = most.max(hub.open_count());
    }
    assert!(most <= 520, "{most} sessions were open at once");
    until_open(&hub, 512).await;
    tokio::time::sleep(MINUTE + SECOND).await;
    until_open(&hub, 0).await;
}

/// An idle session frees the events that it holds in memory if they are large. Its readers notice nothing.
#[tokio::test(start_paused = true)]
async fn an_idle_session_keeps_few_events_in_memory() {
    for (length, reads) in [(100, 0..=0), (100_000, 1..=8)] {
        let store = FaultyStore::new(Arc::new(MemoryStore::default()), TestLog::default());
        let agent = ScriptAgent::doing([Act::say("x".repeat(length))]);
        let hub =
            client::hub(store.clone(), agent).with_idle(IdlePolicy { after: MINUTE, most: 8 });
        let handle = client::create(&hub).await;
        turn(&handle, "go").await;
        let id = handle.id().clone();
        drop(handle);
        tokio::time::sleep(SECOND).await;
        let before = store.reads();
        let handle = hub.open(&id).await.unwrap();
        assert_eq!(handle.epoch(), 1, "it was not closed");
        let mut reader = Reader::new(&handle);
        reader.until_over().await;
        assert!(reads.contains(&(store.reads() - before)), "{}", store.reads() - before);
        turn(&handle, "again").await;
        reader.until_over().await;
        assert_eq!(reader.seen(), client::log(&*store, &id).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_or_a_follower_keeps_it_open() {
    let hub = hub_closing(ScriptAgent::idle(), MINUTE, 512);
    let (held, followed, watched) =
        (client::create(&hub).await, client::create(&hub).await, client::create(&hub).await);
    let follower = followed.follow(Seq::ZERO);
    let mut watcher = watched.follow_while_open(Seq::ZERO);
    drop((followed, watched));
    tokio::time::sleep(10 * MINUTE).await;
    until_open(&hub, 2).await;
    assert!(watcher.next().await.unwrap().is_some(), "events from before are still read");
    assert_eq!(watcher.next().await, Ok(None), "then the follower ends");
    turn(&held.clone(), "after ten minutes").await;
    drop(follower);
    tokio::time::sleep(MINUTE + SECOND).await;
    until_open(&hub, 1).await;
    drop(held);
    tokio::time::sleep(MINUTE + SECOND).await;
    until_open(&hub, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_works_or_asks_stays_open() {
    let gate = Gate::default();
    let works = vec![Act::note("working"), Act::WaitFor(gate.clone())];
    let asks = vec![Act::execute("make")];
    let agent = ScriptAgent::new(TestLog::default(), [works, asks]);
    let hub = hub_closing(agent.clone(), MINUTE, 0);
    let handle = client::create(&hub).await;
    let id = handle.id().clone();
    client::prompt(&handle, "work").await.unwrap();
    agent.test_log().until("working").await;
    client::prompt(&handle, "ask").await.unwrap();
    drop(handle);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(hub.open_count(), 1, "it works, and a prompt waits");
    gate.open();
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(hub.open_count(), 1, "it asks");
    let handle = hub.open(&id).await.unwrap();
    let mut reader = Reader::new(&handle);
    let approval = reader.until_asked().await;
    client::answer(&handle, &approval, "cancel").await.unwrap();
    reader.until_over().await;
    drop((handle, reader));
    tokio::time::sleep(MINUTE + SECOND).await;
    until_open(&hub, 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_session_that_was_idle_longest_is_closed_first() {
    let hub = hub_closing(ScriptAgent::idle(), MINUTE, 2);
    let mut ids = Vec::new();
    for number in 0..3 {
        let handle = client::create(&hub).await;
        turn(&handle, &format!("prompt {number}")).await;
        ids.push(handle.id().clone());
    }
    until_open(&hub, 2).await;
    let free = async |id: &SessionId| hub.store().acquire(id, owner("other")).await.is_ok();
    assert!(free(&ids[0]).await);
    // The second is used again, so the third is next.
    drop(hub.open(&ids[1]).await.unwrap());
    drop(hub.open(&ids[0]).await.unwrap());
    until_open(&hub, 2).await;
    assert!(free(&ids[2]).await && !free(&ids[1]).await && !free(&ids[0]).await);
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_caller_is_gone_is_not_lost() {
    let agent = ScriptAgent::idle();
    let hub = hub_closing(agent.clone(), Duration::ZERO, 0);
    let handle = client::create(&hub).await;
    let id = handle.id().clone();
    for number in 0..20 {
        let handle = hub.open(&id).await.unwrap();
        let text = format!("prompt {number}");
        let mut sending = Box::pin(async move { client::prompt(&handle, &text).await });
        // Polled once, the command is in the inbox. Then its caller and the handle are gone.
        let _ = futures::poll!(&mut sending);
        drop(sending);
        agent.test_log().until(&format!("turn prompt {number} leaves")).await;
    }
    drop(handle);
    until_open(&hub, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_opener_blocks_no_other() {
    let hub = hub_closing(ScriptAgent::idle(), Duration::ZERO, 0);
    let id = client::create(&hub).await.id().clone();
    until_open(&hub, 0).await;
    for _ in 0..3 {
        let mut opening = Box::pin(hub.open(&id));
        let _ = futures::poll!(&mut opening);
        drop(opening);
    }
    turn(&hub.open(&id).await.unwrap(), "go").await;
}

/// Idle sessions are closed while many clients use them: no client is refused, no turn is cut.
async fn stress(store: Arc<dyn Store>, idle: IdlePolicy, rounds: usize) {
    const SESSIONS: usize = 6;
    const CALLERS: usize = 12;
    let hub = client::hub(store.clone(), ScriptAgent::doing([Act::say("word")]));
    let hub = Arc::new(hub.with_idle(idle));
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        ids.push(client::create(&hub).await.id().clone());
    }
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (hub, id) = (hub.clone(), ids[caller % SESSIONS].clone());
        callers.spawn(async move {
            for round in 0..rounds {
                let handle = hub.open(&id).await.expect("opened");
                let text = format!("{caller} {round}");
                let ack = loop {
                    match client::prompt(&handle, &text).await {
                        Ok(ack) => break ack,
                        Err(SubmitError::Refused(Refusal::QueueFull { .. })) => {
                            tokio::task::yield_now().await;
                        }
                        Err(error) => panic!("{text}: {error}"),
                    }
                };
                // Two of three wait for their turn.
                if (caller + round) % 3 != 0 {
                    let task = ack.task.unwrap();
                    let mut reader = Reader::after(&handle, ack.after);
                    drop(handle);
                    let started = |event: &Event| match event {
                        Event::TurnStarted { task: begun, .. } => *begun == task,
                        _ => false,
                    };
                    reader.until(started).await;
                    reader.until_over().await;
                } else {
                    drop(handle);
                }
                // Pauses of several lengths, so that sessions become idle at any time.
                match (caller * 7 + round) % 11 {
                    0..=4 => tokio::time::sleep(Duration::from_millis(round as u64 % 13)).await,
                    yields => {
                        for _ in 0..yields {
                            tokio::task::yield_now().await
                        }
                    }
                }
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.unwrap();
    }
    let mut ended = 0;
    for id in &ids {
        let handle = hub.open(id).await.unwrap();
        while handle.inspect(|session| session.turn().is_some()).await.unwrap() {
            tokio::task::yield_now().await;
        }
        drop(handle);
        let log = client::log(&*store, id).await;
        client::assert_dense(&log, 1);
        ended += log
            .iter()
            .filter(|envelope| match &envelope.event {
                Event::TurnEnded { outcome, .. } => {
                    assert_eq!(*outcome, TurnOutcome::Completed);
                    true
                }
                _ => false,
            })
            .count();
    }
    assert_eq!(ended, CALLERS * rounds, "every turn ran");
    hub.stop().await;
    let mut openings = 0;
    for id in &ids {
        openings += store.acquire(id, owner("counting")).await.unwrap().epoch;
    }
    assert!(openings > 4 * SESSIONS as u64, "they were closed many times: {openings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_client_is_refused_while_sessions_are_closed_in_memory() {
    stress(Arc::new(MemoryStore::default()), AT_ONCE, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_client_is_refused_while_sessions_are_closed_on_disk() {
    let directory = client::directory();
    stress(client::sqlite(directory.path()), AT_ONCE, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_client_is_refused_while_too_many_sessions_are_idle() {
    let idle = IdlePolicy { after: MINUTE, most: 1 };
    stress(Arc::new(MemoryStore::default()), idle, 100).await;
}
