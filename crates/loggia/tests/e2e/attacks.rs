//! Attacks on the real server by other users, other principals and lying clients: A01, A05, A07,
//! A12, A15, A17, A18. Web pages and malformed bytes are in `refused.rs` and `floods.rs`.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use loggia_core::Event;
use loggia_server::http::TOKEN_ALWAYS;
use serde_json::{Value, json};

use crate::driver::Machine;
use crate::isolation::routes;
use crate::served::{EXTENSION, Served, asked, confirmation, text_message};

const NOBODY: u32 = 65_534;
const ANN: &str = "ann-0123456789abcdef0123456789abcdef";

/// A request by another user of this machine: body and status.
pub fn as_other_user(arguments: &[&str]) -> (String, u16) {
    let mut command = Command::new("curl");
    command.args(["-s", "-m", "10", "-w", "\n%{http_code}"]).args(arguments);
    let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (body.to_owned(), status.parse().unwrap())
}

/// A01 and A07: another user gets the card and the health check only, without session data.
#[tokio::test]
async fn another_user_gets_nothing_but_the_card() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let session = machine.sessions().remove(0);
    let work = machine.work().to_str().unwrap().to_owned();
    let unknown = ["/none", "/metrics", "/ws/x"];
    let by_pattern = ["/tasks/x", "/v1/tasks/x", "/extendedAgentCard", "/v1/card", "/acme/tasks"];
    let more = unknown.into_iter().chain(by_pattern).map(str::to_owned);
    // gRPC is tested below; the fallback's paths are in `more`.
    let plain = routes().into_iter().filter(|path| path.starts_with('/') && !path.contains(".v1"));
    for path in plain.chain(more) {
        let url = format!("http://127.0.0.1:{}{path}", served.port);
        let (body, status) = as_other_user(&[&url]);
        let send = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": text_message("say x") } });
        let json = ["-H", "Content-Type: application/json", "-d", &send.to_string()];
        let (posted, post_status) = as_other_user(&[&json[..], &[&url]].concat());
        match path.as_str() {
            // The token endpoint, and routes that always need a token.
            "/oauth/token" => assert!(posted.contains("invalid_request"), "POST {path}: {posted}"),
            path if TOKEN_ALWAYS.contains(&path) => assert_eq!(post_status, 401, "{posted}"),
            path => {
                assert!(
                    posted.contains("other-user") && post_status == 403,
                    "POST {path}: {posted}"
                );
            }
        }
        let card = path.ends_with("agent-card.json") || path.ends_with("/agent.json");
        if card || path == "/healthz" {
            assert_eq!(status, 200, "{path}: {body}");
            assert!(!body.contains(&session) && !body.contains(&work), "{path}: {body}");
        } else if path == "/oauth/token" {
            assert!(body.contains("another user") && status == 403, "GET {path}: {body}");
        } else if TOKEN_ALWAYS.contains(&path.as_str()) {
            assert_eq!(status, 401, "GET {path}: {body}");
        } else {
            assert!(body.contains("other-user") && status == 403, "GET {path}: {body}");
        }
    }
    let grpc =
        ["--http2-prior-knowledge", "-D", "-", "-H", "Content-Type: application/grpc", "-d", ""];
    let asked = ["lf.a2a.v1.A2AService/ListTasks", "a2a.v1.A2AService/GetAgentCard"];
    let about = ["grpc.health.v1.Health/Check", "grpc.reflection.v1.ServerReflection/Info"];
    for path in asked.into_iter().chain(about) {
        let url = format!("http://127.0.0.1:{}/{path}", served.port);
        let (answer, _) = as_other_user(&[&grpc[..], &[&url]].concat());
        assert!(answer.contains("grpc-status: 7"), "{path}: {answer}");
    }
    let log = machine.log(&session);
    assert_eq!(log.len(), 1, "nothing but its opening is in the log");
}

