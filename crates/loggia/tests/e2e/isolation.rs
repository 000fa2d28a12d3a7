//! A13: a client's token never reveals another client's task, on any route or method. Another
//! client's task looks exactly like one that does not exist.
//!
//! Two tables contain every route and every method. A missing one fails the test; adding one takes
//! a line.

use std::time::{Duration, Instant};

use loggia_core::Event;
use loggia_server::grpc::transcode;
use loggia_wire::View;
use regex::Regex;
use serde_json::{Value, json};

use crate::bindings::{Grpc, V1, V03};
use crate::driver::Machine;
use crate::oauth::{Registered, register};
use crate::served::{Served, Socket, confirmation, text_message};

#[path = "isolation/tables.rs"]
mod tables;
use tables::{FALLBACK, HTTP_JSON, Probe, ROUTES, Tried};

/// The least time of an answer that a task does not exist.
const FLOOR: Duration = Duration::from_millis(5);

/// Every method with a request of another client. `{task}` and `{context}` are the owner's ids.
fn methods() -> Vec<(&'static str, Value)> {
    let named = json!({ "id": "{task}" });
    let push = json!({ "url": "https://example.com/hook" });
    let mut more = text_message("yes");
    more["taskId"] = json!("{task}");
    let mut both = more.clone();
    both["contextId"] = json!("{context}");
    let mut fresh = text_message("say x");
    fresh["contextId"] = json!("{context}");
    let answer = confirmation(&json!("{task}"), &json!("call-1"), "proceed_once");
    let mut elsewhere = answer.clone();
    elsewhere["taskId"].take();
    elsewhere["contextId"] = json!("{context}");
    let of_1 = |task: Option<&str>, context: Option<&str>| {
        let mut message =
            json!({ "role": "ROLE_USER", "messageId": "1", "parts": [{ "text": "say x" }] });
        for (name, id) in [("taskId", task), ("contextId", context)] {
            if let Some(id) = id {
                message[name] = json!(id);
            }
        }
        json!({ "message": message })
    };
    let message = |message: &Value| json!({ "message": message });
    vec![
        ("message/send", message(&more)),
        ("message/send", message(&both)),
        ("message/send", json!({ "message": fresh, "configuration": { "blocking": true } })),
        ("message/send", message(&answer)),
        ("message/send", message(&elsewhere)),
        ("message/stream", message(&more)),
        ("message/stream", message(&answer)),
        ("tasks/get", named.clone()),
        ("tasks/cancel", named.clone()),
        ("tasks/resubscribe", named.clone()),
        (
            "tasks/pushNotificationConfig/set",
            json!({ "taskId": "{task}", "pushNotificationConfig": push }),
        ),
        ("tasks/pushNotificationConfig/get", named.clone()),
        ("tasks/pushNotificationConfig/list", named.clone()),
        (
            "tasks/pushNotificationConfig/delete",
            json!({ "id": "{task}", "pushNotificationConfigId": "1" }),
        ),
        ("agent/getAuthenticatedExtendedCard", json!({})),
        ("SendMessage", of_1(Some("{task}"), None)),
        ("SendMessage", of_1(Some("{task}"), Some("{context}"))),
        ("SendMessage", of_1(None, Some("{context}"))),
        ("SendStreamingMessage", of_1(Some("{task}"), None)),
        ("GetTask", named.clone()),
        ("ListTasks", json!({ "contextId": "{context}" })),
        ("CancelTask", named.clone()),
        ("SubscribeToTask", named.clone()),
        ("CreateTaskPushNotificationConfig", json!({ "taskId": "{task}", "url": push["url"] })),
        ("GetTaskPushNotificationConfig", json!({ "taskId": "{task}", "id": "1" })),
        ("ListTaskPushNotificationConfigs", json!({ "taskId": "{task}" })),
        ("DeleteTaskPushNotificationConfig", json!({ "taskId": "{task}", "id": "1" })),
        ("GetExtendedAgentCard", json!({})),
        ("commands/get", json!({ "contextId": "{context}" })),
        ("command/execute", json!({ "contextId": "{context}", "commandPath": ["help"] })),
    ]
}

