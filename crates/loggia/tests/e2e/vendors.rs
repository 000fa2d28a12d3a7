//! The program with vendors' models, against strict fakes of their APIs. A fake refuses a call without its
//! result, thoughts that are missing or moved, and a changed beginning of a conversation, with the vendor's own
//! error: a test that ends without a refusal has sent conversations that the vendor accepts.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::Arc;

use loggia_core::{Event, ModelRecord};
use loggia_fake_vendors::{Answer, Asked, FakeVendors, Fault, Pace, Recorded, Say, Script};
use serde_json::{Value, json};

use crate::driver::{Machine, Ran, announced, streamed};
use crate::served::Served;

/// A fake with a runtime of its own, and a machine that is configured for it.
struct Desk {
    machine: Machine,
    fakes: FakeVendors,
    _runtime: tokio::runtime::Runtime,
}

impl Desk {
    fn new(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let script: Script = Arc::new(script);
        let fakes = runtime.block_on(FakeVendors::start(script)).unwrap();
        let machine = Machine::new();
        let provider = |name: &str, kind: &str, path: &str, more: &str| {
            format!(
                "[providers.{name}]\nkind = \"{kind}\"\nbase_url = \"{}\"\n{more}\n",
                fakes.url(path)
            )
        };
        machine.configure(
            &[
                provider("anthropic", "anthropic", "anthropic", ""),
                provider("openai", "openai", "openai/v1", ""),
                provider("gemini", "gemini", "gemini", ""),
                provider("ollama", "ollama", "ollama", ""),
                provider("deepseek", "chat", "deepseek/v1", ""),
                provider("llamacpp", "chat", "llamacpp/v1", ""),
                provider(
                    "small",
                    "anthropic",
                    "anthropic",
                    "window = 9000\nkey_env = \"ANTHROPIC_API_KEY\"",
                ),
            ]
            .concat(),
        );
        Self { machine, fakes, _runtime: runtime }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(arguments);
        let keys = ["ANTHROPIC", "OPENAI", "GEMINI", "DEEPSEEK"];
        for name in keys {
            command.env(
                format!("{name}_API_KEY"),
                format!("key-of-{}-0123456789", name.to_lowercase()),
            );
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }

    /// The requests for replies.
    fn asked(&self) -> Vec<Recorded> {
        let replies = ["messages", "responses", "GenerateContent", "chat"];
        let recorded = self.fakes.recorded().into_iter();
        recorded
            .filter(|it| replies.iter().any(|part| it.path.contains(part)) && it.method == "POST")
            .collect()
    }

    /// No request broke a rule of the vendor. A list of models that the fake does not have does not count.
    fn assert_accepted(&self) {
        let refused: Vec<String> = self.asked().into_iter().filter_map(|it| it.refusal).collect();
        assert_eq!(refused, Vec::<String>::new());
    }
}

/// Reads the failing project, runs its tests, edits, runs them again, finishes.
fn repairs(asked: &Asked) -> Answer {
    let test = || Say::call("run_shell_command", &json!({ "command": "sh test.sh" }));
    let prompt = asked.prompt();
    if !prompt.contains("repair") {
        return Answer::says([
            Say::Thought("**Short**\nNothing to do.".into()),
            Say::Text("It is repaired.".into()),
        ]);
    }
    match asked.replies() {
        0 => Answer::says([
            Say::Thought("**Look first**\nI read the project and run its tests.".into()),
            Say::Redacted,
            Say::Text("I look at the project. ".into()),
            Say::call("read_file", &json!({ "path": "answer.txt" })),
            test(),
        ]),
        1 => Answer::says([
            Say::Thought(String::new()),
            // The order of the keys is not the alphabetical one.
            Say::Call {
                tool: "write_file".into(),
                arguments: r#"{"path":"answer.txt","content":"42\n"}"#.into(),
            },
        ]),
        2 => Answer::says([Say::Thought("Now again.".into()), test()]),
        _ => Answer::says([
            Say::Thought("Done.".into()),
            Say::Text("The tests pass: see answer.txt. ä€𝄞".into()),
        ]),
    }
}

fn broken_project(machine: &Machine) {
    machine.write("answer.txt", "41\n");
    machine.write("test.sh", "grep -q 42 answer.txt && echo passed || { echo failed; exit 1; }\n");
}

const MODELS: [&str; 6] = [
    "anthropic/claude-opus-5-5",
    "openai/gpt-6.1-sol",
    "gemini/gemini-3.8-flash",
    "ollama/qwen3",
    "deepseek/deepseek-v4-pro",
    "llamacpp/local",
];

#[test]
fn every_provider_does_a_whole_task_and_continues_in_another_process() {
    for model in MODELS {
        let desk = Desk::new(repairs);
        broken_project(&desk.machine);
        let ran = desk.run(&["run", "--model", model, "--approve", "all", "repair the project"]);
        assert_eq!(ran.code, 0, "{model}: {} {}", ran.out, ran.err);
        assert!(ran.out.contains("The tests pass: see answer.txt. ä€𝄞"), "{model}: {}", ran.out);
        assert_eq!(desk.machine.read("answer.txt").as_deref(), Some("42\n"), "{model}");
        // The session keeps its model.
        for _ in 0..2 {
            let ran = desk.run(&["run", "--continue", "where were we?"]);
            assert_eq!((ran.code, ran.out.trim()), (0, "It is repaired."), "{model}: {}", ran.err);
        }
        desk.assert_accepted();
        assert_begin_equally(&desk.asked(), model);
    }
}

/// The messages of each request begin with those of the request before it.
fn assert_begin_equally(asked: &[Recorded], model: &str) {
    let messages = |it: &Recorded| {
        let body = &it.body;
        let found = ["messages", "input", "contents"].iter().find_map(|key| body[key].as_array());
        found.unwrap_or_else(|| panic!("{model}: {body}")).clone()
    };
    let conversations: Vec<Vec<Value>> = asked.iter().map(messages).collect();
    assert!(conversations.len() >= 4, "{model}: {} requests", conversations.len());
    for pair in conversations.windows(2) {
        assert_eq!(pair[1].get(..pair[0].len()), Some(pair[0].as_slice()), "{model}");
    }
    for key in ["system", "instructions", "systemInstruction", "tools"] {
        let values: Vec<&Value> = asked.iter().map(|it| &it.body[key]).collect();
        assert!(values.iter().all(|value| *value == values[0]), "{model}: {key} has changed");
    }
}

/// Kills the process when `ready` holds for a line of its output, and continues in another one.
fn killed_when(
    model: &str,
    pace: Pace,
    approve: &str,
    ready: impl Fn(&str) -> bool,
) -> (Desk, String) {
    let desk = Desk::new(move |asked| {
        let first = asked.earlier_requests == 0;
        Answer { pace: if first { pace.clone() } else { Pace::default() }, ..repairs(asked) }
    });
    broken_project(&desk.machine);
    let arguments = [
        "run",
        "--output",
        "stream-json",
        "--model",
        model,
        "--approve",
        approve,
        "repair the project",
    ];
    let mut child = desk.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut session = None;
    for line in lines.by_ref() {
        let line = line.unwrap();
        session = session.or_else(|| announced(&line));
        if ready(&line) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    (desk, session.unwrap())
}

fn ends_well(desk: &Desk, session: &str, model: &str) {
    let ran = desk.run(&["run", "--session", session, "--approve", "all", "repair the project"]);
    assert_eq!(ran.code, 0, "{model}: {} {}", ran.out, ran.err);
    assert!(ran.out.contains("The tests pass"), "{model}: {}", ran.out);
    assert_eq!(desk.machine.read("answer.txt").as_deref(), Some("42\n"), "{model}");
    desk.assert_accepted();
}

#[test]
fn a_task_ends_well_after_a_kill_in_the_middle_of_a_thinking_stream() {
    for model in &MODELS[..3] {
        let slow = Pace { piece: 7, pause_us: 3_000, keep_alives: false };
        let (desk, session) =
            killed_when(model, slow, "all", |line| line.contains("thought_appended"));
        ends_well(&desk, &session, model);
    }
}

#[test]
fn a_task_ends_well_after_a_kill_between_two_parallel_calls() {
    for model in &MODELS[..3] {
        // The first call has ended, and the other one is not even asked about, or runs.
        let (desk, session) =
            killed_when(model, Pace::default(), "all", |line| line.contains("call_ended"));
        ends_well(&desk, &session, model);
    }
}

#[test]
fn an_approval_that_was_open_when_the_process_was_killed_is_answered_later() {
    for model in &MODELS[..3] {
        let desk = Desk::new(repairs);
        broken_project(&desk.machine);
        // Without a terminal, the command asks and the process ends.
        let ran = desk.run(&["run", "--model", model, "repair the project"]);
        assert_eq!(ran.code, 3, "{model}: {}", ran.err);
        let ran = desk.run(&["run", "--continue", "--approve", "all"]);
        assert_eq!(ran.code, 0, "{model}: {} {}", ran.out, ran.err);
        assert!(ran.out.contains("The tests pass"), "{model}: {}", ran.out);
        desk.assert_accepted();
        assert_begin_equally(&desk.asked(), model);
    }
}

/// A reply that breaks off is void, and the model is asked again with the same conversation.
#[test]
fn a_reply_that_breaks_off_is_discarded_and_asked_for_again() {
    for model in MODELS {
        let cut = Desk::new(|asked| {
            let answer = Answer::says([Say::Text("A half and a whole sentence. ".repeat(20))]);
            match asked.earlier_requests {
                0 => answer.failing(Fault::CutAfter(if asked.vendor == "gemini" {
                    700
                } else {
                    1_500
                })),
                _ => Answer::text("Whole."),
            }
        });
        let ran = cut.run(&["run", "--model", model, "--output", "stream-json", "hello"]);
        assert_eq!(ran.code, 0, "{model}: {} {}", ran.out, ran.err);
        let events = streamed(&ran.out);
        let texts =
            events.iter().filter(|it| matches!(it.event, Event::TextAppended { .. })).count();
        let discarded = events.iter().any(|it| matches!(it.event, Event::ReplyDiscarded { .. }));
        // If the cut came before the first word, nothing is void.
        assert_eq!(discarded, texts > 1, "{model}: {}", ran.out);
        let result: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
        assert_eq!(result["text"], "Whole.", "{model}");
        assert_eq!(cut.asked().len(), 2, "{model}");
        cut.assert_accepted();
        let bodies: Vec<Value> = cut.asked().into_iter().map(|it| it.body).collect();
        assert_eq!(bodies[0], bodies[1], "{model}: the second request is not the same");
    }
}

#[test]
fn a_spent_quota_and_a_wrong_key_fail_at_once_with_the_next_step() {
    for (error, said) in [("quota", "quota"), ("bad_key", "key"), ("unknown_model", "model")] {
        for model in &MODELS[..3] {
            let desk = Desk::new(move |_| Answer::refused(error));
            let ran = desk.run(&["run", "--model", model, "hello"]);
            assert_eq!(ran.code, 1, "{model} {error}: {}", ran.err);
            assert_eq!(desk.asked().len(), 1, "{model} {error}: it was tried again");
            assert!(ran.err.to_lowercase().contains(said), "{model} {error}: {}", ran.err);
            assert!(!ran.err.contains("0123456789"), "{model} {error}: {}", ran.err);
        }
    }
}

/// What no client may get: the items of replies, and the instructions.
#[test]
fn no_client_gets_the_items_of_a_reply() {
    let desk = Desk::new(repairs);
    broken_project(&desk.machine);
    let model = MODELS[0];
    let arguments = [
        "run",
        "--output",
        "stream-json",
        "--model",
        model,
        "--approve",
        "all",
        "repair the project",
    ];
    let ran = desk.run(&arguments);
    let session = announced(&ran.out).unwrap();
    let exported = desk.run(&["sessions", "export", &session, "--format", "jsonl"]).out;
    for out in [&ran.out, &exported] {
        assert!(out.contains("model_record") && !out.contains("signature"), "{out}");
        assert!(!out.contains("redacted_thinking"), "{out}");
    }
    let kept = streamed(&ran.out).into_iter().filter_map(|it| match it.event {
        Event::ModelRecord { record: ModelRecord::ReplyEnded { items, .. }, .. } => {
            Some(items.len())
        }
        _ => None,
    });
    assert_eq!(kept.collect::<Vec<_>>(), [0, 0, 0, 0]);
}

/// How often it has dug, as far as the conversation says.
fn dug(conversation: &str) -> usize {
    (1..=6).rev().find(|times| conversation.contains(&format!("dug {times}"))).unwrap_or(0)
}

/// Three compactions in one session, and one inside a turn: what was said before is in the request after.
#[test]
fn facts_survive_three_compactions_and_one_inside_a_turn() {
    let long = "many words ".repeat(600);
    let desk = Desk::new(move |asked| {
        let whole = format!("{:?}", asked.conversation);
        if asked.tools.is_empty() {
            // The summary of a good model keeps the facts.
            let facts = ["the secret word is elderberry", "the port is 4711"];
            let kept: Vec<&str> = facts.into_iter().filter(|fact| whole.contains(fact)).collect();
            return Answer::text(format!("Facts: {}; dug {}.", kept.join("; "), dug(&whole)));
        }
        match asked.prompt() {
            prompt if prompt.contains("recall") => {
                let known = whole.contains("elderberry") && whole.contains("4711");
                Answer::text(if known { "I remember both." } else { "I have forgotten it." })
            }
            prompt if prompt.contains("dig") && dug(&whole) < 6 => {
                let command = format!("echo dug {}; seq 1 2000", dug(&whole) + 1);
                Answer::says([Say::call("run_shell_command", &json!({ "command": command }))])
            }
            _ => Answer::text(long.clone()),
        }
    });
    let first = "note that the secret word is elderberry and the port is 4711";
    let ran =
        desk.run(&["run", "--model", "small/claude-opus-5-5", "--output", "stream-json", first]);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let session = announced(&ran.out).unwrap();
    let compactions = || {
        let log = desk.machine.log(&session);
        let within = log.iter().filter_map(|it| match it.event {
            Event::ContextCompacted { within_turn, .. } => Some(within_turn),
            _ => None,
        });
        within.collect::<Vec<bool>>()
    };
    for round in 0.. {
        assert!(round < 40, "{:?}", compactions());
        let ran = desk.run(&["run", "--session", &session, "say something long"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        if compactions().len() >= 3 {
            break;
        }
    }
    let ran = desk.run(&[
        "run",
        "--session",
        &session,
        "--approve",
        "all",
        "dig until you have dug six times",
    ]);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    assert!(compactions().contains(&true), "{:?}", compactions());
    let ran = desk.run(&["run", "--session", &session, "recall the facts"]);
    assert_eq!(ran.out.trim(), "I remember both.", "{}", ran.err);
    desk.assert_accepted();
}

/// The task over A2A, the command approved by another client of the same session.
#[test]
fn a_task_over_a2a_is_approved_by_another_client() {
    for model in &MODELS[..3] {
        let desk = Desk::new(repairs);
        broken_project(&desk.machine);
        let served = Served::spawn(desk.command(&["serve", "--port", "0", "--model", model]));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let text = json!({ "role": "ROLE_USER", "messageId": "1", "parts": [{ "text": "repair the project" }] });
            let sent = served.call("SendMessage", json!({ "message": text })).await;
            let mut task = sent["result"]["task"].clone();
            let id = task["id"].clone();
            for answers in 0.. {
                let state = task["status"]["state"].as_str().unwrap_or_else(|| panic!("{model}: {sent}"));
                if state != "TASK_STATE_INPUT_REQUIRED" {
                    assert_eq!((state, answers > 0), ("TASK_STATE_COMPLETED", true), "{model}: {task}");
                    break;
                }
                // A client of its own for each answer.
                let yes = json!({ "role": "ROLE_USER", "messageId": format!("a{answers}"), "taskId": id,
                    "parts": [{ "text": "yes" }] });
                let answered = served.call("SendMessage", json!({ "message": yes })).await;
                task = answered["result"]["task"].clone();
                assert!(answers < 8, "{model}: {answered}");
            }
        });
        assert_eq!(desk.machine.read("answer.txt").as_deref(), Some("42\n"), "{model}");
        desk.assert_accepted();
    }
}
