//! The documented SDLC agent server over real sockets: event flow, routes, errors.

use std::io::{Read, Write};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::{Event, Served};

const SCRIPT: &str = r#"
[[rule]]
contains = "create"
steps = [
  { thought = "I'll create hello.txt.", subject = "Creating a file" },
  { call = "write_file", input = { path = "hello.txt", content = "hi\n" } },
  { text = "I've created hello.txt." },
]
[[rule]]
contains = "make two"
steps = [
  { calls = [
    { tool = "write_file", input = { path = "a.txt", content = "a\n" } },
    { tool = "write_file", input = { path = "b.txt", content = "b\n" } },
  ] },
  { text = "Both." },
]
[[rule]]
steps = [ { text = "Yes." } ]
"#;

/// The routes, in short.
struct Sdlc {
    machine: Machine,
    served: Served,
    model: String,
}

impl Sdlc {
    fn start(more: &[&str]) -> Self {
        let machine = Machine::new();
        let model = machine.script("sdlc.toml", SCRIPT);
        let served = Self::serve(&machine, &model, more);
        Self { machine, served, model }
    }

    fn serve(machine: &Machine, model: &str, more: &[&str]) -> Served {
        Served::start(machine, &[&["serve", "--port", "0", "--model", model], more].concat())
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request = self.served.request(method, path);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(Method::POST, path, Some(body)).await
    }

    async fn open(&self) -> String {
        let workspace = self.machine.work().canonicalize().unwrap();
        let settings = json!({ "kind": "agent-settings", "workspacePath": workspace });
        let (status, task) = self.post("/tasks", json!({ "agentSettings": settings })).await;
        assert_eq!(status, 201, "{task}");
        task.as_str().expect("the bare id").to_owned()
    }

    fn message(&self, body: Value) -> reqwest::RequestBuilder {
        self.served.request(Method::POST, "/message/stream").json(&body)
    }

    /// The events of a message's stream, to its end.
    async fn say(&self, body: Value) -> Vec<Event> {
        self.served.stream(self.message(body), usize::MAX).await
    }

    async fn confirm(&self, task: &str, call: &Value, approved: bool) -> Vec<Event> {
        let message =
            json!({ "kind": "tool-call-confirmation", "toolCallId": call, "approved": approved });
        self.say(json!({ "taskId": task, "userMessage": message })).await
    }
}

/// An event in the notation of the diagram.
fn line(event: &Event) -> String {
    let body = &event.response;
    let kind = body["kind"].as_str().unwrap_or("?");
    let about = match kind {
        "state-change" => body["taskState"].as_str(),
        "thought" => body["description"].as_str(),
        "text-content" => body["text"].as_str(),
        "tool-call-update" => body["status"].as_str(),
        _ => None,
    };
    about.map_or_else(|| kind.to_owned(), |about| format!("{kind}: {about}"))
}

fn lines(events: &[Event]) -> Vec<String> {
    events.iter().map(line).collect()
}

fn call_of(events: &[Event]) -> Value {
    let asked = events.iter().find(|event| event.response["kind"] == "tool-call-confirmation");
    asked.expect("a question").response["toolCallId"].clone()
}

