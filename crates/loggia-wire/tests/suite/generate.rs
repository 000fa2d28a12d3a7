//! Random valid logs: any mix of actions of clients and agents that the core accepts.

use loggia_core::{
    Artifact, CallId, CallOutcome, Cancel, Command, Edit, Envelope, Level, Output, Part, Report,
    Source, TaskChoice, TaskId, TurnOutcome,
};
use proptest::prelude::*;

use super::script::{Script, client, written};

#[derive(Debug, Clone)]
pub enum Action {
    Open,
    Prompt(TaskPick),
    Say(u8, String),
    Think(String),
    Cite,
    Propose(Kind),
    Answer(usize, usize),
    Output(usize, String),
    End(usize, Ending),
    Finish(Ending),
    CancelTurn,
    CancelTask(usize),
    Notice,
    Publish(bool, bool),
    Compact(String),
    NextReply,
    Wait(i64),
}

#[derive(Debug, Clone)]
pub enum TaskPick {
    New,
    Continue(usize),
    Reopen(usize),
}

#[derive(Debug, Clone)]
pub enum Kind {
    Read,
    Write,
    Shell,
    Ask,
}

#[derive(Debug, Clone)]
pub enum Ending {
    Good,
    Artifact(bool, bool),
    Bad,
    Cancelled,
}

pub fn log() -> impl Strategy<Value = Vec<Envelope>> {
    prop::collection::vec(action(), 1..60).prop_map(|actions| play(&actions))
}

fn action() -> impl Strategy<Value = Action> {
    let text = "[a-z é\n]{0,12}";
    prop_oneof![
        1 => Just(Action::Open),
        3 => pick().prop_map(Action::Prompt),
        4 => (0u8..3, text).prop_map(|(reply, text)| Action::Say(reply, text)),
        1 => text.prop_map(Action::Think),
        1 => Just(Action::Cite),
        5 => kind().prop_map(Action::Propose),
        5 => (0usize..3, 0usize..4).prop_map(|(call, choice)| Action::Answer(call, choice)),
        5 => (0usize..3, text).prop_map(|(call, text)| Action::Output(call, text)),
        4 => (0usize..3, ending()).prop_map(|(call, ending)| Action::End(call, ending)),
        2 => ending().prop_map(Action::Finish),
        1 => Just(Action::CancelTurn),
        1 => (0usize..4).prop_map(Action::CancelTask),
        1 => Just(Action::Notice),
        1 => any::<(bool, bool)>().prop_map(|(append, last)| Action::Publish(append, last)),
        1 => text.prop_map(Action::Compact),
        1 => Just(Action::NextReply),
        3 => (-50i64..200).prop_map(Action::Wait),
    ]
}

fn pick() -> impl Strategy<Value = TaskPick> {
    prop_oneof![
        3 => Just(TaskPick::New),
        1 => (0usize..4).prop_map(TaskPick::Continue),
        1 => (0usize..4).prop_map(TaskPick::Reopen),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Shell), Just(Kind::Ask)]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        3 => Just(Ending::Good),
        2 => any::<(bool, bool)>().prop_map(|(append, last)| Ending::Artifact(append, last)),
        1 => Just(Ending::Bad),
        1 => Just(Ending::Cancelled),
    ]
}

pub fn play(actions: &[Action]) -> Vec<Envelope> {
    let mut script = Script::new();
    let mut tasks: Vec<TaskId> = Vec::new();
    for action in actions {
        let idle = script.session.turn().is_none();
        let needs_no_turn =
            matches!(action, Action::Open | Action::Prompt(_) | Action::Wait(_) | Action::Notice);
        if idle && !needs_no_turn {
            perform(&mut script, &mut tasks, &Action::Prompt(TaskPick::New));
        }
        perform(&mut script, &mut tasks, action);
    }
    script.log
}

