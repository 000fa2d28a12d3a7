//! R12–R15, R17, R34, A37: commands that print too much, never end, multiply, kill, or spy; an
//! invalid model reply; a panicking turn.

use std::process::Child;
use std::time::{Duration, Instant};

use loggia_core::{CallOutcome, Event};

use crate::driver::{Machine, Ran, shape};

/// The peak resident memory of a process in bytes.
fn peak_memory(child: &mut Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(5)); // a sampling rate, not a wait for anything
    }
    peak
}

/// R12: a gigabyte of output, as lines and as one line.
#[test]
fn a_gigabyte_of_output_stays_out_of_memory_and_out_of_the_log() {
    for command in ["yes | head -c 1000000000", "head -c 1000000000 /dev/zero | tr '\\0' x"] {
        let machine = Machine::new();
        let begun = Instant::now();
        let mut child =
            machine.start(&["run", "--quiet", "--approve", "all", &format!("run {command}")]);
        let peak = peak_memory(&mut child);
        let ran = Ran::from(child.wait_with_output().unwrap());
        println!("{command}: {:?}, peak {} MiB", begun.elapsed(), peak >> 20);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(peak < 100 << 20, "{command}: {} MiB", peak >> 20);
        let log = machine.log(&machine.sessions()[0]);
        let (mut kept, mut left_out) = (0, 0);
        for envelope in &log {
            if let Event::CallOutput { text, skipped, .. } = &envelope.event {
                kept += text.len() as u64;
                left_out += skipped;
            }
        }
        assert!(kept <= 512 * 1024, "{kept}");
        assert_eq!(kept + left_out, 1_000_000_000, "every byte is kept or counted");
        let size = std::fs::metadata(machine.data().join("loggia.db")).unwrap().len();
        assert!(size < 2 << 20, "{size}");
    }
}

fn with_call_limit(machine: &Machine, seconds: u32) {
    std::fs::create_dir_all(machine.home().join("config")).unwrap();
    let config = machine.home().join("config/config.toml");
    std::fs::write(config, format!("[limits]\ncall_seconds = {seconds}\n")).unwrap();
}

fn failures(machine: &Machine) -> Vec<loggia_core::CallFailure> {
    let log = machine.log(&machine.sessions()[0]);
    let failures = log.iter().filter_map(|envelope| match &envelope.event {
        Event::CallEnded { outcome: CallOutcome::Failed { failure }, .. } => Some(failure.clone()),
        _ => None,
    });
    failures.collect()
}