/// S2, "Agent settings": the body of a new task is the settings.
#[tokio::test]
async fn the_settings_are_the_body_of_a_new_task() {
    let sdlc = Sdlc::start(&[]);
    sdlc.machine.write("sub/here.txt", "");
    let below = sdlc.machine.work().canonicalize().unwrap().join("sub");
    let settings = json!({ "kind": "agent-settings", "workspacePath": below });
    let (status, task) = sdlc.post("/tasks", settings).await;
    assert_eq!(status, 201, "{task}");
    let task = task.as_str().unwrap();
    let asked = sdlc.say(json!({ "taskId": task, "userMessage": "create it" })).await;
    sdlc.confirm(task, &call_of(&asked), true).await;
    assert_eq!(sdlc.machine.read("sub/hello.txt").as_deref(), Some("hi\n"));
    assert_eq!(sdlc.machine.read("hello.txt"), None);
    let around = json!({ "agentSettings": { "kind": "agent-settings", "workspacePath": below } });
    assert_eq!(sdlc.post("/tasks", around).await.0, 201);
    // Without a workspace, the server's directory is used; settings must name one.
    assert_eq!(sdlc.post("/tasks", json!({})).await.0, 201);
    let both = json!({ "workspacePath": below, "agentSettings": { "workspacePath": below } });
    for (body, field) in [
        (json!({ "kind": "agent-settings" }), "workspacePath"),
        (json!({ "autoExecute": true }), "workspacePath"),
        (json!({ "agentSettings": { "autoExecute": true } }), "agentSettings.workspacePath"),
        (json!({ "kind": "message", "workspacePath": below }), "kind"),
        (json!({ "workspacePath": "sub" }), "workspacePath"),
        (json!([]), "body"),
        (both, "workspacePath"),
    ] {
        let (status, error) = sdlc.post("/tasks", body.clone()).await;
        assert_eq!((status.as_u16(), &error["field"]), (400, &json!(field)), "{body}: {error}");
    }
}

/// Changed settings are reported, also between two turns.
#[tokio::test]
async fn settings_that_change_are_told_with_the_next_turn() {
    let sdlc = Sdlc::start(&["--allow-auto-execute"]);
    let work = sdlc.machine.work().canonicalize().unwrap();
    let settings = |auto: bool| json!({ "kind": "agent-settings", "workspacePath": work, "autoExecute": auto });
    let (_, task) = sdlc.post("/tasks", settings(true)).await;
    let free = sdlc.say(json!({ "taskId": task, "userMessage": "create it" })).await;
    assert!(!lines(&free).contains(&"tool-call-confirmation".to_owned()), "{free:#?}");
    let body = json!({ "taskId": task, "userMessage": "well?", "agentSettings": settings(false) });
    let told = sdlc.say(body).await;
    assert_eq!(lines(&told)[..2], ["state-change: working", "agent-settings"], "{told:#?}");
    assert_eq!(told[1].response["autoExecute"], false);
    assert_eq!(told[1].response["workspacePath"], json!(work));
    std::fs::remove_file(work.join("hello.txt")).unwrap();
    let asks = sdlc.say(json!({ "taskId": task, "userMessage": "create it" })).await;
    assert!(lines(&asks).contains(&"tool-call-confirmation".to_owned()), "{asks:#?}");
    // A client may request approvals although everything passes.
    let sdlc = Sdlc::start(&["--approve", "all"]);
    let work = sdlc.machine.work().canonicalize().unwrap();
    let body = json!({ "kind": "agent-settings", "workspacePath": work, "autoExecute": false });
    let (_, task) = sdlc.post("/tasks", body).await;
    let asks = sdlc.say(json!({ "taskId": task, "userMessage": "create it" })).await;
    assert!(lines(&asks).contains(&"tool-call-confirmation".to_owned()), "{asks:#?}");
    assert_eq!(lines(&asks)[..2], ["state-change: working", "agent-settings"], "{asks:#?}");
    assert_eq!(asks[1].response["autoExecute"], false);
    // Nothing changes: the calls of this server run without a question anyway.
    let body = json!({ "kind": "agent-settings", "workspacePath": work, "autoExecute": true });
    let (_, task) = sdlc.post("/tasks", body).await;
    let told = sdlc.say(json!({ "taskId": task, "userMessage": "well?" })).await;
    assert!(!lines(&told).contains(&"agent-settings".to_owned()), "{told:#?}");
}

