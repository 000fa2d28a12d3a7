//! Questions that time out: the answers of the policy.

use loggia_core::{
    Access, ApprovalId, CallOutcome, ChoiceId, Command, Content, Details, Event, Mode, OnTimeout,
    Origin, Proposal, Question, Refusal, Report, Seconds, Settings, TaskChoice, Timeout,
    TurnOutcome,
};
use proptest::prelude::*;
use serde_json::json;

use super::generate::{World, client, histories, open, settings};
use super::laws::config;

proptest! {
    #![proptest_config(config())]

    /// A timeout never starts a call and never adds a rule. It answers only open questions, each once.
    #[test]
    fn a_time_out_allows_nothing(world in histories()) {
        for taken in &world.steps {
            let Command::Expire { approval } = &taken.stamped.command else { continue };
            let Ok(range) = taken.outcome.clone() else { continue };
            let (before, added) = (&world.log[..range.start], &world.log[range]);
            let allows = |event: &Event| {
                matches!(event, Event::CallStarted { .. } | Event::PolicyAmended { .. })
            };
            prop_assert!(!added.iter().any(|it| allows(&it.event)));
            let answers = |it: &&loggia_core::Envelope| matches!(
                &it.event,
                Event::ApprovalAnswered { approval: to, choice, .. }
                    if to == approval && !choice.proceeds()
            );
            let answered = added.iter().filter(answers).count();
            prop_assert_eq!(answered, usize::from(!added.is_empty()));
            let was_over = before.iter().any(|it| matches!(
                &it.event,
                Event::ApprovalAnswered { approval: to, .. } if to == approval
            ));
            prop_assert!(added.is_empty() || !was_over);
        }
    }
}

/// A session with two open questions and a queued prompt.
fn asking(timeout: Option<Timeout>) -> (World, Vec<ApprovalId>) {
    let mut world = World::default();
    let settings = Settings { timeout, ..settings(Mode::Ask, Vec::new()) };
    world.submit(client(0), open(settings)).unwrap();
    for id in ["one", "two"] {
        let content = Content::text(id);
        let prompt = Command::Prompt { prompt: id.into(), task: TaskChoice::New, content };
        world.submit(client(0), prompt).unwrap();
    }
    for call in ["call-a", "call-b"] {
        let proposal = Proposal {
            message: "message".into(),
            tool: "shell".into(),
            title: "Run make".into(),
            access: Access::Execute,
            input: json!({}),
            details: Details::Execute { command: "make".into(), directory: "/".into() },
            needs_person: false,
        };
        let turn = world.session.turn().unwrap().id.clone();
        let report = Report::Propose { call: call.into(), proposal };
        world.submit(Origin::agent(), Command::Report { turn, report }).unwrap();
    }
    let asked = world.session.open_approvals().map(|(_, approval)| approval.id.clone()).collect();
    (world, asked)
}

fn expire(world: &mut World, approval: &ApprovalId) -> Vec<String> {
    let command = Command::Expire { approval: approval.clone() };
    let range = world.submit(Origin::timeout(), command).unwrap();
    let said = world.log[range].iter().map(|envelope| {
        assert_eq!(envelope.origin.to_string(), "the time-out");
        match &envelope.event {
            Event::ApprovalAnswered { call, choice, .. } => format!("{call}: {choice}"),
            Event::CallEnded { call, outcome: CallOutcome::Cancelled { reason } } => {
                format!("{call} was not made: {reason}")
            }
            Event::TurnEnded { outcome: TurnOutcome::Cancelled, .. } => "cancelled".to_owned(),
            Event::TurnStarted { prompt, .. } => format!("{prompt} begins"),
            Event::NoticeRaised { text, .. } => text.clone(),
            other => panic!("{other:?}"),
        }
    });
    said.collect()
}

#[test]
fn each_policy_answers_a_timeout_its_way() {
    let timeout = |then| Some(Timeout { after: Seconds(90), then });
    let denied: &[&str] = &["call-a: cancel", "call-a was not made: no answer within 90s"];
    let cancelled: &[&str] = &[
        "The turn was cancelled: no answer within 90s.",
        "call-b was not made: no answer within 90s",
        "call-a: cancel",
        "call-a was not made: no answer within 90s",
        "cancelled",
        "two begins",
    ];
    let cases: [(Option<Timeout>, &[&str]); 4] = [
        (None, &[]),
        (timeout(OnTimeout::Wait), &[]),
        (timeout(OnTimeout::Deny), denied),
        (timeout(OnTimeout::Cancel), cancelled),
    ];
    for (timeout, wanted) in cases {
        let (mut world, asked) = asking(timeout);
        assert_eq!(expire(&mut world, &asked[0]), wanted, "{timeout:?}");
        let again: &[&str] = &[];
        if !wanted.is_empty() {
            assert_eq!(expire(&mut world, &asked[0]), again, "twice: {timeout:?}");
        }
        assert_eq!(expire(&mut world, &"nobody-asked".into()), again, "{timeout:?}");
    }
}

#[test]
fn an_earlier_answer_wins_and_a_later_one_is_refused() {
    let (mut world, asked) = asking(Some(Timeout { after: Seconds(60), then: OnTimeout::Deny }));
    let answer = |approval: &ApprovalId| Command::Answer {
        to: Question::Approval(approval.clone()),
        choice: ChoiceId::PROCEED_ONCE.into(),
        edit: None,
        digest: None,
        message: None,
    };
    world.submit(client(1), answer(&asked[0])).unwrap();
    assert_eq!(expire(&mut world, &asked[0]), [""; 0]);
    assert!(!expire(&mut world, &asked[1]).is_empty());
    let late = world.submit(client(1), answer(&asked[1])).unwrap_err();
    let Refusal::AlreadyAnswered { choice, by, .. } = &late else { panic!("{late:?}") };
    assert_eq!((choice.0.as_str(), by), (ChoiceId::CANCEL, &Origin::timeout()));
}

#[test]
fn durations_are_parsed_and_shown() {
    let cases = [
        ("1s", Some(1), "1s"),
        ("90s", Some(90), "90s"),
        ("600s", Some(600), "10m"),
        ("10m", Some(600), "10m"),
        ("2h", Some(7_200), "2h"),
        ("48h", Some(172_800), "2d"),
        ("0m", Some(0), "0s"),
        ("", None, ""),
        ("m", None, ""),
        ("10", None, ""),
        ("+10m", None, ""),
        ("-1s", None, ""),
        ("1.5h", None, ""),
        ("1h30m", None, ""),
        ("10 m", None, ""),
        ("10M", None, ""),
        ("99999999999999999999s", None, ""),
        ("18446744073709551615d", None, ""),
    ];
    for (text, seconds, shown) in cases {
        let read = text.parse::<Seconds>();
        assert_eq!(read.ok().map(|read| read.0), seconds, "{text}");
        if let Ok(read) = read {
            assert_eq!(read.to_string(), shown, "{text}");
        }
    }
}
