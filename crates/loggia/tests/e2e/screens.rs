//! Every screen described in docs/terminal.md: the real binary in a PTY, read by a terminal
//! emulator and compared with a snapshot.

use insta::assert_snapshot;
use serde_json::json;

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::{Socket, confirmation, text_message};

/// Shown once the dialog accepts keys.
const ARMED: &str = "e change it first";
const READY: &str = "what shall I do?";
const SIZE: (u16, u16) = (80, 20);

fn open(machine: &Machine, arguments: &[&str]) -> Screen {
    let mut screen = Screen::sized(machine, arguments, &[], SIZE);
    screen.sees(READY);
    screen
}

/// Sends the steps of a prompt, one per line.
fn send(screen: &mut Screen, steps: &[&str]) {
    let lines: Vec<String> = steps.join("\n").split('\n').map(str::to_owned).collect();
    screen.types(&lines.join("\x0a")).types("\r");
}

/// A shared session with another client.
async fn shared(machine: &Machine, size: (u16, u16)) -> (Screen, Socket) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut screen = Screen::sized(machine, &["--a2a-port", &port.to_string()], &[], size);
    screen.sees(READY);
    let phone = Socket::connect(port, "?name=phone&after=0").await;
    screen.sees("with A2A:phone");
    (screen, phone)
}

#[test]
fn the_start() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    assert_snapshot!(screen.picture(&[READY, "ask · offline · ? help"]));
}

#[test]
fn an_answer_while_it_streams() {
    let machine = Machine::new();
    let text = "# Two ways\n\nThe parser reads **one** token ahead, see `parse.rs`.\n\n\
                | way | cost |\n|---|---|\n| recursive | a stack |\n| table | a table |\n\n\
                ```rust\nfn parse(text: &str) -> Tree\n```\n\n1. first this\n2. then half a sen";
    let text = text.replace('\n', "\\n");
    let model = machine.script(
        "stream.toml",
        &format!("[[rule]]\nsteps = [{{ text = \"{text}\" }}, {{ delay = \"10m\" }}]\n"),
    );
    let mut screen = Screen::sized(&machine, &["--model", &model], &[], (80, 28));
    screen.sees(READY).types("explain\r");
    let shown = screen.picture(&["half a sen", "working"]);
    // The model's name is the path of its script.
    assert_snapshot!(
        shown.lines().filter(|line| !line.contains("scripted:")).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn a_thought_and_a_plan() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    send(
        &mut screen,
        &["think Parser: there are two ways", "plan: read it; write it", "say I take the first."],
    );
    assert_snapshot!(screen.picture(&["I take the first.", "write it", READY, "!working"]));
}

#[test]
fn the_output_of_a_command_while_it_runs() {
    let machine = Machine::new();
    let mut screen = open(&machine, &["--approve", "all"]);
    send(&mut screen, &["run printf 'line %s\\n' 1 2 3; sleep 600"]);
    assert_snapshot!(screen.picture(&["line 3", "working"]));
}

const BEFORE: &str =
    "fn main() {\n    let name = \"world\";\n    println!(\"Hello, {name}!\");\n}\n";
const CHANGE: &[&str] = &[
    "edit src/main.rs:\n```\n    let name = \"world\";\n```\n```\n    let name = \"Loggia\";\n    let loud = true;\n```",
];

#[test]
fn a_question_about_a_change() {
    for (name, size) in [("narrow", (60, 24)), ("wide", (140, 24))] {
        let machine = Machine::new();
        machine.write("src/main.rs", BEFORE);
        let mut screen = Screen::sized(&machine, &[], &[], size);
        screen.sees(READY);
        send(&mut screen, CHANGE);
        assert_snapshot!(format!("a_question_about_a_change_{name}"), screen.picture(&[ARMED]));
    }
}

#[test]
fn a_question_about_a_command_and_its_edit() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    send(&mut screen, &["run rm -r build"]);
    assert_snapshot!("a_question_about_a_command", screen.picture(&[ARMED]));
    screen.types("e").sees("Your version").types("/old");
    assert_snapshot!("a_command_edited", screen.picture(&["Your version", "build/old"]));
}

