//! Messages to a task with an open or closed question: an answer, a late answer or a prompt; and
//! the streams of such a task. Over real sockets.

use std::sync::Arc;

use loggia_core::Event as Fact;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::driver::Machine;
use crate::served::{EXTENSION, Event, Served, Socket, asked, confirmation, short, text_message};

fn to_task(task: &Value, text: &str) -> Value {
    let mut message = text_message(text);
    message["taskId"] = task.clone();
    message
}

fn newer(task: &Value, text: &str) -> Value {
    let mut message = json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": text }] });
    if task.is_string() {
        message["taskId"] = task.clone();
    }
    json!({ "message": message })
}

/// The error details of either version, by name.
fn facts(answer: &Value) -> Value {
    let error = &answer["error"];
    match (&error["data"], &error["details"]) {
        (Value::Array(details), _) | (_, Value::Array(details)) => {
            let mut facts = details[0]["metadata"].clone();
            facts["reason"] = details[0]["reason"].clone();
            facts
        }
        (Value::Null, _) => answer["data"].clone(),
        (data, _) => data.clone(),
    }
}

fn is_late(answer: &Value) -> bool {
    let facts = facts(answer);
    let reason = facts["reason"].as_str().unwrap_or_default().to_lowercase().replace('_', "-");
    reason == "already-answered"
        && facts["choice"].is_string()
        && facts["by"].is_string()
        && facts["at"].is_string()
}

fn prompts(machine: &Machine) -> usize {
    let log = machine.log(&machine.sessions()[0]);
    log.iter().filter(|it| matches!(it.event, Fact::PromptAccepted { .. })).count()
}

