//! The first minute of a new user, and the exit codes for scripts.

use crate::driver::{Machine, announced, shape, streamed};

#[test]
fn edits_pass_with_approve_edits() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "--approve", "edits", "write hello.txt: hi"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(machine.read("hello.txt").as_deref(), Some("hi\n"));
    assert!(ran.out.contains("hello.txt"), "{}", ran.out);
}

#[test]
fn without_a_terminal_and_without_approve_it_exits_3_and_has_written_nothing() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "write hello.txt: hi"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("approval needed to write hello.txt"), "{}", ran.err);
    assert!(ran.err.contains("--approve edits"), "{}", ran.err);
    assert_eq!(machine.read("hello.txt"), None);
    assert_eq!(std::fs::read_dir(machine.work()).unwrap().count(), 0);
}

/// A server does not take over a question for a terminal, since no client could answer it.
#[test]
fn a_server_does_not_take_the_question_of_a_terminal() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "--output", "stream-json", "write a.txt: x"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let session = announced(&ran.out).unwrap();
    let _served = crate::served::Served::start(&machine, &["serve", "--port", "0"]);
    let again = machine.run(&["run", "--session", &session, "--approve", "edits"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(machine.read("a.txt").as_deref(), Some("x\n"));
}

#[test]
fn the_open_question_can_be_answered_later() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "write hello.txt: hi"]).code, 3);
    let session = machine.sessions().remove(0);
    let before = shape(&machine.log(&session));
    assert!(before.ends_with("approval_asked"), "{before}");
    // Still without a terminal: the question stays open and is not asked twice.
    assert_eq!(machine.run(&["run", "--continue"]).code, 3);
    assert_eq!(shape(&machine.log(&session)), before);
    let ran = machine.run(&["run", "--session", &session, "--approve", "edits"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(machine.read("hello.txt").as_deref(), Some("hi\n"));
}

#[test]
fn approve_none_refuses_and_the_agent_goes_on() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "--approve", "none", "write hello.txt: hi"]);
    assert_eq!(machine.read("hello.txt"), None);
    assert!(ran.out.contains("was not done"), "{}", ran.out);
    // The task was not done, so it is not a success.
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("loggia: refused: write hello.txt was refused: "), "{}", ran.err);
    let ran = machine.run(&["run", "--approve", "none", "--output", "json", "write hello.txt: hi"]);
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &result["outcome"]), (4, &"refused".into()), "{result}");
    assert!(result["message"].as_str().unwrap().starts_with("write hello.txt was refused"));
    // Actions without approvals succeed.
    assert_eq!(machine.run(&["run", "--approve", "none", "list ."]).code, 0);
    // The next run asks again.
    let asks = machine.run(&["run", "--continue", "write hello.txt: hi"]);
    assert_eq!(asks.code, 3, "{}", asks.err);
    // An open question is rejected as well.
    let ran = machine.run(&["run", "--continue", "--approve", "none"]);
    assert_eq!((ran.code, machine.read("hello.txt")), (4, None), "{}", ran.err);
}

