//! `loggia config`, `trust`, `doctor`, `completions` and `man` as a user runs them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use assert_cmd::Command;
use serde_json::Value;

struct Machine {
    root: tempfile::TempDir,
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.workspace().join(".loggia")).unwrap();
        fs::create_dir_all(machine.root.path().join("home/config")).unwrap();
        machine
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("workspace")
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.root.path().join(name), text).unwrap();
    }

    fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = Command::cargo_bin("loggia").unwrap();
        command
            .args(arguments)
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LOGGIA_HOME", self.root.path().join("home"))
            .envs(variables.iter().copied());
        let output = command.output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[])
    }

    /// The value of a key in `loggia config --output json`.
    fn value(&self, key: &str) -> Value {
        let shown: Value =
            serde_json::from_str(&self.run(&["config", "--output", "json"]).out).unwrap();
        let values = shown["values"].as_array().unwrap();
        values.iter().find(|row| row["key"] == key).unwrap()["value"].clone()
    }
}

#[test]
fn a_project_counts_in_full_only_while_it_is_trusted() {
    let machine = Machine::new();
    machine.write("workspace/.loggia/config.toml", "mode = 'all'\nlimits.replies = 3\n");
    assert_eq!((machine.value("mode"), machine.value("limits.replies")), ("ask".into(), 3.into()));
    let shown = machine.run(&["config"]).out;
    assert!(shown.contains("not trusted: `mode`") && shown.contains("`loggia trust`"), "{shown}");

    let trusted = machine.run(&["trust"]);
    assert_eq!(trusted.code, 0, "{}", trusted.err);
    assert!(trusted.out.contains("mode (line 1)"), "{}", trusted.out);
    assert_eq!(machine.value("mode"), "all");
    let listed = machine.run(&["trust", "--list"]).out;
    assert_eq!(listed.trim(), machine.workspace().to_str().unwrap());

    assert_eq!(machine.run(&["trust", "--revoke"]).code, 0);
    assert_eq!(machine.run(&["trust", "--revoke"]).code, 1);
    assert_eq!(machine.value("mode"), "ask");
}