/// A07: only the user can read the stored files.
#[tokio::test]
async fn stored_files_are_private() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &["--approve", "all"]);
    let sent = served.call("message/send", json!({ "message": text_message("run true") })).await;
    assert!(sent["result"]["id"].is_string(), "{sent}");
    let mut directories = vec![machine.data()];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", directory.display());
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                directories.push(entry.path());
                continue;
            }
            let mode = metadata.permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
            seen += 1;
        }
    }
    assert!(seen >= 2, "{seen} files");
}

/// A05: by default only loopback addresses are bound, and a wider one is refused.
#[tokio::test]
async fn only_loopback_is_listened_on() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let port = format!(":{:04X}", served.port);
    let mut listening = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let ours = rows.filter(|row| row.get(3) == Some(&"0A") && row[1].ends_with(&port));
        listening.extend(ours.map(|row| row[1].to_owned()));
    }
    let loopback = ["0100007F", "00000000000000000000000001000000"];
    assert!(!listening.is_empty());
    for address in &listening {
        assert!(loopback.iter().any(|loopback| address.starts_with(loopback)), "{listening:?}");
    }
    drop(served);
    let (other, free) = (Machine::new(), std::net::TcpListener::bind("0.0.0.0:0").unwrap());
    let wide = free.local_addr().unwrap().port().to_string();
    drop(free);
    let ran = other.run(&["serve", "--listen", "0.0.0.0", "--port", &wide]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("TLS") && !other.data().exists(), "{}", ran.err);
}

fn with_settings(text: &str, settings: Value) -> Value {
    let mut message = text_message(text);
    message["metadata"] = json!({ EXTENSION: settings });
    message
}

/// A12: settings are a request. Another workspace is refused, and requesting no approvals has no
/// effect, which is reported.
#[tokio::test]
async fn clients_cannot_grant_themselves_privileges() {
    let machine = Machine::new();
    machine.write("sub/kept.txt", "x");
    std::os::unix::fs::symlink("/etc", machine.file("out")).unwrap();
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let work = machine.work().canonicalize().unwrap();
    let elsewhere = ["/etc", "/", "/none", &format!("{}/out", work.display())];
    for path in elsewhere {
        let settings = json!({ "workspace_path": path, "autoExecute": true });
        let request = served.tool_stream(with_settings("run touch x", settings));
        let refused = served.stream(request, usize::MAX).await;
        let error = &refused[0].response["error"];
        assert_eq!(error["data"]["reason"], "workspace-refused", "{path}: {refused:?}");
    }
    assert!(machine.sessions().is_empty(), "no session was opened");
    let settings = json!({ "workspace_path": work.join("sub"), "autoExecute": true });
    let message = with_settings("run touch x", settings);
    let events = served.stream(served.tool_stream(message), usize::MAX).await;
    let (task, _) = asked(&events);
    assert!(!machine.file("sub/x").exists(), "it asks all the same");
    let log = machine.log(&machine.sessions()[0]);
    let said = log.iter().any(|envelope| match &envelope.event {
        Event::NoticeRaised { text, .. } => text.contains("autoExecute"),
        _ => false,
    });
    assert!(said, "and it is said: {log:?}");
    let told = |event: &Value| event["metadata"].to_string().contains("autoExecute is not allowed");
    assert!(events.iter().any(|event| told(&event.response["result"])), "to whoever asked");
    // The workspace of an open session cannot change.
    let mut moved = with_settings("say x", json!({ "workspace_path": "/etc" }));
    moved["contextId"] = events[0].response["result"]["contextId"].clone();
    let refused = served.stream(served.tool_stream(moved), usize::MAX).await;
    let error = &refused[0].response["error"];
    assert_eq!(error["data"]["reason"], "workspace-differs", "{task}: {refused:?}");
}

