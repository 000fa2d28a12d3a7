//! A client of the shipped SDLC agent server, and the model of its recordings.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::driver::Machine;
use crate::served::Served;

/// The steps of the recorded model, by prompt.
pub const SCRIPT: &str = r#"
[[rule]]
contains = "S:text"
steps = [
  { thought = "The user wants a short text answer.", subject = "Planning" },
  { text = "Hello from " }, { text = "the fake model." },
  { usage = { input = 120, output = 12, thought = 4 } },
]
[[rule]]
contains = "S:write"
steps = [
  { thought = "I will write hello.txt.", subject = "Writing a file" },
  { text = "I'll create hello.txt. " },
  { usage = { input = 120, output = 12, thought = 4 } },
  { call = "write_file", input = { path = "hello.txt", content = "hello\nworld\n" } },
  { text = "Tool result seen. " }, { text = "All done." },
  { usage = { input = 120, output = 12, thought = 4 } },
]
[[rule]]
contains = "S:longshell"
steps = [
  { usage = { input = 120, output = 12, thought = 4 } },
  { call = "run_shell_command", input = { command = "for i in 1 2 3; do echo line-$i; sleep 0.15; done" } },
  { text = "Tool result seen. " }, { text = "All done." },
  { usage = { input = 120, output = 12, thought = 4 } },
]
[[rule]]
contains = "S:two"
steps = [
  { usage = { input = 120, output = 12, thought = 4 } },
  { calls = [
    { tool = "write_file", input = { path = "two.txt", content = "two\n" } },
    { tool = "run_shell_command", input = { command = "echo two" } },
  ] },
  { text = "Tool result seen. " }, { text = "All done." },
  { usage = { input = 120, output = 12, thought = 4 } },
]
[[rule]]
contains = "S:slow"
steps = [
  { repeat = 20, step = { text = "chunk ", delay = "40ms" } },
  { usage = { input = 120, output = 12, thought = 4 } },
]
[[rule]]
contains = "S:error400"
steps = [ { error = "the request was refused: 400", kind = "refused" } ]
[[rule]]
contains = "S:error500"
steps = [
  { error = "the model is overloaded: 500", kind = "overloaded", attempts = 1, retry_after = "50ms" },
  { text = "After all." },
]
[[rule]]
contains = "S:ask"
steps = [
  { call = "ask_user", input = { question = "Which one?", options = ["this", "that"] } },
  { text = "You said $result." },
]
"#;

/// A server with that model and one session per task.
pub struct Coder {
    pub machine: Machine,
    pub served: Arc<Served>,
}

impl Coder {
    pub fn start(more: &[&str]) -> Self {
        Self::with(&[&["serve", "--port", "0"], more].concat())
    }

    /// A server with one shared session.
    pub fn shared() -> Self {
        Self::with(&["--a2a-port", "0"])
    }

    fn with(arguments: &[&str]) -> Self {
        let machine = Machine::new();
        let model = machine.script("coder.toml", SCRIPT);
        let arguments = [arguments, &["--model", &model]].concat();
        let served = Arc::new(Served::start(&machine, &arguments));
        Self { machine, served }
    }

    pub fn workspace(&self) -> String {
        self.machine.work().canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    /// A message with the settings of this dialect.
    pub fn prompt(&self, text: &str) -> Value {
        json!({
            "kind": "message", "role": "user", "messageId": "m-1",
            "parts": [{ "kind": "text", "text": text }],
            "metadata": { "coderAgent": {
                "kind": "agent-settings", "workspacePath": self.workspace(),
            } },
        })
    }

    /// A stream, read in the background.
    pub fn stream(&self, method: &str, params: Value) -> Stream {
        Stream::open(
            &self.served,
            json!({ "jsonrpc": "2.0", "id": "r", "method": method, "params": params }),
        )
    }

    pub fn say(&self, message: Value) -> Stream {
        self.stream("message/stream", json!({ "message": message }))
    }

    /// Sends a message and reads the stream to its end.
    pub async fn told(&self, message: Value) -> Vec<Value> {
        self.say(message).end().await
    }

    /// Starts a write that needs an approval: task and call.
    pub async fn asked_to_write(&self) -> (Value, Value) {
        let events = self.told(self.prompt("S:write please")).await;
        asked(&events)
    }
}

/// The received events of a stream.
#[derive(Clone)]
pub struct Stream {
    seen: Arc<Mutex<(Vec<Value>, bool)>>,
    more: Arc<Notify>,
    reading: Arc<tokio::task::JoinHandle<()>>,
}

impl Stream {
    pub fn open(served: &Arc<Served>, body: Value) -> Self {
        let (seen, more) = (Arc::new(Mutex::new((Vec::new(), false))), Arc::new(Notify::new()));
        let (served, into, told) = (served.clone(), seen.clone(), more.clone());
        let reading = tokio::spawn(async move {
            // A separate client, so that the connection ends with this reader.
            let client = reqwest::Client::new();
            let response = client.post(served.url()).json(&body).send().await.unwrap();
            let mut bytes = response.bytes_stream();
            let mut text = String::new();
            while let Some(Ok(chunk)) = bytes.next().await {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
                while let Some((event, rest)) = text.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                    let value = data.map(|data| serde_json::from_str(data).unwrap());
                    into.lock().unwrap().0.extend(value);
                    text = rest.to_owned();
                }
                told.notify_waiters();
            }
            into.lock().unwrap().1 = true;
            told.notify_waiters();
        });
        Self { seen, more, reading: Arc::new(reading) }
    }