/// S2, "Event flow example": a task, a message, a confirmation, line by line.
#[tokio::test]
async fn the_event_flow_example_over_the_wire() {
    let sdlc = Sdlc::start(&[]);
    let task = sdlc.open().await;
    let workspace = sdlc.machine.work().canonicalize().unwrap();
    let settings = json!({ "kind": "agent-settings", "workspacePath": workspace });
    let first = sdlc
        .say(json!({ "taskId": task, "userMessage": "create it", "agentSettings": settings }))
        .await;
    assert_eq!(
        lines(&first),
        [
            "state-change: working",
            "thought: I'll create hello.txt.",
            "tool-call-update: PENDING",
            "tool-call-confirmation",
            "state-change: input-required",
        ]
    );
    assert_eq!(first[0].response["taskId"], task);
    assert_eq!(sdlc.machine.read("hello.txt"), None);
    let call = call_of(&first);
    let second = sdlc.confirm(&task, &call, true).await;
    assert_eq!(
        lines(&second),
        [
            "state-change: working",
            "tool-call-update: EXECUTING",
            "tool-call-update: SUCCEEDED",
            "text-content: I've created hello.txt.",
            "state-change: completed",
        ]
    );
    assert_eq!(sdlc.machine.read("hello.txt").as_deref(), Some("hi\n"));
    // The task continues under its id, and its stream can be read from any position.
    let third = sdlc.say(json!({ "taskId": task, "userMessage": { "text": "really?" } })).await;
    let asked = ["state-change: working", "text-content: Yes.", "state-change: completed"];
    assert_eq!(lines(&third), asked);
    let whole = sdlc.say(json!({ "taskId": task })).await;
    assert_eq!(line(&whole[0]), "state-change: submitted");
    let mut all = vec![whole[0].clone()];
    all.extend([first, second, third].concat());
    assert_eq!(whole, all);
    for (seen, event) in whole.iter().enumerate() {
        let resumed = sdlc.message(json!({ "taskId": task })).header("Last-Event-ID", &event.id);
        assert_eq!(sdlc.served.stream(resumed, usize::MAX).await, whole[seen + 1..]);
    }
}

/// Two calls in one reply: a client that reads one stream after the other gets every event,
/// including the second call's PENDING.
#[tokio::test]
async fn nothing_of_a_second_call_is_between_two_streams() {
    let sdlc = Sdlc::start(&[]);
    let task = sdlc.open().await;
    let first = sdlc.say(json!({ "taskId": task, "userMessage": "make two" })).await;
    let second = sdlc.confirm(&task, &call_of(&first), true).await;
    let third = sdlc.confirm(&task, &call_of(&second), true).await;
    let read = [first, second, third].concat();
    let whole = sdlc.say(json!({ "taskId": task })).await;
    // A state that changed before the stream began does not end it and is not reported.
    let overtaken = |event: &&Event| line(event) != "state-change: input-required";
    let read: Vec<&Event> = read.iter().filter(overtaken).collect();
    let whole: Vec<&Event> = whole[1..].iter().filter(overtaken).collect();
    assert_eq!(read, whole);
    let pending = read.iter().filter(|event| line(event) == "tool-call-update: PENDING").count();
    assert_eq!(pending, 2, "{read:#?}");
}

/// A task without a message survives a crash, and its message finds it.
#[tokio::test]
async fn a_task_that_waits_for_its_message_survives_a_crash() {
    let mut sdlc = Sdlc::start(&[]);
    assert_eq!(sdlc.get("/tasks/metadata").await.0, 204);
    let task = sdlc.open().await;
    let path = format!("/tasks/{task}/metadata");
    let before = sdlc.get(&path).await;
    sdlc.served.child.kill().unwrap();
    sdlc.served = Sdlc::serve(&sdlc.machine, &sdlc.model, &[]);
    assert_eq!(sdlc.get(&path).await, before);
    let (status, listed) = sdlc.get("/tasks/metadata").await;
    assert_eq!((status.as_u16(), listed.as_array().unwrap().len()), (200, 1));
    let metadata = &listed[0];
    assert_eq!(metadata["id"], task.as_str());
    assert_eq!(metadata["taskState"], "submitted");
    assert_eq!(metadata["mcpServers"], json!([]));
    assert_eq!(metadata["model"], sdlc.model.as_str());
    let tools = metadata["availableTools"].as_array().unwrap();
    let write = tools.iter().find(|tool| tool["name"] == "write_file").unwrap();
    assert_eq!(write["parameterSchema"]["type"], "object");
    assert!(write["parameterSchema"]["properties"]["content"].is_object(), "{write}");
    // One reply for both forms: as documented, and wrapped as shipped.
    let (_, one) = sdlc.get(&path).await;
    assert_eq!(one["metadata"], *metadata);
    assert_eq!(one["taskState"], "submitted");
    let events = sdlc.say(json!({ "taskId": task, "userMessage": "hello?" })).await;
    assert_eq!(lines(&events).last().unwrap(), "state-change: completed");
    assert_eq!(sdlc.get(&path).await.1["taskState"], "completed");
}

