//! Twenty faults observed in the shipped SDLC agent server, and the behaviour here.
//! `docs/protocols/sdlc.md` has the table.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::coder::{Coder, answer, answer_with, asked, is_text, kind, more, record, short, texts};
use crate::driver::Machine;
use crate::served::Served;

const HELLO: &str = "Hello from the fake model.";
const FINAL: &str = "state-change input-required final";

fn last(events: &[Value]) -> String {
    events.last().map(short).unwrap_or_default()
}

fn said(events: &[Value], what: &str) -> bool {
    events.iter().any(|event| short(event) == what)
}

/// Concurrent approve and deny: one wins, the report matches the disk, and the loser learns the
/// winner.
#[tokio::test]
async fn f01_approve_and_deny_at_once() {
    let coder = Coder::start(&[]);
    for _ in 0..40 {
        let _ = std::fs::remove_file(coder.machine.file("hello.txt"));
        let (task, call) = coder.asked_to_write().await;
        let (yes, no) = tokio::join!(
            coder.told(answer(&task, &call, "proceed_once")),
            coder.told(answer(&task, &call, "cancel")),
        );
        let lost = |events: &[Value]| {
            events
                .iter()
                .find(|event| event["error"]["data"]["reason"] == "already-answered")
                .cloned()
        };
        let (winner, loser) = match (lost(&yes), lost(&no)) {
            (None, Some(loser)) => (yes, loser),
            (Some(loser), None) => (no, loser),
            other => panic!("{other:?}"),
        };
        assert!(loser["error"]["data"]["by"].as_str().unwrap().starts_with("A2A:"), "{loser}");
        let written = coder.machine.read("hello.txt").is_some();
        assert_eq!(said(&winner, "tool-call-update write_file success"), written, "{winner:#?}");
        assert_eq!(said(&winner, "tool-call-update write_file cancelled"), !written);
    }
}

/// The sender disconnects: the question stays open, and another client answers it.
#[tokio::test]
async fn f02_the_poster_leaves_while_an_approval_waits() {
    let coder = Coder::start(&[]);
    let poster = coder.say(coder.prompt("S:write please"));
    let (task, call) = asked(&poster.end().await);
    poster.leave().await;
    let events = coder.told(answer(&task, &call, "proceed_once")).await;
    assert!(said(&events, "tool-call-update write_file success"), "{events:#?}");
    assert_eq!(coder.machine.read("hello.txt").as_deref(), Some("hello\nworld\n"));
}

/// The sender disconnects during a turn: the turn and the task continue.
#[tokio::test]
async fn f03_the_poster_leaves_in_the_middle_of_a_turn() {
    let coder = Coder::start(&[]);
    let poster = coder.say(coder.prompt("S:slow go"));
    let begun = poster.until(is_text).await;
    let task = begun[0]["result"]["id"].clone();
    poster.leave().await;
    let watched = coder.stream("tasks/resubscribe", json!({ "id": task })).end().await;
    assert_eq!(last(&watched), FINAL, "{watched:#?}");
    let whole = coder.served.call("tasks/get", json!({ "id": task })).await;
    let history = whole["result"]["history"].as_array().unwrap();
    let reply = history.last().unwrap()["parts"][0]["text"].as_str().unwrap();
    assert_eq!(reply, "chunk ".repeat(20));
    let next = coder.told(more(&task, "S:text again")).await;
    assert_eq!((texts(&next).as_str(), last(&next).as_str()), (HELLO, FINAL));
}

/// An observer that connects while an approval is open sees the question, the answer and the end.
#[tokio::test]
async fn f04_an_observer_watches_through_an_approval() {
    let coder = Coder::start(&[]);
    let (task, call) = coder.asked_to_write().await;
    let observer = coder.stream("tasks/resubscribe", json!({ "id": task }));
    let opening = observer.until(|event| event["result"]["kind"] == "task").await;
    let waiting = &opening[0]["result"]["status"];
    assert_eq!(waiting["state"], "input-required");
    assert_eq!(waiting["message"]["parts"][0]["data"]["request"]["callId"], call);
    coder.told(answer(&task, &call, "proceed_once")).await;
    let seen = observer.end().await;
    for what in ["executing", "success"] {
        assert!(said(&seen, &format!("tool-call-update write_file {what}")), "{what}: {seen:#?}");
    }
    assert_eq!(last(&seen), FINAL);
}

