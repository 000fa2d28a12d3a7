//! No path leads out of the workspace (A26, A27), and only approved content is written (A17, R25).

use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use loggia_agent::tool::write::{apply, propose_write};
use loggia_agent::workspace::{WalkLimits, Workspace, WorkspacePath};
use loggia_core::{CallFailure, CallOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fixture::Fixture;

/// A call of every tool that takes a path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({ "path": path })),
        ("write_file", json!({ "path": path, "content": "x" })),
        ("replace", json!({ "path": path, "old_string": "secret", "new_string": "x" })),
        ("list_directory", json!({ "path": path })),
        ("glob", json!({ "pattern": "**", "path": path })),
        ("search_file_content", json!({ "pattern": "secret", "path": path })),
        ("run_shell_command", json!({ "command": "cat *", "directory": path })),
        ("publish_artifact", json!({ "name": "x", "path": path })),
    ]
}

#[tokio::test]
async fn a_link_to_a_directory_outside_leads_nowhere() {
    let mut fixture = Fixture::open().await;
    fs::write(fixture.outside().join("secret.txt"), "secret").unwrap();
    symlink(fixture.outside(), fixture.root().join("d")).unwrap();
    symlink("..", fixture.root().join("relative")).unwrap();
    for link in ["d", "relative"] {
        for (tool, input) in calls(&format!("{link}/secret.txt")).into_iter().chain(calls(link)) {
            let failure = fixture.fail(tool, input.clone()).await;
            let expected = ["outside_workspace", "symlink", "not_a_file"];
            assert!(expected.contains(&failure.kind.as_str()), "{tool} {input}: {failure:?}");
        }
    }
    let text = fixture.text("search_file_content", json!({ "pattern": "secret" })).await;
    assert_eq!(text, "[no line in . matches `secret`]\n");
    assert_eq!(fs::read_to_string(fixture.outside().join("secret.txt")).unwrap(), "secret");
}

#[tokio::test]
async fn names_that_only_look_like_the_workspace_are_outside() {
    let mut fixture = Fixture::open().await;
    let twin = fixture.outside().join("w-secret");
    fs::create_dir(&twin).unwrap();
    fs::write(twin.join("x"), "secret").unwrap();
    let (root, outside) = (fixture.root(), fixture.outside());
    let (root, outside) = (root.to_str().unwrap(), outside.to_str().unwrap());
    for path in [
        format!("{outside}/w-secret/x"),
        format!("{root}/../w-secret/x"),
        format!("{outside}/W/.."),
        format!("{outside}/W/x"),
        format!("file://{root}/%2e%2e/x"),
        format!("{root}/a\0b"),
        "../w-secret/x".into(),
        "a/../../w-secret/x".into(),
        "..".into(),
        "/".into(),
        "/proc/self/environ".into(),
        "/proc/self/root/etc/passwd".into(),
        "~/x".into(),
        String::new(),
    ] {
        for (tool, input) in calls(&path) {
            let failure = fixture.fail(tool, input).await;
            let expected = ["outside_workspace", "invalid_path"];
            assert!(expected.contains(&failure.kind.as_str()), "{tool} {path:?}: {failure:?}");
        }
    }
    assert_eq!(fs::read_to_string(twin.join("x")).unwrap(), "secret");
}

#[tokio::test]
async fn absolute_paths_inside_are_inside() {
    let mut fixture = Fixture::open().await;
    fixture.put("a/x", "found");
    let path = fixture.root().join("a/x");
    assert_eq!(fixture.text("read_file", json!({ "path": path })).await, "found");
    fixture.succeed("write_file", json!({ "path": path, "content": "new" })).await;
    assert_eq!(fixture.file("a/x"), "new");
}

