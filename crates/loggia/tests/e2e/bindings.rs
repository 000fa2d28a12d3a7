//! One session over JSON-RPC, HTTP+JSON and gRPC: the same facts, the same race, the same access
//! rules.

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use loggia_server::grpc::transcode;
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

use crate::authority::Authority;
use crate::driver::Machine;
use crate::served::{Served, asked, confirmation, text_message};

pub const V1: &str = "lf.a2a.v1.A2AService";
pub const V03: &str = "a2a.v1.A2AService";

/// A gRPC client at the level of frames.
pub struct Grpc {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

pub struct Answered {
    pub messages: Vec<Value>,
    pub code: i32,
    pub headers: HeaderMap,
}

impl Grpc {
    pub async fn connect(port: u16) -> Self {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, authority: format!("127.0.0.1:{port}") }
    }

    /// The same over TLS with ALPN.
    pub async fn connect_encrypted(port: u16, authority: &Authority) -> Self {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let connector = TlsConnector::from(authority.client_of_http2());
        let name = "localhost".try_into().unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, authority: format!("localhost:{port}") }
    }

    async fn call(&mut self, of: &str, name: &str, params: Value) -> Answered {
        self.call_with(of, name, params, &[]).await
    }

    pub async fn call_with(
        &mut self,
        of: &str,
        name: &str,
        params: Value,
        metadata: &[(&str, &str)],
    ) -> Answered {
        let input = transcode::method(of, name).unwrap().input();
        let message = transcode::encode(&input, params.to_string().as_bytes()).unwrap();
        self.send(&format!("{of}/{name}"), &message, metadata).await
    }

    pub async fn send(
        &mut self,
        path: &str,
        message: &[u8],
        metadata: &[(&str, &str)],
    ) -> Answered {
        let response = self.begin(path, message, metadata).await;
        answered(path, response).await
    }

    /// Returns when the answer begins. A stream is open then.
    async fn begin(
        &mut self,
        path: &str,
        message: &[u8],
        metadata: &[(&str, &str)],
    ) -> Response<Incoming> {
        let mut body = BytesMut::new();
        body.put_u8(0);
        body.put_u32(message.len().try_into().unwrap());
        body.put_slice(message);
        let mut request = Request::post(format!("http://{}/{path}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in metadata {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.freeze())).unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response
    }
}

async fn answered(path: &str, response: Response<Incoming>) -> Answered {
    let mut headers = response.headers().clone();
    let collected = response.into_body().collect().await.unwrap();
    headers.extend(collected.trailers().cloned().unwrap_or_default());
    let (of, name) = path.split_once('/').unwrap();
    let output = transcode::method(of, name).map(|method| method.output());
    let mut messages = Vec::new();
    let mut rest = collected.to_bytes();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
        let message = rest.slice(5..5 + length);
        messages.push(transcode::decode(output.as_ref().unwrap(), &message).unwrap());
        rest = rest.slice(5 + length..);
    }
    let code = headers["grpc-status"].to_str().unwrap().parse().unwrap();
    Answered { messages, code, headers }
}

fn words(text: &str, task: &Value) -> Value {
    json!({ "messageId": "m", "role": "ROLE_USER", "taskId": task, "parts": [{ "text": text }] })
}

fn rest(served: &Served, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", served.port)
}

