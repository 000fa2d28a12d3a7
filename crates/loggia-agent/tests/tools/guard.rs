//! The guard as a process: no process of a command survives Loggia (R13-R15).

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loggia_agent::guard::Probe;

use crate::fixture::{guard, processes};

/// How a guard is started.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Containment {
    Myself,
    /// An ordinary user: the namespace is inside a user namespace.
    Nobody,
    /// Without PID namespaces: descendants are found and killed.
    WithoutNamespaces,
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The ways in which a command has a namespace.
fn contained() -> Vec<Containment> {
    ways().into_iter().filter(|way| tried(*way).pid_namespace).collect()
}

fn tried(way: Containment) -> Probe {
    Probe::parse(&run(way, "probe").1).unwrap()
}

fn ways() -> Vec<Containment> {
    let mut ways = vec![Containment::Myself];
    if root() {
        ways.push(Containment::Nobody);
    }
    // The limit belongs to a user namespace, so a new one can set it to zero.
    if Command::new("unshare").args(["-Ur", "true"]).status().is_ok_and(|status| status.success()) {
        ways.push(Containment::WithoutNamespaces);
    }
    ways
}

fn command(way: Containment, script: &str) -> Command {
    let parts = guard();
    let mut command = match way {
        Containment::Myself => Command::new(&parts[0]),
        Containment::Nobody => {
            let mut command = Command::new(&parts[0]);
            command.uid(65534).gid(65534);
            command
        }
        Containment::WithoutNamespaces => {
            let mut command = Command::new("unshare");
            let forbid = "echo 0 >/proc/sys/user/max_pid_namespaces && exec \"$@\"";
            command.args(["-Ur", "sh", "-c", forbid, "sh"]).arg(&parts[0]);
            command
        }
    };
    command.arg("guard");
    if script == "probe" {
        command.arg("probe");
    } else {
        command.args(["run", "/bin/bash", "-c", script]);
    }
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(way: Containment, script: &str) -> (Option<i32>, String) {
    let mut child = command(way, script).spawn().unwrap();
    // Held until the end, because waiting would close it.
    let leash = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(leash);
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

fn count(marker: &str) -> usize {
    processes(&format!("sleep\0{marker}\0")).count()
}

fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "{what}: not after {limit:?}");
        std::thread::sleep(Duration::from_millis(3));
    }
    start.elapsed()
}

/// Four sleeping processes that ignore TERM: two in new sessions, two orphaned.
fn ignoring_term(marker: &str) -> String {
    format!(
        "trap '' TERM; sleep {marker} & setsid bash -c 'setsid sleep {marker} & exec sleep {marker}' & \
         (setsid sleep {marker} &) ; wait; wait; wait"
    )
}