/// Methods of the socket only.
const SOCKET_METHODS: &[&str] = &["session/follow", "session/unfollow", "stream/cancel"];

/// Every routed path, from the server's source.
pub fn routes() -> Vec<String> {
    let mut routes = Vec::new();
    let source = format!("{}/../loggia-server/src", env!("CARGO_MANIFEST_DIR"));
    let mut directories = vec![std::path::PathBuf::from(source)];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for way in [".nest(", ".route_service("] {
                assert!(!text.contains(way), "{}: {way} hides routes from here", path.display());
            }
            routes.extend(text.matches(".fallback(").map(|_| FALLBACK.to_owned()));
            for rest in text.split(".route(").skip(1) {
                let literal = rest.trim_start().strip_prefix('"');
                let literal = literal.unwrap_or_else(|| {
                    panic!("{}: a route's path must be readable here", path.display())
                });
                routes.push(literal.split('"').next().unwrap().to_owned());
            }
        }
    }
    assert!(routes.len() >= 10, "{routes:?}");
    routes.sort();
    // A path may appear once per verb.
    routes.dedup();
    routes
}

#[test]
fn every_route_and_every_method_is_in_the_tables() {
    let mut listed: Vec<&str> = ROUTES.iter().map(|(path, _)| *path).collect();
    let found = routes();
    listed.sort_unstable();
    assert_eq!(listed, found, "a route that nobody tries to look through");
    let known: Vec<&str> = loggia_wire::methods().collect();
    let tried: Vec<&str> = methods().iter().map(|(method, _)| *method).collect();
    for method in &known {
        assert!(tried.contains(method), "nobody tries {method}");
    }
    for method in tried {
        assert!(known.contains(&method), "there is no method {method}");
    }
    every_method_of_every_binding();
    let socket = include_str!("../../../loggia-server/src/http/ws.rs");
    let spoken = Regex::new("\"((?:session|stream)/[a-z]+)\" =>").unwrap();
    for method in spoken.captures_iter(socket).map(|found| found[1].to_owned()) {
        assert!(SOCKET_METHODS.contains(&method.as_str()), "nobody tries {method}");
    }
}

/// The HTTP+JSON and gRPC tables are complete.
fn every_method_of_every_binding() {
    let path = |path: &str| path.split('?').next().unwrap().to_owned();
    let tried: Vec<(View, &str)> = HTTP_JSON
        .iter()
        .map(|(verb, at, _)| {
            let route = loggia_wire::rest::route(verb, &path(at), None);
            let route = route.unwrap_or_else(|_| panic!("{verb} {at} leads nowhere"));
            (route.view(), route.method)
        })
        .collect();
    for (service, view) in [(V1, View::A2A_1), (V03, View::PROTO_03)] {
        let table = ROUTES.iter().find(|(path, _)| *path == format!("/{service}/{{method}}"));
        let Some((_, Probe::Grpc(calls))) = table else { panic!("{service} is not in the table") };
        for method in transcode::methods(service) {
            assert!(calls.iter().any(|(tried, _)| *tried == method), "{service}/{method}");
            assert!(tried.contains(&(view, method.as_str())), "HTTP+JSON {view:?} {method}");
        }
    }
}

/// The ids of one owner.
struct Ids {
    task: String,
    context: String,
}

impl Ids {
    fn fill(&self, text: &str) -> String {
        text.replace("{task}", &self.task).replace("{context}", &self.context)
    }

    /// A reply without its variable parts.
    fn plain(&self, text: &str) -> String {
        let text = text.replace(&self.task, "TASK").replace(&self.context, "CONTEXT");
        let id = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
        let text = id.replace_all(&text, "ID");
        let time = Regex::new(r"\d{4}-\d\d-\d\dT[0-9:.]+Z").unwrap();
        let text = time.replace_all(&text, "TIME");
        // Depends on whether the previous command has ended.
        text.replace("it waits for the running turn", "")
    }
}

