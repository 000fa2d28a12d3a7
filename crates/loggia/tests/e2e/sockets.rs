//! `/ws` as a connection: closing, end and cancellation of streams, timeouts. Tests
//! docs/protocols/websocket.md sentence by sentence.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::authority::Authority;
use crate::driver::Machine;
use crate::floods::raw_socket;
use crate::served::{Served, Socket, text_message};

/// A model that thinks during the whole test.
const ENDLESS: &str = "[[rule]]\nsteps = [ { repeat = 100_000, step = { thought = \"x\", subject = \"s\", \
                       delay = \"2ms\" } } ]\n";

fn endless(machine: &Machine) -> String {
    machine.configure("[limits]\nreplies = 200_000\n");
    machine.script("endless.toml", ENDLESS)
}

impl Socket {
    /// A request with a raw id.
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
    let model = endless(&machine);
    let arguments = ["--a2a-port", "0", "--model", &model];
    let authority = Authority::new(&machine);
    for served in
        [Served::start(&machine, &arguments), Served::encrypted(&machine, &authority, &arguments)]
    {
        served.call("message/send", json!({ "message": text_message("go") })).await;
        let attached = ("Sec-WebSocket-Protocol", "loggia".to_owned());
        // A following, an attached, and an immediately closed socket.
        for (headers, first) in [(None, true), (Some(attached), true), (None, false)] {
            let mut socket = served.upgrade("?after=0", headers).await.unwrap();
            if first {
                socket.next().await;
            }
            let frame = CloseFrame { code: CloseCode::Library(4321), reason: "bye".into() };
            socket.stream.close(Some(frame)).await.unwrap();
            assert_eq!(socket.end().await, Some(CloseCode::Library(4321)));
            let more = socket.stream.next().await;
            assert!(!matches!(more, Some(Ok(_))), "nothing after it: {more:?}");
        }
    }
}

/// An unreadable frame closes the socket with a reason, in every protocol.
#[tokio::test]
async fn an_unreadable_frame_closes_the_socket_with_a_reason() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let announced = [&[0x81, 0xff][..], &(11u64 << 20).to_be_bytes(), &[0; 4]].concat();
    let table = [
        (announced.as_slice(), CloseCode::Size),
        (&[0xff, 0x80, 0, 0, 0, 0], CloseCode::Protocol),
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff], CloseCode::Invalid),
    ];
    for (bytes, code) in table {
        for protocol in [None, Some(("Sec-WebSocket-Protocol", "loggia".to_owned()))] {
            let mut socket = served.upgrade("", protocol.clone()).await.unwrap();
            socket.stream.get_mut().write_all(bytes).await.unwrap();
            assert_eq!(socket.end().await, Some(code), "{protocol:?}");
        }
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
    // Another version.
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
    // The spelling of an id does not matter.
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
        // In use, also with another spelling.
        socket.send_raw(other, "ListTasks", "{}").await;
        let answers =
            |frame: &Value| frame["error"].is_object() || frame["result"]["totalSize"].is_number();
        let told = socket.until(answers).await;
        assert_eq!(told["error"]["code"], -32600, "{id} {other}: {told}");
        socket.seen.clear();
        socket.send_raw("\"c\"", "stream/cancel", &format!("{{\"id\":{other}}}")).await;
        let told = socket.until(|frame| frame["id"] == "c").await;
        assert_eq!(told["result"], json!({}), "{id} {other}: {told}");
        let before = socket.seen.len().checked_sub(2).expect("the end came first");
        assert!(ends(&socket.seen[before], &value), "{id} {other}: {:#?}", socket.seen);
        // Now it is free, and no frame of the stream uses it; the task continues.
        let get = json!({ "id": task["result"]["id"] }).to_string();
        socket.send_raw(other, "tasks/get", &get).await;
        let told = socket.next().await;
        assert_eq!(told["result"]["status"]["state"], "working", "{id} {other}: {told}");
    }
}

