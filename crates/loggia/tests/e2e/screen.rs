//! Drives the real binary in a PTY and reads its screen with a terminal emulator.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::driver::Machine;

const TIMEOUT: Duration = Duration::from_secs(30);

pub struct Screen {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    /// Everything written to the terminal.
    pub bytes: Vec<u8>,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn some(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

impl Screen {
    pub fn open(machine: &Machine, arguments: &[&str]) -> Self {
        Self::sized(machine, arguments, &[], (100, 30))
    }

    pub fn sized(
        machine: &Machine,
        arguments: &[&str],
        environment: &[(&str, &str)],
        size: (u16, u16),
    ) -> Self {
        // Run in a shell, whose output before and after is checked.
        let script = "echo before; \"$0\" \"$@\"; echo code $?; stty -a | grep -o ' -*icanon'";
        Self::script(machine, script, arguments, environment, size)
    }

    /// The same with another shell script, in which `$0` is Loggia.
    pub fn script(
        machine: &Machine,
        script: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
        (columns, rows): (u16, u16),
    ) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut command = CommandBuilder::new("/bin/sh");
        command.args(["-c", script, Machine::program().to_str().unwrap()]);
        command.args(arguments);
        command.env_clear();
        command.env("PATH", std::env::var("PATH").unwrap());
        // The emulator cuts rows like the old terminals.
        for (name, value) in [("TERM", "xterm"), ("XTERM_VERSION", "1"), ("LANG", "C.UTF-8")] {
            command.env(name, value);
        }
        command.env("LOGGIA_HOME", machine.home());
        for (name, value) in environment {
            command.env(name, value);
        }
        command.cwd(machine.work());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let (sender, output) = sync_channel(64);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            master: pair.master,
            writer,
            output,
            parser: vt100::Parser::new(some(rows), some(columns), 10_000),
            child,
            bytes: Vec::new(),
        }
    }

    /// Feeds the emulator and replies to cursor queries.
    fn take(&mut self, bytes: &[u8]) {
        const WHERE: &[u8] = b"\x1b[6n";
        self.parser.process(bytes);
        self.bytes.extend_from_slice(bytes);
        let asked = bytes.windows(WHERE.len()).filter(|window| *window == WHERE).count();
        for _ in 0..asked {
            let (row, column) = self.parser.screen().cursor_position();
            self.types(&format!("\x1b[{};{}R", row + 1, column + 1));
        }
    }

    pub fn shown(&self) -> String {
        self.parser.screen().contents()
    }

    pub fn sees(&mut self, text: &str) -> &mut Self {
        self.until(text, |screen| screen.contains(text))
    }

    pub fn sees_no(&mut self, text: &str) -> &mut Self {
        self.until(text, |screen| !screen.contains(text))
    }

    /// Waits for bytes that the emulator does not show.
    pub fn gets(&mut self, bytes: &[u8]) -> &mut Self {
        let what = String::from_utf8_lossy(bytes).into_owned();
        self.wait(&what, |me| me.bytes.windows(bytes.len()).any(|window| window == bytes))
    }

