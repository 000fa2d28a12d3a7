//! Refusals on every binding: processes that the server cannot see, choices of the owner, and webhooks on loopback.

use std::net::TcpListener;
use std::process::Command;

use loggia_core::Event;
use serde_json::{Value, json};

use crate::bindings::{Grpc, V1, V03};
use crate::driver::Machine;
use crate::oauth::register;
use crate::served::{EXTENSION, Served, text_message};

const ANN: &str = "ann-0123456789abcdef0123456789abcdef";

/// A server in a process namespace of its own, so that no process of this test is visible to it. No call of another
/// server is, either.
fn apart(machine: &Machine, arguments: &[&str]) -> Served {
    let tokens = machine.tokens(&format!("ann:{ANN}\n"));
    let mut command = Command::new("unshare");
    command.args(["-pf", "--mount-proc", "--kill-child"]).arg(Machine::program());
    command.args(["serve", "--port", "0", "--approve", "all", "--token-file", &tokens]);
    command.args(arguments);
    Served::spawn(machine.prepare(command))
}

/// The answer on a new connection.
async fn asked_anew(served: &Served, token: Option<&str>) -> (u16, Value) {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let request = reqwest::Client::new().post(served.url()).json(&list);
    let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// A15: a process that the server cannot see may be a command of the agent, so it gets nothing, with any token. The
/// operator can admit such processes with a token, by a flag or in the user's own file; a project cannot.
#[tokio::test]
async fn a_hidden_process_gets_nothing_unless_the_operator_allows_it() {
    let setting = "[server]\nallow_hidden_peers = true\n";
    for (what, flags, own_file, project_file, allowed) in [
        ("default", &[][..], "", "", false),
        ("flag", &["--allow-hidden-peers"], "", "", true),
        ("own file", &[], setting, "", true),
        ("project's file", &[], "", setting, false),
    ] {
        let machine = Machine::new();
        machine.configure(own_file);
        if !project_file.is_empty() {
            machine.write(".loggia/config.toml", project_file);
            assert_eq!(machine.run(&["trust"]).code, 0);
            let shown = machine.run(&["config"]);
            let said = format!("{}{}", shown.out, shown.err);
            assert!(said.contains("`server.allow_hidden_peers` in your own file"), "{said}");
        }
        let served = apart(&machine, flags);
        let (status, without) = asked_anew(&served, None).await;
        let (with_token, told) = asked_anew(&served, Some(ANN)).await;
        if allowed {
            assert_eq!((status, with_token), (401, 200), "{what}: {without} {told}");
        } else {
            assert_eq!((status, with_token), (403, 403), "{what}: {without} {told}");
            assert_eq!(told["error"]["data"]["reason"], "hidden-process", "{told}");
            assert!(told.to_string().contains("--allow-hidden-peers"), "{told}");
        }
    }
}

/// Where hidden processes are allowed, they are refused while a command of the agent runs.
#[tokio::test]
async fn an_allowed_hidden_process_is_refused_while_a_command_runs() {
    let machine = Machine::new();
    let served = apart(&machine, &["--allow-hidden-peers"]);
    let params =
        json!({ "message": text_message("run touch began; until [ -e end ]; do sleep 0.1; done") });
    // A connection is judged once, so this one stays open for both.
    let begun = served.call_as(ANN, "/", "message/send", params).await;
    assert!(begun["result"]["id"].is_string(), "{begun}");
    while machine.read("began").is_none() {
        tokio::task::yield_now().await;
    }
    let (status, told) = asked_anew(&served, Some(ANN)).await;
    assert!(status == 403 && told.to_string().contains("is running"), "{status} {told}");
    machine.write("end", "");
    let is_over = async || {
        let id = json!({ "id": begun["result"]["id"] });
        let task = served.call_as(ANN, "/", "tasks/get", id).await;
        task["result"]["status"]["state"] == "completed"
    };
    while !is_over().await {}
    assert_eq!(asked_anew(&served, Some(ANN)).await.0, 200);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Binding {
    Rpc03,
    Rpc1,
    Rest03,
    Rest1,
    Grpc03,
    Grpc1,
    Socket,
}

const BINDINGS: [Binding; 7] = [
    Binding::Rpc03,
    Binding::Rpc1,
    Binding::Rest03,
    Binding::Rest1,
    Binding::Grpc03,
    Binding::Grpc1,
    Binding::Socket,
];

/// A client on this server with a token.
struct Remote<'a> {
    served: &'a Served,
    token: String,
}

impl Remote<'_> {
    /// The whole answer to a message, whatever it is.
    async fn send(&self, over: Binding, text: &str, task: &Value, webhook: Option<&str>) -> String {
        let mut old = text_message(text);
        let mut new = json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": text }] });
        let mut proto =
            json!({ "role": "ROLE_USER", "messageId": "m", "content": [{ "text": text }] });
        if task.is_string() {
            for message in [&mut old, &mut new, &mut proto] {
                message["taskId"] = task.clone();
            }
        }
        let mut old = json!({ "message": old, "configuration": { "blocking": false } });
        let mut new = json!({ "message": new, "configuration": { "returnImmediately": true } });
        let mut proto = json!({ "message": proto, "configuration": { "blocking": false } });
        if let Some(url) = webhook {
            old["configuration"]["pushNotificationConfig"] = json!({ "url": url });
            new["configuration"]["taskPushNotificationConfig"] = json!({ "url": url });
            proto["configuration"]["pushNotification"] = json!({ "url": url });
        }
        match over {
            Binding::Rpc03 => self.rpc("message/send", old).await,
            Binding::Rpc1 => self.rpc("SendMessage", new).await,
            Binding::Rest03 => self.rest("/v1/message:send", proto).await,
            Binding::Rest1 => self.rest("/message:send", new).await,
            Binding::Grpc03 => self.grpc(V03, proto).await,
            Binding::Grpc1 => self.grpc(V1, new).await,
            Binding::Socket => {
                let mut socket = self.served.socket_with("", Some(&self.token)).await;
                socket.send(1, "message/send", old).await;
                socket.until(|value| value["id"] == 1).await.to_string()
            }
        }
    }

    async fn rpc(&self, method: &str, params: Value) -> String {
        self.served.call_as(&self.token, "/", method, params).await.to_string()
    }

    async fn rest(&self, path: &str, body: Value) -> String {
        let request = self.served.request("POST", path).bearer_auth(&self.token).json(&body);
        request.send().await.unwrap().text().await.unwrap()
    }

    async fn grpc(&self, service: &str, message: Value) -> String {
        let mut grpc = Grpc::connect(self.served.port).await;
        let token = format!("Bearer {}", self.token);
        let metadata = [("authorization", token.as_str())];
        let answer = grpc.call_with(service, "SendMessage", message, &metadata).await;
        let said = answer.headers.get("grpc-message").map(|said| said.to_str().unwrap());
        let said = said.unwrap_or_default().replace("%20", " ");
        format!("{} {said} {:?}", answer.code, answer.messages)
    }
}

