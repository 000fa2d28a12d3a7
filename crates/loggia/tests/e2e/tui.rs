//! `loggia` in a terminal: the session, shared or not, and the restored terminal.

use nix::sys::signal::Signal;

use crate::driver::Machine;
use crate::screen::Screen;

/// Shown once the dialog accepts keys.
const ARMED: &str = "e change it first";

#[test]
fn a_first_prompt_is_answered_and_a_write_is_allowed_with_a_key() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("write a.txt: hi\r");
    screen.sees("Allow Loggia to write a.txt?").sees("hi").sees(ARMED).types("y");
    screen.sees("wrote a.txt").sees_no("Allow once");
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
    // Earlier output is still visible, and the result is below it.
    let shown = screen.shown();
    assert!(shown.starts_with("before\n"), "{shown}");
    assert!(!screen.mouse_is_on(), "the pointer belongs to the terminal again");
    screen.types("/quit\r").sees("code 0").is_restored();
    let shown = screen.shown();
    assert!(shown.contains("wrote a.txt") && !shown.contains("what shall I do?"), "{shown}");
    let session = machine.sessions().remove(0);
    assert!(shown.contains(&format!("`loggia --session {session}`")), "{shown}");
}

/// The keys arrive before the question: none of them answers it.
#[test]
fn keys_typed_before_the_question_do_not_answer() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("say ready\x0await 300ms\x0awrite a.txt: x\r");
    screen.sees("working").types("yyy1");
    screen.sees("Allow Loggia to write a.txt?").sees("yyy1").sees("you are writing").types("n");
    screen.sees("yyy1n").types("\x1b[A").sees(ARMED).types("n");
    screen.sees_no("Allow once").sees("refused");
    assert_eq!(machine.read("a.txt"), None);
    screen.types("\x03").types("\x03\x03").sees("code 0");
}

/// A message typed while a question is open is sent as a message.
#[test]
fn a_sentence_does_not_answer() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("write a.txt: x\r").sees(ARMED);
    for key in ["s", "a", "y", " ", "y"] {
        screen.types(key);
    }
    screen.sees("› say y").sees("you are writing").types("\r").sees("queued: say y");
    assert_eq!(machine.read("a.txt"), None);
    // Also if it starts with an answer key.
    for sentence in ["yes please", "no, not yet", "explain it"] {
        screen.sees(ARMED).types(sentence).sees(&format!("› {sentence}")).types("\x03");
    }
    assert_eq!(machine.read("a.txt"), None);
    screen.sees(ARMED).types("n").sees("\n\ny").types("/quit\r").sees("code 0").is_restored();
}

/// A session that is open in another process cannot be resumed, and this terminal stays in its
/// session.
#[test]
fn a_session_open_elsewhere_is_not_resumed() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "say the other one"]).code, 0);
    let other = machine.sessions().remove(0);
    let mut there = Screen::open(&machine, &["--session", &other]);
    // Text typed in another terminal of the same person.
    there.sees("the other one").sees("what shall I do?");
    assert!(there.shown().contains("› say the other one"), "{}", there.shown());
    let mut here = Screen::open(&machine, &[]);
    here.sees("what shall I do?").types("/resume\r").sees("Resume session:").types("\r");
    here.sees("is in use by process").sees("loggia attach").types("say still here\r");
    here.sees("\n\nstill here").types("/quit\r").sees("code 0");
    there.types("/quit\r").sees("code 0").is_restored();
}

#[test]
fn an_edited_proposal_is_what_runs() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("run echo one\r").sees(ARMED);
    screen.types("e").sees("Your version").types(" and two\r").sees("one and two");
    screen.sees_no("Your version").types("/quit\r").sees("code 0");
    let log = machine.log(&machine.sessions()[0]);
    let ran = serde_json::to_string(&log).unwrap();
    assert!(ran.contains("echo one and two"), "{ran}");
}

/// An editor that writes this text, if the terminal is in its normal mode.
fn editor(machine: &Machine, text: &str) -> String {
    let path = machine.home().with_file_name("editor.sh");
    let script = format!("#!/bin/sh\nstty -a | grep -q ' icanon' && echo {text} > \"$1\"\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_external_editor_writes_the_prompt() {
    let machine = Machine::new();
    let editor = editor(&machine, "say from my editor");
    let mut screen = Screen::sized(&machine, &[], &[("EDITOR", &editor)], (80, 24));
    screen.sees("what shall I do?").types("\x07").sees("› say from my editor").types("\r");
    screen.sees("\n\nfrom my editor").sees("what shall I do?");
    screen.types("\x04").sees("code 0").is_restored();
}

/// The position was queried again, and the reply was read.
#[test]
fn the_pointer_answers_also_after_an_editor_was_there() {
    let machine = Machine::new();
    let editor = editor(&machine, "write a.txt: hi");
    let mut screen = Screen::sized(&machine, &[], &[("EDITOR", &editor)], (80, 24));
    screen.sees("what shall I do?").types("\x07").sees("› write a.txt: hi").types("\r");
    screen.sees(ARMED).clicks("y Allow once").sees("wrote a.txt");
    screen.types("\x04").sees("code 0").is_restored();
}

#[test]
fn an_open_question_survives_kill_9_and_is_on_the_screen_again() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("write a.txt: hi\r").sees("Allow once");
    screen.signal(Signal::SIGKILL).sees("code 137");
    let mut screen = Screen::open(&machine, &["--continue"]);
    screen.sees("Allow Loggia to write a.txt?").sees(ARMED).types("y").sees("wrote a.txt");
    screen.types("\x04").sees("code 0");
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
}

