//! Many clients on one session at full size: `cargo xtask bench many_clients`, with `writer`, `followers`
//! or `stalled` for one part, `--quick` for a short run, and `--server FILE` for another binary.
//!
//! - *writer*: a session that writes a word every 5 ms, alone and with 1,000 streams and 1,000
//!   sockets, alternating: the gaps between its events, and the cost of a delivery.
//! - *followers* (R11): the memory of a follower, idle and in a burst of 200 events, and the time
//!   until the last one has everything.
//! - *stalled* (R09): 256 MB to 20 readers, alone and with a stream and a socket that read
//!   nothing; then these two resume.
//!
//! Everything is read to the end and compared: a run in which a client missed something is invalid.
//! The clients share the machine with the server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot measure should say so loudly"
)]

mod many_clients {
    pub mod followers;
    pub mod reader;
    pub mod server;
    #[path = "../../tests/e2e/split_frames.rs"]
    mod split_frames;
    pub mod stalled;
    pub mod writer;
}

use std::path::PathBuf;

use many_clients::{followers, stalled, writer};

/// The size of the measurement.
pub struct Size {
    /// For each of the two transports.
    readers: usize,
    words: usize,
    rounds: usize,
    burst: usize,
    flood_events: usize,
    healthy: usize,
    stall_seconds: u64,
}

const FULL: Size = Size {
    readers: 1_000,
    words: 1_000,
    rounds: 3,
    burst: 200,
    flood_events: 32_000,
    healthy: 20,
    stall_seconds: 30,
};
const QUICK: Size = Size {
    readers: 200,
    words: 200,
    rounds: 1,
    burst: 200,
    flood_events: 4_000,
    healthy: 4,
    stall_seconds: 2,
};

fn main() {
    let mut words = std::env::args().skip(1);
    let (mut size, mut program, mut parts) =
        (FULL, PathBuf::from(env!("CARGO_BIN_EXE_loggia")), Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => size = QUICK,
            "--server" => program = words.next().expect("--server FILE").into(),
            "--bench" => {} // cargo's own
            _ => parts.push(word),
        }
    }
    let all = parts.iter().all(|part| part == "many_clients");
    let wants = |name: &str| all || parts.iter().any(|part| part == name);
    many_clients::server::allow_many_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if wants("writer") {
        runtime.block_on(writer::measure(&program, &size));
    }
    if wants("followers") {
        runtime.block_on(followers::measure(&program, &size));
    }
    if wants("stalled") {
        runtime.block_on(stalled::measure(&program, &size));
    }
}

/// Prints a line of the report: name, figure, goal and whether it is met.
pub fn report(what: &str, figure: &str, goal: Option<(&str, bool)>) {
    match goal {
        Some((goal, true)) => println!("| {what} | {figure} | {goal} | met |"),
        Some((goal, false)) => println!("| {what} | {figure} | {goal} | **not met** |"),
        None => println!("| {what} | {figure} | | |"),
    }
}

pub fn heading(title: &str) {
    println!("\n{title}\n\n| what | figure | goal | |\n|---|---:|---|---|");
}

/// Of sorted values.
pub fn quantile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}
