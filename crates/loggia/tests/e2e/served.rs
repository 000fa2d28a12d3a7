//! A server process of the real binary, and its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{Connector, connect_async_tls_with_config};

use crate::authority::Authority;
use crate::driver::Machine;

/// The extension of S1.
pub const EXTENSION: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running server, killed when the test ends.
pub struct Served {
    pub child: Child,
    pub port: u16,
    pub client: reqwest::Client,
    /// The TLS client configuration, if it uses TLS.
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One event of a stream: its id and the whole response.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: String,
    pub response: Value,
}

impl Served {
    pub fn start(machine: &Machine, arguments: &[&str]) -> Self {
        Self::spawn(machine.command(arguments))
    }

    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("it says where it serves").unwrap();
        let address = line.split("://").nth(1).expect(&line).split_whitespace().next().unwrap();
        let port = address.rsplit(':').next().unwrap().parse().expect(&line);
        // Drain the output, so that the server never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port, client: reqwest::Client::new(), tls: None }
    }

    /// A TLS server with clients that trust this authority.
    pub fn encrypted(machine: &Machine, authority: &Authority, arguments: &[&str]) -> Self {
        let files = authority.flags();
        let arguments: Vec<&str> =
            arguments.iter().copied().chain(files.iter().map(String::as_str)).collect();
        let served = Self::start(machine, &arguments);
        Self::believing(served, authority)
    }

    pub fn believing(mut self, authority: &Authority) -> Self {
        self.client = authority.web_client();
        self.tls = Some(authority.client());
        self
    }

    /// A URL of this server for HTTP or WebSocket.
    fn address(&self, scheme: &str, path: &str) -> String {
        let secure = if self.tls.is_some() { "s" } else { "" };
        format!("{scheme}{secure}://127.0.0.1:{}{path}", self.port)
    }

    /// One shared session.
    pub fn shared(machine: &Machine, more: &[&str]) -> Self {
        Self::start(machine, &[&["--a2a-port", "0"], more].concat())
    }

    pub fn url(&self) -> String {
        self.address("http", "/")
    }

    /// Resident memory, in KiB.
    pub fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Peak resident memory in KiB.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// A number from `/proc/PID/status`.
    fn status(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Waits until the process has ended.
    pub fn ended(&mut self, within: Duration) -> std::process::ExitStatus {
        let begun = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < within, "it has not ended after {within:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let process = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(process, signal).unwrap();
    }

    /// The health check on a separate connection.
    pub fn is_well(&self) -> bool {
        let mut stream = self.connect();
        let head = format!(
            "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            self.port
        );
        let mut answer = String::new();
        stream.write_all(head.as_bytes()).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.1 200")
    }

    pub fn connect(&self) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    pub fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        self.client.post(self.url()).json(body).timeout(TIMEOUT)
    }

    /// A request that is not a JSON-RPC call.
    pub fn request(&self, method: impl AsRef<str>, path: &str) -> reqwest::RequestBuilder {
        let url = self.address("http", path);
        self.client.request(method.as_ref().parse().unwrap(), url).timeout(TIMEOUT)
    }

    /// A call with a token. For a stream, the result is its first event.
    pub async fn call_as(&self, token: &str, path: &str, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let request = self.request("POST", path).json(&body).bearer_auth(token);
        let text = request.send().await.unwrap().text().await.unwrap();
        let first = text.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(first.unwrap_or(&text)).expect(&text)
    }

    /// The number of open files of the process.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// One call, one reply.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.post(&body).send().await.unwrap().json().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Value {
        let url = self.address("http", path);
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }

    /// Reads a stream to its end or until `enough` events came.
    pub async fn stream(&self, request: reqwest::RequestBuilder, enough: usize) -> Vec<Event> {
        let mut bytes = request.send().await.unwrap().bytes_stream();
        let mut text = String::new();
        let mut events = Vec::new();
        while let Some(chunk) = bytes.next().await {
            text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                events.extend(read_event(event));
                text = rest.to_owned();
                if events.len() >= enough {
                    return events;
                }
            }
        }
        events
    }

    /// `message/stream` with the extension.
    pub fn tool_stream(&self, message: Value) -> reqwest::RequestBuilder {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": { "message": message } });
        self.post(&body).header("X-A2A-Extensions", EXTENSION)
    }

    pub async fn socket(&self, query: &str) -> Socket {
        self.socket_with(query, None).await
    }

    pub async fn socket_with(&self, query: &str, token: Option<&str>) -> Socket {
        let token = token.map(|token| ("Authorization", format!("Bearer {token}")));
        self.upgrade(query, token).await.unwrap()
    }

    /// The socket, or the response to a refused upgrade.
    pub async fn upgrade(
        &self,
        query: &str,
        headers: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Socket, (u16, Value)> {
        let url = self.address("ws", &format!("/ws{query}"));
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let connector = match &self.tls {
            Some(tls) => Connector::Rustls(tls.clone()),
            None => Connector::Plain,
        };
        let connecting = connect_async_tls_with_config(request, None, false, Some(connector));
        match connecting.await {
            Ok((stream, _)) => Ok(Socket { stream, seen: Vec::new() }),
            Err(tungstenite::Error::Http(response)) => {
                let body = response.body().clone().unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                Err((response.status().as_u16(), body))
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn read_event(text: &str) -> Option<Event> {
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap_or_default();
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    Some(Event { id: id.to_owned(), response: serde_json::from_str(data).unwrap() })
}

type Stream =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// A WebSocket client.
pub struct Socket {
    pub stream: Stream,
    pub seen: Vec<Value>,
}

impl Socket {
    pub async fn connect(port: u16, query: &str) -> Self {
        let url = format!("ws://127.0.0.1:{port}/ws{query}");
        let (stream, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        Self { stream, seen: Vec::new() }
    }

    pub async fn send(&mut self, id: u64, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.stream.send(Message::text(body.to_string())).await.unwrap();
    }

    /// The same without flushing.
    pub async fn feed(&mut self, id: u64, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.stream.feed(Message::text(body.to_string())).await.unwrap();
    }

    /// Reads to the end and returns the close code.
    pub async fn end(&mut self) -> Option<CloseCode> {
        loop {
            match tokio::time::timeout(TIMEOUT, self.stream.next()).await.expect("an end") {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Reads until a frame matches and returns it; all frames are kept.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.stream.next()).await;
            let Ok(Some(Ok(message))) = next else {
                panic!("nothing fitted; seen so far: {:#?}", self.seen);
            };
            if let Message::Text(text) = message {
                let value: Value = serde_json::from_str(&text).unwrap();
                self.seen.push(value.clone());
                if fits(&value) {
                    return value;
                }
            }
        }
    }

    /// The received session frames with their ids.
    pub fn followed(&self) -> Vec<(String, Value)> {
        let events = self.seen.iter().filter(|value| value["method"] == "session/event");
        let place = |value: &Value| value["params"]["id"].as_str().unwrap().to_owned();
        events.map(|value| (place(value), value["params"]["event"].clone())).collect()
    }
}

pub fn text_message(text: &str) -> Value {
    json!({ "kind": "message", "role": "user", "messageId": "m", "parts": [{ "kind": "text", "text": text }] })
}

/// S1's `ToolCallConfirmation`.
pub fn confirmation(task: &Value, call: &Value, choice: &str) -> Value {
    json!({
        "kind": "message", "role": "user", "messageId": "c", "taskId": task,
        "parts": [{ "kind": "data", "data": { "tool_call_id": call, "selected_option_id": choice } }],
    })
}

/// A short form of a 0.3 frame of the extension.
pub fn short(frame: &Value) -> String {
    if frame["kind"] == "task" {
        return format!("Task {}", frame["status"]["state"].as_str().unwrap());
    }
    let kind = frame["metadata"][EXTENSION]["kind"].as_str().unwrap_or("?");
    let part = &frame["status"]["message"]["parts"][0];
    let about = match kind {
        "TOOL_CALL_UPDATE" => part["data"]["status"].as_str().unwrap_or("?"),
        "TEXT_CONTENT" => part["text"].as_str().unwrap_or("?"),
        "THOUGHT" => part["data"]["subject"].as_str().unwrap_or("?"),
        _ => frame["status"]["state"].as_str().unwrap_or("?"),
    };
    let last = if frame["final"] == true { " final" } else { "" };
    format!("{kind} {about}{last}")
}

/// The call that these frames ask about.
pub fn asked(frames: &[Event]) -> (Value, Value) {
    let frame = frames.iter().map(|event| &event.response["result"]).find(|frame| {
        frame["status"]["message"]["parts"][0]["data"]["confirmation_request"].is_object()
    });
    let frame = frame.expect("a question");
    (
        frame["taskId"].clone(),
        frame["status"]["message"]["parts"][0]["data"]["tool_call_id"].clone(),
    )
}
