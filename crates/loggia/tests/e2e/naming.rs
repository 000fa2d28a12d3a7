//! Session names: set in the terminal, on the command line or by a client, stored in the log, and
//! used for lookup.

use loggia_core::{Event, Surface};
use serde_json::json;

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::Served;

const READY: &str = "what shall I do?";

/// Who set which name.
fn names(machine: &Machine, session: &str) -> Vec<(Surface, String)> {
    let log = machine.log(session);
    let named = log.iter().filter_map(|envelope| match &envelope.event {
        Event::SessionNamed { name } => Some((envelope.origin.surface, name.clone())),
        _ => None,
    });
    named.collect()
}

#[test]
fn on_the_screen_and_found_by_it() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &["--name", " the parser "]);
    screen.sees("This session is called `the parser`.").sees("offline · the parser ·");
    screen.types("say one\r").sees("\n\none").types("/name\r").sees("is called the parser.");
    screen.types("/name Lexer 2\r").sees("loggia --session 'Lexer 2' resumes it.");
    screen.sees("offline · Lexer 2 ·").types("/name a\u{202e}b\r");
    screen.sees("a session name is one line of visible characters");
    screen.types("/quit\r").sees("code 0").is_restored();
    let session = machine.sessions().remove(0);
    let wanted = [(Surface::Tui, "the parser".to_owned()), (Surface::Agent, "Lexer 2".to_owned())];
    assert_eq!(names(&machine, &session), wanted);

    // In the picker, on the command line, in the list and in the export.
    let mut screen = Screen::open(&machine, &[]);
    screen
        .sees(READY)
        .types("say two\r")
        .sees("\n\ntwo")
        .types("/resume\r")
        .sees("Resume session:");
    screen.types("lexer").sees("Lexer 2: say one").types("\r").sees("offline · Lexer 2 ·");
    screen.types("/quit\r").sees("code 0");
    let mut screen = Screen::open(&machine, &["--session", "lexer 2"]);
    screen.sees("offline · Lexer 2 ·").types("/quit\r").sees("code 0");
    let listed = machine.run(&["sessions", "list"]).out;
    assert!(listed.contains("  Lexer 2: say one\n"), "{listed}");
    let listed = machine.run(&["sessions", "list", "--json"]).out;
    assert!(listed.contains("\"name\":\"Lexer 2\""), "{listed}");
    let shown = machine.run(&["sessions", "export", "Lexer 2"]).out;
    assert!(shown.starts_with("# Lexer 2\n\n_This session is called `the parser`._"), "{shown}");
}

#[test]
fn on_the_command_line() {
    let machine = Machine::new();
    for text in ["say one", "say two"] {
        assert_eq!(machine.run(&["run", text]).code, 0);
    }
    let sessions = machine.sessions();
    let rename = |session: &str, name: &str| machine.run(&["sessions", "rename", session, name]);
    let done = rename(&sessions[0], "twin");
    assert_eq!((done.code, done.out), (0, format!("renamed {} to twin\n", sessions[0])));
    assert_eq!(names(&machine, &sessions[0]), [(Surface::Cli, "twin".to_owned())]);
    // Repeating it changes nothing.
    assert_eq!(rename("twin", "twin").code, 0);
    assert_eq!(names(&machine, &sessions[0]).len(), 1);

    // Two sessions with the same name are both listed.
    assert_eq!(rename(&sessions[1], "Twin").code, 0);
    let refused = machine.run(&["run", "--session", "twin", "say which?"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(sessions.iter().all(|session| refused.err.contains(session)), "{}", refused.err);
    assert_eq!(rename(&sessions[1], "other").code, 0);
    let found = machine.run(&["run", "--session", "TWIN", "say me"]);
    assert_eq!((found.code, found.out.as_str()), (0, "me\n"), "{}", found.err);

    for (name, wanted) in [
        ("", "at least one character"),
        (&"x".repeat(81), "at most 80 characters"),
        ("a\u{1b}[2Jb", "`\\u{1b}` is not"),
        ("a\nb", "`\\u{a}` is not"),
    ] {
        let refused = rename("twin", name);
        assert_eq!(refused.code, 2, "{name:?}");
        assert!(refused.err.contains(wanted), "{}", refused.err);
    }
    assert_eq!(rename("nobody", "x").code, 2);
    assert_eq!(machine.run(&["--name", "x", "run", "say hi"]).code, 2);
}

/// Renaming must not resume unfinished work.
#[test]
fn a_session_with_something_left_is_not_opened_for_its_name() {
    let machine = Machine::new();
    let mut screen = Screen::open(&machine, &[]);
    screen.sees(READY).types("write a.txt: hi\r").sees("Allow once");
    let session = machine.sessions().remove(0);
    let rename = || machine.run(&["sessions", "rename", &session, "x"]);
    assert!(rename().err.contains("has unfinished work"), "{}", rename().err);
    screen.signal(nix::sys::signal::Signal::SIGKILL).sees("code 137");
    let before = machine.log(&session).len();
    assert_eq!(rename().code, 2);
    assert_eq!(machine.log(&session).len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_wire() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let run = json!({ "command_path": ["name"], "args": "from outside" });
    let answer = served.call("command/execute", run).await;
    assert_eq!(answer["result"]["status"], "STARTED", "{answer}");
    let url = format!("localhost:{}", served.port);
    let mut screen = Screen::open(&machine, &["attach", &url]);
    screen.sees("This session is called from outside.").sees("offline · from outside ·");
    screen.types("/name mine\r").sees("offline · mine ·").types("/quit\r").sees("code 0");
}
