//! Debug logs.

use std::os::unix::fs::PermissionsExt;

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

/// The log file is private, whatever the umask and its earlier mode.
#[test]
fn a_log_file_is_private() {
    for existed in [false, true] {
        let machine = Machine::new();
        let state = machine.home().join("state");
        let file = state.join("loggia.log");
        let set = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        if existed {
            std::fs::create_dir_all(&state).unwrap();
            std::fs::write(&file, "older\n").unwrap();
            set(&state, 0o755);
            set(&file, 0o666);
        }
        let script = "umask 0; \"$0\" \"$@\"; echo code $?";
        let mut screen = Screen::script(&machine, script, &["--debug"], &[], (100, 30));
        screen.sees(READY);
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&file)), (0o700, 0o600), "existed: {existed}");
        screen.types("\x04").sees("code 0");
        let logged = std::fs::read_to_string(&file).unwrap();
        assert_eq!(logged.starts_with("older\n"), existed, "{logged}");
    }
}
