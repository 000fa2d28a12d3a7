//! The task service: its guide with curl, task names, and the policy for clients that cannot be
//! asked.

use std::process::Command;

use serde_json::{Value, json};

use crate::driver::{Machine, Ran};
use crate::served::Served;

const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

/// A server of many sessions with two clients.
fn serve(machine: &Machine, more: &[&str]) -> Served {
    let tokens = machine.tokens(&format!("ann:{ANN}\nbob:{BOB}\n"));
    Served::start(machine, &[&["serve", "--port", "0", "--token-file", &tokens], more].concat())
}

impl Served {
    fn at(&self, path: &str, token: &str, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        reqwest::Client::new().post(url).bearer_auth(token).json(body)
    }

    async fn rpc(&self, token: &str, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": "r", "method": method, "params": params });
        self.at("/rpc", token, &body).send().await.unwrap().json().await.unwrap()
    }

    /// `tasks/send` that waits for the end.
    async fn settled(&self, token: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": params });
        let answer = self.at("/tasks/send", token, &body).send().await.unwrap();
        answer.json::<Value>().await.unwrap()["result"].clone()
    }
}

fn saying(id: &str, text: &str) -> Value {
    json!({ "id": id, "message": { "role": "user", "parts": [{ "text": text }] } })
}

fn curl(arguments: &[&str]) -> Value {
    let ran = Ran::from(Command::new("curl").arg("-sS").args(arguments).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.out))
}

