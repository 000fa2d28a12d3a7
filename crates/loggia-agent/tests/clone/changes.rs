//! The clone, the work in it, and the published changes.

use std::os::unix::fs::PermissionsExt;

use loggia_core::Repository;

use crate::fixture::{Fixture, Origin, Session, git};

fn patched(origin: &Origin, revision: &str, patch: &[u8]) -> tempfile::TempDir {
    let fresh = tempfile::tempdir().unwrap();
    let file = fresh.path().join("p.patch");
    std::fs::write(&file, patch).unwrap();
    git(fresh.path(), &["clone", "-q", &origin.url(), "w"]);
    git(&fresh.path().join("w"), &["checkout", "-q", revision]);
    git(&fresh.path().join("w"), &["apply", file.to_str().unwrap()]);
    fresh
}

#[tokio::test]
async fn a_session_works_in_a_clone_and_publishes_its_changes() {
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    let first = session.turn("write src/new.rs: fn new() {}\nedit README.md: Two => Three").await;
    assert_eq!(first.failure, None, "{:?}", first.notices);
    assert!(first.cloned(), "{:?}", first.notices);
    assert_eq!(session.file("README.md"), "# Three\n");
    assert_eq!(std::fs::read_to_string(origin.path().join("README.md")).unwrap(), "# Two\n");
    let names: Vec<_> = first.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(names, ["output.txt", "changes.patch"]);
    let output = String::from_utf8(first.artifact("output.txt")).unwrap();
    assert!(first.said.ends_with(&output) && output.contains("README.md"), "{output}");
    let patch = first.patch();
    for line in ["+fn new() {}", "-# Two", "+# Three", "new file mode 100644"] {
        assert!(patch.contains(line), "{patch}");
    }
    let applied = patched(&origin, "main", patch.as_bytes());
    let read = |path: &str| std::fs::read_to_string(applied.path().join("w").join(path)).unwrap();
    assert_eq!(
        (read("README.md"), read("src/new.rs")),
        ("# Three\n".into(), "fn new() {}\n".into())
    );

    // The next turn uses the same clone and publishes all changes since the cloned commit. The lock file
    // of a killed git does not stop it.
    std::fs::write(session.path.with_extension("base").join("index.lock"), "").unwrap();
    std::fs::remove_dir_all(origin.path()).unwrap();
    let second = session
        .turn("run git -c user.name=A -c user.email=a@b commit -qam x\nrun rm src/lib.rs")
        .await;
    assert!(!second.cloned(), "{:?}", second.notices);
    let patch = second.patch();
    for line in ["+fn new() {}", "+# Three", "deleted file mode 100644"] {
        assert!(patch.contains(line), "{patch}");
    }
    assert_eq!(fixture.kept().len(), 2, "{:?}", fixture.kept());
}

#[tokio::test]
async fn an_unchanged_clone_is_reported_too() {
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    let ended = session.turn("say hello").await;
    assert_eq!(ended.patch(), "# Nothing was changed.\n");
    assert_eq!(ended.artifact("output.txt"), b"hello");
    let failed = session.turn("write a.txt: a\nfail on purpose").await;
    assert!(failed.failure.is_some());
    let patch = String::from_utf8(failed.artifact("changes.patch")).unwrap();
    assert!(patch.contains("a.txt"), "what a failed turn did is shown: {patch}");
}

