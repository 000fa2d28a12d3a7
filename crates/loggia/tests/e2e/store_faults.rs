//! R20, R21, R23: a locked database, a damaged database, a clock that jumps.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use loggia_core::Envelope;
use serde_json::json;

use crate::driver::{Machine, Ran};
use crate::served::{Served, text_message};

/// Locks the database, as another program might.
fn hold(machine: &Machine) -> rusqlite::Connection {
    let other = rusqlite::Connection::open(machine.data().join("loggia.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

#[test]
fn a_lock_held_for_a_moment_is_waited_for() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "say one"]).code, 0);
    let other = hold(&machine);
    let child = machine.start(&["run", "--continue", "say two"]);
    std::thread::sleep(Duration::from_secs(3)); // the fault itself: held for three seconds
    drop(other);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "two\n"), "{}", ran.err);
}

#[test]
fn a_lock_held_for_long_is_a_clear_refusal_and_nothing_is_lost() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "say one"]).code, 0);
    let session = machine.sessions().remove(0);
    let before = machine.log(&session);
    let other = hold(&machine);
    let begun = Instant::now();
    let ran = machine.run(&["run", "--continue", "say two"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("locked") && ran.err.contains("nothing was lost"), "{}", ran.err);
    assert!(begun.elapsed() < Duration::from_secs(20));
    drop(other);
    assert_eq!(machine.log(&session), before);
    assert_eq!(machine.run(&["run", "--continue", "say two"]).code, 0);
}

/// A machine with two sessions, and their logs.
fn two_sessions() -> (Machine, Vec<(String, Vec<Envelope>)>) {
    let machine = Machine::new();
    let long = format!("say {}\nwrite a.txt: b\nrun echo c", "words ".repeat(200));
    for prompt in [long.as_str(), "say short\nlist"] {
        assert_eq!(machine.run(&["run", "--approve", "all", prompt]).code, 0);
    }
    let logs = machine.sessions().into_iter().map(|id| (id.clone(), machine.log(&id))).collect();
    (machine, logs)
}

const WAL: &str = "loggia.db-wal";

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["loggia.db", WAL] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// Reads a damaged log: the readable events and the message.
fn rescue(machine: &Machine, session: &str) -> (Vec<Envelope>, Ran) {
    let ran = machine.run(&["sessions", "export", session, "--format", "jsonl"]);
    let events = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (events, ran)
}

/// Either everything is readable, or a prefix and a message that names the file.
fn check(damaged: &Machine, logs: &[(String, Vec<Envelope>)], what: &str) -> bool {
    let mut noticed = false;
    for (session, log) in logs {
        let (events, ran) = rescue(damaged, session);
        assert!(log.starts_with(&events), "{what}: {session} reads wrong");
        let files = ["loggia.db", "there is no session"];
        let named = files.iter().any(|name| ran.err.contains(name));
        if events.len() < log.len() {
            assert!(
                named,
                "{what}: {} of {} events, and it says {:?}",
                events.len(),
                log.len(),
                ran.err
            );
        }
        noticed |= named;
    }
    noticed
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 1 << (offset % 8);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_byte_in_the_database_is_found_or_harmless() {
    let (machine, logs) = two_sessions();
    let size = usize::try_from(std::fs::metadata(machine.data().join("loggia.db")).unwrap().len())
        .unwrap();
    let mut found = 0;
    for n in 0..100 {
        let offset = (n * 7919 + 13) % size;
        let damaged = Machine::new();
        copy(&machine.data(), &damaged.data());
        flip(&damaged.data().join("loggia.db"), offset);
        found += u32::from(check(&damaged, &logs, &format!("offset {offset}")));
    }
    assert!(found > 5, "only {found} of 100 flips were noticed");
}

#[test]
fn a_flipped_byte_in_the_write_ahead_log_is_found_or_harmless() {
    let machine = Machine::new();
    let mut child = machine.start(&[
        "run",
        "--approve",
        "all",
        "--output",
        "stream-json",
        "say hello\nrun echo x\nwait 60s",
    ]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("call_ended")));
    child.kill().unwrap();
    child.wait().unwrap();
    let source = machine.home().with_file_name("as-killed");
    copy(&machine.data(), &source);
    let intact = Machine::new();
    copy(&source, &intact.data());
    let logs: Vec<_> =
        intact.sessions().into_iter().map(|id| (id.clone(), intact.log(&id))).collect();
    assert!(logs[0].1.len() > 5);
    let size = std::fs::read(source.join(WAL)).unwrap().len();
    let mut found = 0;
    for n in 0..50 {
        let offset = (n * 7919 + 5) % size;
        let damaged = Machine::new();
        copy(&source, &damaged.data());
        flip(&damaged.data().join(WAL), offset);
        // The first process that opens it reports it and keeps a copy before it truncates the log.
        found += u32::from(check(&damaged, &logs, &format!("{WAL} at {offset}")));
    }
    assert!(found > 25, "only {found} of 50 flips were noticed");
}

