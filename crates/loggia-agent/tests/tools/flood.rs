//! Commands that print a lot (R12): limited in memory and in the log, fast, and stopped at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loggia_core::{CallOutcome, Event};
use serde_json::json;

use crate::fixture::Fixture;
use crate::{alone, resident};

/// The peak growth of memory while `work` runs.
async fn growth<T>(work: impl Future<Output = T>) -> (T, u64) {
    let (before, peak) = (resident(), Arc::new(AtomicU64::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (peak, done) = (Arc::clone(&peak), Arc::clone(&done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                peak.fetch_max(resident(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let result = work.await;
    done.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    (result, peak.load(Ordering::Relaxed).saturating_sub(before))
}

fn logged(fixture: &Fixture) -> (u64, u64) {
    fixture.seen.iter().fold((0, 0), |(text, left_out), event| match event {
        Event::CallOutput { text: more, skipped, .. } => {
            (text + more.len() as u64, left_out + skipped)
        }
        _ => (text, left_out),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_of_output_uses_little_memory() {
    let _alone = alone().await;
    // The speed is asserted only with optimisation, by `cargo test --release`.
    let bytes: u64 = if cfg!(debug_assertions) { 256 << 20 } else { 1 << 30 };
    for (what, command) in [
        ("lines", format!("yes 'a line of ordinary length for a log file' | head -c {bytes}")),
        ("one line", format!("head -c {bytes} /dev/zero | tr '\\0' x")),
    ] {
        let mut fixture = Fixture::open().await;
        let start = Instant::now();
        let ((), grown) = growth(async {
            fixture.start("run_shell_command", json!({ "command": command })).await;
            fixture.wait_for(|event| matches!(event, Event::TurnEnded { .. })).await;
        })
        .await;
        let speed = bytes as f64 / start.elapsed().as_secs_f64() / 1e6;
        let (text, left_out) = logged(&fixture);
        println!("{what}: {speed:.0} MB/s, {} KiB more memory, {text} bytes logged", grown >> 10);
        assert_eq!(text + left_out, bytes, "what is left out is counted");
        assert!(text <= 512 << 10, "{text} bytes logged");
        let CallOutcome::Succeeded { output } = fixture.outcome().await else { panic!() };
        assert!(output.text.contains(&format!("\n… {} bytes left out …\n", bytes - (32 << 10))));
        assert!(output.text.len() < 33 << 10);
        assert!(grown < 8 << 20, "{grown} bytes");
        if !cfg!(debug_assertions) {
            assert!(speed >= 200.0, "{speed:.0} MB/s");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_stops_at_once() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    fixture.start("run_shell_command", json!({ "command": "yes 'a flood'" })).await;
    fixture.until(|event| matches!(event, Event::CallOutput { .. }).then_some(())).await;
    let start = Instant::now();
    fixture.cancel().await;
    let outcome = fixture.outcome().await;
    assert!(matches!(outcome, CallOutcome::Cancelled { .. }), "{outcome:?}");
    while crate::fixture::processes("yes\0a flood").next().is_some() {
        assert!(start.elapsed() < Duration::from_secs(1), "still running");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("gone after {:?}", start.elapsed());
}
