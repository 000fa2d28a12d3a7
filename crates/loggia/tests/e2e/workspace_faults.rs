//! R25, A17, A26: the workspace changes during a call, by accident or on purpose.

use loggia_core::{CallOutcome, Event};

use crate::driver::Machine;
use crate::terminal::Person;

fn last_failure(machine: &Machine) -> loggia_core::CallFailure {
    let session = machine.sessions().remove(0);
    let log = machine.log(&session);
    let failed = log.iter().rev().find_map(|envelope| match &envelope.event {
        Event::CallEnded { outcome: CallOutcome::Failed { failure }, .. } => Some(failure.clone()),
        _ => None,
    });
    failed.expect("a call has failed")
}

/// Asks to edit `dir/a.txt`, lets `meddle` change the workspace, approves, and returns the failure.
fn meddled(meddle: impl FnOnce(&Machine)) -> (Machine, loggia_core::CallFailure) {
    let machine = Machine::new();
    machine.write("dir/a.txt", "one\n");
    let mut person = Person::sits_at(&machine, &["run", "edit dir/a.txt: one => two"], &[]);
    person.sees("Allow Loggia to").sees("+two").sees("> ");
    meddle(&machine);
    person.types("y\n");
    assert_eq!(person.leaves().0, 0);
    let failure = last_failure(&machine);
    (machine, failure)
}

#[test]
fn a_file_whose_bytes_changed_since_is_not_written() {
    let (machine, failure) = meddled(|machine| {
        machine.write("dir/a.txt", "somebody else's\n");
    });
    assert_eq!(failure.kind, "changed_since_approval");
    assert_eq!(machine.read("dir/a.txt").as_deref(), Some("somebody else's\n"));
}

#[test]
fn a_file_that_became_a_link_is_not_followed() {
    let (machine, failure) = meddled(|machine| {
        std::fs::write(machine.home().with_file_name("bashrc"), "one\n").unwrap();
        std::fs::remove_file(machine.file("dir/a.txt")).unwrap();
        std::os::unix::fs::symlink(
            machine.home().with_file_name("bashrc"),
            machine.file("dir/a.txt"),
        )
        .unwrap();
    });
    assert_eq!(failure.kind, "changed_since_approval", "{failure:?}");
    assert_eq!(std::fs::read_to_string(machine.home().with_file_name("bashrc")).unwrap(), "one\n");
}

#[test]
fn a_directory_that_became_a_link_is_not_followed() {
    let (machine, failure) = meddled(|machine| {
        let outside = machine.home().with_file_name("outside");
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("a.txt"), "one\n").unwrap();
        std::fs::rename(machine.file("dir"), machine.file("moved")).unwrap();
        std::os::unix::fs::symlink(&outside, machine.file("dir")).unwrap();
    });
    assert_eq!(failure.kind, "changed_since_approval", "{failure:?}");
    assert_eq!(machine.read("moved/a.txt").as_deref(), Some("one\n"));
    let outside = machine.home().with_file_name("outside/a.txt");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "one\n");
}

#[test]
fn a_replaced_workspace_is_not_written_to() {
    let (machine, failure) = meddled(|machine| {
        std::fs::rename(machine.work(), machine.work().with_file_name("elsewhere")).unwrap();
        machine.write("dir/a.txt", "one\n");
    });
    assert_eq!(failure.kind, "workspace_gone", "{failure:?}");
    assert_eq!(machine.read("dir/a.txt").as_deref(), Some("one\n"));
    let moved = machine.work().with_file_name("elsewhere").join("dir/a.txt");
    assert_eq!(std::fs::read_to_string(moved).unwrap(), "one\n");
}

