//! A42: canaries in all secrets, provoked in all errors and logs, and a search through everything
//! written, sent and printed.
//!
//! Webhook secrets are stored in the database, because they are needed after a restart. The output
//! of a command is stored in its session unfiltered. Model providers and MCP servers do not exist
//! yet; their secrets must not be passed on either.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::driver::Machine;
use crate::oauth::{FORM, register};
use crate::push::Webhook;
use crate::screen::Screen;
use crate::served::{EXTENSION, Served, text_message};

const TOKEN_FILE: &str = "canary-token-file-0123456789abcdef";
const PROVIDER_KEY: &str = "canary-provider-key";
const WEBHOOK: [&str; 2] = ["canary-webhook-token", "canary-webhook-credentials"];
const USERINFO: &str = "canary-userinfo";
const GIT: &str = "canary-git-password";
const MCP: &str = "canary-mcp-environment";

#[tokio::test]
async fn canaries_are_written_down_nowhere() {
    let machine = Machine::new();
    let everything = ["--scope", "read,prompt,approve"];
    let ann = register(&machine, "ann", &everything);
    let tokens = machine.tokens(&format!("kit:{TOKEN_FILE}\n"));
    let (host, connections) = refusing();
    let kept = private(&machine, "git-credentials", &format!("me:{GIT}\n"));
    machine.configure(&format!(
        "[server]\nwebhook_hosts = ['localhost']\n[server.clones]\nprivate_hosts = ['{host}']\ncredentials = ['{host}={}']\n",
        kept.display()
    ));
    let log = machine.home().with_file_name("stderr");
    let arguments =
        ["serve", "--port", "0", "--approve", "all", "--require-token", "--token-file", &tokens];
    let mut command = with_keys(machine.command(&arguments));
    command
        .env("LOGGIA_LOG", "trace,tungstenite::protocol=trace")
        .stderr(File::create(&log).unwrap());
    let served = Served::spawn(command);
    let token = ann.token(&served).await;

    let mut shown = vec![streamed(&served).await];
    shown.push(over_a_socket(&served).await);
    shown.extend(webhook(&served).await);
    shown.extend(repositories(&served, &host, &connections).await);
    let settings = json!({ "mcpServers": { "x": { "command": "x", "env": { "KEY": MCP } } } });
    shown.push(send(&served, "say hi", settings).await.to_string());
    for list in [["GetExtendedAgentCard", "{}"], ["ListTasks", r#"{"historyLength":100}"#]] {
        let params = serde_json::from_str(list[1]).unwrap();
        shown.push(served.call_as(TOKEN_FILE, "/", list[0], params).await.to_string());
    }
    attached(&machine, &served, &tokens);
    // Last, because the client is slowed down afterwards.
    shown.extend(refused(&served, &ann.secret, &token).await);
    for arguments in [&["config"][..], &["doctor"], &["clients", "list"], &["sessions", "list"]] {
        let printed = with_keys(machine.command(arguments)).output().unwrap();
        shown.extend([printed.stdout, printed.stderr].map(|out| String::from_utf8(out).unwrap()));
    }
    drop(served);

    let traced = std::fs::read_to_string(&log).unwrap();
    assert!(traced.contains("TRACE"), "it did say everything");
    let canaries: Vec<String> =
        [TOKEN_FILE, PROVIDER_KEY, WEBHOOK[0], WEBHOOK[1], USERINFO, GIT, MCP]
            .map(str::to_owned)
            .into_iter()
            .chain([ann.secret.clone(), token.rsplit('.').next().unwrap().to_owned()])
            .flat_map(|canary| {
                [format!("me:{canary}"), format!("ann:{canary}")]
                    .map(encoded)
                    .into_iter()
                    .chain([canary])
            })
            .collect();
    for (number, text) in shown.iter().enumerate() {
        for canary in &canaries {
            assert!(!text.contains(canary), "{canary} was shown ({number}): {text}");
        }
    }
    let given = [PathBuf::from(&tokens), kept];
    let files = files_below(machine.home().parent().unwrap());
    assert!(files.iter().any(|file| is_database(file)), "{files:?}");
    for file in files.iter().filter(|file| !given.contains(file)) {
        let bytes = std::fs::read(file).unwrap();
        for canary in &canaries {
            let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            let stated = is_database(file) && WEBHOOK.contains(&canary.as_str());
            assert!(!found || stated, "{} holds {canary}", file.display());
        }
    }
}

fn encoded(text: String) -> String {
    STANDARD.encode(text)
}

/// Provider keys, as people set them in their environment.
fn with_keys(mut command: std::process::Command) -> std::process::Command {
    let names = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GITHUB_TOKEN"];
    // A key would choose the model of a provider.
    command.envs(names.map(|name| (name, PROVIDER_KEY))).env("LOGGIA_MODEL", "offline");
    command
}

fn private(machine: &Machine, name: &str, text: &str) -> PathBuf {
    let path = machine.home().with_file_name(name);
    std::fs::write(&path, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    path
}

fn is_database(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("loggia.db"))
}

pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .flat_map(|entry| match entry.file_type().unwrap() {
            kind if kind.is_dir() => files_below(&entry.path()),
            kind if kind.is_file() => vec![entry.path()],
            _ => Vec::new(),
        })
        .collect()
}