async fn post(served: &Served, path: &str, body: &Value) -> (u16, Value) {
    let response = served.client.post(rest(served, path)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Each binding shows what was submitted over another, with exact numbers.
#[tokio::test(flavor = "multi_thread")]
async fn one_task_over_three_bindings_and_two_versions() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut grpc = Grpc::connect(served.port).await;
    let parts = json!([{ "text": "say hi" }, { "data": { "count": 42, "half": 0.5 } }]);
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": parts });
    let sent = grpc.call(V1, "SendMessage", json!({ "message": message })).await;
    assert_eq!(sent.code, 0);
    let task = sent.messages[0]["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    let id = task["id"].as_str().unwrap();

    let over_rpc = served.call("GetTask", json!({ "id": id })).await["result"].clone();
    assert_eq!(over_rpc["history"][0]["parts"], parts, "2.0 came in, 2 goes out");
    let over_rest = served.get(&format!("/tasks/{id}")).await;
    assert_eq!(over_rest, over_rpc);
    let over_grpc = grpc.call(V1, "GetTask", json!({ "id": id })).await.messages.remove(0);
    assert_eq!(over_grpc["artifacts"], over_rpc["artifacts"]);
    assert_eq!(over_grpc["history"], over_rpc["history"]);

    let old_rest = served.get(&format!("/v1/tasks/{id}")).await;
    assert_eq!(old_rest["history"][0]["content"][1]["data"]["data"]["count"], 42);
    let name = json!({ "name": format!("tasks/{id}") });
    let old_grpc = grpc.call(V03, "GetTask", name).await.messages.remove(0);
    assert_eq!(old_grpc["history"], old_rest["history"]);
    let old_rpc = served.call("tasks/get", json!({ "id": id })).await["result"].clone();
    assert_eq!(old_rpc["history"][0]["parts"][1]["data"]["count"], 42);
}

/// Numbers that a double cannot represent or that have several spellings.
const NUMBERS: &str =
    "[1.0,1.10,1e+5,1e+400,12345678901234567890,123456789012345678901234567890,-0,0.1e+1]";

/// Numbers in metadata and data keep their spelling over every JSON binding and after a restart.
#[tokio::test]
async fn numbers_come_back_as_they_were_written() {
    let machine = Machine::new();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let rpc = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    let message = |rest: &str| {
        format!(r#"{{"message":{{"messageId":"m","metadata":{{"n":{NUMBERS}}},{rest}}}}}"#)
    };
    let new = message(&format!(
        r#""role":"ROLE_USER","parts":[{{"text":"say hi"}},{{"data":{{"d":{NUMBERS}}}}}]"#
    ));
    let old = message(&format!(
        r#""role":"user","parts":[{{"kind":"text","text":"say hi"}},
           {{"kind":"data","data":{{"d":{NUMBERS}}}}}]"#
    ));
    let old_rest = message(&format!(
        r#""role":"ROLE_USER","content":[{{"text":"say hi"}},{{"data":{{"data":{{"d":{NUMBERS}}}}}}}]"#
    ));
    let task = format!(
        r#"{{"id":"t","context":{{"n":{NUMBERS}}},"metadata":{{"d":{NUMBERS}}},
            "message":{{"parts":[{{"text":"say hi"}}]}}}}"#
    );
    let table = [
        ("/", rpc("SendMessage", &new)),
        ("/", rpc("message/send", &old)),
        ("/message:send", new),
        ("/v1/message:send", old_rest),
        ("/", rpc("tasks/send", &task)),
    ];
    let mut ids = Vec::new();
    for (path, body) in table {
        let request = served.client.post(rest(&served, path)).body(body);
        let request = request.header("Content-Type", "application/json");
        let text = request.send().await.unwrap().text().await.unwrap();
        let [n, d] = ["n", "d"].map(|name| format!(r#""{name}":{NUMBERS}"#));
        assert!(text.contains(&n) && text.contains(&d), "{path}: {text}");
        let said: Value = serde_json::from_str(&text).unwrap();
        let task = [&said["result"]["task"]["id"], &said["result"]["id"], &said["task"]["id"]];
        ids.extend(task.iter().find_map(|id| id.as_str().map(str::to_owned)));
    }
    drop(served);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    for id in &ids[..4] {
        let response = served.client.get(rest(&served, &format!("/tasks/{id}"))).send().await;
        let text = response.unwrap().text().await.unwrap();
        assert_eq!(text.matches(NUMBERS).count(), 2, "{text}");
    }
    let task = served.call("tasks/get", json!({ "id": "t" })).await.to_string();
    assert_eq!(task.matches(NUMBERS).count(), 4, "input, context and metadata: {task}");
}

/// Answers over its own connection; true if the answer was the first.
async fn answer(port: u16, binding: &str, task: &Value, call: &Value, choice: &str) -> bool {
    let data = json!({ "tool_call_id": call, "selected_option_id": choice });
    let message = json!({
        "messageId": "c", "role": "ROLE_USER", "taskId": task, "parts": [{ "data": data }],
    });
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let params = json!({ "message": message });
    match binding {
        "gRPC" => Grpc::connect(port).await.call(V1, "SendMessage", params).await.code == 0,
        "HTTP+JSON" => {
            let request = reqwest::Client::new().post(url("/message:send")).json(&params);
            request.send().await.unwrap().status() == 200
        }
        _ => {
            let body =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
            let request = reqwest::Client::new().post(url("/")).json(&body);
            let said: Value = request.send().await.unwrap().json().await.unwrap();
            said["error"].is_null()
        }
    }
}

/// R10 with clients of every binding: one answer takes effect, and the others are refused with the
/// winner.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_answer_wins_whatever_it_came_over() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    const ANSWERS: [(&str, &str); 6] = [
        ("gRPC", "proceed_once"),
        ("HTTP+JSON", "cancel"),
        ("JSON-RPC", "proceed_once"),
        ("HTTP+JSON", "proceed_once"),
        ("JSON-RPC", "cancel"),
        ("gRPC", "cancel"),
    ];
    for round in 0..6 {
        let file = format!("round-{round}.txt");
        let prompt = text_message(&format!("write {file}: hi"));
        let frames = served.stream(served.tool_stream(prompt), usize::MAX).await;
        let (task, call) = asked(&frames);
        let mut answers = ANSWERS;
        answers.rotate_left(round);
        let answering = answers.map(|(binding, choice)| {
            let (port, task, call) = (served.port, task.clone(), call.clone());
            tokio::spawn(async move { answer(port, binding, &task, &call, choice).await })
        });
        let mut won = Vec::new();
        for (answering, (_, choice)) in answering.into_iter().zip(answers) {
            if answering.await.unwrap() {
                won.push(choice);
            }
        }
        let wrote = machine.file(&file).exists();
        let done = if wrote { "proceed_once" } else { "cancel" };
        assert_eq!(won, [done], "round {round}: one counted, and that was done");
    }
}

