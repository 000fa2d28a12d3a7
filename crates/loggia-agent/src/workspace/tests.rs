#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn kind(result: Result<impl Sized, WorkspaceError>) -> &'static str {
    result.err().map_or("ok", |error| error.kind.name())
}

/// Checks the same tree with both resolvers. The second one is for old kernels and some containers.
fn with_both_resolvers(check: impl Fn(&Workspace, &Path)) {
    for resolver in [Resolver::Kernel, Resolver::Stepwise] {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("w");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        fs::write(root.join("a/b/file"), "inside").unwrap();
        symlink(outside.path(), root.join("out")).unwrap();
        symlink("../secret", root.join("up")).unwrap();
        symlink("a/b", root.join("in")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let mut workspace = Workspace::open(&root).unwrap();
        assert_eq!(workspace.resolver, Resolver::Kernel, "this kernel has openat2");
        workspace.resolver = resolver;
        check(&workspace, &root);
    }
}

#[test]
fn nothing_outside_is_opened_by_either_resolver() {
    with_both_resolvers(|workspace, _| {
        for path in ["out/secret", "up", "out", "in/../../secret"] {
            let located = workspace.locate(path);
            let opened = located.and_then(|located| workspace.open_file(&located));
            let found = kind(opened);
            assert!(["outside_workspace", "symlink"].contains(&found), "{path}: {found}");
        }
        let path = workspace.locate("a/b/file").unwrap();
        let bytes = workspace.open_file(&path).unwrap().read_whole(&path, 100).unwrap();
        assert_eq!(bytes, b"inside");
    });
}

#[test]
fn links_inside_are_followed_by_the_kernel_resolver() {
    with_both_resolvers(|workspace, _| {
        let path = workspace.locate("in/file").unwrap();
        let expected = if workspace.resolver == Resolver::Kernel { "ok" } else { "symlink" };
        assert_eq!(kind(workspace.open_file(&path)), expected);
    });
}

#[test]
fn a_written_file_is_shown_under_its_real_name() {
    with_both_resolvers(|workspace, _| {
        let real = |path: &str| workspace.real_file(&workspace.locate(path).unwrap());
        assert_eq!(real("a/b/file").unwrap().as_str(), "a/b/file");
        assert_eq!(real("new/deep/file").unwrap().as_str(), "new/deep/file");
        if workspace.resolver == Resolver::Kernel {
            assert_eq!(real("in/file").unwrap().as_str(), "a/b/file");
            assert_eq!(real("in/x/y").unwrap().as_str(), "a/b/x/y");
        } else {
            assert_eq!(kind(real("in/file")), "symlink");
        }
        assert_eq!(kind(real("dangling/x")), "symlink");
        assert_eq!(kind(real("a/b/file/x")), "not_a_directory");
        assert!(["outside_workspace", "symlink"].contains(&kind(real("out/x"))));
    });
}

#[test]
fn a_file_is_replaced_in_one_step() {
    with_both_resolvers(|workspace, root| {
        let path = workspace.locate("a/b/file").unwrap();
        let version = workspace.version(&path).unwrap().unwrap();
        workspace.replace(&path, &version.digest, b"new").unwrap();
        assert_eq!(fs::read(root.join("a/b/file")).unwrap(), b"new");
        assert_eq!(kind(workspace.replace(&path, &version.digest, b"x")), "changed_since_approval");
        let fresh = workspace.locate("n/e/w").unwrap();
        workspace.replace(&fresh, "", b"1").unwrap();
        assert_eq!(kind(workspace.replace(&fresh, "", b"2")), "changed_since_approval");
        assert_eq!(fs::read(root.join("n/e/w")).unwrap(), b"1");
        let leftovers = fs::read_dir(root.join("n/e")).unwrap().count();
        assert_eq!(leftovers, 1, "no temporary file stays");
    });
}

#[test]
fn a_new_file_does_not_replace_one_that_appeared() {
    with_both_resolvers(|workspace, root| {
        let directory = workspace.open_real_directory(&WorkspacePath::root()).unwrap();
        let path = workspace.locate("late").unwrap();
        let temporary = write::TemporaryFile::write(&directory, &path, None, b"ours").unwrap();
        fs::write(root.join("late"), "theirs").unwrap();
        assert_eq!(kind(temporary.rename_to("late", &path, false)), "changed_since_approval");
        assert_eq!(fs::read(root.join("late")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(root).unwrap().count(), 6, "the temporary file is gone");
    });
}

#[test]
fn paths_are_checked_lexically() {
    let roots = [Path::new("/w/app"), Path::new("/link/app")];
    let locate = |text: &str| path::locate(text, &roots);
    for (text, inside) in [
        ("x", "x"),
        ("./x", "x"),
        ("a/../x", "x"),
        ("a//b/", "a/b"),
        (".", "."),
        ("/w/app", "."),
        ("/w/app/x", "x"),
        ("/w/./app/a/../x", "x"),
        ("/link/app/x", "x"),
        ("a/b/../..", "."),
        ("..x", "..x"),
        ("a:b", "a:b"),
    ] {
        assert_eq!(locate(text).unwrap().as_str(), inside, "{text}");
    }
    for text in [
        "..",
        "../x",
        "a/../../x",
        "/",
        "/w",
        "/w/app/..",
        "/w/app-secret/x",
        "/w/app/../app-secret/x",
        "/w/APP/..",
        "/w/APP/x",
        "/etc/passwd",
        "/w/app/../../etc",
        "/../w/app/x",
    ] {
        assert_eq!(kind(locate(text)), "outside_workspace", "{text}");
    }
    let long = "x/".repeat(3000);
    for text in ["", "a\0b", "file:///w/app/x", "FILE:x", "https://x/y", "~", "~/x", &long] {
        assert_eq!(kind(locate(text)), "invalid_path", "{text}");
    }
}

#[test]
fn a_workspace_opened_by_a_relative_path_contains_only_itself() {
    let workspace = Workspace::open(Path::new(".")).unwrap();
    assert_eq!(kind(workspace.locate("/etc/passwd")), "outside_workspace");
    let inside = workspace.path().join("x");
    assert_eq!(workspace.locate(inside.to_str().unwrap()).unwrap().as_str(), "x");
}

#[test]
fn shown_names_are_one_line_and_limited() {
    assert_eq!(shown("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
    assert_eq!(shown(&"x".repeat(1000)).chars().count(), 201);
}

/// The files that a walk visits.
fn walked(workspace: &Workspace, start: &str) -> Result<Vec<String>, WorkspaceError> {
    let mut names = Vec::new();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(600);
    let limits = WalkLimits { entries: 1000, deadline, stop: Default::default() };
    workspace.walk(&workspace.locate(start)?, &limits, &mut |entry| {
        names.push(entry.path.display().to_string());
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(names)
}

#[test]
fn reserved_directories_are_not_read_written_or_found() {
    for resolver in [Resolver::Kernel, Resolver::Stepwise] {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        for directory in ["own/clones/bob", "dots", "proj", "ownership"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["own/clones/bob/secret", "own/keys", "dots/config", "dots/x", "ownership/y"] {
            fs::write(root.join(file), "text").unwrap();
        }
        symlink("../own", root.join("proj/in")).unwrap();
        symlink("../own/keys", root.join("proj/keys")).unwrap();
        let reserved =
            ReservedDirs::new([root.join("own"), root.join("dots/config"), root.join("made")]);
        let mut workspace = Workspace::open_without(&root, &reserved).unwrap();
        workspace.resolver = resolver;

        let locate = |path: &str| workspace.locate(path).unwrap();
        let linked = if resolver == Resolver::Kernel { "denied" } else { "symlink" };
        for (path, wanted) in [
            ("own/keys", "denied"),
            ("own/clones/bob/secret", "denied"),
            ("dots/config", "denied"),
            ("proj/keys", linked),
            ("proj/in/keys", linked),
            ("dots/x", "ok"),
            ("ownership/y", "ok"),
        ] {
            assert_eq!(kind(workspace.open_file(&locate(path))), wanted, "{path}");
            if !path.starts_with("proj/keys") {
                let real = workspace.real_file(&locate(path));
                assert_eq!(kind(real.and_then(|real| workspace.version(&real))), wanted, "{path}");
            }
        }
        for path in ["own/new", "own/a/b/new", "made", "made/config.toml"] {
            assert_eq!(kind(workspace.real_file(&locate(path))), "denied", "{path}");
            assert_eq!(kind(workspace.replace(&locate(path), "", b"x")), "denied", "{path}");
        }
        assert!(!root.join("made").exists() && !root.join("own/a").exists());
        for (path, wanted) in [("own", "denied"), ("own/clones", "denied"), ("proj/in", linked)] {
            assert_eq!(kind(workspace.open_directory(&locate(path))), wanted, "{path}");
            assert_eq!(kind(walked(&workspace, path)), wanted, "{path}");
        }
        assert_eq!(
            walked(&workspace, ".").unwrap(),
            ["dots/x", "ownership/y", "proj/in", "proj/keys"]
        );
        assert_eq!(walked(&workspace, "dots").unwrap(), ["x"]);
        for path in ["own", "own/clones/bob"] {
            let opened = Workspace::open_without(&root.join(path), &reserved);
            assert_eq!(kind(opened), "workspace_gone", "{path}");
        }
        assert_eq!(kind(Workspace::open_without(&root.join("ownership"), &reserved)), "ok");
    }
}