/// A15 without a server: an agent's command cannot resume a session with an open question, serve
/// sessions or register a client.
#[test]
fn a_command_does_not_answer_through_the_command_line() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["run", "write victim.txt: x"]).code, 3);
    let session = machine.sessions().remove(0);
    let before = machine.log(&session).len();
    let tries = [
        format!("run --approve all --session {session}"),
        format!("run --session {session} 'say mine'"),
        "run --continue --approve all".to_owned(),
        format!("--a2a-port 0 --session {session}"),
        "serve --port 0".to_owned(),
        "clients add evil --scope read,prompt,approve,admin".to_owned(),
        "clients rotate ann".to_owned(),
        "pair https://box.example".to_owned(),
    ];
    let ann = machine.run(&["clients", "add", "ann"]);
    assert_eq!(ann.code, 0, "{}", ann.err);
    let program = Machine::program().display();
    let mut script = format!("export LOGGIA_HOME={}\n", machine.home().display());
    for attempt in &tries {
        script += &format!("timeout 20 {program} {attempt} </dev/null; echo ended $?\n");
    }
    // It may run a new session.
    script += &format!("{program} run 'say nested' </dev/null; echo ended $?\n");
    machine.write("steal.sh", &script);
    let ran = machine.run(&["run", "--approve", "all", "run sh steal.sh"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let own = machine.sessions().into_iter().find(|other| {
        let log = machine.log(other);
        log.iter().any(|envelope| matches!(envelope.event, Event::CallEnded { .. }))
    });
    let log = machine.log(&own.unwrap());
    let ended = log.iter().find(|envelope| matches!(envelope.event, Event::CallEnded { .. }));
    let ended = serde_json::to_string(ended.unwrap()).unwrap();
    assert_eq!(ended.matches("use your own terminal").count(), tries.len(), "{ended}");
    assert_eq!(ended.matches("ended 1").count(), tries.len(), "{ended}");
    assert!(ended.contains("nested") && ended.contains("ended 0"), "{ended}");
    assert_eq!(machine.log(&session).len(), before, "nothing happened there");
    assert_eq!(machine.read("victim.txt"), None);
    let clients = machine.run(&["clients", "list"]).out;
    assert!(clients.contains("ann") && !clients.contains("evil"), "{clients}");
}

/// A15: a command chooses its environment, terminal, program and namespaces, but not its ancestors.
#[test]
fn a_command_is_known_by_its_parents() {
    let machine = Machine::new();
    let (program, home) = (Machine::program().display(), machine.home());
    let clean = format!("env -i PATH=$PATH TERM=xterm HOME={0} LOGGIA_HOME={0}", home.display());
    machine.write(
        "double.sh",
        &format!(
            "{clean} {program} clients add orphan >orphan.txt 2>&1; echo ended $? >>orphan.txt\n"
        ),
    );
    machine.write("fake", "1 (bash) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
    let tries = [
        format!("{clean} {program} clients add clean"),
        format!("cp {program} copied; {clean} ./copied clients add copied"),
        format!("{clean} bash -c 'exec -a sshd {program} clients add renamed'"),
        // Orphans of orphans stay below the guard.
        "(setsid sh double.sh &); until grep -q ended orphan.txt; do :; done; cat orphan.txt; false"
            .to_owned(),
        format!("{clean} unshare -Urpf --mount-proc {program} clients add nested"),
        format!("{clean} unshare -m sh -c 'mount -t tmpfs none /proc; {program} clients add bare'"),
        format!(
            "{clean} unshare -m sh -c 'mount --bind fake /proc/1/stat; {program} clients add fake'"
        ),
        format!("{clean} {program} clients revoke ann"),
        format!("{clean} {program} clients rotate-keys"),
        format!("{clean} {program} pair"),
        format!("{clean} {program} trust"),
        format!("{clean} {program} trust --revoke"),
        format!("{clean} {program} serve --port 0"),
        format!("{clean} {program} --a2a-port 0"),
        format!("{clean} {program} run --approve all 'write all.txt: x'"),
        format!("{clean} LOGGIA_MODE=all {program} run 'write all.txt: x'"),
        format!("{clean} {program} sessions delete none"),
        format!("{clean} {program} approvals revoke none"),
        format!("{clean} {program} attach localhost:1"),
        // In a terminal that the command created.
        format!("script -qec '{clean} {program}' /dev/null"),
        format!("script -qec '{clean} {program} attach localhost:1' /dev/null"),
    ];
    assert_eq!(machine.run(&["clients", "add", "ann"]).code, 0);
    let mut script = String::new();
    for attempt in &tries {
        script += &format!("({attempt}) </dev/null; echo ended $?\n");
    }
    let asks = format!("{clean} {program} run \"write pty.txt: x\"");
    script += &format!("printf 'p\\np\\n' | script -qec '{asks}' /dev/null; echo asked $?\n");
    machine.write("steal.sh", &script);
    let ran = machine.run(&["run", "--approve", "all", "run timeout 100 bash steal.sh 2>&1"]);
    let said = format!("{}{}", ran.out, ran.err);
    let log = machine.sessions().iter().flat_map(|id| machine.log(id)).collect::<Vec<_>>();
    let ended = log.iter().find(|envelope| matches!(envelope.event, Event::CallEnded { .. }));
    let ended = serde_json::to_string(ended.unwrap()).unwrap();
    assert_eq!(ended.matches("use your own terminal").count(), tries.len(), "{ended}\n{said}");
    assert_eq!(ended.matches("ended 1\\n").count(), tries.len() + 1, "{ended}");
    // The question of its own session is not asked, and no rule is saved.
    assert!(ended.contains("asked 3") && ended.contains("no terminal to ask on"), "{ended}");
    assert_eq!((machine.read("pty.txt"), machine.read("all.txt")), (None, None));
    assert_eq!(machine.run(&["approvals", "list"]).out, "");
    assert!(machine.run(&["trust", "--list"]).out.contains("No directory is trusted"));
    let clients = machine.run(&["clients", "list"]).out;
    assert_eq!(clients.lines().count(), 1, "{clients}");
}

/// A15: a process started by a command is refused, even with a valid token.
#[tokio::test]
async fn a_token_does_not_help_a_command() {
    let machine = Machine::new();
    let tokens = machine.tokens(&format!("ann:{ANN}\n"));
    let arguments = ["--approve", "all", "--token-file", &tokens, "--require-token"];
    let served = Served::shared(&machine, &arguments);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let look = format!(
        "curl -s -m 5 -w ' %{{http_code}}' {} -H 'Content-Type: application/json' \
         -H 'Authorization: Bearer {ANN}' -d '{list}'",
        served.url()
    );
    // The script prints only the command's output.
    machine.write(
        "look.sh",
        &format!("{look}\n({look}) | cat\nsetsid -w sh -c \"{}\"\n", look.replace('"', "\\\"")),
    );
    let message =
        json!({ "message": text_message("run sh look.sh"), "configuration": { "blocking": true } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": message });
    let done = served.post(&body).bearer_auth(ANN).send().await.unwrap();
    let done: Value = done.json().await.unwrap();
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    let session = machine.sessions().remove(0);
    let log = machine.log(&session);
    let ended = log.iter().find(|envelope| matches!(envelope.event, Event::CallEnded { .. }));
    let ended = serde_json::to_string(ended.unwrap()).unwrap();
    assert_eq!(ended.matches("tool-descendant").count(), 3, "{ended}");
    assert!(ended.contains(" 403") && !ended.contains("totalSize"), "{ended}");
    // The same token works for a process that no call started.
    let right = served.post(&list).bearer_auth(ANN).send().await.unwrap();
    assert_eq!(right.status(), 200);
}

/// A17 on the wire: a file that changed between the question and the answer is not written.
#[tokio::test]
async fn a_file_changed_since_the_question_is_not_written() {
    let machine = Machine::new();
    machine.write("a.txt", "one\n");
    let secret = machine.home().with_file_name("bashrc");
    std::fs::write(&secret, "one\n").unwrap();
    let served = Served::shared(&machine, &[]);
    let link = || {
        std::fs::remove_file(machine.file("a.txt")).unwrap();
        std::os::unix::fs::symlink(&secret, machine.file("a.txt")).unwrap();
    };
    let meddling: [&dyn Fn(); 2] = [&|| drop(machine.write("a.txt", "somebody else's\n")), &link];
    for meddle in meddling {
        machine.write("a.txt", "one\n");
        let edit = served.tool_stream(text_message("edit a.txt: one => two"));
        let (task, call) = asked(&served.stream(edit, usize::MAX).await);
        meddle();
        let answer = served.tool_stream(confirmation(&task, &call, "proceed_once"));
        let events = served.stream(answer, usize::MAX).await;
        let mut said = events.iter().map(|event| event.response.to_string());
        let failed = said.rfind(|text| text.contains("FAILED")).unwrap();
        assert!(failed.contains("changed_since_approval"), "{failed}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "one\n");
}

/// A18: an invalid answer changes nothing, a repeated one has the same result, a late one is
/// refused.
#[tokio::test]
async fn bad_repeated_and_late_answers_change_nothing() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let mut ann = served.socket("?name=ann").await;
    let mut bob = served.socket("?name=bob").await;
    ann.send(1, "message/stream", json!({ "message": text_message("write a.txt: x\nwait 60s") }))
        .await;
    let question = |value: &Value| value["params"]["event"]["status"]["state"] == "input-required";
    let frame = ann.until(question).await["params"]["event"].clone();
    let call = frame["status"]["message"]["parts"][0]["data"]["tool_call_id"].clone();
    let task = frame["taskId"].clone();
    let long = "x".repeat(1 << 20);
    let choices =
        [json!("yes"), json!(""), json!(["proceed_once"]), json!(long), json!(null), json!(7)];
    let mut number = 10;
    let mut wrong: Vec<Value> = choices
        .into_iter()
        .map(|choice| {
            let mut message = confirmation(&task, &call, "");
            message["parts"][0]["data"]["selected_option_id"] = choice;
            message
        })
        .collect();
    wrong.push(confirmation(&task, &json!("call-of-another"), "proceed_once"));
    wrong.push(confirmation(&task, &json!(long), "proceed_once"));
    wrong.push(confirmation(&task, &json!([call]), "proceed_once"));
    for message in wrong {
        number += 1;
        let shown: String = message.to_string().chars().take(300).collect();
        bob.send(number, "message/send", json!({ "message": message })).await;
        let told = bob.until(|value| value["id"] == number).await;
        assert_eq!(told["error"]["code"], -32602, "{shown}: {told}");
        assert!(told.to_string().len() < 4096, "it is not echoed");
    }
    assert_eq!(machine.read("a.txt"), None, "the question is still open");
    let answer = json!({ "message": confirmation(&task, &call, "proceed_once") });
    for number in [100, 101] {
        bob.send(number, "message/send", answer.clone()).await;
        let told = bob.until(|value| value["id"] == number).await;
        assert_eq!(told["result"]["id"], task, "the same answer is the same answer: {told}");
    }
    let other = json!({ "message": confirmation(&task, &call, "cancel") });
    for (by_bob, message) in [(true, &other), (false, &answer), (false, &other)] {
        let client = if by_bob { &mut bob } else { &mut ann };
        number += 1;
        client.send(number, "message/send", message.clone()).await;
        let told = client.until(|value| value["id"] == number).await;
        let why = &told["error"]["data"];
        assert_eq!(told["error"]["code"], -32602, "{told}");
        assert_eq!(
            (&why["reason"], &why["choice"]),
            (&json!("already-answered"), &json!("proceed_once"))
        );
        assert!(why["by"].as_str().unwrap().contains("bob") && why["at"].is_string(), "{told}");
    }
    let log = machine.log(&machine.sessions()[0]);
    let answers = log.iter().filter(|e| matches!(e.event, Event::ApprovalAnswered { .. }));
    assert_eq!(answers.count(), 1);
}
