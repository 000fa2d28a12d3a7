//! The `loggia` subprotocol of `/ws`: what an attached terminal sees and can do.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::Served;

type Stream =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// An attached terminal that reads raw frames.
struct Attached {
    socket: Stream,
    seen: Vec<Value>,
}

impl Attached {
    async fn join(served: &Served, query: &str) -> Self {
        let url = format!("ws://127.0.0.1:{}/ws?{query}", served.port);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "loggia".parse().unwrap());
        let (socket, response) = tokio_tungstenite::connect_async(request).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "loggia");
        Self { socket, seen: Vec::new() }
    }

    async fn send(&mut self, wanted: Value) {
        self.socket.send(Message::text(wanted.to_string())).await.unwrap();
    }

    /// Reads until a frame matches.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let wait = async {
            loop {
                let message = self.socket.next().await.expect("open").unwrap();
                let Message::Text(text) = message else { continue };
                let frame: Value = serde_json::from_str(&text).unwrap();
                self.seen.push(frame.clone());
                if fits(&frame) {
                    return frame;
                }
            }
        };
        let found = tokio::time::timeout(std::time::Duration::from_secs(20), wait).await;
        found.unwrap_or_else(|_| panic!("it does not come:\n{:#?}", self.seen))
    }

    /// An event of this kind, which may have arrived before an awaited reply.
    async fn event(&mut self, kind: &str) -> Value {
        let fits = |frame: &Value| frame["envelope"]["event"]["type"] == kind;
        match self.seen.iter().find(|frame| fits(frame)) {
            Some(seen) => seen.clone(),
            None => self.until(fits).await,
        }
    }

    fn events(&self) -> Vec<Value> {
        let events = self.seen.iter().filter(|frame| frame["type"] == "event");
        events.map(|frame| frame["envelope"].clone()).collect()
    }
}

fn prompt(id: u64, text: &str) -> Value {
    json!({ "id": id, "type": "prompt", "prompt": format!("p{id}"),
            "content": { "parts": [{ "type": "text", "text": text }] } })
}

#[tokio::test]
async fn an_attached_terminal_sees_the_log_and_takes_part() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut ann = Attached::join(&served, "name=ann").await;
    let welcome = ann.until(|frame| frame["type"] == "welcome").await;
    assert_eq!(welcome["you"]["surface"], "tui");
    let mut bob = Attached::join(&served, "name=bob").await;
    let both = |frame: &Value| frame["clients"].as_array().is_some_and(|names| names.len() == 2);
    let present = ann.until(both).await;
    assert!(present["clients"][0]["client"].as_str().unwrap().starts_with("ann@"), "{present}");

    ann.send(prompt(1, "write hello.txt: hi")).await;
    let done = ann.until(|frame| frame["type"] == "done").await;
    assert!(done["task"].is_string(), "{done}");
    let asked = bob.event("approval_asked").await;
    let approval = asked["envelope"]["event"]["approval"].clone();
    let answer = |id: u64| {
        json!({ "id": id, "type": "answer", "to": { "approval": approval },
                "choice": "proceed_once" })
    };
    bob.send(answer(5)).await;
    bob.until(|frame| frame["type"] == "done" && frame["id"] == 5).await;
    bob.event("turn_ended").await;
    ann.event("turn_ended").await;
    assert_eq!(machine.read("hello.txt").as_deref(), Some("hi\n"));
    assert_eq!(ann.events(), bob.events());

    // Too late: the reply names the first answer.
    ann.send(answer(6)).await;
    let refused = ann.until(|frame| frame["type"] == "refused").await;
    assert_eq!(refused["refusal"]["type"], "already_answered", "{refused}");
    assert!(refused["refusal"]["by"]["client"].as_str().unwrap().starts_with("bob@"));

    // A resent prompt is the same prompt.
    ann.send(prompt(1, "write hello.txt: hi")).await;
    let again = ann.until(|frame| frame["type"] == "done").await;
    assert_eq!(again["task"], done["task"]);

    // Following from a cursor has no gap and no repetition.
    let events = ann.events();
    let mut late = Attached::join(&served, "after=3").await;
    late.event("turn_ended").await;
    assert_eq!(late.events(), events[3..]);
    drop(bob);
    let alone = |frame: &Value| {
        let names = frame["clients"].as_array();
        names.is_some_and(|names| names.iter().all(|name| !name.to_string().contains("bob")))
    };
    ann.until(alone).await;
}

#[tokio::test]
async fn invalid_frames_get_an_error_and_change_nothing() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut ann = Attached::join(&served, "").await;
    ann.until(|frame| frame["type"] == "welcome").await;
    for wrong in [
        json!({ "id": 1, "type": "configure", "settings": { "mode": "all" } }),
        json!({ "id": 2, "type": "report" }),
        json!([1, 2]),
        json!("text"),
    ] {
        ann.send(wrong).await;
        ann.until(|frame| frame["type"] == "failed").await;
    }
    ann.send(prompt(3, &"x".repeat(1024 * 1024 + 1))).await;
    let failed = ann.until(|frame| frame["type"] == "failed").await;
    assert_eq!(failed["id"], 3);
    ann.send(json!({ "id": 4, "type": "cancel", "what": "turn" })).await;
    let refused = ann.until(|frame| frame["type"] == "refused").await;
    assert_eq!(refused["refusal"]["type"], "nothing_to_cancel");
    assert_eq!(ann.events().len(), 1, "{:#?}", ann.events());

    let serve = Served::start(&machine, &["serve", "--port", "0"]);
    let mut nobody = Attached::join(&serve, "session=nobody").await;
    let failed = nobody.until(|frame| frame["type"] == "failed").await;
    assert!(failed["message"].is_string(), "{failed}");
    let mut nowhere = Attached::join(&serve, "").await;
    let failed = nowhere.until(|frame| frame["type"] == "failed").await;
    assert!(failed["message"].as_str().unwrap().contains("--session ID"), "{failed}");
}

/// The server of an ordinary user can inspect few processes, so attached terminals must stay
/// readable. As root, the test switches to an ordinary user.
#[test]
fn an_ordinary_user_attaches_without_a_token() {
    let machine = Machine::new();
    let mut command = machine.command(&["--a2a-port", "0"]);
    let mut screen = "\"$0\" attach localhost:$PORT; echo code $?".to_owned();
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        let mut chown = std::process::Command::new("chown");
        let chowned = chown.args(["-R", "65534:65534"]).arg(machine.home().parent().unwrap());
        assert!(chowned.status().unwrap().success());
        command.uid(65_534).gid(65_534);
        screen.insert_str(0, "setpriv --reuid 65534 --regid 65534 --clear-groups ");
    }
    let served = Served::spawn(command);
    let port = served.port.to_string();
    let mut screen = Screen::script(&machine, &screen, &[], &[("PORT", &port)], (80, 24));
    screen.sees("what shall I do?").types("say here\r").sees("here").types("\x04").sees("code 0");
}
