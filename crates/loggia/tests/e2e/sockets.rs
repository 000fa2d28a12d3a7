//! `/ws` as a connection: how it is closed, how its streams end and are cancelled, and which clients are waited for.
//! What docs/protocols/websocket.md says, sentence by sentence.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::driver::Machine;
use crate::floods::raw_socket;
use crate::served::{Served, Socket, text_message};

/// A model that thinks for as long as a test lasts.
const ENDLESS: &str = "[[rule]]\nsteps = [ { repeat = 100_000, step = { thought = \"x\", subject = \"s\", \
                       delay = \"2ms\" } } ]\n";

fn endless(machine: &Machine) -> String {
    machine.configure("[limits]\nreplies = 200_000\n");
    machine.script("endless.toml", ENDLESS)
}

impl Socket {
    /// A request whose id is written as a test wants it.
    async fn send_raw(&mut self, id: &str, method: &str, params: &str) {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
        );
        self.stream.send(Message::text(body)).await.unwrap();
    }

    /// The next frame.
    async fn next(&mut self) -> Value {
        self.until(|_| true).await
    }
}

fn ends(value: &Value, id: &Value) -> bool {
    value["method"] == "stream/end" && value["params"]["id"] == *id
}

#[tokio::test]
async fn a_close_is_answered() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--model", &endless(&machine)]);
    served.call("message/send", json!({ "message": text_message("go") })).await;
    let attached = ("Sec-WebSocket-Protocol", "loggia".to_owned());
    // One that follows, one that is attached, and one that is closed as soon as it is open.
    for (headers, first) in [(None, true), (Some(attached), true), (None, false)] {
        let mut socket = served.upgrade("?after=0", headers).await.unwrap();
        if first {
            socket.next().await;
        }
        let frame = CloseFrame { code: CloseCode::Library(4321), reason: "bye".into() };
        socket.stream.close(Some(frame)).await.unwrap();
        assert_eq!(socket.end().await, Some(CloseCode::Library(4321)));
        assert!(socket.stream.next().await.is_none(), "and nothing after it");
    }
}

#[tokio::test]
async fn a_stream_has_an_end_also_after_an_error() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let mut unknown = text_message("say x");
    unknown["taskId"] = json!("nope");
    let table = [
        ("message/stream", json!({}), -32602, true),
        ("SendStreamingMessage", json!({}), -32602, true),
        ("tasks/resubscribe", json!({ "id": "nope" }), -32001, true),
        ("SubscribeToTask", json!({ "id": "nope" }), -32001, true),
        ("message/stream", json!({ "message": unknown }), -32001, true),
        ("tasks/get", json!({ "id": "nope" }), -32001, false),
        ("no/such", json!({}), -32601, false),
    ];
    let mut socket = served.socket("").await;
    for (id, (method, params, code, streams)) in (1..).zip(table) {
        socket.send(id, method, params).await;
        let told = socket.next().await;
        assert_eq!((&told["id"], &told["error"]["code"]), (&json!(id), &json!(code)), "{told}");
        if streams {
            let end = socket.next().await;
            assert!(ends(&end, &json!(id)), "{method}: {end}");
        }
    }
    socket.send(99, "ListTasks", json!({})).await;
    assert_eq!(socket.next().await["id"], 99, "nothing else has come");
    // One for another version.
    let version = ("A2A-Version", "1.0".to_owned());
    let mut socket = served.upgrade("", [version]).await.unwrap();
    socket.send(1, "message/stream", json!({ "message": text_message("say x") })).await;
    assert!(socket.next().await["error"].is_object());
    let end = socket.next().await;
    assert!(ends(&end, &json!(1)), "{end}");
}

