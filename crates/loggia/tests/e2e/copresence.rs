//! One session with four kinds of clients: the local terminal, an attached terminal, an A2A 0.3
//! client on a WebSocket, an A2A 1.0 client on SSE. The first answer wins, and all clients learn
//! it.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::{EXTENSION, Socket, confirmation, text_message};

/// Shown once the dialog accepts keys.
const ARMED: &str = "e change it first";
const ALLOW: &str = "Allow once";
const READY: &str = "what shall I do?";
/// Ctrl-U: a key that arrived after another client's answer is in the composer.
const CLEAR: &str = "\u{15}";
const ROUNDS: usize = 8;
/// High enough to show everything.
const SIZE: (u16, u16) = (110, 140);

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn at_home(machine: &Machine, port: u16, more: &[&str]) -> Screen {
    let port = port.to_string();
    let arguments = [&["--a2a-port", port.as_str()], more].concat();
    Screen::sized(machine, &arguments, &[], SIZE)
}

fn attached(machine: &Machine, port: u16, name: &str) -> Screen {
    let url = format!("localhost:{port}");
    Screen::sized(machine, &["attach", &url, "--name", name], &[], SIZE)
}

/// An A2A 1.0 client over HTTP and SSE.
struct Plain {
    client: reqwest::Client,
    url: String,
}

impl Plain {
    fn new(port: u16) -> Self {
        Self { client: reqwest::Client::new(), url: format!("http://127.0.0.1:{port}/") }
    }

    async fn call(&self, method: &str, params: Value) -> reqwest::Response {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.client.post(&self.url).header("A2A-Version", "1.0").json(&body);
        let request = request.header("A2A-Extensions", EXTENSION);
        request.send().await.unwrap()
    }

    async fn send(&self, task: Option<&Value>, part: Value) -> Value {
        let id = uuid::Uuid::now_v7().to_string();
        let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [part] });
        if let Some(task) = task {
            message["taskId"] = task.clone();
        }
        let configuration = json!({ "returnImmediately": true });
        let params = json!({ "message": message, "configuration": configuration });
        self.call("SendMessage", params).await.json().await.unwrap()
    }

    /// A stream of a task from its current state.
    async fn follow(&self, task: &Value) -> Followed {
        let mut response = self.call("SubscribeToTask", json!({ "id": task })).await;
        let first = response.chunk().await.unwrap().expect("the task as it is");
        Followed { response, text: String::from_utf8(first.to_vec()).unwrap() }
    }
}

struct Followed {
    response: reqwest::Response,
    text: String,
}

