//! The trust question of the real binary, which appears in a terminal only.

use insta::assert_snapshot;

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::Served;

const QUESTION: &str = "Do you trust this directory?";
/// Shown once the dialog accepts keys.
const ARMED: &str = "↑↓ Enter choose";
const READY: &str = "what shall I do?";

/// A project with a mode, a hook, a command, and a restriction that applies anyway.
fn project() -> Machine {
    let machine = Machine::new();
    let text = "mode = \"edits\"\n\n[hooks]\nprompt_submit = [\"/bin/true\", \"--fast\"]\n\n\
                [limits]\ncalls = 5\n";
    machine.write(".loggia/config.toml", text);
    machine.write(".claude/commands/greet.md", "say hello $1\n");
    machine
}

fn open(machine: &Machine, arguments: &[&str]) -> Screen {
    Screen::sized(machine, arguments, &[], (80, 24))
}

#[test]
fn it_is_asked_with_all_that_it_would_turn_on() {
    let machine = project();
    let mut screen = open(&machine, &[]);
    assert_snapshot!("it_is_asked", screen.picture(&[QUESTION, ARMED]));
    screen.types("y").sees(READY).sees("edits · offline").sees_no(QUESTION);
    screen.types("/greet Ann\r").sees("\n\nhello Ann").types("\x04").sees("code 0").is_restored();
    let shown = screen.shown();
    assert!(shown.starts_with("before\n") && !shown.contains("not trusted"), "{shown}");
    // Permanently, for exactly this directory.
    let listed = machine.run(&["trust", "--list"]).out;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    open(&machine, &[]).sees(READY).types("\x04").sees("code 0");
}

#[test]
fn not_now_is_asked_again_whatever_session_it_is() {
    let machine = project();
    let mut screen = open(&machine, &[]);
    screen.sees(ARMED).types("\x1b").sees(READY).sees("not trusted: `mode`").sees("ask · offline");
    screen.types("say one\r").sees("\n\none").types("\x04").sees("code 0").is_restored();
    let session = machine.sessions().remove(0);
    for arguments in [vec!["--continue"], vec!["--session", &session], vec!["--fullscreen"]] {
        let mut screen = open(&machine, &arguments);
        screen.sees(QUESTION).sees(ARMED).types("n").sees(READY).types("\x04").sees("code 0");
        screen.is_restored();
    }
    assert!(machine.run(&["trust", "--list"]).out.contains("No directory is trusted"));
}

#[test]
fn never_is_not_asked_again_until_it_is_revoked() {
    let machine = project();
    let mut screen = open(&machine, &[]);
    screen
        .sees(ARMED)
        .clicks("d Never")
        .sees(READY)
        .sees("ask · offline")
        .types("\x04")
        .sees("code 0");
    let mut screen = open(&machine, &[]);
    screen.sees("not trusted: `mode`").sees(READY).types("\x04").sees("code 0");
    assert!(machine.run(&["trust", "--list"]).out.contains("(never: not asked about)"));
    assert_eq!(machine.run(&["trust", "--revoke"]).code, 0);
    open(&machine, &[]).sees(ARMED).types("\x03").sees("code 0").is_restored();
}

/// The keys are in the terminal before Loggia reads it.
#[test]
fn keys_typed_before_do_not_answer() {
    let machine = project();
    let script = "stty -icanon -echo; echo quiet; read -r line; \"$0\"; echo code $?";
    let mut screen = Screen::script(&machine, script, &[], &[], (80, 24));
    screen.sees("quiet").types("go\ryyy\r1d").sees(QUESTION).sees(ARMED);
    assert!(machine.run(&["trust", "--list"]).out.contains("No directory is trusted"));
    screen.types("n").sees(READY).types("\x04").sees("code 0");
}

/// Commands without a terminal, and attached terminals.
#[test]
fn the_trust_question_needs_a_terminal() {
    let machine = project();
    let ran = machine.run(&["run", "say piped"]);
    assert!(ran.code == 0 && ran.err.contains("not trusted: `mode`"), "{}", ran.err);
    let mut screen = open(&machine, &["run", "say in a terminal"]);
    screen.sees("in a terminal").sees("code 0");
    assert!(!screen.shown().contains(QUESTION), "{}", screen.shown());

    // Without anything to trust, and with an invalid file.
    for text in ["[limits]\ncalls = 5\n", "mode = \"edits\"\nmodell = \"x\"\n"] {
        let machine = Machine::new();
        machine.write(".loggia/config.toml", text);
        open(&machine, &[]).sees(READY).types("\x04").sees("code 0");
    }
}

#[test]
fn an_attached_screen_is_not_asked() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let here = project();
    let address = format!("localhost:{}", served.port);
    let mut screen = open(&here, &["attach", &address]);
    screen.sees(READY).types("\x04").sees("code 0");
    assert!(!screen.shown().contains(QUESTION), "{}", screen.shown());
}