#[test]
fn every_size_is_drawn_and_what_is_printed_stays() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen
        .sees("what shall I do?")
        .types("say one two three\r")
        .sees("\n\none two three")
        .sees_no("working");
    for (columns, rows) in [(60, 30), (100, 20), (10, 3), (40, 10), (100, 30)] {
        screen.resize(columns, rows).types("x").sees("› x").types("\x7f").sees_no("› x");
    }
    screen.resize(60, 24).types("write a.txt: x\r").sees(ARMED);
    screen
        .resize(90, 24)
        .sees("Refuse")
        .resize(50, 26)
        .sees(ARMED)
        .types("n")
        .sees_no("Allow once");
    screen.types("\x04").sees("code 0").is_restored();
}

#[test]
fn a_key_that_comes_together_with_a_resize_is_read() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?");
    for round in 0..20 {
        screen.resize(60 + round, 24).types("x").sees("› x");
        screen.resize(90 + round, 30).types("\x7f").sees_no("› x");
    }
    screen.types("\x04").sees("code 0").is_restored();
}

/// The dialog is higher than the resized window: after it grows, no old row is left, and printed
/// lines are intact.
#[test]
fn a_window_smaller_than_the_dialog_leaves_no_old_rows() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &[], &[], (60, 50));
    screen.sees("what shall I do?").types("say printed\r").sees("\n\nprinted").sees_no("working");
    let lines: Vec<String> = (0..14).map(|line| format!("line {line}")).collect();
    let prompt = format!("write a.txt:\n```\n{}\n```", lines.join("\n"));
    screen.types(&format!("\x1b[200~{prompt}\x1b[201~")).types("\r").sees(ARMED).sees("line 13");
    screen.resize(60, 9).sees("more lines: PgDn").resize(60, 50).sees("line 13").sees(ARMED);
    let shown = screen.picture(&["printed", "line 13", ARMED]);
    assert_eq!(shown.matches("Allow Loggia to").count(), 1, "{shown}");
    assert_eq!(shown.matches("line 3").count(), 2, "the prompt's and the dialog's:\n{shown}");
    screen.types("n").sees_no("Allow once").types("\x04").sees("code 0").is_restored();
}

#[test]
fn ten_columns_and_three_rows_are_enough() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &[], &[], (10, 3));
    screen.sees("› what").types("write a: x\r").sees("y/a/p/n");
    screen.types("n").sees_no("y/a/p/n").types("\x04").sees("icanon");
    assert_eq!(machine.read("a"), None);
}

#[test]
fn the_full_transcript_opens_and_closes() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("say needle\r").sees("\n\nneedle").sees_no("working");
    screen.types("\x14").sees("/ search");
    assert!(screen.is_alternate());
    screen.types("/need\r").sees("/need  n next").types("q").types("q").sees("what shall I do?");
    // Scrolls a long output with the wheel, and back.
    screen.types("!seq 100 400\r").sees("✓ run seq").types("\x14").sees("/ search").types("z");
    assert!(screen.mouse_is_on());
    screen.sees("  400").types(&"\x1b[<64;5;5M".repeat(9)).sees_no("  400").sees("  370");
    screen.types(&"\x1b[<65;5;5M".repeat(9)).sees("  400").types("q").sees("what shall I do?");
    assert!(!screen.is_alternate());
    screen.types("\x04").sees("code 0").is_restored();
    let mut screen = Screen::open(&machine, &["--continue", "--fullscreen"]);
    screen.sees("needle").sees("what shall I do?");
    assert!(screen.is_alternate());
    screen.types("\x04").sees("code 0").is_restored();
}

#[test]
fn vims_keys_are_configured() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &[], &[("LOGGIA_TUI_KEYS", "vim")], (80, 24));
    screen.sees("INSERT · ask").types("say one two").sees("› say one two").types("\x1b");
    screen.sees("NORMAL · ask").types("bbcwthree\x1b").sees("› say three two").types("\r");
    screen.sees("\n\nthree two").sees("INSERT").types("\x04").sees("code 0").is_restored();
}

#[test]
fn the_terminal_is_restored_after_a_signal() {
    for (signal, code) in [(Signal::SIGTERM, "code 143"), (Signal::SIGHUP, "code 143")] {
        let machine = Machine::new();
        let mut screen = Screen::open(&machine, &[]);
        screen.sees("what shall I do?").types("write a.txt: x\r").sees(ARMED);
        assert!(screen.mouse_is_on());
        screen.signal(signal).sees(code).is_restored();
        // Also from the alternate screen.
        let mut screen = Screen::open(&machine, &["--continue", "--fullscreen"]);
        screen.sees(ARMED);
        assert!(screen.is_alternate());
        screen.signal(signal).sees(code).is_restored();
    }
}