/// The replies to the same message sent twice on one connection.
fn twice_on_one_connection(served: &Served, body: &Value) -> [String; 2] {
    let mut stream = served.connect();
    let body = body.to_string();
    [(); 2].map(|()| {
        let head = format!(
            "POST /message/stream HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            served.port,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        while !answer.ends_with(b"\r\n0\r\n\r\n") {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the connection was closed");
            answer.extend_from_slice(&piece[..read]);
        }
        let answer = String::from_utf8(answer).unwrap();
        let data = answer.lines().filter(|line| line.starts_with("data: "));
        data.collect::<Vec<&str>>().join("\n")
    })
}

/// Late, duplicate, foreign and unknown answers, each with its status and the first answer.
#[tokio::test]
async fn an_answer_that_does_not_count_is_told_why() {
    let sdlc = Sdlc::start(&[]);
    let task = sdlc.open().await;
    let other = sdlc.open().await;
    let first = sdlc.say(json!({ "taskId": task, "userMessage": "create it" })).await;
    let call = call_of(&first);
    let context = first[0].response["contextId"].clone();
    let (status, beside) = sdlc.post("/tasks", json!({ "contextId": context })).await;
    assert_eq!(status, 201, "{beside}");
    let beside = beside.as_str().unwrap();
    let confirm = |task: &str, call: &Value, approved: bool| {
        let message =
            json!({ "kind": "tool-call-confirmation", "toolCallId": call, "approved": approved });
        json!({ "taskId": task, "userMessage": message })
    };
    for (body, status, reason) in [
        (confirm(&task, &json!("nope"), true), 404, "unknown-question"),
        (confirm("nope", &call, true), 404, "unknown-task"),
        (confirm(&other, &call, true), 404, "unknown-question"),
        (confirm(beside, &call, true), 409, "question-elsewhere"),
        (json!({ "taskId": task, "userMessage": { "kind": "x" } }), 400, "invalid-params"),
        (json!({ "taskId": "nope", "userMessage": "hi" }), 404, "unknown-task"),
        (
            json!({ "taskId": task, "contextId": "nope", "userMessage": "hi" }),
            409,
            "context-mismatch",
        ),
    ] {
        let (given, told) = sdlc.post("/message/stream", body.clone()).await;
        assert_eq!((given.as_u16(), told["reason"].as_str()), (status, Some(reason)), "{body}");
        assert!(told["error"].is_string(), "{told}");
    }
    // The same client repeats its answer: it gets the same stream and does not hang.
    let twice = confirm(&task, &call, true);
    let [done, again] = twice_on_one_connection(&sdlc.served, &twice);
    assert!(done.contains("SUCCEEDED") && done.contains("\"completed\""), "{done}");
    assert_eq!(again, done);
    let late = reqwest::Client::new();
    let url = format!("{}message/stream", sdlc.served.url());
    let late = late.post(url).json(&confirm(&task, &call, false)).send().await.unwrap();
    assert_eq!(late.status(), 409);
    let told: Value = late.json().await.unwrap();
    assert_eq!(told["reason"], "already-answered");
    assert_eq!(told["choice"], "proceed_once");
    assert!(told["by"].as_str().unwrap().starts_with("SDLC:") && told["at"].is_string(), "{told}");
}