/// An invalid untrusted project file does not keep Loggia from starting, and its valid restrictions
/// apply.
#[test]
fn a_bad_value_of_a_project_that_is_not_trusted_is_a_notice() {
    let bad = [
        "mode = 5",
        "mode = 'everything'",
        "limits = 3",
        "limits.replies = -1",
        "limits.replies = 'many'",
        "commands.deny = 'git push'",
        "commands.deny = [7]",
        "hooks.prompt_submit = [1]",
        "server.clones = true",
        "server.push = 'yes'",
        "prices.x = { input = 'free' }",
    ];
    for line in bad {
        let machine = Machine::new();
        machine.write("workspace/.loggia/config.toml", format!("{line}\nlimits.calls = 2\n"));
        if line.starts_with("limits = ") {
            machine.write("workspace/.loggia/config.toml", format!("{line}\n"));
        } else {
            assert_eq!(machine.value("limits.calls"), 2, "{line}");
        }
        let ran = machine.run(&["run", "say hi"]);
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        assert!(ran.err.contains("its value cannot be used"), "{line}: {}", ran.err);
        assert!(ran.err.contains("config.toml:1: "), "{line}: {}", ran.err);
        let trusted = machine.run(&["trust"]);
        assert_eq!(trusted.code, 2, "{line}: what cannot be understood is not agreed to");
    }
    for unreadable in ["mode = 'plan".as_bytes(), b"mode = '\xff'"] {
        let machine = Machine::new();
        machine.write("workspace/.loggia/config.toml", unreadable);
        let ran = machine.run(&["run", "say hi"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("config.toml:1: this is not valid"), "{}", ran.err);
        assert_eq!(machine.run(&["trust"]).code, 2);
    }
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_line() {
    let machine = Machine::new();
    machine.write("home/config/config.toml", "# mine\nmodle = 'offline'\n");
    let refused = machine.run(&["config"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(
        refused.err.contains("config.toml:2: there is no key `modle`; did you mean `model`?"),
        "{}",
        refused.err
    );
    let path = machine.run(&["config", "path"]);
    assert!(path.out.ends_with("home/config/config.toml\n"), "a broken file can still be found");
    let doctor = machine.run(&["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.out.contains("broken") && doctor.out.contains("`modle`"), "{}", doctor.out);
}

#[test]
fn the_doctor_tries_what_loggia_needs() {
    let machine = Machine::new();
    let ran = machine.run(&["doctor", "--output", "json"]);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &shown["works"]), (0, &Value::Bool(true)), "{}", ran.out);
    let topics: Vec<&str> = shown["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["topic"].as_str().unwrap())
        .collect();
    for topic in ["configuration", "model", "database", "git", "shell", "commands", "terminal"] {
        assert!(topics.contains(&topic), "{topic} is not among {topics:?}");
    }
    assert!(shown["sandbox"]["probes"]["pid_namespace"].is_boolean(), "{}", shown["sandbox"]);

    let broken = [
        ("LOGGIA_MODEL", "scripted:nowhere.toml", "model"),
        ("LOGGIA_SHELL_PROGRAM", "/nowhere/sh", "shell"),
        ("LOGGIA_SHELL_PROGRAM", "/bin/true", "shell"),
    ];
    for (name, value, topic) in broken {
        let ran = machine.run_with(&["doctor"], &[(name, value)]);
        let row = ran.out.lines().find(|line| line.starts_with("broken")).unwrap_or_default();
        assert_eq!((ran.code, row.split_whitespace().nth(1)), (1, Some(topic)), "{}", ran.out);
    }
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = Machine::new().run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        for word in ["doctor", "trust", "completions"] {
            assert!(ran.out.contains(word), "{shell} does not complete {word}");
        }
    }
    assert_eq!(Machine::new().run(&["completions", "cobol"]).code, 2);
}

/// The warnings of a manual page formatter, if one is installed.
fn complaints(page: &str) -> Option<String> {
    let mut groff = std::process::Command::new("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-z"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut groff = groff.spawn().ok()?;
    groff.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let ended = groff.wait_with_output().unwrap();
    Some(String::from_utf8(ended.stderr).unwrap()).filter(|said| !said.is_empty())
}

#[test]
fn the_manual_is_whole_and_well_formed() {
    let machine = Machine::new();
    let ran = machine.run(&["man"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let sections: Vec<&str> =
        ran.out.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    let wanted = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "SHARING",
        "SUBCOMMANDS",
        "EXAMPLES",
        "ENVIRONMENT",
        "FILES",
        "\"EXIT STATUS\"",
    ];
    assert_eq!(sections, wanted);
    assert!(ran.out.lines().any(|line| line.starts_with(".TH loggia 1")), "{}", ran.out);
    // roff escapes hyphens.
    let text = ran.out.replace("\\-", "-");
    for word in [
        "LOGGIA_HOME",
        "LOGGIA_LIMITS_REPLIES",
        "loggia.db",
        "141",
        "--a2a-port",
        "loggia-clients",
        "loggia run --continue",
    ] {
        assert!(text.contains(word), "{word} is missing");
    }
    assert_eq!(complaints(&ran.out), None);

    let pages = machine.root.path().join("share/man1");
    let ran = machine.run(&["man", "--out", pages.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    let mut names = Vec::new();
    for entry in fs::read_dir(&pages).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        let page = fs::read_to_string(&path).unwrap();
        assert_eq!(complaints(&page), None, "{}", path.display());
    }
    for name in ["loggia.1", "loggia-run.1", "loggia-clients-add.1", "loggia-pair.1"] {
        assert!(names.iter().any(|there| there == name), "{name}: {names:?}");
    }
    let file = machine.root.path().join("home/config");
    fs::write(file.join("x"), "").unwrap();
    let ran = machine.run(&["man", "--out", file.join("x").to_str().unwrap()]);
    assert!(ran.code == 1 && ran.err.contains("cannot write into"), "{}", ran.err);
}