#[tokio::test]
async fn a_cancelled_stream_ends_before_the_answer_and_its_task_goes_on() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0", "--model", &endless(&machine)]);
    let mut socket = served.socket("").await;
    // However an id is written, it is the same.
    let table = [
        ("1", "1"),
        ("1", "1.0"),
        ("1e0", "1"),
        (r#""\u00e9""#, r#""\u00e9""#),
        (r#""é""#, r#""\u00e9""#),
        (r#""a\/b""#, r#""a/b""#),
        ("null", "null"),
    ];
    let message = json!({ "message": text_message("go") }).to_string();
    for (id, other) in table {
        let value: Value = serde_json::from_str(id).unwrap();
        socket.send_raw(id, "message/stream", &message).await;
        let task = socket.until(|frame| frame["result"]["kind"] == "task").await;
        // In use, also as it is written otherwise.
        socket.send_raw(other, "ListTasks", "{}").await;
        let told = socket.until(|frame| frame["error"].is_object()).await;
        assert_eq!(told["error"]["code"], -32600, "{id} {other}: {told}");
        socket.seen.clear();
        socket.send_raw("\"c\"", "stream/cancel", &format!("{{\"id\":{other}}}")).await;
        let told = socket.until(|frame| frame["id"] == "c").await;
        assert_eq!(told["result"], json!({}), "{id} {other}: {told}");
        let before = socket.seen.len().checked_sub(2).expect("the end came first");
        assert!(ends(&socket.seen[before], &value), "{id} {other}: {:#?}", socket.seen);
        // Now it is free, and nothing of the stream comes under it; the task is at work.
        let get = json!({ "id": task["result"]["id"] }).to_string();
        socket.send_raw(other, "tasks/get", &get).await;
        let told = socket.next().await;
        assert_eq!(told["result"]["status"]["state"], "working", "{id} {other}: {told}");
    }
}

/// Also where the stream is about to say something at that very moment.
#[tokio::test]
async fn nothing_of_a_stream_comes_after_its_cancel() {
    let machine = Machine::new();
    let model = machine.script(
        "busy.toml",
        "[[rule]]\nsteps = [ { repeat = 40, step = { thought = \"x\", subject = \"s\", delay = \"1ms\" } } ]\n",
    );
    let served = Served::start(&machine, &["serve", "--port", "0", "--model", &model]);
    let mut socket = served.socket("").await;
    for round in 0..100 {
        socket.seen.clear();
        socket.feed(1, "message/stream", json!({ "message": text_message("go") })).await;
        if round % 2 == 0 {
            socket.stream.flush().await.unwrap();
            socket.until(|frame| frame["result"]["kind"] == "task").await;
        }
        socket.feed(2, "stream/cancel", json!({ "id": 1 })).await;
        socket.send(1, "tasks/get", json!({ "id": "none" })).await;
        socket.until(|frame| frame["id"] == 2).await;
        assert_eq!(socket.seen.iter().filter(|frame| ends(frame, &json!(1))).count(), 1);
        let told = socket.next().await;
        assert_eq!(told["error"]["code"], -32001, "{round}: {told}");
    }
}

#[tokio::test]
async fn what_is_no_stream_is_not_cancelled() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--model", &endless(&machine)]);
    let mut socket = served.socket("").await;
    for params in ["{}", "5", "null", r#"{"id":"never"}"#, r#"{"id":[1]}"#, r#"{"id":null}"#] {
        socket.send_raw("1", "stream/cancel", params).await;
        let told = socket.until(|frame| frame["id"] == 1).await;
        assert_eq!(told["error"]["code"], -32602, "{params}: {told}");
    }
    // Who waits for one answer gets it.
    let waiting = json!({ "message": text_message("go"), "configuration": { "blocking": true } });
    socket.send(11, "message/send", waiting).await;
    let task = socket.until(|frame| frame["params"]["event"]["kind"] == "task").await;
    socket.send(2, "stream/cancel", json!({ "id": 11 })).await;
    let told = socket.until(|frame| frame["id"] == 2).await;
    assert_eq!(told["error"]["code"], -32602, "{told}");
    socket.send(3, "tasks/cancel", json!({ "id": task["params"]["event"]["id"] })).await;
    let told = match socket.until(|frame| frame["id"] == 11 || frame["id"] == 3).await {
        first if first["id"] == 11 => first,
        _ => socket.until(|frame| frame["id"] == 11).await,
    };
    assert_eq!(told["result"]["status"]["state"], "canceled", "{told}");
}

#[tokio::test]
async fn a_stream_that_is_over_gives_up_its_place() {
    const STREAMS: u64 = 256;
    let machine = Machine::new();
    let waits = "[[rule]]\nsteps = [ { text = \"late\", delay = \"1000s\" } ]\n";
    let model = machine.script("waits.toml", waits);
    let served = Served::start(&machine, &["serve", "--port", "0", "--model", &model]);
    let task = served.call("message/send", json!({ "message": text_message("go") })).await;
    let task = json!({ "id": task["result"]["id"] });
    let mut socket = served.socket("").await;
    for id in 0..STREAMS {
        socket.send(id, "tasks/resubscribe", task.clone()).await;
        socket.until(|frame| frame["id"] == id && frame["result"]["kind"] == "task").await;
    }
    socket.seen.clear();
    socket.send(STREAMS, "tasks/resubscribe", task.clone()).await;
    let told = socket.until(|frame| frame["id"] == STREAMS).await;
    assert_eq!(told["error"]["data"]["reason"], "too-many-streams", "{told}");
    socket.until(|frame| ends(frame, &json!(STREAMS))).await;
    socket.seen.clear();
    served.call("tasks/cancel", task.clone()).await;
    for _ in 0..STREAMS {
        socket.until(|frame| frame["method"] == "stream/end").await;
    }
    // All of them are free now, for the very next requests.
    for id in 0..STREAMS {
        socket.feed(id, "tasks/get", task.clone()).await;
    }
    socket.stream.flush().await.unwrap();
    for _ in 0..STREAMS {
        let told = socket.next().await;
        assert_eq!(told["result"]["status"]["state"], "canceled", "{told}");
    }
}

/// Slow, but steady: neither how long an answer takes is counted nor that a ping behind it is not answered yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_an_answer_slowly_gets_all_of_it() {
    const BYTES: usize = 8 << 20;
    const PIECE: usize = 16 << 10;
    let machine = Machine::new();
    machine.configure(
        "[server]\nstall_seconds = 2\nidle_seconds = 2\n[limits]\ntext_bytes = 1_000_000_000\n\
         replies = 100_000\n",
    );
    let text = "x".repeat(32 << 10);
    let steps = format!("{{ repeat = {}, step = {{ text = \"{text}\" }} }}", BYTES / text.len());
    let model = machine.script("much.toml", &format!("[[rule]]\nsteps = [ {steps} ]\n"));
    let served = Served::start(&machine, &["serve", "--port", "0", "--model", &model]);
    let params = json!({ "message": text_message("go"), "configuration": { "blocking": true } });
    let task = served.call("message/send", params).await;
    let task = &task["result"]["id"];
    let taken = tokio::task::block_in_place(|| {
        let mut stream = raw_socket(&served);
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": task } });
        let body = body.to_string();
        let length = u8::try_from(body.len()).unwrap();
        assert!(length < 126);
        stream.write_all(&[0x81, 0x80 | length, 0, 0, 0, 0]).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let begun = Instant::now();
        let (mut taken, mut piece) = (0, vec![0; PIECE]);
        while taken < BYTES {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => taken += bytes,
            }
            // 1.6 MB a second.
            let due = Duration::from_micros(u64::try_from(taken).unwrap() * 10 / 16);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        println!("{taken} bytes in {:?}", begun.elapsed());
        taken
    });
    assert!(taken >= BYTES, "cut after {taken} bytes");
}
