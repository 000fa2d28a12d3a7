//! Several open questions over real sockets: an answer applies to the named one, and the answering
//! client's streams contain all call events.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::{Served, Socket};

const EXTENSION: &str = loggia_wire::devtool::URI;

const SCRIPT: &str = r#"
[[rule]]
prompt = "two"
steps = [
  { calls = [
    { tool = "run_shell_command", input = { command = "touch A" } },
    { tool = "run_shell_command", input = { command = "touch B" } },
  ] },
  { text = "both are done" },
]

[[rule]]
prompt = "mixed"
steps = [
  { calls = [
    { tool = "run_shell_command", input = { command = "touch A" } },
    { tool = "list_directory", input = { path = "." } },
  ] },
  { text = "both are done" },
]
"#;

/// A session with that model, a socket that follows it, and a client of one version.
struct Talk {
    served: Served,
    socket: Socket,
    newer: bool,
    extended: bool,
    task: Value,
    context: Value,
    /// The reported statuses of each call, in order.
    calls: BTreeMap<String, Vec<String>>,
}

impl Talk {
    async fn new(machine: &Machine, newer: bool, extended: bool) -> Self {
        let model = machine.script("model.toml", SCRIPT);
        let served = Served::shared(machine, &["--model", &model]);
        let socket = served.socket("?after=0").await;
        let (task, context, calls) = (Value::Null, Value::Null, BTreeMap::new());
        Self { served, socket, newer, extended, task, context, calls }
    }

    async fn send(&mut self, part: Value, metadata: Value) -> Vec<Value> {
        let (method, role) = match self.newer {
            true => ("SendStreamingMessage", "ROLE_USER"),
            false => ("message/stream", "user"),
        };
        let mut message = json!({ "messageId": "m", "role": role, "parts": [part] });
        for (name, value) in
            [("taskId", &self.task), ("contextId", &self.context), ("metadata", &metadata)]
        {
            if !value.is_null() {
                message[name] = value.clone();
            }
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "message": message } });
        let mut request = self.served.post(&body);
        request = request.header("A2A-Version", if self.newer { "1.0" } else { "0.3" });
        if self.extended {
            request =
                request.header("A2A-Extensions", EXTENSION).header("X-A2A-Extensions", EXTENSION);
        }
        let text = request.send().await.unwrap().text().await.unwrap();
        // In 1.0 an error before the stream is a plain response.
        let data = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let frames: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
        let ends = frames.iter().filter(|frame| frame["result"]["final"] == true).count();
        assert!(ends <= 1, "only the last one is final: {frames:#?}");
        for call in frames.iter().flat_map(tool_calls) {
            let known = self.calls.entry(call.0).or_default();
            if known.last() != Some(&call.1) {
                known.push(call.1);
            }
        }
        frames
    }

    fn part(&self, kind: &str, value: Value) -> Value {
        let mut part = json!({});
        part[kind] = value;
        if !self.newer {
            part["kind"] = kind.into();
        }
        part
    }

    async fn say(&mut self, text: &str) -> Vec<Value> {
        let frames = self.send(self.part("text", text.into()), Value::Null).await;
        for frame in &frames {
            let result = &frame["result"];
            let task = result.get("task").unwrap_or(result);
            if task["status"].is_object() && task["id"].is_string() && self.task.is_null() {
                (self.task, self.context) = (task["id"].clone(), task["contextId"].clone());
            }
        }
        frames
    }

    async fn answer(&mut self, call: &str, choice: &str, metadata: Value) -> Vec<Value> {
        let data = json!({ "tool_call_id": call, "selected_option_id": choice });
        self.send(self.part("data", data), metadata).await
    }

    /// Waits until the session reports the end of this call.
    async fn ended(&mut self, call: &str) {
        let ends = |value: &Value| {
            let event = &value["params"]["event"];
            let mut calls = tool_calls(&json!({ "result": event })).into_iter();
            calls.any(|(id, status)| id == call && status == "SUCCEEDED")
        };
        if !self.socket.seen.iter().any(ends) {
            self.socket.until(ends).await;
        }
    }

    /// The id of the call with this title.
    async fn call(&mut self, title: &str) -> String {
        let data = |value: &Value| {
            status(&value["params"]["event"])["message"]["parts"][0]["data"].clone()
        };
        let is_it = |value: &Value| data(value)["description"] == title;
        let known = self.socket.seen.iter().find(|value| is_it(value)).cloned();
        let found = match known {
            Some(known) => known,
            None => self.socket.until(is_it).await,
        };
        data(&found)["tool_call_id"].as_str().unwrap().to_owned()
    }

    /// The asking calls in order, each with its file: they are judged concurrently.
    async fn asked(&mut self) -> [(String, &'static str); 2] {
        while self.socket.seen.iter().filter(|value| asks(value)).count() < 2 {
            self.socket.until(asks).await;
        }
        let (a, b) = (self.call("run touch A").await, self.call("run touch B").await);
        let place = |call: &str| {
            let about = |value: &&Value| asks(value) && value.to_string().contains(call);
            self.socket.seen.iter().position(|value| about(&value))
        };
        match place(&a) < place(&b) {
            true => [(a, "A"), (b, "B")],
            false => [(b, "B"), (a, "A")],
        }
    }
}

