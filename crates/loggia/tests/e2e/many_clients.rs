//! Many clients on one session: R10, a hundred concurrent answers, and R11, two thousand readers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use loggia_core::{Envelope, Event};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio_tungstenite::tungstenite::Message;

use crate::driver::Machine;
use crate::served::{EXTENSION, Served, Socket, confirmation, text_message};
use crate::split_frames::{next_event, next_frame};

const ROUNDS: usize = 1_000;
const SOCKETS: usize = 60;
const STREAMS_03: usize = 20;
const STREAMS_1: usize = 20;

/// The results of one client's answers.
#[derive(Default)]
struct Told {
    won: Vec<usize>,
    lost: usize,
}

impl Told {
    /// A winner gets the task, a loser learns who answered what and when.
    fn hear(&mut self, round: usize, answer: &Value) {
        if answer["result"].is_object() {
            return self.won.push(round);
        }
        let why = &answer["error"]["data"];
        // A 1.0 error carries its details at the end of a list.
        let why = why.as_array().map_or(why, |list| list.last().unwrap());
        let why =
            if why["reason"].is_string() && why["by"].is_string() { why } else { &why["metadata"] };
        assert!(why["by"].as_str().is_some_and(|by| by.starts_with("A2A:")), "{answer}");
        assert_eq!(why["choice"], "proceed_once", "{answer}");
        assert!(why["at"].is_string(), "{answer}");
        self.lost += 1;
    }
}

/// Non-blocking and without history.
fn short() -> Value {
    json!({ "returnImmediately": true, "historyLength": 0 })
}

/// A question in any dialect: task and call.
fn question(frame: &Value) -> Option<(Value, Value)> {
    let update = if frame["statusUpdate"].is_object() { &frame["statusUpdate"] } else { frame };
    let state = update["status"]["state"].as_str()?;
    if !["input-required", "TASK_STATE_INPUT_REQUIRED"].contains(&state) {
        return None;
    }
    let call = update["status"]["message"]["parts"][0]["data"]["tool_call_id"].clone();
    Some((update["taskId"].clone(), call))
}

/// Answers each question on the socket that showed it.
async fn answers_by_socket(mut socket: Socket, barrier: Arc<Barrier>) -> Told {
    let (mut told, mut round, mut answered) = (Told::default(), 0, 0);
    while answered < ROUNDS {
        let message = socket.stream.next().await.unwrap().unwrap();
        let Message::Text(text) = message else { continue };
        if text.contains("\"input-required\"") && text.contains("session/event") {
            let value: Value = serde_json::from_str(&text).unwrap();
            let Some((task, call)) = question(&value["params"]["event"]) else { continue };
            barrier.wait().await;
            // The winner gets the task, without the history of a thousand rounds.
            let answer = json!({ "message": confirmation(&task, &call, "proceed_once"), "configuration": short() });
            socket.send(round as u64, "message/send", answer).await;
            round += 1;
        } else if !text.contains("\"method\":\"session/event\"") {
            let value: Value = serde_json::from_str(&text).unwrap();
            told.hear(usize::try_from(value["id"].as_u64().unwrap()).unwrap(), &value);
            answered += 1;
        }
    }
    told
}