/// A refused command leaves no event; refusals are tested elsewhere.
fn perform(script: &mut Script, tasks: &mut Vec<TaskId>, action: &Action) {
    let named = |tasks: &[TaskId], index: usize| tasks.get(index % tasks.len().max(1)).cloned();
    match action {
        Action::Prompt(pick) => {
            let choice = match pick {
                TaskPick::New => Some(TaskChoice::New),
                TaskPick::Continue(index) => named(tasks, *index).map(TaskChoice::Continue),
                TaskPick::Reopen(index) => named(tasks, *index).map(TaskChoice::Reopen),
            };
            let task = choice.and_then(|choice| script.prompt_to(choice, "do it").ok());
            tasks.extend(task);
        }
        Action::Open => {
            let task = TaskId::from(format!("opened-{}", script.log.len()).as_str());
            let open = Command::OpenTask { task: task.clone(), profile: None };
            if script.submit(client("ann"), open).is_ok() {
                tasks.push(task);
            }
        }
        Action::Say(reply, text) => {
            let message = format!("reply-{reply}").as_str().into();
            let _ = script.report(Report::Text { message, text: text.clone() });
        }
        Action::Think(text) => {
            script.think("Thinking", text);
        }
        Action::Cite => {
            let source = Source { title: "a".into(), uri: "https://example.org".into() };
            let _ = script.report(Report::Cite { sources: vec![source] });
        }
        Action::Propose(kind) => {
            match kind {
                Kind::Read => script.read("a.txt"),
                Kind::Write => script.write("a.txt", "a\n"),
                Kind::Shell => script.shell("make"),
                Kind::Ask => script.ask("Which?", &["this", "that"]),
            };
        }
        Action::Answer(call, choice) => answer(script, *call, *choice),
        Action::Output(call, text) => {
            if let Some(call) = open_call(script, *call) {
                script.output(&call, text);
            }
        }
        Action::End(call, ending) => {
            if let Some(call) = open_call(script, *call) {
                let _ = script.report(Report::End { call, outcome: outcome(ending) });
            }
        }
        Action::Finish(ending) => {
            script.finish_as(match ending {
                Ending::Good | Ending::Artifact(..) => TurnOutcome::Completed,
                Ending::Bad => TurnOutcome::failed("it broke"),
                Ending::Cancelled => TurnOutcome::Interrupted,
            });
        }
        Action::CancelTurn => drop(script.cancel(Cancel::Turn)),
        Action::CancelTask(index) => {
            if let Some(task) = named(tasks, *index) {
                let _ = script.cancel(Cancel::Task(task));
            }
        }
        Action::Notice => {
            let (level, text) = (Level::Warning, "careful".to_owned());
            let _ = script.submit(client("ann"), Command::Notice { level, text });
        }
        Action::Publish(append, last) => {
            let _ = script.report(Report::Publish { artifact: report_piece(*append, *last) });
        }
        Action::Compact(summary) => {
            let _ = script.report(Report::Compact {
                summary: summary.clone(),
                reach: loggia_core::CompactReach::Everything,
            });
        }
        Action::NextReply => {
            script.next_reply();
        }
        Action::Wait(millis) => {
            script.wait(*millis);
        }
    }
}

fn open_call(script: &Script, index: usize) -> Option<CallId> {
    let calls = &script.session.turn()?.calls;
    calls.get(index % calls.len().max(1)).map(|call| call.id.clone())
}

fn answer(script: &mut Script, call: usize, choice: usize) {
    let open: Vec<(CallId, Vec<String>)> = script
        .session
        .open_approvals()
        .map(|(call, approval)| {
            let choices = approval.choices.iter().map(|choice| choice.id.0.clone()).collect();
            (call.id.clone(), choices)
        })
        .collect();
    if let Some((call, choices)) = open.get(call % open.len().max(1)) {
        let choice = &choices[choice % choices.len()];
        let edit = (choice == "answer").then(|| Edit::Text { text: "this one".into() });
        let _ = script.answer("ann", call, choice, edit);
    }
}

fn report_piece(append: bool, last: bool) -> Artifact {
    let (id, name) = ("report".into(), "report".into());
    Artifact { id, name, parts: vec![Part::Text { text: "piece\n".into() }], append, last }
}

fn outcome(ending: &Ending) -> CallOutcome {
    match ending {
        Ending::Good => CallOutcome::Succeeded { output: written("a.txt", "a\n") },
        Ending::Artifact(append, last) => {
            let artifact = report_piece(*append, *last);
            CallOutcome::Succeeded {
                output: Output { artifact: Some(artifact), ..Output::default() },
            }
        }
        Ending::Bad => {
            CallOutcome::Failed { failure: loggia_core::CallFailure::new("broken", "it broke") }
        }
        Ending::Cancelled => CallOutcome::Cancelled { reason: "no longer needed".into() },
    }
}
