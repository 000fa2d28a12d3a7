//! Push notifications of the real binary: killed between two of them, over TLS, and with canaries
//! in all secrets.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::Served;

const TIMEOUT: Duration = Duration::from_secs(30);

/// One request and its reply channel.
pub struct Call {
    head: String,
    pub body: Value,
    answer: SyncSender<String>,
}

impl Call {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The notification's id, `seq.k`.
    fn place(&self) -> String {
        self.header("webhook-id").unwrap().rsplit_once('-').unwrap().1.to_owned()
    }

    pub fn reply(&self, status: &str) {
        // The server may have been killed.
        let _ = self.answer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    }
}

/// A webhook that replies when the test tells it to.
pub struct Webhook {
    port: u16,
    calls: Receiver<Call>,
}

impl Webhook {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, calls) = sync_channel(64);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || serve(stream, &sender));
            }
        });
        Self { port, calls }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    pub fn next(&self) -> Call {
        self.calls.recv_timeout(TIMEOUT).expect("the webhook is called")
    }
}

fn serve(stream: TcpStream, calls: &SyncSender<Call>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
        });
        let mut body = vec![0; length.unwrap()];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let (answer, answered) = sync_channel(1);
        let body = serde_json::from_slice(&body).unwrap();
        if calls.send(Call { head, body, answer }).is_err() {
            return;
        }
        let Ok(answer) = answered.recv() else { return };
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn message(text: &str, config: &Value) -> Value {
    json!({
        "message": { "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": text }] },
        "configuration": { "returnImmediately": true, "taskPushNotificationConfig": config },
    })
}

fn is_over(body: &Value) -> bool {
    let state = body["statusUpdate"]["status"]["state"].as_str().unwrap_or_default();
    ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"].contains(&state)
}

#[tokio::test]
async fn the_card_says_so_and_so_it_is() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    for path in ["", "/a2a/1.0", "/a2a/0.3"] {
        let card = served.get(&format!("{path}/.well-known/agent-card.json")).await;
        assert_eq!(card["capabilities"]["pushNotifications"], true, "{path}: {card}");
    }
    let webhook = Webhook::start();
    let config = json!({ "url": webhook.url(), "token": "t" });
    let sent = served.call("SendMessage", message("say hello", &config)).await;
    let first = webhook.next();
    assert_eq!(first.body["task"]["id"], sent["result"]["task"]["id"], "{sent}");
    assert_eq!(first.header("x-a2a-notification-token"), Some("t"));
    first.reply("200 OK");
    loop {
        let call = webhook.next();
        call.reply("204 No Content");
        if is_over(&call.body) {
            break;
        }
    }
    // The server refuses itself as a webhook.
    let own = json!({ "url": served.url() });
    let refused = served.call("SendMessage", message("say hello", &own)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

/// A webhook gets what a stream gets: one task, then updates, also if another client writes to the task.
#[tokio::test]
async fn a_webhook_gets_one_task_and_then_updates() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let webhook = Webhook::start();
    let first = message("wait 2s\nsay one", &json!({ "url": webhook.url() }));
    let sent = served.call("SendMessage", first).await;
    let task = sent["result"]["task"]["id"].clone();
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": { "id": task } });
    let stream = served.stream(served.post(&body), usize::MAX);
    let other = async {
        let mut more = message("say two", &Value::Null);
        more["message"]["messageId"] = json!("m2");
        more["message"]["taskId"] = task.clone();
        let sent = served.call("SendMessage", more).await;
        assert_eq!(sent["result"]["task"]["id"], task, "{sent}");
    };
    let (stream, ()) = tokio::join!(stream, other);
    let tasks = stream.iter().filter(|event| event.response["result"].get("task").is_some());
    assert_eq!(tasks.count(), 1, "{stream:#?}");
    let mut bodies = Vec::new();
    while !bodies.last().is_some_and(is_over) {
        let call = webhook.next();
        call.reply("200 OK");
        bodies.push(call.body);
    }
    let whole = bodies.iter().map(|body| body.get("task").is_some()).collect::<Vec<_>>();
    assert!(whole[0] && !whole[1..].contains(&true), "{bodies:#?}");
    assert!(json!(bodies).to_string().contains("two"), "{bodies:#?}");
}

