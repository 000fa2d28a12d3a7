//! One session, many clients: S0's criteria and S1's exchange, over real sockets.

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::{EXTENSION, Event, Served, asked, confirmation, short, text_message};

fn shorts(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| short(&event.response["result"])).collect()
}

/// S0 §8.1, without a terminal.
#[tokio::test]
async fn a2a_port_starts_a_server_that_says_what_it_is() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let card = served.get("/.well-known/agent-card.json").await;
    assert_eq!(card["capabilities"]["extensions"][0]["uri"], EXTENSION);
    assert_eq!(card["capabilities"]["extensions"][0]["required"], false);
    assert_eq!(card["capabilities"]["streaming"], true);
    let pure = served.get("/a2a/1.0/.well-known/agent-card.json").await;
    assert!(pure["url"].is_null() && pure["supportedInterfaces"].is_array(), "{pure}");
    let pure = served.get("/a2a/0.3/.well-known/agent-card.json").await;
    assert!(pure["supportedInterfaces"].is_null() && pure["protocolVersion"].is_string(), "{pure}");
}

/// S1, appendix A, event by event.
#[tokio::test]
async fn the_exchange_of_appendix_a() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut message = text_message("write hello.txt: hi");
    message["metadata"] =
        json!({ EXTENSION: { "workspace_path": machine.work().canonicalize().unwrap() } });
    let first = served.stream(served.tool_stream(message), usize::MAX).await;
    assert_eq!(
        shorts(&first),
        [
            "Task submitted",
            "STATE_CHANGE working",
            "TOOL_CALL_UPDATE PENDING",
            "STATE_CHANGE input-required final",
        ]
    );
    assert_eq!(machine.read("hello.txt"), None);
    let (task, call) = asked(&first);
    let second = served
        .stream(served.tool_stream(confirmation(&task, &call, "proceed_once")), usize::MAX)
        .await;
    let second = shorts(&second);
    assert_eq!(
        second[..2],
        ["TOOL_CALL_UPDATE EXECUTING", "TOOL_CALL_UPDATE SUCCEEDED"],
        "{second:?}"
    );
    assert!(second[2].starts_with("TEXT_CONTENT wrote hello.txt"), "{second:?}");
    assert_eq!(second.last().unwrap(), "STATE_CHANGE completed final");
    assert_eq!(machine.read("hello.txt").as_deref(), Some("hi\n"));

    // It can be continued under the same id; a task without the extension cannot use it.
    let mut more = text_message("say more");
    more["taskId"] = task.clone();
    let third = served.stream(served.tool_stream(more.clone()), usize::MAX).await;
    assert_eq!(third[0].response["result"]["id"], task);
    let plain = json!({ "message": text_message("say x"), "configuration": { "blocking": true } });
    let plain = served.call("message/send", plain).await;
    more["taskId"] = plain["result"]["id"].clone();
    let over = served.call("message/send", json!({ "message": more })).await;
    assert_eq!(over["error"]["code"], -32004, "{over}");
}

/// S1 §3.2: only the first message must name the extension. Later messages to its task use it too.
#[tokio::test]
async fn a_task_that_was_begun_with_the_extension_goes_on_with_it() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let plainly = |message: Value| {
        served.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": { "message": message } }))
    };
    let mut message = text_message("write hello.txt: hi");
    message["metadata"] =
        json!({ EXTENSION: { "workspace_path": machine.work().canonicalize().unwrap() } });
    let first = served.stream(plainly(message), usize::MAX).await;
    assert_eq!(shorts(&first).last().unwrap(), "STATE_CHANGE input-required final");
    let (task, call) = asked(&first);
    let answered = plainly(confirmation(&task, &call, "proceed_once"));
    let answered = shorts(&served.stream(answered, usize::MAX).await);
    assert_eq!(answered[..2], ["TOOL_CALL_UPDATE EXECUTING", "TOOL_CALL_UPDATE SUCCEEDED"]);
    let mut more = text_message("say more");
    more["taskId"] = task.clone();
    let more = served.stream(plainly(more), usize::MAX).await;
    assert_eq!(more[0].response["result"]["id"], task);
    assert!(shorts(&more).contains(&"TEXT_CONTENT more".to_owned()), "{:?}", shorts(&more));
}

