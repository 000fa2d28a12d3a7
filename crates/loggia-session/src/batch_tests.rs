//! The index of tasks is equal to the fold of the log, for every history and every division into steps.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;

use loggia_core::{
    Access, AgentName, CallId, CallOutcome, Cancel, ChoiceId, Command, Content, Details, FreshIds,
    Limits, MessageId, Mode, ModelName, Output, PromptId, Proposal, Question, Report, Settings,
    Stamped, Surface, TaskChoice, Tasks, TurnId, TurnOutcome, Workspace,
};
use proptest::prelude::*;

use super::*;

/// The index as a store keeps it, and the log.
#[derive(Default)]
struct IndexAndLog {
    session: Session,
    log: Vec<Envelope>,
    index: BTreeMap<TaskId, (TaskState, Millis)>,
}

impl IndexAndLog {
    fn step(&mut self, events: impl IntoIterator<Item = (Millis, Origin, Event)>) {
        let mut batch = Batch::default();
        for (at, origin, event) in events {
            batch.push(&mut self.session, at, &origin, event);
        }
        let append = batch.into_append(&self.session);
        self.log.extend(append.events.iter().map(|envelope| (**envelope).clone()));
        let streams = |envelope: &Envelope| envelope.event.durability() == Durability::Stream;
        if self.log.iter().rev().take(append.events.len()).all(streams) {
            assert_eq!(append.tasks, [], "a stream writes no marks");
        }
        for (index, mark) in append.tasks.iter().enumerate() {
            assert!(append.tasks.iter().skip(index + 1).all(|other| other.task != mark.task));
            self.index.insert(mark.task.clone(), (mark.state, mark.updated));
        }
    }

    fn folded(&self) -> BTreeMap<TaskId, (TaskState, Millis)> {
        let mut tasks = Tasks::default();
        self.log.iter().for_each(|envelope| tasks.apply(envelope));
        tasks.iter().map(|view| (view.id.clone(), (view.state, view.updated))).collect()
    }
}

#[test]
fn the_index_of_every_golden_log_is_its_fold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loggia-core/tests/golden");
    let mut logs = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        let log: Vec<Envelope> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for size in [1, 2, 3, 7, log.len().max(1)] {
            let mut both = IndexAndLog::default();
            for step in log.chunks(size) {
                both.step(step.iter().cloned().map(|it| (it.at, it.origin, it.event)));
                assert_eq!(both.index, both.folded(), "{} by {size}", path.display());
            }
            assert!(!both.index.is_empty());
        }
        logs += 1;
    }
    assert!(logs > 10, "{logs}");
}

/// An attempt of a client or the agent. A refused one changes nothing.
#[derive(Debug, Clone)]
enum Attempt {
    Prompt(u8),
    Continue(u8, bool),
    CancelTurn,
    CancelPrompt(u8),
    CancelTask(u8),
    Say,
    Propose(u8, bool),
    Answer(u8, bool),
    Output(u8),
    End(u8),
    Finish(bool),
    Recover,
}

fn attempts() -> impl Strategy<Value = Attempt> {
    let small = 0..4u8;
    prop_oneof![
        3 => small.clone().prop_map(Attempt::Prompt),
        2 => (small.clone(), any::<bool>()).prop_map(|(task, over)| Attempt::Continue(task, over)),
        1 => Just(Attempt::CancelTurn),
        1 => small.clone().prop_map(Attempt::CancelPrompt),
        1 => small.clone().prop_map(Attempt::CancelTask),
        4 => Just(Attempt::Say),
        4 => (0..12u8, any::<bool>()).prop_map(|(call, asks)| Attempt::Propose(call, asks)),
        4 => (0..12u8, any::<bool>()).prop_map(|(call, yes)| Attempt::Answer(call, yes)),
        2 => (0..12u8).prop_map(Attempt::Output),
        2 => (0..12u8).prop_map(Attempt::End),
        2 => any::<bool>().prop_map(Attempt::Finish),
        1 => Just(Attempt::Recover),
    ]
}

pub(crate) fn settings() -> Settings {
    let limits = Limits::default();
    Settings {
        model: ModelName("m".into()),
        effort: None,
        mode: Mode::Ask,
        rules: Vec::new(),
        tools: None,
        unattended: false,
        timeout: None,
        limits,
    }
}

fn named(kind: &str, number: u8) -> String {
    format!("{kind}-{number}")
}

