//! Finding files and lines, within limits.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use loggia_agent::workspace::{WalkEnd, WalkLimits, Workspace, WorkspacePath};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fixture::Fixture;

async fn tree() -> Fixture {
    let fixture = Fixture::open().await;
    fixture.put("src/main.rs", "fn main() {}\n// needle one\n");
    fixture.put("src/deep/lib.rs", "needle two\r\n");
    fixture.put("notes.md", "needle three\n");
    fixture.put("target/out.rs", "needle ignored\n");
    fixture.put(".gitignore", "target/\n*.log\n");
    fixture.put("x.log", "needle ignored\n");
    fixture.put(".git/config", "needle ignored\n");
    fixture.put(".hidden", "needle four\n");
    fixture.put("src/.ignore", "secret.rs\n");
    fixture.put("src/secret.rs", "needle ignored\n");
    fixture
}

#[tokio::test]
async fn lines_are_found_and_ignored_files_are_not() {
    let mut fixture = tree().await;
    let text = fixture.text("search_file_content", json!({ "pattern": "needle" })).await;
    assert_eq!(
        text,
        ".hidden:1:needle four\nnotes.md:1:needle three\nsrc/deep/lib.rs:1:needle two\n\
         src/main.rs:2:// needle one\n[4 matches in 4 files]\n"
    );
    let input = json!({ "pattern": "needle", "include": "*.rs" });
    let text = fixture.text("search_file_content", input).await;
    assert_eq!(text.lines().count(), 3, "{text}");
    let input = json!({ "pattern": "needle", "path": "src" });
    let text = fixture.text("search_file_content", input).await;
    assert!(text.starts_with("src/deep/lib.rs:1:needle two\nsrc/main.rs:2:"), "{text}");
    let input = json!({ "pattern": "^needle (three|none)$", "path": "notes.md" });
    let text = fixture.text("search_file_content", input).await;
    assert_eq!(text, "notes.md:1:needle three\n[1 match in 1 file]\n");
    let text = fixture.text("search_file_content", json!({ "pattern": "absent" })).await;
    assert_eq!(text, "[no line in . matches `absent`]\n");
}

#[tokio::test]
async fn files_are_found_by_pattern() {
    let mut fixture = tree().await;
    for (input, found) in [
        (json!({ "pattern": "**/*.rs" }), "src/deep/lib.rs\nsrc/main.rs\n"),
        (json!({ "pattern": "*.md" }), "notes.md\n"),
        (json!({ "pattern": "*.rs" }), "[no file in . matches `*.rs`]\n"),
        (json!({ "pattern": "*.rs", "path": "src" }), "src/main.rs\n"),
        (json!({ "pattern": "**/*.{md,log}" }), "notes.md\n"),
        (json!({ "pattern": "*.rs", "path": "target" }), "target/out.rs\n"),
    ] {
        assert_eq!(fixture.text("glob", input.clone()).await, found, "{input}");
    }
}

#[tokio::test]
async fn results_are_bounded_and_say_so() {
    let mut fixture = Fixture::open().await;
    fixture.put("many", "needle\n".repeat(2000));
    let text = fixture.text("search_file_content", json!({ "pattern": "needle" })).await;
    assert_eq!(text.lines().filter(|line| line.starts_with("many:")).count(), 500);
    assert!(text.contains("only the first 500 are shown"), "{}", text.len());
    fixture.put("many", format!("{}needle\n", "x".repeat(390)).repeat(2000));
    let text = fixture.text("search_file_content", json!({ "pattern": "needle" })).await;
    assert!(text.len() < 257 * 1024, "{}", text.len());
    for number in 0..600 {
        fixture.put(&format!("files/{number}"), "");
    }
    let text = fixture.text("glob", json!({ "pattern": "files/*" })).await;
    assert!(text.ends_with("[only the first 500 are shown: narrow the pattern or the path]\n"));
}

#[test]
fn a_walk_ends_at_its_limits() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..100 {
        let path = directory.path().join(format!("d{}", number % 10));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(number.to_string()), "").unwrap();
    }
    let workspace = Workspace::open(directory.path()).unwrap();
    let later = Instant::now() + Duration::from_secs(60);
    let walk = |entries, deadline, stop| {
        let mut seen = 0;
        let limits = WalkLimits { entries, deadline, stop };
        let walked = workspace.walk(&WorkspacePath::root(), &limits, &mut |_| {
            seen += 1;
            ControlFlow::Continue(())
        });
        (walked.unwrap().end, seen)
    };
    let stopped = CancellationToken::new();
    stopped.cancel();
    assert_eq!(walk(1000, later, CancellationToken::new()), (WalkEnd::Complete, 100));
    assert_eq!(walk(50, later, CancellationToken::new()), (WalkEnd::Entries, 40));
    assert_eq!(walk(1000, Instant::now(), CancellationToken::new()), (WalkEnd::Time, 0));
    assert_eq!(walk(1000, later, stopped), (WalkEnd::Stopped, 0));
}

#[tokio::test]
async fn a_long_line_is_cut_around_its_match() {
    let mut fixture = Fixture::open().await;
    fixture.put("long", format!("{}needle{}\n", "é".repeat(5000), "z".repeat(5000)));
    let text = fixture.text("search_file_content", json!({ "pattern": "needle" })).await;
    assert!(text.contains("needle") && text.contains("… [line of 15006 bytes]"), "{text}");
    assert!(text.len() < 700 && !text.contains('\u{fffd}'), "{text}");
}

#[tokio::test]
async fn binary_files_are_left_out() {
    let mut fixture = Fixture::open().await;
    fixture.put("binary", b"\0needle\n");
    let text = fixture.text("search_file_content", json!({ "pattern": "needle" })).await;
    assert_eq!(text, "[no line in . matches `needle`]\n");
}
