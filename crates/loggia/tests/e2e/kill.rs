//! R01–R04: kill -9 at any time. No visible event is lost, nothing runs twice, and every open
//! approval can still be answered.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use loggia_core::{CallId, CallOutcome, Envelope, Event};

use crate::driver::{Machine, announced, shape, streamed};

/// Leaves a mark for each call: text, thoughts, a single call, two concurrent calls, an edit.
const SCRIPT: &str = r#"
[[rule]]
regex = "go (?<mark>[a-z0-9]+)"
steps = [
  { text = "One step after the other, with some words in between. ", chunk = 4, delay = "1ms" },
  { thought = "nothing must be lost", subject = "care" },
  { call = "run_shell_command", input = { command = "echo ${mark}-one >> ledger.txt; sleep 0.02" } },
  { text = "The first one is done, now two at once. ", chunk = 4, delay = "1ms" },
  { calls = [
    { tool = "run_shell_command", input = { command = "echo ${mark}-two >> ledger.txt; sleep 0.02" } },
    { tool = "run_shell_command", input = { command = "echo ${mark}-three >> ledger.txt" } },
  ] },
  { call = "write_file", input = { path = "${mark}.txt", content = "written once\n" } },
  { text = "All done." },
]
"#;

/// A small generator, so that a failure can be reproduced from its seed.
struct SeededRandom(u64);

impl SeededRandom {
    fn next(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Runs one session to its end and kills it `kills` times.
fn survive(seed: u64, kills: u32, span: Duration) {
    let machine = Machine::new();
    let model = machine.script("kill.toml", SCRIPT);
    let mut random = SeededRandom(seed);
    let mut session: Option<String> = None;
    let mut seen: Vec<Envelope> = Vec::new();
    let mut prompts = 0;
    let mut killed = 0;
    let mut idle = true;
    while killed < kills || !idle || session.is_none() {
        let approve = if killed < kills && random.next(3) == 0 { "ask" } else { "all" };
        let mut arguments =
            vec!["run", "--output", "stream-json", "--model", &model, "--approve", approve];
        let text = format!("go s{seed}x{prompts}");
        let id = session.clone().unwrap_or_default();
        if session.is_some() {
            arguments.extend(["--session", &id]);
        }
        if idle {
            arguments.push(&text);
            prompts += 1;
        }
        let mut child = machine.start(&arguments);
        let mut killed_now = false;
        if killed < kills {
            let after = Duration::from_micros(random.next(span.as_micros() as u64));
            let begun = Instant::now();
            while begun.elapsed() < after && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                killed += 1;
                killed_now = true;
            }
        }
        let ran = crate::driver::Ran::from(child.wait_with_output().unwrap());
        if session.is_none() {
            session = announced(&ran.out).or_else(|| machine.sessions().pop());
            // Killed before anything was stored: start over.
            idle = true;
        }
        seen.extend(streamed(&ran.out));
        let Some(id) = &session else { continue };
        if !killed_now {
            // 2: the interrupted turn is recorded, and without a prompt nothing is left to do.
            assert!([0, 1, 2, 3].contains(&ran.code), "seed {seed}: {} {}", ran.code, ran.err);
        }
        let log = machine.log(id);
        check(&machine, &log, &seen, seed);
        idle = !is_busy(&log);
    }
    // The session still works.
    let id = session.unwrap();
    let last = format!("go s{seed}last");
    let ran = machine.run(&["run", "--session", &id, "--model", &model, "--approve", "all", &last]);
    assert_eq!(ran.code, 0, "seed {seed}: {}", ran.err);
    check(&machine, &machine.log(&id), &seen, seed);
    let done = machine.read("ledger.txt").unwrap();
    assert_eq!(done.lines().filter(|line| line.starts_with(&last[3..])).count(), 3, "seed {seed}");
    no_process_is_left(&machine, seed);
}

/// Whether a turn is open or a prompt is queued.
fn is_busy(log: &[Envelope]) -> bool {
    let mut session = loggia_core::Session::default();
    log.iter().for_each(|envelope| session.apply(envelope));
    session.summary().busy
}

fn check(machine: &Machine, log: &[Envelope], seen: &[Envelope], seed: u64) {
    for envelope in seen {
        let kept = log.get(usize::try_from(envelope.seq.0).unwrap() - 1);
        assert_eq!(kept, Some(envelope), "seed {seed}: somebody saw what is not in the log");
    }
    let mut titles: HashMap<CallId, String> = HashMap::new();
    let mut started: HashMap<CallId, u32> = HashMap::new();
    let mut ended: HashMap<CallId, &CallOutcome> = HashMap::new();
    let mut answered = HashMap::new();
    let mut open_turns = 0;
    for (index, envelope) in log.iter().enumerate() {
        assert_eq!(envelope.seq.0, index as u64 + 1, "seed {seed}");
        match &envelope.event {
            Event::CallProposed { call, input, .. } => {
                titles
                    .insert(call.clone(), input["command"].as_str().unwrap_or_default().to_owned());
            }
            Event::CallStarted { call, .. } => *started.entry(call.clone()).or_default() += 1,
            Event::CallEnded { call, outcome } => {
                assert!(
                    ended.insert(call.clone(), outcome).is_none(),
                    "seed {seed}: {call} ended twice"
                );
            }
            Event::ApprovalAnswered { approval, .. } => {
                assert!(
                    answered.insert(approval.clone(), ()).is_none(),
                    "seed {seed}: answered twice"
                );
            }
            Event::TurnStarted { .. } => {
                open_turns += 1;
                assert_eq!(open_turns, 1, "seed {seed}: two turns at once");
            }
            Event::TurnEnded { .. } => open_turns -= 1,
            _ => {}
        }
    }
    let ledger = machine.read("ledger.txt").unwrap_or_default();
    for (call, command) in &titles {
        let Some(mark) = command.split_whitespace().nth(1) else { continue };
        let ran = ledger.lines().filter(|line| *line == mark).count();
        let starts = started.get(call).copied().unwrap_or(0);
        assert!(starts <= 1 && ran <= starts as usize, "seed {seed}: {mark} ran {ran} times");
        if let Some(CallOutcome::Succeeded { .. }) = ended.get(call) {
            assert_eq!(ran, 1, "seed {seed}: {mark} is recorded as done");
        }
    }
}

/// Processes in the machine's directory.
fn left_behind(machine: &Machine) -> Vec<String> {
    let work = machine.work();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let inside = processes.filter(|entry| {
        std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&work))
    });
    inside.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn no_process_is_left(machine: &Machine, seed: u64) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while !left_behind(machine).is_empty() {
        assert!(Instant::now() < deadline, "seed {seed}: left behind {:?}", left_behind(machine));
        std::thread::yield_now();
    }
}

