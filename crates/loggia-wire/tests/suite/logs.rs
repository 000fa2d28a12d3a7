//! Golden logs, each in every view. The snapshots are in `tests/transcripts/<view>/` and read like
//! the protocol document.

use std::path::Path;

use loggia_core::{
    Artifact, Cancel, ChoiceId, Command, Envelope, Level, Mode, Origin, Output, Part, Report,
    Source, TaskChoice, TurnOutcome,
};
use loggia_wire::View;
use serde_json::json;

use super::script::{Script, written};
use super::transcript::{name, transcript};

#[test]
fn every_log_in_every_view() {
    for (log_name, log) in all() {
        for view in View::all() {
            check(log_name, &log, view);
        }
    }
}

/// The logs of the core's own scenarios.
#[test]
fn every_golden_log_in_every_view() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loggia-core/tests/golden");
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            let text = std::fs::read_to_string(&path).unwrap();
            let log: Vec<Envelope> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            for view in View::all() {
                check(&format!("golden-{stem}"), &log, view);
            }
        }
    }
}

fn check(log_name: &str, log: &[Envelope], view: View) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("../transcripts/{}", name(view)));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(log_name, transcript(log, view)));
}

/// Logs that the core's scenarios do not have.
fn all() -> Vec<(&'static str, Vec<Envelope>)> {
    vec![
        ("thought-and-sources", hello()),
        ("two-files", two_files()),
        ("live-output", live_output()),
        ("artifacts", artifacts()),
        ("failed", failed()),
        ("noted", noted()),
        ("queued", queued()),
        ("reopened", reopened()),
    ]
}

fn hello() -> Vec<Envelope> {
    let mut script = Script::new();
    script.prompt("Say hello");
    script.think("Greeting", "The user wants a greeting.");
    script.say("Hello").say(" there.");
    let sources =
        vec![Source { title: "Greetings".into(), uri: "https://example.org/hello".into() }];
    script.report(Report::Cite { sources }).unwrap();
    script.finish();
    script.log
}

/// Two calls of one reply wait at once; an answer to one must repeat the other.
pub fn two_files() -> Vec<Envelope> {
    let mut script = Script::new();
    script.prompt("Write two files");
    let first = script.write("a.txt", "a\n");
    let second = script.write("b.txt", "b\n");
    script.answer("ann", &first, ChoiceId::PROCEED_ONCE, None).unwrap();
    script.succeed(&first, written("a.txt", "a\n"));
    script.answer("bob", &second, ChoiceId::PROCEED_ONCE, None).unwrap();
    script.succeed(&second, written("b.txt", "b\n"));
    script.finish();
    script.log
}

/// Four pieces of output within 100 ms, then one later: not five updates.
fn live_output() -> Vec<Envelope> {
    let mut script = Script::with_mode(Mode::All);
    script.prompt("Build it");
    let call = script.shell("make");
    for line in ["one\n", "two\n", "three\n", "four\n"] {
        script.wait(20).output(&call, line);
    }
    script.wait(300).output(&call, "five\n");
    script.wait(10).output(&call, "six\n");
    script.fail(&call, "exit_status", "exit status 2", 2);
    script.finish();
    script.log
}

fn artifacts() -> Vec<Envelope> {
    let mut script = Script::new();
    script.prompt("Publish the report");
    let piece = |text: &str, append, last| Artifact {
        id: "report.md".into(),
        name: "report.md".into(),
        parts: vec![Part::Text { text: text.into() }],
        append,
        last,
    };
    let chunks = [piece("# Report\n", true, false), piece("All is well.\n", true, true)];
    for artifact in chunks {
        let call = script.read("report.md");
        let output = Output { artifact: Some(artifact), ..Output::text("published") };
        script.succeed(&call, output);
    }
    let data = Artifact {
        id: "counts".into(),
        name: "counts".into(),
        parts: vec![
            Part::Data {
                data: json!({ "lines": 42, "ratio": 0.1, "big": 9_007_199_254_740_993u64 }),
            },
            Part::Data { data: json!([1, 2.0]) },
            Part::File {
                name: Some("a.png".into()),
                media_type: Some("image/png".into()),
                base64: Some("iVBORw==".into()),
                uri: None,
            },
        ],
        append: false,
        last: true,
    };
    let call = script.read("counts.json");
    script.succeed(&call, Output { artifact: Some(data), ..Output::default() });
    script.finish();
    script.log
}

fn failed() -> Vec<Envelope> {
    let mut script = Script::new();
    script.prompt("Do it");
    let text = "the model does not answer; trying again in 1.0 s";
    script.report(Report::Notice { level: Level::Warning, text: text.into(), wait: None }).unwrap();
    script.say("I will");
    script.finish_as(TurnOutcome::failed("the model's reply was cut off"));
    script.log
}

/// A notice that is raised before the first task is sent with the first turn.
fn noted() -> Vec<Envelope> {
    let mut script = Script::new();
    let text = "autoExecute is not allowed here: calls still ask";
    let notice = Command::Notice { level: Level::Warning, text: text.into() };
    script.submit(Origin::system(), notice).unwrap();
    script.prompt("Go on");
    script.say("Done.");
    script.finish();
    script.prompt("And now?");
    script.finish();
    script.log
}

/// Two prompts for one task and one for another, while the first runs.
pub fn queued() -> Vec<Envelope> {
    let mut script = Script::new();
    let first = script.prompt("First");
    script.prompt_to(TaskChoice::Continue(first), "Also this").unwrap();
    let other = script.prompt("Something else");
    script.say("One.").finish();
    script.next_reply().say("Two.").finish();
    script.cancel(Cancel::Task(other)).unwrap();
    script.log
}

/// S1: a finished task can be continued under its id.
fn reopened() -> Vec<Envelope> {
    let mut script = Script::new();
    let task = script.prompt("Say one");
    script.say("One.").finish();
    script.prompt_to(TaskChoice::Reopen(task), "And two").unwrap();
    script.next_reply().say("Two.").finish();
    script.log
}
