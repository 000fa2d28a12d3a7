//! A directory and a context with control characters in their names: every command escapes them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;

use crate::driver::{Machine, Ran};
use crate::served::{Served, text_message};

/// Escape, bell, carriage return, a forged line, a bidi override, and a one-character CSI.
const NASTY: &str = "x\u{1b}[31m\u{7}\rloggia: FORGED\nloggia: FORGED\u{202e}\u{9b}2Jy";

/// The same for a missing path.
const ABSENT: &str = "no\u{1b}[31m\u{7}\r\u{202e}\u{9b}2J\nloggia: FORGED";

fn is_harmless(text: &str) -> bool {
    let seen = |letter: char| match letter {
        '\n' | '\t' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        letter => !letter.is_control(),
    };
    text.chars().all(seen) && !text.lines().any(|line| line.starts_with("loggia: FORGED"))
}

fn check(what: &str, ran: &Ran) {
    assert!(is_harmless(&ran.out), "{what}: {:?}", ran.out);
    assert!(is_harmless(&ran.err), "{what}: {:?}", ran.err);
}

fn nasty_directory(machine: &Machine) -> PathBuf {
    let path = machine.file(NASTY);
    std::fs::create_dir_all(path.join(".loggia")).unwrap();
    // Causes a notice that contains the directory.
    std::fs::write(path.join(".loggia/config.toml"), "model = \"offline\"\nmode = \"all\"\n")
        .unwrap();
    path
}

#[tokio::test]
async fn names_that_are_commands_to_a_terminal_are_printed_as_text() {
    let machine = Machine::new();
    let directory = nasty_directory(&machine);
    let command = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        command.current_dir(&directory);
        command
    };
    let run = |arguments: &[&str]| Ran::from(command(arguments).output().unwrap());

    let mut serve = command(&["serve", "--port", "0"]).stdin(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let said: Vec<String> = lines.take(2).map(|line| line.unwrap()).collect();
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(
        said[1].starts_with("New sessions work in ") && is_harmless(&said.join("\n")),
        "{said:?}"
    );

    let served = Served::spawn(command(&["serve", "--port", "0"]));
    let mut message = text_message("say hi");
    message["contextId"] = NASTY.into();
    let sent = served.call("message/send", json!({ "message": message })).await;
    assert!(sent["result"]["id"].is_string(), "{sent}");
    drop(served);
    let listed = run(&["sessions", "list", "--all", "--json"]);
    check("list", &listed);
    let first: serde_json::Value =
        serde_json::from_str(listed.out.lines().next().unwrap()).unwrap();
    let session = first["session"].as_str().unwrap();
    assert!(session.contains('\u{1b}'), "the name is what the client gave: {session:?}");
    assert_eq!(first["summary"]["workspace"], directory.to_str().unwrap(), "JSON means the same");

    for arguments in [
        &["sessions", "list"][..],
        &["sessions", "list", "--all"],
        &["sessions", "list", "--json"],
        &["sessions", "show", session],
        &["sessions", "show", NASTY],
        &["sessions", "export", session, "--format", "jsonl"],
        &["sessions", "export", NASTY],
        &["sessions", "export", session, "--output", NASTY],
        &["sessions", "rename", session, "a name"],
        &["sessions", "rename", session, NASTY],
        &["approvals", "list"],
        &["approvals", "revoke", NASTY],
        &["config"],
        &["config", "--output", "json"],
        &["doctor"],
        &["doctor", "--output", "json"],
        &["trust", "--list"],
        &["trust", "--revoke"],
        &["clients", "add", NASTY],
        &["clients", "revoke", NASTY],
        &["clients", "list", "--json"],
        &["pair", "--json"],
        &["run", "--output", "stream-json", "say hi"],
        &["run", "--output", "json", "write a.txt: x"],
        &["run", "write a.txt: x"],
        &["run", "--session", NASTY, "say hi"],
        &["run", "--session", session, "say hi"],
        &["run", "--model", NASTY, "say hi"],
        &["--session", ABSENT, "--a2a-port", "0"],
        &["-C", ABSENT, "sessions", "list"],
        &["serve", "--port", NASTY],
        &["serve", "--port", "0", "--root", ABSENT],
        &["serve", "--port", "0", "--token-file", ABSENT],
        &["attach", NASTY],
        &[NASTY],
        &["sessions", "delete", session],
        &["sessions", "delete", NASTY],
    ] {
        check(&format!("{arguments:?}"), &run(arguments));
    }
}

/// An export to a terminal is escaped, an export to a file is not.
#[test]
fn an_export_to_a_terminal_is_not_obeyed() {
    let machine = Machine::new();
    let said = format!("say {}", NASTY.replace('\n', " "));
    assert_eq!(machine.run(&["run", &said]).code, 0);
    let session = machine.sessions().remove(0);
    let raw = machine.run(&["sessions", "export", &session]);
    assert!(raw.out.contains('\u{9b}'), "{:?}", raw.out);
    let arguments = ["sessions", "export", session.as_str()];
    let person = crate::terminal::Person::sits_at(&machine, &arguments, &[("NO_COLOR", "1")]);
    let (code, shown) = person.leaves();
    assert_eq!(code, 0, "{shown}");
    assert!(
        shown.contains("FORGED") && !shown.contains('\u{9b}') && !shown.contains('\u{1b}'),
        "{shown:?}"
    );
}