    pub fn so_far(&self) -> Vec<Value> {
        self.seen.lock().unwrap().0.clone()
    }

    async fn until_state(&self, enough: impl Fn(&[Value], bool) -> bool) -> Vec<Value> {
        let waiting = async {
            loop {
                let notified = self.more.notified();
                tokio::pin!(notified);
                notified.as_mut().enable();
                {
                    let seen = self.seen.lock().unwrap();
                    if enough(&seen.0, seen.1) {
                        return seen.0.clone();
                    }
                }
                notified.await;
            }
        };
        let found = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await;
        found.unwrap_or_else(|_| panic!("it did not come; so far: {:#?}", self.so_far()))
    }

    /// Reads until a response matches.
    pub async fn until(&self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.until_state(|seen, _| seen.iter().any(&fits)).await
    }

    /// All events, after the stream has ended.
    pub async fn end(&self) -> Vec<Value> {
        self.until_state(|_, over| over).await
    }

    /// Disconnects.
    pub async fn leave(self) {
        self.reading.abort();
        while !self.reading.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}

pub fn kind(response: &Value) -> &str {
    response["result"]["metadata"]["coderAgent"]["kind"].as_str().unwrap_or_default()
}

/// The call record of an event.
pub fn record(response: &Value) -> &Value {
    &response["result"]["status"]["message"]["parts"][0]["data"]
}

pub fn is_text(response: &Value) -> bool {
    kind(response) == "text-content"
}

pub fn texts(events: &[Value]) -> String {
    let texts = events.iter().filter(|event| is_text(event));
    texts.filter_map(|it| it["result"]["status"]["message"]["parts"][0]["text"].as_str()).collect()
}

/// A short form of an event.
pub fn short(response: &Value) -> String {
    let result = &response["result"];
    let state = result["status"]["state"].as_str().unwrap_or_default();
    if let Some(code) = response["error"]["code"].as_i64() {
        return format!("error {code}");
    }
    match result["kind"].as_str() {
        Some("task") => return format!("task {state}"),
        Some("artifact-update") => return "artifact".to_owned(),
        _ => {}
    }
    let last = if result["final"] == true { " final" } else { "" };
    match kind(response) {
        about @ ("tool-call-update" | "tool-call-confirmation") => {
            let call = record(response);
            let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
            format!("{about} {} {}", text(&call["request"]["name"]), text(&call["status"]))
        }
        "state-change" => format!("state-change {state}{last}"),
        other => other.to_owned(),
    }
}

/// The task and call that a stream asks about.
pub fn asked(events: &[Value]) -> (Value, Value) {
    let asked = events.iter().find(|event| kind(event) == "tool-call-confirmation");
    let asked = asked.unwrap_or_else(|| panic!("no question: {events:#?}"));
    (asked["result"]["taskId"].clone(), record(asked)["request"]["callId"].clone())
}

/// An answer in the form of that server's clients.
pub fn answer(task: &Value, call: &Value, outcome: &str) -> Value {
    answer_with(task, json!({ "callId": call, "outcome": outcome }))
}

pub fn answer_with(task: &Value, data: Value) -> Value {
    json!({
        "kind": "message", "role": "user", "messageId": "m-2", "taskId": task,
        "parts": [{ "kind": "data", "data": data }],
    })
}

/// A text message to a task, without settings.
pub fn more(task: &Value, text: &str) -> Value {
    json!({
        "kind": "message", "role": "user", "messageId": "m-3", "taskId": task,
        "parts": [{ "kind": "text", "text": text }],
    })
}
