//! What Loggia says about its insides when it is asked to.

use crate::driver::Machine;
use crate::screen::Screen;

const READY: &str = "what shall I do?";

#[test]
fn without_one_it_is_on_stderr() {
    let machine = Machine::new();
    let ran = machine.run(&["run", "--debug", "say a word"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "a word\n"), "{}", ran.err);
    assert!(ran.err.contains("DEBUG") && ran.err.contains("appended"), "{}", ran.err);
    assert!(!ran.err.contains("a word"), "what is said is no matter of diagnostics: {}", ran.err);
    assert!(!machine.run(&["run", "say a word"]).err.contains("DEBUG"));
}

#[test]
fn beside_a_screen_it_is_a_file() {
    let machine = Machine::new();
    let file = machine.home().join("state/loggia.log");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut home = Screen::open(&machine, &["--debug", "--a2a-port", &port.to_string()]);
    home.sees(READY).types("say one\r").sees("\n\none");
    let logged = || std::fs::read_to_string(&file).unwrap_or_default();
    assert!(logged().contains("appended"));
    let url = format!("localhost:{port}");
    let mut away = Screen::open(&machine, &["--debug", "attach", &url]);
    away.sees("\n\none").types("say two\r").sees("\n\ntwo").types("\x04").sees("code 0");
    home.types("\x04").sees("code 0");
    for screen in [home, away] {
        let bytes = String::from_utf8_lossy(&screen.bytes).into_owned();
        assert!(!bytes.contains("DEBUG"), "{bytes:?}");
    }
}