/// The steps of the guide: card, token, task, result, error.
#[test]
fn the_guide_with_curl() {
    let machine = Machine::new();
    let mut arguments = Vec::new();
    // The guide's credentials work if the sample client is enabled.
    let with_oauth = machine.run(&["serve", "--help"]).out.contains("--dev-credentials");
    if with_oauth {
        arguments.push("--dev-credentials");
    }
    let served = serve(&machine, &arguments);
    let base = format!("http://127.0.0.1:{}", served.port);
    let at =
        |url: &Value| format!("{base}/{}", url.as_str().unwrap().splitn(4, '/').nth(3).unwrap());

    let card = curl(&[&format!("{base}/.well-known/agent.json")]);
    for name in ["name", "description", "version", "url", "capabilities", "skills"] {
        assert!(card.get(name).is_some(), "{name}: {card}");
    }
    let methods: Vec<&str> =
        card["methods"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(methods.starts_with(&["tasks/send", "tasks/get"]), "{methods:?}");
    assert_eq!(card["methods"][0]["inputSchema"]["required"], json!(["id", "message"]));
    assert!(card["authentication"]["schemes"].is_array());
    let rpc = at(&card["endpoints"]["rpc"]);

    let token = match with_oauth {
        true => {
            let given = curl(&[
                "-X",
                "POST",
                "-H",
                "Content-Type: application/x-www-form-urlencoded",
                "-d",
                "grant_type=client_credentials&client_id=a2a-claude-client-123\
                 &client_secret=verysecretclientkey",
                &at(&card["endpoints"]["token"]),
            ]);
            assert_eq!(given["token_type"], "Bearer", "{given}");
            assert!(given["expires_in"].is_u64(), "{given}");
            given["access_token"].as_str().unwrap().to_owned()
        }
        false => ANN.to_owned(),
    };
    let bearer = format!("Authorization: Bearer {token}");
    let call = |body: &str| {
        let json = "Content-Type: application/json";
        curl(&["-X", "POST", "-H", json, "-H", &bearer, "-d", body, &rpc])
    };

    let sent = call(
        r#"{
          "jsonrpc": "2.0",
          "method": "tasks/send",
          "params": {
            "id": "unique-task-id-001",
            "message": {
              "role": "user",
              "parts": [{ "text": "say def list_files(directory): ..." }]
            },
            "context": { "style": "short" }
          },
          "id": "request-id-123"
        }"#,
    );
    assert_eq!((&sent["jsonrpc"], &sent["id"]), (&json!("2.0"), &json!("request-id-123")));
    assert_eq!(sent["result"]["id"], "unique-task-id-001", "{sent}");
    assert_eq!(sent["result"]["message"]["role"], "agent");
    let said = sent["result"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(
        ["submitted", "working"].contains(&sent["result"]["state"].as_str().unwrap()),
        "{sent}"
    );
    assert!(said.starts_with("Task submitted."), "{said}");

    let get = r#"{
      "jsonrpc": "2.0",
      "method": "tasks/get",
      "params": { "id": "unique-task-id-001" },
      "id": "request-id-124"
    }"#;
    let done = loop {
        let polled = call(get);
        assert_eq!(polled["id"], "request-id-124");
        if polled["result"]["state"] == "completed" {
            break polled["result"].clone();
        }
        let state = polled["result"]["state"].as_str().unwrap();
        assert!(["submitted", "working"].contains(&state), "{polled}");
    };
    assert_eq!(done["input"]["message"]["role"], "user");
    assert_eq!(done["input"]["id"], "unique-task-id-001");
    assert_eq!(done["context"], json!({ "style": "short" }));
    assert_eq!(done["message"]["role"], "agent");
    let artifact = &done["artifacts"][0];
    assert_eq!(artifact["mimeType"], "text/plain");
    assert!(artifact["name"].is_string());
    let text = artifact["parts"][0]["text"].as_str().unwrap();
    assert!(text.contains("def list_files(directory): ..."), "{text}");
    assert!(done["createdAt"].as_str().unwrap() <= done["updatedAt"].as_str().unwrap());

    let error =
        call(r#"{"jsonrpc": "2.0", "method": "tasks/get", "params": {}, "id": "request-id-125"}"#);
    assert_eq!(error["error"]["code"], -32602);
    assert_eq!(error["error"]["message"], "Invalid params: 'id' is required.");
    assert_eq!(error["id"], "request-id-125");
}

#[tokio::test]
async fn errors_are_the_guides() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let raw = |body: &'static str| {
        let url = format!("http://127.0.0.1:{}/rpc", served.port);
        let client = reqwest::Client::new().post(url).bearer_auth(ANN);
        client.header("content-type", "application/json").body(body).send()
    };
    for (body, code) in [
        ("{", -32700),
        ("[]", -32600),
        (r#"{"method":"tasks/get","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","method":"tasks/list","id":1}"#, -32601),
        (r#"{"jsonrpc":"2.0","method":"message/send","params":{},"id":1}"#, -32601),
        (r#"{"jsonrpc":"2.0","method":"tasks/get","id":1}"#, -32602),
        (r#"{"jsonrpc":"2.0","method":"tasks/send","params":{"id":"x"},"id":1}"#, -32602),
        (r#"{"jsonrpc":"2.0","method":"tasks/get","params":{"id":"x"},"id":1}"#, -32001),
        (r#"{"jsonrpc":"2.0","method":"tasks/cancel","params":{"id":"x"},"id":1}"#, -32001),
    ] {
        let answer = raw(body).await.unwrap();
        assert_eq!(answer.status(), 200, "{body}");
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
    }
    let url = format!("http://127.0.0.1:{}/rpc", served.port);
    let wrong = reqwest::Client::new().post(url).bearer_auth("wrong").json(&json!({}));
    let wrong = wrong.send().await.unwrap();
    assert_eq!(wrong.status(), 401);
    assert!(wrong.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    let done = served.settled(ANN, saying("over", "say x")).await;
    assert_eq!(done["state"], "completed");
    let late = served.rpc(ANN, "tasks/cancel", json!({ "id": "over" })).await;
    assert_eq!(late["error"]["code"], -32002, "{late}");
}

/// A name is one task: resent, sent concurrently, sent after a restart. A different message is an
/// error, and the name of another client is another task.
#[tokio::test]
async fn a_name_is_one_task_of_one_client() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let params = saying("report", "say once");
    let at_once: Vec<Value> =
        futures::future::join_all((0..8).map(|_| served.settled(ANN, params.clone()))).await;
    for done in &at_once {
        assert_eq!((&done["state"], &done["id"]), (&json!("completed"), &json!("report")));
        assert_eq!(done["artifacts"], at_once[0]["artifacts"]);
    }
    assert_eq!(machine.sessions().len(), 1);

    let other = served.rpc(ANN, "tasks/send", saying("report", "say twice")).await;
    assert_eq!(other["error"]["code"], -32602);
    assert_eq!(other["error"]["data"]["field"], "message", "{other}");

    for method in ["tasks/get", "tasks/cancel", "tasks/resubscribe"] {
        let hidden = served.rpc_text(BOB, method, json!({ "id": "report" })).await;
        assert!(hidden.contains("-32001"), "{method}: {hidden}");
    }
    let bobs = served.settled(BOB, saying("report", "say something else")).await;
    assert_eq!(bobs["artifacts"][0]["parts"][0]["text"], "something else");
    // Nor by its internal id, which others may have seen.
    let session = at_once[0]["sessionId"].as_str().unwrap().to_owned();
    let log = machine.log(&session);
    let ours = log.iter().find_map(|envelope| match &envelope.event {
        loggia_core::Event::PromptAccepted { task, .. } => Some(task.to_string()),
        _ => None,
    });
    let ours = ours.unwrap();
    let hidden = served.rpc(BOB, "tasks/get", json!({ "id": ours })).await;
    assert_eq!(hidden["error"]["code"], -32001);
    let own = served.rpc(ANN, "tasks/get", json!({ "id": ours })).await;
    assert_eq!(own["result"]["id"], "report");
    drop(served);

    let served = serve(&machine, &[]);
    let found = served.rpc(ANN, "tasks/get", json!({ "id": "report" })).await;
    assert_eq!(found["result"]["artifacts"], at_once[0]["artifacts"]);
    assert_eq!(found["result"]["input"], params);
    let again = served.rpc(ANN, "tasks/send", params).await;
    assert_eq!(again["result"]["createdAt"], at_once[0]["createdAt"]);
    assert_eq!(machine.sessions().len(), 2);
}

impl Served {
    async fn rpc_text(&self, token: &str, method: &str, params: Value) -> String {
        let body = json!({ "jsonrpc": "2.0", "id": "r", "method": method, "params": params });
        self.at("/rpc", token, &body).send().await.unwrap().text().await.unwrap()
    }
}

/// Tasks with the same `sessionId` are one conversation; another client's is another.
#[tokio::test]
async fn a_session_id_groups() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let in_session = |id: &str, session: &str| {
        let mut params = saying(id, "say x");
        params["sessionId"] = session.into();
        params
    };
    let first = served.settled(ANN, in_session("a", "mine")).await;
    assert_eq!(first["sessionId"], "mine");
    served.settled(ANN, in_session("b", "mine")).await;
    assert_eq!(machine.sessions().len(), 1);
    served.settled(BOB, in_session("a", "mine")).await;
    assert_eq!(machine.sessions().len(), 2);
    // A session id assigned by the server can be used too, by its owner.
    let alone = served.settled(ANN, saying("c", "say x")).await;
    let ours = alone["sessionId"].as_str().unwrap().to_owned();
    served.settled(ANN, in_session("d", &ours)).await;
    assert_eq!(machine.sessions().len(), 3);
    served.settled(BOB, in_session("e", &ours)).await;
    assert_eq!(machine.sessions().len(), 4);
}

/// A question is rejected in the session itself, visible to all clients; allowed actions pass.
#[tokio::test]
async fn without_a_person_the_policy_answers() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let mut done = Value::Null;
    for (id, text) in [("c", "run touch b.txt"), ("q", "ask Really?"), ("w", "write a.txt: hi")] {
        done = served.settled(ANN, saying(id, text)).await;
        // A polling client sees the state only, so an action that was not done must not be a
        // success.
        assert_eq!(done["state"], "failed", "{done}");
        let said = done["message"]["parts"][0]["text"].as_str().unwrap();
        assert_eq!(said.matches("it needs an approval").count(), 1, "{said}");
    }
    assert!(machine.read("a.txt").is_none() && machine.read("b.txt").is_none());
    let log = machine.log(done["sessionId"].as_str().unwrap());
    let asked = |envelope: &loggia_core::Envelope| {
        matches!(envelope.event, loggia_core::Event::ApprovalAsked { .. })
    };
    assert!(!log.iter().any(asked));
    let loggia_core::Event::SessionOpened { settings, .. } = &log[0].event else { panic!() };
    assert!(settings.unattended);
    let about = served.settled(ANN, saying("about", "/about")).await;
    let about = about["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(about.contains("mode: ask, unattended"), "{about}");
    assert!(about.contains("workspace: a directory of the server"), "{about}");
    drop(served);

    let served = serve(&machine, &["--approve", "edits"]);
    let done = served.settled(ANN, saying("e", "write a.txt: hi\nrun touch b.txt")).await;
    let said = done["message"]["parts"][0]["text"].as_str().unwrap();
    assert_eq!(
        (&done["state"], said.matches("it needs an approval").count()),
        (&json!("failed"), 1)
    );
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
    assert!(machine.read("b.txt").is_none());
}

/// In a shared session people are asked, and a client of this protocol may answer with the next
/// message under the same name.
#[tokio::test]
async fn in_a_shared_session_people_are_asked() {
    let machine = Machine::new();
    let tokens = machine.tokens(&format!("ann:{ANN}\n"));
    let served = Served::shared(&machine, &["--token-file", &tokens]);
    let mut params = saying("w", "write a.txt: hi");
    params["sessionId"] = "anything".into();
    let waiting = served.settled(ANN, params.clone()).await;
    assert_eq!(waiting["state"], "input-required", "{waiting}");
    assert!(waiting["message"]["parts"][0]["text"].as_str().unwrap().contains("a.txt"));
    let again = served.settled(ANN, params).await;
    assert_eq!((&again["state"], &again["id"]), (&json!("input-required"), &json!("w")));
    let unclear = served.rpc(ANN, "tasks/send", saying("w", "perhaps")).await;
    assert_eq!(unclear["error"]["code"], -32602);
    let done = served.settled(ANN, saying("w", "yes")).await;
    assert_eq!(done["state"], "completed", "{done}");
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
    let late = served.rpc(ANN, "tasks/send", saying("w", "and more")).await;
    assert_eq!(late["error"]["data"]["field"], "message", "{late}");
}

/// On the common URL a task answers in the dialect it was created in.
#[tokio::test]
async fn one_url_two_dialects_with_the_same_method() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let root = |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        served.at("/", ANN, &body).send()
    };
    let sent: Value =
        root("tasks/send", saying("old", "say old")).await.unwrap().json().await.unwrap();
    assert_eq!(sent["result"]["state"], "completed", "0.1 waits for the result: {sent}");
    let message = json!({ "message": {
        "kind": "message", "role": "user", "messageId": "m", "parts": [{ "kind": "text", "text": "say new" }],
    } });
    let new: Value = root("message/send", message).await.unwrap().json().await.unwrap();
    let new = new["result"]["id"].clone();
    let get = |id: Value| root("tasks/get", json!({ "id": id }));
    let old: Value = get(json!("old")).await.unwrap().json().await.unwrap();
    assert_eq!((&old["result"]["state"], old["result"].get("kind")), (&json!("completed"), None));
    let shown: Value = get(new.clone()).await.unwrap().json().await.unwrap();
    assert_eq!((&shown["result"]["kind"], &shown["result"]["id"]), (&json!("task"), &new));
    let unknown: Value = get(json!("nobody")).await.unwrap().json().await.unwrap();
    assert_eq!(unknown["error"]["code"], -32001);
    // `/rpc` always uses the service's form.
    let shown = served.rpc(ANN, "tasks/get", json!({ "id": new })).await;
    assert_eq!((&shown["result"]["id"], shown["result"].get("input")), (&new, None));
    assert!(shown["result"]["createdAt"].is_string());
}

/// An interrupted stream resumes where it ended.
#[tokio::test]
async fn a_stream_resumes() {
    let machine = Machine::new();
    let served = serve(&machine, &[]);
    let mut params = saying("s", "say one\nsay two");
    params["historyLength"] = json!(0);
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/sendSubscribe", "params": params });
    let whole = served.stream(served.at("/rpc", ANN, &body), usize::MAX).await;
    let last = &whole.last().unwrap().response["result"];
    assert_eq!((&last["final"], &last["state"]), (&json!(true), &json!("completed")));
    assert!(last["artifacts"][0]["parts"][0]["text"].as_str().unwrap().contains("two"));
    let follow = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": "s" } });
    for (seen, event) in whole.iter().enumerate() {
        let request = served.at("/rpc", ANN, &follow).header("last-event-id", &event.id);
        assert_eq!(served.stream(request, usize::MAX).await, whole[seen + 1..]);
    }
    // Resent, it is followed from its current state.
    let again = served.stream(served.at("/rpc", ANN, &body), usize::MAX).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].response["result"]["state"], "completed");
}
