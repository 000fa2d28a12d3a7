//! Loggia beside the official SDK servers, in one run, with the same trivial turn and the same load:
//! `cargo xtask bench peers`, which also gets the peers ready; with `--quick` for a short run, with
//! names (`loggia rust js python`) for some of them. Prints a table; what the rows mean is in
//! `docs/performance.md`.
//!
//! Loggia keeps every turn on disk, the peers keep theirs in memory, as their examples do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot measure should say so loudly"
)]

mod peers {
    pub mod burst;
    pub mod http;
    pub mod load;
    pub mod server;
    pub mod table;
}

use std::time::Duration;

use peers::load::Until;
use peers::server::{Contender, Purpose, Running};
use peers::table::{Figures, Table};
use peers::{burst, load, server};

/// How much is measured.
struct Size {
    /// Tasks of the long run.
    tasks: usize,
    /// For the rate with many connections.
    seconds: u64,
    streams: usize,
    starts: usize,
    followers: usize,
    events: usize,
}

const FULL: Size =
    Size { tasks: 10_000, seconds: 5, streams: 200, starts: 5, followers: 1_000, events: 200 };
const QUICK: Size =
    Size { tasks: 2_000, seconds: 1, streams: 30, starts: 2, followers: 100, events: 200 };

fn main() {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let size = if wanted.iter().any(|word| word == "--quick") { QUICK } else { FULL };
    wanted.retain(|word| !word.starts_with("--")); // cargo passes `--bench`
    let contenders: Vec<Contender> =
        server::contenders().into_iter().filter(|one| wants(&wanted, one.name)).collect();
    if contenders.is_empty() {
        return; // A filter for another benchmark.
    }
    server::allow_many_connections();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut table = Table::default();
    for contender in contenders {
        match contender.missing() {
            Some(what) => eprintln!("{}: left out, there is no {what}", contender.name),
            None => table.add(runtime.block_on(measure(&contender, &size))),
        }
    }
    table.print();
}

fn wants(wanted: &[String], name: &str) -> bool {
    let named = wanted.iter().any(|word| word == name);
    named || wanted.iter().all(|word| word == "peers")
}

async fn measure(contender: &Contender, size: &Size) -> Figures {
    eprintln!("{}", contender.name);
    let mut figures = Figures::new(contender);
    let mut homes = Vec::new();
    for _ in 0..size.starts {
        let running = Running::start(contender, Purpose::Turns).await;
        figures.starts.push(running.started_in);
        homes.push(running.stop());
    }

    eprintln!("  (streams)");
    let running = Running::start(contender, Purpose::Turns).await;
    figures.idle = running.resident();
    figures.first_event = load::first_events(&running, size.streams).await;
    homes.push(running.stop());

    eprintln!("  (64 connections)");
    let running = Running::start(contender, Purpose::Turns).await;
    let until = Until::Time(Duration::from_secs(size.seconds));
    figures.with_64 = load::turns(&running, 64, until).await.rate();
    homes.push(running.stop());

    eprintln!("  (16 connections)");
    let running = Running::start(contender, Purpose::Turns).await;
    let before = running.cpu_time();
    let turns = load::turns(&running, 16, Until::Tasks(size.tasks)).await;
    figures.cpu = (running.cpu_time() - before) / u32::try_from(turns.done()).unwrap();
    figures.with_16 = turns.rate();
    figures.failed = turns.failed;
    figures.after = (turns.done(), running.resident());
    // A tenth of the run at either end, a thousand of ten thousand.
    figures.ends = (turns.rate_of_first(size.tasks / 10), turns.rate_of_last(size.tasks / 10));
    homes.push(running.stop());

    eprintln!("  (burst)");
    let running = Running::start(contender, Purpose::Burst(size.events)).await;
    figures.burst = Some(burst::measure(&running, size.followers, size.events).await);
    figures
}
