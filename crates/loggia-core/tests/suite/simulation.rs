//! Simulates the core with faults: clients that race, retry and disconnect, a store that fails or loses
//! its lease or its newest writes, processes that crash between any two steps, a clock that jumps. One
//! seed is one run, the same every time.
//!
//! `SEED=123` runs one seed and prints a trace. `SEEDS=10000000` runs that many.

mod agent;
mod client;
mod disk;
mod node;
mod rng;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use world::World;

/// Seeds that failed in the past.
const REMEMBERED: &str = include_str!("../seeds.txt");

macro_rules! figures {
    ($($name:ident),* $(,)?) => {
        /// How often each interesting situation occurred.
        #[derive(Debug, Default, Clone)]
        pub struct Figures { $(pub $name: usize),* }

        impl Figures {
            fn add(&mut self, other: &Figures) {
                $(self.$name += other.$name;)*
            }
            fn missing(&self) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name)),*];
                all.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
            }
        }
    };
}

figures! {
    events, calls, executions, interrupted, resumed, winners, losers, retried_prompts,
    retried_answers, kills, cut_steps, failed_appends, stale_appends, stale_reports, expired, void_permits,
    power_cuts, lost_events, cut_readers, clock_jumps, busy, typed,
}

fn run(seed: u64, trace: bool) -> Result<Figures, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, trace);
        world.run().map(|()| world.figures)
    }));
    let ran = ran.unwrap_or_else(|_| Err("the core panicked".into()));
    ran.map_err(|why| {
        format!(
            "{why} | SEED={seed} cargo test -p loggia-core --test suite simulation -- --nocapture"
        )
    })
}

/// Runs all seeds on all cores and reports the lowest one that fails.
fn run_all(seeds: &[u64]) -> Figures {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let worker = || {
        let (mut figures, mut failed) = (Figures::default(), Vec::new());
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            match run(*seed, false) {
                Ok(one) => figures.add(&one),
                Err(line) => {
                    failed.push((*seed, line));
                    next.store(seeds.len() as u64, Ordering::Relaxed);
                }
            }
        }
        (figures, failed)
    };
    let (mut figures, mut failed) = (Figures::default(), Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            let (one, lines) = worker.join().unwrap();
            figures.add(&one);
            failed.extend(lines);
        }
    });
    failed.sort();
    if let Some((_, line)) = failed.first() {
        panic!("{line}");
    }
    figures
}

#[expect(clippy::disallowed_methods, reason = "a test is told by hand which seed to run")]
fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn ten_thousand_seeds() {
    if let Some(seed) = number_from("SEED") {
        match run(seed, true) {
            Ok(figures) => println!("{figures:#?}"),
            Err(line) => panic!("{line}"),
        }
        return;
    }
    let started = Instant::now();
    let count = number_from("SEEDS").unwrap_or(10_000);
    let figures = run_all(&(0..count).collect::<Vec<_>>());
    println!("{count} seeds in {:.1} s: {figures:#?}", started.elapsed().as_secs_f32());
    assert_eq!(figures.missing(), Vec::<&str>::new(), "never happened, so nothing was shown");
}

#[test]
fn seeds_that_once_failed_never_fail_again() {
    let lines = REMEMBERED.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let seeds: Vec<u64> =
        lines.filter(|line| !line.is_empty()).map(|line| line.parse().unwrap()).collect();
    run_all(&seeds);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 7, 42] {
        let twice = [run(seed, false).unwrap(), run(seed, false).unwrap()];
        assert_eq!(format!("{:?}", twice[0]), format!("{:?}", twice[1]));
    }
}