/// The commit, the depth of its history, and the directory.
#[tokio::test]
async fn a_branch_a_tag_a_commit_and_a_directory() {
    let origin = Origin::new();
    let first = origin.git(&["rev-parse", "first"]);
    let side = origin.git(&["rev-parse", "side"]);
    let fixture = Fixture::new();
    let at = |revision: &str, shallow: bool| Repository {
        revision: Some(revision.to_owned()),
        shallow,
        ..origin.repository()
    };
    let table = [
        (at("main", false), "main", "2", "main"),
        (at("main", true), "main", "1", "main"),
        (at("side", false), "side", "3", "side"),
        (at("first", false), "first", "1", "HEAD"),
        (at(&first, false), "first", "1", "HEAD"),
        (at(&side, false), "side", "3", "HEAD"),
        (at(&side, true), "side", "1", "HEAD"),
        (Repository { shallow: true, ..origin.repository() }, "main", "1", "main"),
    ];
    for (repository, commit, history, head) in table {
        let mut session = fixture.open(&repository).await;
        let ended = session.turn("say there").await;
        assert_eq!(ended.failure, None, "{repository:?}");
        let found = |arguments: &[&str]| git(&session.path, arguments);
        assert_eq!(found(&["rev-parse", "HEAD"]), origin.git(&["rev-parse", commit]));
        assert_eq!(found(&["rev-list", "--count", "HEAD"]), history, "{repository:?}");
        assert_eq!(found(&["rev-parse", "--abbrev-ref", "HEAD"]), head, "{repository:?}");
        assert_eq!(found(&["status", "--porcelain"]), "", "{repository:?}");
    }
    let below = Repository { directory: Some("src".into()), ..origin.repository() };
    let mut session = fixture.open(&below).await;
    let ended = session.turn("write new.rs: x\nread ../README.md").await;
    assert_eq!(session.file("src/new.rs"), "x\n");
    assert!(ended.said.contains("outside the workspace"), "{}", ended.said);
    assert!(ended.patch().contains("src/new.rs"));

    for (revision, why) in [
        ("missing", "it has no branch or tag of that name"),
        (&"0".repeat(40), "it has no such commit"),
        ("0123abc", "it has no branch or tag of that name"),
    ] {
        let mut session = fixture.open(&at(revision, false)).await;
        let failure = session.fails("say there").await;
        assert!(failure.contains(why), "{revision}: {failure}");
    }
    let empty = Origin::empty();
    let failure = fixture.open(&empty.repository()).await.fails("say there").await;
    assert!(failure.contains("no commit to work on"), "{failure}");
}

async fn run(session: &mut Session, command: &str) -> Vec<u8> {
    let ended = session.turn(&format!("run {command}")).await;
    assert_eq!(ended.failure, None);
    ended.artifact("changes.patch")
}

/// Files with any content.
#[tokio::test]
async fn a_patch_holds_any_bytes() {
    let origin = Origin::new();
    origin.put("latin.txt", b"caf\xe9\n");
    origin.put("script.sh", "echo\n");
    origin.commit("more");
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    session.turn("say there").await;
    std::fs::write(session.path.join("latin.txt"), b"th\xe9\n").unwrap();
    std::fs::write(session.path.join("bytes.bin"), (0..=255).collect::<Vec<u8>>()).unwrap();
    std::fs::write(session.path.join("with \"quotes\"\n.txt"), "q\n").unwrap();
    std::fs::write(session.path.join("empty"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", session.path.join("link")).unwrap();
    let script = session.path.join("script.sh");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let patch = run(&mut session, "mkfifo pipe").await;
    let applied = patched(&origin, "main", &patch);
    let read = |path: &str| std::fs::read(applied.path().join("w").join(path)).unwrap();
    assert_eq!(read("latin.txt"), b"th\xe9\n");
    assert_eq!(read("bytes.bin"), (0..=255).collect::<Vec<u8>>());
    assert_eq!(read("with \"quotes\"\n.txt"), b"q\n");
    assert_eq!(read("empty"), b"");
    let link = std::fs::read_link(applied.path().join("w/link")).unwrap();
    assert_eq!(link.to_str(), Some("/etc/passwd"));
    let mode = applied.path().join("w/script.sh").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

#[tokio::test]
async fn files_that_do_not_fit_into_a_patch_are_left_out_and_named() {
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    session.turn("say there").await;
    std::fs::write(session.path.join("a.txt"), "a\n").unwrap();
    std::fs::write(session.path.join("b.txt"), "word\n".repeat(400_000)).unwrap();
    std::fs::write(session.path.join("c.txt"), "c\n").unwrap();
    let ended = session.turn("say large").await;
    let patch = ended.patch();
    assert!(
        patch.starts_with("# Left out: b.txt (larger than the limit of 1024 KiB)\n"),
        "{patch}"
    );
    assert!(
        patch.contains("diff --git a/a.txt") && patch.contains("diff --git a/c.txt"),
        "{patch}"
    );
    let told = |notice: &String| notice.contains("changes.patch leaves out b.txt");
    assert!(ended.notices.iter().any(told), "{:?}", ended.notices);
    patched(&origin, "main", patch.as_bytes());
}

/// A nested repository is left out; a clone without its git directory is reported.
#[tokio::test]
async fn a_failed_comparison_is_reported_in_the_patch() {
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    let nested = session.turn("run git init -q sub && echo hi > sub/f\nwrite a.txt: a").await;
    assert_eq!(nested.failure, None, "{:?}", nested.notices);
    let patch = nested.patch();
    assert!(patch.starts_with("# Left out: sub/ (nested repositories)\n"), "{patch}");
    assert!(patch.contains("diff --git a/a.txt"), "{patch}");
    let gone = session.turn("run rm -rf .git").await;
    assert_eq!(
        gone.patch(),
        "# the changes to the repository could not be read: the cloned commit no longer exists\n"
    );
}