/// Almost right, in the wrong place, and in the URL: what a 401 or its log could repeat.
async fn refused(served: &Served, secret: &str, token: &str) -> Vec<String> {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let in_address = format!("http://kit:{TOKEN_FILE}@127.0.0.1:{}/tasks", served.port);
    let form = |secret: &str| {
        format!("grant_type=client_credentials&client_id=ann&client_secret={secret}")
    };
    let token_form = |body: String| {
        served.request("POST", "/oauth/token").header("Content-Type", FORM).body(body)
    };
    let attempts = [
        served.post(&list).bearer_auth(format!("{TOKEN_FILE}x")),
        served.post(&list).bearer_auth(format!("{token}x")),
        served.request("GET", "/v1/tasks").basic_auth("kit", Some(TOKEN_FILE)),
        served.request("GET", &format!("/tasks?access_token={TOKEN_FILE}")),
        served.client.get(in_address),
        token_form(form(&format!("{secret}x"))),
        token_form(format!("{}&scope=nothing", form(secret))),
        token_form(format!("{}&client_secret={secret}", form(secret))),
        served.request("POST", &format!("/oauth/token?client_secret={secret}")),
    ];
    let mut shown = Vec::new();
    for attempt in attempts {
        let answer = attempt.send().await.unwrap();
        assert!(answer.status().is_client_error(), "{answer:?}");
        shown.push(format!("{:?} {}", answer.headers().clone(), answer.text().await.unwrap()));
    }
    let header = ("Authorization", format!("Bearer {TOKEN_FILE}x"));
    shown.push(format!("{:?}", served.upgrade("", [header]).await.err().unwrap()));
    shown
}

/// All events of a turn whose command prints its environment.
async fn streamed(served: &Served) -> String {
    let params = json!({ "message": text_message("run env") });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": params });
    let request = served.post(&body).header("X-A2A-Extensions", EXTENSION).bearer_auth(TOKEN_FILE);
    let text = request.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("PATH="), "{text}");
    text
}

async fn over_a_socket(served: &Served) -> String {
    let mut socket = served.socket_with("", Some(TOKEN_FILE)).await;
    let params =
        json!({ "message": text_message("say hi"), "configuration": { "blocking": true } });
    socket.send(1, "message/send", params).await;
    socket.until(|value| value["id"] == 1).await;
    socket.send(2, "no/such/method", json!({})).await;
    socket.until(|value| value["id"] == 2).await;
    // Webhook secrets in a message on the socket, for an address without a listener.
    let authentication = json!({ "schemes": ["Bearer"], "credentials": WEBHOOK[1] });
    let webhook = json!({
        "url": "http://127.0.0.1:9/", "token": WEBHOOK[0], "authentication": authentication,
    });
    let configuration = json!({ "blocking": true, "pushNotificationConfig": webhook });
    let params = json!({ "message": text_message("say hi"), "configuration": configuration });
    socket.send(3, "message/send", params).await;
    let answer = socket.until(|value| value["id"] == 3).await;
    assert!(answer["result"].is_object(), "{answer}");
    format!("{:?}", socket.seen)
}

/// A terminal on one of the sessions, with debug logs.
fn attached(machine: &Machine, served: &Served, tokens: &str) {
    let (url, session) = (format!("localhost:{}", served.port), machine.sessions().remove(0));
    let arguments = ["attach", &url, "--session", &session, "--token-file", tokens];
    let mut screen = Screen::sized(machine, &arguments, &[("LOGGIA_LOG", "trace")], (100, 30));
    screen.sees("what shall I do?").types("\x04").sees("code 0");
    let log = std::fs::read_to_string(machine.home().join("state/loggia.log")).unwrap();
    assert!(log.contains("TRACE"), "it did say everything");
}

/// Refused, failed, then delivered; and one with a password in its URL.
async fn webhook(served: &Served) -> Vec<String> {
    let webhook = Webhook::start();
    let config = |url: String| {
        let authentication = json!({ "scheme": "Bearer", "credentials": WEBHOOK[1] });
        json!({ "id": "c", "url": url, "token": WEBHOOK[0], "authentication": authentication })
    };
    let message = |config| {
        let message =
            json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": "say" }] });
        let configuration =
            json!({ "returnImmediately": true, "taskPushNotificationConfig": config });
        json!({ "message": message, "configuration": configuration })
    };
    let sent = served.call_as(TOKEN_FILE, "/", "SendMessage", message(config(webhook.url()))).await;
    let mut shown = vec![sent.to_string()];
    for status in ["401 Unauthorized", "500 Oops", "200 OK"] {
        let call = webhook.next();
        assert_eq!(call.header("authorization"), Some(format!("Bearer {}", WEBHOOK[1]).as_str()));
        shown.push(call.body.to_string());
        call.reply(status);
    }
    let url = webhook.url().replace("http://", &format!("http://me:{USERINFO}@"));
    let refused = served.call_as(TOKEN_FILE, "/", "SendMessage", message(config(url))).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    shown.push(refused.to_string());
    shown
}

async fn send(served: &Served, text: &str, settings: Value) -> Value {
    let mut message = text_message(text);
    message["metadata"] = json!({ EXTENSION: settings });
    let params = json!({ "message": message, "configuration": { "blocking": true } });
    served.call_as(TOKEN_FILE, "/", "message/send", params).await
}

/// A password in a repository URL is refused. A configured one is used for its host and appears in
/// no message. The cloning tests show that it arrives there only.
async fn repositories(served: &Served, host: &str, connections: &Receiver<()>) -> Vec<String> {
    let repository = |url: String| json!({ "repository": { "url": url } });
    let refused = repository(format!("https://me:{USERINFO}@{host}/x.git"));
    let refused = send(served, "say hi", refused).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let failed = send(served, "say hi", repository(format!("https://{host}/x.git"))).await;
    assert_eq!(failed["result"]["status"]["state"], "failed", "{failed}");
    assert!(connections.try_recv().is_ok(), "the host was asked: {failed}");
    vec![refused.to_string(), failed.to_string()]
}

/// A host that closes every connection and counts them.
fn refusing() -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (sender, connections) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            drop(stream);
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    (host, connections)
}
