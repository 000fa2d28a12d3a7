//! Custom commands with the real binary: in the terminal, on the command line, on the wire.

use insta::assert_snapshot;
use loggia_core::Event;
use serde_json::{Value, json};

use crate::driver::{Machine, shape};
use crate::screen::Screen;
use crate::served::{Served, asked, confirmation, text_message};

/// A trusted project with one command that only prompts and one that runs a program first.
fn project() -> Machine {
    let machine = Machine::new();
    let text = "---\ndescription: Greets somebody\nargument-hint: [name]\n---\nsay hello $1\n";
    machine.write(".loggia/commands/greet.md", text);
    let text = "description = \"What is there\"\nprompt = \"say seen: !{cat {{args}}}\"\n";
    machine.write(".gemini/commands/look/at.toml", text);
    machine.write("a.txt", "forty-two");
    assert_eq!(machine.run(&["trust"]).code, 0);
    machine
}

/// The expanded prompts of the last session.
fn told(machine: &Machine) -> Vec<String> {
    let log = machine.log(&machine.sessions()[0]);
    let texts = log.iter().filter_map(|envelope| match &envelope.event {
        Event::PromptExpanded { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn on_the_screen() {
    let machine = project();
    // A chosen model, so that nothing is said about the offline one.
    let mut screen = Screen::sized(&machine, &["--model", "offline"], &[], (80, 20));
    screen.sees("what shall I do?").types("/g");
    assert_snapshot!(screen.picture(&["› /g", "/greet [name]", "Greets somebody"]));
    screen.types("\tAnn\r");
    assert_snapshot!(
        "what_was_typed_and_what_was_sent",
        screen.picture(&["\n\nhello Ann", "what shall I do?", "!working"])
    );
    assert_eq!(told(&machine), ["say hello Ann"]);
}

#[test]
fn on_the_command_line() {
    let machine = project();
    let ran = machine.run(&["run", "/greet 'you two' and me"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out.trim(), "hello you two and me");
    assert!(ran.err.contains("/greet from .loggia/commands/greet.md expands to"), "{}", ran.err);
    let text = machine.run(&["sessions", "show", &machine.sessions()[0]]).out;
    assert!(text.contains("/greet 'you two' and me"), "{text}");
    assert!(text.contains("say hello you two and me"), "{text}");

    // Without a terminal nothing ran and nothing was sent; the question stays open.
    let ran = machine.run(&["run", "/look:at a.txt"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert_eq!(told(&machine), Vec::<String>::new());
    let ran = machine.run(&["run", "--continue", "--approve", "all"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.ends_with("seen: forty-two\n"), "{}", ran.out);
    assert_eq!(told(&machine), ["say seen: forty-two"]);
    let log = shape(&machine.log(&machine.sessions()[0]));
    assert_eq!(log.matches("call_proposed").count(), 1, "{log}");
}

#[test]
fn a_project_that_is_not_trusted_has_none() {
    let machine = project();
    assert_eq!(machine.run(&["trust", "--revoke"]).code, 0);
    let ran = machine.run(&["run", "/greet Ann"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("`/greet`, `/look:at` of this directory, which is not trusted"));
    let own = machine.home().join("config/commands");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("greet.md"), "say mine").unwrap();
    assert_eq!(machine.run(&["run", "/greet"]).out.trim(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_wire() {
    let machine = project();
    let served = Served::shared(&machine, &[]);
    let tree = served.call("commands/get", json!({})).await["result"]["commands"].clone();
    let greet = tree.as_array().unwrap().iter().find(|it| it["name"] == "greet").unwrap();
    let expected = json!({
        "name": "greet", "description": "Greets somebody", "sub_commands": [],
        "arguments": [{ "name": "arguments", "description": "[name]", "is_required": false }],
    });
    assert_eq!(*greet, expected);
    let listed = served.get("/listCommands").await;
    assert!(listed.to_string().contains("\"look:at\""), "{listed}");

    let run = |path: &str, args: &str| json!({ "command_path": [path], "args": args });
    let started = served.call("command/execute", run("greet", "Bob")).await["result"].clone();
    assert_eq!(started["status"], "STARTED", "{started}");
    let ended = |task: &Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe",
                           "params": { "id": task } });
        served.stream(served.post(&body), usize::MAX)
    };
    ended(&started["execution_id"]).await;
    let task = served.call("tasks/get", json!({ "id": started["execution_id"] })).await;
    let task = task["result"].to_string();
    assert!(task.contains("/greet Bob") && task.contains("hello Bob"), "{task}");

    let body = json!({ "command": "greet", "args": ["Kim"] });
    let said = served.request("POST", "/executeCommand").json(&body).send().await.unwrap();
    let said: Value = said.json().await.unwrap();
    assert_eq!(said["data"], "hello Kim", "{said}");

    // Its program needs an approval, which any client may give.
    let waits = served.call("command/execute", run("look:at", "a.txt")).await["result"].clone();
    assert_eq!(waits["status"], "AWAITING_SHELL_CONFIRMATION", "{waits}");
    assert!(waits["message"].as_str().unwrap().contains("cat a.txt"), "{waits}");
    let no = json!({
        "kind": "message", "role": "user", "messageId": "n", "taskId": waits["execution_id"],
        "parts": [{ "kind": "text", "text": "no" }],
    });
    served.call("message/send", json!({ "message": no })).await;
    ended(&waits["execution_id"]).await;
    let unknown = served.call("command/execute", run("gone", "")).await["result"].clone();
    assert!(unknown["message"].as_str().unwrap().ends_with("/greet, /look:at"), "{unknown}");

    // A message works too, with the current contents of the file.
    machine.write(".gemini/commands/look/at.toml", "prompt = 'say now !{cat {{args}}}'");
    let frames =
        served.stream(served.tool_stream(text_message("/look:at a.txt")), usize::MAX).await;
    let (task, call) = asked(&frames);
    let frames = served
        .stream(served.tool_stream(confirmation(&task, &call, "proceed_once")), usize::MAX)
        .await;
    let said: Vec<String> = frames.iter().map(|frame| frame.response.to_string()).collect();
    let said = said.join("\n");
    assert!(said.contains("/look:at from .gemini/commands/look/at.toml expands to"), "{said}");
    assert!(said.contains("now forty-two"), "{said}");
}

#[test]
fn on_a_screen_elsewhere() {
    let machine = project();
    let served = Served::shared(&machine, &[]);
    let elsewhere = Machine::new();
    let mut screen = Screen::sized(&elsewhere, &["attach", &served.url()], &[], (80, 20));
    screen.sees("what shall I do?").types("/gr").sees("/greet [name]").types("\tEve\r");
    screen.sees("\n\nhello Eve");
}

/// A command that prompts the model may take long, and does not delay other commands.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_asks_keeps_no_other_waiting() {
    let machine = project();
    machine.write(".loggia/commands/wr.md", "write zz.txt: x");
    assert_eq!(machine.run(&["trust"]).code, 0);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let run = |path: &str| json!({ "command_path": [path] });
    for _ in 0..2 {
        let waits = served.call("command/execute", run("wr")).await["result"].clone();
        assert_eq!(waits["status"], "AWAITING_ACTION_CONFIRMATION", "{waits}");
        let helps = served.call("command/execute", run("help")).await["result"].clone();
        assert_eq!(helps["status"], "STARTED", "{helps}");
    }
    let body = json!({ "command": "about" });
    let said = served.request("POST", "/executeCommand").json(&body).send().await.unwrap();
    let said: Value = said.json().await.unwrap();
    assert!(said["data"].as_str().unwrap().contains("Loggia"), "{said}");
}