/// Another workspace for an open session is an error.
#[tokio::test]
async fn settings_are_a_request_within_policy() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut message = text_message("say x");
    message["metadata"] = json!({ EXTENSION: { "workspace_path": "/etc" } });
    let refused = served.stream(served.tool_stream(message), usize::MAX).await;
    assert_eq!(refused[0].response["error"]["data"]["reason"], "workspace-differs", "{refused:?}");
}

/// A plain client answers by text. A late answer is refused and does not become a prompt; other
/// text does.
#[tokio::test]
async fn a_late_text_answer_names_the_first_one() {
    let machine = Machine::new();
    let script = "[[rule]]\nsteps = [ { call = \"write_file\", input = { path = \"x\", content = \"x\" } }, \
                  { repeat = 100_000, step = { text = \"word \", delay = \"5ms\" } } ]\n";
    let model = machine.script("late.toml", script);
    let served = Served::shared(&machine, &["--model", &model]);
    // Separate connections, because a repeated request of one client is not late.
    let (first, second) = (reqwest::Client::new(), reqwest::Client::new());
    let say = async |client: &reqwest::Client, task: &Value, words: &str| -> Value {
        let mut message = text_message(words);
        if task.is_string() {
            message["taskId"] = task.clone();
        }
        let params = json!({ "message": message, "configuration": { "blocking": false } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
        client.post(served.url()).json(&body).send().await.unwrap().json().await.unwrap()
    };
    let mut watch = served.socket("").await;
    let begun = say(&first, &Value::Null, "go").await;
    let task = begun["result"]["id"].clone();
    watch.until(|value| value["params"]["event"]["status"]["state"] == "input-required").await;
    let answered = say(&first, &task, "yes").await;
    assert_eq!(answered["result"]["status"]["state"], "working", "{answered}");
    // The history contains it as it was sent.
    let history = answered["result"]["history"].as_array().unwrap();
    let said = history.iter().rfind(|said| said["role"] == "user").unwrap();
    assert_eq!((&said["messageId"], &said["parts"][0]["text"]), (&json!("m"), &json!("yes")));
    for words in ["yes", "no", "1", "Always"] {
        let late = say(&second, &task, words).await;
        let why = &late["error"]["data"];
        assert_eq!(why["reason"], "already-answered", "{words}: {late}");
        assert_eq!(why["choice"], "proceed_once", "{words}: {late}");
    }
    let again = say(&first, &task, "yes").await;
    assert_eq!(again["result"]["id"], task, "{again}");
    let more = say(&second, &task, "yes, and then tidy up").await;
    assert_eq!(more["result"]["id"], task, "{more}");
    served.call("tasks/cancel", json!({ "id": task })).await;
    let log = machine.log(&machine.sessions()[0]);
    let accepted =
        |event: &loggia_core::Event| matches!(event, loggia_core::Event::PromptAccepted { .. });
    assert_eq!(log.iter().filter(|envelope| accepted(&envelope.event)).count(), 2);
}

/// S0 §8.2 and §8.5 with two sockets and a stream: all see everything, the first answer wins, the
/// loser is told.
#[tokio::test]
async fn everybody_sees_the_same_and_the_first_answer_wins() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut ann = served.socket("?name=ann").await;
    let mut bob = served.socket("?name=bob").await;
    ann.send(
        1,
        "message/stream",
        json!({ "message": text_message("think a: b\nwrite x.txt: 1\nrun echo live") }),
    )
    .await;
    let question = |value: &Value| value["params"]["event"]["status"]["state"] == "input-required";
    let asked = bob.until(question).await;
    ann.until(question).await;
    let part = &asked["params"]["event"]["status"]["message"]["parts"][0]["data"];
    let (task, call) = (asked["params"]["event"]["taskId"].clone(), part["tool_call_id"].clone());
    let answer = json!({ "message": confirmation(&task, &call, "proceed_once") });
    bob.send(5, "message/stream", answer.clone()).await;
    bob.until(|value| {
        value["params"]["event"]["status"]["message"]["parts"][0]["data"]["status"] == "EXECUTING"
    })
    .await;
    ann.send(6, "message/send", answer).await;
    let lost = ann.until(|value| value["id"] == 6).await;
    let why = &lost["error"]["data"];
    assert_eq!(why["reason"], "already-answered", "{lost}");
    assert_eq!(why["choice"], "proceed_once");
    assert!(why["by"].as_str().unwrap().starts_with("A2A:bob@") && why["at"].is_string(), "{lost}");

    // The command follows; a third client, on SSE, answers it.
    let asked = bob.until(question).await;
    let call =
        asked["params"]["event"]["status"]["message"]["parts"][0]["data"]["tool_call_id"].clone();
    let events = served
        .stream(served.tool_stream(confirmation(&task, &call, "proceed_once")), usize::MAX)
        .await;
    assert_eq!(shorts(&events).last().unwrap(), "STATE_CHANGE completed final");
    let over = |value: &Value| value["params"]["event"]["status"]["state"] == "completed";
    ann.until(over).await;
    bob.until(over).await;
    assert_eq!(ann.followed(), bob.followed(), "the same frames in the same order");
    let kinds: Vec<String> = ann.followed().iter().map(|(_, frame)| short(frame)).collect();
    assert!(kinds.contains(&"THOUGHT a".to_owned()), "{kinds:?}");
    assert_eq!(machine.read("x.txt").as_deref(), Some("1\n"));
    // A later client that follows from the beginning sees everything.
    let mut late = served.socket("?after=0").await;
    late.until(over).await;
    assert_eq!(late.followed(), ann.followed());
    // A client that resumes from an id sees exactly the rest.
    let all = ann.followed();
    let mut back = served.socket(&format!("?after={}", all[3].0)).await;
    back.until(over).await;
    assert_eq!(back.followed(), all[4..]);
}

/// R06 and R07: a stream is cut after every event and resumed, also after `kill -9`: no event is
/// missing or repeated.
#[tokio::test]
async fn a_cut_stream_is_resumed_exactly_also_after_a_crash() {
    let machine = Machine::new();
    let script = "[[rule]]\nsteps = [ { repeat = 8, step = { text = \"word \", delay = \"3ms\" } }, \
                  { call = \"list_directory\", input = {} }, { text = \"end\" } ]\n";
    let model = machine.script("words.toml", script);
    let served = Served::shared(&machine, &["--model", &model]);
    let whole = served.stream(served.tool_stream(text_message("go")), usize::MAX).await;
    assert!(whole.len() > 8, "{whole:?}");
    let task = whole[0].response["result"]["id"].clone();
    let session = whole[0].response["result"]["contextId"].as_str().unwrap().to_owned();
    let resume = |served: &Served, seen: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
        served.post(&body).header("X-A2A-Extensions", EXTENSION).header("Last-Event-ID", seen)
    };
    for (k, event) in whole.iter().enumerate() {
        let rest = served.stream(resume(&served, &event.id), usize::MAX).await;
        assert_eq!(rest, whole[k + 1..], "after {}", event.id);
    }
    drop(served); // SIGKILL
    let served = Served::shared(&machine, &["--model", &model, "--session", &session]);
    for (k, event) in whole.iter().enumerate() {
        let rest = served.stream(resume(&served, &event.id), usize::MAX).await;
        assert_eq!(rest, whole[k + 1..], "after {} and a crash", event.id);
    }
}

