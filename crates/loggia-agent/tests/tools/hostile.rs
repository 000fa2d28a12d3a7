//! Unusual files (A29): each call ends quickly, with a reason.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fixture::Fixture;
use crate::{alone, resident};

/// A call that must be quick and use little memory.
async fn quick(fixture: &mut Fixture, tool: &str, input: serde_json::Value) -> String {
    let (before, start) = (resident(), Instant::now());
    let outcome = fixture.call(tool, input.clone()).await;
    let (time, grown) = (start.elapsed(), resident().saturating_sub(before));
    assert!(time < Duration::from_secs(2), "{tool} {input}: {time:?}");
    assert!(grown < 32 << 20, "{tool} {input}: {grown} bytes more");
    outcome.summary().to_owned()
}

async fn everywhere(fixture: &mut Fixture, path: &str) -> String {
    quick(fixture, "list_directory", json!({})).await;
    quick(fixture, "glob", json!({ "pattern": "**" })).await;
    quick(fixture, "search_file_content", json!({ "pattern": "needle" })).await;
    quick(fixture, "read_file", json!({ "path": path })).await
}

#[tokio::test]
async fn a_named_pipe_does_not_block() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    make_pipe(&fixture.root().join("pipe"));
    let text = everywhere(&mut fixture, "pipe").await;
    assert!(text.contains("a named pipe"), "{text}");
    let text = quick(&mut fixture, "write_file", json!({ "path": "pipe", "content": "x" })).await;
    assert!(text.contains("a named pipe"), "{text}");
}

fn make_pipe(path: &std::path::Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
}

#[tokio::test]
async fn an_endless_device_is_not_read() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    symlink("/dev/zero", fixture.root().join("zero")).unwrap();
    let text = everywhere(&mut fixture, "zero").await;
    assert!(text.contains("outside the workspace"), "{text}");
}

#[tokio::test]
async fn a_sparse_terabyte_is_binary() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    let file = fs::File::create(fixture.root().join("sparse")).unwrap();
    // Some file systems do not support a file of a terabyte.
    let size = [1_u64 << 40, 1 << 34].into_iter().find(|size| file.set_len(*size).is_ok()).unwrap();
    let text = everywhere(&mut fixture, "sparse").await;
    assert!(text.contains(&format!("a binary file of {size} bytes")), "{text}");
    let text = quick(&mut fixture, "write_file", json!({ "path": "sparse", "content": "x" })).await;
    assert!(text.contains("bytes; the limit is"), "{text}");
}

#[tokio::test]
async fn one_enormous_line_is_cut() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    fixture.put("line", vec![b'x'; 64 << 20]);
    let text = everywhere(&mut fixture, "line").await;
    assert!(text.ends_with("[line 1 is cut here: one call returns at most 1048576 bytes]"));
    assert!(text.len() < (1 << 20) + 200);
    let text = quick(&mut fixture, "search_file_content", json!({ "pattern": "needle" })).await;
    assert!(text.contains("1 file left out: unreadable, or a line is longer than 4 MiB"), "{text}");
    let text = quick(&mut fixture, "read_file", json!({ "path": "line", "offset": 2 })).await;
    // The result depends on how much could be read in time.
    let said = ["has only 1 line:", "too far into the file"];
    assert!(said.iter().any(|said| text.contains(said)), "{text}");
}

#[tokio::test]
async fn a_line_far_into_a_large_file_is_found_or_refused_in_time() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    fixture.put("large", "0123456789abcde\n".repeat(4 << 20));
    let text = quick(
        &mut fixture,
        "read_file",
        json!({ "path": "large", "offset": 4_000_000, "limit": 1 }),
    )
    .await;
    assert!(
        text.starts_with("0123456789abcde\n[") || text.contains("too far into the file"),
        "{text}"
    );
}

#[tokio::test]
async fn names_with_line_breaks_stay_on_their_line() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    fixture.put("a\nfake.rs (3 bytes)\u{1b}[2J", "needle");
    let text = quick(&mut fixture, "list_directory", json!({})).await;
    assert_eq!(text, "a\\nfake.rs (3 bytes)\\u{1b}[2J (6 bytes)\n");
    let text = quick(&mut fixture, "search_file_content", json!({ "pattern": "needle" })).await;
    assert!(text.starts_with("a\\nfake.rs (3 bytes)\\u{1b}[2J:1:needle\n"), "{text}");
    let text = quick(&mut fixture, "glob", json!({ "pattern": "**" })).await;
    assert_eq!(text, "a\\nfake.rs (3 bytes)\\u{1b}[2J\n");
}

#[tokio::test]
async fn a_long_name_is_refused() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    for name in ["x".repeat(300), "x".repeat(5000)] {
        let failure = fixture.fail("write_file", json!({ "path": name, "content": "" })).await;
        assert_eq!(failure.kind, "invalid_path", "{}", failure.message);
        assert!(failure.message.len() < 400);
    }
}

#[tokio::test]
async fn deep_directories_are_counted_and_not_entered() {
    let _alone = alone().await;
    let mut fixture = Fixture::open().await;
    let deep = "d/".repeat(150);
    fixture.put(&format!("{deep}x"), "needle");
    let text = quick(&mut fixture, "search_file_content", json!({ "pattern": "needle" })).await;
    assert!(text.contains("1 directory could not be entered"), "{text}");
}