/// Many clients answer one question by text at once, on sockets and by requests, with and without
/// the extension: one answers, the others learn who, and no text becomes a prompt.
#[tokio::test]
async fn of_many_words_one_is_the_answer_and_none_is_a_prompt() {
    const CLIENTS: usize = 24;
    const ROUNDS: usize = 4;
    let machine = Machine::new();
    let served = Arc::new(Served::shared(&machine, &[]));
    for round in 0..ROUNDS {
        let begin = text_message(&format!("write {round}.txt: x"));
        let params = json!({ "message": begin, "configuration": { "blocking": true } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
        let request = match round % 2 {
            0 => served.post(&body).header("X-A2A-Extensions", EXTENSION),
            _ => served.post(&body),
        };
        let begun: Value = request.send().await.unwrap().json().await.unwrap();
        let task = begun["result"]["id"].clone();
        assert_eq!(begun["result"]["status"]["state"], "input-required", "{begun}");
        let barrier = Arc::new(Barrier::new(CLIENTS));
        let racing = (0..CLIENTS).map(|number| {
            let (served, task, barrier) = (served.clone(), task.clone(), barrier.clone());
            tokio::spawn(async move {
                let words = if number % 2 == 0 { "no" } else { "yes" };
                if number % 3 == 0 {
                    let mut socket = served.socket(&format!("?name=client-{number}")).await;
                    barrier.wait().await;
                    let params = json!({ "message": to_task(&task, words) });
                    socket.send(1, "message/send", params).await;
                    return socket.until(|value| value["id"] == 1).await;
                }
                let (method, params) = match number % 3 {
                    1 => ("message/send", json!({ "message": to_task(&task, words) })),
                    _ => ("SendMessage", newer(&task, words)),
                };
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
                let client = reqwest::Client::new();
                barrier.wait().await;
                client.post(served.url()).json(&body).send().await.unwrap().json().await.unwrap()
            })
        });
        let told = futures::future::join_all(racing).await;
        let told: Vec<Value> = told.into_iter().map(Result::unwrap).collect();
        let won = told.iter().filter(|answer| answer["result"].is_object()).count();
        let late = told.iter().filter(|answer| is_late(answer)).count();
        assert_eq!((won, late), (1, CLIENTS - 1), "round {round}: {told:#?}");
        assert_eq!(prompts(&machine), round + 1, "no word became a prompt");
    }
}

/// In every dialect and binding, also after the task has ended.
#[tokio::test]
async fn a_late_answer_names_the_first_one_in_every_dialect() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let begin =
        json!({ "message": text_message("write a.txt: x"), "configuration": { "blocking": true } });
    let begun = served.call("message/send", begin).await;
    let task = begun["result"]["id"].clone();
    let done = json!({ "message": to_task(&task, "yes"), "configuration": { "blocking": true } });
    let done = served.call("message/send", done).await;
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    // On separate connections, because a repeated request of one client is not late.
    let send = async |path: &str, body: Value, extension: bool| -> Value {
        let url = format!("http://127.0.0.1:{}{path}", served.port);
        let mut request = reqwest::Client::new().post(url).json(&body);
        if extension {
            request = request.header("A2A-Extensions", EXTENSION);
        }
        let text = request.send().await.unwrap().text().await.unwrap();
        let first = text.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(first.unwrap_or(&text)).expect(&text)
    };
    let call = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let old_rest = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "taskId": task,
        "content": [{ "text": "no" }] } });
    for (path, body) in [
        ("/", call("message/send", json!({ "message": to_task(&task, "no") }))),
        ("/", call("message/stream", json!({ "message": to_task(&task, "yes") }))),
        ("/", call("SendMessage", newer(&task, "no"))),
        ("/", call("SendStreamingMessage", newer(&task, "1"))),
        ("/message:send", newer(&task, "no")),
        ("/message:stream", newer(&task, "no")),
        ("/v1/message:send", old_rest),
    ] {
        for extension in [false, true] {
            let told = send(path, body.clone(), extension).await;
            assert!(is_late(&told), "{path} {body} {extension}: {told}");
        }
    }
    let sdlc = json!({ "taskId": task, "userMessage": "no" });
    let told = send("/message/stream", sdlc, false).await;
    assert_eq!(
        (&told["reason"], &told["choice"]),
        (&json!("already-answered"), &json!("proceed_once"))
    );
    // The task service with a client's own task name.
    let named = |text: &str| json!({ "id": "mine", "message": { "role": "user", "parts": [{ "text": text }] } });
    send("/", call("tasks/send", named("write b.txt: x")), false).await;
    let mut watch = served.socket("").await;
    watch.until(|value| value["params"]["event"]["status"]["state"] == "input-required").await;
    send("/", call("tasks/send", named("no")), false).await;
    watch.until(|value| value["params"]["event"]["status"]["state"] == "completed").await;
    let told = send("/", call("tasks/send", named("yes")), false).await;
    assert!(is_late(&told), "{told}");
    let told = send("/", call("tasks/send", named("something else")), false).await;
    assert_eq!(told["error"]["code"], -32602, "{told}");
    assert!(!is_late(&told), "{told}");
    assert_eq!(prompts(&machine), 2);
}

/// A client can mark a message as a prompt: without a task, or with the extension's flag.
#[tokio::test]
async fn a_prompt_can_be_said_to_be_one() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let first = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (task, call) = asked(&first);
    let context = first[0].response["result"]["contextId"].clone();
    // While the question is open, and after it was answered.
    let mut flagged = to_task(&task, "no");
    flagged["metadata"] = json!({ EXTENSION: { "prompt": true } });
    let mut socket = served.socket("?name=ann").await;
    socket.send(1, "message/send", json!({ "message": flagged })).await;
    let queued = socket.until(|value| value["id"] == 1).await;
    assert_eq!(queued["result"]["status"]["state"], "input-required", "{queued}");
    served.stream(served.tool_stream(confirmation(&task, &call, "proceed_once")), usize::MAX).await;
    assert_eq!(machine.read("a.txt").as_deref(), Some("x\n"));
    let mut elsewhere = text_message("yes");
    elsewhere["contextId"] = context;
    socket.send(2, "message/send", json!({ "message": elsewhere })).await;
    let new = socket.until(|value| value["id"] == 2).await;
    assert!(new["result"]["id"].is_string() && new["result"]["id"] != task, "{new}");
    assert_eq!(prompts(&machine), 3);
    let mut wrong = to_task(&task, "no");
    wrong["metadata"] = json!({ EXTENSION: { "prompt": "yes" } });
    let wrong = served.call("message/send", json!({ "message": wrong })).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
}

