//! Memory, threads and queues that one client must not exhaust, and a full disk, with the real
//! process.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::driver::Machine;
use crate::served::{Served, text_message};

/// Nearly the request limit of 10 MiB.
const LARGE: usize = 9 << 20;

const ANN: &str = "a-token-that-nobody-guesses-so-soon";
const BOB: &str = "another-token-that-nobody-guesses";

async fn send(served: &Served, message: Value) -> Value {
    let configuration = json!({ "blocking": false });
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": { "message": message, "configuration": configuration },
    });
    let request = served.post(&body).timeout(Duration::from_secs(60));
    request.send().await.unwrap().json().await.unwrap()
}

/// A message with a file of 9 MiB.
fn large_message(text: &str, context: Option<&Value>) -> Value {
    let mut message = text_message(text);
    let bytes = "QUFB".repeat(LARGE / 4);
    let file = json!({ "name": "a", "mimeType": "text/plain", "bytes": bytes });
    message["parts"] = json!([{ "kind": "text", "text": text }, { "kind": "file", "file": file }]);
    if let Some(context) = context {
        message["contextId"] = context.clone();
    }
    message
}

/// Sixty messages of 9 MiB wait behind a turn, six at a time: a client's memory is limited, it gets
/// an error, and the process stays small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_behind_a_turn_are_bounded_in_bytes() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let first = send(&served, text_message("wait 300s")).await;
    let context = first["result"]["contextId"].clone();
    assert!(context.is_string(), "{first}");
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..10 {
        let sending = (0..6).map(|_| send(&served, large_message("say ok", Some(&context))));
        for told in join_all(sending).await {
            match told["error"]["data"]["reason"].as_str() {
                None => taken += 1,
                Some("queue-full") => refused += 1,
                Some(_) => panic!("{told}"),
            }
        }
    }
    let (now, peak) = (served.resident() >> 10, served.peak() >> 10);
    println!("{taken} taken, {refused} refused; {now} MiB resident, {peak} MiB at most");
    assert!((1..=4).contains(&taken), "{taken} were taken");
    assert!(peak < 600, "{peak} MiB");
    assert!(served.is_well());
    // A small message still passes.
    let mut small = text_message("say small");
    small["contextId"] = context;
    let told = send(&served, small).await;
    assert!(told["result"]["id"].is_string(), "{told}");
}

/// More sessions do not allow more memory: each large message goes to another session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_share_the_bytes_of_their_principal() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let waiting = large_message("wait 300s", None);
    let (mut taken, mut refused) = (0, Value::Null);
    for _ in 0..12 {
        let told = send(&served, waiting.clone()).await;
        match told["error"]["data"]["reason"].as_str() {
            None => taken += 1,
            Some("queue-full") => refused = told,
            Some(_) => panic!("{told}"),
        }
    }
    assert!((6..=8).contains(&taken), "{taken} were taken");
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("the limit for one client"), "{refused}");
    let peak = served.peak() >> 10;
    println!("{taken} taken; {peak} MiB at most");
    assert!(peak < 700, "{peak} MiB");
}

/// Tasks of 9 MiB in one session, listed four times concurrently: a page ends when its byte limit
/// is reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_large_tasks_come_in_pages_of_bytes() {
    const TASKS: usize = 12;
    let machine = Machine::new();
    let mut served = Served::start(&machine, &["serve", "--port", "0"]);
    let mut context: Option<Value> = None;
    for _ in 0..TASKS {
        let message = large_message("say ok", context.as_ref());
        let params = json!({ "message": message, "configuration": { "blocking": true } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
        let request = served.post(&body).timeout(Duration::from_secs(60));
        let told: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(told["result"]["status"]["state"], "completed", "{}", told["error"]);
        context = Some(told["result"]["contextId"].clone());
    }
    let written = served.peak() >> 10;
    assert!(written < 700, "{written} MiB while they were sent one after the other");
    // Restarted, so that only the lists are measured.
    served.signal(nix::sys::signal::Signal::SIGTERM);
    served.ended(Duration::from_secs(20));
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let list = async |token: String| -> Value {
        let params = json!({ "pageSize": 50, "pageToken": token });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params });
        let request = served.post(&body).header("A2A-Version", "1.0");
        let request = request.timeout(Duration::from_secs(60));
        request.send().await.unwrap().json().await.unwrap()
    };
    let mut pages = join_all((0..4).map(|_| list(String::new()))).await;
    for page in &pages {
        assert_eq!(page["result"]["tasks"].as_array().map(Vec::len), Some(1), "{}", page["error"]);
        assert_eq!(page["result"]["totalSize"], TASKS);
    }
    let (mut seen, mut page) = (Vec::new(), pages.remove(0));
    for _ in 0..3 {
        seen.extend(
            page["result"]["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()),
        );
        page = list(page["result"]["nextPageToken"].as_str().unwrap().to_owned()).await;
    }
    assert_eq!(seen.len(), 3);
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "each page goes on behind the last");
    let peak = served.peak() >> 10;
    println!("{written} MiB while writing, {peak} MiB while listing");
    assert!(peak < 500, "{peak} MiB");
}

