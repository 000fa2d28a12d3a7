use std::os::unix::fs::symlink;

use super::*;

struct Project {
    root: tempfile::TempDir,
    files: CommandFiles,
}

impl Project {
    fn new(trusted: bool, files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("w")).unwrap();
        let user = root.path().join("user");
        let project = Self { files: CommandFiles::new(user, move |_| trusted), root };
        for (name, text) in files {
            project.put(name, text);
        }
        project
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn list(&self) -> CustomCommands {
        self.files.list(&self.root.path().join("w"))
    }

    /// Each command with its description.
    fn named(&self) -> Vec<(String, String)> {
        let commands = self.list().commands.into_iter();
        commands.map(|command| (command.name, command.description)).collect()
    }

    fn notes(&self) -> String {
        let user = self.root.path().join("user").to_string_lossy().into_owned();
        self.list().notes.join("\n").replace(&user, "USER")
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn every_directory_and_namespace() {
    let project = Project::new(
        true,
        &[
            ("w/.loggia/commands/a.md", "loggia"),
            ("w/.claude/commands/b.md", "claude"),
            ("w/.claude/commands/team/x/y.md", "deep"),
            ("w/.gemini/commands/git/commit.toml", "prompt = 'gemini'"),
            ("w/.opencode/command/d.md", "old"),
            ("w/.opencode/commands/speckit.plan.md", "new"),
            ("w/.loggia/commands/.hidden.md", "no"),
            ("w/.loggia/commands/notes.txt", "no"),
            ("w/.loggia/config.toml", "mode = 'ask'"),
            ("user/z.md", "mine"),
        ],
    );
    let expected = [
        ("a", "loggia"),
        ("b", "claude"),
        ("d", "old"),
        ("git:commit", "gemini"),
        ("speckit.plan", "new"),
        ("team:x:y", "deep"),
        ("z", "mine"),
    ];
    assert_eq!(project.named(), pairs(&expected));
    assert_eq!(project.notes(), "");
}

#[test]
fn without_files_there_are_no_commands() {
    let project = Project::new(true, &[]);
    assert_eq!(project.list(), CustomCommands::default());
    assert_eq!(project.files.list(Path::new("/nowhere/at/all")), CustomCommands::default());
}

#[test]
fn commands_of_an_untrusted_project_are_not_used() {
    let files: Vec<(String, &str)> =
        (1..=5).map(|number| (format!("w/.claude/commands/c{number}.md"), "x")).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let project = Project::new(false, &files);
    project.put("user/mine.md", "mine");
    assert_eq!(project.named(), pairs(&[("mine", "mine")]));
    assert_eq!(
        project.notes(),
        "`/c1`, `/c2`, `/c3` and 2 more of this directory, which is not trusted: read the files, \
         then run `loggia trust`"
    );
}

#[test]
fn the_first_command_of_a_name_is_used_and_the_others_are_named() {
    let project = Project::new(
        true,
        &[
            ("w/.loggia/commands/go.md", "first"),
            ("w/.claude/commands/Go.md", "second"),
            ("w/.loggia/commands/go.toml", "prompt = 'third'"),
            ("user/go.md", "fourth"),
            ("user/help.md", "not mine"),
            ("user/Quit.md", "not mine"),
            ("user/git/help.md", "allowed"),
        ],
    );
    assert_eq!(project.named(), pairs(&[("git:help", "allowed"), ("go", "first")]));
    assert_eq!(
        project.notes(),
        "`.loggia/commands/go.toml`: `/go` is defined in `.loggia/commands/go.md`\n\
         `.claude/commands/Go.md`: `/Go` is defined in `.loggia/commands/go.md`\n\
         `USER/Quit.md`: `/Quit` is a built-in command\n\
         `USER/go.md`: `/go` is defined in `.loggia/commands/go.md`\n\
         `USER/help.md`: `/help` is a built-in command"
    );
}

#[test]
fn a_bad_file_is_named_and_the_others_work() {
    let project = Project::new(
        true,
        &[
            ("w/.loggia/commands/good.md", "good"),
            ("w/.loggia/commands/empty.md", "---\ndescription: d\n---\n"),
            ("w/.loggia/commands/open.md", "---\na: b\nx"),
            ("w/.loggia/commands/two words.md", "x"),
            ("w/.loggia/commands/wrong.toml", "prompt = 'x'\nprompt = 'y'\n"),
            ("w/.loggia/commands/a/b/c/d/e/deep.md", "x"),
        ],
    );
    project.put("w/.loggia/commands/big.md", &"x".repeat(70_000));
    std::fs::write(project.root.path().join("w/.loggia/commands/bytes.md"), b"\xff\xfe").unwrap();
    assert_eq!(project.named(), pairs(&[("good", "good")]));
    let notes = project.notes();
    for expected in [
        "`.loggia/commands/a/b/c/d/e`: too deep",
        "`.loggia/commands/big.md`: `.loggia/commands/big.md` has 70000 bytes; the limit is 65536",
        "`.loggia/commands/bytes.md`: it is not UTF-8 text",
        "`.loggia/commands/empty.md`: it contains no prompt",
        "`.loggia/commands/open.md`, line 1: the front matter has no closing line `---`",
        "`.loggia/commands/two words.md`: a name may contain only letters",
        "`.loggia/commands/wrong.toml`, line 2: ",
    ] {
        assert!(notes.contains(expected), "{expected}: {notes}");
    }
}

#[test]
fn no_link_leads_out_of_the_root() {
    let project = Project::new(true, &[("outside.md", "secret"), ("other/x.md", "secret")]);
    let at = |name: &str| project.root.path().join(name);
    project.put("w/inside.md", "inside");
    project.put("w/.loggia/commands/a.md", "a");
    symlink(at("outside.md"), at("w/.loggia/commands/out.md")).unwrap();
    symlink("../../../outside.md", at("w/.loggia/commands/up.md")).unwrap();
    symlink("../../inside.md", at("w/.loggia/commands/in.md")).unwrap();
    symlink(at("other"), at("w/.loggia/commands/sub")).unwrap();
    symlink(".", at("w/.loggia/commands/round")).unwrap();
    symlink(at("other"), at("w/.gemini")).unwrap();
    std::fs::create_dir_all(at("w/.claude")).unwrap();
    symlink(at("other"), at("w/.claude/commands")).unwrap();
    assert_eq!(project.named(), pairs(&[("a", "a"), ("in", "inside")]));
    let notes = project.notes();
    for name in [".loggia/commands/out.md", ".loggia/commands/up.md", ".claude/commands"] {
        assert!(notes.contains(&format!("`{name}` leads outside")), "{name}: {notes}");
    }
}

#[test]
fn the_number_of_files_is_limited() {
    let project = Project::new(true, &[]);
    for number in 0..300 {
        project.put(&format!("w/.loggia/commands/c{number:03}.md"), "x");
    }
    assert_eq!(project.list().commands.len(), MOST_COMMANDS);
    assert!(project.notes().contains("`.loggia/commands/c256.md`: there are 256 commands already"));
    for number in 0..40 {
        project.put(&format!("w/.loggia/commands/!{number}.md"), "x");
    }
    assert_eq!(project.list().notes.len(), MOST_NOTES + 1);
}

#[test]
fn a_change_is_seen_without_a_restart() {
    let project = Project::new(true, &[("w/.loggia/commands/a.md", "one")]);
    assert_eq!(project.named(), pairs(&[("a", "one")]));
    project.put("w/.loggia/commands/a.md", "three");
    assert_eq!(project.named(), pairs(&[("a", "three")]));
    std::fs::rename(
        project.root.path().join("w/.loggia/commands/a.md"),
        project.root.path().join("w/.loggia/commands/b.md"),
    )
    .unwrap();
    assert_eq!(project.named(), pairs(&[("b", "three")]));
}
