//! Resuming, listing, showing, exporting, deleting sessions; saved rules.

use crate::driver::{Machine, shape};

#[test]
fn continue_goes_on_in_the_last_session_of_this_directory() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "say first"]).code, 0);
    assert_eq!(machine.run(&["run", "--continue", "say second"]).code, 0);
    let sessions = machine.sessions();
    assert_eq!(sessions.len(), 1);
    let shown = machine.run(&["sessions", "show", &sessions[0][..13]]);
    assert!(shown.out.contains("first") && shown.out.contains("second"), "{}", shown.out);
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().to_str().unwrap();
    let ran = machine.run(&["-C", place, "run", "--continue", "say third"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = machine.run(&["-C", place, "run", "--session", &sessions[0], "say third"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("works in"), "{}", ran.err);
}

/// `loggia sessions list | head` exits silently.
#[test]
fn a_closed_stdout_ends_a_list_silently() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "say first"]).code, 0);
    let session = machine.sessions().remove(0);
    for arguments in [
        &["sessions", "list"][..],
        &["sessions", "show", &session],
        &["sessions", "export", &session],
        &["config"],
        &["doctor"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = machine.command(arguments).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(141), ""), "{arguments:?}");
    }
}

/// Piped input is appended to the prompt; a silent pipe is not waited for.
#[test]
fn piped_input_is_appended_to_the_prompt() {
    use std::io::Write;
    let machine = Machine::new();
    for (arguments, piped) in [
        (&["run", "say above"][..], "say below"),
        (&["run", "say above", "-"], "say below"),
        (&["run", "-"], "say above\nsay below"),
        (&["run"], "say above\nsay below"),
    ] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(piped.as_bytes()).unwrap();
        drop(writer);
        let output = machine.command(arguments).stdin(reader).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("above") && said.contains("below"), "{arguments:?}: {said}");
    }
    let (reader, _silent) = std::io::pipe().unwrap();
    let output = machine.command(&["run", "say alone"]).stdin(reader).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("is silent"), "{told}");
}

#[test]
fn list_show_export_delete() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "--approve", "edits", "write a.txt: one"]).code, 0);
    let session = machine.sessions().remove(0);
    let listed = machine.run(&["sessions", "list"]);
    assert!(listed.out.contains("write a.txt: one"), "{}", listed.out);
    let file = machine.file("out.md");
    let export = ["sessions", "export", &session, "--output", file.to_str().unwrap()];
    assert_eq!(machine.run(&export).code, 0);
    let markdown = std::fs::read_to_string(&file).unwrap();
    assert!(markdown.contains("```diff") && markdown.contains("+one"), "{markdown}");
    assert_eq!(machine.run(&export).code, 2, "a file that exists is not overwritten");
    assert_eq!(machine.run(&["sessions", "delete", &session]).code, 0);
    assert_eq!(machine.run(&["sessions", "show", &session]).code, 2);
    assert_eq!(machine.run(&["sessions", "delete", &session]).code, 1);
    assert!(machine.sessions().is_empty());
}

#[test]
fn deny_rules_of_the_configuration_hold_in_every_mode() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.home().join("config")).unwrap();
    let config = machine.home().join("config/config.toml");
    std::fs::write(&config, "[commands]\nallow = [\"echo *\"]\ndeny = [\"rm *\"]\n").unwrap();
    machine.write("keep.txt", "x");
    let ran = machine.run(&["run", "--approve", "all", "run rm keep.txt"]);
    assert!(ran.out.contains("a rule forbids it"), "{}", ran.out);
    assert!(machine.read("keep.txt").is_some());
    assert_eq!(machine.run(&["run", "run echo hi"]).code, 0, "allowed by the rule, nobody asked");
    for bypass in [
        "run echo hi; id",
        "run echo $(id)",
        "run echo hi > x",
        "run A=1 echo hi",
        "run echo hi & id",
    ] {
        assert_eq!(machine.run(&["run", bypass]).code, 3, "{bypass}");
    }
    assert!(machine.read("x").is_none());
    let log = machine.log(&machine.sessions()[0]);
    assert!(shape(&log).ends_with("approval_asked"));
}