/// Offsets of these bytes in the file, each a little further on, and some random ones.
fn targets(bytes: &[u8], needles: &[&[u8]]) -> Vec<usize> {
    let mut targets = Vec::new();
    for needle in needles {
        let found = bytes.windows(needle.len()).enumerate().filter(|(_, here)| here == needle);
        targets.extend(found.map(|(at, _)| at).enumerate().map(|(n, at)| at + n % needle.len()));
    }
    targets.extend((0..60).map(|n| (n * 7919 + 13) % bytes.len()));
    targets
}

/// A list is complete, or reports the damaged file and fails.
#[test]
fn a_flipped_byte_never_shortens_a_list_of_sessions_in_silence() {
    let machine = Machine::new();
    for n in 0..6 {
        assert_eq!(machine.run(&["run", &format!("say {n}")]).code, 0);
    }
    let work = machine.work();
    let list = |home: &Machine, all: &[&str]| {
        let mut command = home.command(&[&["sessions", "list", "--json"], all].concat());
        Ran::from(command.current_dir(&work).output().unwrap())
    };
    let ids = |ran: &Ran| {
        let id = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["session"].to_string()
        };
        ran.out.lines().map(id).collect::<std::collections::BTreeSet<_>>()
    };
    let whole = ids(&list(&machine, &[]));
    assert_eq!(whole.len(), 6);
    let bytes = std::fs::read(machine.data().join("loggia.db")).unwrap();
    let workspace = work.to_str().unwrap().as_bytes();
    let first = machine.sessions().remove(0);
    let needles = [workspace, b"\"turns\":", b"\"busy\":false", first.as_bytes()];
    let (mut said, mut short) = (0, 0);
    for offset in targets(&bytes, &needles) {
        let damaged = Machine::new();
        copy(&machine.data(), &damaged.data());
        flip(&damaged.data().join("loggia.db"), offset);
        for all in [&[][..], &["--all"]] {
            let ran = list(&damaged, all);
            let is_whole = ran.code == 0 && ids(&ran) == whole;
            let is_said = ran.code != 0 && ran.err.contains("loggia.db");
            assert!(
                is_whole || is_said,
                "{offset} {all:?}: {} of 6\n{}",
                ran.out.lines().count(),
                ran.err
            );
            said += u32::from(is_said);
            short += u32::from(is_said && !ran.out.is_empty());
        }
    }
    assert!(said > 5, "only {said} were noticed");
    assert!(short > 0, "what can be read is shown");
}

