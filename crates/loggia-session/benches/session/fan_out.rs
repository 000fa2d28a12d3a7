//! One session with many readers.

use std::time::{Duration, Instant};

use loggia_core::{Event, Seq};
use loggia_session::SessionHandle;
use loggia_session::log::TAIL;
use loggia_testkit::client;
use tokio::task::JoinSet;

use super::machine::cpu_time;
use super::stage;
use super::table::{Table, count, rate};
use crate::Size;

/// The speed with a thousand readers, as a part of the speed with one.
const GOAL: f64 = 0.5;
const READERS: [usize; 3] = [1, 100, 1_000];
/// Alternating, with the median as the result, so that other load affects all cases alike.
const ROUNDS: usize = 5;

pub async fn measure(table: &mut Table, size: &Size) {
    let mut runs: [Vec<Run>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (readers, runs) in READERS.into_iter().zip(&mut runs) {
            runs.push(run(readers, size.burst).await);
        }
    }
    let mut single = 0.0;
    for (readers, mut runs) in READERS.into_iter().zip(runs) {
        runs.sort_by_key(|run| run.wall);
        let speeds: Vec<f64> = runs.iter().map(|run| rate(size.burst, run.wall)).collect();
        let speed = speeds[ROUNDS / 2];
        let processor: Duration = runs.iter().map(|run| run.processor).sum();
        let delivered = rate(readers * size.burst * ROUNDS, processor);
        let stored: usize = runs.iter().map(|run| run.stored).sum();
        let what = format!("fan-out, {} readers", count(readers as f64));
        let figure = format!(
            "{} events / s ({}–{}); {} deliveries / s of a core; {stored} reads behind the tail",
            count(speed),
            count(speeds[ROUNDS - 1]),
            count(speeds[0]),
            count(delivered)
        );
        match readers {
            1 => {
                single = speed;
                table.row("fan-out, one reader", figure);
            }
            1_000 => {
                let ratio = speed / single;
                let goal = format!("events / s ≥ {GOAL} × one reader's");
                table.goal(what, format!("{figure}; × {ratio:.2}"), goal, ratio >= GOAL);
            }
            _ => table.row(what, figure),
        }
    }
}

/// From the first event written to the last one read by the last reader.
struct Run {
    wall: Duration,
    processor: Duration,
    /// Reads that came from the store because the reader was behind the tail.
    stored: usize,
}

async fn run(readers: usize, events: usize) -> Run {
    let stage = stage::stage();
    let handle = client::create(&stage.hub).await;
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        reading.spawn(read(handle.clone()));
    }
    let (started, spent) = (Instant::now(), cpu_time());
    stage::speak(&handle, "burst", events).await;
    let read = reading.join_all().await;
    let (wall, processor) = (started.elapsed(), cpu_time() - spent);
    assert!(read.iter().all(|(seen, _)| *seen == events + 4), "every reader read every event");
    stage.hub.stop().await;
    let stored = read.iter().map(|(_, stored)| stored).sum();
    Run { wall, processor: processor.max(Duration::from_millis(10)), stored }
}

/// Reads to the end of the turn: events seen, and how often the reader was behind the tail.
async fn read(handle: SessionHandle) -> (usize, usize) {
    let mut follower = handle.follow(Seq::ZERO);
    let (mut seen, mut behind) = (0, 0);
    loop {
        behind += usize::from(handle.head().0 > follower.cursor().0 + TAIL as u64);
        let events = follower.next().await.expect("readable").expect("open");
        seen += events.len();
        if matches!(events.last().map(|last| &last.event), Some(Event::TurnEnded { .. })) {
            return (seen, behind);
        }
    }
}