#[test]
fn files_of_procfs_are_not_read() {
    let workspace = Workspace::open(Path::new("/")).unwrap();
    let windows = ["/proc/self/environ", "/proc/cpuinfo", "/proc/self/root/etc/passwd"];
    for path in windows.into_iter().chain(["/dev/zero", "/dev/null", "/etc"]) {
        let located = workspace.locate(path).unwrap();
        let error = workspace.open_file(&located).err().unwrap();
        // Denied before its kind is known, if this process may not inspect itself.
        let expected = ["not_a_file", "symlink", "denied"];
        assert!(expected.contains(&error.kind.name()), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_hard_link_is_written_under_its_own_name_only() {
    let mut fixture = Fixture::open().await;
    let foreign = fixture.outside().join("foreign");
    fs::write(&foreign, "theirs").unwrap();
    fs::hard_link(&foreign, fixture.root().join("x")).unwrap();
    fixture.succeed("write_file", json!({ "path": "x", "content": "ours" })).await;
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "theirs");
    assert_eq!(fixture.file("x"), "ours");
}

#[tokio::test]
async fn a_link_is_read_but_not_written() {
    let mut fixture = Fixture::open().await;
    fixture.put("real", "found");
    symlink("real", fixture.root().join("link")).unwrap();
    assert_eq!(fixture.text("read_file", json!({ "path": "link" })).await, "found");
    let failure = fixture.fail("write_file", json!({ "path": "link", "content": "x" })).await;
    assert_eq!(failure.kind, "symlink");
    assert_eq!(fixture.file("real"), "found");
}

/// A26 (2): a thread keeps replacing a file by a link out of the workspace.
#[test]
fn replacing_files_by_links_reads_and_writes_nothing_outside() {
    const ROUNDS: usize = 10_000;
    // In memory if possible, because a race needs speed.
    let outside = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let root = outside.path().join("w");
    fs::create_dir_all(root.join("a")).unwrap();
    fs::create_dir_all(outside.path().join("b")).unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    fs::write(outside.path().join("b/x"), "secret").unwrap();
    let workspace = Workspace::open(&root).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let started = Arc::new(Barrier::new(2));
    let flips = Arc::new(AtomicUsize::new(0));
    let flipper = {
        let (root, done, started) = (root.clone(), Arc::clone(&done), Arc::clone(&started));
        let flips = Arc::clone(&flips);
        std::thread::spawn(move || {
            started.wait();
            while !done.load(Ordering::Relaxed) {
                // The file becomes a link out, then its directory does, then both are restored.
                let scratch = root.join("scratch");
                let _ = symlink("../../secret", &scratch);
                let _ = fs::rename(&scratch, root.join("a/x"));
                // A write may create the directory again while it is renamed.
                let _ = fs::remove_dir_all(root.join("away"));
                let _ = fs::rename(root.join("a"), root.join("away"));
                if symlink("../b", root.join("a")).is_ok() {
                    let _ = fs::remove_file(root.join("a"));
                }
                let _ = fs::rename(root.join("away"), root.join("a"));
                let _ = fs::write(&scratch, "inside");
                let _ = fs::rename(&scratch, root.join("a/x"));
                flips.fetch_add(1, Ordering::Relaxed);
                let good = Instant::now();
                while good.elapsed() < Duration::from_micros(100) {
                    std::hint::spin_loop();
                }
            }
        })
    };
    started.wait();
    let (mut reads, mut writes, mut refused) = (0, 0, 0);
    let begun = Instant::now();
    let (mut rounds, mut walked) = (0, 0);
    let flipped = || flips.load(Ordering::Relaxed);
    while rounds < ROUNDS || flipped() < 1000 || reads < 1000 || writes < 1000 {
        rounds += 1;
        assert!(begun.elapsed() < Duration::from_secs(120), "{reads} reads, {writes} writes");
        let located = workspace.locate("a/x").unwrap();
        match workspace.open_file(&located).and_then(|mut file| file.read_whole(&located, 100)) {
            Ok(bytes) => {
                assert_ne!(bytes, b"secret", "a foreign file was read");
                reads += 1;
            }
            Err(_) => refused += 1,
        }
        let written = propose_write(&workspace, "a/x", "written").and_then(|diff| {
            assert_ne!(diff.old.as_deref(), Some("secret"), "a foreign file was shown");
            apply(&workspace, diff)
        });
        match written {
            Ok(_) => writes += 1,
            Err(_) => refused += 1,
        }
        if rounds % 10 == 0 {
            walked += walk_without_secrets(&workspace);
        }
    }
    done.store(true, Ordering::Relaxed);
    flipper.join().unwrap();
    println!("{rounds} rounds: {reads} reads, {writes} writes, {refused} refused, {flips:?} flips");
    assert!(refused > 0 && walked > 0, "the race took place");
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(outside.path().join("b/x")).unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path().join("b")).unwrap().count(), 1, "nothing was created");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 3, "nothing was created");
}

fn walk_without_secrets(workspace: &Workspace) -> usize {
    let deadline = Instant::now() + Duration::from_secs(10);
    let limits = WalkLimits { entries: 1000, deadline, stop: CancellationToken::new() };
    let mut files = 0;
    let walked = workspace.walk(&WorkspacePath::root(), &limits, &mut |entry| {
        let mut content = String::new();
        if let Some(mut file) = entry.open() {
            file.read_to_string(&mut content).unwrap();
            files += 1;
        }
        assert_ne!(content, "secret", "a foreign file was found at {}", entry.path.display());
        ControlFlow::Continue(())
    });
    walked.map_or(0, |_| files)
}

/// A17: something changes while an edit waits for approval; then it is approved.
async fn approved_after(prepare: impl Fn(&Path), change: impl Fn(&Path)) -> (Fixture, CallFailure) {
    let mut fixture = Fixture::asking().await;
    prepare(&fixture.root());
    fixture.start("write_file", json!({ "path": "d/a.txt", "content": "new" })).await;
    let (call, _) = fixture.question().await;
    change(&fixture.root());
    fixture.answer(&call, "proceed_once", None).await;
    match fixture.outcome().await {
        CallOutcome::Failed { failure } => (fixture, failure),
        other => panic!("{other:?}"),
    }
}

fn old_file(root: &Path) {
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/a.txt"), "old").unwrap();
}