fn events(machine: &Machine, fits: impl Fn(&Event) -> bool) -> usize {
    let log = machine.log(&machine.sessions()[0]);
    log.iter().filter(|envelope| fits(&envelope.event)).count()
}

/// A20: a client with every scope cannot allow something for the whole project.
#[tokio::test]
async fn a_choice_of_the_owner_is_refused_on_every_binding() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &["--scope", "read,prompt,approve"]);
    let served = Served::shared(&machine, &[]);
    let ann = Remote { served: &served, token: ann.token(&served).await };
    let begin =
        json!({ "message": text_message("run touch X"), "configuration": { "blocking": true } });
    let begun = served.call_as(&ann.token, "/", "message/send", begin).await;
    let task = begun["result"]["id"].clone();
    for over in BINDINGS {
        let refused = ann.send(over, "proceed_always_project", &task, None).await;
        assert!(refused.contains("only for the user who runs Loggia"), "{over:?}: {refused}");
        let named = refused.to_lowercase().replace('_', "-").contains("owner-only");
        assert!(named || refused.starts_with("7 "), "{over:?}: {refused}");
    }
    let answered = |event: &Event| matches!(event, Event::ApprovalAnswered { .. });
    assert_eq!(events(&machine, answered), 0, "the question is still open");
    assert_eq!(machine.run(&["approvals", "list"]).out, "");
    let allowed = ann.send(Binding::Rpc1, "proceed_once", &task, None).await;
    assert!(allowed.contains("TASK_STATE"), "{allowed}");
}

