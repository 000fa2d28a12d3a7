//! Commands: output, exit status, environment, limits.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use loggia_agent::tool::ToolConfig;
use loggia_core::{CallOutcome, Details, Edit, Event, Mode};
use serde_json::json;

use crate::fixture::{Fixture, config, probe, processes};

#[tokio::test]
async fn a_command_prints_and_succeeds() {
    let mut fixture = Fixture::open().await;
    fixture.put("sub/x", "");
    let run = |command: &str| json!({ "command": command });
    assert_eq!(
        fixture.text("run_shell_command", run("echo out; echo err >&2")).await,
        "out\nerr\n"
    );
    assert_eq!(fixture.text("run_shell_command", run("true")).await, "(no output)");
    assert_eq!(fixture.text("run_shell_command", run("cat")).await, "(no output)", "no input");
    let text = fixture.text("run_shell_command", run("pwd; ls")).await;
    assert_eq!(text, format!("{}\nsub\n", fixture.root().display()));
    let input = json!({ "command": "ls", "directory": "sub" });
    assert_eq!(fixture.text("run_shell_command", input).await, "x\n");
    let text = fixture.text("run_shell_command", run("[[ a == a* ]] && echo bash")).await;
    assert_eq!(text, "bash\n");
    let text = fixture.text("run_shell_command", run("printf 'caf\\xe9'")).await;
    assert_eq!(text, "caf\u{fffd}");
}

#[tokio::test]
async fn output_is_seen_while_the_command_runs() {
    let mut fixture = Fixture::open().await;
    fixture
        .start("run_shell_command", json!({ "command": "echo first; read -t 5 < <(sleep 5)" }))
        .await;
    let text = fixture
        .until(|event| match event {
            Event::CallOutput { text, .. } => Some(text.clone()),
            Event::CallEnded { .. } => Some("too late".into()),
            _ => None,
        })
        .await;
    assert_eq!(text, "first\n");
    fixture.cancel().await;
}

#[tokio::test]
async fn a_command_fails_with_its_status_and_its_output() {
    let mut fixture = Fixture::open().await;
    for (command, code, message) in [
        ("echo no; exit 3", 3, "no\nexit status 3"),
        ("exit 255", 255, "exit status 255"),
        ("kill -9 $$", 137, "exit status 137"),
        ("kill -TERM $$", 143, "exit status 143"),
        ("printf x; false", 1, "x\nexit status 1"),
    ] {
        let failure = fixture.fail("run_shell_command", json!({ "command": command })).await;
        assert_eq!((failure.kind.as_str(), failure.code), ("exit_status", Some(code)), "{command}");
        assert_eq!(failure.message, message);
    }
    let failure = fixture.fail("run_shell_command", json!({ "command": "no-such-program" })).await;
    assert_eq!(failure.code, Some(127));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let mut fixture = Fixture::open().await;
    let start = Instant::now();
    let input = json!({ "command": "echo begun; sleep 4711.1", "timeout_seconds": 1 });
    let failure = fixture.fail("run_shell_command", input).await;
    assert_eq!(failure.kind, "timeout");
    assert_eq!(failure.message, "begun\ntimed out after 1 s");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(processes("4711.1").count(), 0);
}

