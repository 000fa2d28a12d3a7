//! Questions on a real terminal: full text, answer, editor, interruption.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::driver::Machine;

/// A person at a terminal in which `loggia` runs.
pub struct Person {
    writer: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    seen: String,
    child: Box<dyn portable_pty::Child + Send + Sync>,
}

impl Person {
    pub fn sits_at(machine: &Machine, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let program = Machine::program().to_str().unwrap();
        Self::starts(machine, &[&[program], arguments].concat(), environment)
    }

    /// The same with another program in front.
    pub fn starts(machine: &Machine, words: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(words[0]);
        command.args(&words[1..]);
        command.env_clear();
        for (name, value) in [("PATH", std::env::var("PATH").unwrap().as_str()), ("TERM", "xterm")]
        {
            command.env(name, value);
        }
        command.env("LOGGIA_HOME", machine.home());
        for (name, value) in environment {
            command.env(name, value);
        }
        command.cwd(machine.work());
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let (sender, output) = sync_channel(64);
        std::thread::spawn(move || {
            let _open = pair.master;
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Person { writer, output, seen: String::new(), child }
    }

    /// Waits until `text` appears after the last match.
    pub fn sees(&mut self, text: &str) -> &mut Self {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return self;
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("never saw {text:?}, but {:?}", self.seen)
                }
            }
        }
    }

    pub fn process(&self) -> String {
        self.child.process_id().unwrap().to_string()
    }

    pub fn types(&mut self, text: &str) -> &mut Self {
        self.writer.write_all(text.as_bytes()).unwrap();
        self.writer.flush().unwrap();
        self
    }

    /// Waits for the end: exit code and remaining output.
    pub fn leaves(mut self) -> (u32, String) {
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_secs(20)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (self.child.wait().unwrap().exit_code(), self.seen)
    }
}

#[test]
fn yes_writes_and_no_does_not() {
    for (answer, written) in
        [("y\n", true), ("yes\n", true), ("n\n", false), ("what?\nno\n", false)]
    {
        let machine = Machine::new();
        let mut person = Person::sits_at(&machine, &["run", "write hello.txt: hi"], &[]);
        person.sees("Allow Loggia to write hello.txt?").sees("+hi").sees("> ").types(answer);
        let (code, _) = person.leaves();
        assert_eq!(code, 0);
        assert_eq!(machine.read("hello.txt").is_some(), written, "{answer:?}");
    }
}

#[test]
fn keys_typed_before_the_question_do_not_answer() {
    let machine = Machine::new();
    let mut person =
        Person::sits_at(&machine, &["run", "say ready\nwait 300ms\nwrite a.txt: x"], &[]);
    person.sees("ready").types("y\ny\n");
    person.sees("Allow Loggia to write a.txt?").sees("> ").types("n\n");
    assert_eq!(person.leaves().0, 0);
    assert_eq!(machine.read("a.txt"), None);
}

/// An empty line asks again; a line typed ahead does not answer the next question.
#[test]
fn an_empty_line_and_a_line_too_many_grant_nothing() {
    let machine = Machine::new();
    let mut person = Person::sits_at(&machine, &["run", "run touch A\nrun touch B"], &[]);
    person.sees("Allow Loggia to run touch A?").sees("> ").types("\n").sees("> ");
    assert_eq!(machine.read("A"), None);
    person.types("y\ny\ny\n").sees("Allow Loggia to run touch B?").sees("> ").types("n\n");
    assert_eq!(person.leaves().0, 0);
    assert_eq!((machine.read("A").is_some(), machine.read("B")), (true, None));
}

#[test]
fn always_is_remembered_for_the_session_and_the_project() {
    let machine = Machine::new();
    let mut person = Person::sits_at(&machine, &["run", "run echo one\nrun echo one"], &[]);
    person
        .sees("Allow Loggia to")
        .sees("Allow command `echo one` in this directory for this session")
        .types("a\n");
    // The second is not asked.
    assert_eq!(person.leaves().0, 0);

    let mut person = Person::sits_at(&machine, &["run", "run echo two"], &[]);
    person.sees("Allow command `echo two` always in this directory").sees("> ").types("p\n");
    assert_eq!(person.leaves().0, 0);
    // Another session without a terminal: the project rule applies.
    assert_eq!(machine.run(&["run", "run echo two"]).code, 0);
    assert_eq!(machine.run(&["run", "run echo two; id"]).code, 3);
    assert_eq!(machine.run(&["run", "run echo one"]).code, 3, "the session's rule ended with it");
    let listed = machine.run(&["approvals", "list"]);
    let rule = listed.out.split_whitespace().next().unwrap().to_owned();
    assert!(listed.out.contains("command `echo two`"), "{}", listed.out);
    assert_eq!(machine.run(&["approvals", "revoke", &rule]).code, 0);
    assert_eq!(machine.run(&["run", "run echo two"]).code, 3);
}

#[test]
fn an_edited_proposal_is_what_runs() {
    let machine = Machine::new();
    let editor = machine.home().with_file_name("editor.sh");
    std::fs::write(&editor, "#!/bin/sh\necho changed by a person > \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let environment = [("EDITOR", editor.to_str().unwrap())];
    let mut person = Person::sits_at(&machine, &["run", "write hello.txt: hi"], &environment);
    person.sees("Edit it first").sees("> ").types("e\n");
    assert_eq!(person.leaves().0, 0);
    assert_eq!(machine.read("hello.txt").as_deref(), Some("changed by a person\n"));
}

#[test]
fn a_question_gets_an_answer_in_words() {
    let machine = Machine::new();
    let prompt = "ask which name?\nwrite name.txt: {answer}";
    let mut person = Person::sits_at(&machine, &["run", "--approve", "edits", prompt], &[]);
    person.sees("which name?").sees("Your answer").types("Loggia\n");
    assert_eq!(person.leaves().0, 0);
    assert_eq!(machine.read("name.txt").as_deref(), Some("Loggia\n"));
}

#[test]
fn ctrl_c_at_the_question_cancels_the_turn() {
    let machine = Machine::new();
    let mut person = Person::sits_at(&machine, &["run", "write hello.txt: hi"], &[]);
    person.sees("> ").types("\u{3}");
    assert_eq!(person.leaves().0, 130);
    assert_eq!(machine.read("hello.txt"), None);
}

/// A19 for this front end: no control sequence of a tool or model reaches the terminal.
#[test]
fn escape_sequences_in_output_do_not_reach_the_terminal() {
    let machine = Machine::new();
    let nasty = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]52;c;ZXZpbA==\u{7}\u{202e}";
    let prompt = format!("say {nasty}x\nrun printf '\\033[2J\\033]0;t\\007 done'");
    let person =
        Person::sits_at(&machine, &["run", "--approve", "all", &prompt], &[("NO_COLOR", "1")]);
    let (code, shown) = person.leaves();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("done"), "{shown}");
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{7}') && !shown.contains('\u{202e}'),
        "{shown:?}"
    );
}

/// A16: the whole command is visible before it can be allowed.
#[test]
fn a_long_command_is_shown_whole() {
    let machine = Machine::new();
    let prompt = format!("run echo ok{} ; touch PWNED", " ".repeat(8000));
    let mut person = Person::sits_at(&machine, &["run", &prompt], &[]);
    person.sees("touch PWNED").sees("> ").types("n\n");
    assert_eq!(person.leaves().0, 0);
    assert!(machine.read("PWNED").is_none());
}
