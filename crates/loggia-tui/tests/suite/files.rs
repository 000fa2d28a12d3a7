//! Completion in a large workspace.

use std::time::{Duration, Instant};

use loggia_testkit::ScriptAgent;

use super::harness::{Harness, MemoryHost};

/// A hundred thousand files are searched faster than a person types.
#[tokio::test]
async fn a_hundred_thousand_files_are_searched_in_a_moment() {
    let path = |index: usize| format!("crates/part{}/src/module{index}.rs", index % 100);
    let files = (0..100_000).map(path).chain(["docs/needle.md".to_owned()]).collect();
    let study = MemoryHost { files, ..MemoryHost::default() };
    let mut harness = Harness::sized(ScriptAgent::idle(), study, (80, 24)).await;
    harness.types("@").sees("module").await;
    let began = Instant::now();
    harness.types("ndlmd").sees("docs/needle.md").await;
    // Generous for a busy machine and a debug build; without a separate thread it takes far longer.
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