fn proposal(asks: bool) -> Proposal {
    Proposal {
        message: MessageId::from("m"),
        tool: "tool".into(),
        title: "title".into(),
        access: if asks { Access::Execute } else { Access::Read },
        input: serde_json::Value::Null,
        details: Details::Execute { command: "true".into(), directory: "/".into() },
        needs_person: false,
    }
}

fn command(attempt: &Attempt, number: usize, turn: TurnId) -> Option<Command> {
    let call = |number: &u8| CallId::new(named("call", *number));
    let task = |number: &u8| TaskId::new(named("task", *number));
    let report = |report| Some(Command::Report { turn, report });
    let prompt = |task| {
        let prompt = PromptId::new(format!("prompt-{number}"));
        Some(Command::Prompt { prompt, task, content: Content::text("go") })
    };
    match attempt {
        Attempt::Prompt(number) => prompt(TaskChoice::Named(task(number))),
        Attempt::Continue(number, true) => prompt(TaskChoice::Reopen(task(number))),
        Attempt::Continue(number, false) => prompt(TaskChoice::Continue(task(number))),
        Attempt::CancelTurn => Some(Command::Cancel { what: Cancel::Turn }),
        Attempt::CancelPrompt(number) => {
            let prompt = PromptId::new(named("prompt", *number));
            Some(Command::Cancel { what: Cancel::Prompt(prompt) })
        }
        Attempt::CancelTask(number) => Some(Command::Cancel { what: Cancel::Task(task(number)) }),
        Attempt::Say => {
            report(Report::Text { message: MessageId::from("m"), text: "word ".into() })
        }
        Attempt::Propose(number, asks) => {
            report(Report::Propose { call: call(number), proposal: proposal(*asks) })
        }
        Attempt::Answer(number, yes) => {
            let choice = if *yes { ChoiceId::PROCEED_ONCE } else { ChoiceId::CANCEL };
            let (to, choice) = (Question::Call(call(number)), ChoiceId::from(choice));
            Some(Command::Answer { to, choice, edit: None, digest: None, message: None })
        }
        Attempt::Output(number) => {
            report(Report::Output { call: call(number), text: "out".into(), skipped: 0 })
        }
        Attempt::End(number) => {
            let outcome = CallOutcome::Succeeded { output: Output::text("done") };
            report(Report::End { call: call(number), outcome })
        }
        Attempt::Finish(well) => report(Report::Finish {
            outcome: match well {
                true => TurnOutcome::Completed,
                false => TurnOutcome::failed("no"),
            },
        }),
        Attempt::Recover => None,
    }
}

proptest! {
    #[test]
    fn the_index_of_every_history_is_its_fold(steps in prop::collection::vec(prop::collection::vec(attempts(), 1..5), 1..40)) {
        let (mut both, mut single) = (IndexAndLog::default(), IndexAndLog::default());
        let origin = Origin::new(Surface::Cli, "tester");
        let opened = Event::SessionOpened {
            workspace: Workspace::Local { path: "/".into() },
            settings: settings(),
            agent: AgentName("a".into()),
        };
        both.step([(Millis(1), origin.clone(), opened.clone())]);
        single.step([(Millis(1), origin.clone(), opened)]);
        let mut number = 0;
        for step in &steps {
            // As the actor does: each decision sees the events of the one before, and one append has all of them.
            let mut decided: Vec<(Millis, Origin, Event)> = Vec::new();
            let mut state = both.session.clone();
            for attempt in step {
                number += 1;
                let at = Millis(number as i64 * 10);
                let turn = state.turn().map_or_else(|| TurnId::from("none"), |turn| turn.id.clone());
                let fresh = FreshIds::new(number as u64, at);
                let events = match command(attempt, number, turn) {
                    None => state.recover(&fresh),
                    Some(command) => {
                        let stamped = Stamped { command, at, origin: origin.clone(), fresh };
                        state.decide(&stamped, &loggia_shell::Parser).unwrap_or_default()
                    }
                };
                for event in events {
                    let seq = state.head().next();
                    state.apply(&Envelope { seq, at, origin: origin.clone(), event: event.clone() });
                    decided.push((at, origin.clone(), event));
                }
            }
            for event in decided.clone() {
                single.step([event]);
                prop_assert_eq!(&single.index, &single.folded());
            }
            both.step(decided);
            prop_assert_eq!(&both.index, &both.folded());
            prop_assert_eq!(&both.index, &single.index);
        }
    }
}