/// A resumed HTTP+JSON stream has no gap and no repetition.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_over_http_resumes_where_it_was() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    for (below, content) in [("", "parts"), ("/v1", "content"), ("/a2a/1.0", "parts")] {
        let mut message = json!({ "messageId": "m", "role": "ROLE_USER" });
        message[content] = json!([{ "text": "say one two three" }]);
        let body = json!({ "message": message });
        let request = served.client.post(rest(&served, &format!("{below}/message:stream")));
        let request = request.json(&body);
        let all = served.stream(request, usize::MAX).await;
        let id = all[0].response["task"]["id"].as_str().unwrap();
        assert!(all.len() >= 3, "{}", all.len());
        for (seen, event) in all.iter().enumerate() {
            let url = rest(&served, &format!("{below}/tasks/{id}:subscribe"));
            let request = served.client.get(url).header("Last-Event-ID", &event.id);
            let again = served.stream(request, usize::MAX).await;
            let ids: Vec<&str> = again.iter().map(|event| event.id.as_str()).collect();
            let expected: Vec<&str> =
                all[seen + 1..].iter().map(|event| event.id.as_str()).collect();
            assert_eq!(ids, expected, "after {}", event.id);
        }
    }
}

/// gRPC has the same checks: host names, credentials, versions, sizes.
#[tokio::test(flavor = "multi_thread")]
async fn grpc_is_held_to_the_same_rules() {
    let machine = Machine::new();
    let tokens = machine.tokens("ann:a-token-that-nobody-guesses-so-soon\n");
    let served = Served::shared(&machine, &["--token-file", &tokens, "--require-token"]);
    let mut grpc = Grpc::connect(served.port).await;
    let list = || json!({});
    assert_eq!(grpc.call(V1, "ListTasks", list()).await.code, 16, "UNAUTHENTICATED");
    let wrong = [("authorization", "Bearer wrong")];
    assert_eq!(grpc.call_with(V1, "ListTasks", list(), &wrong).await.code, 16);
    let right = ("authorization", "Bearer a-token-that-nobody-guesses-so-soon");
    assert_eq!(grpc.call_with(V1, "ListTasks", list(), &[right]).await.code, 0);

    let later = [right, ("a2a-version", "99.0")];
    let refused = grpc.call_with(V1, "ListTasks", list(), &later).await;
    assert_eq!(refused.code, 9, "FAILED_PRECONDITION");
    assert!(refused.headers.contains_key("grpc-status-details-bin"), "says why");
    let tenant = json!({ "tenant": "acme" });
    assert_eq!(grpc.call_with(V1, "ListTasks", tenant, &[right]).await.code, 5, "NOT_FOUND");
    let evil = [right, ("host", "evil.example")];
    assert_eq!(grpc.call_with(V1, "ListTasks", list(), &evil).await.code, 3);
    let page = [right, ("origin", "https://evil.example")];
    assert_eq!(grpc.call_with(V1, "ListTasks", list(), &page).await.code, 7, "PERMISSION_DENIED");

    let unknown = grpc.send(&format!("{V1}/NoSuchMethod"), b"", &[right]).await;
    assert_eq!(unknown.code, 12, "UNIMPLEMENTED");
    for broken in [&b"\xff\xff\xff"[..], b"\x0a\xff", b"\x0b\x0c", &[0x12; 2000]] {
        let answered = grpc.send(&format!("{V1}/SendMessage"), broken, &[right]).await;
        assert_eq!(answered.code, 3, "INVALID_ARGUMENT");
    }
    let health = grpc.call_with("grpc.health.v1.Health", "Check", json!({}), &[right]).await;
    assert_eq!(health.messages, [json!({ "status": "SERVING" })]);
    let unknown = json!({ "service": "no.such" });
    let health = grpc.call_with("grpc.health.v1.Health", "Check", unknown, &[right]).await;
    assert_eq!(health.code, 5);
    let soon = [right, ("grpc-timeout", "200m")];
    let message = words("wait 60s", &json!(""));
    let late = grpc.call_with(V1, "SendMessage", json!({ "message": message }), &soon).await;
    assert_eq!(late.code, 4, "DEADLINE_EXCEEDED");
    assert!(served.is_well());
}