/// One client fills its share of the queue; another client and the terminal still have room.
#[tokio::test]
async fn one_client_does_not_fill_the_queue_of_all() {
    let machine = Machine::new();
    let tokens = machine.tokens(&format!("ann:{ANN}\nbob:{BOB}\n"));
    let served = Served::shared(&machine, &["--token-file", &tokens]);
    let send = async |token: &str, text: &str| {
        let params =
            json!({ "message": text_message(text), "configuration": { "blocking": false } });
        served.call_as(token, "/", "message/send", params).await
    };
    let first = send(ANN, "wait 300s").await;
    assert!(first["result"]["id"].is_string(), "{first}");
    let mut taken = 0;
    let refused = loop {
        let told = send(ANN, "say more").await;
        if told["result"]["id"].is_null() {
            break told;
        }
        taken += 1;
        assert!(taken <= 32, "there is no end");
    };
    assert_eq!(taken, 16, "{refused}");
    assert_eq!(refused["error"]["data"]["reason"], "queue-full", "{refused}");
    for _ in 0..8 {
        let told = send(BOB, "say mine").await;
        assert!(told["result"]["id"].is_string(), "{told}");
    }
}

/// A pattern that compiles slowly is refused, and other clients are not delayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_regular_expression_delays_no_other_client() {
    let machine = Machine::new();
    let pattern = r"\\pL".repeat(2_500);
    let glob = "{a,b}[a-z]?".repeat(20_000);
    let script = format!(
        "[[rule]]\nsteps = [ \
         {{ call = \"search_file_content\", input = {{ pattern = \"{pattern}\" }} }}, \
         {{ call = \"glob\", input = {{ pattern = \"{glob}\" }} }}, {{ text = \"end\" }} ]\n"
    );
    let model = machine.script("patterns.toml", &script);
    let served = Served::start(&machine, &["serve", "--port", "0", "--model", &model]);
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": { "message": text_message("go"), "configuration": { "blocking": true } },
    });
    let mut asked: Vec<_> = Vec::new();
    for _ in 0..4 {
        asked.push(tokio::spawn(served.post(&body).timeout(Duration::from_secs(120)).send()));
    }
    let mut longest = Duration::ZERO;
    while !asked.iter().all(tokio::task::JoinHandle::is_finished) {
        let begun = Instant::now();
        let answer = served.request("GET", "/healthz").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        longest = longest.max(begun.elapsed());
    }
    println!("the longest wait was {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    for asked in asked {
        let told: Value = asked.await.unwrap().unwrap().json().await.unwrap();
        assert_eq!(told["result"]["status"]["state"], "completed", "{told}");
    }
}

/// Compiling a pattern takes many times its size. However many sessions search at once, four compile, and a pattern that is
/// too long or compiles to too much is refused with a sentence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_at_once_are_bounded() {
    const SESSIONS: usize = 48;
    let machine = Machine::new();
    machine.write("a.txt", "needle\n");
    let heavy = r"\\pL".repeat(1_300);
    let long = "x".repeat(4_097);
    let script = format!(
        "[[rule]]\ncontains = \"heavy\"\nsteps = [ \
         {{ call = \"search_file_content\", input = {{ pattern = \"{heavy}\" }} }}, {{ text = \"end\" }} ]\n\
         [[rule]]\nsteps = [ \
         {{ call = \"search_file_content\", input = {{ pattern = \"{long}\" }} }}, \
         {{ call = \"search_file_content\", input = {{ pattern = \"nee.le\" }} }}, {{ text = \"end\" }} ]\n"
    );
    let model = machine.script("patterns.toml", &script);
    let served = Served::start(&machine, &["serve", "--port", "0", "--model", &model]);
    let ask = async |text: &str| -> Value {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "message/send",
            "params": { "message": text_message(text), "configuration": { "blocking": true } },
        });
        let request = served.post(&body).timeout(Duration::from_secs(240));
        request.send().await.unwrap().json().await.unwrap()
    };
    let one = ask("heavy").await;
    let alone = served.peak();
    for told in join_all((0..SESSIONS).map(|_| ask("heavy"))).await {
        assert_eq!(told["result"]["status"]["state"], "completed", "{told}");
    }
    let together = served.peak();
    println!("peak {alone} KiB with one search, {together} KiB with {SESSIONS}");
    assert!(together < alone + 512 * 1024, "{alone} {together} KiB");
    let told = ask("other").await;
    let log = |told: &Value| {
        let log = machine.log(told["result"]["contextId"].as_str().unwrap());
        serde_json::to_string(&log).unwrap()
    };
    assert!(log(&one).contains("too large") || log(&one).contains("size limit"), "{}", log(&one));
    assert!(log(&told).contains("is longer than 4096 bytes"), "{}", log(&told));
    assert!(log(&told).contains("needle"), "{}", log(&told));
}

