//! Time is paused: it moves only where a test advances it.

use loggia_core::{
    Access, AgentName, Choice, ChoiceId, Details, Envelope, Event, OnTimeout, Origin, Risk,
    Seconds, Seq, Settings, Timeout, Workspace,
};

use super::*;

const MORNING: i64 = 1_767_603_600_000;

fn second(count: i64) -> Millis {
    Millis(MORNING + 1_000 * count)
}

fn within(seconds: u64) -> Option<Timeout> {
    Some(Timeout { after: Seconds(seconds), then: OnTimeout::Deny })
}

/// A session in which questions were asked at these seconds of the morning.
fn asking(timeout: Option<Timeout>, asked: &[i64]) -> Session {
    let mut session = Session::default();
    let mut add = |at: i64, event: Event| {
        let seq = Seq(session.head().0 + 1);
        session.apply(&Envelope { seq, at: second(at), origin: Origin::agent(), event });
    };
    let workspace = Workspace::Local { path: "/".into() };
    let settings = Settings { timeout, ..crate::batch::tests::settings() };
    let agent = AgentName("a".into());
    add(0, Event::SessionOpened { workspace, settings, agent });
    add(0, Event::TurnStarted { turn: "turn".into(), prompt: "p".into(), task: "t".into() });
    for at in asked {
        let call = format!("call-{at}");
        add(
            *at,
            Event::CallProposed {
                turn: "turn".into(),
                message: "m".into(),
                call: call.as_str().into(),
                tool: "shell".into(),
                title: "run".into(),
                access: Access::Execute,
                input: serde_json::Value::Null,
                details: Details::Generic { text: "run".into() },
            },
        );
        let cancel = Choice { id: ChoiceId::CANCEL.into(), name: "no".into(), description: None };
        add(
            *at,
            Event::ApprovalAsked {
                approval: format!("asked-{at}").as_str().into(),
                call: call.as_str().into(),
                choices: vec![cancel],
                risk: Risk::Normal,
            },
        );
    }
    session
}

#[tokio::test(start_paused = true)]
async fn the_time_left_is_counted_from_when_the_question_was_asked() {
    // Timeout, when asked, when seen; the question that times out first, and in how many seconds.
    type Case<'a> = (Option<Timeout>, &'a [i64], i64, Option<(&'a str, u64)>);
    let cases: &[Case<'_>] = &[
        (None, &[0], 5, None),
        (Some(Timeout { after: Seconds(60), then: OnTimeout::Wait }), &[0], 5, None),
        (within(60), &[], 5, None),
        (within(60), &[0], 0, Some(("asked-0", 60))),
        (within(60), &[0], 15, Some(("asked-0", 45))),
        (within(60), &[0, 10], 15, Some(("asked-0", 45))),
        // It timed out while no actor ran.
        (within(60), &[0], 60, Some(("asked-0", 0))),
        (within(60), &[0], 86_400, Some(("asked-0", 0))),
        // The clock was set back: it counts as asked now.
        (within(60), &[0], -86_400, Some(("asked-0", 60))),
        (within(60), &[0], i64::MIN / 1_000_000, Some(("asked-0", 60))),
        // Longer than the clock can count.
        (within(u64::MAX), &[0], 0, None),
    ];
    for (timeout, asked, seen, wanted) in cases {
        let session = asking(*timeout, asked);
        let next = ApprovalTimeouts::default().next(&session, || second(*seen));
        let next = next.map(|(due, id)| (id.to_string(), (due - Instant::now()).as_secs()));
        let wanted = wanted.map(|(id, left)| (id.to_owned(), left));
        assert_eq!(next, wanted, "{timeout:?} {asked:?} {seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn setting_the_clock_changes_nothing_once_the_question_is_known() {
    let session = asking(within(60), &[0]);
    let mut timeouts = ApprovalTimeouts::default();
    let first = timeouts.next(&session, || second(0));
    tokio::time::advance(Duration::from_secs(20)).await;
    for seen in [20, 100_000, -100_000] {
        assert_eq!(timeouts.next(&session, || second(seen)), first, "{seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_policy_applies_to_open_questions() {
    let mut timeouts = ApprovalTimeouts::default();
    let began = Instant::now();
    assert!(timeouts.next(&asking(within(60), &[0]), || second(0)).is_some());
    tokio::time::advance(Duration::from_secs(20)).await;
    let next = timeouts.next(&asking(within(30), &[0]), || second(20));
    assert_eq!(next.map(|(due, _)| due - began), Some(Duration::from_secs(30)));
    // Off and on again: the time of the log counts.
    assert_eq!(timeouts.next(&asking(None, &[0]), || second(20)), None);
    let next = timeouts.next(&asking(within(90), &[0]), || second(20));
    assert_eq!(next.map(|(due, _)| due - began), Some(Duration::from_secs(90)));
    assert_eq!(timeouts.next(&asking(within(90), &[]), || second(20)), None);
    assert!(timeouts.open.is_empty(), "a question that is over is forgotten");
}