/// A client of one Loggia uses another as its webhook. The notification comes from a process of the
/// same user but must not act as the user.
#[tokio::test]
async fn a_notification_does_not_act_on_another_loggia() {
    let (ours, theirs) = (Machine::new(), Machine::new());
    let sender = Served::shared(&ours, &[]);
    let served = Served::start(&theirs, &["serve", "--port", "0"]);
    let sent = served.call("SendMessage", message("wait 60s", &Value::Null)).await;
    let task = sent["result"]["task"]["id"].as_str().unwrap();
    let webhook = Webhook::start();
    sender.call("SendMessage", message("say x", &json!({ "url": webhook.url() }))).await;
    let call = webhook.next();
    call.reply("410 Gone");
    // The exact notification for this address.
    let address = format!("127.0.0.1:{}", served.port);
    let head = call.head.replace(&format!("127.0.0.1:{}", webhook.port), &address);
    let head = head.replace("POST /hook ", &format!("POST /tasks/{task}:cancel "));
    assert!(head.contains("webhook-id: ") && head.contains(&address), "{head}");
    let post = |head: &str| {
        let mut stream = served.connect();
        let lines = head.trim_end().lines();
        let lines = lines.filter(|line| !line.to_lowercase().starts_with("content-length"));
        let head = lines.collect::<Vec<_>>().join("\r\n");
        let end = "Connection: close\r\nContent-Length: 2\r\n\r\n{}";
        stream.write_all(format!("{head}\r\n{end}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let refused = post(&head);
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("notification"), "{refused}");
    let state = async || {
        let found = served.call("GetTask", json!({ "id": task })).await;
        found["result"]["status"]["state"].clone()
    };
    assert_eq!(state().await, "TASK_STATE_WORKING");
    let unnamed = head.lines().filter(|line| !line.starts_with("webhook-id"));
    let done = post(&unnamed.collect::<Vec<_>>().join("\r\n"));
    assert!(done.starts_with("HTTP/1.1 200 "), "it is refused for nothing else: {done}");
    assert_eq!(state().await, "TASK_STATE_CANCELED");
}

/// R18: a hanging webhook does not delay its task's stream, other streams, another webhook or the
/// shutdown.
#[tokio::test]
async fn a_hanging_webhook_delays_no_other_client() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let (hanging, fast) = (Webhook::start(), Webhook::start());
    let stream = |config: Value| {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage",
            "params": message("say one\nsay two", &config),
        });
        served.stream(served.post(&body), usize::MAX)
    };
    let begun = Instant::now();
    let events = stream(json!({ "url": hanging.url() })).await;
    assert!(is_over(&events.last().unwrap().response["result"]), "{events:?}");
    let held = hanging.next();
    let (one, two) = tokio::join!(stream(json!({ "url": fast.url() })), stream(Value::Null));
    assert_eq!(one.len(), two.len());
    for event in &one {
        let call = fast.next();
        assert_eq!(call.body, event.response["result"]);
        call.reply("200 OK");
    }
    // The webhook timeout is 10 s.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(hanging.calls.try_recv().is_err(), "one at a time");
    held.reply("200 OK");
    assert_eq!(hanging.next().place(), events[1].id);
}

/// Killed during and between notifications: after the restart the webhook has seen every frame of
/// the task in order, and at most the one in flight twice.
#[tokio::test]
async fn killed_between_notifications_it_goes_on() {
    let script = "[[rule]]\nsteps = [ { repeat = 12, step = { text = \"word \", delay = \"4ms\" } }, \
                  { call = \"list_directory\", input = {} }, { text = \"end\" } ]\n";
    for (kill_at, under_way) in [(1, true), (1, false), (4, true), (6, false), (9, true)] {
        let machine = Machine::new();
        let model = machine.script("words.toml", script);
        let arguments = ["serve", "--port", "0", "--model", &model];
        let webhook = Webhook::start();
        let mut served = Served::start(&machine, &arguments);
        let config = json!({ "id": "c", "url": webhook.url() });
        let sent = served.call("SendMessage", message("go", &config)).await;
        let task = sent["result"]["task"]["id"].clone();
        let mut places = Vec::new();
        for n in 1..=kill_at {
            let call = webhook.next();
            places.push(call.place());
            if n < kill_at || !under_way {
                call.reply("200 OK");
            }
            if n == kill_at {
                served.child.kill().unwrap();
                served.child.wait().unwrap();
                call.reply("200 OK");
            }
        }
        // Drain the requests sent before the kill.
        while let Ok(call) = webhook.calls.try_recv() {
            places.push(call.place());
        }
        let served = Served::start(&machine, &arguments);
        loop {
            let call = webhook.next();
            places.push(call.place());
            call.reply("200 OK");
            if is_over(&call.body) {
                break;
            }
        }
        let told = places.len();
        places.dedup();
        assert!(told - places.len() <= 1, "{kill_at}: {places:?}");
        // All frames of this task from the log.
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": { "id": task } });
        let request = served.post(&body).header("Last-Event-ID", "0.0");
        let frames = served.stream(request, usize::MAX).await;
        let frames: Vec<String> = frames.into_iter().map(|event| event.id).collect();
        assert_eq!(places, frames, "killed at {kill_at}, under way: {under_way}");
    }
}

