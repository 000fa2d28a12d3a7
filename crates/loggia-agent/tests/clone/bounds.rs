//! How much a copy may be, where in it a session may work, and a machine that has no git.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use loggia_agent::clone::{copies, remove_copy};
use loggia_core::Repository;

use crate::stage::{self, Origin, Stage, git};

#[tokio::test]
async fn files_and_bytes_are_counted_before_they_are_written() {
    let origin = Origin::new();
    for number in 0..50 {
        origin.put(&format!("many/{number}"), "x");
    }
    // Nothing to send, much to write.
    origin.put("large", "a".repeat(3 << 20));
    origin.commit("many");
    type Change = fn(&mut loggia_agent::clone::CloneLimits);
    let table: [(Change, &str); 4] = [
        (|limits| limits.files = 20, "more than 20 files"),
        (|limits| limits.bytes = 2 << 20, "the limit is 2.0 MiB"),
        (|limits| limits.total_bytes = 2 << 20, "the limit is 2.0 MiB"),
        (|limits| limits.count = 0, "which is the limit"),
    ];
    for (change, why) in table {
        let stage = Stage::with(|config| change(&mut config.limits));
        let failure = stage.open(&origin.repository()).await.fails("say there").await;
        assert!(failure.contains(why), "{failure}");
        assert_eq!(stage.kept(), Vec::<String>::new());
    }
    // Together.
    let stage = Stage::with(|config| config.limits.total_bytes = 5 << 20);
    assert_eq!(stage.open(&origin.repository()).await.turn("say a").await.failure, None);
    let failure = stage.open(&origin.repository()).await.fails("say b").await;
    assert!(failure.contains("the repository is too large: the limit is"), "{failure}");
    assert_eq!(stage.kept().len(), 2);
    let stage = Stage::with(|config| config.limits.count = 1);
    let mut first = stage.open(&origin.repository()).await;
    assert_eq!(first.turn("say a").await.failure, None);
    let failure = stage.open(&origin.repository()).await.fails("say b").await;
    assert!(failure.contains("1 repositories are already cloned here"), "{failure}");
    assert_eq!(copies(&stage.clones()).unwrap(), [first.path.clone()]);
    remove_copy(&first.path).unwrap();
    assert_eq!(stage.kept(), Vec::<String>::new());
}

/// Remotes that never answer take half of the places at most: whoever else comes is served at once.
#[tokio::test]
async fn one_client_with_hanging_remotes_keeps_nobody_waiting() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let hanging = stage::repository(format!("http://localhost:{port}/repo.git"));
    let origin = Origin::new();
    let stage = Stage::new();
    let mut stuck = Vec::new();
    let mut told = Vec::new();
    for _ in 0..5 {
        let mut session = stage.open_as(Some("ann"), &hanging).await;
        session.prompt("say there").await;
        told.push(session.notice().await);
        stuck.push(session);
    }
    let cloning = told.iter().filter(|notice| notice.starts_with("Cloning ")).count();
    assert_eq!(cloning, 2, "{told:?}");
    assert!(told[4].starts_with("Waiting until one of your other"), "{told:?}");
    let mut other = stage.open_as(Some("ben"), &origin.repository()).await;
    let ended = other.turn("say there").await;
    assert_eq!(ended.failure, None);
    assert!(!ended.notices.iter().any(|notice| notice.starts_with("Waiting")), "{ended:?}");
    // A place that is given back goes to whoever waits longest.
    stuck[0].cancel().await;
    assert!(stuck[2].notice().await.starts_with("Cloning "));
    for session in &stuck[1..] {
        session.cancel().await;
    }
}