struct Stage {
    served: Served,
    existing: Ids,
    /// Ids that never existed. The stranger makes the same requests with both sets, so that
    /// anything opened under a name is opened under both.
    unknown: Ids,
    stranger: String,
}

/// Ann has a task with an open question; the stranger has all scopes but `admin`.
async fn stage(machine: &Machine) -> (Stage, String) {
    let ann = register(machine, "ann", &["--scope", "read,prompt,approve"]);
    let bob = register(machine, "bob", &["--scope", "read,prompt,approve"]);
    let served = Served::start(machine, &["serve", "--port", "0"]);
    let token = async |client: &Registered| client.token(&served).await;
    let (ann, bob) = (token(&ann).await, token(&bob).await);
    let first = json!({ "message": text_message("run touch her-file") });
    let task = served.call_as(&ann, "/", "message/send", first).await["result"].take();
    let id = |name: &str| task[name].as_str().unwrap().to_owned();
    let existing = Ids { task: id("id"), context: id("contextId") };
    let id = || uuid::Uuid::now_v7().to_string();
    let unknown = Ids { task: id(), context: id() };
    (Stage { served, existing, unknown, stranger: bob }, ann)
}

#[tokio::test]
async fn another_principals_task_is_not_found() {
    let machine = Machine::new();
    let (stage, ann) = stage(&machine).await;
    stage.walk().await;
    stage.untouched(&machine, &ann).await;
}

/// A new client with the name of a revoked one is a stranger.
#[tokio::test]
async fn the_next_client_of_a_name_finds_nothing_of_the_first() {
    let machine = Machine::new();
    let (mut stage, first) = stage(&machine).await;
    let revoked = machine.run(&["clients", "revoke", "ann"]);
    assert_eq!(revoked.code, 0, "{}", revoked.err);
    let second = register(&machine, "ann", &["--scope", "read,prompt,approve"]);
    stage.stranger = second.token(&stage.served).await;
    assert_eq!(crate::oauth::status(&stage.served, &first).await, 401);
    let found = stage.served.call_as(&stage.stranger, "/", "ListTasks", json!({})).await;
    assert_eq!(found["result"]["totalSize"], 0, "{found}");
    stage.socket().await;
    stage.walk().await;
    stage.unchanged(&machine);
}

/// The same on sockets, for a stranger who has not opened anything yet.
#[tokio::test]
async fn another_principals_task_is_not_found_on_a_socket() {
    let machine = Machine::new();
    let (stage, ann) = stage(&machine).await;
    assert!(ROUTES.iter().any(|(path, probe)| *path == "/ws" && matches!(probe, Probe::Socket)));
    stage.socket().await;
    stage.untouched(&machine, &ann).await;
}

impl Stage {
    /// On every route but the socket's.
    async fn walk(&self) {
        for (path, probe) in ROUTES {
            match probe {
                Probe::Public => self.public(path).await,
                Probe::Rpc => self.rpc(path).await,
                Probe::Socket => {}
                Probe::Grpc(calls) => self.grpc(path, calls).await,
                Probe::About => self.about(path).await,
                Probe::Requests(requests) => self.requests(requests).await,
            }
        }
    }