/// One session in three dialects: a question of one is answered in another, and all see it.
#[tokio::test]
async fn a_question_asked_in_one_form_is_answered_in_another() {
    let coder = crate::coder::Coder::shared();
    let mut follower = coder.served.socket("?name=ann").await;
    let (task, call) = coder.asked_to_write().await;
    let confirm = |approved: bool| {
        let message =
            json!({ "kind": "tool-call-confirmation", "toolCallId": call, "approved": approved });
        let body = json!({ "taskId": task, "userMessage": message });
        coder.served.request(Method::POST, "/message/stream").json(&body)
    };
    let events = coder.served.stream(confirm(true), usize::MAX).await;
    assert_eq!(
        lines(&events)[..3],
        ["state-change: working", "tool-call-update: EXECUTING", "tool-call-update: SUCCEEDED"]
    );
    let done = |value: &Value| {
        value["params"]["event"]["status"]["message"]["parts"][0]["data"]["status"] == "SUCCEEDED"
    };
    let told = follower.until(done).await;
    let by = &told["params"]["event"]["metadata"]["answer"]["by"];
    assert!(by.as_str().unwrap().starts_with("SDLC:"), "{told}");
    let late = coder.told(crate::coder::answer(&task, &call, "cancel")).await;
    assert_eq!(late[0]["error"]["data"]["reason"], "already-answered", "{late:?}");
    assert!(late[0]["error"]["data"]["by"].as_str().unwrap().starts_with("SDLC:"), "{late:?}");
    let shown = coder.served.call("tasks/get", json!({ "id": task })).await;
    assert_eq!(shown["result"]["status"]["state"], "input-required", "in the form it was begun in");
    let metadata = coder.served.get(&format!("/tasks/{}/metadata", task.as_str().unwrap())).await;
    assert_eq!(metadata["taskState"], "completed");
}

/// Commands return their output, errors have a status, and requests without JSON are refused.
#[tokio::test]
async fn commands_and_their_mistakes() {
    let sdlc = Sdlc::start(&[]);
    let (status, tree) = sdlc.get("/listCommands").await;
    assert_eq!(status, 200);
    let names: Vec<&Value> =
        tree["commands"].as_array().unwrap().iter().map(|command| &command["name"]).collect();
    assert!(names.contains(&&json!("memory")) && names.contains(&&json!("help")), "{names:?}");
    let (status, said) =
        sdlc.post("/executeCommand", json!({ "command": "help", "args": [] })).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["name"], "help");
    assert_eq!(said["taskState"], "completed");
    assert!(said["data"].as_str().unwrap().contains("/memory"), "{said}");
    // A command without a context creates none, however often it is sent.
    for _ in 0..2 {
        let (_, again) = sdlc.post("/executeCommand", json!({ "command": "about" })).await;
        assert_eq!(again["contextId"], said["contextId"], "{again}");
    }
    assert_eq!(sdlc.machine.sessions().len(), 1);
    // A model command also ends or asks a question.
    let (status, said) = sdlc.post("/executeCommand", json!({ "command": "init" })).await;
    assert_eq!(status, 200, "{said}");
    assert!(
        ["completed", "input-required"].contains(&said["taskState"].as_str().unwrap()),
        "{said}"
    );
    for (body, status) in [
        (json!({ "command": "nope" }), 404),
        (json!({ "command": "memory nope" }), 404),
        (json!({ "command": 7 }), 400),
        (json!({ "command": "memory add" }), 400),
        (json!({ "command": "memory", "args": "x" }), 400),
        (json!([]), 400),
    ] {
        let (given, told) = sdlc.post("/executeCommand", body.clone()).await;
        assert_eq!(given, status, "{body}");
        assert!(told["error"].is_string(), "{told}");
    }
    let text = sdlc.served.request(Method::POST, "/executeCommand").body("command=help");
    let refused = text.header("Content-Type", "text/plain").send().await.unwrap();
    assert_eq!(refused.status(), 415);
    assert!(refused.json::<Value>().await.unwrap()["error"].is_string());
    assert_eq!(sdlc.send(Method::GET, "/message/stream", None).await.0, 405);
    assert!(sdlc.served.is_well());
}