/// Reads an SSE stream and answers each question with a separate request.
async fn answers_by_request(
    url: String,
    subscribe: Value,
    answer: impl Fn(&Value, &Value) -> Value,
    barrier: Arc<Barrier>,
) -> Told {
    let client = reqwest::Client::builder().http1_only().build().unwrap();
    let post = |body: &Value| client.post(&url).json(body).header("X-A2A-Extensions", EXTENSION);
    let stream =
        post(&subscribe).header("A2A-Extensions", EXTENSION).header("Last-Event-ID", "0.0");
    let mut stream = stream.send().await.unwrap().bytes_stream();
    let (mut told, mut round, mut text) = (Told::default(), 0, String::new());
    while round < ROUNDS {
        let chunk = stream.next().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let data = event.lines().find_map(|line| line.strip_prefix("data: "));
            let asks = |data: &&str| {
                data.contains("\"input-required\"") || data.contains("_INPUT_REQUIRED\"")
            };
            let frame = data.filter(asks).map(|data| serde_json::from_str::<Value>(data).unwrap());
            text = rest.to_owned();
            let Some((task, call)) = frame.and_then(|frame| question(&frame["result"])) else {
                continue;
            };
            barrier.wait().await;
            let request = post(&answer(&task, &call)).header("A2A-Extensions", EXTENSION);
            let answer: Value = request.send().await.unwrap().json().await.unwrap();
            told.hear(round, &answer);
            round += 1;
        }
    }
    told
}

/// R10 and P2: a hundred clients on two transports and in two dialects answer at once, a thousand
/// times. One wins, and ninety-nine are told who.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_answers_one_wins_a_thousand_times() {
    let machine = Machine::new();
    machine.configure("[limits]\nreplies = 2_000\n");
    // Different contents each time, because an unchanged file asks no question.
    let write = |round: usize| {
        format!(
            "{{ call = \"write_file\", input = {{ path = \"x.txt\", content = \"{round}\" }} }}"
        )
    };
    let writes: Vec<String> = (0..ROUNDS).map(write).collect();
    let script = format!("[[rule]]\nsteps = [ {} ]\n", writes.join(", "));
    let model = machine.script("ask.toml", &script);
    let served = Served::shared(&machine, &["--model", &model]);
    let barrier = Arc::new(Barrier::new(SOCKETS + STREAMS_03 + STREAMS_1));
    let task = served.call("message/send", json!({ "message": text_message("go") })).await;
    let task = task["result"]["id"].clone();
    let begun = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..SOCKETS {
        let socket = served.socket(&format!("?after=0&name=socket-{number}")).await;
        clients.spawn(answers_by_socket(socket, barrier.clone()));
    }
    for _ in 0..STREAMS_03 {
        let subscribe = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
        let answer = |task: &Value, call: &Value| {
            let message = confirmation(task, call, "proceed_once");
            json!({ "jsonrpc": "2.0", "id": 2, "method": "message/send", "params": { "message": message, "configuration": short() } })
        };
        clients.spawn(answers_by_request(served.url(), subscribe, answer, barrier.clone()));
    }
    for _ in 0..STREAMS_1 {
        let subscribe = json!({ "jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": { "id": task } });
        let answer = |task: &Value, call: &Value| {
            let part =
                json!({ "data": { "tool_call_id": call, "selected_option_id": "proceed_once" } });
            let message =
                json!({ "role": "ROLE_USER", "messageId": "m", "taskId": task, "parts": [part] });
            let params = json!({ "message": message, "configuration": short() });
            json!({ "jsonrpc": "2.0", "id": 2, "method": "SendMessage", "params": params })
        };
        clients.spawn(answers_by_request(served.url(), subscribe, answer, barrier.clone()));
    }
    let told = clients.join_all().await;
    println!("{ROUNDS} rounds of {} clients took {:?}", told.len(), begun.elapsed());
    let mut won: Vec<usize> = told.iter().flat_map(|told| told.won.iter().copied()).collect();
    won.sort_unstable();
    assert!(won.into_iter().eq(0..ROUNDS), "exactly one winner a round");
    let lost: usize = told.iter().map(|told| told.lost).sum();
    assert_eq!(lost, ROUNDS * (told.len() - 1), "everybody else was told");
    let winners = told.iter().filter(|told| !told.won.is_empty()).count();
    println!("{winners} of {} clients won at least once", told.len());
    let log = machine.log(&machine.sessions()[0]);
    let count = |wanted: fn(&Event) -> bool| log.iter().filter(|e| wanted(&e.event)).count();
    assert_eq!(count(|event| matches!(event, Event::ApprovalAnswered { .. })), ROUNDS);
    assert_eq!(count(|event| matches!(event, Event::CallStarted { .. })), ROUNDS);
}

