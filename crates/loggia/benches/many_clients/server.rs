//! The measured server: the real binary with one shared session and a scripted model.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::StreamExt;
use loggia_core::{Envelope, Event};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub const EXTENSION: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
const TIMEOUT: Duration = Duration::from_secs(300);

/// A started server; dropping it kills it and removes its files.
pub struct Server {
    program: PathBuf,
    child: Child,
    pub port: u16,
    /// On the disk of the target directory, because writes to memory would cost nothing.
    home: tempfile::TempDir,
    client: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The question before a turn continues.
pub struct Question {
    pub task: Value,
    call: Value,
}

impl Server {
    /// Starts with a configuration and a script of one rule.
    pub fn start(program: &Path, configuration: &str, steps: &str) -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let path = |name: &str| home.path().join(name);
        std::fs::create_dir_all(path("config")).unwrap();
        std::fs::create_dir_all(path("work")).unwrap();
        std::fs::write(path("config/config.toml"), configuration).unwrap();
        std::fs::write(path("script.toml"), format!("[[rule]]\nsteps = [ {steps} ]\n")).unwrap();
        let mut command = Command::new(program);
        command.args(["--a2a-port", "0", "--model"]);
        command.arg(format!("scripted:{}", path("script.toml").display()));
        command.env("LOGGIA_HOME", home.path()).current_dir(path("work"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("it says where it serves").unwrap();
        let port = line.split("http://127.0.0.1:").nth(1).expect("an address");
        let port = port.split_whitespace().next().unwrap().parse().unwrap();
        // Drain the output, so that the server never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self { program: program.to_owned(), child, port, home, client: reqwest::Client::new() }
    }

    /// A 0.3 call and its reply.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.client.post(format!("http://127.0.0.1:{}/", self.port));
        let answer = request.header("X-A2A-Extensions", EXTENSION).json(&body).send();
        answer.await.unwrap().json().await.unwrap()
    }

    /// Sends a prompt without waiting for its result.
    pub async fn prompt(&self, text: &str) -> Value {
        let part = json!({ "kind": "text", "text": text });
        let message =
            json!({ "kind": "message", "role": "user", "messageId": "m", "parts": [part] });
        let configuration = json!({ "blocking": false });
        self.call("message/send", json!({ "message": message, "configuration": configuration }))
            .await
    }

    /// Starts a turn up to its question.
    pub async fn begin(&self, watch: &mut Watch) -> Question {
        self.prompt("go").await;
        let event = watch.until(|event| event["status"]["state"] == "input-required").await;
        let call = event["status"]["message"]["parts"][0]["data"]["tool_call_id"].clone();
        Question { task: event["taskId"].clone(), call }
    }

    /// Lets the turn continue.
    pub async fn release(&self, question: &Question) {
        let data = json!({ "tool_call_id": question.call, "selected_option_id": "proceed_once" });
        let message = json!({
            "kind": "message", "role": "user", "messageId": "c", "taskId": question.task,
            "parts": [{ "kind": "data", "data": data }],
        });
        let configuration = json!({ "blocking": false });
        let answer = self
            .call("message/send", json!({ "message": message, "configuration": configuration }));
        let answer = answer.await;
        assert!(answer["result"].is_object(), "{answer}");
    }

    pub async fn watch(&self) -> Watch {
        let url = format!("ws://127.0.0.1:{}/ws", self.port);
        Watch(tokio_tungstenite::connect_async(url).await.expect("a socket").0)
    }

    /// Resident memory in KiB.
    pub fn resident(&self) -> u64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
    }

    /// User and kernel time so far.
    pub fn cpu_time(&self) -> (Duration, Duration) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // After the name in parentheses; in ticks of 10 ms.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let tick = |place| {
            let ticks = fields.split(' ').nth(place).unwrap().parse::<u64>().unwrap();
            Duration::from_millis(ticks * 10)
        };
        (tick(12), tick(13))
    }

    /// The log of the session, filtered by `keep`.
    pub fn log<T>(&self, keep: impl Fn(Envelope) -> Option<T>) -> Vec<T> {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&self.program);
            command.args(arguments).env("LOGGIA_HOME", self.home.path());
            command.current_dir(self.home.path().join("work")).stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let listed = run(&["sessions", "list", "--all", "--json"]).wait_with_output().unwrap();
        let first = listed.stdout.split(|byte| *byte == b'\n').next().unwrap();
        let listed: Value = serde_json::from_slice(first).unwrap();
        let session = listed["session"].as_str().unwrap();
        let mut export = run(&["sessions", "export", session, "--format", "jsonl"]);
        let lines = BufReader::new(export.stdout.take().unwrap()).lines();
        let kept = lines.filter_map(|line| keep(serde_json::from_str(&line.unwrap()).unwrap()));
        let kept = kept.collect();
        export.wait().unwrap();
        kept
    }

    /// When each piece of text was written, in milliseconds.
    pub fn text_times(&self) -> Vec<i64> {
        self.log(|envelope| match envelope.event {
            Event::TextAppended { .. } => Some(envelope.at.0),
            _ => None,
        })
    }
}

/// A socket that is read frame by frame.
pub struct Watch(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Watch {
    /// The next matching session event.
    pub async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let reading = async {
            loop {
                let message = self.0.next().await.expect("an open socket").expect("a message");
                let Ok(text) = message.to_text() else { continue };
                let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
                if wanted(&value["params"]["event"]) {
                    return value["params"]["event"].clone();
                }
            }
        };
        tokio::time::timeout(TIMEOUT, reading).await.expect("it comes in time")
    }

    pub async fn until_over(&mut self) {
        self.until(|event| event["status"]["state"] == "completed").await;
    }
}

/// Each follower needs a file here and in the server, which inherits the limit.
pub fn allow_many_connections() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let wanted = hard.min(65_536).max(soft);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).expect("more files");
}