/// Nothing of the command is left, whether the agent waits for the call or drops it.
#[tokio::test]
async fn a_cancelled_command_is_gone_within_a_second() {
    for (mut fixture, marker) in
        [(Fixture::open().await, "4712.1"), (Fixture::abandoning().await, "4712.2")]
    {
        let running = || processes(&format!("sleep\0{marker}\0")).count();
        let command = format!(
            "trap '' TERM; setsid bash -c 'trap \"\" TERM; setsid sleep {marker} & sleep {marker}' & \
             echo ready; sleep {marker}; sleep {marker}"
        );
        fixture.start("run_shell_command", json!({ "command": command })).await;
        fixture.until(|event| matches!(event, Event::CallOutput { .. }).then_some(())).await;
        while running() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let start = Instant::now();
        fixture.cancel().await;
        assert!(matches!(fixture.outcome().await, CallOutcome::Cancelled { .. }));
        while running() > 0 {
            assert!(start.elapsed() < Duration::from_secs(1), "still running");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("gone after {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn the_person_may_change_the_command() {
    let mut fixture = Fixture::asking().await;
    fixture.start("run_shell_command", json!({ "command": "echo model" })).await;
    let (call, details) = fixture.question().await;
    let directory = fixture.root().to_str().unwrap().to_owned();
    assert_eq!(details, Details::Execute { command: "echo model".into(), directory });
    let edit = Edit::Command { command: "echo person".into() };
    fixture.answer(&call, "proceed_once", Some(edit)).await;
    let CallOutcome::Succeeded { output } = fixture.outcome().await else { panic!() };
    assert_eq!(output.text, "person\n");
}

/// A37. The canaries are in the configured environment; this test's own environment, which cargo fills,
/// takes the place of Loggia's.
#[tokio::test]
async fn secrets_of_the_environment_do_not_reach_commands() {
    if !probe().own_proc {
        return println!("not here: commands see everybody's /proc");
    }
    const CANARIES: &[&str] = &[
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "LOGGIA_TOKEN",
        "LD_PRELOAD",
        "GIT_SSH_COMMAND",
        "SSH_AUTH_SOCK",
        "BASH_ENV",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
    ];
    let mut env: Vec<(OsString, OsString)> = config().env;
    env.extend(CANARIES.iter().map(|name| ((*name).into(), "canary-value".into())));
    env.extend([("LC_TIME".into(), "C".into()), ("MINE".into(), "passed".into())]);
    let config = ToolConfig { env, pass_env: vec!["MINE".into()], ..config() };
    let mut fixture = Fixture::with(Mode::All, config).await;
    let command = "env; tr '\\0' '\\n' </proc/$PPID/environ; cat /proc/*/environ";
    let text = fixture.text("run_shell_command", json!({ "command": command })).await;
    for name in CANARIES.iter().chain(&["canary-value", "CARGO_MANIFEST_DIR"]) {
        assert!(!text.contains(name), "{name} in {text}");
    }
    let lines: Vec<&str> = text.lines().collect();
    let fixed = ["LOGGIA=1", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0"];
    for expected in fixed.iter().chain(&["LC_TIME=C", "MINE=passed"]) {
        assert!(lines.contains(expected), "{expected}");
    }
}

#[tokio::test]
async fn a_command_reaches_neither_its_guard_nor_loggia() {
    if !probe().pid_namespace {
        return println!("not here: the command would kill everything");
    }
    let mut fixture = Fixture::open().await;
    let command = "kill -9 $PPID; kill -9 -1; echo alive";
    let text = fixture.text("run_shell_command", json!({ "command": command })).await;
    assert!(text.ends_with("alive\n"), "{text}");
}

#[tokio::test]
async fn a_missing_guard_or_shell_is_a_clear_failure() {
    let config = ToolConfig { guard: Vec::new(), ..config() };
    let mut fixture = Fixture::with(Mode::All, config).await;
    let failure = fixture.fail("run_shell_command", json!({ "command": "true" })).await;
    assert_eq!(failure.kind, "cannot_start");
    let config = ToolConfig { shell: Some("/no/such/shell".into()), ..crate::fixture::config() };
    let mut fixture = Fixture::with(Mode::All, config).await;
    let failure = fixture.fail("run_shell_command", json!({ "command": "true" })).await;
    assert!(failure.message.contains("cannot start /no/such/shell"), "{}", failure.message);
}

#[tokio::test]
async fn too_long_a_command_is_refused_before_the_approval() {
    let mut fixture = Fixture::asking().await;
    let input = json!({ "command": "x".repeat(101 * 1024) });
    assert_eq!(fixture.fail("run_shell_command", input).await.kind, "invalid_input");
}

/// A directory that looks like a repository and configures a program for `git status`.
fn looks_like_a_repository(fixture: &Fixture) {
    fixture.put("HEAD", "ref: refs/heads/main\n");
    fixture.put("objects/a", "");
    fixture.put("refs/a", "");
    let config = "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\n\
                  fsmonitor = \"touch RAN; false\"\n";
    fixture.put("config", config);
}

/// A rule for `git status` allows no program that a directory configures.
#[tokio::test]
async fn a_command_allowed_by_a_rule_runs_no_configured_program() {
    let mut fixture = Fixture::asking().await;
    fixture.allow("git status").await;
    looks_like_a_repository(&fixture);
    let failure = fixture.fail("run_shell_command", json!({ "command": "git status" })).await;
    assert!(failure.message.contains("safe.bareRepository"), "{failure:?}");
    assert!(!fixture.root().join("RAN").exists());
    // A call that a person approved runs git as usual.
    let mut asking = Fixture::asking().await;
    looks_like_a_repository(&asking);
    asking.start("run_shell_command", json!({ "command": "git status" })).await;
    let (call, _) = asking.question().await;
    asking.answer(&call, "proceed_once", None).await;
    asking.outcome().await;
    assert!(asking.root().join("RAN").exists());
}

/// The model chooses the directory, and the rule does not apply to it.
#[tokio::test]
async fn a_rule_does_not_apply_in_another_directory() {
    let mut fixture = Fixture::asking().await;
    fixture.allow("echo a").await;
    std::fs::create_dir(fixture.root().join("sub")).unwrap();
    assert_eq!(fixture.text("run_shell_command", json!({ "command": "echo a" })).await, "a\n");
    let input = json!({ "command": "echo a", "directory": "sub" });
    fixture.start("run_shell_command", input).await;
    let (call, _) = fixture.question().await;
    fixture.answer(&call, "cancel", None).await;
    fixture.outcome().await;
}

#[tokio::test]
async fn an_external_diff_of_the_repository_is_not_run_by_a_rule() {
    let mut fixture = Fixture::asking().await;
    let root = fixture.root();
    let run = |line: &str| {
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", line]).current_dir(&root).status().unwrap().success());
    };
    fixture.put("f", "a\n");
    run("git init -q . && git add f && echo b > f");
    fixture.allow("git diff").await;
    let shown = fixture.text("run_shell_command", json!({ "command": "git diff" })).await;
    assert!(shown.contains("+b"), "{shown}");
    run("git config diff.external 'touch RAN;'");
    fixture.start("run_shell_command", json!({ "command": "git diff" })).await;
    let (call, _) = fixture.question().await;
    fixture.answer(&call, "cancel", None).await;
    fixture.outcome().await;
    assert!(!fixture.root().join("RAN").exists());
}

/// Only commands that a rule allows get these settings.
#[tokio::test]
async fn a_person_and_mode_all_get_the_usual_environment() {
    let command = json!({ "command": "printenv GIT_CONFIG_COUNT" });
    let mut fixture = Fixture::asking().await;
    fixture.start("run_shell_command", command.clone()).await;
    let (call, _) = fixture.question().await;
    fixture.answer(&call, "proceed_once", None).await;
    assert!(matches!(fixture.outcome().await, CallOutcome::Failed { .. }), "none is set");
    fixture.allow("printenv GIT_CONFIG_COUNT").await;
    assert_eq!(fixture.text("run_shell_command", command.clone()).await, "5\n");
    let mut open = Fixture::open().await;
    open.fail("run_shell_command", command).await;
}
