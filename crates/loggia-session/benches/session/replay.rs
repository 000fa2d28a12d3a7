//! Long sessions: opening, reading from the beginning, and memory while a reader sleeps.

use std::time::Instant;

use loggia_core::{Event, Seq};
use loggia_testkit::client;

use super::machine::resident;
use super::stage::{self, Stage};
use super::table::{Table, count, millis, rate};
use crate::Size;

/// The memory that a sleeping reader may cost, in KiB: allocator noise, not a queue.
const MEMORY_GOAL: usize = 4 * 1024;

pub async fn measure(table: &mut Table, size: &Size) {
    let Stage { hub, store, directory: _keep, .. } = stage::stage();
    let session = stage::session_of(&*store, "long", size.large).await;
    let length = count(size.large as f64);
    let started = Instant::now();
    let handle = hub.open(&session).await.expect("opened");
    table.row(format!("opening a session of {length} events"), millis(started.elapsed()));
    let started = Instant::now();
    let mut follower = handle.follow(Seq::ZERO);
    let mut read = follower.next().await.expect("readable").expect("open").len();
    table.row(format!("replay of {length} events, first batch"), millis(started.elapsed()));
    while read < size.large {
        read += follower.next().await.expect("readable").expect("open").len();
    }
    let time = started.elapsed();
    table.row(
        format!("replay of {length} events, all"),
        format!("{}, {} / s", millis(time), count(rate(read, time))),
    );
    hub.stop().await;
}

/// Memory while a reader sleeps and the session continues.
pub async fn stalled(table: &mut Table, size: &Size) {
    let Stage { hub, directory: _keep, .. } = stage::stage();
    let handle = client::create(&hub).await;
    let part = size.large / 10;
    // Caches fill first.
    write(&handle, part).await;
    let after = handle.head();
    let mut sleeper = handle.follow(after);
    let before = resident();
    let mut most = before;
    for _ in 0..10 {
        write(&handle, part).await;
        most = most.max(resident());
    }
    let grown = most - before;
    table.goal(
        format!("memory while a reader sleeps for {} events", count(size.large as f64)),
        format!("{:.1} MiB, + {grown} KiB", before as f64 / 1024.0),
        format!("+ ≤ {MEMORY_GOAL} KiB"),
        grown <= MEMORY_GOAL,
    );
    let mut next = after.next();
    while sleeper.cursor() < handle.head() {
        for envelope in sleeper.next().await.expect("readable").expect("open") {
            assert_eq!(envelope.seq, next, "the sleeper missed something");
            next = next.next();
        }
    }
    hub.stop().await;
}

async fn write(handle: &loggia_session::SessionHandle, events: usize) {
    let mut follower = handle.follow(handle.head());
    stage::speak(handle, "burst", events).await;
    loop {
        let read = follower.next().await.expect("readable").expect("open");
        if read.iter().any(|envelope| matches!(envelope.event, Event::TurnEnded { .. })) {
            return;
        }
    }
}
