//! The limits of clones, the directories in which a session may work, and a machine without git.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use loggia_agent::clone::{list_clones, remove_clone};
use loggia_core::Repository;

use crate::fixture::{self, Fixture, Origin, git};

#[tokio::test]
async fn files_and_bytes_are_counted_before_they_are_written() {
    let origin = Origin::new();
    for number in 0..50 {
        origin.put(&format!("many/{number}"), "x");
    }
    // Small to send, large to write.
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
        let fixture = Fixture::with(|config| change(&mut config.limits));
        let failure = fixture.open(&origin.repository()).await.fails("say there").await;
        assert!(failure.contains(why), "{failure}");
        assert_eq!(fixture.kept(), Vec::<String>::new());
    }
    // The limit of all clones together.
    let fixture = Fixture::with(|config| config.limits.total_bytes = 5 << 20);
    assert_eq!(fixture.open(&origin.repository()).await.turn("say a").await.failure, None);
    let failure = fixture.open(&origin.repository()).await.fails("say b").await;
    assert!(failure.contains("the repository is too large: the limit is"), "{failure}");
    assert_eq!(fixture.kept().len(), 2);
    let fixture = Fixture::with(|config| config.limits.count = 1);
    let mut first = fixture.open(&origin.repository()).await;
    assert_eq!(first.turn("say a").await.failure, None);
    let failure = fixture.open(&origin.repository()).await.fails("say b").await;
    assert!(failure.contains("1 repositories are already cloned here"), "{failure}");
    assert_eq!(list_clones(&fixture.clones()).unwrap(), [first.path.clone()]);
    remove_clone(&first.path).unwrap();
    assert_eq!(fixture.kept(), Vec::<String>::new());
}

/// Remotes of one client that never answer use at most half of the slots, so others are served at once.
#[tokio::test]
async fn a_client_with_hanging_remotes_does_not_block_others() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let hanging = fixture::repository(format!("http://localhost:{port}/repo.git"));
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut stuck = Vec::new();
    let mut told = Vec::new();
    for _ in 0..5 {
        let mut session = fixture.open_as(Some("ann"), &hanging).await;
        session.prompt("say there").await;
        told.push(session.notice().await);
        stuck.push(session);
    }
    let cloning = told.iter().filter(|notice| notice.starts_with("Cloning ")).count();
    assert_eq!(cloning, 2, "{told:?}");
    assert!(told[4].starts_with("Waiting until one of your other"), "{told:?}");
    let mut other = fixture.open_as(Some("ben"), &origin.repository()).await;
    let ended = other.turn("say there").await;
    assert_eq!(ended.failure, None);
    assert!(!ended.notices.iter().any(|notice| notice.starts_with("Waiting")), "{ended:?}");
    // A released slot goes to the clone that has waited longest.
    stuck[0].cancel().await;
    assert!(stuck[2].notice().await.starts_with("Cloning "));
    for session in &stuck[1..] {
        session.cancel().await;
    }
}

/// A repository of a dozen small objects with ten billion files.
#[tokio::test]
async fn a_repository_with_too_many_files_is_not_checked_out() {
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
    let fixture = Fixture::new();
    let failure = fixture.open(&origin.repository()).await.fails("say there").await;
    assert!(failure.contains("more than 200000 files"), "{failure}");
    assert_eq!(fixture.kept(), Vec::<String>::new());
}

/// A28: the turn fails unless the client names a directory of the clone.
#[tokio::test]
async fn a_session_works_only_in_a_directory_of_the_clone() {
    let origin = Origin::new();
    origin.put("deep/inside/x", "x");
    std::os::unix::fs::symlink("/etc", origin.path().join("out")).unwrap();
    std::os::unix::fs::symlink("src", origin.path().join("within")).unwrap();
    origin.commit("links");
    let fixture = Fixture::new();
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
        let mut session = fixture.open(&asked).await;
        let failure = session.fails("write new.txt: x").await;
        assert!(failure.len() < 600 && !failure.contains('\0'), "{failure}");
        assert_eq!(fixture.kept(), Vec::<String>::new(), "{directory}: {failure}");
    }
    assert!(!std::path::Path::new("/etc/new.txt").exists());
    for directory in ["deep/inside", "./src", "src/", "."] {
        let asked = Repository { directory: Some(directory.to_owned()), ..origin.repository() };
        let mut session = fixture.open(&asked).await;
        assert_eq!(session.turn("write new.txt: x").await.failure, None, "{directory}");
        assert_eq!(session.file(&format!("{directory}/new.txt")), "x\n");
        // Replaced by a link out of the clone, it is refused.
        if directory == "deep/inside" {
            std::fs::remove_dir_all(session.path.join(directory)).unwrap();
            std::os::unix::fs::symlink("/etc", session.path.join(directory)).unwrap();
            let ended = session.turn("write new.txt: y").await;
            assert!(ended.failure.is_some(), "{ended:?}");
        }
    }
}

#[tokio::test]
async fn missing_git_is_reported() {
    let origin = Origin::new();
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_owned();
    let fixture = Fixture::with(|config| config.env = vec![("PATH".into(), path.clone().into())]);
    let failure = fixture.open(&origin.repository()).await.fails("say there").await;
    assert!(failure.contains("git is not installed"), "{failure}");
    // An old version of git is refused.
    std::fs::write(path.join("git"), "#!/bin/sh\necho git version 2.30.2\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path.join("git"), mode).unwrap();
    let fixture = Fixture::with(|config| config.env = vec![("PATH".into(), path.into())]);
    let failure = fixture.open(&origin.repository()).await.fails("say there").await;
    assert!(failure.contains("must be version 2.37 or newer"), "{failure}");
    assert_eq!(git(origin.path().as_path(), &["status", "--porcelain"]), "");
}