/// Copies the answer as written, by an escape sequence that works over SSH.
#[test]
fn the_last_answer_is_copied() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("say hello\r").sees("\n\nhello").sees_no("working");
    screen.types("/copy\r").gets(b"\x1b]52;c;aGVsbG8=").types("\x04").sees("code 0");
}

/// Inside tmux: question, answer, resizes, exit.
#[test]
fn it_works_inside_of_tmux() {
    let machine = Machine::new();
    let script = "exec tmux -S \"$LOGGIA_HOME.tmux\" -f /dev/null new-session \"$0\" \\; \
                  set destroy-unattached on";
    let environment = [("TERM", "xterm-256color")];
    let mut screen = Screen::script(&machine, script, &[], &environment, (80, 24));
    screen.sees("what shall I do?").types("write a.txt: hi\r").sees(ARMED);
    screen.resize(60, 20).sees(ARMED).resize(80, 24).sees(ARMED).types("y");
    screen.sees("wrote a.txt").sees_no("Allow once").types("/quit\r").sees("[exited]");
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
}

/// The terminal's program dies: no process is left behind.
#[test]
fn the_process_ends_with_its_terminal() {
    let machine = Machine::new();
    let script = "script -qfc \"$0\" /dev/null; echo gone";
    let mut screen = Screen::script(&machine, script, &[], &[], (80, 24));
    screen.sees("what shall I do?");
    let (terminal, loggia) = screen.processes();
    nix::sys::signal::kill(terminal, Signal::SIGKILL).unwrap();
    screen.sees("gone");
    until("it is still running", || !std::path::Path::new(&format!("/proc/{loggia}")).exists());
    let again = machine.run(&["run", "--continue", "say still here"]);
    assert_eq!(again.code, 0, "{}", again.err);
}

#[test]
fn suspended_and_back() {
    let machine = Machine::new();
    let script = "set -m; \"$0\"; echo stopped; read line; fg > /dev/null; echo code $?; \
                  stty -a | grep -o ' -*icanon'";
    let mut screen = Screen::script(&machine, script, &[], &[], (80, 24));
    screen.sees("what shall I do?").types("a draft").sees("› a draft").types("\x1a");
    screen.sees("stopped").sees_no("› a draft").types("\r").sees("› a draft");
    screen.types("!").sees("› a draft!").types("\x03\x03\x03").sees("code 0").is_restored();
}

/// Waits for something that no screen shows.
fn until(otherwise: &str, fits: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !fits() {
        assert!(std::time::Instant::now() < deadline, "{otherwise}");
        std::thread::yield_now();
    }
}

#[test]
fn no_color_means_none() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &[], &[("NO_COLOR", "1")], (80, 24));
    screen.sees("what shall I do?").types("write a.rs: fn main() {}\r").sees(ARMED).types("y");
    screen.sees("wrote a.rs").types("\x04").sees("code 0");
    let bytes = String::from_utf8_lossy(&screen.bytes).into_owned();
    for sequence in bytes.split("\x1b[").skip(1) {
        let Some((codes, _)) = sequence.split_once('m') else { continue };
        if !codes.is_empty() && codes.chars().all(|sign| sign.is_ascii_digit() || sign == ';') {
            let colored = codes.split(';').filter_map(|code| code.parse::<u8>().ok());
            assert!(colored.clone().all(|code| code < 30), "{codes}");
        }
    }
}

/// A19: no control sequence of a model or tool reaches the terminal.
#[test]
fn escape_sequences_in_output_do_not_reach_the_terminal() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &["--approve", "all"]);
    let nasty = "\\033[2J\\033[H\\033]0;title\\007\\033]52;c;ZXZpbA==\\007\\033[?1049l done";
    screen.sees("what shall I do?").types(&format!("run printf '{nasty}'\r")).sees("done");
    screen.sees_no("working").types("\x04").sees("code 0").is_restored();
    let bytes = String::from_utf8_lossy(&screen.bytes).into_owned();
    // The one query that the interface sends.
    let bytes = bytes.replacen("\x1b]11;?\x1b\\", "", 1);
    assert!(!bytes.contains("\x1b]"), "{bytes:?}");
}

#[test]
fn without_a_terminal_nothing_is_opened() {
    let machine = Machine::new();
    let ran = machine.run(&[]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("a terminal is needed"), "{}", ran.err);
}

/// A message that starts with an answer key marks nothing, and Enter alone answers nothing.
#[test]
fn a_message_at_a_question_marks_no_answer() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types("write a.txt: x\r").sees(ARMED);
    screen.types("always say why").sees("you are writing").types("\r").sees("queued: always say");
    screen.sees(ARMED).types("\r").sees("press a key to answer: y, a, p, n");
    assert_eq!(machine.read("a.txt"), None);
    // An arrow marks an answer, and typing clears the mark.
    screen.types("\x1b[B").types("hm").sees("you are writing").types("\x15").sees(ARMED);
    screen.types("n").sees_no("Allow once");
    assert_eq!(machine.read("a.txt"), None);
}