fn asks(value: &Value) -> bool {
    let event = &value["params"]["event"];
    let kind = &event["metadata"][EXTENSION]["kind"];
    kind == "TOOL_CALL_UPDATE"
        && event["status"]["message"]["parts"][0]["data"]["confirmation_request"].is_object()
}

fn status(result: &Value) -> &Value {
    result.get("statusUpdate").unwrap_or(result).get("status").unwrap_or(&Value::Null)
}

/// The call updates of a frame: id and status.
fn tool_calls(frame: &Value) -> Vec<(String, String)> {
    let result = &frame["result"];
    let metadata = &result.get("statusUpdate").unwrap_or(result)["metadata"];
    if metadata[EXTENSION]["kind"] != "TOOL_CALL_UPDATE" {
        return Vec::new();
    }
    let parts = status(result)["message"]["parts"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let call = |part: &Value| (text(&part["data"]["tool_call_id"]), text(&part["data"]["status"]));
    parts.iter().map(call).collect()
}

fn state(frame: &Value) -> &str {
    status(&frame["result"])["state"].as_str().unwrap_or_default()
}

const WHOLE: [&str; 3] = ["PENDING", "EXECUTING", "SUCCEEDED"];

/// Events between a stream's end and the next answer are in that answer's stream, as is its effect.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_calls_did_is_in_no_stream() {
    for newer in [false, true] {
        let machine = Machine::new();
        let mut talk = Talk::new(&machine, newer, true).await;
        talk.say("mixed").await;
        let (touch, list) = (talk.call("run touch A").await, talk.call("list .").await);
        talk.ended(&list).await;
        let last = talk.answer(&touch, "proceed_once", Value::Null).await;
        assert!(state(last.last().unwrap()).to_lowercase().contains("completed"), "{last:#?}");
        for call in [touch, list] {
            assert_eq!(talk.calls[&call], WHOLE, "newer: {newer}");
        }

        let machine = Machine::new();
        let mut talk = Talk::new(&machine, newer, true).await;
        talk.say("two").await;
        let [(second, unmade), (first, made)] = talk.asked().await;
        let asked = talk.answer(&first, "proceed_once", Value::Null).await;
        assert!(state(asked.last().unwrap()).to_lowercase().contains("input"), "{asked:#?}");
        talk.ended(&first).await;
        let last = talk.answer(&second, "cancel", Value::Null).await;
        assert!(state(last.last().unwrap()).to_lowercase().contains("completed"), "{last:#?}");
        assert_eq!(talk.calls[&first], WHOLE, "newer: {newer}");
        assert_eq!(talk.calls[&second], ["PENDING", "CANCELLED"], "newer: {newer}");
        assert_eq!([machine.read(made).is_some(), machine.read(unmade).is_some()], [true, false]);
    }
}

/// The correlation id of one question with the call of another answers neither.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_names_two_questions_answers_none() {
    for newer in [false, true] {
        let machine = Machine::new();
        let mut talk = Talk::new(&machine, newer, true).await;
        let frames = talk.say("two").await;
        let [(first, unmade), (second, made)] = talk.asked().await;
        let metadata = |frame: &Value| {
            let result = &frame["result"];
            result.get("statusUpdate").unwrap_or(result)["metadata"].clone()
        };
        let named: Vec<Value> =
            frames.iter().map(metadata).filter(|all| all["correlationId"].is_string()).collect();
        let correlation = json!({ "correlationId": named[0]["correlationId"] });
        let refused = talk.answer(&second, "proceed_once", correlation.clone()).await;
        assert!(refused[0]["error"].to_string().contains("different questions"), "{refused:#?}");
        let refused = talk.answer("bogus", "proceed_once", correlation.clone()).await;
        assert!(refused[0]["error"].to_string().contains("different questions"), "{refused:#?}");

        // With two open questions, the error names neither.
        let refused = talk.answer(&first, "cancel", correlation).await;
        let again = refused.last().unwrap();
        assert!(state(again).to_lowercase().contains("input"), "{refused:#?}");
        assert!(metadata(again)["correlationId"].is_string(), "one is left: {again}");
        talk.answer(
            &second,
            "proceed_once",
            json!({ "correlationId": metadata(again)["correlationId"] }),
        )
        .await;
        assert_eq!([machine.read(made).is_some(), machine.read(unmade).is_some()], [true, false]);
    }
}

