//! Faults of the real server: R08, R09, R19, R31, R33. (R06, R07 are in `shared.rs`, R10 and R11 in
//! `many_clients.rs`, R24 in `refused.rs`.)

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use loggia_core::{
    AgentName, Content, Event, Limits, Mode, ModelName, Origin, Seq, Settings, Surface, TaskChoice,
    Workspace,
};
use loggia_session::{Agent, Hub, NewSession, Turn, TurnOver};
use loggia_store::SqliteStore;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::driver::{Machine, Ran, exported};
use crate::floods::raw_socket;
use crate::served::{EXTENSION, Event as Sent, Served, Socket, asked, confirmation, text_message};

/// Writes as many lines as its prompt says, each as one event.
struct Speaker;

impl Agent for Speaker {
    fn run(&self, turn: Turn) -> BoxFuture<'static, Result<(), TurnOver>> {
        Box::pin(async move {
            let lines: usize = turn.context().content.to_text().parse().unwrap();
            for number in 0..lines {
                turn.say(&turn.message(), &format!("line {number} ")).await?;
            }
            Ok(())
        })
    }
}

/// A finished session with so many events, and its id.
async fn long_session(machine: &Machine, lines: usize) -> String {
    let store = Arc::new(SqliteStore::open(&machine.data()).unwrap());
    let hub = Hub::new(store, Arc::new(Speaker), "test");
    let settings = Settings {
        model: ModelName("offline".into()),
        effort: None,
        mode: Mode::Ask,
        rules: Vec::new(),
        tools: None,
        unattended: false,
        timeout: None,
        limits: Limits::default(),
    };
    let path = machine.work().canonicalize().unwrap().to_str().unwrap().to_owned();
    let workspace = Workspace::Local { path };
    let new = NewSession { workspace, settings, agent: AgentName("loggia".into()) };
    let origin = Origin::new(Surface::Cli, "test");
    let handle = hub.create(new, origin.clone()).await.unwrap();
    let prompt = loggia_core::Command::Prompt {
        prompt: loggia_session::SessionHandle::fresh_prompt(),
        task: TaskChoice::New,
        content: Content::text(lines.to_string()),
    };
    handle.submit(prompt, origin).await.unwrap();
    let mut follower = handle.follow(Seq::ZERO);
    loop {
        let events = follower.next().await.unwrap().unwrap();
        if events.iter().any(|envelope| matches!(envelope.event, Event::TurnEnded { .. })) {
            break;
        }
    }
    hub.stop().await;
    handle.id().as_str().to_owned()
}

/// R08: a late reader gets ten thousand events, complete and in order, in every dialect, identical
/// for all readers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_reader_gets_ten_thousand_events() {
    const LINES: usize = 10_000;
    let machine = Machine::new();
    let session = long_session(&machine, LINES).await;
    let served = Served::shared(&machine, &["--session", &session]);
    let over = |value: &Value| value["params"]["event"]["status"]["state"] == "completed";
    let before = served.resident();
    let begun = Instant::now();
    let mut late = served.socket("?after=0").await;
    late.until(|_| true).await;
    let first = begun.elapsed();
    late.until(over).await;
    let all = begun.elapsed();
    let grown = served.resident().saturating_sub(before);
    println!("first frame after {first:?}, all after {all:?}, the server grew by {grown} KiB");
    assert!(first < Duration::from_secs(5) && all < Duration::from_secs(30), "{first:?} {all:?}");
    assert!(grown < 64 << 10, "{grown} KiB");
    let frames = late.followed();
    let text = |frames: &[(String, Value)]| -> String {
        let parts = frames.iter().map(|(_, frame)| &frame["status"]["message"]["parts"][0]["text"]);
        parts.filter_map(Value::as_str).collect::<Vec<_>>().concat()
    };
    let said = text(&frames);
    let expected: Vec<String> = (0..LINES).map(|number| format!("line {number}")).collect();
    assert!(said.split_whitespace().eq(expected.join(" ").split_whitespace()), "in order, whole");
    // From the middle, and for another reader: identical bytes.
    let middle = frames.len() / 2;
    let mut resumed = served.socket(&format!("?after={}", frames[middle].0)).await;
    resumed.until(over).await;
    assert_eq!(resumed.followed(), frames[middle + 1..]);
    // The other dialects: everything after the first frame, identical for two readers.
    let task = frames[0].1["id"].clone();
    for (method, extension) in
        [("tasks/resubscribe", true), ("tasks/resubscribe", false), ("SubscribeToTask", true)]
    {
        let read = async || -> Vec<Sent> {
            let body =
                json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": task } });
            let request = served.post(&body).header("Last-Event-ID", "0.0");
            let request =
                if extension { request.header("X-A2A-Extensions", EXTENSION) } else { request };
            served.stream(request, usize::MAX).await
        };
        let events = read().await;
        assert!(events.len() >= LINES, "{method}: {} events", events.len());
        let order = |event: &Sent| {
            let (seq, k) = event.id.split_once('.').unwrap();
            (seq.parse::<u64>().unwrap(), k.parse::<u32>().unwrap())
        };
        assert!(events.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])), "{method}");
        assert!(events == read().await, "{method}: everybody gets the same");
    }
}

