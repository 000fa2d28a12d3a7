//! Messages to a task: when they answer a question, when they are late answers, and when they are prompts.

use loggia_core::{
    Access, Cancel, ChoiceId, Command, Content, Details, Event, IfNotAnswer, LateUntil, Mode,
    Origin, Proposal, Question, Refusal, Reply, Report, TaskChoice, TaskId, TurnOutcome,
};
use serde_json::json;

use super::generate::{World, client, open, settings};

/// A session with an open question.
fn asking(details: Details) -> (World, TaskId) {
    let mut world = World::default();
    world.submit(client(0), open(settings(Mode::Ask, Vec::new()))).unwrap();
    let (prompt, content) = ("one".into(), Content::text("go"));
    world.submit(client(0), Command::Prompt { prompt, task: TaskChoice::New, content }).unwrap();
    let task = world.session.turn().unwrap().task.clone();
    propose(&mut world, "call", details);
    (world, task)
}

fn propose(world: &mut World, call: &str, details: Details) {
    let proposal = Proposal {
        message: "message".into(),
        tool: "tool".into(),
        title: "Do it".into(),
        access: if matches!(details, Details::Question { .. }) {
            Access::Ask
        } else {
            Access::Execute
        },
        input: json!({}),
        details,
        needs_person: false,
    };
    report(world, Report::Propose { call: call.into(), proposal });
}

fn report(world: &mut World, report: Report) {
    let turn = world.session.turn().unwrap().id.clone();
    world.submit(Origin::agent(), Command::Report { turn, report }).unwrap();
}

fn finish(world: &mut World) {
    report(world, Report::Finish { outcome: TurnOutcome::Completed });
}

fn command() -> Details {
    Details::Execute { command: "make".into(), directory: "/".into() }
}

fn question() -> Details {
    Details::Question { text: "Which?".into(), options: vec!["red".into(), "blue".into()] }
}

fn reply(task: &TaskId, text: &str) -> Reply {
    Reply {
        prompt: format!("reply-{text}").as_str().into(),
        task: TaskChoice::Reopen(task.clone()),
        content: Content::text(text),
        otherwise: IfNotAnswer::Prompt,
        late: LateUntil::UntilNextTurn,
        may_answer: true,
    }
}

/// The result of a reply, in a word.
fn result_of(world: &mut World, by: u8, reply: Reply) -> &'static str {
    let before = world.log.len();
    match world.submit(client(by), Command::Reply(reply)) {
        Ok(_) => match world.log.get(before).map(|added| &added.event) {
            Some(Event::ApprovalAnswered { .. }) => "answer",
            Some(Event::PromptAccepted { .. }) => "prompt",
            None => "nothing new",
            Some(other) => panic!("{other:?}"),
        },
        Err(Refusal::AlreadyAnswered { .. } | Refusal::ReplyTooLate { .. }) => "already answered",
        Err(Refusal::Withdrawn { .. }) => "withdrawn",
        Err(Refusal::NotAChoice { .. }) => "not a choice",
        Err(Refusal::TaskOver) => "task over",
        Err(Refusal::UnknownQuestion) => "unknown question",
        Err(Refusal::MayNotAnswer) => "may not answer",
        Err(other) => panic!("{other:?}"),
    }
}

/// After a question is answered, a word that names one of its choices is not a prompt, until the next turn of the task
/// starts.
#[test]
fn a_late_answer_is_never_a_prompt() {
    let (mut world, task) = asking(command());
    assert_eq!(result_of(&mut world, 1, reply(&task, "yes")), "answer");
    assert_eq!(result_of(&mut world, 1, reply(&task, "Yes.")), "nothing new");
    let late = ["yes", "no", "always", "2", "cancel", "Allow once"];
    for text in late {
        assert_eq!(result_of(&mut world, 2, reply(&task, text)), "already answered", "{text}");
    }
    finish(&mut world);
    for text in late {
        assert_eq!(result_of(&mut world, 2, reply(&task, text)), "already answered", "{text}");
        let plain = Reply { task: TaskChoice::Continue(task.clone()), ..reply(&task, text) };
        assert_eq!(result_of(&mut world, 2, plain), "already answered", "{text}");
        let ended = Reply { late: LateUntil::UntilTurnEnds, ..reply(&task, "perhaps") };
        assert_eq!(world.session.asked_by_reply(&ended, &client(2)), None);
    }
    let plain = Reply { task: TaskChoice::Continue(task.clone()), ..reply(&task, "and then?") };
    assert_eq!(result_of(&mut world, 2, plain), "task over");
    assert_eq!(result_of(&mut world, 2, reply(&task, "and then?")), "prompt");
    // The next turn has started.
    assert_eq!(result_of(&mut world, 2, reply(&task, "yes")), "prompt");
}

#[test]
fn an_answer_to_a_withdrawn_question_is_not_a_prompt() {
    let (mut world, task) = asking(command());
    world.submit(client(0), Command::Cancel { what: Cancel::Turn }).unwrap();
    assert_eq!(result_of(&mut world, 1, reply(&task, "yes")), "withdrawn");
}

