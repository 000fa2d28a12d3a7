//! Time and memory of the built-in tools. A program of its own, one test at a time: memory is
//! measured for the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "tools/flood.rs"]
mod flood;
#[path = "tools/hostile.rs"]
mod hostile;
#[path = "tools/stage.rs"]
mod stage;

/// Held by a test for as long as it measures.
async fn alone() -> impl Drop {
    static ONE: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(1);
    ONE.acquire().await.unwrap()
}

/// Memory this process holds, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