/// P13: canaries in the token, the credentials and the URL; every request fails; they appear only
/// in the database.
#[tokio::test]
async fn secrets_stay_secret() {
    let machine = Machine::new();
    let (log, webhook) = (machine.home().with_file_name("stderr"), Webhook::start());
    let mut command = machine.command(&["serve", "--port", "0"]);
    command.env("LOGGIA_LOG", "trace").stderr(File::create(&log).unwrap());
    let served = Served::spawn(command);
    let canaries = ["canary-token", "canary-credentials", "canary-path", "canary-query"];
    let url = format!("{}/{}?key={}", webhook.url(), canaries[2], canaries[3]);
    let config = json!({
        "id": "c", "url": url, "token": canaries[0],
        "authentication": { "scheme": "Bearer", "credentials": canaries[1] },
    });
    let sent = served.call("SendMessage", message("say hello", &config)).await;
    let task = sent["result"]["task"]["id"].clone();
    for status in ["401 Unauthorized", "302 Found", "500 Oops", "200 OK"] {
        let call = webhook.next();
        assert_eq!(call.header("authorization"), Some("Bearer canary-credentials"));
        assert!(call.head.starts_with("POST /hook/canary-path?key=canary-query HTTP/1.1\r\n"));
        call.reply(status);
    }
    let mut shown = vec![sent.to_string()];
    let which = json!({ "taskId": task, "id": "c" });
    shown.push(served.call("GetTaskPushNotificationConfig", which.clone()).await.to_string());
    shown.push(served.call("ListTaskPushNotificationConfigs", which.clone()).await.to_string());
    shown.push(served.call("GetTask", json!({ "id": task })).await.to_string());
    served.call("DeleteTaskPushNotificationConfig", which).await;
    drop(served);
    for text in &shown {
        for secret in &canaries[..2] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("a notification was not delivered"), "{log}");
    let session = machine.sessions().remove(0);
    let exported = format!("{:?}", machine.log(&session));
    for secret in canaries {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
        assert!(!exported.contains(secret), "{secret}");
    }
}

/// TLS with a trusted and with an unknown certificate.
#[tokio::test]
async fn https_is_checked() {
    const SERVER: &str = r#"
import http.server, ssl, sys
class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        print(body.decode(), flush=True)
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;
    let machine = Machine::new();
    let [key, known, script] =
        ["key.pem", "known.pem", "hook.py"].map(|name| machine.home().with_file_name(name));
    std::fs::write(&script, SERVER).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout"]).arg(&key);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost", "-out"]).arg(&known);
    let made = openssl.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(made.expect("openssl is needed").success());
    let mut hook = Command::new("python3");
    let mut hook = hook.arg(&script).args([&known, &key]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(hook.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (sender, said) = sync_channel(64);
    std::thread::spawn(move || lines.for_each(|line| sender.send(line).unwrap_or_default()));
    let port = said.recv_timeout(TIMEOUT).unwrap();
    let url = format!("https://localhost:{port}/hook");

    // Unknown: retried, and nothing is delivered.
    let log = machine.home().with_file_name("stderr");
    let mut command = machine.command(&["serve", "--port", "0"]);
    command.env("LOGGIA_LOG", "loggia_server=info").stderr(File::create(&log).unwrap());
    let served = Served::spawn(command);
    let sent = served.call("SendMessage", message("say hello", &json!({ "url": url }))).await;
    let task = sent["result"]["task"]["id"].clone();
    let begun = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains("its certificate is not accepted") {
        assert!(begun.elapsed() < TIMEOUT, "{}", std::fs::read_to_string(&log).unwrap());
        tokio::task::yield_now().await;
    }
    drop(served);
    // Now trusted: the pending notifications arrive from the beginning.
    let mut command = machine.command(&["serve", "--port", "0"]);
    command.env("SSL_CERT_FILE", &known);
    let served = Served::spawn(command);
    let first = said.recv_timeout(TIMEOUT);
    drop(served);
    hook.kill().unwrap();
    hook.wait().unwrap();
    let first: Value = serde_json::from_str(&first.expect("it is told")).unwrap();
    assert_eq!(first["task"]["id"], task);
}