/// A prompt during a turn or an open approval is queued and answered.
#[tokio::test]
async fn f05_a_second_prompt_is_queued_and_answered() {
    let coder = Coder::start(&[]);
    let first = coder.say(coder.prompt("S:slow go"));
    let task = first.until(is_text).await[0]["result"]["id"].clone();
    let second = coder.told(more(&task, "S:text from B")).await;
    assert!(texts(&second).ends_with(HELLO), "{second:#?}");
    assert_eq!(last(&second), FINAL);
    assert_eq!(texts(&first.end().await), format!("{}{HELLO}", "chunk ".repeat(20)));

    let (task, call) = coder.asked_to_write().await;
    let meanwhile = coder.say(more(&task, "S:text meanwhile"));
    let answered = coder.told(answer(&task, &call, "proceed_once")).await;
    assert!(said(&answered, "tool-call-update write_file success"), "{answered:#?}");
    // Whichever came first.
    assert!(texts(&meanwhile.end().await).ends_with(HELLO));
    assert!(coder.machine.read("hello.txt").is_some());
}

/// An unknown call or outcome is an immediate error, and the question stays open.
#[tokio::test]
async fn f06_an_unknown_call_or_outcome_is_an_error() {
    let coder = Coder::start(&[]);
    let (task, call) = coder.asked_to_write().await;
    let unknown = coder.told(answer(&task, &json!("nope"), "proceed_once")).await;
    assert_eq!(unknown[0]["error"]["data"]["reason"], "unknown-question", "{unknown:?}");
    let odd = coder.told(answer(&task, &call, "maybe")).await;
    assert_eq!(odd[0]["error"]["data"]["reason"], "not-a-choice", "{odd:?}");
    assert!(odd[0]["error"]["data"]["offered"].as_str().unwrap().contains("proceed_once"));
    let good = coder.told(answer(&task, &call, "proceed_once")).await;
    assert!(said(&good, "tool-call-update write_file success"), "{good:#?}");
}

/// A confirmation in the form of the development-tool extension is accepted and answered in this
/// dialect.
#[tokio::test]
async fn f07_a_confirmation_of_the_extension_is_taken() {
    let coder = Coder::start(&[]);
    let (task, call) = coder.asked_to_write().await;
    let data = json!({ "tool_call_id": call, "selected_option_id": "proceed_once" });
    let events = coder.told(answer_with(&task, data)).await;
    assert!(said(&events, "tool-call-update write_file success"), "{events:#?}");
    assert_eq!(last(&events), FINAL);
}

/// Edited content in an approval is shown and written.
#[tokio::test]
async fn f08_new_content_is_shown_and_written() {
    let coder = Coder::start(&[]);
    for outcome in ["proceed_once", "modify_with_editor"] {
        let _ = std::fs::remove_file(coder.machine.file("hello.txt"));
        let (task, call) = coder.asked_to_write().await;
        let edited = "edited by the client\n";
        let data = json!({ "callId": call, "outcome": outcome, "newContent": edited });
        let events = coder.told(answer_with(&task, data)).await;
        let shown = events.iter().find(|event| kind(event) == "tool-call-confirmation").unwrap();
        assert_eq!(record(shown)["confirmationDetails"]["newContent"], edited);
        assert_eq!(coder.machine.read("hello.txt").as_deref(), Some(edited), "{outcome}");
    }
}