/// A late answer stays late even if a queued prompt of the task runs. A client can mark a text as
/// an answer, which then never becomes a prompt.
#[tokio::test]
async fn a_late_word_is_late_while_the_next_prompt_of_its_task_runs() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let first = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (task, call) = asked(&first);
    let mut next = to_task(&task, "wait 10m");
    next["metadata"] = json!({ EXTENSION: { "prompt": true } });
    served.call("message/send", json!({ "message": next })).await;
    let mut watch = served.socket("").await;
    let answer = json!({ "message": confirmation(&task, &call, "proceed_once") });
    watch.send(1, "message/send", answer).await;
    watch.until(|value| value["id"] == 1).await;
    let next_runs = |value: &Value| {
        let event = &value["params"]["event"];
        event["status"]["state"] == "working" && machine.read("a.txt").is_some()
    };
    watch.until(next_runs).await;
    for name in ["?name=ann", "?name=bob"] {
        let mut socket = served.socket(name).await;
        socket.send(1, "message/send", json!({ "message": to_task(&task, "no") })).await;
        let told = socket.until(|value| value["id"] == 1).await;
        assert!(is_late(&told), "{told}");
    }
    assert_eq!(prompts(&machine), 2);
}

#[tokio::test]
async fn words_that_are_said_to_be_an_answer_are_never_a_prompt() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let question = text_message("ask Which file?\nsay took {answer}");
    let first = served.stream(served.tool_stream(question), usize::MAX).await;
    let (task, _) = asked(&first);
    let mut answer = to_task(&task, "a.txt");
    answer["metadata"] = json!({ EXTENSION: { "prompt": false } });
    let told = served.stream(served.tool_stream(answer.clone()), usize::MAX).await;
    assert!(told.iter().any(|event| event.response.to_string().contains("took a.txt")), "{told:?}");
    answer["parts"][0]["text"] = "run touch LATE".into();
    let mut socket = served.socket("?name=bob").await;
    socket.send(1, "message/send", json!({ "message": answer })).await;
    let late = socket.until(|value| value["id"] == 1).await;
    assert_eq!(late["error"]["data"]["reason"], "already-answered", "{late}");
    assert_eq!(prompts(&machine), 1);
}

/// Two clients answer a question in free words at once, over WebSockets and HTTP, and the loser is so late that the turn
/// may have ended: its words never become a prompt, and it is told how to send one.
#[tokio::test]
async fn free_words_of_the_loser_of_a_race_are_never_a_prompt() {
    const ROUNDS: u64 = 50;
    let machine = Machine::new();
    let served = Arc::new(Served::shared(&machine, &[]));
    let mut sockets = [served.socket("?name=ann").await, served.socket("?name=bob").await];
    let mut clients = [reqwest::Client::new(), reqwest::Client::new()];
    for round in 0..ROUNDS {
        let question = text_message("ask Which file?\nsay took {answer}");
        let first = served.stream(served.tool_stream(question), usize::MAX).await;
        let (task, _) = asked(&first);
        let body = |number: usize| {
            let params = json!({ "message": to_task(&task, &format!("file {number}")) });
            json!({ "jsonrpc": "2.0", "id": round, "method": "message/send", "params": params })
        };
        let by_socket = async |socket: &mut Socket, number: usize| {
            socket.send(round, "message/send", body(number)["params"].clone()).await;
            socket.until(|value| value["id"] == round).await
        };
        let by_request = async |client: &reqwest::Client, number: usize| -> Value {
            let request = client.post(served.url()).header("X-A2A-Extensions", EXTENSION);
            request.json(&body(number)).send().await.unwrap().json().await.unwrap()
        };
        let ([ann, bob], [eve, dan]) = (&mut sockets, &mut clients);
        let told = match round % 3 {
            0 => tokio::join!(by_socket(ann, 0), by_socket(bob, 1)),
            1 => tokio::join!(by_request(eve, 0), by_request(dan, 1)),
            _ => tokio::join!(by_socket(ann, 0), by_request(eve, 1)),
        };
        let (won, lost) = match told.0["result"].is_object() {
            true => (&told.0, &told.1),
            false => (&told.1, &told.0),
        };
        assert!(won["result"].is_object() && is_late(lost), "round {round}: {told:?}");
        let marked = json!({ EXTENSION: { "prompt": true } }).to_string();
        assert_eq!(lost["error"]["data"]["promptMetadata"], marked, "{lost}");
        assert_eq!(prompts(&machine) as u64, round + 1, "round {round}: no words became a prompt");
    }
}