    fn until(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> &mut Self {
        self.wait(what, |me| fits(&me.shown()))
    }

    fn wait(&mut self, what: &str, fits: impl Fn(&Self) -> bool) -> &mut Self {
        let deadline = Instant::now() + TIMEOUT;
        while !fits(self) {
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("never right about {what:?}:\n{}", self.shown())
                }
            }
        }
        self
    }

    /// The frame that contains all these texts, without volatile parts.
    pub fn picture(&mut self, texts: &[&str]) -> String {
        self.complete(texts);
        crate::snapshots::text(self.parser.screen_mut())
    }

    /// The same with styles.
    pub fn styled_picture(&mut self, texts: &[&str]) -> String {
        self.complete(texts);
        crate::snapshots::styled(self.parser.screen_mut())
    }

    /// The same as an image.
    pub fn image(&mut self, texts: &[&str]) -> String {
        self.complete(texts);
        crate::svg::draw(&crate::snapshots::filled(self.parser.screen_mut()))
    }

    /// Waits until a text is coloured, after the grammars are loaded.
    pub fn sees_coloured(&mut self, text: &str) -> &mut Self {
        self.wait(text, |me| crate::snapshots::is_coloured(me.parser.screen(), text))
    }

    /// Reads until a complete frame shows all texts; `!` before a text means that it must be gone.
    fn complete(&mut self, texts: &[&str]) {
        let shows = |screen: &str, text: &&str| match text.strip_prefix('!') {
            Some(gone) => !screen.contains(gone),
            None => screen.contains(*text),
        };
        let fits = |screen: &str| texts.iter().all(|text| shows(screen, text));
        self.wait(&texts.join(", "), |me| me.is_whole() && fits(&me.shown()));
    }

    /// Whether the last frame is complete.
    fn is_whole(&self) -> bool {
        let last = |mark: &[u8]| self.bytes.windows(mark.len()).rposition(|window| window == mark);
        last(b"\x1b[?2026l") > last(b"\x1b[?2026h")
    }

    pub fn types(&mut self, text: &str) -> &mut Self {
        self.writer.write_all(text.as_bytes()).unwrap();
        self.writer.flush().unwrap();
        self
    }

    /// Clicks on a text.
    pub fn clicks(&mut self, text: &str) -> &mut Self {
        let row = self.shown().lines().position(|line| line.contains(text)).unwrap();
        self.types(&format!("\x1b[<0;4;{}M", row + 1))
    }

    pub fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.parser.screen_mut().set_size(some(rows), some(columns));
        self.master.resize(size(columns, rows)).unwrap();
        self
    }

    /// Loggia's process, a child of the shell.
    pub fn process(&self) -> Pid {
        child_of(self.child.process_id().unwrap())
    }

    /// The program between the shell and Loggia, and Loggia.
    pub fn processes(&self) -> (Pid, Pid) {
        let between = self.process();
        (between, child_of(between.as_raw().unsigned_abs()))
    }

    pub fn signal(&mut self, signal: nix::sys::signal::Signal) -> &mut Self {
        nix::sys::signal::kill(self.process(), signal).unwrap();
        self
    }

    /// Stops the process and waits until all its threads are stopped.
    pub fn freeze(&mut self) -> &mut Self {
        self.signal(nix::sys::signal::Signal::SIGSTOP);
        let threads = format!("/proc/{}/task", self.process());
        let deadline = Instant::now() + TIMEOUT;
        let is_stopped = |thread: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        while !std::fs::read_dir(&threads).unwrap().all(|thread| is_stopped(thread.unwrap())) {
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::yield_now();
        }
        self
    }

    pub fn mouse_is_on(&self) -> bool {
        self.parser.screen().mouse_protocol_mode() != vt100::MouseProtocolMode::None
    }

    pub fn is_alternate(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    /// After the end: all modes are restored, and the shell continues below.
    pub fn is_restored(&mut self) {
        self.sees("icanon");
        let screen = self.parser.screen();
        assert!(!self.shown().contains("-icanon"), "raw mode was left on:\n{}", self.shown());
        assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        let bytes = String::from_utf8_lossy(&self.bytes).into_owned();
        for (on, off) in [("\x1b[?1004h", "\x1b[?1004l"), ("\x1b[>1u", "\x1b[<1u")] {
            assert!(bytes.rfind(off) > bytes.rfind(on), "{on:?} was left on");
        }
        assert!(!bytes.contains("\x1b[2J") && !bytes.contains("\x1b[3J"), "the screen was cleared");
        assert_eq!(loggia_testkit::terminal::foreign_in_terminal(&self.bytes), None);
    }
}

fn child_of(process: u32) -> Pid {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap();
    Pid::from_raw(children.split_whitespace().next().expect("it runs").parse().unwrap())
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
