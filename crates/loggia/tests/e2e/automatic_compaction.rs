//! Automatic compaction of a conversation that fills the model's window, across processes.

use std::io::{BufRead, BufReader};

use loggia_core::{Envelope, Event};

use crate::driver::Machine;
use crate::screen::Screen;

/// A model with a window of 1000 tokens, about 4000 bytes. Its summary comes from the log.
fn model(machine: &Machine) -> String {
    let long = "word ".repeat(400);
    let script = format!(
        "window = 1000\n\
         [[rule]]\nprompt = \"long\"\nsteps = [{{ text = \"{long}\" }}]\n\
         [[rule]]\nprompt = \"stay\"\nsteps = [{{ delay = \"60m\" }}]\n\
         [[rule]]\nregex = \"^(go|and) on$\"\nsteps = [{{ text = \"short\" }}]\n"
    );
    machine.script("window.toml", &script)
}

/// The summaries of the only session: position, summarized position, text.
fn summaries(machine: &Machine) -> Vec<(u64, u64, String)> {
    let summary = |envelope: &Envelope| match &envelope.event {
        Event::ContextCompacted { upto, summary, automatic: true, .. } => {
            Some((envelope.seq.0, upto.0, summary.clone()))
        }
        _ => None,
    };
    let session = machine.sessions().remove(0);
    machine.log(&session).iter().filter_map(summary).collect()
}

fn run(machine: &Machine, model: &str, text: &str) -> String {
    let mut arguments = vec!["run", "--model", model, text];
    if !machine.sessions().is_empty() {
        arguments.push("--continue");
    }
    let ran = machine.run(&arguments);
    assert_eq!(ran.code, 0, "{text}: {}", ran.err);
    format!("{}{}", ran.out, ran.err)
}

#[test]
fn every_process_reads_what_the_last_one_compacted() {
    let machine = Machine::new();
    let model = model(&machine);
    run(&machine, &model, "long");
    run(&machine, &model, "long");
    assert_eq!(summaries(&machine), []);
    let said = run(&machine, &model, "go on");
    assert!(said.contains("Compacted automatically.") && said.contains("short"), "{said}");
    run(&machine, &model, "and on");
    let [(at, upto, summary)] = &summaries(&machine)[..] else { panic!("not once") };
    assert!(upto < at && summary.matches("Asked: long").count() == 2, "{summary}");
    let stats = run(&machine, &model, "/stats");
    assert!(stats.contains("(earlier turns: 2, a summary before them)"), "{stats}");
    assert!(run(&machine, &model, "/compact").contains("Asked: long"), "nothing is forgotten");
}

#[test]
fn a_process_that_was_killed_behind_it_leaves_the_summary() {
    let machine = Machine::new();
    let model = model(&machine);
    run(&machine, &model, "long");
    run(&machine, &model, "long");
    let stream = ["run", "--continue", "--output", "stream-json", "--model", &model, "stay"];
    let mut child = machine.start(&stream);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let compacted = lines.any(|line| line.unwrap().contains("context_compacted"));
    assert!(compacted);
    child.kill().unwrap();
    child.wait().unwrap();
    run(&machine, &model, "and on");
    assert_eq!(summaries(&machine).len(), 1);
    let stats = run(&machine, &model, "/stats");
    assert!(stats.contains("(earlier turns: 2, a summary before them)"), "{stats}");
}

#[test]
fn it_is_configured_and_seen_on_the_screen() {
    let machine = Machine::new();
    let model = model(&machine);
    machine.configure("[context]\ncompact_at = \"off\"\n");
    for text in ["long", "long", "go on"] {
        run(&machine, &model, text);
    }
    assert_eq!(summaries(&machine), []);
    machine.configure("[context]\ncompact_at = \"50%\"\n");
    let arguments = ["--continue", "--model", &model];
    let mut screen = Screen::sized(&machine, &arguments, &[], (120, 30));
    screen.sees("short").types("and on\r").sees("Compacted automatically. A summary of");
    drop(screen);
    assert_eq!(summaries(&machine).len(), 1);
}