/// S1, step 10: the client that answered continues the finished task in the same words that are late for another client,
/// which can mark them as a prompt. After the next message the task has moved on for both.
#[tokio::test]
async fn after_an_answer_in_free_words_its_client_continues_the_task() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    for marks in [false, true] {
        let question = text_message("ask Which file?\nsay took {answer}");
        let first = served.stream(served.tool_stream(question), usize::MAX).await;
        let (task, _) = asked(&first);
        let [mut ann, mut bob] =
            [served.socket("?name=ann").await, served.socket("?name=bob").await];
        let mut watch = served.socket("").await;
        let send = async |socket: &mut Socket, number: u64, message: Value| -> Value {
            socket.send(number, "message/send", json!({ "message": message })).await;
            socket.until(|value| value["id"] == number).await
        };
        send(&mut ann, 1, to_task(&task, "a.txt")).await;
        watch.until(|value| value["params"]["event"]["status"]["state"] == "completed").await;
        let before = prompts(&machine);
        let late = send(&mut bob, 2, to_task(&task, "say more")).await;
        assert!(is_late(&late), "{late}");
        assert!(late["error"]["data"]["by"].as_str().unwrap().contains("ann"), "{late}");
        assert_eq!(prompts(&machine), before);
        let (who, mut message) = match marks {
            true => (&mut bob, to_task(&task, "say more")),
            false => (&mut ann, to_task(&task, "say more")),
        };
        if marks {
            let metadata = late["error"]["data"]["promptMetadata"].as_str().unwrap();
            message["metadata"] = serde_json::from_str(metadata).unwrap();
        }
        let continued = send(who, 3, message).await;
        assert_eq!(continued["result"]["id"], task, "{continued}");
        let last = send(&mut bob, 4, to_task(&task, "say last")).await;
        assert_eq!(last["result"]["id"], task, "{last}");
        assert_eq!(prompts(&machine), before + 2);
    }
}

/// A withdrawn question accepts no answer.
#[tokio::test]
async fn a_word_to_a_withdrawn_question_is_refused() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let first = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (task, _) = asked(&first);
    served.call("tasks/cancel", json!({ "id": task })).await;
    let late = served.stream(served.tool_stream(to_task(&task, "yes")), usize::MAX).await;
    assert_eq!(late[0].response["error"]["data"]["reason"], "question-withdrawn", "{late:?}");
    assert_eq!(prompts(&machine), 1);
}

/// S1: "If the client responds with a cancellation, execution will be skipped", even with an edit.
#[tokio::test]
async fn a_cancellation_with_an_edit_cancels() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let first = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (task, call) = asked(&first);
    let cancel = async |task: &Value, call: &Value, details: Value| {
        let mut answer = confirmation(task, call, "cancel");
        answer["parts"][0]["data"]["file_details"] = details;
        let told = served.stream(served.tool_stream(answer), usize::MAX).await;
        let told: Vec<String> = told.iter().map(|event| short(&event.response["result"])).collect();
        assert_eq!(told[0], "TOOL_CALL_UPDATE CANCELLED", "{told:?}");
        assert_eq!(machine.read("a.txt"), None);
    };
    cancel(&task, &call, json!({ "new_content": "y\n" })).await;
    let again = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (task, call) = asked(&again);
    cancel(&task, &call, json!({})).await;
}

