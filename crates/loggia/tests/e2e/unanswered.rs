//! Unanswered questions: the configured timeout policy answers them.

use loggia_core::{ChoiceId, Envelope, Event, Origin};
use serde_json::{Value, json};

use crate::driver::{Machine, shape};
use crate::screen::Screen;
use crate::served::{Served, asked, confirmation, short, text_message};

const WISH: &str = "write hello.txt: hi";

/// All answers in the only session: choice and origin.
fn answers(machine: &Machine) -> Vec<(ChoiceId, Origin)> {
    let answer = |envelope: &Envelope| match &envelope.event {
        Event::ApprovalAnswered { choice, .. } => Some((choice.clone(), envelope.origin.clone())),
        _ => None,
    };
    let session = machine.sessions().remove(0);
    machine.log(&session).iter().filter_map(answer).collect()
}

fn by_time_out() -> Vec<(ChoiceId, Origin)> {
    vec![(ChoiceId::CANCEL.into(), Origin::timeout())]
}

#[test]
fn on_the_screen() {
    let machine = Machine::new();
    machine.configure("[approvals]\ntimeout = \"1s\"\n");
    let mut screen = Screen::open(&machine, &[]);
    screen.sees("what shall I do?").types(&format!("{WISH}\r"));
    screen.sees("refused by the time-out").sees("no answer within 1s");
    screen.sees("what shall I do?").types("hello\r").sees("hello");
    assert_eq!(machine.read("hello.txt"), None);
    assert_eq!(answers(&machine), by_time_out());
    let shown = machine.run(&["config"]).out;
    assert!(shown.contains("approvals.timeout"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_a_client_that_says_nothing_and_then_too_much() {
    let machine = Machine::new();
    machine.configure("[approvals]\ntimeout = \"1s\"\non_timeout = \"cancel\"\n");
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let frames = served.stream(served.tool_stream(text_message(WISH)), usize::MAX).await;
    let (task, call) = asked(&frames);
    let frames = over(&served, &task).await;
    assert!(frames.iter().any(|frame| frame.contains("canceled")), "{frames:#?}");
    let late = served.tool_stream(confirmation(&task, &call, "proceed_once"));
    let late = served.stream(late, 1).await;
    let told = late.first().map(|event| event.response["error"].to_string());
    assert!(told.is_some_and(|told| told.contains("the time-out")), "{late:#?}");
    assert_eq!(machine.read("hello.txt"), None);
    assert_eq!(answers(&machine), by_time_out());
}

/// Reads a task to its end; its states.
async fn over(served: &Served, task: &Value) -> Vec<String> {
    let params = json!({ "id": task });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": &params });
    let frames = served.stream(served.post(&body), usize::MAX).await;
    let known = served.call("tasks/get", params).await["result"].clone();
    let frames = frames.iter().map(|event| short(&event.response["result"]));
    frames.chain([short(&known)]).collect()
}

/// The timeout continues while no process runs: the next start gives the answer, once.
#[tokio::test(flavor = "multi_thread")]
async fn when_the_server_was_killed_the_next_one_answers() {
    let machine = Machine::new();
    machine.configure("[approvals]\ntimeout = \"8s\"\n");
    let serve = ["serve", "--port", "0"];
    let mut served = Served::start(&machine, &serve);
    let frames = served.stream(served.tool_stream(text_message(WISH)), usize::MAX).await;
    let (task, _) = asked(&frames);
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    assert_eq!(answers(&machine), [], "it was open when the server died");
    let served = Served::start(&machine, &serve);
    let frames = over(&served, &task).await;
    assert_eq!(frames.last().map(String::as_str), Some("Task failed"), "{frames:#?}");
    assert_eq!(machine.read("hello.txt"), None);
    assert_eq!(answers(&machine), by_time_out());
}

/// Without a terminal the run ends at once, and the question stays open.
#[test]
fn without_a_terminal_a_run_does_not_wait_for_it() {
    let machine = Machine::new();
    machine.configure("[approvals]\ntimeout = \"1h\"\n");
    assert_eq!(machine.run(&["run", WISH]).code, 3);
    let session = machine.sessions().remove(0);
    let log = shape(&machine.log(&session));
    assert!(log.ends_with("approval_asked"), "{log}");
}