#[tokio::test]
async fn an_edit_fails_when_the_bytes_changed() {
    let change = |root: &Path| fs::write(root.join("d/a.txt"), "OLD").unwrap();
    let (fixture, failure) = approved_after(old_file, change).await;
    assert_eq!(failure.kind, "changed_since_approval");
    assert_eq!(fixture.file("d/a.txt"), "OLD");
}

#[tokio::test]
async fn an_edit_fails_when_the_file_became_a_link() {
    let change = |root: &Path| {
        fs::write(root.join("../bashrc"), "old").unwrap();
        fs::remove_file(root.join("d/a.txt")).unwrap();
        symlink(root.join("../bashrc"), root.join("d/a.txt")).unwrap();
    };
    let (fixture, failure) = approved_after(old_file, change).await;
    assert_eq!(failure.kind, "changed_since_approval");
    assert_eq!(fs::read_to_string(fixture.outside().join("bashrc")).unwrap(), "old");
}

#[tokio::test]
async fn an_edit_fails_when_the_directory_was_renamed_or_became_a_link() {
    let change = |root: &Path| fs::rename(root.join("d"), root.join("e")).unwrap();
    let (fixture, failure) = approved_after(old_file, change).await;
    assert_eq!(failure.kind, "changed_since_approval");
    assert_eq!(fixture.file("e/a.txt"), "old");
    assert!(!fixture.root().join("d").exists());

    let change = |root: &Path| {
        fs::rename(root.join("d"), root.join("e")).unwrap();
        symlink("e", root.join("d")).unwrap();
    };
    let (fixture, failure) = approved_after(old_file, change).await;
    assert_eq!(failure.kind, "changed_since_approval");
    assert_eq!(fixture.file("e/a.txt"), "old");
}

#[tokio::test]
async fn a_new_file_does_not_replace_one_that_appeared_meanwhile() {
    let change = |root: &Path| old_file(root);
    let (fixture, failure) = approved_after(|_| {}, change).await;
    assert_eq!(failure.kind, "changed_since_approval");
    assert_eq!(fixture.file("d/a.txt"), "old");
}

/// R25: deleted, replaced or moved away, while a question is open and before a call.
#[tokio::test]
async fn a_removed_workspace_is_reported_and_nothing_is_created() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |root| fs::remove_dir_all(root).unwrap(),
        |root| fs::rename(root, root.with_extension("old")).unwrap(),
        |root| {
            fs::rename(root, root.with_extension("old")).unwrap();
            fs::create_dir(root).unwrap();
        },
    ];
    for change in changes {
        for (tool, input) in [
            ("write_file", json!({ "path": "d/a.txt", "content": "new" })),
            ("run_shell_command", json!({ "command": "touch created" })),
        ] {
            let mut fixture = Fixture::asking().await;
            fixture.start(tool, input).await;
            let (call, _) = fixture.question().await;
            change(&fixture.root());
            fixture.answer(&call, "proceed_once", None).await;
            let CallOutcome::Failed { failure } = fixture.outcome().await else { panic!("{tool}") };
            assert_eq!(failure.kind, "workspace_gone", "{tool}: {}", failure.message);
            assert!(failure.message.contains(fixture.root().to_str().unwrap()));
            let created = fs::read_dir(fixture.root()).map_or(0, Iterator::count);
            assert_eq!(created, 0, "{tool}");
        }
    }
}

#[test]
fn a_workspace_that_returns_is_used_again() {
    let outside = tempfile::tempdir().unwrap();
    let (root, away) = (outside.path().join("w"), outside.path().join("away"));
    fs::create_dir(&root).unwrap();
    fs::write(root.join("x"), "found").unwrap();
    let workspace = Workspace::open(&root).unwrap();
    let located = workspace.locate("x").unwrap();
    fs::rename(&root, &away).unwrap();
    assert_eq!(workspace.open_file(&located).err().unwrap().kind.name(), "workspace_gone");
    fs::rename(&away, &root).unwrap();
    assert!(workspace.open_file(&located).is_ok());
}

#[tokio::test]
async fn a_command_runs_in_the_directory_that_was_shown() {
    let mut fixture = Fixture::asking().await;
    fs::create_dir_all(fixture.root().join("real/inner")).unwrap();
    symlink("real", fixture.root().join("link")).unwrap();
    fixture
        .start("run_shell_command", json!({ "command": "pwd", "directory": "link/inner" }))
        .await;
    let (call, details) = fixture.question().await;
    let inner = fixture.root().join("real/inner");
    let shown = format!("{details:?}");
    assert!(shown.contains(inner.to_str().unwrap()), "{shown}");
    fs::rename(fixture.root().join("real"), fixture.root().join("gone")).unwrap();
    symlink(fixture.outside(), fixture.root().join("real")).unwrap();
    fixture.answer(&call, "proceed_once", None).await;
    let CallOutcome::Failed { failure } = fixture.outcome().await else { panic!() };
    assert_eq!(failure.kind, "symlink");
}
