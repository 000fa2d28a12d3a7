//! Measures Loggia and other A2A servers in one run, with the same trivial turn and the same load:
//! `cargo xtask bench peers`, which also installs the peers. `--quick` makes a short run, names
//! (`loggia rust-sqlite python-sqlite rust js python`) select some of them. Prints a table;
//! `docs/contributing/performance.md` explains the rows.
//!
//! Loggia and the peers named `-sqlite` keep every task on disk, the others keep tasks in memory, as
//! their examples do.

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

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use peers::load::Until;
use peers::server::{Contender, Purpose, Running};
use peers::table::{Figures, Table};
use peers::{burst, load, server};

/// How much is measured.
struct Size {
    /// The rates are taken this often, of each server in turn.
    rounds: usize,
    /// Tasks of the long run, which ends early after `longest` seconds.
    tasks: usize,
    longest: u64,
    /// Duration of the run with 64 connections.
    seconds: u64,
    streams: usize,
    starts: usize,
    followers: usize,
    events: usize,
}

const FULL: Size = Size {
    rounds: 5,
    tasks: 10_000,
    longest: 30,
    seconds: 3,
    streams: 200,
    starts: 5,
    followers: 1_000,
    events: 200,
};
const QUICK: Size = Size {
    rounds: 1,
    tasks: 2_000,
    longest: 10,
    seconds: 1,
    streams: 30,
    starts: 2,
    followers: 100,
    events: 200,
};

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
    let (missing, there): (Vec<_>, Vec<_>) =
        contenders.into_iter().partition(|one| one.missing().is_some());
    for one in missing {
        eprintln!("{}: left out, there is no {}", one.name, one.missing().unwrap_or_default());
    }
    let mut table = Table::new(&there);
    // Removed at the end: the removal would slow down the disk for the next server.
    let mut homes = Vec::new();
    runtime.block_on(async {
        // The speed of a machine changes over minutes, so each round measures all servers.
        for round in 1..=size.rounds {
            for (contender, figures) in there.iter().zip(&mut table.columns) {
                eprintln!("{}, round {round} of {}", contender.name, size.rounds);
                take_rates(contender, &size, figures, &mut homes).await;
            }
        }
        for (contender, figures) in there.iter().zip(&mut table.columns) {
            eprintln!("{}", contender.name);
            take_times(contender, &size, figures, &mut homes).await;
        }
    });
    table.print();
}

fn wants(wanted: &[String], name: &str) -> bool {
    let named = wanted.iter().any(|word| word == name);
    named || wanted.iter().all(|word| word == "peers")
}

async fn take_rates(
    contender: &Contender,
    size: &Size,
    figures: &mut Figures,
    homes: &mut Vec<Arc<TempDir>>,
) {
    let running = Running::start(contender, Purpose::Turns).await;
    let until = Until::Time(Duration::from_secs(size.seconds));
    let turns = load::turns(&running, 64, until).await;
    figures.get_task.push(load::get_task(&running, &turns).await);
    figures.with_64.push(turns.rate());
    figures.failed += turns.failed;
    homes.push(running.stop());

    let running = Running::start(contender, Purpose::Turns).await;
    let before = running.cpu_time();
    let until = Until::Tasks(size.tasks, Duration::from_secs(size.longest));
    let turns = load::turns(&running, 16, until).await;
    let taken = running.cpu_time() - before;
    figures.cpu.push(taken / u32::try_from(turns.done()).unwrap());
    figures.with_16.push(turns.rate());
    figures.failed += turns.failed;
    figures.after = (turns.done(), running.resident());
    let tenth = (turns.done() / 10).max(1);
    figures.first_tenth.push(turns.rate_of_first(tenth));
    figures.last_tenth.push(turns.rate_of_last(tenth));
    homes.push(running.stop());
}

async fn take_times(
    contender: &Contender,
    size: &Size,
    figures: &mut Figures,
    homes: &mut Vec<Arc<TempDir>>,
) {
    for _ in 0..size.starts {
        let running = Running::start(contender, Purpose::Turns).await;
        figures.starts.push(running.started_in);
        homes.push(running.stop());
    }
    figures.starts.sort();

    let running = Running::start(contender, Purpose::Turns).await;
    figures.idle = running.resident();
    figures.first_event = load::first_events(&running, size.streams).await;
    homes.push(running.stop());

    let running = Running::start(contender, Purpose::Burst(size.events)).await;
    figures.burst = Some(burst::measure(&running, size.followers, size.events).await);
    homes.push(running.stop());
}