/// S1's step 7 begins with EXECUTING, and the edited command runs.
#[tokio::test]
async fn an_edited_approval_continues_with_the_edited_command() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let first = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (task, call) = asked(&first);
    let mut answer = confirmation(&task, &call, "proceed_once");
    answer["parts"][0]["data"]["file_details"] = json!({ "new_content": "edited\n" });
    let told = served.stream(served.tool_stream(answer), usize::MAX).await;
    let shorts: Vec<String> = told.iter().map(|event| short(&event.response["result"])).collect();
    assert_eq!(shorts[..2], ["TOOL_CALL_UPDATE EXECUTING", "TOOL_CALL_UPDATE SUCCEEDED"]);
    let shown = &told[0].response["result"]["status"]["message"]["parts"][0]["data"];
    assert_eq!(shown["input_parameters"]["content"], "edited\n", "{shown}");
    assert!(shown["confirmation_request"].is_null(), "{shown}");
    assert_eq!(machine.read("a.txt").as_deref(), Some("edited\n"));
}

fn is_task(event: &Value) -> bool {
    let result = event.get("result").unwrap_or(event);
    result["kind"] == "task" || result.get("task").is_some()
}

/// Another client writes to a running task: open streams contain no second task.
#[tokio::test]
async fn a_prompt_of_another_client_brings_no_second_task() {
    let machine = Machine::new();
    let script = "[[rule]]\ncontains = \"first\"\nsteps = [ { call = \"write_file\", input = { path = \"x\", \
                  content = \"x\" } }, { text = \"done\" } ]\n[[rule]]\nsteps = [ { text = \"more\" } ]\n";
    let model = machine.script("two.toml", script);
    let served = Served::shared(&machine, &["--model", &model]);
    let first = served.stream(served.tool_stream(text_message("first")), usize::MAX).await;
    let (task, call) = asked(&first);
    let call_of = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let by_id = json!({ "id": task });
    let rest = format!("/tasks/{}:subscribe", task.as_str().unwrap());
    let old_rest = format!("/v1{rest}");
    let requests = [
        served.post(&call_of("tasks/resubscribe", by_id.clone())),
        served
            .post(&call_of("tasks/resubscribe", by_id.clone()))
            .header("X-A2A-Extensions", EXTENSION),
        served.post(&call_of("SubscribeToTask", by_id.clone())),
        served.request("GET", &rest),
        served.request("GET", &old_rest),
    ];
    let mut socket = served.socket("").await;
    socket.send(1, "tasks/resubscribe", by_id.clone()).await;
    socket.until(|value| value["id"] == 1).await;
    let mut streams = Vec::new();
    for request in requests {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        streams.push(response);
    }
    let mut other = served.socket("?name=other").await;
    other.send(2, "message/send", json!({ "message": to_task(&task, "and another thing") })).await;
    other.until(|value| value["id"] == 2).await;
    served.stream(served.tool_stream(confirmation(&task, &call, "proceed_once")), usize::MAX).await;
    for stream in streams {
        let text = stream.text().await.unwrap();
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let tasks: Vec<bool> = events.iter().map(is_task).collect();
        assert!(tasks[0] && tasks.len() > 4, "{events:#?}");
        assert!(!tasks[1..].contains(&true), "{events:#?}");
        assert!(text.contains("more"), "it goes on to the end of both turns: {text}");
    }
    socket.until(|value| value["method"] == "stream/end").await;
    let own = socket.seen.iter().filter(|value| value["id"] == 1);
    assert_eq!(own.filter(|value| is_task(value)).count(), 1);
}