const READERS: usize = 1_000;
const EVENTS: usize = 200;

/// A summary of a stream: number of frames and words, and a hash over all bytes in order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    frames: usize,
    words: usize,
    sum: u64,
}

impl Seen {
    const NOTHING: Self = Self { frames: 0, words: 0, sum: 0xcbf2_9ce4_8422_2325 };

    fn take(&mut self, frame: &[u8]) {
        self.frames += 1;
        self.words += frame.windows(5).filter(|window| window == b"word ").count();
        for byte in frame {
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Sends a raw request; returns the part of the response after its head.
async fn open(port: u16, request: String) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    loop {
        let read = stream.read_buf(&mut got).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&got));
        if let Some(end) = got.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = got.split_off(end + 4);
            let head = String::from_utf8_lossy(&got).into_owned();
            assert!(head.contains(" 200 ") || head.contains(" 101 "), "{head}");
            return (stream, rest);
        }
    }
}

/// The end of the turn in the extension's 0.3 dialect.
const OVER: &[u8] = b"\"state\":\"completed\"";

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

/// Reads frames, split by `next`, to the last one, and counts the reads.
async fn read_all(
    (mut stream, mut rest): (TcpStream, Vec<u8>),
    next: impl Fn(&[u8]) -> Option<(usize, std::ops::Range<usize>)>,
) -> (Seen, usize) {
    let mut seen = Seen::NOTHING;
    let mut pieces = 0;
    loop {
        let mut used = 0;
        while let Some((length, frame)) = next(&rest[used..]) {
            let frame = &rest[used..][frame];
            used += length;
            if !frame.is_empty() {
                seen.take(frame);
                if frame.len() < 2_000 && contains(frame, OVER) {
                    return (seen, pieces);
                }
            }
        }
        rest.drain(..used);
        assert!(stream.read_buf(&mut rest).await.unwrap() > 0, "ended after {seen:?}");
        pieces += 1;
    }
}

/// Sorted gaps between the events of one task, in milliseconds.
fn pace(log: &[Envelope]) -> Vec<i64> {
    let texts = log.iter().filter(|e| matches!(e.event, Event::TextAppended { .. }));
    let times: Vec<i64> = texts.map(|envelope| envelope.at.0).collect();
    let mut gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    gaps
}

/// A turn up to its question: task and call.
async fn begin(served: &Served, watch: &mut Socket, prompt: &str) -> (Value, Value) {
    watch.seen.clear();
    served.call("message/send", json!({ "message": text_message(prompt) })).await;
    let asked = watch.until(|value| question(&value["params"]["event"]).is_some()).await;
    question(&asked["params"]["event"]).unwrap()
}

