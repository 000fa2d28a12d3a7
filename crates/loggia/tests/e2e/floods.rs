//! Floods and slow clients: A38 on the WebSocket, A39, A40, A41 against the real server.
//! `loggia-server/tests/connections` tests each limit with shorter timeouts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::bindings::{Grpc, V1, V03};
use crate::driver::Machine;
use crate::served::{Served, text_message};

/// A38: every malformed frame gets an error, and the socket stays open.
#[tokio::test]
async fn malformed_frames_get_the_right_error() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut socket = served.socket("").await;
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let table = [
        ("{", -32700),
        ("", -32700),
        (deep.as_str(), -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"tasks/get"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"tasks/get"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":5}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session/follow","params":{}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"stream/cancel","params":{"id":99}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session/follow","params":[1]}"#, -32602),
    ];
    for (text, code) in table {
        socket.stream.send(Message::text(text)).await.unwrap();
        let answer = socket.until(|_| true).await;
        let shown: String = text.chars().take(60).collect();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(!message.contains('/') && !message.contains(".rs"), "{message}");
    }
    socket.stream.send(Message::binary(vec![0xff; 64])).await.unwrap();
    let answer = socket.until(|_| true).await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    socket.send(5, "session/unfollow", json!({})).await;
    assert!(socket.until(|value| value["id"] == 5).await["result"].is_object());
    socket.send(6, "ListTasks", json!({})).await;
    let alive = socket.until(|value| value["id"] == 6).await;
    assert_eq!(alive["result"]["totalSize"], 0, "{alive}");
}