/// The complete text frames at the start of the received bytes.
fn texts(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut texts = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        let (length, rest) = match (second, rest) {
            (126, [a, b, rest @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), rest),
            (127, rest) if rest.len() >= 8 => {
                (u64::from_be_bytes(rest[..8].try_into().unwrap()), &rest[8..])
            }
            (126 | 127, _) => break,
            (length, rest) => (u64::from(*length), rest),
        };
        let Some((text, rest)) = rest.split_at_checked(length as usize) else { break };
        if *first == 0x81 {
            texts.push(text);
        }
        bytes = rest;
    }
    texts
}

fn thoughts(count: usize, bytes: usize) -> String {
    format!(
        "[[rule]]\nsteps = [ {{ repeat = {count}, step = {{ thought = \"{}\", subject = \"s\", \
         delay = \"1ms\" }} }}, {{ text = \"end\" }} ]\n",
        "x".repeat(bytes)
    )
}

fn place(text: &str) -> (u64, u32) {
    let (seq, k) = text.split_once('.').unwrap();
    (seq.parse().unwrap(), k.parse().unwrap())
}

/// The frame ids of a turn by reader, the peak resident memory, and the duration.
async fn read_turn(served: &Served, readers: &mut [Socket]) -> (Vec<Vec<String>>, u64, Duration) {
    let begun = Instant::now();
    let mut peak = 0;
    let reading = readers.iter_mut().map(|socket| async {
        let mut ids: Vec<String> = socket.followed().into_iter().map(|(id, _)| id).collect();
        loop {
            socket.seen.clear();
            let frame = socket.until(|value| value["method"] == "session/event").await;
            ids.push(frame["params"]["id"].as_str().unwrap().to_owned());
            if frame["params"]["event"]["status"]["state"] == "completed" {
                socket.seen.clear();
                return ids;
            }
        }
    });
    let mut reading = std::pin::pin!(join_all(reading));
    loop {
        tokio::select! {
            seen = &mut reading => return (seen, peak, begun.elapsed()),
            () = tokio::time::sleep(Duration::from_millis(50)) => peak = peak.max(served.resident()),
        }
    }
}