/// The same for task lists on the wire: no total is too small.
#[tokio::test]
async fn a_flipped_byte_never_shortens_a_list_of_tasks_in_silence() {
    let machine = Machine::new();
    let mut served = Served::start(&machine, &["serve", "--port", "0"]);
    for n in 0..3 {
        served.call("message/send", json!({ "message": text_message(&format!("say {n}")) })).await;
    }
    let listed = served.call("ListTasks", json!({})).await;
    assert_eq!(listed["result"]["totalSize"], 3, "{listed}");
    served.signal(nix::sys::signal::Signal::SIGTERM);
    served.ended(Duration::from_secs(20));
    let bytes = std::fs::read(machine.data().join("loggia.db")).unwrap();
    let mut refused = 0;
    let states = targets(&bytes, &[b"completed"]).into_iter().take(16);
    let events = targets(&bytes, &[b"turn_started"]).into_iter().take(8);
    for offset in states.chain(events) {
        let damaged = Machine::new();
        copy(&machine.data(), &damaged.data());
        flip(&damaged.data().join("loggia.db"), offset);
        let start = || Served::start(&damaged, &["serve", "--port", "0"]);
        let Ok(served) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(start)) else {
            let ran = damaged.run(&["serve", "--port", "0"]);
            assert!(ran.code != 0 && ran.err.contains("loggia.db"), "{offset}: {}", ran.err);
            continue;
        };
        let listed = served.call("ListTasks", json!({})).await;
        assert!(
            listed["error"].is_object()
                || listed["result"]["totalSize"] == 3
                    && listed["result"]["tasks"].as_array().is_some_and(|tasks| tasks.len() == 3),
            "{offset}: {listed}"
        );
        refused += u32::from(listed["error"].is_object());
    }
    assert!(refused > 0, "none was noticed");
}

#[test]
fn a_truncated_or_empty_database_is_named() {
    let (machine, logs) = two_sessions();
    let size = std::fs::metadata(machine.data().join("loggia.db")).unwrap().len();
    for length in [1, 100, 4096, size / 2, size - 1] {
        let damaged = Machine::new();
        copy(&machine.data(), &damaged.data());
        let file =
            std::fs::File::options().write(true).open(damaged.data().join("loggia.db")).unwrap();
        file.set_len(length).unwrap();
        assert!(check(&damaged, &logs, &format!("length {length}")), "length {length}");
    }
}

/// R23: the order comes from the log, not the clock, and timers do not depend on wall-clock time.
#[test]
fn a_clock_that_jumps_changes_no_order_and_no_timer() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "say now"]).code, 0);
    for when in ["@1970-01-02 00:00:00", "-1d", "+1d", "@2038-01-20 00:00:00", "-1h"] {
        let mut command = Command::new("faketime");
        command.args(["-f", when]).arg(Machine::program()).args([
            "run",
            "--continue",
            "wait 30ms\nsay then",
        ]);
        let mut command = machine.prepare(command);
        let ran = Ran::from(command.output().expect("faketime: `cargo xtask test` installs it"));
        assert_eq!((ran.code, ran.out.as_str()), (0, "then\n"), "{when}: {}", ran.err);
    }
    let log = machine.log(&machine.sessions()[0]);
    let dense = log.iter().enumerate().all(|(index, envelope)| envelope.seq.0 == index as u64 + 1);
    assert!(dense);
    assert!(log.windows(2).any(|pair| pair[1].at < pair[0].at), "the clock did go back");
    assert_eq!(machine.sessions().len(), 1);
}

#[test]
fn a_clock_that_jumps_during_a_turn_is_not_noticed() {
    let machine = Machine::new();
    let clock = machine.home().with_file_name("clock");
    std::fs::write(&clock, "+0\n").unwrap();
    let mut command = Command::new("faketime");
    command.args(["-f", "+0"]).arg(Machine::program());
    command.args(["run", "--output", "stream-json", "say first\nwait 700ms\nsay second"]);
    let mut command = machine.prepare(command);
    command.env("FAKETIME_TIMESTAMP_FILE", &clock).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env_remove("FAKETIME");
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("text_appended")));
    std::fs::write(&clock, "-400d\n").unwrap();
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert!(child.wait().unwrap().success());
    let took = begun.elapsed();
    assert!(rest.iter().any(|line| line.contains("second")), "{rest:?}");
    assert!((Duration::from_millis(650)..Duration::from_secs(10)).contains(&took), "{took:?}");
}