fn started(way: Containment, script: &str, marker: &str, expected: usize) -> Child {
    let child = command(way, script).spawn().unwrap();
    wait_until("start", Duration::from_secs(20), || count(marker) >= expected);
    child
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_closed_pipe_ends_everything_within_a_second() {
    for (index, way) in ways().into_iter().enumerate() {
        let marker = format!("5100.{index}");
        let mut child = started(way, &ignoring_term(&marker), &marker, 4);
        drop(child.stdin.take());
        let time = wait_until("end", SECOND, || count(&marker) == 0);
        child.wait().unwrap();
        println!("{way:?}: gone after {time:?}");
    }
}

/// bash takes the place of Loggia: it starts the guard with a pipe, and is killed.
#[test]
fn when_loggia_is_killed_everything_ends() {
    let marker = "5200.0";
    let script = format!(
        "exec 3> >(exec {} guard run /bin/bash -c \"{}\"); read",
        guard()[0].to_str().unwrap(),
        ignoring_term(marker)
    );
    let mut loggia =
        Command::new("/bin/bash").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    wait_until("start", Duration::from_secs(20), || count(marker) >= 4);
    loggia.kill().unwrap();
    let time = wait_until("end", SECOND, || count(marker) == 0);
    loggia.wait().unwrap();
    println!("gone after {time:?}");
}

/// The same while another process holds the pipe open: the guard also watches Loggia's process.
#[test]
fn a_pipe_held_open_does_not_keep_a_command_alive() {
    let marker = "5300.0";
    let (reader, held) = std::io::pipe().unwrap();
    let script = format!(
        "{} guard run /bin/bash -c 'sleep {marker}' <&0; true",
        guard()[0].to_str().unwrap()
    );
    let mut loggia = Command::new("/bin/bash").args(["-c", &script]).stdin(reader).spawn().unwrap();
    wait_until("start", Duration::from_secs(20), || count(marker) >= 1);
    loggia.kill().unwrap();
    wait_until("end", SECOND, || count(marker) == 0);
    loggia.wait().unwrap();
    drop(held);
}

#[test]
fn a_killed_guard_takes_its_namespace_with_it() {
    if !contained().contains(&Containment::Myself) {
        return println!("not here: there is no namespace");
    }
    let marker = "5400.0";
    let mut child = started(Containment::Myself, &ignoring_term(marker), marker, 4);
    child.kill().unwrap();
    wait_until("end", SECOND, || count(marker) == 0);
    child.wait().unwrap();
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    for (index, way) in ways().into_iter().enumerate() {
        let marker = format!("5500.{index}");
        let start = Instant::now();
        let script = format!("setsid sleep {marker} & (sleep {marker} &); echo done; exit 5");
        assert_eq!(run(way, &script), (Some(5), "done\n".into()), "{way:?}");
        assert_eq!(count(&marker), 0);
        println!("{way:?}: {:?}", start.elapsed());
    }
}

#[test]
fn the_exit_status_is_passed_on() {
    for way in ways() {
        for (script, code) in
            [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill -INT $$", 130)]
        {
            assert_eq!(run(way, script).0, Some(code), "{way:?} {script}");
        }
    }
}

#[test]
fn signals_stay_in_the_namespace() {
    for way in contained() {
        let (code, text) = run(way, "kill -9 $PPID; kill -9 -1 2>/dev/null; echo alive $PPID");
        assert_eq!((code, text.as_str()), (Some(0), "alive 1\n"), "{way:?}");
    }
}

#[test]
fn a_commands_processes_are_the_only_ones_it_sees() {
    for way in contained() {
        let (_, text) = run(way, "cd /proc; for pid in [0-9]*; do echo $pid; done | wc -l");
        assert!(text.trim().parse::<u32>().unwrap() <= 4, "{way:?} sees {text}");
    }
}

#[test]
fn an_ordinary_user_gains_no_rights() {
    let way = if root() { Containment::Nobody } else { Containment::Myself };
    let (_, text) = run(way, "grep -E 'Cap(Prm|Eff|Inh|Amb)' /proc/self/status");
    assert_eq!(text.matches("0000000000000000").count(), 4, "{text}");
}

#[test]
fn limits_are_set() {
    let (_, text) = run(Containment::Myself, "ulimit -c; ulimit -d; ulimit -f");
    assert_eq!(text, format!("0\n{}\n{}\n", 4 << 20, 8 << 20));
}

/// R14. Asserted where the probe says that there is a limit.
#[test]
fn a_fork_storm_stays_small_and_ends_at_once() {
    for (index, way) in ways().into_iter().enumerate() {
        let probe = tried(way);
        let marker = format!("5600.{index}");
        let script = format!("for i in $(seq 600); do sleep {marker} & done 2>/dev/null; wait");
        let mut child = command(way, &script).spawn().unwrap();
        wait_until("start", Duration::from_secs(20), || count(&marker) > 200);
        std::thread::sleep(SECOND);
        let running = count(&marker);
        println!("{way:?}: {running} processes, {probe:?}");
        if probe.cgroup_pids || probe.rlimit_processes {
            assert!(running <= 256, "{way:?}: {running}");
        }
        drop(child.stdin.take());
        wait_until("end", SECOND, || count(&marker) == 0);
        child.wait().unwrap();
    }
}

#[test]
fn the_probe_reports_the_containment() {
    for way in ways() {
        let (code, text) = run(way, "probe");
        assert_eq!(code, Some(0), "{way:?} {text}");
        let probe = Probe::parse(&text).unwrap();
        assert!(!probe.pid_namespace || way != Containment::WithoutNamespaces, "{way:?} {text}");
        assert!(probe.pid_namespace || !probe.own_proc, "{way:?} {text}");
        println!("{way:?}: {text}");
    }
    assert_eq!(Probe::parse("nonsense"), None);
}

#[test]
fn no_control_group_is_left_behind() {
    run(Containment::Myself, "true");
    let groups = std::fs::read_dir("/sys/fs/cgroup/pids").into_iter().flatten().flatten();
    for group in groups {
        let name = group.file_name().into_string().unwrap_or_default();
        if let Some(pid) = name.strip_prefix("loggia-guard-") {
            // Other tests run at the same time, so groups of running guards are ignored.
            assert!(std::path::Path::new("/proc").join(pid).exists(), "{name}");
        }
    }
}

#[test]
fn wrong_arguments_are_reported() {
    let parts = guard();
    let output = Command::new(&parts[0]).arg("guard").arg("x").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("loggia guard: expected"));
}
