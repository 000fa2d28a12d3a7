//! Time and memory limits of the built-in tools. A separate program that runs one test at a time, because
//! memory is measured for the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "tools/fixture.rs"]
mod fixture;
#[path = "tools/flood.rs"]
mod flood;
#[path = "tools/hostile.rs"]
mod hostile;

/// Held by a test while it measures.
async fn alone() -> impl Drop {
    static ONE: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(1);
    ONE.acquire().await.unwrap()
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