/// R09: a stalled reader is disconnected after a timeout, costs nearly nothing until then, delays
/// no other client, and resumes without a loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stalls_costs_nothing_and_loses_nothing() {
    const EVENTS: usize = 2_500;
    const BYTES: usize = 8 << 10;
    let machine = Machine::new();
    machine.configure(
        "[server]\nstall_seconds = 2\n[limits]\ntext_bytes = 1_000_000_000\nreplies = 100_000\n",
    );
    let model = machine.script("flood.toml", &thoughts(EVENTS, BYTES));
    let served = Served::shared(&machine, &["--model", &model]);
    let mut healthy = join_all((0..4).map(|_| served.socket(""))).await;
    // First without a stalled reader, to exclude the caches.
    healthy[0].send(1, "message/stream", json!({ "message": text_message("go") })).await;
    let (_, usual, alone) = read_turn(&served, &mut healthy).await;
    let mut stalled = raw_socket(&served);
    healthy[0].send(1, "message/stream", json!({ "message": text_message("go") })).await;
    let task = healthy[0].until(|value| value["params"]["event"]["kind"] == "task").await;
    let task = task["params"]["event"]["id"].clone();
    let mut stream = served.connect();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
    let body = body.to_string();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
         X-A2A-Extensions: {EXTENSION}\r\nContent-Length: {}\r\n\r\n{body}",
        served.port,
        body.len()
    )
    .unwrap();
    let (seen, peak, took) = read_turn(&served, &mut healthy).await;
    let grown = peak.saturating_sub(usual);
    println!(
        "{} MB to four readers in {alone:?}; beside two that stall in {took:?}, for {grown} KiB more",
        EVENTS * BYTES / 1_000_000
    );
    assert!(grown < 34 << 10, "{grown} KiB");
    assert!(seen.iter().all(|ids| *ids == seen[0]), "everybody saw the same");
    // Thoughts that arrived together are one event.
    assert!(seen[0].len() >= EVENTS / 2, "{} frames", seen[0].len());

    // Both are disconnected, which a write shows.
    let begun = Instant::now();
    while stream.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the stream is still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while stalled.write_all(&[0x89, 0x80, 0, 0, 0, 0]).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the socket is still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut had = Vec::new();
    let _ = stream.read_to_end(&mut had); // a reset comes after what was sent before
    let had = String::from_utf8_lossy(&had).into_owned();
    let whole = had.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    let ids = whole.lines().filter_map(|line| line.strip_prefix("id: "));
    let mut by_stream: Vec<String> = ids.map(str::to_owned).collect();
    let last = by_stream.last().expect("something came before it stalled").clone();
    assert!(place(&last) < place(seen[0].last().unwrap()), "it missed something");
    let again = served.post(&serde_json::from_str(&body).unwrap());
    let again = again.header("X-A2A-Extensions", EXTENSION).header("Last-Event-ID", &last);
    let rest = served.stream(again, usize::MAX).await;
    by_stream.extend(rest.into_iter().map(|event| event.id));
    let from = place(&by_stream[0]);
    let expected: Vec<&String> = seen[0].iter().filter(|id| place(id) > from).collect();
    assert!(by_stream.iter().skip(1).eq(expected), "the stream has no gap and nothing twice");

    let mut by_socket = BTreeMap::new();
    let mut had = Vec::new();
    let _ = stalled.read_to_end(&mut had); // the same here
    for text in texts(&had) {
        let value: Value = serde_json::from_slice(text).unwrap();
        let id = value["params"]["id"].as_str().unwrap().to_owned();
        assert!(by_socket.insert(place(&id), id).is_none());
    }
    let (_, last) = by_socket.last_key_value().expect("something came before it stalled");
    let mut back = served.socket(&format!("?after={last}")).await;
    back.until(|value| value["params"]["event"]["status"]["state"] == "completed").await;
    for (id, _) in back.followed() {
        assert!(by_socket.insert(place(&id), id).is_none());
    }
    assert!(by_socket.into_values().eq(seen[0].iter().cloned()), "neither has the socket");
}

/// A machine whose data directory is on a small file system, mounted for the server only. Needs
/// root.
struct SmallDisk {
    machine: Machine,
    served: Served,
}

impl SmallDisk {
    fn new(size: &str) -> Self {
        Self::serving(size, &["--a2a-port", "0", "--approve", "all"])
    }

