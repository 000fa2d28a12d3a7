//! The success criteria of S0, one test each: the real binary in a terminal, and a client at its
//! port.

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::screen::Screen;
use crate::served::{Socket, confirmation, text_message};

const READY: &str = "what shall I do?";

/// A prompt, and output that the prompt does not contain.
const PROMPT: &str = "run printf '%s-%s' out put";
const OUTPUT: &str = "out-put";

/// `loggia --a2a-port PORT` in a terminal.
fn invoked(machine: &Machine, more: &[&str]) -> (Screen, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port_text = port.to_string();
    let mut screen = Screen::open(machine, &[&["--a2a-port", &port_text], more].concat());
    screen.sees(READY);
    (screen, port)
}

/// A client at `ws://localhost:PORT/ws`.
async fn client(port: u16) -> Socket {
    Socket::connect(port, "?name=phone&after=0").await
}

fn says(value: &Value, text: &str) -> bool {
    value.to_string().contains(text)
}

/// Succeeds if it has arrived or arrives later.
async fn receives(client: &mut Socket, text: &str) {
    if !client.seen.iter().any(|value| says(value, text)) {
        client.until(|value| says(value, text)).await;
    }
}

async fn leave(mut screen: Screen) {
    screen.types("\x04").sees("code 0").is_restored();
}

/// 1. Invoking `--a2a-port 1234` starts the CLI and a server on port 1234.
#[tokio::test(flavor = "multi_thread")]
async fn criterion_1_one_invocation_is_a_screen_and_a_server() {
    let machine = Machine::new();
    let (mut screen, port) = invoked(&machine, &[]);
    let card = format!("http://localhost:{port}/.well-known/agent-card.json");
    let card: Value = reqwest::get(card).await.unwrap().json().await.unwrap();
    assert!(says(&card, &format!(":{port}")), "{card}");
    // The same process shows a working terminal interface.
    screen.types("/share\r").sees(&format!("localhost:{port}")).types("q").sees_no("any key");
    screen.types("say here\r").sees("\n\nhere").sees(READY);
    leave(screen).await;
    let gone = reqwest::get(format!("http://localhost:{port}/")).await;
    assert!(gone.is_err(), "the server is gone with the screen");
}

/// 2. Connecting to `ws://localhost:1234/ws` allows sending prompts and receiving output.
#[tokio::test(flavor = "multi_thread")]
async fn criterion_2_a_client_sends_prompts_and_receives_output() {
    let machine = Machine::new();
    let (screen, port) = invoked(&machine, &["--approve", "all"]);
    let mut client = client(port).await;
    client.send(2, "message/stream", json!({ "message": text_message(PROMPT) })).await;
    receives(&mut client, OUTPUT).await;
    receives(&mut client, "completed").await;
    leave(screen).await;
}

/// 3. Output typed in the TUI is received by the client.
#[tokio::test(flavor = "multi_thread")]
async fn criterion_3_what_is_typed_on_the_screen_is_received_by_the_client() {
    let machine = Machine::new();
    let (mut screen, port) = invoked(&machine, &["--approve", "all"]);
    let mut client = client(port).await;
    screen.types(&format!("{PROMPT}\r")).sees(OUTPUT).sees_no("working");
    // The typed prompt, its output and its end.
    for text in [PROMPT, OUTPUT, "completed"] {
        receives(&mut client, text).await;
    }
    leave(screen).await;
}

/// 4. Prompts sent by the client are displayed in the TUI.
#[tokio::test(flavor = "multi_thread")]
async fn criterion_4_a_clients_prompt_is_displayed_on_the_screen() {
    let machine = Machine::new();
    let (mut screen, port) = invoked(&machine, &[]);
    let mut client = client(port).await;
    let prompt = text_message("say from the wire");
    client.send(2, "message/stream", json!({ "message": prompt })).await;
    screen.sees("› [A2A] phone@").sees("say from the wire").sees("\n\nfrom the wire");
    screen.sees(READY);
    leave(screen).await;
}

/// 5. Tool permission dialogs triggered by the CLI are sent to the client, and the client's choice
/// resolves the dialog in the TUI.
#[tokio::test(flavor = "multi_thread")]
async fn criterion_5_a_clients_choice_resolves_the_dialog_on_the_screen() {
    let machine = Machine::new();
    let (mut screen, port) = invoked(&machine, &[]);
    let mut client = client(port).await;
    screen.types("write a.txt: hi\r").sees("Allow once");
    let asks = |value: &Value| says(&value["params"]["event"], "confirmation_request");
    let asked = client.until(asks).await;
    answer(&mut client, &asked).await;
    screen.sees_no("Allow once").sees("approved by A2A:phone").sees("wrote a.txt");
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
    leave(screen).await;
}

/// Allows the question once.
async fn answer(client: &mut Socket, asked: &Value) {
    let event = &asked["params"]["event"];
    let call = &event["status"]["message"]["parts"][0]["data"]["tool_call_id"];
    let answer = confirmation(&event["taskId"], call, "proceed_once");
    client.send(3, "message/stream", json!({ "message": answer })).await;
}
