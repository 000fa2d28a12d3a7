//! R22: one owner per session across processes; another process learns the owner.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::{Served, text_message};

const ANN: &str = "a-token-of-ann-that-nobody-guesses";
const BOB: &str = "a-token-of-bob-that-nobody-guesses";

#[test]
fn a_second_process_learns_the_owner_of_the_session() {
    let machine = Machine::new();
    let mut owner = machine.start(&["run", "--output", "stream-json", "wait 60s"]);
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("turn_started")));
    let session = machine.sessions().remove(0);
    let before = machine.log(&session);

    // Many at once: all are refused with the owner's id.
    let seconds: Vec<_> =
        (0..20).map(|_| machine.start(&["run", "--session", &session, "say me too"])).collect();
    for second in seconds {
        let ran = crate::driver::Ran::from(second.wait_with_output().unwrap());
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains(&format!("in use by process {}", owner.id())), "{}", ran.err);
    }
    assert_eq!(machine.run(&["sessions", "delete", &session]).code, 1);
    assert_eq!(machine.log(&session), before, "nobody else wrote");

    // Reading needs no ownership.
    assert_eq!(machine.run(&["sessions", "show", &session]).code, 0);

    // When the owner dies, exactly one of many takes over; the others learn who.
    owner.kill().unwrap();
    owner.wait().unwrap();
    let heirs: Vec<_> = (0..20)
        .map(|_| machine.start(&["run", "--session", &session, "--output", "json", "wait 300ms"]))
        .collect();
    let codes: Vec<i32> = heirs
        .into_iter()
        .map(|heir| heir.wait_with_output().unwrap().status.code().unwrap())
        .collect();
    assert!(codes.contains(&0), "{codes:?}");
    assert!(codes.iter().all(|code| [0, 1].contains(code)), "{codes:?}");
    let log = machine.log(&session);
    let turns = log
        .iter()
        .filter(|envelope| matches!(envelope.event, loggia_core::Event::PromptAccepted { .. }));
    assert_eq!(turns.count(), 1 + codes.iter().filter(|code| **code == 0).count());
    let dense = log.iter().enumerate().all(|(index, envelope)| envelope.seq.0 == index as u64 + 1);
    assert!(dense, "one log, no gaps");
}

/// Two servers on one store: the second can read a session of the first for its owner and explains
/// why it cannot do more; for other clients the session does not exist, and its name is free.
#[tokio::test]
async fn a_second_server_shows_a_session_of_the_first_to_its_owner_only() {
    let machine = Machine::new();
    let tokens = machine.tokens(&format!("ann:{ANN}\nbob:{BOB}\n"));
    let arguments = ["serve", "--port", "0", "--token-file", &tokens, "--require-token"];
    let (first, second) =
        (Served::start(&machine, &arguments), Served::start(&machine, &arguments));
    let named = |text: &str| {
        let mut message = text_message(text);
        message["contextId"] = json!("proj");
        json!({ "message": message, "configuration": { "blocking": true } })
    };
    let begun = first.call_as(ANN, "/", "message/send", named("write a.txt: x")).await;
    let task = &begun["result"]["id"];
    assert_eq!(begun["result"]["status"]["state"], "input-required", "{begun}");

    for method in ["tasks/get", "GetTask"] {
        let there = first.call_as(ANN, "/", method, json!({ "id": task })).await;
        let here = second.call_as(ANN, "/", method, json!({ "id": task })).await;
        assert_eq!(here, there, "{method}");
        assert!(here["result"]["history"].is_array(), "{here}");
    }
    let mut go_on = text_message("yes");
    go_on["taskId"] = task.clone();
    let changes: [(&str, Value); 6] = [
        ("message/send", json!({ "message": go_on })),
        ("message/send", named("say x")),
        ("message/stream", named("say x")),
        ("tasks/cancel", json!({ "id": task })),
        ("tasks/resubscribe", json!({ "id": task })),
        ("SubscribeToTask", json!({ "id": task })),
    ];
    for (method, params) in &changes {
        let told = second.call_as(ANN, "/", method, params.clone()).await;
        let message = told["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Another process has this session"), "{method}: {told}");
    }
    for (method, params) in [("tasks/get", json!({ "id": task })), changes[3].clone()] {
        let told = second.call_as(BOB, "/", method, params).await;
        assert_eq!(told["error"]["code"], -32001, "{method}: {told}");
    }
    let free = second.call_as(BOB, "/", "message/send", named("say mine")).await;
    assert_eq!(free["result"]["status"]["state"], "completed", "{free}");
    assert_eq!(free["result"]["contextId"], "proj", "{free}");
    let seen = second.call_as(BOB, "/", "ListTasks", json!({})).await;
    assert_eq!(seen["result"]["totalSize"], 1, "{seen}");
    assert_eq!(machine.read("a.txt"), None);

    // After the first has ended, the second can do everything.
    drop(first);
    let done = second.call_as(ANN, "/", "message/send", changes[0].1.clone()).await;
    assert!(done["result"]["id"] == *task, "{done}");
}