/// A log line that cannot be written is dropped, and its request succeeds.
#[tokio::test]
async fn a_failed_log_write_breaks_no_request() {
    for redirection in ["2>&-", "2>/dev/full"] {
        let machine = Machine::new();
        let mut command = std::process::Command::new("sh");
        let line = format!("exec \"$0\" \"$@\" {redirection}");
        command.args(["-c", &line]).arg(Machine::program());
        command.args(["serve", "--port", "0", "--debug"]);
        let served = Served::spawn(machine.prepare(command));
        let params =
            json!({ "message": text_message("say a word"), "configuration": { "blocking": true } });
        let told = served.call("message/send", params).await;
        assert_eq!(told["result"]["status"]["state"], "completed", "{redirection}: {told}");
        assert!(served.is_well(), "{redirection}");
    }
    // The terminal was closed.
    let machine = Machine::new();
    let mut command = machine.command(&["run", "--output", "json", "say a word"]);
    let closed = std::fs::File::options().write(true).open("/dev/full").unwrap();
    assert!(closed.as_raw_fd() > 2);
    command.stderr(closed);
    let ran = command.output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
}

/// Number of clients that do not read or finish.
const CLIENTS: usize = 24;

/// A restarted server with one task of 9 MiB in its log, the task and its session.
async fn with_a_large_task(machine: &Machine) -> (Served, String, String) {
    let mut served = Served::start(machine, &["serve", "--port", "0"]);
    let message = large_message("say ok", None);
    let params = json!({ "message": message, "configuration": { "blocking": true } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
    let request = served.post(&body).timeout(Duration::from_secs(60));
    let told: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(told["result"]["status"]["state"], "completed", "{}", told["error"]);
    let name = |field: &str| told["result"][field].as_str().unwrap().to_owned();
    served.signal(nix::sys::signal::Signal::SIGTERM);
    served.ended(Duration::from_secs(20));
    (Served::start(machine, &["serve", "--port", "0"]), name("id"), name("contextId"))
}

/// Sends something on a connection with a small receive buffer.
async fn narrow(served: &Served, sent: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = served.connect().peer_addr().unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(sent.replace("HOST", &address.to_string()).as_bytes()).await.unwrap();
    stream
}

/// The same as a WebSocket.
async fn narrow_socket(served: &Served, query: &str, more: &str) -> TcpStream {
    let head = format!(
        "GET /ws{query} HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    );
    let mut stream = narrow(served, &head).await;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream
}

/// Reads the small text frames of a WebSocket up to the first large one (None), or until it or the
/// followed session ends.
async fn until_large(stream: &mut TcpStream) -> Option<String> {
    loop {
        let (kind, short) = (stream.read_u8().await.unwrap(), stream.read_u8().await.unwrap());
        let length = match short {
            126 => stream.read_u16().await.unwrap().into(),
            127 => stream.read_u64().await.unwrap(),
            short => short.into(),
        };
        if kind & 0x80 == 0 || length > 60_000 {
            return None;
        }
        let mut text = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut text).await.unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        if kind & 0x0f == 8 || text.contains("\"session/end\"") {
            return Some(text);
        }
    }
}

/// A reply counts until its client has read it: a slow reader delays others of the same principal,
/// but does not use more memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_replies_are_counted() {
    let machine = Machine::new();
    let (served, task, _) = with_a_large_task(&machine).await;
    let get = format!("GET /tasks/{task} HTTP/1.1\r\nHost: HOST\r\nA2A-Version: 1.0\r\n\r\n");
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": task } });
    let call = call.to_string();
    let post = format!(
        "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{call}",
        call.len()
    );
    let asked =
        (0..CLIENTS).map(|index| narrow(&served, if index % 2 == 0 { &get } else { &post }));
    let mut streams = join_all(asked).await;
    let answers = join_all(streams.iter_mut().map(async |stream| {
        let mut answer = [0; 1024];
        let length = stream.peek(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }));
    let answers = tokio::time::timeout(Duration::from_secs(25), answers).await.unwrap();
    let refused = answers.iter().filter(|answer| answer.to_lowercase().contains("busy")).count();
    let peak = served.peak() >> 10;
    println!("{refused} of {CLIENTS} refused; {peak} MiB at most");
    assert!(refused >= CLIENTS - 2, "{refused} were refused");
    assert!(peak < 300, "{peak} MiB");
    assert!(served.is_well());
    // After they disconnect, there is room again.
    drop(streams);
    let told = served.call("tasks/get", json!({ "id": task })).await;
    assert_eq!(told["result"]["id"], task, "{}", told["error"]);
}

/// The same for WebSocket followers of both protocols.
async fn frames_are_counted(more: &str, busy: &str) {
    let machine = Machine::new();
    let (served, _, session) = with_a_large_task(&machine).await;
    let query = format!("?session={session}&after=0");
    let mut streams = join_all((0..CLIENTS).map(|_| narrow_socket(&served, &query, more))).await;
    let seen = join_all(streams.iter_mut().map(until_large));
    let seen = tokio::time::timeout(Duration::from_secs(25), seen).await.unwrap();
    let refused: Vec<_> = seen.into_iter().flatten().collect();
    let peak = served.peak() >> 10;
    println!("{} of {CLIENTS} refused; {peak} MiB at most", refused.len());
    assert!(refused.len() >= CLIENTS - 2, "{refused:?}");
    assert!(refused.iter().all(|refused| refused.contains(busy)), "{refused:?}");
    assert!(peak < 300, "{peak} MiB");
    assert!(served.is_well());
    // After they disconnect, a reader gets everything.
    drop(streams);
    let mut reader = served.socket(&query).await;
    let whole = reader.until(|frame| frame["params"]["event"]["history"].is_array()).await;
    assert!(whole.to_string().len() > LARGE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_frames_are_counted() {
    frames_are_counted("", "\"busy\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_events_are_counted() {
    frames_are_counted("Sec-WebSocket-Protocol: loggia\r\n", "reconnect with `after`").await;
}

/// Unfinished messages count like request bodies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_messages_are_counted() {
    const ANNOUNCED: u64 = 9 << 20;
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let content = vec![b' '; 1 << 20];
    let sending = (0..CLIENTS).map(async |_| {
        let mut stream = narrow_socket(&served, "", "").await;
        let head = [&[0x81, 0xff][..], &ANNOUNCED.to_be_bytes(), &[0; 4]].concat();
        stream.write_all(&head).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        // The last bytes are not sent; a refused client cannot send as much.
        let writing = async {
            for piece in 0..9 {
                let length = if piece < 8 { content.len() } else { content.len() - 10 };
                if writing.write_all(&content[..length]).await.is_err() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        let closed = async {
            let mut head = [0; 2];
            // The server pings it.
            while head[0] & 0x0f != 8 {
                reading.read_exact(&mut head).await.unwrap();
            }
            let mut reason = vec![0; head[1].into()];
            reading.read_exact(&mut reason).await.unwrap();
            assert_eq!(u16::from_be_bytes([reason[0], reason[1]]), 1013);
            String::from_utf8_lossy(&reason[2..]).into_owned()
        };
        let told = async {
            let mut closed = std::pin::pin!(closed);
            tokio::select! { told = &mut closed => told, () = writing => closed.await }
        };
        tokio::time::timeout(Duration::from_secs(13), told).await.ok()
    });
    let refused: Vec<_> = join_all(sending).await.into_iter().flatten().collect();
    let peak = served.peak() >> 10;
    println!("{} of {CLIENTS} refused; {peak} MiB at most", refused.len());
    assert!(refused.len() >= CLIENTS - 2, "{refused:?}");
    assert!(refused.iter().all(|refused| refused.contains("try again later")), "{refused:?}");
    assert!(peak < 200, "{peak} MiB");
    assert!(served.is_well());
}

/// A socket releases the buffer of a large message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_keeps_nothing_of_a_large_message() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let mut sockets = Vec::new();
    for id in 0..16 {
        let mut socket = served.socket("").await;
        socket.send(id, "tasks/get", json!({ "id": "none", "more": " ".repeat(LARGE) })).await;
        let told = socket.until(|frame| frame["id"] == id).await;
        assert!(told["error"].is_object(), "{told}");
        sockets.push(socket);
    }
    let now = served.resident() >> 10;
    println!("{now} MiB resident");
    assert!(now < 120, "{now} MiB");
}