/// A stream refused by a limit has no effect: no prompt is accepted and no approval given, on any
/// transport.
#[tokio::test]
async fn a_stream_that_is_refused_has_done_nothing() {
    let machine = Machine::new();
    let mut command = machine.command(&["serve", "--port", "0"]);
    command.env("LOGGIA_SERVER_STREAMS", "1");
    let served = Served::spawn(command);
    let message = |text: &str, task: &Value| {
        let mut message =
            json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": text }] });
        if task.is_string() {
            message["taskId"] = task.clone();
        }
        json!({ "message": message })
    };
    let asking = served.call("SendMessage", message("write a.txt: hi", &Value::Null)).await;
    let task = asking["result"]["task"]["id"].clone();
    assert_eq!(
        asking["result"]["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED",
        "{asking}"
    );
    let _only_place = served.socket("").await;

    let mut grpc = Grpc::connect(served.port).await;
    for (text, task) in [("say more", &Value::Null), ("yes", &task)] {
        let newer = message(text, task);
        let mut proto = newer["message"].clone();
        proto["content"] = proto.as_object_mut().and_then(|proto| proto.remove("parts")).unwrap();
        let mut older = json!({ "message": text_message(text) });
        let mut sdlc = json!({ "userMessage": text });
        if task.is_string() {
            older["message"]["taskId"] = task.clone();
            sdlc["taskId"] = task.clone();
        }
        let words = json!({ "role": "user", "parts": [{ "type": "text", "text": text }] });
        let service = json!({ "id": "own", "message": words });
        let rpc = |method: &str, params: &Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        for (path, body) in [
            ("/", rpc("SendStreamingMessage", &newer)),
            ("/", rpc("message/stream", &older)),
            ("/", rpc("tasks/sendSubscribe", &service)),
            ("/message:stream", newer.clone()),
            ("/v1/message:stream", json!({ "message": proto })),
            ("/message/stream", sdlc),
        ] {
            let answered = served.request("POST", path).json(&body).send().await.unwrap();
            let answered = answered.text().await.unwrap();
            assert!(answered.contains("Too many streams are open"), "{path}: {body}: {answered}");
        }
        for (of, params) in [(V1, newer), (V03, json!({ "request": proto }))] {
            let answered = grpc.call_with(of, "SendStreamingMessage", params, &[]).await;
            assert_eq!(answered.code, 14, "{of}: {:?}", answered.headers);
        }
    }
    let listed = served.call("ListTasks", json!({})).await;
    assert_eq!(listed["result"]["totalSize"], 1, "nothing began: {listed}");
    let state = &listed["result"]["tasks"][0]["status"]["state"];
    assert_eq!(*state, "TASK_STATE_INPUT_REQUIRED", "nobody answered: {listed}");
    assert_eq!(machine.read("a.txt"), None);
}

/// Sends raw bytes; returns the response however the connection ends.
fn raw(served: &Served, headers: &str, chunks: impl IntoIterator<Item = Vec<u8>>) -> String {
    let mut stream = served.connect();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
         Connection: close\r\n{headers}\r\n",
        served.port
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server may close during the send; its response is still readable.
    let _ = chunks.into_iter().try_for_each(|chunk| stream.write_all(&chunk));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn json_body(served: &Served, body: String) -> String {
    raw(served, &format!("Content-Length: {}\r\n", body.len()), [body.into_bytes()])
}

/// A39: bombs are quickly refused by size or shape, and leave no memory behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn size_and_depth_bombs_are_refused_and_leave_nothing() {
    const BODY: usize = 10 << 20;
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let call = |params: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/get\",\"params\":{params}}}")
    };
    let deep = |open: &str, close: &str, depth: usize| {
        call(&format!("{}1{}", open.repeat(depth), close.repeat(depth)))
    };
    let one = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#;
    let batch = format!("[{}]", vec![one; 10_000].join(","));
    let keys: Vec<String> = (0..500_000).map(|number| format!("\"{number}\":1")).collect();
    let keys = call(&format!("{{{}}}", keys.join(",")));
    let long_id = call(&format!("{{\"id\":\"{}\"}}", "x".repeat(1 << 20)));
    let long_number =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}}", "9".repeat(1 << 20));
    let bodies = [
        (deep("[", "]", 5_000), "-32700"),
        (deep("[", "]", 100_000), "-32700"),
        (deep("{\"a\":", "}", 5_000), "-32700"),
        (deep("{\"a\":", "}", 100_000), "-32700"),
        (keys, "-32700"),
        (batch, "-32600"),
        (long_id, "-32602"),
        (long_number, "-32"),
        (call(&format!("\"{}\"", "x".repeat(BODY - 200))), "-32602"),
    ];
    // The allocator keeps memory for each thread that handled a bomb. Once all threads have, a
    // round must not grow. The threads cannot be chosen, so there are more rounds than threads; a
    // leak would grow in each round.
    let threads = std::thread::available_parallelism().unwrap().get();
    let mut grown = u64::MAX;
    for _ in 0..4 * threads + 4 {
        let before = served.resident();
        for (body, code) in bodies.clone() {
            let shown: String = body.chars().take(80).collect();
            let begun = Instant::now();
            let answer = tokio::task::block_in_place(|| json_body(&served, body));
            assert!(answer.contains(code) && answer.len() < 4096, "{shown}: {answer}");
            println!("{:?} for {shown}", begun.elapsed());
        }
        for (headers, chunks) in [
            (format!("Content-Length: {}\r\n", BODY + 1), 0),
            ("Content-Length: 9000000000000000000\r\n".to_owned(), 0),
            (format!("Content-Length: {}\r\n", 64 << 20), 64),
            ("Transfer-Encoding: chunked\r\n".to_owned(), 64),
        ] {
            let counted = headers.starts_with("Content");
            let chunk = |_| match counted {
                true => vec![b'x'; 1 << 20],
                false => [b"100000\r\n", vec![b'x'; 1 << 20].as_slice(), b"\r\n"].concat(),
            };
            let answer =
                tokio::task::block_in_place(|| raw(&served, &headers, (0..chunks).map(chunk)));
            assert!(answer.starts_with("HTTP/1.1 413"), "{headers}: {answer}");
        }
        let zipped = raw(&served, "Content-Encoding: gzip\r\nContent-Length: 4\r\n", [vec![0; 4]]);
        assert!(zipped.starts_with("HTTP/1.1 415"), "{zipped}");
        grown = served.resident().saturating_sub(before);
        println!("the server grew by {grown} KiB");
        // Less than one body of the largest size.
        if grown < 8 << 10 {
            break;
        }
    }
    assert!(grown < 8 << 10, "{grown} KiB more with every round");
    assert!(served.is_well());
}

