//! A31: repositories and clones that try to run programs.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fixture::{Fixture, Origin, git, repository};

/// A program that creates a file.
fn marker(directory: &Path) -> (String, std::path::PathBuf) {
    let (program, mark) = (directory.join("evil"), directory.join("PWNED"));
    let script = format!("#!/bin/sh\ntouch {}\ncat\n", mark.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (program.display().to_string(), mark)
}

/// Every kind of program that a repository can configure.
#[tokio::test]
async fn no_program_of_a_repository_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (program, mark) = marker(directory.path());
    let origin = Origin::new();
    origin.put(
        ".gitattributes",
        "* filter=evil diff=evil merge=evil\n*.u working-tree-encoding=UTF-16\n* ident\n",
    );
    origin.put(".gitmodules", format!("[submodule \"s\"]\n\tpath = s\n\turl = {}\n", origin.url()));
    origin.put(".gitconfig", format!("[core]\n\tfsmonitor = {program}\n"));
    origin.put("hooks/post-checkout", format!("#!/bin/sh\n{program}\n"));
    origin.put(".lfsconfig", "[lfs]\n\turl = https://evil.example\n");
    std::os::unix::fs::symlink(".git", origin.path().join("dotgit")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", origin.path().join("passwd")).unwrap();
    // In the origin.
    for (name, value) in [
        ("filter.evil.clean", program.as_str()),
        ("filter.evil.smudge", &program),
        ("diff.evil.textconv", &program),
        ("core.fsmonitor", &program),
        ("uploadpack.packObjectsHook", &program),
    ] {
        origin.git(&["config", name, value]);
    }
    let hook = origin.path().join(".git/hooks/post-upload-pack");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::copy(&program, &hook).unwrap();
    let tree = origin.git(&["-c", "core.fsmonitor=", "-c", "filter.evil.clean=cat", "add", "-A"]);
    assert_eq!(tree, "");
    let gitlink = format!("160000,{},s", origin.git(&["rev-parse", "HEAD"]));
    origin.git(&["-c", "core.fsmonitor=", "update-index", "--add", "--cacheinfo", &gitlink]);
    origin.git(&["-c", "core.fsmonitor=", "commit", "-q", "-m", "evil"]);
    let _ = std::fs::remove_file(&mark);
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    let ended = session.turn("write a.rs: new\nread passwd\nread dotgit/config").await;
    assert_eq!(ended.failure, None, "{ended:?}");
    assert!(!mark.exists(), "the repository ran something");
    assert!(ended.patch().contains("a.rs"));
    assert!(!ended.said.contains("root:"), "a link led out: {}", ended.said);
    assert!(session.path.join("s").read_dir().unwrap().next().is_none(), "no submodules");
}

/// Configuration that a tool has written into the clone's `.git`.
#[tokio::test]
async fn no_program_of_a_changed_clone_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (program, mark) = marker(directory.path());
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    assert_eq!(session.turn("say there").await.failure, None);
    for (name, value) in [
        ("core.fsmonitor", program.as_str()),
        ("core.sshCommand", &program),
        ("core.editor", &program),
        ("core.pager", &program),
        ("core.hooksPath", "evil-hooks"),
        ("diff.external", &program),
        ("diff.evil.textconv", &program),
        ("diff.evil.command", &program),
        ("filter.evil.clean", &program),
        ("filter.evil.process", &program),
        ("filter.evil.required", "true"),
        ("core.worktree", "/etc"),
        ("core.alternateRefsCommand", &program),
    ] {
        git(&session.path, &["config", "-f", ".git/config", name, value]);
    }
    std::fs::write(session.path.join(".gitattributes"), "* filter=evil diff=evil\n").unwrap();
    std::fs::create_dir_all(session.path.join(".git/info")).unwrap();
    std::fs::write(session.path.join(".git/info/attributes"), "* filter=evil diff=evil\n").unwrap();
    for directory in [".git/hooks", "evil-hooks"] {
        std::fs::create_dir_all(session.path.join(directory)).unwrap();
        for hook in ["post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"] {
            std::fs::copy(&program, session.path.join(directory).join(hook)).unwrap();
        }
    }
    // A nested repository with its own configuration.
    let nested = session.path.join("nested");
    std::fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    git(&nested, &["commit", "-q", "--allow-empty", "-m", "n"]);
    git(&nested, &["config", "core.fsmonitor", &program]);
    std::fs::write(session.path.join("README.md"), "# Changed\n").unwrap();
    let ended = session.turn("say changed").await;
    assert!(ended.patch().contains("+# Changed"), "{}", ended.patch());
    assert!(!mark.exists(), "the clone ran something");
    // Checks the test: git with that configuration creates the file.
    let _ = Command::new("git")
        .args(["-c", "core.worktree=", "status"])
        .current_dir(&session.path)
        .output()
        .unwrap();
    assert!(mark.exists(), "the test tests nothing");
}

