//! Tests the isolation of commands with the guard that they run under.

use std::path::Path;

use loggia_agent::guard::Probe;
use serde_json::{Value, json};

use super::Check;
use super::program::Programs;
use crate::compose::OWN_PROGRAM;

pub struct Isolation {
    pub checks: Vec<Check>,
    pub sandbox: Value,
}

/// Processes, memory and environment are limited; files and network are not.
const LEVEL: u8 = 1;

pub async fn find(programs: &Programs) -> Isolation {
    let answer = programs.ask(Path::new(OWN_PROGRAM), &["guard", "probe"]).await;
    let probe =
        answer.and_then(|line| Probe::parse(&line).ok_or_else(|| format!("it answered `{line}`")));
    let bubblewrap = version_of_bubblewrap(programs).await;
    let landlock = has_landlock();
    let (mut checks, sandbox) = match probe {
        Ok(probe) => (guarded(probe), described(probe)),
        Err(reason) => {
            let text = format!("the guard of commands does not run: {reason}");
            let next = "Reinstall Loggia; commands cannot run without it.";
            (vec![Check::broken("commands", text, next)], json!({ "level": 0, "why": reason }))
        }
    };
    checks.push(sandboxed(bubblewrap.as_deref(), landlock));
    Isolation { checks, sandbox }
}

fn described(probe: Probe) -> Value {
    json!({
        "level": LEVEL,
        "probes": probe,
        "missing": ["files", "network"],
    })
}

pub fn guarded(probe: Probe) -> Vec<Check> {
    let tree = if probe.pid_namespace {
        let kind = if probe.user_namespace { ", inside a user namespace" } else { "" };
        let text = format!("end with their call: each has its own process namespace{kind}");
        Check::works("commands", text)
    } else {
        let text = "have no process namespace: remaining processes are searched for and killed";
        Check::limited("commands", text, "Allow user namespaces to make this reliable.")
    };
    let view = if probe.own_proc {
        Check::works("process view", "a command sees its own processes only")
    } else {
        let text = "a command can see other processes in /proc, and read those of yours";
        Check::limited("process view", text, "")
    };
    let count = match (probe.cgroup_pids, probe.rlimit_processes) {
        (true, _) => Check::works("process count", "at most 256 a call, by control group"),
        (false, true) => Check::works("process count", "at most 256 a call, by resource limit"),
        (false, false) => {
            let next = "Run Loggia as an ordinary user: resource limits do not bind root.";
            Check::limited("process count", "a call may start any number of processes", next)
        }
    };
    let memory = if probe.cgroup_memory {
        Check::works("memory", "at most 4 GiB for all processes of a call together")
    } else {
        let text = "at most 4 GiB for each process; not limited for all of a call together";
        Check::limited("memory", text, "")
    };
    vec![tree, view, count, memory]
}

/// Reports missing isolation. An installed but unused sandbox protects nothing.
pub fn sandboxed(bubblewrap: Option<&str>, landlock: Option<bool>) -> Check {
    let bubblewrap = match bubblewrap {
        Some(version) => format!("{version} is installed"),
        None => "bubblewrap is not installed".to_owned(),
    };
    let landlock = match landlock {
        Some(true) => "the kernel has Landlock",
        Some(false) => "the kernel has no Landlock",
        None => "whether the kernel has Landlock cannot be read",
    };
    let text = format!(
        "commands may reach every file and network that you can ({bubblewrap}, {landlock}; this \
         version uses neither)"
    );
    Check::limited("files, network", text, "Leave the mode at `ask`, and read what you allow.")
}

async fn version_of_bubblewrap(programs: &Programs) -> Option<String> {
    let path = programs.find("bwrap")?;
    programs.ask(&path, &["--version"]).await.ok()
}

/// Reads the kernel's list of security modules, if possible.
fn has_landlock() -> Option<bool> {
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm").ok()?;
    Some(modules.trim().split(',').any(|module| module == "landlock"))
}