/// An id of another, longer session is not valid here: the current task comes first, then the rest.
#[tokio::test]
async fn an_id_behind_the_end_gets_the_task_as_it_is() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let asked =
        served.call("message/send", json!({ "message": text_message("write a.txt: x") })).await;
    let task = asked["result"]["id"].clone();
    for method in ["tasks/resubscribe", "SubscribeToTask"] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": task } });
        for id in ["999.0", "18446744073709551615.4294967295", "no place"] {
            let request = served.post(&body).header("Last-Event-ID", id);
            let first = served.stream(request, 1).await.remove(0).response;
            let shown = first["result"].get("task").unwrap_or(&first["result"]);
            assert_eq!(shown["id"], task, "{method} {id}: {first}");
        }
    }
    // The same for a finished task.
    served.call("tasks/cancel", json!({ "id": task })).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
    let request = served.post(&body).header("Last-Event-ID", "999.0");
    let events = served.stream(request, usize::MAX).await;
    assert_eq!(events[0].response["result"]["status"]["state"], "canceled", "{events:?}");
}

/// A plain client without the extension understands everything and answers by text.
#[tokio::test]
async fn a_plain_client_of_either_version_answers_in_words() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let message =
        json!({ "role": "ROLE_USER", "messageId": "1", "parts": [{ "text": "write one.txt: 1" }] });
    let asked = served.call("SendMessage", json!({ "message": message })).await;
    let task = &asked["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    let question = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(question.contains("one.txt") && question.contains("proceed_once"), "{question}");
    let words = |text: &str| json!({ "message": { "role": "ROLE_USER", "messageId": "2", "taskId": task["id"], "parts": [{ "text": text }] } });
    let unclear = served.call("SendMessage", words("perhaps tomorrow")).await;
    assert_eq!(unclear["error"]["code"], -32602, "{unclear}");
    let done = served.call("SendMessage", words("yes")).await;
    assert_eq!(done["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(machine.read("one.txt").as_deref(), Some("1\n"));

    let mut message = text_message("write two.txt: 2");
    let asked = served
        .call("message/send", json!({ "message": message, "configuration": { "blocking": true } }))
        .await;
    assert_eq!(asked["result"]["status"]["state"], "input-required", "{asked}");
    message = text_message("no");
    message["taskId"] = asked["result"]["id"].clone();
    let done = served
        .call("message/send", json!({ "message": message, "configuration": { "blocking": true } }))
        .await;
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    assert_eq!(machine.read("two.txt"), None);
    let listed = served.call("ListTasks", json!({ "pageSize": 1 })).await;
    assert_eq!(listed["result"]["totalSize"], 2, "{listed}");
    let token = listed["result"]["nextPageToken"].clone();
    let rest = served.call("ListTasks", json!({ "pageSize": 1, "pageToken": token })).await;
    assert_eq!(rest["result"]["nextPageToken"], "");
    assert_ne!(rest["result"]["tasks"][0]["id"], listed["result"]["tasks"][0]["id"]);
}

/// Live output is visible while the command runs, including the end of a burst.
#[tokio::test]
async fn live_output_is_visible() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--approve", "all"]);
    let mut watch = served.socket("").await;
    let command = "run echo one; sleep 0.03; echo two; sleep 0.03; echo three; sleep 60";
    watch.send(1, "message/stream", json!({ "message": text_message(command) })).await;
    let live = watch.until(|value| {
        let call = &value["params"]["event"]["status"]["message"]["parts"][0]["data"];
        call["live_content"].as_str().is_some_and(|text| text.contains("three"))
    });
    let live = live.await;
    let call = &live["params"]["event"]["status"]["message"]["parts"][0]["data"];
    assert_eq!(
        (&call["status"], &call["live_content"]),
        (&json!("EXECUTING"), &json!("one\ntwo\nthree\n"))
    );
}

/// A16: the whole command is shown, and an answer to another command is refused.
#[tokio::test]
async fn the_shown_command_is_the_one_that_runs() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let command = format!("echo ok{}; touch PWNED", " ".repeat(8000));
    let events = served
        .stream(served.tool_stream(text_message(&format!("run {command}"))), usize::MAX)
        .await;
    let (task, call) = asked(&events);
    let frame = events
        .iter()
        .map(|event| &event.response["result"])
        .find(|frame| frame["metadata"]["detailsDigest"].is_string())
        .expect("the digest of what is shown");
    let shown =
        &frame["status"]["message"]["parts"][0]["data"]["confirmation_request"]["execute_details"];
    assert_eq!(shown["command"], command.as_str());
    let answer = |digest: &Value| {
        let mut message = confirmation(&task, &call, "proceed_once");
        message["metadata"] = json!({ "detailsDigest": digest });
        served.tool_stream(message)
    };
    let stale = served.stream(answer(&json!("0".repeat(64))), usize::MAX).await;
    assert_eq!(stale[0].response["error"]["data"]["reason"], "details-changed", "{stale:?}");
    assert!(machine.read("PWNED").is_none());
    let right = served.stream(answer(&frame["metadata"]["detailsDigest"]), usize::MAX).await;
    assert_eq!(shorts(&right).last().unwrap(), "STATE_CHANGE completed final");
    assert!(machine.read("PWNED").is_some());
}