/// CVE-2025-48384: the path of a submodule that ends in a carriage return, and other strange ones.
#[tokio::test]
async fn submodules_with_strange_paths_do_nothing() {
    let carriage = "[submodule \"s\"]\n\tpath = \"sub\r\"\n\turl = ../x\n";
    let name = "[submodule \"../../e\"]\n\tpath = e\n\turl = ../x\n";
    let url = "[submodule \"s\"]\n\tpath = e\n\turl = -u./payload\n";
    for (modules, refused) in [(carriage, false), (name, true), (url, true)] {
        let origin = Origin::new();
        origin.put(".gitmodules", modules);
        let mut child = Command::new("git")
            .args(["update-index", "-z", "--index-info"])
            .current_dir(origin.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let commit = origin.git(&["rev-parse", "HEAD"]);
        let line = format!("160000 {commit}\tsub\r\0");
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        origin.git(&["add", ".gitmodules"]);
        origin.git(&["commit", "-q", "-m", "evil"]);
        let fixture = Fixture::new();
        let mut session = fixture.open(&origin.repository()).await;
        let ended = session.turn("say there").await;
        match refused {
            // Received objects are checked.
            true => {
                let failure = ended.failure.unwrap();
                assert!(failure.contains("could not be cloned"), "{failure}");
                assert_eq!(fixture.kept(), Vec::<String>::new());
            }
            false => {
                assert_eq!(ended.failure, None);
                let empty = |name: &str| session.path.join(name).read_dir().unwrap().count() == 0;
                assert!(empty("sub\r") && !session.path.join("sub").exists());
                assert!(!session.path.join(".git/modules").exists());
            }
        }
    }
}

/// A `.git` in a tree, in any spelling.
#[tokio::test]
async fn a_tree_cannot_contain_a_git_directory() {
    for name in [".git", ".GIT", "git~1", ".g\u{200c}it"] {
        let origin = Origin::new();
        let blob = origin.git(&["hash-object", "-w", "README.md"]);
        let mut child = Command::new("git")
            .args(["mktree"])
            .current_dir(origin.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = format!("100644 blob {blob}\t{name}\n");
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let tree = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let commit = origin.git(&["commit-tree", tree.trim(), "-m", "evil"]);
        origin.git(&["update-ref", "refs/heads/main", &commit]);
        let fixture = Fixture::new();
        let failure = fixture.open(&origin.repository()).await.fails("say there").await;
        assert!(failure.contains("could not be cloned"), "{name}: {failure}");
        assert_eq!(fixture.kept(), Vec::<String>::new());
    }
}

/// The agent checks addresses again, because a log may be older than the configuration.
#[tokio::test]
async fn hostile_addresses_start_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("PWNED");
    let fixture =
        Fixture::with(|config| config.sources = loggia_core::repository::AllowedSources::default());
    let mark_text = mark.display();
    for url in [
        format!("ext::sh -c touch% {mark_text}"),
        format!("--upload-pack=touch {mark_text}"),
        "-oProxyCommand=touch".to_owned(),
        "ssh://-oProxyCommand=x/y".to_owned(),
        "file:///etc".to_owned(),
        "/etc".to_owned(),
        "git://h/x".to_owned(),
        "http://h/x".to_owned(),
        "https://u:p@h/x".to_owned(),
        "https://h/x\nfoo".to_owned(),
        "HTTPS::x".to_owned(),
    ] {
        let failure = fixture.open(&repository(&url)).await.fails("say there").await;
        assert!(failure.starts_with("the repository's address"), "{url}: {failure}");
        assert!(!failure.contains("u:p"), "{failure}");
    }
    assert!(!mark.exists());
    assert_eq!(fixture.kept(), Vec::<String>::new());
    // Names of revisions cannot be options either.
    let origin = Origin::new();
    let fixture = Fixture::new();
    for revision in ["--upload-pack=x", "-b", "a..b", "main:evil", "x\ny"] {
        let asked =
            loggia_core::Repository { revision: Some(revision.to_owned()), ..origin.repository() };
        let failure = fixture.open(&asked).await.fails("say there").await;
        assert!(failure.starts_with("the repository's revision"), "{revision}: {failure}");
    }
}

/// A few files make a directory a repository that uses the objects of another one.
#[tokio::test]
async fn the_clone_of_another_session_cannot_be_cloned() {
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut theirs = fixture.open(&origin.repository()).await;
    assert_eq!(theirs.turn("write secret.txt: x").await.failure, None);
    let clone = theirs.path.canonicalize().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let (git, head) = (clone.join(".git"), "ref: refs/heads/main\n");
    put("tree/.git", &format!("gitdir: {}\n", git.display()));
    put("common/HEAD", head);
    put("common/commondir", &format!("{}\n", git.display()));
    put("nested/.git/HEAD", head);
    put("nested/.git/commondir", git.to_str().unwrap());
    let commit = origin.git(&["rev-parse", "HEAD"]);
    for alternates in ["lent", "quoted", "long"] {
        put(&format!("{alternates}/HEAD"), head);
        put(&format!("{alternates}/refs/heads/main"), &commit);
    }
    let objects = git.join("objects");
    put("lent/objects/info/alternates", &format!("# x\n{}\n", objects.display()));
    put("quoted/objects/info/alternates", &format!("\"{}\"\n", objects.display()));
    let padding = "# x\n".repeat(20_000);
    put("long/objects/info/alternates", &format!("{padding}{}\n", objects.display()));
    for name in ["tree", "common", "nested", "lent", "quoted", "long"] {
        let url = format!("file://{}", directory.path().join(name).display());
        let failure = fixture.open(&repository(url)).await.fails("list").await;
        let wanted =
            ["Loggia's own directories", "the object directories of the repository cannot be read"];
        assert!(wanted.iter().any(|wanted| failure.contains(wanted)), "{name}: {failure}");
    }
    // Checks the test: the same with a repository that is not reserved works.
    put("tree/.git", &format!("gitdir: {}\n", origin.path().join(".git").display()));
    put("common/commondir", origin.path().join(".git").to_str().unwrap());
    for name in ["tree", "common"] {
        let url = format!("file://{}", directory.path().join(name).display());
        let ended = fixture.open(&repository(url)).await.turn("list").await;
        assert_eq!(ended.failure, None, "{name}");
    }
}