/// A33: services on the server's loopback trust its processes, so only the local user may have them called.
#[tokio::test]
async fn a_webhook_on_loopback_is_refused_to_remote_clients_on_every_binding() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &["--scope", "read,prompt,approve"]);
    let served = Served::shared(&machine, &[]);
    let ann = Remote { served: &served, token: ann.token(&served).await };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let own = ann.send(Binding::Rpc03, "say one", &Value::Null, None).await;
    let own: Value = serde_json::from_str(&own).unwrap();
    let task = own["result"]["id"].as_str().unwrap();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let url = format!("http://{host}:{port}/");
        let mut told = Vec::new();
        for over in BINDINGS {
            told.push((over, ann.send(over, "say two", &Value::Null, Some(&url)).await));
        }
        // The same by method, for a task of its own.
        let old = json!({ "taskId": task, "pushNotificationConfig": { "url": url } });
        let new = json!({ "taskId": task, "url": url });
        told.push((Binding::Rpc03, ann.rpc("tasks/pushNotificationConfig/set", old).await));
        told.push((Binding::Rpc1, ann.rpc("CreateTaskPushNotificationConfig", new.clone()).await));
        let path = format!("/tasks/{task}/pushNotificationConfigs");
        told.push((Binding::Rest1, ann.rest(&path, new).await));
        for (over, refused) in told {
            let why = "only the user of this machine may name an address on it";
            assert!(refused.contains(why), "{over:?} {url}: {refused}");
        }
    }
    let prompt = |event: &Event| matches!(event, Event::PromptAccepted { .. });
    assert_eq!(events(&machine, prompt), 1, "a message with such a webhook is no prompt");
    assert!(listener.accept().is_err(), "nothing was called");
}

/// S1: `command/execute` belongs to the extension, so its task has the extension's form for clients that leave the header
/// out, then and later.
#[tokio::test]
async fn the_task_of_a_command_has_the_extensions_form_without_the_header() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let mut forms = Vec::new();
    for header in [false, true] {
        let call = |method: &str, params: Value| {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let request = served.post(&body);
            if header { request.header("X-A2A-Extensions", EXTENSION) } else { request }
        };
        let command = json!({ "command_path": ["help"], "args": "" });
        let ran = call("command/execute", command).send().await.unwrap();
        let ran: Value = ran.json().await.unwrap();
        let id = json!({ "id": ran["result"]["execution_id"] });
        let mut task = Value::Null;
        while task["result"]["status"]["state"] != "completed" {
            task = call("tasks/get", id.clone()).send().await.unwrap().json().await.unwrap();
        }
        let frames = served.stream(call("tasks/resubscribe", id), usize::MAX).await;
        let kinds = |frame: &Value| frame["metadata"][EXTENSION]["kind"].clone();
        let kinds: Vec<Value> =
            frames.iter().map(|frame| kinds(&frame.response["result"])).collect();
        assert!(kinds.contains(&json!("TEXT_CONTENT")), "{header}: {frames:?}");
        forms.push(kinds);
    }
    assert_eq!(forms[0], forms[1]);
    let log = machine.log("slash-commands");
    let profiles = log.iter().filter_map(|envelope| match &envelope.event {
        Event::PromptAccepted { content, .. } => Some(content.profile.clone()),
        _ => None,
    });
    assert_eq!(profiles.collect::<Vec<_>>(), vec![Some("development-tool".to_owned()); 2]);
}

/// A webhook reads the task, so naming one needs the scope `read` on every binding, also for tasks of others in a shared
/// session.
#[tokio::test]
async fn a_client_that_may_not_read_registers_no_webhook() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &["--scope", "prompt"]);
    let served = Served::shared(&machine, &[]);
    let ann = Remote { served: &served, token: ann.token(&served).await };
    let params =
        json!({ "message": text_message("say one"), "configuration": { "blocking": true } });
    let own = served.call("message/send", params).await;
    let task = own["result"]["id"].as_str().unwrap();
    let url = "https://hooks.example/";
    let mut told = Vec::new();
    for over in BINDINGS {
        if !matches!(over, Binding::Socket) {
            told.push((over, ann.send(over, "say two", &Value::Null, Some(url)).await));
        }
    }
    let old = json!({ "taskId": task, "pushNotificationConfig": { "url": url } });
    let new = json!({ "taskId": task, "url": url });
    told.push((Binding::Rpc03, ann.rpc("tasks/pushNotificationConfig/set", old).await));
    told.push((Binding::Rpc1, ann.rpc("CreateTaskPushNotificationConfig", new.clone()).await));
    let path = format!("/tasks/{task}/pushNotificationConfigs");
    told.push((Binding::Rest1, ann.rest(&path, new).await));
    for (over, refused) in told {
        let refused = refused.replace("%60", "`");
        assert!(refused.contains("`read`"), "{over:?}: {refused}");
    }
    let prompt = |event: &Event| matches!(event, Event::PromptAccepted { .. });
    assert_eq!(events(&machine, prompt), 1, "a message with such a webhook is no prompt");
}