fn many(name: u64, span: Duration) {
    for round in 0..10 {
        survive(name * 1000 + round * 7 + 1, 5, span);
    }
}

// Four times fifty kills: at the start (opening, recovery), early (text, the first approval),
// anywhere, and late (tools, the end of the turn).

#[test]
fn killed_fifty_times_while_opening_and_recovering() {
    many(1, Duration::from_millis(40));
}

#[test]
fn killed_fifty_times_early() {
    many(2, Duration::from_millis(90));
}

#[test]
fn killed_fifty_times_anywhere() {
    many(3, Duration::from_millis(250));
}

#[test]
fn killed_fifty_times_late() {
    many(4, Duration::from_millis(500));
}

/// R01: the processes of a call die with Loggia, including double forks.
#[test]
fn a_killed_session_leaves_no_process_and_the_call_is_interrupted() {
    let machine = Machine::new();
    let command = "run (setsid sh -c 'sleep 300 & sleep 300' &) ; trap '' TERM; echo up; sleep 300";
    let mut child = machine.start(&["run", "--approve", "all", "--output", "stream-json", command]);
    let mut out = child.stdout.take().unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains("call_output") {
        let read = out.read(&mut buffer).unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    assert!(left_behind(&machine).len() > 2);
    child.kill().unwrap();
    child.wait().unwrap();
    no_process_is_left(&machine, 0);
    let session = machine.sessions().remove(0);
    let begun = Instant::now();
    let ran = machine.run(&["run", "--session", &session, "say back"]);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let log = machine.log(&session);
    let interrupted = log.iter().find_map(|envelope| match &envelope.event {
        Event::CallEnded { outcome: CallOutcome::Failed { failure }, .. } => Some(failure.clone()),
        _ => None,
    });
    assert_eq!(interrupted.unwrap().kind, "interrupted");
    assert!(shape(&log).contains("turn_ended(interrupted)"));
}

/// R02: the question is open again, with the same id.
#[test]
fn an_approval_that_was_open_is_open_again() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "write a.txt: x"]).code, 3);
    let session = machine.sessions().remove(0);
    let asked = machine.log(&session);
    for _ in 0..5 {
        let mut child = machine.start(&["run", "--session", &session]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(machine.log(&session), asked);
    }
    let ran = machine.run(&["run", "--session", &session, "--approve", "edits", "say next"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(machine.read("a.txt").as_deref(), Some("x\n"));
    let log = machine.log(&session);
    let approvals: Vec<_> = log
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::ApprovalAsked { approval, .. } => Some(("asked", approval)),
            Event::ApprovalAnswered { approval, .. } => Some(("answered", approval)),
            _ => None,
        })
        .collect();
    assert_eq!(approvals.len(), 2);
    assert_eq!(approvals[0].1, approvals[1].1);
}

