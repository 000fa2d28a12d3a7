//! A20: the scope of "always": directory, principal and duration.

use std::process::Command;

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::oauth::register;
use crate::served::{Served, text_message};

const ANN: &[&str] = &["--scope", "read", "--scope", "prompt", "--scope", "approve"];

struct Sender<'a> {
    served: &'a Served,
    token: Option<String>,
}

impl Sender<'_> {
    async fn send(&self, message: Value) -> Value {
        let params = json!({ "message": message, "configuration": { "blocking": true } });
        match &self.token {
            Some(token) => self.served.call_as(token, "/", "message/send", params).await,
            None => self.served.call("message/send", params).await,
        }
    }

    /// Sends a prompt and returns its task.
    async fn prompt(&self, id: &str, text: &str) -> Value {
        let mut message = text_message(text);
        message["messageId"] = id.into();
        self.send(message).await["result"].clone()
    }

    /// Sends a text answer.
    async fn answer(&self, task: &Value, id: &str, choice: &str) -> Value {
        let mut message = text_message(choice);
        message["messageId"] = id.into();
        message["taskId"] = task["id"].clone();
        self.send(message).await
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or("none")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_grants_for_its_own_prompts_until_it_is_revoked() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", ANN);
    let served = Served::shared(&machine, &[]);
    let owner = Sender { served: &served, token: None };
    let ann = Sender { served: &served, token: Some(ann.token(&served).await) };

    let task = ann.prompt("p1", "run echo hi").await;
    assert_eq!(state(&task), "input-required", "{task}");
    assert!(!task.to_string().contains("proceed_always_project"), "not offered: {task}");
    let unclear = ann.answer(&task, "a0", "perhaps").await;
    let why = unclear["error"]["message"].as_str().unwrap_or_default();
    assert!(
        why.contains(
            "`perhaps` is not one of the offered choices: proceed_once, proceed_always, cancel"
        ),
        "{unclear}"
    );
    let seen = served.call("tasks/get", json!({ "id": task["id"] })).await;
    assert!(seen.to_string().contains("proceed_always_project"), "offered to the owner: {seen}");
    let refused = ann.answer(&task, "a1", "proceed_always_project").await;
    let why = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("only for the user who runs Loggia"), "{refused}");
    assert!(why.contains("proceed_once, proceed_always, cancel"), "{refused}");
    let granted = ann.answer(&task, "a2", "proceed_always").await;
    assert_eq!(state(&granted["result"]), "completed", "the question was still open: {granted}");

    assert_eq!(state(&ann.prompt("p2", "run echo hi").await), "completed");
    let listed = ann.prompt("p3", "/approvals").await.to_string();
    assert!(listed.contains("for prompts of client:ann"), "{listed}");
    let task = owner.prompt("p4", "run echo hi").await;
    assert_eq!(state(&task), "input-required", "the owner has granted nothing");
    let granted = owner.answer(&task, "a4", "proceed_always_project").await;
    assert_eq!(state(&granted["result"]), "completed", "{granted}");
    let listed = ann.prompt("p5", "/approvals").await.to_string();
    assert!(!listed.contains("always in this workspace"), "{listed}");
    let rules = machine.run(&["approvals", "list"]).out;
    assert!(rules.contains("command `echo hi` in the workspace's root"), "{rules}");
    let rule = rules.split(' ').next().unwrap();
    let refused = ann.prompt("p6", &format!("/approvals revoke {rule}")).await;
    assert_eq!(state(&refused), "failed", "{refused}");

    // Revoked on the command line while the session is open: effective before the next call.
    assert_eq!(machine.run(&["approvals", "revoke", rule]).code, 0);
    let task = owner.prompt("p7", "run echo hi").await;
    assert_eq!(state(&task), "input-required", "{task}");
    owner.answer(&task, "a7", "cancel").await;
    assert_eq!(machine.run(&["clients", "revoke", "ann"]).code, 0);
    let listed = owner.prompt("p8", "/approvals").await.to_string();
    assert!(listed.contains("No rule is in force here"), "before the next call: {listed}");
    let task = owner.prompt("p9", "run echo hi").await;
    owner.answer(&task, "a9", "cancel").await;
    let listed = owner.prompt("p10", "/approvals").await.to_string();
    assert!(listed.contains("No rule is in force here"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_rule_is_for_the_root_and_a_denied_command_for_no_form() {
    let machine = Machine::new();
    machine.configure("[commands]\nallow = ['git status']\ndeny = ['touch *']\n");
    // Files that git takes for a repository by itself.
    machine.write("HEAD", "ref: refs/heads/main\n");
    machine.write("objects/a", "");
    machine.write("refs/a", "");
    machine.write(
        "config",
        "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = \"echo > RAN; false\"\n",
    );
    let ran = machine.run(&["run", "run git status"]);
    assert!(ran.out.contains("safe.bareRepository"), "{}{}", ran.out, ran.err);
    assert_eq!(machine.read("RAN"), None);
    for line in [
        "$'\\x74ouch' X",
        "touch 2>&1 X",
        "t$@ouch X",
        "$(echo touch) X",
        "echo dG91Y2ggWA== | base64 -d | sh",
    ] {
        let ran = machine.run(&["run", "--approve", "all", &format!("run {line}")]);
        assert!(ran.out.contains("a rule forbids it"), "{line}: {}{}", ran.out, ran.err);
        assert_eq!(machine.read("X"), None, "{line}");
    }
}

/// Runs a line of `sh` in the workspace.
fn sh(machine: &Machine, line: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(machine.work()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]
    {
        shell.env(name, "t@example.org");
    }
    assert!(shell.status().unwrap().success(), "{line}");
}

/// A repository with one changed file.
fn repository() -> Machine {
    let machine = Machine::new();
    machine.configure(
        "[commands]\nallow = ['git diff', 'git status', 'git commit -qam two', 'git log']\n",
    );
    sh(&machine, "git init -q . && echo a > f && git add f && git commit -qm one && echo b > f");
    machine
}

#[test]
fn a_rule_for_git_runs_no_program_that_the_repository_configures() {
    let program = "echo \"#!/bin/sh\ntouch $PWD/RAN\ncat\" > .git/p; chmod +x .git/p";
    for (line, configure) in [
        ("git diff", "echo 'f diff=x' > .gitattributes; git config diff.x.command $PWD/.git/p"),
        (
            "git diff",
            "echo 'f diff=x' > .git/info/attributes; git config diff.x.command $PWD/.git/p",
        ),
        ("git diff", "echo 'f diff=x' > .gitattributes; git config diff.x.textconv $PWD/.git/p"),
        (
            "git diff",
            "echo 'f diff=x' > .gitattributes; git config extensions.worktreeConfig true; \
             git config --worktree diff.x.command $PWD/.git/p",
        ),
        (
            "git diff",
            "echo 'f diff=x' > .gitattributes; git config include.path more; \
             git config --file .git/more diff.x.command $PWD/.git/p",
        ),
        ("g''it diff", "echo 'f diff=x' > .gitattributes; git config diff.x.command $PWD/.git/p"),
        ("git status", "echo 'f filter=x' > .gitattributes; git config filter.x.clean $PWD/.git/p"),
        ("git diff", "echo 'f filter=x' > .gitattributes; git config filter.x.process $PWD/.git/p"),
        ("git diff", "git config diff.external $PWD/.git/p"),
    ] {
        let machine = repository();
        sh(&machine, program);
        sh(&machine, configure);
        let ran = machine.run(&["run", &format!("run {line}")]);
        assert_eq!(machine.read("RAN"), None, "{configure}: {}{}", ran.out, ran.err);
        assert_eq!(ran.code, 3, "it asks: {configure}: {}{}", ran.out, ran.err);
        let approved = machine.run(&["run", "--approve", "all", &format!("run {line}")]);
        assert!(machine.read("RAN").is_some(), "{configure}: {}{}", approved.out, approved.err);
    }
}

#[test]
fn a_rule_for_git_runs_no_hook_and_no_pager_and_is_for_one_directory() {
    let machine = repository();
    let hook = "echo \"#!/bin/sh\ntouch $PWD/RAN\" > .git/hooks/pre-commit; \
                chmod +x .git/hooks/pre-commit";
    sh(&machine, hook);
    sh(&machine, "git config core.pager 'touch RAN; cat' && git config pager.log 'touch RAN; cat'");
    for line in ["git diff", "git log", "git commit -qam two"] {
        let ran = machine.run(&["run", &format!("run {line}")]);
        assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
        assert_eq!(machine.read("RAN"), None, "{line}");
    }
    // The model chooses the directory.
    sh(&machine, "git init -q sub");
    let script = "[[rule]]\nsteps = [{ call = \"run_shell_command\", \
                  input = { command = \"git status\", directory = \"sub\" } }]\n";
    let model = machine.script("script.toml", script);
    let ran = machine.run(&["run", "--model", &model, "go"]);
    assert_eq!(ran.code, 3, "it asks: {}{}", ran.out, ran.err);
}