/// A40: an incomplete head has a short timeout and delays no other client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_heads_and_silent_sockets_are_let_go() {
    let machine = Machine::new();
    machine.configure("[server]\nidle_seconds = 5\n");
    let served = Served::shared(&machine, &[]);
    let begun = Instant::now();
    let slow: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nX-Slow: ").unwrap();
            stream
        })
        .collect();
    // Two sockets: one whose client answers pings, as every reader does, and a dead one.
    let mut alive = served.socket("").await;
    let mut dead = served.socket("").await;
    let times = (0..20).map(|_| {
        let begun = Instant::now();
        assert!(served.is_well());
        begun.elapsed()
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    println!("with 500 slow heads: median {:?}, worst {:?}", times[10], times[19]);
    assert!(times[10] < Duration::from_secs(1), "{times:?}");
    let reading = tokio::spawn(async move {
        // It stays open while it reads.
        let cut = tokio::time::timeout(Duration::from_secs(9), alive.stream.next());
        let mut message = cut.await;
        while let Ok(Some(Ok(Message::Ping(_)))) = message {
            let rest = Duration::from_secs(9).saturating_sub(begun.elapsed());
            message = tokio::time::timeout(rest, alive.stream.next()).await;
        }
        (message.is_err(), alive)
    });
    let closed = tokio::task::block_in_place(|| {
        let closed = slow.into_iter().map(|mut stream| {
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            begun.elapsed()
        });
        closed.max().unwrap()
    });
    println!("the last of 500 slow heads was closed after {closed:?}");
    assert!(closed >= Duration::from_secs(9) && closed < Duration::from_secs(20), "{closed:?}");
    let (open, mut alive) = reading.await.unwrap();
    assert!(open, "who answers pings stays");
    alive.send(1, "ListTasks", json!({})).await;
    alive.until(|value| value["id"] == 1).await;
    // It did not answer the ping, so it finds the connection closed.
    while let Some(Ok(message)) = dead.stream.next().await {
        assert!(matches!(message, Message::Ping(_) | Message::Close(_)), "{message:?}");
    }
}

/// A41: endless fragments, oversized messages, thousands of pings and requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_on_a_socket_end_that_socket_at_most() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut watch = served.socket("").await;
    let before = served.resident();

    // An oversized frame header, an invalid frame, and an endless message.
    let announced = [&[0x81, 0xff][..], &(11u64 << 20).to_be_bytes(), &[0; 4]].concat();
    assert_eq!(closed(raw_socket(&served), &announced), 1009);
    assert_eq!(closed(raw_socket(&served), &[0xff, 0x80, 0, 0, 0, 0]), 1002);
    assert_eq!(closed(raw_socket(&served), &[0x81, 0x81, 0, 0, 0, 0, 0xff]), 1007);
    let ended = tokio::task::block_in_place(|| fragments(raw_socket(&served)));
    assert!(ended, "a message without end is not taken for ever");

    let mut pings = served.socket("").await;
    for number in 0..20_000u32 {
        pings.stream.feed(Message::Ping(number.to_be_bytes().to_vec().into())).await.unwrap();
    }
    pings.send(1, "ListTasks", json!({})).await;
    pings.until(|value| value["id"] == 1).await;

    let session = machine.sessions().remove(0);
    let mut busy = served.socket("").await;
    for number in 0..5_000 {
        let context = json!({ "contextId": session });
        busy.feed(2 * number, "session/follow", context.clone()).await;
        busy.feed(2 * number + 1, "session/unfollow", context).await;
    }
    let last = json!({ "contextId": session });
    busy.send(10_000, "session/follow", last).await;
    busy.until(|value| value["id"] == 10_000).await;

    watch.send(1, "message/stream", json!({ "message": text_message("say still here") })).await;
    let over = |value: &Value| value["params"]["event"]["status"]["state"] == "completed";
    watch.until(over).await;
    busy.until(over).await;
    let grown = served.resident().saturating_sub(before);
    println!("the server grew by {grown} KiB");
    assert!(grown < 48 << 10, "{grown} KiB");
}

/// A socket for bytes that no library would send.
pub fn raw_socket(served: &Served) -> TcpStream {
    let mut stream = served.connect();
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        served.port
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    stream
}

/// The close code after these bytes.
fn closed(mut stream: TcpStream, bytes: &[u8]) -> u16 {
    stream.write_all(bytes).unwrap();
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; head[1].into()];
        stream.read_exact(&mut payload).unwrap();
        if head[0] == 0x88 {
            return u16::from_be_bytes([payload[0], payload[1]]);
        }
    }
}

/// Sends one message in fragments of one byte; true if the server ended it.
fn fragments(mut stream: TcpStream) -> bool {
    // An unfinished text frame, then continuations; masked with zeros.
    stream.write_all(&[0x01, 0x81, 0, 0, 0, 0, b'x']).unwrap();
    let piece: Vec<u8> = [0x00, 0x81, 0, 0, 0, 0, b'x'].repeat(10_000);
    let begun = Instant::now();
    for _ in 0..1_100 {
        if stream.write_all(&piece).is_err() {
            return true;
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    // The socket buffers took everything; then the connection is closed, or reset because of unread
    // data.
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