/// Prompts during a turn are queued and answered in order.
#[tokio::test]
async fn prompts_wait_for_their_turn() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let long = served.tool_stream(text_message("wait 400ms\nsay first"));
    let short_one = served.tool_stream(text_message("say second"));
    let (first, second) = tokio::join!(served.stream(long, usize::MAX), async {
        let mut watch = served.socket("?after=0").await;
        watch.until(|value| value["params"]["event"]["status"]["state"] == "working").await;
        served.stream(short_one, usize::MAX).await
    });
    assert_eq!(shorts(&second)[0], "Task submitted");
    assert!(shorts(&first).contains(&"TEXT_CONTENT first".to_owned()));
    assert!(shorts(&second).contains(&"TEXT_CONTENT second".to_owned()));
    let end = |events: &[Event]| {
        events.last().unwrap().id.split('.').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(end(&first) < end(&second));
}

/// Many sessions: each message without a context opens one, and a restart finds them.
#[tokio::test]
async fn serve_keeps_sessions_apart_and_finds_them_again() {
    let machine = Machine::new();
    let send = |text: &str| json!({ "message": { "role": "ROLE_USER", "messageId": "1", "parts": [{ "text": text }] } });
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let one = served.call("SendMessage", send("say one")).await;
    let two = served.call("SendMessage", send("say two")).await;
    let (one, two) = (&one["result"]["task"], &two["result"]["task"]);
    assert_ne!(one["contextId"], two["contextId"]);
    let running = json!({ "message": send("wait 60s")["message"], "configuration": { "returnImmediately": true } });
    let running = served.call("SendMessage", running).await;
    let running = running["result"]["task"]["id"].clone();
    drop(served);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let found = served.call("GetTask", json!({ "id": one["id"] })).await;
    assert_eq!(found["result"]["status"]["state"], "TASK_STATE_COMPLETED", "{found}");
    let cut = served.call("GetTask", json!({ "id": running })).await;
    assert_eq!(cut["result"]["status"]["state"], "TASK_STATE_FAILED", "{cut}");
    let listed = served.call("ListTasks", json!({})).await;
    assert_eq!(listed["result"]["totalSize"], 3, "{listed}");
}