/// An edit and a command in one reply: both ask, and every stream ends.
#[tokio::test]
async fn f09_an_edit_and_a_command_in_one_turn_ask_for_both() {
    let coder = Coder::start(&[]);
    let mut events = coder.told(coder.prompt("S:two go")).await;
    assert_eq!(last(&events), FINAL);
    let mut tools = Vec::new();
    while let Some(question) = events
        .iter()
        .rev()
        .find(|event| kind(event) == "tool-call-confirmation" && record(event)["outcome"].is_null())
    {
        let (task, call) = asked(std::slice::from_ref(question));
        tools.push(record(question)["request"]["name"].as_str().unwrap().to_owned());
        events = coder.told(answer(&task, &call, "proceed_once")).await;
        assert_eq!(last(&events), FINAL);
    }
    tools.sort();
    assert_eq!(tools, ["run_shell_command", "write_file"]);
    assert_eq!(coder.machine.read("two.txt").as_deref(), Some("two\n"));
    assert!(texts(&events).ends_with("All done."), "{events:#?}");
}

/// `autoExecute` works if the operator allows it, and asks otherwise.
#[tokio::test]
async fn f10_auto_execute_works_where_it_is_allowed() {
    for allowed in [true, false] {
        let coder = Coder::start(if allowed { &["--allow-auto-execute"] } else { &[] });
        let mut prompt = coder.prompt("S:write z");
        prompt["metadata"]["coderAgent"]["autoExecute"] = true.into();
        let events = coder.told(prompt).await;
        let asks = events.iter().any(|event| kind(event) == "tool-call-confirmation");
        assert_eq!((asks, coder.machine.read("hello.txt").is_some()), (!allowed, allowed));
        assert_eq!(last(&events), FINAL);
    }
}

/// The chunks of one answer share an id, a thought has another, and a blocking send has the text.
#[tokio::test]
async fn f11_the_chunks_of_an_answer_can_be_joined() {
    let coder = Coder::start(&[]);
    let events = coder.told(coder.prompt("S:text hello")).await;
    let id = |event: &Value| event["result"]["status"]["message"]["messageId"].clone();
    let chunks: Vec<Value> = events.iter().filter(|event| is_text(event)).map(id).collect();
    assert!(chunks.iter().all(|chunk| *chunk == chunks[0]), "{chunks:?}");
    let thought = events.iter().find(|event| kind(event) == "thought").map(id).unwrap();
    assert_ne!(thought, chunks[0]);
    let message = coder.prompt("S:text blocking send");
    let sent = coder.served.call("message/send", json!({ "message": message })).await;
    assert_eq!(sent["result"]["status"]["state"], "input-required", "{sent}");
    let history = sent["result"]["history"].as_array().unwrap();
    assert_eq!(history.last().unwrap()["parts"][0]["text"], HELLO, "{sent}");
}

/// Live output is exact, for clients that use `append` and for clients that always replace.
#[tokio::test]
async fn f12_live_output_is_exact() {
    let coder = Coder::start(&[]);
    let (task, call) = asked(&coder.told(coder.prompt("S:longshell go")).await);
    let observer = coder.stream("tasks/resubscribe", json!({ "id": task }));
    observer.until(|event| event["result"]["kind"] == "task").await;
    let poster = coder.told(answer(&task, &call, "proceed_once")).await;
    for events in [poster, observer.end().await] {
        let live = events.iter().filter(|event| event["result"]["kind"] == "artifact-update");
        let (mut shown, mut updates) = (String::new(), 0);
        for update in live {
            let text = update["result"]["artifact"]["parts"][0]["text"].as_str().unwrap();
            if update["result"]["append"] != true {
                shown.clear();
            }
            shown.push_str(text);
            updates += 1;
        }
        assert_eq!(shown, "line-1\nline-2\nline-3\n");
        assert!(updates > 1, "it was not live");
    }
}

/// Writing a file needs no git identity.
#[tokio::test]
async fn f13_a_write_needs_no_git_identity() {
    let coder = Coder::start(&[]);
    let mut git = std::process::Command::new("git");
    git.args(["config", "--get", "user.email"]);
    // The server runs in the same minimal environment with the same empty home.
    assert!(!coder.machine.prepare(git).status().unwrap().success(), "git knows somebody");
    let (task, call) = coder.asked_to_write().await;
    let events = coder.told(answer(&task, &call, "proceed_once")).await;
    assert_eq!(last(&events), FINAL);
    assert!(coder.machine.read("hello.txt").is_some());
}

