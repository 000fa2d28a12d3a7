//! A person's own command line, run by the native agent.

use loggia_core::{Authority, CallOutcome, Event, Mode, TurnOutcome};

use crate::fixture::{Fixture, processes};

/// The events up to the end of the turn.
async fn turn(fixture: &mut Fixture) -> Vec<Event> {
    fixture.wait_for(|event| matches!(event, Event::TurnEnded { .. })).await;
    std::mem::take(&mut fixture.seen)
}

fn outcomes(events: &[Event]) -> Vec<&CallOutcome> {
    let ended = events.iter().filter_map(|event| match event {
        Event::CallEnded { outcome, .. } => Some(outcome),
        _ => None,
    });
    ended.collect()
}

/// It runs even in plan mode and without an approval. The model of a later turn gets the line and its
/// output.
#[tokio::test]
async fn it_runs_unchanged_and_the_model_reads_it_later() {
    let mut fixture = Fixture::native(Mode::Plan).await;
    fixture.types("echo it is $((40 + 2))").await;
    let events = turn(&mut fixture).await;
    let authority = events.iter().find_map(|event| match event {
        Event::CallStarted { authority, .. } => Some(authority),
        _ => None,
    });
    let prompt = events.iter().find_map(|event| match event {
        Event::PromptAccepted { prompt, shell: true, .. } => Some(prompt.clone()),
        _ => None,
    });
    assert_eq!(authority, Some(&Authority::Typed { prompt: prompt.unwrap() }));
    let printed = events
        .iter()
        .any(|event| matches!(event, Event::CallOutput { text, .. } if text == "it is 42\n"));
    assert!(printed, "{events:#?}");
    assert!(!events.iter().any(|event| matches!(event, Event::TextAppended { .. })));
    let [CallOutcome::Succeeded { output }] = outcomes(&events)[..] else { panic!("{events:#?}") };
    assert_eq!(output.text, "it is 42\n");

    fixture.prompt("/compact").await;
    let summary = fixture
        .until(|event| match event {
            Event::ContextCompacted { summary, .. } => Some(summary.clone()),
            _ => None,
        })
        .await;
    assert!(summary.contains("Asked: !echo it is $((40 + 2))"), "{summary}");
    assert!(summary.contains("Did: run_shell_command echo it is $((40 + 2)), done"), "{summary}");
}

#[tokio::test]
async fn a_failed_line_is_reported_and_the_turn_succeeds() {
    let mut fixture = Fixture::native(Mode::Ask).await;
    fixture.types("echo no; exit 3").await;
    let events = turn(&mut fixture).await;
    let [CallOutcome::Failed { failure }] = outcomes(&events)[..] else { panic!("{events:#?}") };
    assert_eq!((failure.code, failure.message.as_str()), (Some(3), "no\nexit status 3"));
    let ended = events.last();
    assert!(matches!(ended, Some(Event::TurnEnded { outcome: TurnOutcome::Completed, .. })));
}

#[tokio::test]
async fn cancelling_the_turn_ends_it_with_everything_it_started() {
    let mut fixture = Fixture::native(Mode::Ask).await;
    let mark = format!("98{}", std::process::id());
    fixture.types(&format!("sleep {mark} & echo ready; wait")).await;
    fixture.wait_for(|event| matches!(event, Event::CallOutput { .. })).await;
    assert!(processes(&format!("sleep {mark} &")).next().is_some());
    fixture.cancel().await;
    let events = turn(&mut fixture).await;
    let [CallOutcome::Cancelled { .. }] = outcomes(&events)[..] else { panic!("{events:#?}") };
    // The next line runs only after all processes of the last one have ended.
    fixture.types("true").await;
    turn(&mut fixture).await;
    assert_eq!(processes(&mark).next(), None);
}

#[tokio::test]
async fn a_line_that_the_shell_cannot_run_is_reported() {
    let mut fixture = Fixture::native(Mode::Ask).await;
    for (line, wanted) in [(" ".to_owned(), "empty"), ("x".repeat(200_000), "bytes")] {
        fixture.types(&line).await;
        let events = turn(&mut fixture).await;
        let [CallOutcome::Failed { failure }] = outcomes(&events)[..] else {
            panic!("{events:#?}")
        };
        assert!(failure.message.contains(wanted), "{failure:?}");
    }
}

/// A prompt of a protocol's client goes to the model even if it begins with the mark.
#[tokio::test]
async fn a_prompt_that_begins_with_the_mark_runs_nothing() {
    let mut fixture = Fixture::native(Mode::All).await;
    fixture.prompt("!touch made").await;
    let events = turn(&mut fixture).await;
    assert!(outcomes(&events).is_empty(), "{events:#?}");
    assert!(!fixture.root().join("made").exists());
}