/// Deleted while the question is open: the call fails, and the session continues when it is back.
#[test]
fn a_deleted_workspace_fails_the_call_and_not_the_session() {
    let machine = Machine::new();
    let mut person = Person::sits_at(&machine, &["run", "write a.txt: x"], &[]);
    person.sees("> ");
    std::fs::remove_dir_all(machine.work()).unwrap();
    person.types("y\n");
    assert_eq!(person.leaves().0, 0);
    assert!(!machine.work().exists(), "nothing was made at the old place");
    std::fs::create_dir(machine.work()).unwrap();
    assert_eq!(last_failure(&machine).kind, "workspace_gone");
    let ran = machine.run(&["run", "--continue", "--approve", "edits", "write a.txt: back"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(machine.read("a.txt").as_deref(), Some("back\n"));
}

/// Deleted while a command runs in it.
#[test]
fn a_workspace_deleted_by_a_command_is_said_clearly() {
    let machine = Machine::new();
    let work = machine.work();
    let prompt = format!("run rm -rf {}\nwrite a.txt: x", work.display());
    let ran = machine.run(&["run", "--approve", "all", &prompt]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains(work.to_str().unwrap()), "{}", ran.out);
    assert!(!work.exists());
}

/// A workspace on its own file system, which `meddle` may remount or unmount while the question is
/// open. Needs root.
fn mounted(meddle: &[&str]) -> (Machine, loggia_core::CallFailure) {
    let machine = Machine::new();
    let work = machine.work().to_str().unwrap().to_owned();
    let program = Machine::program().to_str().unwrap();
    let mount = "mount -t tmpfs none \"$0\" && cd \"$0\" && exec \"$@\"";
    let words = ["unshare", "-m", "sh", "-c", mount, &work, program, "run", "write a.txt: x"];
    let mut person = Person::starts(&machine, &words, &[]);
    person.sees("Allow Loggia to write a.txt?").sees("> ");
    let process = person.process();
    let mut enter = std::process::Command::new("nsenter");
    enter.args(["-t", &process, "-m"]).args(meddle).arg(&work);
    assert!(enter.status().unwrap().success(), "{meddle:?}");
    person.types("y\n");
    assert_eq!(person.leaves().0, 0);
    let failure = last_failure(&machine);
    assert_eq!(std::fs::read_dir(machine.work()).unwrap().count(), 0, "nothing at the old place");
    (machine, failure)
}

#[test]
fn a_workspace_that_became_read_only_is_said_clearly() {
    let (machine, failure) = mounted(&["mount", "-o", "remount,ro"]);
    assert!(failure.message.to_lowercase().contains("read-only"), "{failure:?}");
    let ran = machine.run(&["run", "--continue", "--approve", "edits", "write a.txt: back"]);
    assert_eq!(ran.code, 0, "the session goes on: {}", ran.err);
}

#[test]
fn an_unmounted_workspace_is_not_written_to() {
    let (_machine, failure) = mounted(&["umount", "-l"]);
    assert_eq!(failure.kind, "workspace_gone", "{failure:?}");
}

/// A26 (1) and (3): links, magic links and devices do not lead outside.
#[test]
fn nothing_outside_the_workspace_is_read_or_written() {
    let machine = Machine::new();
    std::os::unix::fs::symlink("/etc", machine.file("d")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", machine.file("p")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", machine.file("z")).unwrap();
    let read = [
        "read d/passwd",
        "read p",
        "read z",
        "read /etc/passwd",
        "read ../home/data/loggia.db",
        "read /proc/self/environ",
        "read /proc/self/root/etc/passwd",
        "list d",
        "list ..",
    ];
    for prompt in read {
        let ran = machine.run(&["run", "--approve", "edits", prompt]);
        assert_eq!(ran.code, 0, "{prompt}: {}", ran.err);
        assert!(
            !ran.out.contains("root:") && !ran.out.contains("passwd-"),
            "{prompt}: {}",
            ran.out
        );
        last_failure(&machine);
    }
    for prompt in [
        "write d/loggia-was-here: x",
        "write ../loggia-was-here: x",
        "write /tmp/loggia-was-here: x",
    ] {
        assert_eq!(machine.run(&["run", "--approve", "all", prompt]).code, 0);
        last_failure(&machine);
    }
    for path in ["/etc/loggia-was-here", "/tmp/loggia-was-here"] {
        assert!(!std::path::Path::new(path).exists());
    }
}
