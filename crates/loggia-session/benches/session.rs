//! Measures sessions on a real disk: `cargo bench -p loggia-session`. `-- --quick` makes a short run, and the name of a
//! part (`-- fan-out`) runs only that part. Prints a table. `docs/contributing/performance.md` explains the rows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot measure should say so loudly"
)]

mod session {
    pub mod fan_out;
    pub mod latency;
    pub mod machine;
    pub mod replay;
    pub mod stage;
    pub mod table;
    pub mod throughput;
}

use session::table::Table;
use session::{fan_out, latency, machine, replay, throughput};

/// How much is measured.
pub struct Size {
    /// Single events that are timed.
    pub samples: usize,
    /// Events of a burst.
    pub burst: usize,
    /// Events that are written or read by the large measurements.
    pub large: usize,
}

fn main() {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let quick = wanted.iter().any(|argument| argument == "--quick");
    wanted.retain(|argument| !argument.starts_with("--")); // cargo passes `--bench`
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let size = match quick {
        true => Size { samples: 300, burst: 4_000, large: 20_000 },
        false => Size { samples: 3_000, burst: 20_000, large: 100_000 },
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut table = Table::default();
    machine::describe();
    runtime.block_on(async {
        if wants("latency") {
            machine::disk(&mut table, &size);
            latency::measure(&mut table, &size).await;
        }
        if wants("throughput") {
            throughput::measure(&mut table, &size).await;
        }
        if wants("fan-out") {
            fan_out::measure(&mut table, &size).await;
        }
        if wants("replay") {
            replay::measure(&mut table, &size).await;
        }
        if wants("length") {
            latency::by_length(&mut table, &size).await;
        }
        if wants("memory") {
            replay::stalled(&mut table, &size).await;
        }
    });
    table.print();
}