/// A model error ends one turn with its reason; the conversation continues.
#[tokio::test]
async fn f14_a_model_error_ends_one_turn_and_not_the_conversation() {
    let coder = Coder::start(&[]);
    let events = coder.told(coder.prompt("S:error400 x")).await;
    assert_eq!(last(&events), "state-change failed final", "{events:#?}");
    let failed = &events.last().unwrap()["result"];
    assert!(failed["metadata"]["error"].as_str().unwrap().contains("400"), "{failed}");
    let next = coder.told(more(&events[0]["result"]["id"], "S:text again")).await;
    assert_eq!((texts(&next).as_str(), last(&next).as_str()), (HELLO, FINAL));
}

/// Model retries are reported to clients.
#[tokio::test]
async fn f15_retries_are_told() {
    let coder = Coder::start(&[]);
    let events = coder.told(coder.prompt("S:error500 x")).await;
    let told = events.iter().find(|event| event["result"]["metadata"]["error"].is_string());
    assert!(told.is_some_and(|told| told["result"]["final"] == false), "{events:#?}");
    assert_eq!((texts(&events).as_str(), last(&events).as_str()), ("After all.", FINAL));
}

/// Cancelling during an open approval ends the call everywhere; a late approval is refused.
#[tokio::test]
async fn f16_cancel_ends_a_waiting_approval() {
    let coder = Coder::start(&[]);
    let (task, call) = coder.asked_to_write().await;
    let observer = coder.stream("tasks/resubscribe", json!({ "id": task }));
    observer.until(|event| event["result"]["kind"] == "task").await;
    let cancelled = coder.served.call("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(cancelled["result"]["status"]["state"], "canceled", "{cancelled}");
    let seen = observer.end().await;
    assert!(said(&seen, "tool-call-update write_file cancelled"), "{seen:#?}");
    assert_eq!(last(&seen), "state-change canceled final");
    let late = coder.told(answer(&task, &call, "proceed_once")).await;
    assert_eq!(late[0]["error"]["data"]["reason"], "question-withdrawn", "{late:?}");
    assert_eq!(coder.machine.read("hello.txt"), None);
    let again = coder.served.call("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(again["error"]["code"], -32002, "{again}");
}

/// A question of the agent can be answered by number or text.
#[tokio::test]
async fn f17_a_question_of_the_agent_can_be_answered() {
    let coder = Coder::start(&[]);
    for words in [false, true] {
        let events = coder.told(coder.prompt("S:ask me")).await;
        let (task, call) = asked(&events);
        let question = events.iter().find(|event| kind(event) == "tool-call-confirmation").unwrap();
        let details = &record(question)["confirmationDetails"];
        assert_eq!(details["type"], "ask_user");
        assert_eq!(details["questions"][0]["question"], "Which one?");
        assert_eq!(details["questions"][0]["options"][1]["label"], "that");
        let answered = match words {
            true => more(&task, "neither of them"),
            false => answer_with(
                &task,
                json!({
                    "callId": call, "outcome": "proceed_once",
                    "answers": { "0": "neither of them" },
                }),
            ),
        };
        let events = coder.told(answered).await;
        assert!(texts(&events).contains("neither of them"), "{events:#?}");
    }
}

/// Requests without a JSON body are refused, and the process continues.
#[tokio::test]
async fn f18_a_request_without_a_body_does_no_harm() {
    let coder = Coder::start(&[]);
    for path in ["/executeCommand", "/message/stream"] {
        let empty = coder.served.request(Method::POST, path).send().await.unwrap();
        assert_eq!(empty.status(), 400, "{path}");
        let text = coder.served.request(Method::POST, path).body("x");
        let text = text.header("Content-Type", "text/plain").send().await.unwrap();
        assert_eq!(text.status(), 415, "{path}");
    }
    assert!(coder.served.is_well());
    assert_eq!(texts(&coder.told(coder.prompt("S:text still here")).await), HELLO);
}

/// A wrong bearer token, a missing one and a foreign host are refused on every route.
#[tokio::test]
async fn f19_wrong_credentials_and_foreign_hosts_are_refused() {
    const ANN: &str = "ann-0123456789abcdef0123456789abcdef";
    let rpc = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": "x" } });
    let routes = [
        (Method::POST, "/"),
        (Method::POST, "/tasks"),
        (Method::POST, "/message/stream"),
        (Method::POST, "/executeCommand"),
        (Method::GET, "/listCommands"),
        (Method::GET, "/tasks/metadata"),
        (Method::GET, "/tasks/x/metadata"),
    ];
    for (method, path) in routes {
        // A machine for each, because failed attempts are slowed down.
        let machine = Machine::new();
        let tokens = machine.tokens(&format!("ann:{ANN}\n"));
        let arguments = ["serve", "--port", "0", "--token-file", &tokens, "--require-token"];
        let served = Served::start(&machine, &arguments);
        let request = || {
            let request = served.request(method.clone(), path);
            if method == Method::POST { request.json(&rpc) } else { request }
        };
        for token in [None, Some("valid-token"), Some("wrong")] {
            let request = match token {
                Some(token) => request().bearer_auth(token),
                None => request(),
            };
            let refused = request.send().await.unwrap();
            assert_eq!(refused.status(), 401, "{path} {token:?}");
            assert!(refused.headers().contains_key("www-authenticate"), "{path}");
        }
        let basic = request().basic_auth("admin", Some("password")).send().await.unwrap();
        assert_eq!(basic.status(), 401, "{path}");
        let foreign = request().bearer_auth(ANN).header("Host", "evil.example");
        assert_eq!(foreign.send().await.unwrap().status(), 421, "{path}");
        let page = request().bearer_auth(ANN).header("Origin", "https://evil.example");
        assert_eq!(page.send().await.unwrap().status(), 403, "{path}");
        let right = request().bearer_auth(ANN).send().await.unwrap();
        assert_ne!(right.status(), 401, "{path}");
    }
}

/// A connection kept for many turns leaks nothing.
#[tokio::test]
async fn f20_a_kept_connection_leaves_nothing_behind() {
    let coder = Coder::start(&[]);
    let first = coder.told(coder.prompt("S:text one")).await;
    let task = first[0]["result"]["id"].clone();
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "message/stream",
        "params": { "message": more(&task, "S:text again") },
    });
    let turn = async || {
        let events = coder.served.stream(coder.served.post(&body), usize::MAX).await;
        let end = events.last().unwrap();
        assert_eq!(end.response["result"]["final"], true);
    };
    turn().await;
    let before = coder.served.open_files();
    for _ in 0..100 {
        turn().await;
    }
    let grown = coder.served.open_files().saturating_sub(before);
    assert!(grown < 5, "{grown} more files are open after a hundred turns");
    // A stream whose client disconnected is closed too.
    let slow = json!({
        "jsonrpc": "2.0", "id": 1, "method": "message/stream",
        "params": { "message": more(&task, "S:slow again") },
    })
    .to_string();
    for _ in 0..20 {
        let left = leave(coder.served.port, &slow);
        tokio::time::timeout(Duration::from_secs(20), left).await.expect("it is closed");
    }
    let grown = coder.served.open_files().saturating_sub(before);
    assert!(grown < 5, "{grown} more files are open after twenty clients have left");
}

/// Disconnects during a stream and waits until the server closes its end.
async fn leave(port: u16, body: &str) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len(),
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !got.windows(6).any(|window| window == b"data: ") {
        assert!(socket.read_buf(&mut got).await.unwrap() > 0, "{got:?}");
    }
    socket.shutdown().await.unwrap();
    socket.read_to_end(&mut got).await.unwrap();
}