/// R11: a thousand readers on each of two transports at 200 events a second. No reader misses
/// anything, the server's memory does not grow, and the writer is not delayed: readers are served
/// in turn, each with everything new, and not once per event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_readers_miss_nothing_and_the_writer_does_not_notice() {
    more_files();
    let machine = Machine::new();
    let script = format!(
        "[[rule]]\nsteps = [ {{ call = \"write_file\", input = {{ path = \"x\", content = \"x\" }} }}, \
         {{ repeat = {EVENTS}, \
         step = {{ text = \"word \", delay = \"5ms\" }} }} ]\n"
    );
    let model = machine.script("words.toml", &script);
    let served = Served::shared(&machine, &["--model", &model]);
    // First with one reader. The words follow the answer to the question.
    let mut watch = served.socket("").await;
    let (task, call) = begin(&served, &mut watch, "alone").await;
    served
        .call("message/send", json!({ "message": confirmation(&task, &call, "proceed_once") }))
        .await;
    let over = |value: &Value| value["params"]["event"]["status"]["state"] == "completed";
    watch.until(over).await;
    // So that the next turn asks again.
    std::fs::remove_file(machine.file("x")).unwrap();
    let session = machine.sessions().remove(0);
    let alone_log = machine.log(&session);
    let alone = pace(&alone_log);

    let idle = served.resident();
    let port = served.port;
    let upgrade = format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    let begun = Instant::now();
    let mut sockets = Vec::new();
    for _ in 0..READERS / 50 {
        sockets.extend(join_all((0..50).map(|_| open(port, upgrade.clone()))).await);
    }
    let (task, call) = begin(&served, &mut watch, "many clients").await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
    let body = body.to_string();
    // HTTP 1.0, so that the body has no chunks, which differ between readers.
    let subscribe = format!(
        "POST / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         X-A2A-Extensions: {EXTENSION}\r\nLast-Event-ID: 0.0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    println!("1,000 sockets after {:?}", begun.elapsed());
    let mut readers = tokio::task::JoinSet::new();
    for socket in sockets {
        readers.spawn(async move { (true, read_all(socket, next_frame).await) });
    }
    for _ in 0..READERS / 50 {
        for stream in join_all((0..50).map(|_| open(port, subscribe.clone()))).await {
            readers.spawn(async move { (false, read_all(stream, next_event).await) });
        }
    }
    println!("all subscribed after {:?}", begun.elapsed());
    let begun = Instant::now();
    served
        .call("message/send", json!({ "message": confirmation(&task, &call, "proceed_once") }))
        .await;
    let mut peak = 0;
    let mut seen = Vec::new();
    while !readers.is_empty() {
        tokio::select! {
            Some(reader) = readers.join_next() => seen.push(reader.unwrap()),
            () = tokio::time::sleep(Duration::from_millis(100)) => peak = peak.max(served.resident()),
        }
    }
    let took = begun.elapsed();
    let pieces: usize = seen.iter().map(|(_, (_, pieces))| pieces).sum();
    println!("all read after {took:?}, in {} pieces each", pieces / seen.len());
    let by =
        |socket: bool| seen.iter().filter(move |(by, _)| *by == socket).map(|(_, (seen, _))| seen);
    for socket in [true, false] {
        let first = by(socket).next().unwrap();
        assert!(by(socket).all(|seen| seen == first), "everybody has seen the same");
        assert_eq!(first.words, EVENTS, "nothing is missing and nothing came twice: {first:?}");
        assert_eq!(by(socket).count(), READERS);
    }
    let log = machine.log(&session);
    let together = pace(&log[alone_log.len()..]);
    let quantile = |gaps: &[i64], percent: usize| gaps[gaps.len() * percent / 100];
    let grown = peak.saturating_sub(idle);
    println!(
        "the writer's events: {} alone, {} together; apart in ms, p50 and p99: {} {}, {} {}; \
         {grown} KiB for {} readers, {} KiB each",
        alone.len(),
        together.len(),
        quantile(&alone, 50),
        quantile(&alone, 99),
        quantile(&together, 50),
        quantile(&together, 99),
        2 * READERS,
        grown / (2 * READERS as u64)
    );
    // One slot per 80 µs and processor, and one write per slot. One write may be read in two parts,
    // and each arrives at once after a pause.
    let processors = std::thread::available_parallelism().unwrap().get() as u128;
    let places = usize::try_from(took.as_micros() * processors / 80).unwrap();
    assert!(pieces <= 2 * places + 20 * seen.len(), "{pieces} pieces, and {places} places");
    assert!(quantile(&together, 50) <= 3 * quantile(&alone, 50) + 10, "the writer was slowed down");
    // The readers and this process compete for the same processors, so some delay is expected.
    // Waiting behind all readers once would take seconds.
    assert!(quantile(&together, 99) <= 5 * quantile(&alone, 99) + 100, "the writer had to wait");
    assert!(grown / (2 * READERS as u64) < 40, "{grown} KiB");
}

/// This process holds the other end of every connection.
fn more_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}