#[test]
fn a_question_in_words() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    send(&mut screen, &["ask Which colour?", "say {answer} it is"]);
    assert_snapshot!(screen.picture(&["Loggia asks you", "Which colour?", "!wait a moment"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn answered_elsewhere() {
    let machine = Machine::new();
    let (mut screen, mut phone) = shared(&machine, SIZE).await;
    let prompt = text_message("write a.txt: hi");
    phone.send(2, "message/stream", json!({ "message": prompt })).await;
    screen.sees(ARMED);
    let asks = |value: &serde_json::Value| value.to_string().contains("confirmation_request");
    let asked = phone.until(|value| asks(&value["params"]["event"])).await;
    let event = &asked["params"]["event"];
    let call = &event["status"]["message"]["parts"][0]["data"]["tool_call_id"];
    let answer = confirmation(&event["taskId"], call, "proceed_once");
    phone.send(3, "message/stream", json!({ "message": answer })).await;
    let shown = screen.picture(&[": write a.txt", "wrote a.txt", READY, "!working"]);
    assert_snapshot!(shown);
}

#[test]
fn a_prompt_that_waits() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    send(&mut screen, &["say I am at it", "wait 10m"]);
    screen.sees("\n\nI am at it");
    send(&mut screen, &["say the next thing"]);
    assert_snapshot!(screen.picture(&["queued: say the next thing", "working", READY]));
}

#[test]
fn files_that_fit() {
    let machine = Machine::new();
    for file in ["src/main.rs", "src/domain.rs", "docs/main.md", "target/main.o", ".ignore"] {
        machine.write(file, "/target\n");
    }
    let mut screen = open(&machine, &[]);
    screen.types("look at @main");
    let found = ["src/main.rs", "src/domain.rs", "docs/main.md"];
    assert_snapshot!("files_that_fit", screen.picture(&found));
    screen.types("\t");
    assert_snapshot!("a_file_that_was_taken", screen.picture(&["main", "!domain"]));
}

#[test]
fn commands_that_fit() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    screen.types("/co");
    assert_snapshot!(screen.picture(&["› /co", "/compact", "/copy"]));
}

#[test]
fn a_search_of_what_was_written() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    send(&mut screen, &["say first"]);
    screen.sees("\n\nfirst").sees_no("working");
    send(&mut screen, &["say second"]);
    screen.sees("\n\nsecond").sees_no("working").types("\x12fir");
    assert_snapshot!(screen.picture(&["search: fir  say first"]));
}

