//! An attached terminal without a connection: input is not sent after the reconnect.

use loggia_core::Event;
use nix::sys::signal::Signal;

use crate::driver::Machine;
use crate::screen::Screen;

const ARMED: &str = "e change it first";
const READY: &str = "what shall I do?";
const QUESTION: &str = "Allow Loggia to write a.txt?";
const SIZE: (u16, u16) = (110, 60);

struct Pair {
    machine: Machine,
    port: String,
    home: Screen,
    away: Screen,
}

impl Pair {
    fn new() -> Self {
        let machine = Machine::new();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        let mut home = Screen::sized(&machine, &["--a2a-port", &port], &[], SIZE);
        home.sees(READY);
        let url = format!("localhost:{port}");
        let mut away = Screen::sized(&machine, &["attach", &url, "--name", "laptop"], &[], SIZE);
        away.sees(READY);
        home.sees("with TUI:laptop");
        Self { machine, port, home, away }
    }

    fn kill(&mut self) {
        self.home.signal(Signal::SIGKILL).sees("code 137");
        self.away.sees("trying again");
    }

    /// Both terminals show each other, so they are connected.
    fn start_again(&mut self) {
        let session = self.machine.sessions().remove(0);
        let arguments = ["--a2a-port", self.port.as_str(), "--session", &session];
        self.home = Screen::sized(&self.machine, &arguments, &[], SIZE);
        self.home.sees("with TUI:laptop");
        self.away.sees("with TUI:tui-");
    }

    fn prompts(&self, text: &str) -> usize {
        let log = self.machine.log(&self.machine.sessions()[0]);
        let is_it = |event: &Event| match event {
            Event::PromptAccepted { content, .. } => content.to_text() == text,
            _ => false,
        };
        log.iter().filter(|envelope| is_it(&envelope.event)).count()
    }
}

#[test]
fn a_key_pressed_without_a_connection_answers_nothing_later() {
    let mut pair = Pair::new();
    pair.away.types("write a.txt: hi\r").sees(QUESTION).sees(ARMED);
    pair.home.sees(QUESTION);
    pair.kill();
    pair.away.sees(ARMED).types("y").sees("not connected: your answer was not sent");
    pair.start_again();
    pair.home.sees(QUESTION).sees(ARMED);
    // Both sides show the current question, and the new answer counts.
    pair.away.sees_no("trying again").sees(QUESTION).sees(ARMED).types("n");
    pair.home.sees("refused by TUI:laptop").sees(READY);
    assert_eq!(pair.machine.read("a.txt"), None);
    pair.away.types("\x04").sees("code 0").is_restored();
}

/// The host is stopped when the answer is sent, and killed before it reads it.
#[test]
fn an_answer_under_way_when_the_connection_broke_is_not_sent_again() {
    let mut pair = Pair::new();
    pair.away.types("write a.txt: hi\r").sees(QUESTION).sees(ARMED);
    pair.home.sees(QUESTION).freeze();
    pair.away.types("y\rx").sees("› x");
    pair.home.signal(Signal::SIGKILL).sees("code 137");
    pair.away.sees("trying again").sees("before your answer was confirmed: it is not sent again");
    pair.start_again();
    pair.home.sees(QUESTION).sees(ARMED);
    pair.away.sees_no("trying again").sees(QUESTION);
    pair.home.types("n").sees("not done").sees(READY);
    pair.away.sees("refused by TUI");
    assert_eq!(pair.machine.read("a.txt"), None);
}

#[test]
fn a_prompt_without_a_connection_stays_in_the_line_and_is_sent_once() {
    let mut pair = Pair::new();
    pair.home.types("say first\r").sees("\n\nfirst");
    pair.away.sees("\n\nfirst").sees(READY);
    pair.kill();
    pair.away.types("say later\r").sees("not connected: your prompt was not sent");
    pair.away.sees("› say later");
    pair.start_again();
    pair.away.sees_no("trying again").sees("› say later").types("\r").sees("\n\nlater").sees(READY);
    assert_eq!(pair.prompts("say later"), 1);
    // In flight when the connection was lost: it is returned to the composer and not resent.
    pair.home.sees("\n\nlater").sees(READY).freeze();
    pair.away.types("say once").sees("› say once").types("\r").sees_no("› say once");
    pair.home.signal(Signal::SIGKILL).sees("code 137");
    pair.away.sees("before your prompt was confirmed").sees("› say once");
    pair.start_again();
    pair.home.sees(READY);
    pair.away.sees_no("trying again").sees("› say once");
    assert_eq!(pair.prompts("say once"), 0);
    pair.away.types("\r").sees("\n\nonce");
    assert_eq!(pair.prompts("say once"), 1);
}