/// Writing identical contents is no change, so there is no question.
#[test]
fn an_unchanged_file_needs_no_approval() {
    let machine = Machine::new();
    machine.write("hello.txt", "hi\n");
    let ran = machine.run(&["run", "write hello.txt: hi"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let log = shape(&machine.log(&machine.sessions()[0]));
    assert!(!log.contains("approval_asked") && log.contains("call_ended(succeeded)"), "{log}");
    assert!(ran.out.contains("nothing to change"), "{}", ran.out);
    let ran = machine.run(&["run", "write hello.txt: ho"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
}

#[test]
fn plan_mode_changes_nothing() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "--approve", "plan", "write hello.txt: hi"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(machine.read("hello.txt"), None);
    assert!(ran.out.contains("read-only"), "{}", ran.out);
}

#[test]
fn every_offline_step_works_and_shows_its_result() {
    let machine = Machine::new();
    let prompt = "think plan: look first\nsay starting\nwrite notes/a.txt: one two\nedit notes/a.txt: two => three\n\
                  read notes/a.txt\nlist notes\nsearch three\nrun echo from-the-shell\nplan: first; second\n\
                  artifact report.md: all good\nwait 10ms\nsay done";
    let ran = machine.run(&["run", "--approve", "all", prompt]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert_eq!(machine.read("notes/a.txt").as_deref(), Some("one three\n"));
    for expected in ["starting", "done", "one three", "from-the-shell", "notes/a.txt", "report.md"]
    {
        assert!(ran.out.contains(expected), "{expected} is missing in:\n{}", ran.out);
    }
}

#[test]
fn a_prompt_from_standard_input() {
    use std::io::Write;
    let machine = Machine::new();
    let mut command = machine.command(&["run", "-"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"say from a pipe\n").unwrap();
    let ran = crate::driver::Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "from a pipe\n"), "{}", ran.err);
}

#[test]
fn other_words_get_an_introduction() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "please refactor everything"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("offline model") && ran.out.contains("write PATH"), "{}", ran.out);
}

#[test]
fn exit_codes_are_as_documented() {
    let machine = Machine::new();
    let table: &[(&[&str], i32, &str)] = &[
        (&["run", "say hello"], 0, ""),
        (&["run", "fail out of luck"], 1, "out of luck"),
        (&["run", "--nonsense"], 2, "--nonsense"),
        (&["run"], 2, "no prompt"),
        (&["run", "--model", "nobody", "say hello"], 2, "nobody"),
        (&["run", "--session", "no-such", "say hello"], 2, "no-such"),
        (&["run", "--continue", "--session", "x", "say hello"], 2, "--continue"),
        (&["run", "run true"], 3, "approval needed"),
        (&["run", "--approve", "none", "run true"], 4, "refused"),
        (&["sessions", "show", "no-such"], 2, "no-such"),
        (&["-C", "/no/such/place", "run", "say hello"], 2, "/no/such/place"),
    ];
    for (arguments, code, says) in table {
        let ran = machine.run(arguments);
        assert_eq!(ran.code, *code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn ctrl_c_cancels_the_turn_and_exits_130() {
    let machine = Machine::new();
    let mut command =
        machine.command(&["run", "--approve", "all", "--output", "stream-json", "run sleep 60"]);
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let started = lines.find(|line| line.as_ref().unwrap().contains("call_started"));
    assert!(started.is_some());
    let begun = std::time::Instant::now();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < std::time::Duration::from_secs(3), "{:?}", begun.elapsed());
    let log = machine.log(&machine.sessions()[0]);
    let shape = shape(&log);
    assert_eq!(shape.matches("turn_ended(cancelled)").count(), 1, "{shape}");
    assert!(shape.contains("call_ended(cancelled)"), "{shape}");
}

#[test]
fn json_is_one_object_and_stream_json_is_the_log() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "--approve", "all", "--output", "json", "say hi\nrun echo x"]);
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["outcome"], "completed");
    assert_eq!(result["calls"][0]["tool"], "run_shell_command");
    // Two messages of the agent are two lines.
    assert!(result["text"].as_str().unwrap().starts_with("hi\n"), "{}", result["text"]);

    let ran =
        machine.run(&["run", "--approve", "all", "--output", "stream-json", "say hi\nrun echo x"]);
    let session = announced(&ran.out).unwrap();
    let log = machine.log(&session);
    // Everything after the opening of the session was streamed, exactly as on disk.
    assert_eq!(streamed(&ran.out), log[1..], "{}", ran.out);
    assert!(ran.out.lines().last().unwrap().contains("\"type\":\"result\""));
}

#[test]
fn no_color_and_a_pipe_mean_no_escape_sequences() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "--approve", "all", "write a.txt: x\nrun echo y"]);
    assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{}", ran.err);
    let mut command = machine.command(&["run", "say x"]);
    let forced = command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(!String::from_utf8_lossy(&forced.stderr).contains('\u{1b}'));
}

#[test]
fn a_question_is_asked_and_its_answer_used() {
    let machine = Machine::new();
    // Without a terminal a text answer cannot be assumed in any mode.
    let ran =
        machine.run(&["run", "--approve", "all", "ask which name?\nwrite name.txt: {answer}"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert_eq!(machine.read("name.txt"), None);
}