/// As much as a small window shows; the rest is the table in `keymap.rs`.
#[test]
fn help() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &[], &[], (90, 12));
    screen.sees(READY).types("?");
    assert_snapshot!(screen.picture(&["interrupt the turn", "ask · offline"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn how_it_is_shared() {
    let machine = Machine::new();
    let (mut screen, _phone) = shared(&machine, (80, 30)).await;
    screen.types("/share\r");
    // Wait until the join remark is gone.
    assert_snapshot!(screen.picture(&["This session", "any key closes", "!joined"]));
}

#[test]
fn sessions_to_resume() {
    let machine = Machine::new();
    for prompt in ["say the first one", "say the second one"] {
        assert_eq!(machine.run(&["run", prompt]).code, 0);
    }
    let mut screen = open(&machine, &[]);
    screen.types("/resume\r").sees("Resume session:").types("second");
    assert_snapshot!(screen.picture(&["Resume session: second", "say the second one", "!first"]));
}

#[test]
fn the_full_transcript() {
    let machine = Machine::new();
    let mut screen = open(&machine, &["--approve", "all"]);
    send(
        &mut screen,
        &["think Haystack: it has to be somewhere", "run seq -f 'straw %g' 40", "say found it"],
    );
    // Six lines in a row occur only in the reply: a call shows five.
    let reply = (25..31).map(|straw| format!("straw {straw}\n")).collect::<Vec<_>>().join("  ");
    screen.sees(&reply).sees_no("working").types("\x14");
    assert_snapshot!("full_transcript", screen.picture(&["/ search", "straw 40"]));
    // Everything expanded, and searched.
    screen.types("g").sees("› think").types("z").sees("straw 10").types("/straw 33\r");
    assert_snapshot!(
        "full_transcript_searched",
        screen.picture(&["/straw 33  n next", "straw 32"])
    );
    screen.types("q").sees("/ search").types("g").sees("› think").types("z");
    assert_snapshot!("full_transcript_folded", screen.picture(&["/ search", "… 35 more lines"]));
    screen.types("q").sees(READY).types("\x04").sees("code 0").is_restored();
}

#[test]
fn the_full_screen_from_the_start() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &["--fullscreen"], &[], (60, 12));
    screen.sees(READY);
    send(&mut screen, &["say beside the composer"]);
    assert_snapshot!(screen.picture(&["\nbeside the composer", READY, "!working"]));
}

#[test]
fn leaving_needs_two_keys() {
    let machine = Machine::new();
    let mut screen = open(&machine, &[]);
    screen.types("\x03");
    assert_snapshot!(screen.picture(&["Ctrl-C again to leave"]));
}

/// The session in a second terminal, and its message after the first has ended.
#[test]
fn attached_and_cut_off() {
    let machine = Machine::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut home = Screen::sized(&machine, &["--a2a-port", &port.to_string()], &[], SIZE);
    home.sees(READY);
    let url = format!("localhost:{port}");
    let mut away = Screen::sized(&machine, &["attach", &url, "--name", "laptop"], &[], (110, 20));
    away.sees(READY).sees("with TUI:tui-");
    assert!(!away.shown().contains("joined"), "{}", away.shown());
    home.sees("with TUI:laptop");
    send(&mut home, &["say from home"]);
    away.sees("\n\nfrom home").sees_no("working");
    send(&mut away, &["say from away"]);
    assert_snapshot!(
        "seen_at_home",
        home.picture(&["\n\nfrom away", READY, "!working", "!joined"])
    );
    home.signal(nix::sys::signal::Signal::SIGKILL).sees("code 137");
    assert_snapshot!("cut_off", away.picture(&["cannot connect", "trying again"]));
}

/// The same question on a dark and a light background, and without colours.
#[test]
fn colours() {
    let dark = [("TERM", "xterm-256color"), ("COLORFGBG", "15;0")];
    let light = [("TERM", "xterm-256color"), ("COLORFGBG", "0;15")];
    let sixteen = [("TERM", "xterm")];
    let none = [("NO_COLOR", "1")];
    let looks: [(&str, &[(&str, &str)]); 4] =
        [("dark", &dark), ("light", &light), ("sixteen", &sixteen), ("none", &none)];
    for (name, environment) in looks {
        let machine = Machine::new();
        machine.write("notes.txt", "one\ntwo\nthree\n");
        let mut screen = Screen::sized(&machine, &[], environment, (60, 22));
        screen.sees(READY);
        send(&mut screen, &["say **bold** and `code`", "edit notes.txt: two => 2"]);
        let picture = screen.styled_picture(&[ARMED]);
        assert_snapshot!(format!("colours_{name}"), picture);
        if name == "light" {
            assert_eq!(picture, of_a_terminal_that_answers());
        }
    }
}

/// The same screen, where the terminal reports a light background.
fn of_a_terminal_that_answers() -> String {
    let machine = Machine::new();
    machine.write("notes.txt", "one\ntwo\nthree\n");
    let mut screen = Screen::sized(&machine, &[], &[("TERM", "xterm-256color")], (60, 22));
    screen.sees(READY).types("\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\");
    send(&mut screen, &["say **bold** and `code`", "edit notes.txt: two => 2"]);
    screen.styled_picture(&[ARMED])
}

#[test]
fn wide_letters() {
    let machine = Machine::new();
    let mut screen = Screen::sized(&machine, &[], &[], (34, 20));
    screen.sees(READY);
    send(
        &mut screen,
        &["say 漢字とかなの長い文章は画面の幅で正しく折り返されます。", "write 漢字.txt: 👍 été"],
    );
    assert_snapshot!(screen.picture(&["PgUp PgDn scroll", "👍"]));
}

#[test]
fn narrow_terminals() {
    for (name, size, shows) in [("24x10", (24, 10), "y/a/p/n"), ("10x3", (10, 3), "y/a/p/n")] {
        let machine = Machine::new();
        let mut screen = Screen::sized(&machine, &[], &[], size);
        screen.sees("› what");
        send(&mut screen, &["write a: x"]);
        assert_snapshot!(format!("narrow_{name}"), screen.picture(&[shows]));
    }
}