/// A question to the user accepts any text, so any text is a late answer while its turn runs. Afterwards it is one if
/// another client gave the answer, until the next message to the task. The client that gave it continues the task.
#[test]
fn free_text_is_a_late_answer_if_another_client_answered() {
    let (mut world, task) = asking(question());
    assert_eq!(result_of(&mut world, 1, reply(&task, "green")), "answer");
    assert_eq!(result_of(&mut world, 2, reply(&task, "yellow")), "already answered");
    finish(&mut world);
    let plain = Reply { task: TaskChoice::Continue(task.clone()), ..reply(&task, "yellow") };
    assert_eq!(result_of(&mut world, 2, plain), "already answered");
    assert_eq!(result_of(&mut world, 2, reply(&task, "blue")), "already answered");
    let ended = world.session.clone();
    let late = Command::Reply(reply(&task, "green, please"));
    let refusal = world.submit(client(2), late).unwrap_err();
    assert!(
        matches!(&refusal, Refusal::ReplyTooLate { by, .. } if *by == client(1)),
        "{refusal:?}"
    );
    let only = Reply { otherwise: IfNotAnswer::Refused, ..reply(&task, "green, please") };
    let refusal = world.submit(client(2), Command::Reply(only)).unwrap_err();
    assert!(matches!(refusal, Refusal::AlreadyAnswered { .. }), "{refusal:?}");
    assert_eq!(result_of(&mut world, 1, reply(&task, "now the next one")), "prompt");
    assert_eq!(result_of(&mut world, 2, reply(&task, "and one more")), "prompt");
    // A message that is marked as a prompt is one at any time.
    world.session = ended;
    let (prompt, content) = ("marked".into(), Content::text("green, please"));
    let marked = Command::Prompt { prompt, task: TaskChoice::Reopen(task), content };
    world.submit(client(2), marked).unwrap();
}

/// Text of another client than the one that withdrew the question was meant as its answer. The client that withdrew it
/// continues the task.
#[test]
fn free_text_after_a_withdrawn_question_is_refused_to_other_clients() {
    let (mut world, task) = asking(question());
    world.submit(client(0), Command::Cancel { what: Cancel::Turn }).unwrap();
    assert_eq!(result_of(&mut world, 1, reply(&task, "blue")), "withdrawn");
    assert_eq!(result_of(&mut world, 1, reply(&task, "something else")), "withdrawn");
    assert_eq!(result_of(&mut world, 0, reply(&task, "something else")), "prompt");
}

/// The order in which the calls of one reply ask does not matter.
#[test]
fn words_answer_the_open_question_that_they_fit() {
    for order in [[command(), question()], [question(), command()]] {
        let [first, second] = order;
        let (mut world, task) = asking(first);
        propose(&mut world, "second", second);
        assert_eq!(result_of(&mut world, 1, reply(&task, "a free answer")), "answer");
        let (_, open) = world.session.open_approvals().next().unwrap();
        assert!(open.choices.iter().all(|choice| choice.id.0 != "answer"), "{open:?}");
        assert_eq!(result_of(&mut world, 1, reply(&task, "yes")), "answer");
    }
}

#[test]
fn a_reply_that_answers_nothing_is_treated_as_the_client_asks() {
    let (mut world, task) = asking(command());
    let unless = |text| Reply { otherwise: IfNotAnswer::PromptUnlessAsked, ..reply(&task, text) };
    assert_eq!(result_of(&mut world, 1, unless("perhaps")), "not a choice");
    assert_eq!(result_of(&mut world, 1, reply(&task, "perhaps")), "prompt");
    let only = |text| Reply { otherwise: IfNotAnswer::Refused, ..reply(&task, text) };
    assert_eq!(result_of(&mut world, 1, only("maybe")), "not a choice");
    let powerless = Reply { may_answer: false, ..reply(&task, "no") };
    assert_eq!(result_of(&mut world, 1, powerless.clone()), "may not answer");
    assert_eq!(result_of(&mut world, 1, reply(&task, "no")), "answer");
    assert_eq!(result_of(&mut world, 1, powerless), "may not answer");
    assert_eq!(result_of(&mut world, 1, only("maybe")), "unknown question");
    assert_eq!(result_of(&mut world, 1, unless("then this")), "prompt");
}

/// S1: a refusal skips the call, whatever edit comes with it.
#[test]
fn an_edit_with_a_refusal_is_ignored() {
    let (mut world, _) = asking(command());
    let edit = Some(loggia_core::Edit::File { content: "x".into() });
    let to = Question::Call("call".into());
    let choice = ChoiceId::from(ChoiceId::CANCEL);
    let answer = Command::Answer { to, choice, edit, digest: None, message: None };
    for _ in 0..2 {
        world.submit(client(1), answer.clone()).unwrap();
    }
    let edits = world.log.iter().filter_map(|envelope| match &envelope.event {
        Event::ApprovalAnswered { edit, details, .. } => Some((edit.clone(), details.clone())),
        _ => None,
    });
    assert_eq!(edits.collect::<Vec<_>>(), [(None, None)]);
}