/// The capability and the skill in the documented card.
#[tokio::test]
async fn the_card_says_what_the_document_says() {
    let sdlc = Sdlc::start(&[]);
    let (_, card) = sdlc.get("/.well-known/agent-card.json").await;
    assert_eq!(card["capabilities"]["streaming"], true);
    assert_eq!(card["capabilities"]["stateTransitionHistory"], true);
    let skill = &card["skills"][0];
    assert_eq!(skill["id"], "code_generation");
    assert_eq!(skill["name"], "Code Generation");
    assert_eq!(skill["tags"], json!(["code", "development", "programming"]));
}

/// Each client sees its own tasks in pages, and waiting tasks are limited.
#[tokio::test]
async fn lists_are_scoped_and_paged() {
    const ANN: &str = "ann-0123456789abcdef0123456789abcdef";
    const BOB: &str = "bob-0123456789abcdef0123456789abcdef";
    let machine = Machine::new();
    let model = machine.script("sdlc.toml", SCRIPT);
    let tokens = machine.tokens(&format!("ann:{ANN}\nbob:{BOB}\n"));
    let served = Sdlc::serve(&machine, &model, &["--token-file", &tokens]);
    let ask = async |method: Method, path: &str, token: &str, body: Option<Value>| {
        let request = served.request(method, path).bearer_auth(token);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        request.send().await.unwrap()
    };
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let body = json!({ "contextId": "of-ann" });
        let opened = ask(Method::POST, "/tasks", ANN, Some(body)).await;
        assert_eq!(opened.status(), 201);
        tasks.push(opened.json::<String>().await.unwrap());
    }
    let path = format!("/tasks/{}/metadata", tasks[0]);
    assert_eq!(ask(Method::GET, &path, ANN, None).await.status(), 200);
    let hidden = ask(Method::GET, &path, BOB, None).await;
    assert_eq!(hidden.status(), 404);
    assert_eq!(hidden.json::<Value>().await.unwrap()["error"], "Task not found");
    assert_eq!(ask(Method::GET, "/tasks/metadata", BOB, None).await.status(), 204);
    // Another client's name is free: this opens Bob's own context.
    let stranger = json!({ "contextId": "of-ann" });
    assert_eq!(ask(Method::POST, "/tasks", BOB, Some(stranger)).await.status(), 201);
    let mut seen = Vec::new();
    let mut path = "/tasks/metadata?pageSize=2".to_owned();
    loop {
        let page = ask(Method::GET, &path, ANN, None).await;
        let next = page.headers().get("x-next-page-token").cloned();
        let page: Vec<Value> = page.json().await.unwrap();
        assert!(page.len() <= 2);
        seen.extend(page.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        let Some(next) = next else { break };
        path = format!("/tasks/metadata?pageSize=2&pageToken={}", next.to_str().unwrap());
    }
    seen.sort();
    tasks.sort();
    assert_eq!(seen, tasks);
    assert_eq!(ask(Method::GET, "/tasks/metadata?pageSize=x", ANN, None).await.status(), 400);
    // If there are too many, the oldest waiting task is dropped.
    let state = async |task: &str| {
        let path = format!("/tasks/{task}/metadata");
        let metadata = ask(Method::GET, &path, ANN, None).await.json::<Value>().await.unwrap();
        metadata["taskState"].as_str().unwrap().to_owned()
    };
    for _ in 3..33 {
        let body = json!({ "contextId": "of-ann" });
        assert_eq!(ask(Method::POST, "/tasks", ANN, Some(body)).await.status(), 201);
    }
    assert_eq!(state(&tasks[0]).await, "canceled");
    assert_eq!(state(&tasks[1]).await, "submitted");
}