/// A disabled feature appears neither in the card nor in replies, on any binding.
#[tokio::test(flavor = "multi_thread")]
async fn offers_can_be_taken_back() {
    let machine = Machine::new();
    machine.configure("[server]\nstreaming = false\npush = false\nextended_card = false\n");
    let served = Served::shared(&machine, &[]);
    let card = served.get("/a2a/1.0/.well-known/agent-card.json").await;
    for offer in ["streaming", "pushNotifications", "extendedAgentCard"] {
        assert_eq!(card["capabilities"][offer], false, "{offer}");
    }
    let message = json!({ "message": words("say hi", &json!("")) });
    let (status, refused) = post(&served, "/message:stream", &message).await;
    assert_eq!((status, &refused["error"]["status"]), (400, &json!("FAILED_PRECONDITION")));
    assert_eq!(served.call("SendStreamingMessage", message.clone()).await["error"]["code"], -32004);
    let mut grpc = Grpc::connect(served.port).await;
    assert_eq!(grpc.call(V1, "SendStreamingMessage", message.clone()).await.code, 9);
    assert_eq!(grpc.call(V1, "GetExtendedAgentCard", json!({})).await.code, 9);
    assert_eq!(grpc.call(V03, "GetAgentCard", json!({})).await.code, 12, "UNIMPLEMENTED");
    let (status, sent) = post(&served, "/message:send", &message).await;
    assert_eq!(status, 200);
    let id = sent["task"]["id"].as_str().unwrap();
    let hook = json!({ "url": "http://127.0.0.1:9/" });
    let (status, _) = post(&served, &format!("/tasks/{id}/pushNotificationConfigs"), &hook).await;
    assert_eq!(status, 400);
    let (status, refused) = post(
        &served,
        &format!("/v1/tasks/{id}/pushNotificationConfigs"),
        &json!({ "pushNotificationConfig": hook }),
    )
    .await;
    assert_eq!((status, &refused["code"]), (501, &json!(-32003)));
}

/// Another client writes to a running task: open gRPC streams contain no second task.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_of_another_client_brings_no_second_task_over_grpc() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let first = served.stream(served.tool_stream(text_message("run touch X")), usize::MAX).await;
    let (task, call) = asked(&first);
    let id = task.as_str().unwrap();
    let mut streams = Vec::new();
    for (of, name, params) in [
        (V1, "SubscribeToTask", json!({ "id": id })),
        (V03, "TaskSubscription", json!({ "name": format!("tasks/{id}") })),
    ] {
        let mut grpc = Grpc::connect(served.port).await;
        let path = format!("{of}/{name}");
        let input = transcode::method(of, name).unwrap().input();
        let message = transcode::encode(&input, params.to_string().as_bytes()).unwrap();
        let response = grpc.begin(&path, &message, &[]).await;
        streams.push((grpc, path, response));
    }
    let mut other = served.socket("?name=other").await;
    let mut more = text_message("say more");
    more["taskId"] = task.clone();
    other.send(2, "message/send", json!({ "message": more })).await;
    other.until(|value| value["id"] == 2).await;
    let answer = confirmation(&task, &call, "proceed_once");
    served.stream(served.tool_stream(answer), usize::MAX).await;
    for (_grpc, path, response) in streams {
        let got = answered(&path, response).await;
        let tasks: Vec<bool> = got.messages.iter().map(|one| one.get("task").is_some()).collect();
        assert!(tasks[0] && tasks.len() > 3, "{path}: {:#?}", got.messages);
        assert!(!tasks[1..].contains(&true), "{path}: {:#?}", got.messages);
        assert!(json!(got.messages).to_string().contains("more"), "{path}: {:#?}", got.messages);
    }
}
