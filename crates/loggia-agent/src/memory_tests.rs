use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::repository_tree::TreeLimits;
use crate::workspace::{ReservedDirs, Workspace};

/// A home directory with a configuration directory `c` and a repository `r`.
struct Home {
    directory: tempfile::TempDir,
    workspace: &'static str,
    above_workspace: bool,
}

impl Home {
    fn new(workspace: &'static str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = Self { directory, workspace, above_workspace: true };
        for name in ["c", "r/.git", workspace] {
            std::fs::create_dir_all(home.path(name)).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("h").join(name)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
        self
    }

    fn link(&self, name: &str, target: &str) -> &Self {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
        self
    }

    fn tree(&self) -> RepositoryTree {
        let workspace = Arc::new(Workspace::open(&self.path(self.workspace)).unwrap());
        let (home, reserved) = (self.path(""), ReservedDirs::default());
        let above_workspace = self.above_workspace;
        let limits = TreeLimits { home: Some(&home), above_workspace, reserved: &reserved };
        RepositoryTree::around(&workspace, &limits)
    }

    fn read(&self) -> Memory {
        Memory::read(&self.tree(), Some(&self.path("c/AGENTS.md")))
    }

    /// The names of the files that the model gets.
    fn used(&self) -> Vec<String> {
        let used =
            |file: MemoryFile| matches!(file.content, Content::Text { .. }).then_some(file.name);
        self.read().files.into_iter().filter_map(used).collect()
    }
}

#[test]
fn without_files_there_are_no_notes() {
    let memory = Home::new("r").read();
    assert_eq!(memory.block(), None);
    assert_eq!(memory.notes(), []);
    assert_eq!(memory.warning(), None);
    assert_eq!(memory.list(), format!("{USER_FILE}: missing\nAGENTS.md: missing"));
}

#[test]
fn one_file_of_each_directory_from_the_root_down_is_used() {
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: [Case; 9] = [
        (
            "r/a/b",
            &[("r/AGENTS.md", "1"), ("r/a/AGENTS.md", "2"), ("r/a/b/AGENTS.md", "3")],
            &["../../AGENTS.md", "../AGENTS.md", "AGENTS.md"],
        ),
        ("r/a", &[("r/CLAUDE.md", "1"), ("r/a/GEMINI.md", "2")], &["../CLAUDE.md", "GEMINI.md"]),
        ("r", &[("r/GEMINI.md", "1"), ("r/CLAUDE.md", "2"), ("r/AGENTS.md", "3")], &["AGENTS.md"]),
        ("r", &[("r/GEMINI.md", "1"), ("r/CLAUDE.md", "2")], &["CLAUDE.md"]),
        ("r", &[("r/AGENTS.md", " \n"), ("r/CLAUDE.md", "2")], &["CLAUDE.md"]),
        // The same text again is not.
        ("r/a", &[("r/AGENTS.md", "1"), ("r/a/AGENTS.md", "1")], &["../AGENTS.md"]),
        // Above the root, beside the way and below the workspace are not.
        ("r/a", &[("AGENTS.md", "1"), ("r/b/AGENTS.md", "2"), ("r/a/c/AGENTS.md", "3")], &[]),
        // Without a repository the workspace is alone.
        ("n/a", &[("n/AGENTS.md", "1"), ("n/a/AGENTS.md", "2")], &["AGENTS.md"]),
        // A repository within a repository.
        (
            "r/s/t",
            &[("r/AGENTS.md", "1"), ("r/s/.git", "x"), ("r/s/AGENTS.md", "2")],
            &["../AGENTS.md"],
        ),
    ];
    for (workspace, files, expected) in cases {
        let home = Home::new(workspace);
        for (name, text) in files {
            home.put(name, text);
        }
        assert_eq!(home.used(), expected, "{files:?}");
    }
}

#[test]
fn nothing_above_the_home_directory_is_read() {
    let home = Home::new("r");
    std::fs::remove_dir(home.path("r/.git")).unwrap();
    home.put("../.git/HEAD", "").put("../AGENTS.md", "above").put("AGENTS.md", "home");
    home.put("r/AGENTS.md", "own");
    assert_eq!(home.used(), ["AGENTS.md"]);
    // A repository of the home directory itself is one.
    home.put(".git/HEAD", "");
    assert_eq!(home.used(), ["../AGENTS.md", "AGENTS.md"]);
}

#[test]
fn a_repository_of_another_user_is_not_used() {
    let home = Home::new("r/a");
    home.put("r/AGENTS.md", "planted").put("r/a/AGENTS.md", "own");
    assert_eq!(home.used().len(), 2);
    // Only root can give a directory to another user.
    if std::os::unix::fs::chown(home.path("r/.git"), Some(12_345), None).is_ok() {
        assert_eq!(home.used(), ["AGENTS.md"]);
    }
}

#[test]
fn a_session_of_a_remote_owner_reads_its_workspace_only() {
    let mut home = Home::new("r/a");
    home.put("r/AGENTS.md", "root").put("r/a/AGENTS.md", "See @../AGENTS.md and @b.md");
    home.put("r/a/b.md", "own").put("r/.git/HEAD", "ref: refs/heads/main\n");
    assert_eq!(home.tree().branch().as_deref(), Some("main"));
    assert_eq!(home.used().len(), 3);
    home.above_workspace = false;
    assert_eq!(home.used(), ["AGENTS.md", "b.md, imported by AGENTS.md"]);
    let list = home.read().list();
    assert!(list.contains("`@../AGENTS.md` in AGENTS.md: not imported"), "{list}");
    assert_eq!(home.tree().branch(), None);
}

#[test]
fn a_worktree_has_a_branch_and_a_forged_link_has_none() {
    let home = Home::new("w");
    home.put("r/.git/worktrees/w/HEAD", "ref: refs/heads/side\n");
    home.put("w/.git", format!("gitdir: {}\n", home.path("r/.git/worktrees/w").display()));
    assert_eq!(home.tree().branch(), None, "the git directory does not name the worktree");
    home.put("r/.git/worktrees/w/gitdir", format!("{}\n", home.path("w/.git").display()));
    assert_eq!(home.tree().branch().as_deref(), Some("side"));
}

#[test]
fn the_users_notes_come_first_and_each_file_is_a_note() {
    let home = Home::new("r");
    home.put("c/AGENTS.md", "I like tea.\n").put("r/AGENTS.md", "# Here\n\nRun make.\n");
    home.put("r/CLAUDE.md", "Other.");
    let memory = home.read();
    let block = format!(
        "{HEADING}\n\n--- {USER_FILE} ---\nI like tea.\n\n--- AGENTS.md ---\n# Here\n\nRun make."
    );
    assert_eq!(memory.block().unwrap(), block);
    let names: Vec<String> = memory.notes().into_iter().map(|note| note.name).collect();
    assert_eq!(names, ["Memory", &format!("Memory file {USER_FILE}"), "Memory file AGENTS.md"]);
    assert!(memory.list().ends_with("CLAUDE.md: not used, AGENTS.md is"), "{}", memory.list());
    assert_eq!(memory.warning(), None);
}

#[test]
fn files_import_others() {
    let home = Home::new("r/a");
    home.put("r/AGENTS.md", "See @docs/x.md and @docs/x.md, ask @alice, not `@no.md` or @gone.md.");
    home.put("r/docs/x.md", "Then @y.md and @../a/z.txt.").put("r/docs/y.md", "y");
    home.put("r/a/z.txt", "z").put("r/no.md", "no").put("r/a/AGENTS.md", "@./z.txt @/etc/hosts");
    home.put("c/AGENTS.md", "@mine.md @keys.toml @../r/no.md").put("c/mine.md", "mine");
    home.put("c/keys.toml", "secret");
    let expected = [
        USER_FILE,
        "mine.md in the configuration directory, imported by AGENTS.md in the configuration directory",
        "../AGENTS.md",
        "../docs/x.md, imported by ../AGENTS.md",
        "../docs/y.md, imported by ../docs/x.md",
        "z.txt, imported by ../docs/x.md",
        "AGENTS.md",
    ];
    assert_eq!(home.used(), expected);
    let list = home.read().list();
    for remark in [
        "`@gone.md.` in ../AGENTS.md: not imported, there is no `gone.md`",
        "`@/etc/hosts` in AGENTS.md: not imported, `/etc/hosts` is outside",
        "`@keys.toml` in AGENTS.md in the configuration directory: not imported, only `.md`",
        "`@../r/no.md` in AGENTS.md in the configuration directory: not imported, `../r/no.md` is",
    ] {
        assert!(list.contains(remark), "{remark} is not in {list}");
    }
    assert!(!list.contains("alice") && !list.contains("no.md` in ../"), "{list}");
    let text = home.read().block().unwrap();
    assert!(text.contains("See @docs/x.md") && !text.contains("secret"), "{text}");
}

#[test]
fn imports_end() {
    let home = Home::new("r");
    home.put("r/AGENTS.md", "@a.md").put("r/a.md", "1 @b.md").put("r/b.md", "2 @AGENTS.md @b.md");
    let list = home.read().list();
    assert!(list.contains("`@AGENTS.md` in b.md: not imported, a cycle"), "{list}");
    assert!(list.contains("`@b.md` in b.md: not imported, a cycle"), "{list}");
    assert_eq!(home.used().len(), 3);

    home.put("r/AGENTS.md", "@0.md");
    for depth in 0..7 {
        home.put(&format!("r/{depth}.md"), format!("{depth} @{}.md", depth + 1));
    }
    assert_eq!(home.used().len(), 6, "the file and five levels");
    let list = home.read().list();
    assert!(list.contains("`@5.md` in 4.md: not imported, imports are nested deeper"), "{list}");

    home.put("r/big.md", "x".repeat(1024 * 1024)).put("r/AGENTS.md", "@big.md ".repeat(5000));
    assert_eq!(home.used(), ["AGENTS.md", "big.md, imported by AGENTS.md"]);

    // Every file imports all others: each is read once.
    let all: Vec<String> = (0..300).map(|name| format!("@n{name}.md")).collect();
    for name in 0..300 {
        home.put(&format!("r/n{name}.md"), format!("{name} {}", all.join("\n")));
    }
    home.put("r/AGENTS.md", all.join(" "));
    let memory = home.read();
    assert!((6..=100).contains(&memory.files.len()), "{}", memory.files.len());
    assert!(memory.list().contains("there are too many imports"));
    assert!(memory.block().unwrap().len() < LIMIT + 16 * 1024);
}

#[test]
fn the_nearest_files_are_used_first_if_there_are_too_many() {
    let home = Home::new("r/a");
    home.put("c/AGENTS.md", "mine").put("r/AGENTS.md", "ä".repeat(LIMIT));
    home.put("r/a/AGENTS.md", "near");
    let memory = home.read();
    assert!(memory.block().unwrap().len() < LIMIT + 1024);
    let list = memory.list();
    assert!(list.contains("../AGENTS.md: 32760 of 65536 bytes (the limit is 32768)"), "{list}");
    assert!(list.contains("\nAGENTS.md: 4 bytes"), "{list}");
    assert!(memory.warning().unwrap().contains("cut short in ../AGENTS.md;"));
}

#[test]
fn unreadable_files_are_reported() {
    let home = Home::new("r");
    home.put("secret", "top secret").put("r/CLAUDE.md", [0xff, 0xfe]).put("r/GEMINI.md", "ok");
    home.link("r/AGENTS.md", "../secret").link("r/self.md", "/proc/self/environ");
    std::fs::create_dir(home.path("c/AGENTS.md")).unwrap();
    let memory = home.read();
    assert_eq!(home.used(), ["GEMINI.md"]);
    let list = memory.list();
    assert!(list.contains("\nAGENTS.md: unreadable, `AGENTS.md` leads outside"), "{list}");
    assert!(list.contains("CLAUDE.md: unreadable, it is not UTF-8 text"), "{list}");
    assert!(list.contains("configuration directory: unreadable, it is not a file"), "{list}");
    assert!(memory.warning().unwrap().contains("memory that cannot be read"));

    home.put("r/GEMINI.md", "@big.md @bin.md @self.md @dir.md @ok.md");
    home.put("r/big.md", vec![b'x'; 1024 * 1024 + 1]).put("r/bin.md", "a\0b").put("r/ok.md", "ok");
    std::fs::create_dir(home.path("r/dir.md")).unwrap();
    assert_eq!(home.used(), ["GEMINI.md", "ok.md, imported by GEMINI.md"]);
    let list = home.read().list();
    for why in ["the limit is 1048576", "it is a binary file", "leads outside", "is a directory"] {
        assert!(list.contains(why), "{why} is not in {list}");
    }
}

#[test]
fn links_between_files_are_read_once() {
    let home = Home::new("r/a");
    home.put("r/AGENTS.md", "once @b.md").link("r/CLAUDE.md", "AGENTS.md");
    home.link("r/a/AGENTS.md", "../AGENTS.md").link("r/b.md", "AGENTS.md");
    assert_eq!(home.used(), ["../AGENTS.md"]);
    assert!(home.read().list().contains("\nAGENTS.md: the same as ../AGENTS.md"));
}

#[test]
fn files_below_the_workspace_are_given_for_their_directory() {
    let home = Home::new("r/a");
    home.put("r/a/AGENTS.md", "own").put("r/a/b/AGENTS.md", "b @x.md").put("r/a/b/x.md", "x");
    home.put("r/a/b/c/CLAUDE.md", "own").put("r/a/.gitignore", "out").put("r/a/out/AGENTS.md", "o");
    let (tree, memory) = (home.tree(), home.read());
    let workspace = Workspace::open(&home.path("r/a")).unwrap();
    let given = |path: &str, room: usize| -> Vec<String> {
        let directories = tree.below_workspace(&workspace.locate(path).unwrap());
        let texts = directories.iter().filter_map(|at| memory.of_directory(&tree, at, room));
        texts.collect()
    };
    let b = "--- b/AGENTS.md ---\nb @x.md\n\n--- b/x.md, imported by b/AGENTS.md ---\nx";
    let cases: [(&str, &[&str]); 6] = [
        ("b/c/main.rs", &[b]),
        ("b", &[b]),
        ("b/AGENTS.md", &[b]),
        ("main.rs", &[]),
        (".", &[]),
        ("out/main.rs", &[]),
    ];
    for (path, expected) in cases {
        assert_eq!(given(path, LIMIT), expected, "{path}");
    }
    assert!(given("b/main.rs", 3)[0].contains("(4 more bytes are left out)"));
}