/// A named context must be that of the task.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_from_another_context_changes_nothing() {
    let machine = Machine::new();
    let mut talk = Talk::new(&machine, true, true).await;
    talk.say("mixed").await;
    let touch = talk.call("run touch A").await;
    let own = std::mem::replace(&mut talk.context, "another".into());
    let refused = talk.answer(&touch, "proceed_once", Value::Null).await;
    assert!(refused[0]["error"].to_string().contains("another context"), "{refused:#?}");
    assert_eq!(machine.read("A"), None);
    talk.context = own;
    talk.answer(&touch, "proceed_once", Value::Null).await;
    assert!(machine.read("A").is_some());
}

/// A client without the extension sees the rejection and the next question; in 0.3 the rejection is
/// final.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_is_told_of_both() {
    for newer in [false, true] {
        let machine = Machine::new();
        let mut talk = Talk::new(&machine, newer, false).await;
        talk.say("two").await;
        let [(_, unmade), (_, made)] = talk.asked().await;
        let refused = talk.say("no").await;
        let text = Value::from(refused.clone()).to_string();
        assert!(text.contains(&format!("touch {unmade} was not done")), "{refused:#?}");
        let last = refused.last().unwrap();
        assert!(state(last).to_lowercase().contains("input"), "{refused:#?}");
        assert!(last.to_string().contains(&format!("touch {made}")), "{last}");
        assert!(newer || last["result"]["final"] == true, "{last}");
        let done = talk.say("yes").await;
        assert!(state(done.last().unwrap()).to_lowercase().contains("completed"), "{done:#?}");
        assert_eq!([machine.read(made).is_some(), machine.read(unmade).is_some()], [true, false]);
    }
}

/// Settings of a later message or for an existing session: ignored ones are reported, invalid ones
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_come_too_late_are_not_dropped_in_silence() {
    let machine = Machine::new();
    let mut talk = Talk::new(&machine, false, true).await;
    let wish = |settings: Value| json!({ EXTENSION: settings });
    let part = talk.part("text", "say hi".into());
    let settings =
        json!({ "allowed_tools": ["read_file"], "mcp_servers": { "a": {} }, "autoExecute": true });
    let frames = Value::from(talk.send(part.clone(), wish(settings)).await).to_string();
    for said in [
        "allowed_tools is for a session's first message",
        "MCP servers are not used",
        "autoExecute cannot be turned on for an existing session",
    ] {
        assert!(frames.contains(said), "{said}: {frames}");
    }
    let refused = talk.send(part.clone(), wish(json!({ "allowed_tools": ["no_such"] }))).await;
    assert!(refused[0]["error"].to_string().contains("unknown tool"), "{refused:#?}");
    let nothing = json!({ "mcp_servers": {}, "autoExecute": false });
    let frames = Value::from(talk.send(part, wish(nothing)).await).to_string();
    assert!(!frames.contains("MCP servers"), "{frames}");
}

/// An ignored setting is reported in the turn of its client, not in the current one.
#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_setting_is_reported_to_its_client() {
    let machine = Machine::new();
    let mut talk = Talk::new(&machine, false, true).await;
    talk.say("mixed").await;
    let touch = talk.call("run touch A").await;
    let message = json!({
        "kind": "message", "role": "user", "messageId": "w", "parts": [{ "kind": "text", "text": "say hi" }],
        "metadata": { EXTENSION: { "mcp_servers": { "a": {} } } },
    });
    let wishes = talk.served.tool_stream(message).send();
    let wishes = tokio::spawn(async { wishes.await.unwrap().text().await.unwrap() });
    talk.socket.until(|value| value["params"]["event"]["status"]["state"] == "submitted").await;
    let answers = Value::from(talk.answer(&touch, "cancel", Value::Null).await).to_string();
    let said = |text: &str| text.contains("MCP servers are not used");
    assert_eq!((said(&wishes.await.unwrap()), said(&answers)), (true, false));
}