    /// The owner's task is unchanged.
    async fn untouched(&self, machine: &Machine, ann: &str) {
        let Stage { served, existing, .. } = self;
        // A local client without a token is a stranger too; the owner finds everything unchanged.
        let local = served.call("GetTask", json!({ "id": existing.task })).await;
        assert_eq!(local["error"]["code"], -32001, "{local}");
        let found = served.call_as(ann, "/", "ListTasks", json!({})).await;
        assert_eq!(found["result"]["totalSize"], 1, "{found}");
        assert_eq!(found["result"]["tasks"][0]["id"], existing.task.as_str());
        assert_eq!(found["result"]["tasks"][0]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        self.unchanged(machine);
    }

    /// The same, checked by the log.
    fn unchanged(&self, machine: &Machine) {
        let log = machine.log(&self.existing.context);
        let prompts = log.iter().filter(|e| matches!(e.event, Event::PromptAccepted { .. }));
        assert_eq!(prompts.count(), 1, "nobody else has said anything in her session");
        assert!(!log.iter().any(|e| matches!(e.event, Event::ApprovalAnswered { .. })));
    }

    /// Compares the replies about the owner's ids and about missing ones.
    fn compare(&self, what: &str, existing: &str, missing: &str) {
        assert_eq!(self.existing.plain(existing), self.unknown.plain(missing), "{what}");
        self.says_nothing_of_the_task(what, existing);
    }

    /// A foreign task and a missing one are answered in the same time, which has a floor: see `not_found.rs` of the server.
    fn takes_its_time(&self, what: &str, answer: &str, begun: Instant) {
        let not_found =
            ["-32001", "TASK_NOT_FOUND", "unknown-task", "unknown-context", "UNKNOWN_CONTEXT"];
        let not_found =
            not_found.iter().any(|word| answer.contains(word)) || answer.starts_with("5 ");
        let about_webhook = what.to_lowercase().contains("push");
        assert!(!not_found || about_webhook || begun.elapsed() >= FLOOR, "{what}: {answer}");
    }

    fn says_nothing_of_the_task(&self, what: &str, answer: &str) {
        let state = ["her-file", "INPUT_REQUIRED", "input-required"];
        assert!(!state.iter().any(|word| answer.contains(word)), "{what}: {answer}");
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> String {
        let request = self.served.request(method, path).bearer_auth(&self.stranger);
        let request = request.header("Content-Type", "application/json").body(body.to_owned());
        let begun = Instant::now();
        let answer = request.send().await.unwrap();
        let answer = format!("{} {}", answer.status(), answer.text().await.unwrap());
        self.takes_its_time(&format!("{path} {body}"), &answer, begun);
        answer
    }

    async fn public(&self, path: &str) {
        let shown = self.send("GET", path, "").await;
        assert!(
            !shown.contains(&self.existing.task) && !shown.contains(&self.existing.context),
            "{shown}"
        );
    }

    async fn grpc(&self, path: &str, calls: &[(&str, &str)]) {
        let service = path.trim_start_matches('/').split('/').next().unwrap();
        let token = format!("Bearer {}", self.stranger);
        let mut grpc = Grpc::connect(self.served.port).await;
        for (method, message) in calls {
            let mut answers = Vec::new();
            for ids in [&self.existing, &self.unknown] {
                let message = serde_json::from_str(&ids.fill(message)).unwrap();
                let metadata = [("authorization", token.as_str())];
                let begun = Instant::now();
                let answer = grpc.call_with(service, method, message, &metadata).await;
                let said = answer.headers.get("grpc-message").map(|said| said.to_str().unwrap());
                let answer = format!("{} {said:?} {:?}", answer.code, answer.messages);
                self.takes_its_time(method, &answer, begun);
                answers.push(answer);
            }
            let [existing, missing] = &answers[..] else { unreachable!() };
            self.compare(&format!("{service}/{method}"), existing, missing);
        }
    }

    /// The reply is about the server and names no session.
    async fn about(&self, path: &str) {
        let path = path.trim_start_matches('/').replace("{method}", "None");
        let token = format!("Bearer {}", self.stranger);
        let mut grpc = Grpc::connect(self.served.port).await;
        let asked = self.existing.task.as_bytes();
        let answer = grpc.send(&path, asked, &[("authorization", &token)]).await;
        assert!(answer.code != 0 && answer.messages.is_empty(), "{path}");
    }

    async fn requests(&self, requests: &[Tried]) {
        for (method, path, body) in requests {
            let existing =
                self.send(method, &self.existing.fill(path), &self.existing.fill(body)).await;
            if !path.contains('{') && !body.contains('{') {
                self.says_nothing_of_the_task(path, &existing);
                continue;
            }
            let unknown = &self.unknown;
            let missing = self.send(method, &unknown.fill(path), &unknown.fill(body)).await;
            self.compare(&format!("{method} {path}"), &existing, &missing);
        }
    }

    async fn rpc(&self, path: &str) {
        for (method, params) in methods() {
            let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
            let body = body.to_string();
            let existing = self.send("POST", path, &self.existing.fill(&body)).await;
            let missing = self.send("POST", path, &self.unknown.fill(&body)).await;
            self.compare(&format!("{path} {method} {params}"), &existing, &missing);
            let batch = self.send("POST", path, &format!("[{}]", self.existing.fill(&body))).await;
            let missing = self.send("POST", path, &format!("[{}]", self.unknown.fill(&body))).await;
            self.compare(&format!("{path} [{method}]"), &batch, &missing);
            let about_a_task = body.contains("{task}") && !method.to_lowercase().contains("push");
            if about_a_task {
                assert!(existing.contains("-32001"), "{path} {method}: {existing}");
            }
        }
        let listed = self.served.call_as(&self.stranger, path, "ListTasks", json!({})).await;
        assert!(!listed.to_string().contains(&self.existing.task), "{listed}");
    }

    async fn socket(&self) {
        let join = async |ids: &Ids| {
            let query = format!("?session={}&after=0", ids.context);
            let begun = Instant::now();
            let mut socket = self.served.socket_with(&query, Some(&self.stranger)).await;
            let told = socket.until(|value| value["error"].is_object()).await.to_string();
            self.takes_its_time("joining", &told, begun);
            (socket, told)
        };
        let ((mut existing, told), (mut missing, not_there)) =
            (join(&self.existing).await, join(&self.unknown).await);
        self.compare("joining", &told, &not_there);
        let followed = SOCKET_METHODS.iter().map(|method| {
            (*method, json!({ "contextId": "{context}", "after": 0, "id": "{task}" }))
        });
        let methods = methods().into_iter().chain(followed);
        for (number, (method, params)) in (10..).zip(methods) {
            // Would open a session of the stranger, which this socket would follow; the plain
            // routes test it.
            if params.to_string().contains("say x") || method == "command/execute" {
                continue;
            }
            let ask = async |socket: &mut Socket, ids: &Ids| {
                let params = serde_json::from_str(&ids.fill(&params.to_string())).unwrap();
                let begun = Instant::now();
                socket.send(number, method, params).await;
                let told = socket.until(|value| value["id"] == number).await.to_string();
                self.takes_its_time(&format!("/ws {method}"), &told, begun);
                told
            };
            let told = ask(&mut existing, &self.existing).await;
            let not_there = ask(&mut missing, &self.unknown).await;
            self.compare(&format!("/ws {method}"), &told, &not_there);
        }
        assert!(existing.followed().is_empty(), "{:?}", existing.followed());
        let attach = async |ids: &Ids| {
            let headers = [
                ("Authorization", format!("Bearer {}", self.stranger)),
                ("Sec-WebSocket-Protocol", "loggia".to_owned()),
            ];
            let query = format!("?session={}&after=0", ids.context);
            let begun = Instant::now();
            let mut socket = self.served.upgrade(&query, headers).await.unwrap();
            let told = socket.until(|value| value["type"] == "failed").await.to_string();
            self.takes_its_time("attaching", &told, begun);
            told
        };
        let (told, not_there) = (attach(&self.existing).await, attach(&self.unknown).await);
        self.compare("attaching", &told, &not_there);
    }
}

/// Two clients can use the same name for different contexts.
#[tokio::test]
async fn a_contexts_name_is_its_clients_own() {
    let machine = Machine::new();
    let (stage, ann) = stage(&machine).await;
    let Stage { served, existing, stranger: bob, .. } = &stage;
    let say = async |token: &str, text: &str| {
        let mut message = text_message(text);
        message["contextId"] = json!(existing.context);
        let params = json!({ "message": message, "configuration": { "blocking": true } });
        served.call_as(token, "/", "message/send", params).await
    };
    let (first, second) = (say(bob, "say one").await, say(bob, "say two").await);
    for sent in [&first, &second] {
        assert_eq!(sent["result"]["contextId"], existing.context.as_str(), "{sent}");
        assert_eq!(sent["result"]["status"]["state"], "completed", "{sent}");
    }
    let listed = async |token: &str, params: Value| {
        let listed = served.call_as(token, "/", "ListTasks", params).await;
        let tasks = listed["result"]["tasks"].as_array().unwrap().clone();
        let id = |task: Value| task["id"].as_str().unwrap().to_owned();
        let mut tasks: Vec<String> = tasks.into_iter().map(id).collect();
        tasks.sort();
        tasks
    };
    let his: Vec<String> = [&first, &second]
        .map(|sent| sent["result"]["id"].as_str().unwrap().to_owned())
        .into_iter()
        .collect();
    let context = json!({ "contextId": existing.context });
    assert_eq!(listed(bob, context.clone()).await, his, "both are in one session");
    assert_eq!(listed(bob, json!({})).await, his);
    assert_eq!(listed(&ann, context).await, [existing.task.as_str()]);
    assert_eq!(machine.sessions().len(), 2);
    let mut follow = text_message("say three");
    follow["contextId"] = json!(existing.context);
    follow["taskId"] = json!(his[0]);
    let follow = json!({ "message": follow });
    let refused = served.call_as(bob, "/", "message/send", follow).await;
    assert_ne!(refused["error"]["data"]["reason"], "context-mismatch", "{refused}");
    // He follows his own context of the same name.
    let query = format!("?session={}&after=0", existing.context);
    let mut socket = served.socket_with(&query, Some(bob)).await;
    let frame = socket.until(|value| value["method"] == "session/event").await;
    assert_eq!(frame["params"]["contextId"], existing.context.as_str(), "{frame}");
    assert!(his.contains(&frame["params"]["event"]["id"].as_str().unwrap().to_owned()), "{frame}");
}

/// A terminal sees the clients of its session only.
#[tokio::test]
async fn a_terminal_is_not_told_of_other_clients() {
    let machine = Machine::new();
    let (stage, ann) = stage(&machine).await;
    let Stage { served, existing, stranger: bob, .. } = &stage;
    let _bob = served.socket_with("?name=bobs-editor", Some(bob)).await;
    let _local = served.socket("?name=somebody").await;
    let headers = [
        ("Authorization", format!("Bearer {ann}")),
        ("Sec-WebSocket-Protocol", "loggia".to_owned()),
    ];
    let query = format!("?session={}", existing.context);
    let mut terminal = served.upgrade(&query, headers).await.unwrap();
    let told = terminal.until(|value| value["type"] == "present").await;
    let clients = told["clients"].as_array().unwrap();
    let own = |client: &Value| client["principal"].as_str().unwrap().starts_with("client:ann~");
    assert!(clients.len() == 1 && clients.iter().all(own), "{told}");
}

/// The session of `--a2a-port` is shared with all authorized clients.
#[tokio::test]
async fn a_shared_session_is_shared_with_clients() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &[]);
    let served = Served::shared(&machine, &[]);
    let token = ann.token(&served).await;
    let sent = served.call("message/send", json!({ "message": text_message("say hi") })).await;
    let task = sent["result"]["id"].clone();
    let found = served.call_as(&token, "/", "tasks/get", json!({ "id": task })).await;
    assert_eq!(found["result"]["id"], task, "{found}");
    let mut socket = served.socket_with("?after=0", Some(&token)).await;
    socket.until(|value| value["method"] == "session/event").await;
    let message =
        json!({ "message": text_message("say ho"), "configuration": { "blocking": true } });
    let sent = served.call_as(&token, "/", "message/send", message).await;
    let heard = served.call("tasks/get", json!({ "id": sent["result"]["id"] })).await;
    assert_eq!(heard["result"]["status"]["state"], "completed", "{heard}");
}