/// Ten to the power of ten files in a dozen small objects.
#[tokio::test]
async fn a_bomb_is_not_set_off() {
    let origin = Origin::empty();
    origin.put("a", "x");
    origin.commit("one");
    let mut entry = format!("100644 blob {}", origin.git(&["rev-parse", "HEAD:a"]));
    for _ in 0..10 {
        let mut tree = String::new();
        for name in 0..10 {
            writeln!(tree, "{entry}\tf{name}").unwrap();
        }
        let mut child = Command::new("git")
            .args(["mktree"])
            .current_dir(origin.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(tree.as_bytes()).unwrap();
        let made = child.wait_with_output().unwrap();
        entry = format!("040000 tree {}", String::from_utf8(made.stdout).unwrap().trim());
    }
    let tree = entry.rsplit(' ').next().unwrap().to_owned();
    let commit = origin.git(&["commit-tree", &tree, "-m", "bomb"]);
    origin.git(&["update-ref", "refs/heads/main", &commit]);
    let stage = Stage::new();
    let failure = stage.open(&origin.repository()).await.fails("say there").await;
    assert!(failure.contains("more than 200000 files"), "{failure}");
    assert_eq!(stage.kept(), Vec::<String>::new());
}

/// A28: what a client names is a directory of the copy, or the turn fails.
#[tokio::test]
async fn only_a_directory_of_the_copy_is_worked_in() {
    let origin = Origin::new();
    origin.put("deep/inside/x", "x");
    std::os::unix::fs::symlink("/etc", origin.path().join("out")).unwrap();
    std::os::unix::fs::symlink("src", origin.path().join("within")).unwrap();
    origin.commit("links");
    let stage = Stage::new();
    let long = "x".repeat(5000);
    let deep = "y/".repeat(2500);
    let table = [
        "../..",
        "..",
        "/etc",
        "a/../../b",
        "src/..",
        "out",
        "within",
        "out/ssh",
        "README.md",
        "missing",
        ".git/../..",
        ".git",
        ".git/hooks",
        "./.GIT",
        "a\0b",
        "a\nb",
        &long,
        &deep,
    ];
    for directory in table {
        let asked = Repository { directory: Some(directory.to_owned()), ..origin.repository() };
        let mut session = stage.open(&asked).await;
        let failure = session.fails("write new.txt: x").await;
        assert!(failure.len() < 600 && !failure.contains('\0'), "{failure}");
        assert_eq!(stage.kept(), Vec::<String>::new(), "{directory}: {failure}");
    }
    assert!(!std::path::Path::new("/etc/new.txt").exists());
    for directory in ["deep/inside", "./src", "src/", "."] {
        let asked = Repository { directory: Some(directory.to_owned()), ..origin.repository() };
        let mut session = stage.open(&asked).await;
        assert_eq!(session.turn("write new.txt: x").await.failure, None, "{directory}");
        assert_eq!(session.file(&format!("{directory}/new.txt")), "x\n");
        // Replaced by a link to elsewhere, it is no longer worked in.
        if directory == "deep/inside" {
            std::fs::remove_dir_all(session.path.join(directory)).unwrap();
            std::os::unix::fs::symlink("/etc", session.path.join(directory)).unwrap();
            let ended = session.turn("write new.txt: y").await;
            assert!(ended.failure.is_some(), "{ended:?}");
        }
    }
}

#[tokio::test]
async fn without_git_there_is_a_sentence() {
    let origin = Origin::new();
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_owned();
    let stage = Stage::with(|config| config.env = vec![("PATH".into(), path.clone().into())]);
    let failure = stage.open(&origin.repository()).await.fails("say there").await;
    assert!(failure.contains("git is not installed"), "{failure}");
    // A program of an old version is not asked for more.
    std::fs::write(path.join("git"), "#!/bin/sh\necho git version 2.30.2\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path.join("git"), mode).unwrap();
    let stage = Stage::with(|config| config.env = vec![("PATH".into(), path.into())]);
    let failure = stage.open(&origin.repository()).await.fails("say there").await;
    assert!(failure.contains("must be version 2.37 or newer"), "{failure}");
    assert_eq!(git(origin.path().as_path(), &["status", "--porcelain"]), "");
}