#[tokio::test]
async fn a_task_is_cancelled_once() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--approve", "all"]);
    let events = served.stream(served.tool_stream(text_message("run sleep 60")), 4).await;
    let task = events[0].response["result"]["id"].clone();
    let cancelled = served.call("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(cancelled["result"]["status"]["state"], "canceled", "{cancelled}");
    let again = served.call("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(again["error"]["code"], -32002, "{again}");
}

/// P2 over sockets: one of many answers wins, and the others are told.
#[tokio::test]
async fn of_many_answers_over_sockets_one_wins_each_round() {
    const CLIENTS: usize = 100;
    const ROUNDS: usize = 60;
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        clients.push(served.socket(&format!("?name=client-{number}")).await);
    }
    let prompt = vec!["run true"; ROUNDS].join("\n");
    clients[0].send(0, "message/stream", json!({ "message": text_message(&prompt) })).await;
    let racing = clients.into_iter().map(|mut client| async move {
        let mut won = 0;
        for round in 1..=ROUNDS as u64 {
            // The next question may arrive before the reply to the last answer.
            let asks =
                |value: &&Value| value["params"]["event"]["status"]["state"] == "input-required";
            while client.seen.iter().filter(asks).count() < round as usize {
                client.until(|value| asks(&value)).await;
            }
            let asked = client.seen.iter().filter(asks).nth(round as usize - 1).unwrap().clone();
            let frame = &asked["params"]["event"];
            let call = &frame["status"]["message"]["parts"][0]["data"]["tool_call_id"];
            let answer = confirmation(&frame["taskId"], call, "proceed_once");
            client.send(round, "message/send", json!({ "message": answer })).await;
            let told = client.until(|value| value["id"] == round).await;
            if told["result"].is_object() {
                won += 1;
            } else {
                assert_eq!(told["error"]["data"]["reason"], "already-answered", "{told}");
                assert!(told["error"]["data"]["by"].as_str().unwrap().starts_with("A2A:client-"));
            }
        }
        won
    });
    let won: Vec<usize> = futures::future::join_all(racing).await;
    assert_eq!(won.iter().sum::<usize>(), ROUNDS, "one winner a round: {won:?}");
    let log = machine.log(&machine.sessions()[0]);
    let answered = log
        .iter()
        .filter(|envelope| matches!(envelope.event, loggia_core::Event::ApprovalAnswered { .. }));
    assert_eq!(answered.count(), ROUNDS);
}