/// Processes whose command line contains a unique word of this test.
fn alive(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// R13: it ignores TERM, and its children start their own sessions.
#[test]
fn a_command_that_never_ends_is_ended_with_all_it_started() {
    let machine = Machine::new();
    with_call_limit(&machine, 1);
    let command = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 4242.5' &); sleep 4242.5";
    let begun = Instant::now();
    let ran = machine.run(&["run", "--approve", "all", &format!("run {command}")]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let failures = failures(&machine);
    assert_eq!(failures[0].kind, "timeout");
    assert!(failures[0].message.contains("1 s"), "{failures:?}");
    assert_eq!(alive("4242.5"), 0);
}

/// R14, sized so that a machine without limits survives it.
#[test]
fn bombs_are_bounded_and_the_session_goes_on() {
    let machine = Machine::new();
    let probe = machine.run(&["doctor", "--output", "json"]);
    let limited = probe.out.contains("at most 256");
    let forks = "perl -e 'for (1..400) { my $p = fork; last unless defined $p; \
                 if (!$p) { sleep 7777.25; exit } $n++ } print qq(forked $n\\n)'";
    let ran = machine.run(&["run", "--approve", "all", &format!("run {forks}")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(alive("7777.25"), 0, "what a call starts ends with it");
    let forked = ran.out.lines().find_map(|line| line.strip_prefix("forked ")?.parse::<u32>().ok());
    let forked = forked.unwrap_or_else(|| panic!("{}", ran.out));
    if limited {
        assert!(forked < 256, "{forked}");
    } else {
        assert!(probe.out.contains("not limited"), "what is not limited is said: {}", probe.out);
    }
    // Memory: one process cannot exceed its limit.
    let ran = machine.run(&["run", "--approve", "all", "--continue", "run tail /dev/zero"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(failures(&machine).len(), 1, "{}", ran.out);
    // Disk: one file cannot exceed its limit.
    let ran = machine.run(&["run", "--approve", "all", "--continue", "run truncate -s 9G big"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(failures(&machine).len(), 2, "{}", ran.out);
    assert_eq!(machine.run(&["run", "--continue", "say still here"]).out, "still here\n");
}

/// R15: signals stay in the call's namespace. Without one, `doctor` reports it.
#[test]
fn a_command_cannot_kill_loggia() {
    let machine = Machine::new();
    let probe = machine.run(&["doctor", "--output", "json"]);
    assert!(
        probe.out.contains("each has its own process namespace"),
        "not shown here: {}",
        probe.out
    );
    for command in ["kill -9 $PPID; sleep 0.1; echo lived", "kill -9 -1; echo lived"] {
        let ran = machine.run(&[
            "run",
            "--approve",
            "all",
            "--output",
            "json",
            &format!("run {command}"),
        ]);
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(result["outcome"], "completed", "{command}");
    }
}

/// R17: every invalid request of a model gets an error, and nothing runs.
#[test]
fn nonsense_from_the_model_is_refused_to_the_model() {
    let machine = Machine::new();
    let many = vec![r#"{ tool = "list_directory", input = {} }"#; 200].join(", ");
    let script = format!(
        r#"
[[rule]]
prompt = "mixed"
steps = [
  {{ malformed = "{{ not json", tool = "write_file" }},
  {{ call = "no_such_tool", input = {{ path = "x" }} }},
  {{ call = "list_directory", input = {{}} }},
  {{ call = "write_file", input = {{ path = 7, content = [] }} }},
  {{ call = "list_directory", input = {{}} }},
  {{ calls = [{many}] }},
  {{ text = "still sane" }},
]
[[rule]]
prompt = "large"
steps = [ {{ call = "write_file", input = {{ path = "large", content = "{large}" }} }}, {{ text = "done" }} ]
[[rule]]
steps = [
  {{ call = "nothing", input = {{}} }}, {{ call = "nothing", input = {{}} }}, {{ call = "nothing", input = {{}} }},
  {{ text = "never said" }},
]
"#,
        large = "y".repeat(3 << 20)
    );
    let model = machine.script("nonsense.toml", &script);
    let run = |prompt: &str| machine.run(&["run", "--approve", "all", "--model", &model, prompt]);
    let ran = run("mixed");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("still sane"));
    assert!(ran.err.contains("136 calls too many"), "{}", ran.err);
    let kinds: Vec<String> = failures(&machine).into_iter().map(|failure| failure.kind).collect();
    assert_eq!(kinds, ["malformed_input", "unknown_tool", "invalid_input"]);
    assert_eq!(run("large").code, 0);
    assert_eq!(failures(&machine)[0].kind, "input_too_large");
    let ran = run("three times");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("3 unreadable tool calls in a row"), "{}", ran.err);
    assert_eq!(std::fs::read_dir(machine.work()).unwrap().count(), 0, "nothing was written");
}

/// A busy model is retried visibly, and its reply appears once.
#[test]
fn an_overloaded_model_is_tried_again() {
    let machine = Machine::new();
    let script = r#"
[[rule]]
prompt = "busy"
steps = [ { error = "the provider is overloaded", kind = "overloaded", retry_after = "20ms", attempts = 2 }, { text = "at last" } ]
[[rule]]
prompt = "no key"
steps = [ { error = "the key was refused", kind = "authentication" } ]
[[rule]]
steps = [ { text = "half a " }, { cut = true } ]
"#;
    let model = machine.script("busy.toml", script);
    let ran = machine.run(&["run", "--model", &model, "busy"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "at last\n"), "{}", ran.err);
    assert_eq!(ran.err.matches("overloaded; trying again in 0.0 s").count(), 2, "{}", ran.err);
    let ran = machine.run(&["run", "--model", &model, "no key"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err.matches("the key was refused").count(), 1, "{}", ran.err);
    // After partial output, the reply so far is void.
    let ran = machine.run(&["run", "--model", &model, "cut"]);
    assert_eq!((ran.code, ran.out.matches("half a ").count()), (1, 5), "{}", ran.err);
    assert_eq!(ran.err.matches("the reply above does not count; trying again").count(), 4);
    assert!(ran.err.contains("failed: the model's reply was cut off"), "{}", ran.err);
}

/// R34: a panic in a turn fails only that turn.
#[test]
fn a_turn_that_panics_fails_and_the_next_one_works() {
    let machine = Machine::new();
    let script = "[[rule]]\nprompt = \"panic\"\nsteps = [ { text = \"a\" }, { panic = \"boom\" } ]\n\
                  [[rule]]\nsteps = [ { text = \"fine\" } ]\n";
    let model = machine.script("panic.toml", script);
    let ran = machine.run(&["run", "--model", &model, "panic"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("internal error: boom"), "{}", ran.err);
    let ran = machine.run(&["run", "--continue", "--model", &model, "again"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "fine\n"), "{}", ran.err);
    let log = machine.log(&machine.sessions()[0]);
    assert_eq!(shape(&log).matches("turn_ended(failed)").count(), 1);
}

/// A37: no secret of Loggia's environment reaches a command.
#[test]
fn a_command_sees_no_secret_of_the_environment() {
    let machine = Machine::new();
    let names = [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "LOGGIA_TOKEN",
        "GIT_SSH_COMMAND",
        "NPM_TOKEN",
        "SSH_AUTH_SOCK",
        "DATABASE_URL",
        "BASH_ENV",
        "PGPASSWORD",
    ];
    let look = "run env; tr '\\0' '\\n' </proc/$PPID/environ; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline";
    let mut command = machine.command(&["run", "--model", "offline", "--approve", "all", look]);
    for name in names {
        command.env(name, format!("/canary-{name}"));
    }
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("PATH="), "{}", ran.out);
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains("canary"), "{text}");
    }
    let log = serde_json::to_string(&machine.log(&machine.sessions()[0])).unwrap();
    assert!(!log.contains("canary"));
}