    fn serving(size: &str, arguments: &[&str]) -> Self {
        let machine = Machine::new();
        std::fs::create_dir_all(machine.data()).unwrap();
        let data = machine.data().to_str().unwrap().to_owned();
        let mount = format!("mount -t tmpfs -o size={size},mode=700 none \"$0\" && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &mount, &data]).arg(Machine::program());
        command.args(arguments);
        let served = Served::spawn(machine.prepare(command));
        Self { machine, served }
    }

    /// Runs a program in the server's mount namespace.
    fn inside(&self, program: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.served.child.id().to_string(), "-m", program]).args(arguments);
        Ran::from(self.machine.prepare(command).output().unwrap())
    }
}

/// R19: a full disk is reported, only stored events are visible, and the session continues when
/// there is space.
#[tokio::test]
async fn a_full_disk_is_reported_until_space_is_free() {
    let disk = SmallDisk::new("6m");
    let SmallDisk { machine, served } = &disk;
    let mut watch = served.socket("?after=0").await;
    let send = async |text: &str| {
        let message =
            json!({ "message": text_message(text), "configuration": { "blocking": true } });
        served.call("message/send", message).await
    };
    let first = send("say one").await;
    assert_eq!(first["result"]["status"]["state"], "completed", "{first}");
    let mut acknowledged = vec![first["result"]["id"].clone()];
    let filler = machine.data().join("filler");
    let filled = disk.inside("dd", &["if=/dev/zero", &format!("of={}", filler.display()), "bs=4k"]);
    assert!(filled.err.contains("No space left"), "{}", filled.err);
    // Some prompts may still fit because the file system rounds up.
    let refused = loop {
        let told = send(&format!("say {}", "x".repeat(20_000))).await;
        match told["result"]["id"].clone() {
            Value::Null => break told,
            id => acknowledged.push(id),
        }
        assert!(acknowledged.len() < 1_000, "the disk was never full");
    };
    assert_eq!(refused["error"]["data"]["reason"], "storage-full", "{refused}");
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    let again = send("say refused").await;
    assert_eq!(again["error"]["data"]["reason"], "storage-full", "{again}");
    // A list that cannot be read is an error, not an empty list.
    let listed = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let listed = served.post(&listed).header("A2A-Version", "1.0").send().await.unwrap();
    let listed: Value = listed.json().await.unwrap();
    let known = listed["result"]["totalSize"].as_u64();
    assert!(
        known.is_some_and(|known| known >= acknowledged.len() as u64)
            || listed["error"]["data"][0]["reason"] == "STORAGE_FULL",
        "{listed}"
    );
    assert!(served.is_well());
    let removed = disk.inside("rm", &[filler.to_str().unwrap()]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    let begun = Instant::now();
    let back = send("say back").await;
    assert_eq!(back["result"]["status"]["state"], "completed", "{back}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    acknowledged.push(back["result"]["id"].clone());

    // Every visible and acknowledged event is in the log.
    let session = first["result"]["contextId"].as_str().unwrap();
    let program = Machine::program().to_str().unwrap();
    let arguments = ["sessions", "export", session, "--format", "jsonl"];
    let log = exported(&disk.inside(program, &arguments));
    let text = serde_json::to_string(&log).unwrap();
    for task in &acknowledged {
        assert!(text.contains(task.as_str().unwrap()), "{task} was acknowledged");
    }
    assert!(!text.contains("say refused"));
    // Followers were told that the session stopped, and where; new ones see everything.
    let stopped = watch.until(|value| value["method"] == "session/end").await;
    let seen = watch.followed();
    assert_eq!(stopped["params"]["contextId"], session, "{stopped}");
    assert_eq!(stopped["params"]["after"], seen.last().unwrap().0, "{stopped}");
    assert_eq!(stopped["params"]["error"]["data"]["reason"], "storage-full", "{stopped}");
    assert!(!text.contains("Loggia stopped"), "{text}");
    let mut late = served.socket("?after=0").await;
    let last = acknowledged.last().unwrap();
    late.until(|value| {
        let event = &value["params"]["event"];
        event["taskId"] == *last && event["status"]["state"] == "completed"
    })
    .await;
    let followed = late.followed();
    assert!(seen.len() > 3 && followed.starts_with(&seen), "nothing was seen that is not there");
    let head = log.last().unwrap().seq;
    assert!(followed.iter().all(|(id, _)| place(id).0 <= head.0));
}

/// R19: a finished task of a closed session is read from the store, because opening the session writes.
#[tokio::test]
async fn tasks_of_closed_sessions_are_read_while_the_disk_is_full() {
    let arguments = ["serve", "--port", "0", "--approve", "all"];
    let mut disk = SmallDisk::serving("6m", &arguments);
    let say = |text: &str| {
        let message = text_message(text);
        json!({ "message": message, "configuration": { "blocking": true } })
    };
    let first = disk.served.call("message/send", say("say one")).await;
    let task = first["result"]["id"].as_str().unwrap().to_owned();
    let mut extended = say("say one");
    extended["message"]["metadata"] = json!({ EXTENSION: {} });
    let extended = disk.served.call("message/send", extended).await["result"]["id"].clone();
    // Another server, which has opened no session.
    let mut command = Command::new("nsenter");
    command.args(["-t", &disk.served.child.id().to_string(), "-m"]).arg(Machine::program());
    command.args(arguments);
    disk.served = Served::spawn(disk.machine.prepare(command));
    let SmallDisk { machine, served } = &disk;
    let filler = machine.data().join("filler");
    disk.inside("dd", &["if=/dev/zero", &format!("of={}", filler.display()), "bs=4k"]);
    let refused = loop {
        let told = served.call("message/send", say(&format!("say {}", "x".repeat(20_000)))).await;
        if told["result"]["id"].is_null() {
            break told;
        }
    };
    assert_eq!(refused["error"]["data"]["reason"], "storage-full", "{refused}");
    let old = served.call("tasks/get", json!({ "id": task })).await;
    assert_eq!(old["result"]["status"]["state"], "completed", "{old}");
    let new = served.call("GetTask", json!({ "id": task })).await;
    assert_eq!(new["result"]["status"]["state"], "TASK_STATE_COMPLETED", "{new}");
    let form = served.call("tasks/get", json!({ "id": extended })).await;
    assert!(form.to_string().contains(EXTENSION), "in the form of its session: {form}");
    for path in
        [format!("/v1/tasks/{task}"), format!("/tasks/{task}"), format!("/tasks/{task}/metadata")]
    {
        let found = served.get(&path).await;
        assert!(found.to_string().contains(&task), "{path}: {found}");
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
    let stream = served.stream(served.post(&body), usize::MAX).await;
    assert_eq!(stream[0].response["result"]["id"], task, "{stream:?}");
}

/// R19: with a full disk no command starts, with a database or without one, and each says why.
#[test]
fn a_full_disk_is_reported_at_the_start() {
    for database in ["none", "left"] {
        let machine = Machine::new();
        std::fs::create_dir_all(machine.home()).unwrap();
        let script = "mount -t tmpfs -o size=4m,mode=700 none \"$0\" || exit 9
            [ $1 = none ] || \"$2\" run 'say x' >/dev/null || exit 9
            dd if=/dev/zero of=\"$0/filler\" bs=4k 2>/dev/null
            for command in 'serve --port 0' '--a2a-port 0' 'run hello' 'sessions list'; do
                \"$2\" $command </dev/null; echo ended $?
            done";
        let mut command = Command::new("unshare");
        command.args(["-m", "timeout", "60", "bash", "-c", script]);
        command.arg(machine.home()).arg(database).arg(Machine::program());
        let ran = Ran::from(machine.prepare(command).output().unwrap());
        assert_eq!(ran.out.matches("ended 1\n").count(), 4, "{database}: {}{}", ran.out, ran.err);
        assert_eq!(ran.err.matches("no space left for ").count(), 4, "{database}: {}", ran.err);
        assert_eq!(ran.err.matches("Free some space").count(), 4, "{database}: {}", ran.err);
    }
}

/// R31: on a stop signal, the server ends every stream with a message, kills running commands,
/// keeps open questions, and exits in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_ends_streams_in_order_and_keeps_questions() {
    let machine = Machine::new();
    let mut served = Served::start(&machine, &["serve", "--port", "0"]);
    let marker = format!("60.{}", std::process::id());
    let running =
        served.stream(served.tool_stream(text_message(&format!("run sleep {marker}"))), usize::MAX);
    let (task, call) = asked(&running.await);
    let request = served.tool_stream(confirmation(&task, &call, "proceed_once"));
    let mut streams = vec![request.send().await.unwrap().bytes_stream()];
    let open = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (asking, question) = asked(&open);
    let context = open[0].response["result"]["contextId"].as_str().unwrap().to_owned();
    for _ in 0..50 {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": asking } });
        let mut stream = served.post(&body).send().await.unwrap().bytes_stream();
        stream.next().await.unwrap().unwrap();
        streams.push(stream);
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": { "id": asking } });
    let path = format!("/tasks/{}:subscribe", asking.as_str().unwrap());
    for request in [served.post(&body), served.request("GET", &path)] {
        let mut stream = request.send().await.unwrap().bytes_stream();
        stream.next().await.unwrap().unwrap();
        streams.push(stream);
    }
    let query = format!("?session={context}");
    let mut sockets = join_all((0..50).map(|_| served.socket(&query))).await;
    let mut blocked = text_message("wait 60s");
    blocked["contextId"] = json!(format!("{context}-other"));
    let blocked = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": blocked, "configuration": { "blocking": true } } });
    let blocked = tokio::spawn(served.post(&blocked).send());
    while processes_with(&marker) == 0 || machine.sessions().len() < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begun = Instant::now();
    served.signal(Signal::SIGTERM);
    let mut seen = std::collections::BTreeSet::new();
    for (number, mut stream) in streams.into_iter().enumerate() {
        let mut rest = Vec::new();
        while let Some(chunk) = stream.next().await {
            rest.extend(chunk.expect("ended, not reset"));
        }
        let rest = String::from_utf8(rest).unwrap();
        let (_, last) = rest.trim_end().rsplit_once("data: ").expect("a last event");
        let last: Value = serde_json::from_str(last).unwrap();
        assert!(rest.ends_with("\n\n"), "stream {number}: {rest:?}");
        let (typed, free) = (&last["error"]["data"][0], &last["error"]["data"]);
        let reason = [&typed["reason"], &free["reason"], &last["error"]["details"][0]["reason"]];
        let told = reason.into_iter().find_map(Value::as_str).unwrap_or_default();
        assert_eq!(told.to_lowercase(), "restarting", "stream {number}: {rest:?}");
        seen.insert(told.to_owned());
    }
    assert_eq!(seen.len(), 2, "each in the form of its version: {seen:?}");
    for socket in &mut sockets {
        assert_eq!(socket.end().await, Some(CloseCode::Away));
    }
    let told: Value = blocked.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(told["error"]["data"]["reason"], "restarting", "{told}");
    assert!(served.ended(Duration::from_secs(10)).success());
    println!("stopped after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    gone(&marker).await;

    // The question is open again, with the same ids.
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let found = served.call("tasks/get", json!({ "id": asking })).await;
    assert_eq!(found["result"]["status"]["state"], "input-required", "{found}");
    let answer = served.tool_stream(confirmation(&asking, &question, "proceed_once"));
    let events = served.stream(answer, usize::MAX).await;
    assert_eq!(events.last().unwrap().response["result"]["status"]["state"], "completed");
    assert_eq!(machine.read("a.txt").as_deref(), Some("x\n"));
    let cut = served.call("tasks/get", json!({ "id": task })).await;
    assert_eq!(cut["result"]["status"]["state"], "failed", "{cut}");
}

/// R31: the second signal does not wait for a command that ignores signals.
#[tokio::test]
async fn the_second_signal_ends_it_at_once() {
    let machine = Machine::new();
    let mut served = Served::shared(&machine, &["--approve", "all"]);
    let marker = format!("61.{}", std::process::id());
    let stubborn = format!("run trap '' TERM; while true; do sleep {marker}; done");
    let events = served.stream(served.tool_stream(text_message(&stubborn)), 3).await;
    assert_eq!(events.len(), 3);
    while processes_with(&marker) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // An unfinished request delays the first signal.
    let mut half = served.connect();
    let head = "POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n";
    write!(half, "{head}Expect: 100-continue\r\nHost: 127.0.0.1:{}\r\n\r\n", served.port).unwrap();
    half.read_exact(&mut [0; 12]).unwrap();
    served.signal(Signal::SIGTERM);
    tokio::time::sleep(Duration::from_millis(300)).await; // the time that is not over yet
    assert!(served.child.try_wait().unwrap().is_none(), "it waits for the request");
    served.signal(Signal::SIGTERM);
    let begun = Instant::now();
    assert!(served.ended(Duration::from_secs(10)).success());
    println!("stopped after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    gone(&marker).await;
}

/// Waits until a command was killed by its guard after its server died.
async fn gone(marker: &str) {
    let begun = Instant::now();
    while processes_with(marker) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the command is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The number of `sleep` processes with this argument.
fn processes_with(marker: &str) -> usize {
    let wanted = format!("sleep\0{marker}\0");
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line == wanted.as_bytes()).count()
}

fn limited(machine: &Machine, limit: &str) -> Served {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]).arg(Machine::program());
    command.args(["--a2a-port", "0", "--approve", "all"]);
    Served::spawn(machine.prepare(command))
}

/// R33: without free file descriptors, new connections wait; existing ones work, and commands still
/// run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_out_of_files_delays_and_breaks_nothing() {
    let machine = Machine::new();
    let served = limited(&machine, "-n 256");
    let mut inside = served.socket("").await;
    let mut flood: Vec<_> = (0..1_000).map(|_| served.connect()).collect();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", served.port);
    flood.iter_mut().for_each(|stream| stream.write_all(request.as_bytes()).unwrap());
    let short = Some(Duration::from_millis(500));
    flood.iter().for_each(|stream| stream.set_read_timeout(short).unwrap());
    let answered = flood.iter().take_while(|stream| stream.peek(&mut [0]).is_ok()).count();
    println!("{answered} of 1,000 were accepted");
    assert!((50..250).contains(&answered), "{answered}");
    inside.send(1, "message/stream", json!({ "message": text_message("run echo still") })).await;
    let done = inside.until(|value| value["params"]["event"]["final"] == true).await;
    assert_eq!(done["params"]["event"]["status"]["state"], "completed", "{done}");
    let released = Instant::now();
    drop(flood);
    assert!(served.is_well());
    println!("accepted again {:?} after the release", released.elapsed());
    assert!(released.elapsed() < Duration::from_secs(10), "{:?}", released.elapsed());
    assert!(inside.seen.iter().any(|value| value.to_string().contains("still\\n")));
}

/// The server raises its open-file limit; commands keep the user's.
#[tokio::test]
async fn the_server_may_open_many_files_and_its_commands_as_many_as_before() {
    let machine = Machine::new();
    let served = limited(&machine, "-S -n 300");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", served.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
    assert_ne!(numbers[0], "300", "{line}");
    let request = served.tool_stream(text_message("run ulimit -S -n"));
    let events = served.stream(request, usize::MAX).await;
    let text =
        serde_json::to_string(&events.iter().map(|event| &event.response).collect::<Vec<_>>());
    let text = text.unwrap();
    assert!(text.contains("300\\n"), "{text}");
}
