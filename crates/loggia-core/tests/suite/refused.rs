//! The outcome of a turn whose calls were refused: not a success if no person refused them.

use loggia_core::{
    Access, CallFailure, CallOutcome, ChoiceId, Command, Content, Details, Event, Mode, OnTimeout,
    Origin, Output, Proposal, Question, Report, Seconds, Settings, TaskChoice, TaskState, Timeout,
    TurnOutcome,
};
use serde_json::json;

use super::generate::{World, client, open, settings};

/// One step of a turn.
#[derive(Clone, Copy)]
enum TurnStep {
    /// Proposes a call, which succeeds if it is allowed.
    Call(&'static str, Access),
    /// Proposes a call, which fails if it is allowed.
    Fail(&'static str, Access),
    /// A person refuses the open question.
    Refuse(&'static str),
    /// The open question times out.
    Expire(&'static str),
}

fn report(world: &mut World, report: Report) {
    let turn = world.session.turn().unwrap().id.clone();
    world.submit(Origin::agent(), Command::Report { turn, report }).unwrap();
}

fn call(world: &mut World, id: &str, access: Access, outcome: CallOutcome) {
    let proposal = Proposal {
        message: "message".into(),
        tool: "tool".into(),
        title: format!("do {id}"),
        access,
        input: json!({}),
        details: Details::Generic { text: id.to_owned() },
        needs_person: false,
    };
    report(world, Report::Propose { call: id.into(), proposal });
    let started = matches!(world.log.last().unwrap().event, Event::CallStarted { .. });
    if started {
        report(world, Report::End { call: id.into(), outcome });
    }
}

fn act(world: &mut World, step: TurnStep) {
    match step {
        TurnStep::Call(id, access) => {
            call(world, id, access, CallOutcome::Succeeded { output: Output::text("done") });
        }
        TurnStep::Fail(id, access) => {
            let failure = CallFailure::new("broken", "no");
            call(world, id, access, CallOutcome::Failed { failure });
        }
        TurnStep::Refuse(id) => {
            let (to, choice) = (Question::Call(id.into()), ChoiceId::CANCEL.into());
            let answer = Command::Answer { to, choice, edit: None, digest: None, message: None };
            world.submit(client(0), answer).unwrap();
        }
        TurnStep::Expire(id) => {
            let open = world.session.open_call(&id.into()).unwrap();
            let approval = open.approval.as_ref().unwrap().id.clone();
            world.submit(Origin::timeout(), Command::Expire { approval }).unwrap();
        }
    }
}

/// The outcome of a turn with these steps that its agent reports as completed.
fn ends(settings: Settings, steps: &[TurnStep]) -> TurnOutcome {
    let mut world = World::default();
    world.submit(client(0), open(settings)).unwrap();
    let (prompt, task) = ("prompt".into(), TaskChoice::New);
    let content = Content::text("do it");
    world.submit(client(0), Command::Prompt { prompt, task, content }).unwrap();
    for step in steps {
        act(&mut world, *step);
    }
    report(&mut world, Report::Finish { outcome: TurnOutcome::Completed });
    let ended = world.log.iter().rev().find_map(|it| match &it.event {
        Event::TurnEnded { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let (outcome, task) = (ended.unwrap(), world.tasks.last().unwrap());
    assert_eq!(world.session.task_state(task), Some(TaskState::of_outcome(&outcome)));
    outcome
}

const UNATTENDED: &str = "it needs an approval, and this session is unattended";

#[test]
fn a_turn_refused_without_a_person_is_not_a_success() {
    use Access::{Ask, Edit, Execute, Read, Session};
    let timeout = Timeout { after: Seconds(60), then: OnTimeout::Deny };
    let attended = |mode| Settings { timeout: Some(timeout), ..settings(mode, Vec::new()) };
    let alone = |mode| Settings { unattended: true, ..settings(mode, Vec::new()) };
    let refused = |message: &str| TurnOutcome::refused(message);
    let one = refused(&format!("do a was refused: {UNATTENDED}"));
    let table: [(Settings, &[TurnStep], TurnOutcome); 13] = [
        (alone(Mode::Ask), &[], TurnOutcome::Completed),
        (alone(Mode::Ask), &[TurnStep::Call("a", Read)], TurnOutcome::Completed),
        (alone(Mode::Ask), &[TurnStep::Call("a", Edit)], one.clone()),
        // A refused question to the user counts, too.
        (alone(Mode::Ask), &[TurnStep::Call("a", Ask)], one.clone()),
        // Calls that change nothing or fail do not reset it.
        (alone(Mode::Ask), &[TurnStep::Call("a", Edit), TurnStep::Call("b", Read)], one.clone()),
        (alone(Mode::Ask), &[TurnStep::Call("a", Edit), TurnStep::Call("b", Session)], one.clone()),
        (
            alone(Mode::Edits),
            &[TurnStep::Call("a", Execute), TurnStep::Fail("b", Edit)],
            one.clone(),
        ),
        // A later change that succeeds resets it.
        (
            alone(Mode::Edits),
            &[TurnStep::Call("a", Execute), TurnStep::Call("b", Edit)],
            TurnOutcome::Completed,
        ),
        // A change before the refusal does not.
        (alone(Mode::Edits), &[TurnStep::Call("b", Edit), TurnStep::Call("a", Execute)], one),
        (
            alone(Mode::Ask),
            &[TurnStep::Call("a", Edit), TurnStep::Call("b", Edit), TurnStep::Call("c", Execute)],
            refused(&format!("do a and 2 more were refused: {UNATTENDED}")),
        ),
        // With a person present, refusals by the person or the mode do not count.
        (
            attended(Mode::Ask),
            &[TurnStep::Call("a", Edit), TurnStep::Refuse("a")],
            TurnOutcome::Completed,
        ),
        (attended(Mode::Plan), &[TurnStep::Call("a", Edit)], TurnOutcome::Completed),
        // A question that times out counts.
        (
            attended(Mode::Ask),
            &[TurnStep::Call("a", Edit), TurnStep::Expire("a")],
            refused(&format!("do a was refused: {}", "no answer within 1m")),
        ),
    ];
    for (row, (settings, steps, wanted)) in table.into_iter().enumerate() {
        assert_eq!(ends(settings, steps), wanted, "row {row}");
    }
}

/// Outcomes in logs of this version and of older ones are read as they were written.
#[test]
fn outcomes_of_older_logs_read_as_they_were_written() {
    for (text, wanted) in [
        (r#"{"type":"completed"}"#, TurnOutcome::Completed),
        (r#"{"type":"failed","message":"m"}"#, TurnOutcome::failed("m")),
        (r#"{"type":"failed","message":"m","refused":true}"#, TurnOutcome::refused("m")),
    ] {
        let read: TurnOutcome = serde_json::from_str(text).unwrap();
        assert_eq!(read, wanted);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}

/// A task whose next prompt waits when its turn ends does not go back to `submitted`.
#[test]
fn a_task_between_two_of_its_turns_is_working() {
    let mut world = World::default();
    world.submit(client(0), open(settings(Mode::Ask, Vec::new()))).unwrap();
    let send = |world: &mut World, id: &str, task: TaskChoice| {
        let (prompt, content) = (id.into(), Content::text(id));
        world.submit(client(0), Command::Prompt { prompt, task, content }).unwrap();
    };
    let finish =
        |world: &mut World| report(world, Report::Finish { outcome: TurnOutcome::Completed });
    send(&mut world, "one", TaskChoice::New);
    let task = world.tasks.last().unwrap().clone();
    send(&mut world, "other", TaskChoice::New);
    send(&mut world, "two", TaskChoice::Continue(task.clone()));
    finish(&mut world);
    assert_eq!(world.session.task_state(&task), Some(TaskState::Working));
    finish(&mut world);
    finish(&mut world);
    assert_eq!(world.session.task_state(&task), Some(TaskState::Completed));
    // A task that was over and gets a queued message is submitted again.
    send(&mut world, "third", TaskChoice::New);
    send(&mut world, "again", TaskChoice::Reopen(task.clone()));
    assert_eq!(world.session.task_state(&task), Some(TaskState::Submitted));
}