/// R03 and R04: killed at every write and sync of the store.
#[test]
fn killed_at_every_write_and_every_sync_of_the_store() {
    let script = r#"
[[rule]]
steps = [
  { text = "before" },
  { call = "run_shell_command", input = { command = "echo ran >> ledger.txt" } },
  { text = "after" },
]
"#;
    let run = |machine: &Machine, trace: &[&str]| {
        let model = machine.script("store.toml", script);
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(machine.home().with_file_name("trace")).args(trace);
        command.arg(Machine::program());
        command.args([
            "run",
            "--output",
            "stream-json",
            "--model",
            &model,
            "--approve",
            "all",
            "go",
        ]);
        let output =
            machine.prepare(command).output().expect("strace: `cargo xtask test` installs it");
        let trace = std::fs::read_to_string(machine.home().with_file_name("trace")).unwrap();
        (crate::driver::Ran::from(output), trace)
    };
    for call in ["pwrite64", "fdatasync"] {
        let whole = Machine::new();
        let (ran, trace) = run(&whole, &["-e", &format!("trace={call}")]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let positions = trace.lines().filter(|line| line.contains(&format!("{call}("))).count();
        let reference = shape(&whole.log(&whole.sessions()[0]));
        assert!(positions > 2, "{trace}");
        let mut cut = 0;
        for n in 1..=positions {
            let machine = Machine::new();
            let inject = format!("inject={call}:signal=KILL:when={n}");
            let (ran, _) = run(&machine, &["-e", &format!("trace={call}"), "-e", &inject]);
            cut += u32::from(ran.code != 0);
            let sessions = machine.sessions();
            let seen = streamed(&ran.out);
            let Some(session) = sessions.first() else {
                assert!(seen.is_empty(), "{call} {n}: seen and gone");
                continue;
            };
            let log = machine.log(session);
            let kept = shape(&log);
            assert!(
                reference.starts_with(&kept),
                "{call} {n}: {kept} is no beginning of {reference}"
            );
            check(&machine, &log, &seen, n as u64);
            let again =
                machine.run(&["run", "--session", session, "--model", "offline", "say recovered"]);
            assert_eq!(again.code, 0, "{call} {n}: {}", again.err);
            check(&machine, &machine.log(session), &seen, n as u64);
        }
        assert!(cut > 2, "{call}: only {cut} of {positions} runs were cut");
    }
}

/// A recorded store of an older version whose processes were killed, and the logs that this version
/// read from it.
fn recorded(machine: &Machine) -> Vec<(String, Vec<Envelope>)> {
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loggia-store/tests/fixtures");
    std::fs::create_dir_all(machine.data()).unwrap();
    let mut logs = Vec::new();
    for file in std::fs::read_dir(store.join("format5-killed")).unwrap() {
        let (path, mut content) = (file.unwrap().path(), Vec::new());
        let mut packed = flate2::read::GzDecoder::new(File::open(&path).unwrap());
        packed.read_to_end(&mut content).unwrap();
        match path.file_stem().unwrap().to_str().unwrap() {
            "expected.json" => {
                let expected: serde_json::Value = serde_json::from_slice(&content).unwrap();
                let log = |log: &serde_json::Value| serde_json::from_value(log.clone()).unwrap();
                let all = expected["logs"].as_object().unwrap().iter();
                logs.extend(all.map(|(session, events)| (session.clone(), log(events))));
            }
            name => std::fs::write(machine.data().join(name), content).unwrap(),
        }
    }
    logs
}

/// Killed at every write, sync and removal during a migration: the next start completes it, and
/// every event exists once.
#[test]
fn killed_at_every_step_of_a_migration() {
    let migrate = |machine: &Machine, trace: &[&str]| {
        let file = machine.home().with_file_name("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(&file).args(trace).arg(Machine::program());
        command.args(["sessions", "list", "--all", "--json"]);
        let output =
            machine.prepare(command).output().expect("strace: `cargo xtask test` installs it");
        (crate::driver::Ran::from(output), std::fs::read_to_string(file).unwrap())
    };
    for call in ["pwrite64", "fdatasync", "unlink"] {
        let whole = Machine::new();
        let logs = recorded(&whole);
        let (ran, trace) = migrate(&whole, &["-e", &format!("trace={call}")]);
        assert_eq!((ran.code, ran.out.lines().count()), (0, logs.len()), "{}", ran.err);
        let positions = trace.lines().filter(|line| line.contains(&format!("{call}("))).count();
        assert!(positions >= 2, "{trace}");
        for n in 1..=positions {
            let machine = Machine::new();
            recorded(&machine);
            let inject = format!("inject={call}:signal=KILL:when={n}");
            migrate(&machine, &["-e", &format!("trace={call}"), "-e", &inject]);
            for (session, log) in &logs {
                assert_eq!(machine.log(session), *log, "{call} {n}: {session}");
            }
            let left = std::fs::read_dir(machine.data()).unwrap().flatten();
            let left: Vec<_> = left.map(|file| file.file_name()).collect();
            let journal = |name: &&std::ffi::OsString| name.to_string_lossy().contains("journal");
            assert_eq!(left.iter().filter(journal).count(), 0, "{call} {n}: {left:?}");
        }
    }
}