impl Followed {
    /// The last state of the stream.
    async fn last_state(mut self) -> String {
        while let Some(chunk) = self.response.chunk().await.unwrap() {
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        let states = self.text.split("TASK_STATE_").skip(1);
        states.last().expect(&self.text).split('"').next().unwrap().to_owned()
    }
}

/// The question received by a WebSocket client: task and call.
async fn question(socket: &mut Socket, file: &str) -> (Value, Value) {
    let asked = socket
        .until(|value| {
            // Not in the reply to a message, which may contain a later question.
            let text = value["params"].to_string();
            text.contains("confirmation_request") && text.contains(file)
        })
        .await;
    let event = &asked["params"]["event"];
    let call = event["status"]["message"]["parts"][0]["data"]["tool_call_id"].clone();
    (event["taskId"].clone(), call)
}

/// Which of the four answer in a round: at least one, often several.
fn answering(round: usize) -> [bool; 4] {
    let bits = [1, 2, 4, 8, 15, 6, 9, 13][round % 8];
    [0, 1, 2, 3].map(|client| bits >> client & 1 == 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn four_kinds_of_clients_agree_on_one_session() {
    let machine = Machine::new();
    let port = free_port();
    let mut home = at_home(&machine, port, &[]);
    home.sees(READY);
    let mut away = attached(&machine, port, "laptop");
    away.sees(READY);
    home.sees("with TUI:laptop");
    let mut phone = Socket::connect(port, "?name=phone&after=0").await;
    home.sees("A2A:phone");
    away.sees("A2A:phone");
    let plain = Plain::new(port);

    for round in 0..ROUNDS {
        let file = format!("f{round}.txt");
        let prompt = format!("write {file}: {round}");
        match round % 4 {
            0 => drop(home.types(&format!("{CLEAR}{prompt}\r"))),
            1 => drop(away.types(&format!("{CLEAR}{prompt}\r"))),
            2 => phone.send(9, "message/send", json!({ "message": text_message(&prompt) })).await,
            _ => {
                let sent = plain.send(None, json!({ "text": prompt })).await;
                assert!(sent["result"]["task"]["id"].is_string(), "{sent}");
            }
        }
        let title = format!("Allow Loggia to write {file}?");
        home.sees(&title).sees(ARMED);
        away.sees(&title).sees(ARMED);
        let (task, call) = question(&mut phone, &file).await;

        let [by_home, by_away, by_phone, by_plain] = answering(round);
        let stream = plain.follow(&task).await;
        let data = json!({ "tool_call_id": call, "selected_option_id": "proceed_once" });
        let yes = async {
            match by_plain {
                true => Some(plain.send(Some(&task), json!({ "data": data })).await),
                false => None,
            }
        };
        let number = 100 + round as u64;
        let others = async {
            if by_phone {
                let answer = confirmation(&task, &call, "proceed_once");
                phone.send(number, "message/stream", json!({ "message": answer })).await;
            }
            if by_home {
                home.types("y");
            }
            if by_away {
                away.types("y");
            }
        };
        let (yes, ()) = tokio::join!(yes, others);
        assert_eq!(stream.last_state().await, "COMPLETED");
        assert_eq!(machine.read(&file), Some(format!("{round}\n")));
        home.sees_no(ALLOW).sees(&format!("wrote {file}"));
        away.sees_no(ALLOW).sees(&format!("wrote {file}"));

        // Exactly one won, and every loser was told the winner.
        let winner = answer_of(&machine, &call);
        let (surface, name) = (&winner["surface"], winner["client"].as_str().unwrap());
        let shown = match (surface.as_str().unwrap(), name) {
            ("tui", name) if name.starts_with("laptop@") => "TUI:laptop",
            ("tui", _) => "TUI:tui-",
            (_, name) if name.starts_with("phone@") => "A2A:phone",
            _ => "A2A:",
        };
        if by_phone {
            let answered = phone.until(|value| value["id"] == number).await;
            match shown {
                "A2A:phone" => assert!(answered["result"].is_object(), "{answered}"),
                _ => {
                    let by = answered["error"]["data"]["by"].as_str().unwrap();
                    assert!(by.ends_with(name), "{answered}");
                }
            }
        }
        if let Some(answered) = yes {
            match shown {
                "A2A:" => assert!(answered["result"].is_object(), "{answered}"),
                _ => assert!(answered["error"].to_string().contains(name), "{answered}"),
            }
        }
        let told = format!("approved by {shown}");
        if shown != "TUI:tui-" {
            home.sees(&told);
        }
        if shown != "TUI:laptop" {
            away.sees(&told);
        }
    }

    // All clients agree, and no question is open.
    home.types(CLEAR).sees(READY);
    away.types(CLEAR).sees(READY);
    for screen in [&home, &away] {
        let shown = screen.shown();
        let at = |round: usize| shown.find(&format!("wrote f{round}.txt"));
        for round in 1..ROUNDS {
            assert!(at(round - 1).is_some() && at(round - 1) < at(round), "{shown}");
        }
        assert!(!shown.contains(ALLOW), "{shown}");
    }
    let seen = phone.followed();
    let mut late = Socket::connect(port, "?name=late&after=0").await;
    let last = seen.last().unwrap().0.clone();
    late.until(|value| value["params"]["id"] == last).await;
    assert_eq!(late.followed(), seen);

    away.types("/quit\r").sees("code 0").is_restored();
    home.sees_no("with TUI:laptop").types("/quit\r").sees("code 0").is_restored();
}

/// Who answered the question about a call, from the log.
fn answer_of(machine: &Machine, call: &Value) -> Value {
    let log = serde_json::to_value(machine.log(&machine.sessions()[0])).unwrap();
    let answers: Vec<&Value> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|envelope| (envelope, &envelope["event"]))
        .filter(|(_, event)| event["type"] == "approval_answered" && event["call"] == *call)
        .map(|(envelope, _)| envelope)
        .collect();
    assert_eq!(answers.len(), 1, "{answers:#?}");
    answers[0]["origin"].clone()
}

/// A shell command after `!` runs without a question, from the local and the attached terminal, and
/// all clients see it: the other terminal, and a protocol client as a message and a call. The model
/// sees it in the next turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_shell_command_runs_and_all_clients_see_it() {
    let machine = Machine::new();
    let port = free_port();
    let mut home = at_home(&machine, port, &[]);
    home.sees(READY);
    let mut away = attached(&machine, port, "laptop");
    away.sees(READY);
    let mut phone = Socket::connect(port, "?name=phone&after=0").await;

    home.types("!echo it is $((40 + 2)) > n.txt; cat n.txt").sees("without a question").types("\r");
    away.sees("› [TUI] ").sees("!echo it is $((40 + 2))").sees("  it is 42");
    home.sees("  it is 42").sees(READY);
    assert_eq!(machine.read("n.txt").as_deref(), Some("it is 42\n"));
    let has = |text: &'static str| move |value: &Value| value.to_string().contains(text);
    phone.until(has("!echo it is $((40 + 2)) > n.txt; cat n.txt")).await;
    phone.until(has("run_shell_command")).await;
    phone.until(has("it is 42")).await;

    away.types("!rm n.txt && echo from $PWD\r").sees("from /");
    home.sees("[TUI] laptop").sees("from /");
    assert_eq!(machine.read("n.txt"), None);

    // The same text from a protocol client is a message.
    phone.send(9, "message/send", json!({ "message": text_message("!touch made.txt") })).await;
    home.sees("!touch made.txt").sees(READY);
    assert_eq!(machine.read("made.txt"), None);

    home.types("/compact\r").sees("A summary of").sees(READY);
    let log = serde_json::to_string(&machine.log(&machine.sessions()[0])).unwrap();
    assert!(!log.contains("approval_asked"), "{log}");
    let summary = log.split("context_compacted").nth(1).unwrap();
    assert!(
        summary.contains("Asked: !echo it is") && summary.contains("Did: run_shell_command"),
        "{summary}"
    );

    // It can be interrupted, and is not run again after a kill.
    home.types("!echo begun; sleep 600\r").sees("  begun").types("\x1b").sees("cancelled by");
    home.sees(READY).types("!echo x >> once.txt; echo waiting; sleep 600\r").sees("  waiting");
    home.signal(Signal::SIGKILL).sees("code 137");
    let session = machine.sessions().remove(0);
    let mut home = at_home(&machine, port, &["--session", &session]);
    home.sees("interrupted").sees(READY);
    assert_eq!(machine.read("once.txt").as_deref(), Some("x\n"));
    home.types("\x04").sees("code 0");
}

#[test]
fn an_attached_screen_goes_on_when_the_other_side_was_killed() {
    let machine = Machine::new();
    let port = free_port();
    let mut home = at_home(&machine, port, &[]);
    home.sees(READY).types("say before\r").sees("\n\nbefore").sees(READY);
    let mut away = attached(&machine, port, "laptop");
    away.sees("before").sees(READY).types("write a.txt: hi\r").sees(ALLOW);
    home.sees("[TUI").sees(ALLOW).signal(Signal::SIGKILL).sees("code 137");
    away.sees("trying again");
    let session = machine.sessions().remove(0);
    let mut home = at_home(&machine, port, &["--session", &session]);
    home.sees("Allow Loggia to write a.txt?");
    away.sees_no("trying again").sees(ARMED).types("y");
    home.sees("approved by TUI:laptop").sees("wrote a.txt");
    // It has another identity since the reconnect but is the same person.
    away.sees("wrote a.txt").sees("approved by you");
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
    away.types("\x04").sees("code 0").is_restored();
    home.types("\x04").sees("code 0");
}

#[test]
fn attach_errors_are_reported() {
    let machine = Machine::new();
    let port = free_port();
    let mut screen = attached(&machine, port, "laptop");
    screen.sees(&format!("cannot connect to localhost:{port}")).sees("code 1");
    let mut screen = Screen::open(&machine, &["attach", "ftp://x"]);
    screen.sees("is not a valid address").sees("code 2");
    let ran = machine.run(&["attach", "localhost:1"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("a terminal is needed"), "{}", ran.err);
}