/// S0: a client that joins while a question is open sees it and can answer.
#[tokio::test]
async fn a_client_that_joins_is_told_of_the_open_question() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let first = served.stream(served.tool_stream(text_message("write a.txt: x")), usize::MAX).await;
    let (task, call) = asked(&first);
    let mut late = served.socket("").await;
    let pending = |value: &Value| {
        let part = &value["params"]["event"]["status"]["message"]["parts"][0]["data"];
        value["params"]["event"]["kind"] == "status-update"
            && part["status"] == "PENDING"
            && part["confirmation_request"]["options"].is_array()
            && part["tool_call_id"] == call
    };
    let told = late.until(pending).await;
    assert_eq!(told["params"]["event"]["taskId"], task);
    late.until(|value| value["params"]["event"]["final"] == true).await;
    let kinds: Vec<String> = late.followed().iter().map(|(_, frame)| short(frame)).collect();
    assert_eq!(
        kinds,
        ["Task input-required", "TOOL_CALL_UPDATE PENDING", "STATE_CHANGE input-required final"]
    );
    // A client that resumes after it misses nothing and gets nothing twice.
    let place = late.followed().last().unwrap().0.clone();
    let mut back = served.socket(&format!("?after={place}")).await;
    // The same on request, for another session on a socket.
    let context = first[0].response["result"]["contextId"].clone();
    late.send(3, "session/follow", json!({ "contextId": context })).await;
    late.until(|value| value["id"] == 3).await;
    late.until(pending).await;
    late.send(4, "message/send", json!({ "message": confirmation(&task, &call, "proceed_once") }))
        .await;
    let over = |value: &Value| value["params"]["event"]["status"]["state"] == "completed";
    back.until(over).await;
    assert_eq!(short(&back.followed()[0].1), "TOOL_CALL_UPDATE EXECUTING");
    late.until(over).await;
    // Without an open question, nothing is sent.
    let mut quiet = served.socket("").await;
    quiet.send(5, "commands/get", json!({})).await;
    quiet.until(|value| value["id"] == 5).await;
    assert!(quiet.followed().is_empty(), "{:?}", quiet.seen);
}

/// S1 §3.3: a command's output reaches a client that learns its id later, however fast the command
/// was.
#[tokio::test]
async fn the_output_of_a_command_that_has_ended_is_streamed() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let params = json!({ "command_path": ["help"], "args": "" });
    let ran = served.call("command/execute", params).await;
    let task = ran["result"]["execution_id"].clone();
    let mut done = Value::Null;
    while done["result"]["status"]["state"] != "completed" {
        done = served.call("tasks/get", json!({ "id": task })).await;
    }
    for (method, extension) in
        [("tasks/resubscribe", true), ("tasks/resubscribe", false), ("SubscribeToTask", true)]
    {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": task } });
        let request = served.post(&body);
        let request =
            if extension { request.header("X-A2A-Extensions", EXTENSION) } else { request };
        let events: Vec<Event> = served.stream(request, usize::MAX).await;
        assert!(is_task(&events[0].response), "{method}: {events:?}");
        let told: String = events[1..].iter().map(|event| event.response.to_string()).collect();
        assert!(told.contains("/compact"), "{method} {extension}: {events:#?}");
        let last = events.last().unwrap().response.to_string().to_lowercase();
        assert!(last.contains("completed"), "{last}");
    }
}

/// A task of the shipped SDLC server waits for its next message after a turn, and "yes" may be one.
/// During the turn it is a late answer here too.
#[tokio::test]
async fn yes_is_the_next_message_of_a_shipped_task_whose_turn_has_ended() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let send = async |mut message: Value| -> Value {
        message["metadata"] = json!({ "coderAgent": { "kind": "agent-settings" } });
        served.call("message/send", json!({ "message": message })).await
    };
    let begun = send(text_message("write a.txt: x")).await;
    let task = begun["result"]["id"].clone();
    let done = send(to_task(&task, "yes")).await;
    assert_eq!(machine.read("a.txt").as_deref(), Some("x\n"), "{done}");
    let next = send(to_task(&task, "yes")).await;
    assert_eq!(next["result"]["id"], task, "{next}");
    assert_eq!(prompts(&machine), 2);
}