/// Also if the stream is just about to send a frame.
#[tokio::test]
async fn nothing_of_a_stream_comes_after_its_cancel() {
    let machine = Machine::new();
    let busy =
        "[[rule]]\nsteps = [ { repeat = 300, step = { thought = \"x\", subject = \"s\" } } ]\n";
    let model = machine.script("busy.toml", busy);
    let served = Served::start(&machine, &["serve", "--port", "0", "--model", &model]);
    let mut socket = served.socket("").await;
    for round in 0..1_000 {
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
async fn only_streams_can_be_cancelled() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--model", &endless(&machine)]);
    let mut socket = served.socket("").await;
    for params in ["{}", "5", "null", r#"{"id":"never"}"#, r#"{"id":[1]}"#, r#"{"id":null}"#] {
        socket.send_raw("1", "stream/cancel", params).await;
        let told = socket.until(|frame| frame["id"] == 1).await;
        assert_eq!(told["error"]["code"], -32602, "{params}: {told}");
    }
    // A blocking request is not cancelled and gets its reply.
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
    // All of them are free for the next requests.
    for id in 0..STREAMS {
        socket.feed(id, "tasks/get", task.clone()).await;
    }
    socket.stream.flush().await.unwrap();
    for _ in 0..STREAMS {
        let told = socket.next().await;
        assert_eq!(told["result"]["status"]["state"], "canceled", "{told}");
    }
}

/// A slow but steady reader has no time limit, and an unanswered ping behind a long reply does not
/// disconnect it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_the_whole_reply() {
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
        write_frame(&mut stream, 0x81, body.as_bytes());
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

/// A raw frame. Client frames are masked, here with zeros.
fn write_frame(stream: &mut TcpStream, kind: u8, content: &[u8]) {
    let length = 0x80 | u8::try_from(content.len()).unwrap();
    assert!(content.len() < 126);
    stream.write_all(&[&[kind, length, 0, 0, 0, 0], content].concat()).unwrap();
}

fn read_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut length = usize::from(head[1]);
    if length == 126 {
        let mut long = [0; 2];
        stream.read_exact(&mut long).unwrap();
        length = u16::from_be_bytes(long).into();
    }
    let mut content = vec![0; length];
    stream.read_exact(&mut content).unwrap();
    (head[0], content)
}

/// A message has a timeout, regardless of other frames.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_does_not_end_is_not_waited_for() {
    const FIRST: u8 = 0x01;
    const MORE: u8 = 0x00;
    const LAST: u8 = 0x80;
    const TEXT: u8 = 0x81;
    const CLOSE: u8 = 0x88;
    const PING: u8 = 0x89;
    const PONG: u8 = 0x8a;
    let machine = Machine::new();
    machine.configure("[server]\nidle_seconds = 2\n");
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    tokio::task::block_in_place(|| {
        let mut stream = raw_socket(&served);
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}"#;
        // A complete message is answered, whatever its fragments and the frames between them.
        for piece in 0..3 {
            let (head, tail) = body.split_at(10 + piece);
            write_frame(&mut stream, FIRST, head);
            write_frame(&mut stream, PONG, b"");
            write_frame(&mut stream, MORE, b"");
            write_frame(&mut stream, LAST, tail);
            let answer = loop {
                match read_frame(&mut stream) {
                    (TEXT, answer) => break String::from_utf8(answer).unwrap(),
                    (PING, content) => write_frame(&mut stream, PONG, &content),
                    other => panic!("{other:?}"),
                }
            };
            assert!(answer.contains("totalSize"), "{answer}");
        }
        let begun = Instant::now();
        write_frame(&mut stream, FIRST, body);
        loop {
            match read_frame(&mut stream) {
                // It answers pings but never finishes.
                (PING, content) => {
                    write_frame(&mut stream, PONG, &content);
                    write_frame(&mut stream, MORE, b"");
                }
                (CLOSE, content) => {
                    assert_eq!(u16::from_be_bytes([content[0], content[1]]), 1008);
                    break;
                }
                other => panic!("{other:?}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "it is still waited for");
        }
        println!("closed after {:?}", begun.elapsed());
    });
}
